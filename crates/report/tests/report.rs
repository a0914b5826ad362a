//! What a file of results becomes, through the door of the crate: tables, comparisons, the page,
//! and errors for what is no such file.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use heliox_report::{Report, Results};
use serde_json::{json, Value};

/// A row as the programs write it.
fn row(engine: &str, workload: &str, threads: u64, repeat: u64, ops_per_s: f64) -> Value {
    let nines = [0.0, 90.0, 99.0, 99.9, 99.99, 99.999];
    let percentiles: Vec<Value> = nines.iter().map(|p| json!([p, 1.5 + p])).collect();
    json!({
        "engine": engine, "workload": workload, "threads": threads, "repeat": repeat,
        "ops": 1000, "seconds": 3.6, "ops_per_s": ops_per_s,
        "p50_us": 1.5, "p99_us": 100.5, "p999_us": 101.4, "max_us": 200.0,
        "longest_stall_ms": 12.25, "key_size": 16, "value_size": 400, "durability": "bounded",
        "memory_bytes": 134_217_728, "write_amplification": 1.25, "kernel_read_bytes": 4_096_000,
        "cpu_seconds": 0.5, "index_bytes_per_object": 11.5, "objects": 1000,
        "disk_bytes": 500_000, "peak_rss_bytes": 2_000_000, "memory_limit": "cgroup",
        "ops_by_second": [300, 250, 280, 170], "cpu_seconds_by_second": [1.5, 1.25, 1.0, 0.5],
        "write_bytes_by_second": [2_097_152, 0, 1, 2], "read_bytes_by_second": [0, 0, 0, 0],
        "calls_by_latency": [[2, 900], [5, 99], [10, 1]], "percentiles_us": percentiles,
        "field_of_a_later_version": { "x": [1] },
    })
}

fn results(name: &str, rows: &[Value]) -> Results {
    Results::parse(name, Value::from(rows).to_string().as_bytes()).unwrap()
}

fn line<'t>(text: &'t str, name: &str) -> &'t str {
    let start = format!("│ {name} ");
    let found = text.lines().find(|line| line.starts_with(&start));
    assert!(found.is_some(), "no line {name}: {text}");
    found.unwrap()
}

fn refused(text: &str) -> String {
    let error = Results::parse("r.json", text.as_bytes()).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("r.json"), "{error}");
    error
}

#[test]
fn engines_stand_beside_each_other_with_medians_and_failures() {
    let rows = [
        row("heliox", "fillseq", 2, 1, 1000.0),
        row("lmdb", "fillseq", 2, 1, 500.0),
        row("heliox", "fillseq", 2, 2, 3000.0),
        json!({ "engine": "redb", "repeat": 1, "failed": "disk full\nsecond line" }),
    ];
    let text = Report::new(results("r.json", &rows)).text();
    for expected in [
        "2,000",
        "1.00",
        "100 %",
        "4,096",
        "500",
        "1.25",
        "488.28 KiB",
    ] {
        assert!(
            line(&text, "heliox").contains(expected),
            "{expected}: {text}"
        );
    }
    assert!(line(&text, "lmdb").contains("0.25"), "{text}");
    assert!(line(&text, "redb").contains("FAILED"), "{text}");
    for expected in [
        "redb, repeat 1: disk full\nsecond line",
        "memory limit: cgroup",
        "value size 400",
        "memory 128.00 MiB",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn one_engine_is_one_table_and_empty_columns_are_left_out() {
    let mut read = row("heliox", "readrandom", 1, 1, 10.0);
    read["write_amplification"] = Value::Null;
    let text = Report::new(results(
        "r.json",
        &[row("heliox", "fillseq", 1, 1, 5.0), read],
    ))
    .text();
    assert_eq!(text.matches("workload").count(), 1, "{text}");
    assert!(line(&text, "readrandom").contains(" - "), "{text}");
    assert!(
        !text.contains("to heliox") && !text.contains("spread"),
        "{text}"
    );
}

#[test]
fn the_raw_device_has_a_table_of_its_own_and_is_no_engine() {
    let point = |operation: &str, depth: u64, ops_per_s: f64| {
        json!({
            "engine": "raw-device", "workload": operation, "threads": depth, "ops": 10,
            "seconds": 2.0, "ops_per_s": ops_per_s, "mean_us": 81.25, "p95_us": 92.5, "p99_us": 103.5,
            "block_bytes": 131_072, "file_bytes": 1 << 30, "direct": true, "preconditioned": true,
            "tool": "fio-3.36 <b>", "repeat": 1,
        })
    };
    let mut engine = row("heliox", "readrandom", 1, 1, 10.0);
    engine["raw_device_share"] = json!(0.25);
    let mut synced = point("syncwrite-4k", 1, 900.0);
    synced["tool"] = json!("a thread");
    let more = point("seqread-128k", 16, 15_000.0);
    let mut rows = vec![point("seqread-128k", 32, 16_000.0), more, synced, engine];
    let report = Report::new(results("r.json", &rows));
    let (text, html) = (report.text(), report.html().unwrap());
    let told = line(&text, "seqread-128k");
    for cell in ["128.00 KiB", "32", "16,000", "2,000", "81.2", "92.5", "104"] {
        let cell = format!(" {cell} ");
        assert!(told.contains(&cell), "{cell}: {text}");
        assert!(
            html.contains(&format!("<td>{}</td>", cell.trim())),
            "{cell}"
        );
    }
    // One engine: its workloads beside each other, and no ratio to another.
    assert!(line(&text, "readrandom").contains("25 %"), "{text}");
    assert!(
        !text.contains("to heliox") && !html.contains("2 engines"),
        "{text}"
    );
    assert!(
        !html.contains("<h2>Scaling"),
        "the depth is no number of threads"
    );
    let note = "raw device: by fio-3.36 <b>; syncwrite-4k by a thread; in a file of 1.00 GiB; written over twice before";
    assert!(
        text.contains(note) && text.contains("of raw: reads"),
        "{text}"
    );
    assert!(html.contains("fio-3.36 &lt;b&gt;"));
    assert!(!text.contains("NOT THE RAW DEVICE"), "{text}");
    rows.truncate(1);
    rows[0]["direct"] = json!(false);
    let report = Report::new(results("r.json", &rows));
    assert!(report.text().contains("NOT THE RAW DEVICE"));
    assert!(report.html().unwrap().contains("seqread-128k"));
    rows[0]["p95_us"] = json!(-1);
    let error = refused(&Value::from(rows).to_string());
    assert!(
        error.contains("raw-device, seqread-128k: p95_us is -1"),
        "{error}"
    );
}

#[test]
fn what_was_run_in_several_ways_is_not_put_together() {
    let mut large = row("heliox", "fillseq", 1, 1, 30.0);
    large["value_size"] = json!(4000);
    large["distribution"] = json!("hotspot");
    let mut offered = row("heliox", "overwrite", 1, 1, 50.0);
    offered["open_loop"] = json!({ "rate": 71, "offered_ops_per_s": 70.5, "keeps_up": false });
    let rows = [
        row("heliox", "fillseq", 1, 1, 10.0),
        row("heliox", "fillseq", 1, 1, 20.0),
        large,
        row("heliox", "fillseq", 4, 1, 40.0),
        offered,
        row("heliox", "overwrite", 1, 1, 60.0),
    ];
    let text = Report::new(results("r.json", &rows)).text();
    for (name, speed) in [
        ("value size 400, 1 thread", "10"),
        ("value size 400, time 2, 1 thread", "20"),
        ("value size 4000, distribution hotspot, 1 thread", "30"),
        ("value size 400, 4 threads", "40"),
    ] {
        assert!(
            line(&text, name).contains(&format!(" {speed} ┆")),
            "{name}: {text}"
        );
    }
    assert!(text.contains("NOT KEPT UP: heliox, overwrite"), "{text}");
    assert!(
        text.contains("threads 1 / 4") && text.contains("rate 71"),
        "{text}"
    );
    let offered = line(&text, "value size 400, rate 71, 1 thread");
    assert!(
        offered.contains(" 50 ") && offered.contains(" 70 "),
        "{text}"
    );
}

#[test]
fn differences_beyond_the_spread_are_marked_and_others_are_not() {
    let speeds = |workload: &str, speeds: [f64; 3]| {
        let rows = speeds.into_iter().enumerate();
        let rows = rows.map(|(place, speed)| row("heliox", workload, 1, place as u64 + 1, speed));
        rows.collect::<Vec<_>>()
    };
    let old = [
        speeds("fillseq", [100.0, 110.0, 120.0]),
        speeds("overwrite", [100.0, 110.0, 120.0]),
        speeds("scan", [100.0, 110.0, 120.0]),
        vec![
            row("heliox", "readrandom", 1, 1, 10.0),
            row("heliox", "ycsb-a", 1, 1, 1.0),
        ],
    ]
    .concat();
    let mut new = [
        speeds("fillseq", [131.0, 132.0, 133.0]),
        speeds("overwrite", [100.0, 129.0, 130.0]),
        speeds("scan", [80.0, 85.0, 89.0]),
        vec![
            row("heliox", "readrandom", 1, 1, 20.0),
            row("heliox", "ycsb-b", 1, 1, 1.0),
        ],
    ]
    .concat();
    for row in &mut new {
        row["value_size"] = json!(100);
        row["p99_us"] = json!(90.0);
    }
    let report = Report::compare(results("old.json", &old), results("new.json", &new));
    let text = report.text();
    assert!(line(&text, "fillseq").contains("better 1.20"), "{text}");
    assert!(
        line(&text, "fillseq").contains("better 0.90"),
        "less latency: {text}"
    );
    let within = line(&text, "overwrite");
    for mark in ["better", "WORSE", "?"] {
        assert!(!within.contains(&format!("{mark} 1.17")), "{text}");
    }
    assert!(within.contains(" 1.17 "), "{text}");
    assert!(line(&text, "scan").contains("WORSE 0.77"), "{text}");
    assert!(line(&text, "readrandom").contains("? 2.00"), "{text}");
    for expected in [
        "A: old.json",
        "B: new.json",
        "only in A: ycsb-a",
        "only in B: ycsb-b",
        "value size is 400 in A and 100 in B",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let html = report.html().unwrap();
    for expected in [
        "<td class=\"better\">better 1.20",
        "<td class=\"worse\">WORSE 0.77",
        "old.json",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
}

#[test]
fn runs_with_nothing_in_common_are_told_apart() {
    let one = results("a.json", &[row("heliox", "fillseq", 1, 1, 1.0)]);
    let other = results("b.json", &[row("heliox", "fillseq", 2, 1, 1.0)]);
    let report = Report::compare(one, other);
    assert!(report
        .text()
        .contains("only in A: fillseq, heliox, 1 thread"));
    assert!(report.html().unwrap().contains("in common"));
}

/// Attributes and rules by which a page loads something.
const LOADING: [&str; 8] = [
    "src=", "href", "url(", "@import", "<script", "<link", "<iframe", "<img",
];

#[test]
fn the_page_has_every_series_and_refers_to_nothing_outside() {
    let mut rows = Vec::new();
    for engine in ["heliox", "lmdb"] {
        for threads in [1, 4] {
            rows.push(row(engine, "fillseq", threads, 1, 100.0 * threads as f64));
            rows.push(row(engine, "ycsb-a", threads, 1, 80.0 * threads as f64));
        }
    }
    let html = Report::new(results("r.json", &rows)).html().unwrap();
    let outside = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(
        !outside.contains("://"),
        "a reference besides the namespace"
    );
    for loading in LOADING {
        assert!(!html.contains(loading), "{loading}");
    }
    for title in [
        "Operations a second",
        "Latency",
        "Latency, CDF",
        "Latency distribution",
        "Speed over time",
        "Device traffic over time",
        "Processors over time",
        "Scaling over threads",
        "Write amplification",
        "Memory and space",
    ] {
        assert!(html.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    // A line for each of the two engines, in charts of latency, its CDF and of speed, writes and processors
    // over time for each of the two workloads and numbers of threads, and in those of scaling for
    // each workload. Nothing was read, of which there is no chart.
    let lines = html.split("<polyline ").skip(1).filter(|tag| {
        let tag = tag.split('>').next().unwrap();
        !tag.contains("stroke=\"#E4E4E4\"")
    });
    assert_eq!(lines.count(), 2 * (2 * 4 + 3 * 4 + 2));
    // With those of bars: four of speed, four of amplification, eight of the distribution, three of
    // memory and space.
    assert_eq!(
        html.matches("<figure>").count(),
        (2 * 4 + 3 * 4 + 2) + 4 + 4 + 8 + 3
    );
    for part in [
        "fillseq, 1 thread, written",
        "up to 5 us",
        "9.9 %",
        "0.10 %",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("thread, read<"));
    assert!(html.contains("ycsb-a, 4 threads") && html.contains("fillseq, 1 thread<"));
}

#[test]
fn names_are_escaped_in_the_page_and_cannot_upset_a_terminal() {
    let rows = [
        row(
            "<script>alert(1)</script>",
            "<i>fill\u{1b}[2Jseq",
            1,
            1,
            1.0,
        ),
        row("a & b \"c\"", "<i>fill\u{1b}[2Jseq", 1, 1, 2.0),
        json!({ "engine": "x", "failed": "<img src=x>\u{1b}]0;" }),
    ];
    let report = Report::new(results("<b>.json", &rows));
    let html = report.html().unwrap();
    for evil in ["<script", "<img", "<b>", "<i>", "\u{1b}"] {
        assert!(!html.contains(evil), "{evil}");
    }
    assert!(html.contains("&lt;script&gt;alert(1)") && html.contains("a &amp; b &quot;c&quot;"));
    assert!(!report.text().contains('\u{1b}'));
}

#[test]
fn a_file_of_an_earlier_version_is_shown_without_the_plots_it_cannot_have() {
    let mut old = row("heliox", "fillseq", 1, 1, 5.0);
    let fields = old.as_object_mut().unwrap();
    for name in [
        "ops_by_second",
        "read_bytes_by_second",
        "write_bytes_by_second",
        "cpu_seconds_by_second",
        "calls_by_latency",
        "percentiles_us",
        "repeat",
        "kernel_read_bytes",
        "cpu_seconds",
    ] {
        fields.remove(name);
    }
    let report = Report::new(results("old.json", &[old]));
    assert!(line(&report.text(), "fillseq").contains("12.2"));
    let html = report.html().unwrap();
    assert!(!html.contains("<h2>Latency") && !html.contains("<h2>Speed over time"));
    assert!(html.contains("<h2>Operations a second"));
    let mut short = row("heliox", "fillseq", 1, 1, 5.0);
    short["ops_by_second"] = json!([5]);
    let mut rows = vec![short, row("heliox", "scan", 1, 1, 5.0)];
    let dots = |rows: &[Value]| {
        let html = Report::new(results("r.json", rows)).html().unwrap();
        let section = html
            .split("<h2>Speed over time")
            .nth(1)?
            .split("<h2>")
            .next();
        section.map(|section| section.matches("<circle").count())
    };
    assert_eq!(dots(&rows), Some(1), "a single second beside a line");
    rows.pop();
    assert_eq!(dots(&rows), None, "a single second is no line");
    let least = json!([{ "engine": "e", "workload": "w", "threads": 1, "ops_per_s": 0 }]);
    let least = Results::parse("r", least.to_string().as_bytes()).unwrap();
    assert!(Report::new(least)
        .html()
        .unwrap()
        .contains("<h2>Operations a second"));
}

#[test]
fn what_is_no_file_of_results_is_refused_with_place_and_advice() {
    for (text, expected) in [
        ("", "cut off: EOF while parsing a value at line 1 column 0"),
        (
            "[{\"engine\": \"x\",\n",
            "cut off: EOF while parsing a value at line 2",
        ),
        ("ops,seconds\n", "not JSON"),
        ("{", "cut off: EOF while parsing an object"),
        ("{}", "expected a sequence at line 1"),
        ("[\n3]", "at line 2 column 1"),
        ("[]", "holds no results"),
        ("[{\"engine\": 7}]", "expected a string at line 1"),
        (
            "[{\"engine\": \"e\", \"ops_per_s\": \"fast\"}]",
            "expected f64",
        ),
        (
            "[{\"engine\": \"e\", \"percentiles_us\": [[1]]}]",
            "expected a tuple of size 2",
        ),
        ("[{\"rows\": 1}]", "row 1: the field engine is missing"),
        (
            "[{\"engine\": \"e\", \"failed\": \"x\"}, {\"engine\": \"e\"}]",
            "row 2: the field workload",
        ),
        (
            "[{\"engine\": \"e\", \"workload\": \"w\"}]",
            "row 1: e, w: the field threads",
        ),
        (
            "[{\"engine\": \"e\", \"workload\": \"w\", \"threads\": 1}]",
            "the field ops_per_s",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text}: {error}");
        let advises = error.contains("heliox bench --json") || error.contains("run it again");
        assert!(advises, "{text}: {error}");
    }
    let mut wrong = row("heliox", "fillseq", 1, 1, -1.0);
    assert!(refused(&json!([wrong]).to_string()).contains("ops_per_s is -1"));
    wrong["ops_per_s"] = json!(1e30);
    assert!(refused(&json!([wrong]).to_string()).contains("ops_per_s is 1"));
    wrong["ops_per_s"] = json!(1.0);
    wrong["ops_by_second"] = json!([1, -2]);
    assert!(refused(&json!([wrong]).to_string()).contains("ops_by_second holds -2"));
    wrong["ops_by_second"] = json!([]);
    wrong["calls_by_latency"] = json!([[1, -7]]);
    assert!(refused(&json!([wrong]).to_string()).contains("calls_by_latency holds -7"));
    wrong["calls_by_latency"] = json!([]);
    wrong["percentiles_us"] = json!([[100.0, 3.0]]);
    assert!(refused(&json!([wrong]).to_string()).contains("percentiles_us holds [100, 3]"));
}

#[test]
fn opening_a_store_is_told_in_seconds_and_not_as_a_speed() {
    let rows = ["heliox", "lmdb"].map(|engine| {
        let mut row = row(engine, "reopen", 1, 1, 4.0);
        row["open_seconds"] = json!(0.125);
        row["close_seconds"] = json!(0.5);
        row
    });
    let report = Report::new(results("r.json", &rows));
    let text = report.text();
    let cells: Vec<&str> = line(&text, "heliox").split('┆').map(str::trim).collect();
    assert_eq!(cells[1..3], ["0.125", "0.500"], "{text}");
    assert!(!text.contains("ops/s ┆"), "{text}");
    let html = report.html().unwrap();
    assert!(html.contains("<h2>Opening</h2>") && html.contains("0.125"));
    for title in ["Operations a second", "Latency", "Latency distribution"] {
        assert!(!html.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
}

#[test]
fn reads_that_found_less_than_was_there_are_told_and_others_are_not() {
    let read = |engine: &str, found: u64, expected: Option<u64>| {
        let mut row = row(engine, "readrandom", 2, 1, 9e6);
        row["found"] = json!(found);
        row["found_expected"] = json!(expected);
        row
    };
    let rows = [
        read("heliox", 1000, Some(1000)),
        read("lmdb", 999, Some(1000)),
        read("old", 0, None),
    ];
    let report = Report::new(results("r.json", &rows));
    let text = report.text();
    let notes: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("FOUND"))
        .collect();
    assert_eq!(notes.len(), 1, "{text}");
    assert!(
        notes[0].contains("lmdb, readrandom, 2 threads: 999 keys where 1,000 were expected"),
        "{text}"
    );
    assert!(line(&text, "lmdb").contains(" 999 "), "{text}");
    assert!(text.contains("found:"), "{text}");
    let html = report.html().unwrap();
    assert!(
        html.contains("<li class=\"alarm\">FOUND FEWER: lmdb"),
        "{html}"
    );
    // More than the keys of the run may be in a store that is read as a whole, but not what is missing.
    let told = |workload: &str| {
        let mut row = row("heliox", workload, 1, 1, 5.0);
        row["found"] = json!(7);
        row["found_expected"] = json!(0);
        let rows = [row];
        Report::new(results("r.json", &rows))
            .text()
            .contains("FOUND MORE")
    };
    assert!(told("readmissing") && !told("readseq"));
    let whole = Report::new(results("r.json", &[read("heliox", 1000, Some(1000))])).text();
    assert!(!whole.contains("found"), "{whole}");
}

#[test]
fn where_no_rate_was_found_there_is_no_speed() {
    let search = |engine: &str, repeat: u64, found: Option<u64>| {
        let mut row = row(engine, "readrandom", 2, repeat, 1234.0);
        row["latency_limit"] = json!({ "limit": "p95=1ms", "found_rate": found, "trials": [] });
        row
    };
    let rows = [search("heliox", 1, Some(2000)), search("lmdb", 1, None)];
    let report = Report::new(results("r.json", &rows));
    let text = report.text();
    let cells = |name| {
        let cells = line(&text, name).split('┆').map(str::trim);
        cells.skip(1).take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("heliox"), ["2,000", "1.00"], "{text}");
    assert_eq!(cells("lmdb"), ["-", "-"], "{text}");
    let note = "NO RATE FOUND: lmdb, readrandom, 2 threads: none at which p95=1ms holds";
    assert!(text.contains(note), "{text}");
    let html = report.html().unwrap();
    let bars = html.split("<h2>Operations a second</h2>").nth(1).unwrap();
    let bars = bars.split("<section>").next().unwrap();
    assert!(bars.contains("2,000") && !bars.contains("lmdb"), "{bars}");
    // Among repeats, those without a rate take no part.
    let rows = [search("heliox", 1, Some(2000)), search("heliox", 2, None)];
    let text = Report::new(results("r.json", &rows)).text();
    assert!(
        text.contains(" 2,000 ") && text.contains("threads, repeat 2: none"),
        "{text}"
    );
}

#[test]
fn the_page_has_a_cdf_and_lines_over_the_number_of_keys() {
    let of = |engine: &str, num: u64, rate: f64| {
        let mut row = row(engine, "readrandom", 4, 1, rate);
        row["num"] = json!(num);
        row
    };
    let rows = [
        of("heliox", 1000, 10.0),
        of("heliox", 1000, 500.0),
        of("heliox", 1_000_000, 9.0),
        of("heliox", 1_000_000, 400.0),
        of("lmdb", 1000, 3.0),
    ];
    let html = Report::new(results("r.json", &rows)).html().unwrap();
    assert!(html.contains("<h2>Latency, CDF</h2>"), "{html}");
    let growth = html.split("<h2>Growth over keys</h2>").nth(1).unwrap();
    let growth = growth.split("</section>").next().unwrap();
    for title in [
        "readrandom, 4 threads: operations a second",
        "readrandom, time 2, 4 threads: operations a second",
        "readrandom, 4 threads: peak memory, bytes a key",
        "readrandom, 4 threads: occupied, bytes a key",
    ] {
        assert!(
            growth.contains(&format!("<figcaption>{title}<")),
            "{title}: {growth}"
        );
    }
    // A single size is no line, nor is there growth where all had as many keys.
    assert!(!growth.contains("lmdb"), "{growth}");
    let html = Report::new(results("r.json", &rows[..2])).html().unwrap();
    assert!(!html.contains("Growth over keys") && html.contains("Latency, CDF"));
}

/// What stands in the bar charts under a heading, chart by chart and from top to bottom.
fn bars(html: &str, heading: &str) -> Vec<Vec<String>> {
    let section = html.split(&format!("<h2>{heading}</h2>")).nth(1);
    let section = section.unwrap().split("</section>").next().unwrap();
    let texts = |svg: &str| {
        let texts = svg.split("<text").skip(1);
        let text = texts.map(|text| text.split(['>', '<']).nth(1).unwrap().trim().to_owned());
        text.collect()
    };
    section.split("<svg").skip(1).map(texts).collect()
}

#[test]
fn an_engine_that_failed_is_marked_at_its_place() {
    let failed = |engine: &str| json!({ "engine": engine, "repeat": 1, "failed": "disk full" });
    let rows = [
        row("heliox", "fillseq", 1, 1, 100.0),
        row("lmdb", "fillseq", 1, 1, 200.0),
        row("redb", "fillseq", 1, 1, 300.0),
        row("heliox", "readseq", 1, 1, 400.0),
        row("redb", "readseq", 1, 1, 500.0),
        failed("fjall"),
        failed("lmdb"),
    ];
    let report = Report::new(results("r.json", &rows));
    let html = report.html().unwrap();
    let fill = [
        "heliox", "100", "lmdb", "200", "redb", "300", "fjall", "failed",
    ];
    let read = [
        "heliox", "400", "lmdb", "failed", "redb", "500", "fjall", "failed",
    ];
    let told = bars(&html, "Operations a second");
    assert_eq!(told, [fill.to_vec(), read.to_vec()]);
    let drawn = |svg: &str| svg.matches("<rect").count();
    let charts: Vec<_> = html.split("<svg").skip(1).take(2).map(drawn).collect();
    assert_eq!(charts[0], charts[1] + 1, "a bar of nothing is no bar");
    for part in [
        "fill=\"#B3261E\"",
        "svg [fill=\"#B3261E\"] { fill: var(--bad)",
    ] {
        assert!(
            html.contains(part),
            "the mark stands out, in the dark too: {part}"
        );
    }
    // Where no engine tells a figure there is no chart of those that failed.
    assert!(!html.contains("<h2>Opening"));
    let text = report.text();
    let read = text.split("readseq").nth(1).unwrap();
    let places = ["heliox", "lmdb", "redb", "fjall"].map(|engine| read.find(engine));
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
}

#[test]
fn what_failed_in_one_of_two_runs_is_marked_beside_the_other() {
    let mut opened = row("heliox", "reopen", 1, 1, 1.0);
    opened["open_seconds"] = json!(2.5);
    let old = [
        row("heliox", "fillseq", 1, 1, 100.0),
        row("heliox", "readseq", 1, 1, 200.0),
        opened,
    ];
    let failed = json!({ "engine": "heliox", "repeat": 1, "failed": "disk full" });
    let new = [old[0].clone(), failed.clone()];
    let html = |old: &[Value], new: &[Value]| {
        let (old, new) = (results("old.json", old), results("new.json", new));
        Report::compare(old, new).html().unwrap()
    };
    let page = html(&old, &new);
    let speeds = [
        "fillseq A",
        "100",
        "fillseq B",
        "100",
        "readseq A",
        "200",
        "readseq B",
        "failed",
    ];
    assert_eq!(bars(&page, "Operations a second"), [speeds.to_vec()]);
    let opening = ["reopen A", "2.500", "reopen B", "failed"];
    assert_eq!(bars(&page, "Opening"), [opening.to_vec()]);
    let turned = bars(&html(&new, &old), "Operations a second");
    assert_eq!(turned[0][4..], ["readseq A", "failed", "readseq B", "200"]);
    // One that was not asked for is no failure.
    let without = bars(&html(&old, &new[..1]), "Operations a second");
    assert_eq!(without, [speeds[..4].to_vec()]);
}
