//! Our figures beside those of a paper, as a table. No state, no threads.

use std::collections::BTreeMap;

use heliox_bench::thousands;
use heliox_report::{median, Aside, Table};
use serde_json::Value;

use super::overhead;
use super::papers::{Shown, Suite, Told};
use super::quantity::Quantity;
use crate::raw;
use crate::results::Results;

/// What the columns are.
const LEGEND: &str =
    "to paper: ours divided by the paper's, of medians over the repeats; better above \
     1 for rates, below 1 for all else; -: not known, not measured, or not told";

/// The same where there is no paper.
const LEGEND_ALONE: &str = "medians over the repeats; -: not measured, or not told";

/// Whom papers compare themselves with.
const PEER: &str = "rocksdb";

/// What is held against what, on one line.
struct Line {
    name: String,
    /// The part that ran it, where several did.
    part: Option<PartRun>,
    workload: &'static str,
    /// Which of its runs in the part, from 1 on.
    time: usize,
    threads: usize,
    quantity: Quantity,
    told: Option<Told>,
}

/// What tells a part from the others in its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartRun {
    /// In bytes.
    pub(crate) memory: u64,
    /// How many keys.
    pub(crate) num: u64,
}

/// The engines beside the paper, and the raw device, where it was measured, beside the paper's.
pub(crate) fn show(suite: &Suite, parts: &[PartRun], results: &Results) -> Aside {
    let rows = results.to_json();
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = suite
        .shown
        .iter()
        .flat_map(|shown| lines(suite, parts, shown));
    let all = parts.last().copied();
    let title = format!("{}: {}", suite.name, suite.source);
    let lines: Vec<Line> = lines.collect();
    let mut tables = vec![table(&title, &lines, &results.engines, rows, all)];
    if results.raw.is_some() && !suite.devices.is_empty() {
        tables.push(table_of_device(suite, rows));
    }
    let mut notes = vec![if suite.told.is_empty() {
        LEGEND_ALONE.to_owned()
    } else {
        LEGEND.to_owned()
    }];
    if let Some(raw) = results.raw.as_ref().filter(|_| suite.measures_overhead()) {
        tables.push(overhead::table(raw, &results.engines, rows));
        notes.push(overhead::LEGEND.to_owned());
    }
    Aside {
        title: format!("Suite {}", suite.name),
        tables,
        notes,
    }
}

fn table_of_device(suite: &Suite, rows: &[Value]) -> Table {
    let line = |told: &Told| Line {
        name: format!(
            "{}, depth {}, {}",
            told.workload,
            told.threads,
            told.quantity.name()
        ),
        part: None,
        workload: told.workload,
        time: 1,
        threads: told.threads,
        quantity: told.quantity,
        told: Some(*told),
    };
    let lines: Vec<Line> = suite.devices.iter().map(line).collect();
    let title = "devices: data sheets of the paper's, which do not tell a depth for rates";
    table(title, &lines, &[raw::NAME.to_owned()], rows, None)
}

/// A line for each figure that the paper tells, and one without where it tells none.
fn lines(suite: &Suite, parts: &[PartRun], shown: &Shown) -> Vec<Line> {
    let part = shown.part.and_then(|part| parts.get(part).copied());
    let keys = part.map_or(0.0, |part| part.num as f64);
    let label = shown.label.replace("{keys}", &thousands(keys));
    let mut lines = Vec::new();
    for threads in shown.threads {
        for quantity in shown.quantities {
            let line = |told: Option<Told>| Line {
                name: match threads {
                    1 => format!("{label}, 1 thread, {}", quantity.name()),
                    more => format!("{label}, {more} threads, {}", quantity.name()),
                },
                part,
                workload: shown.workload,
                time: shown.time,
                threads: *threads,
                quantity: *quantity,
                told,
            };
            let before = lines.len();
            let told = suite.told.iter().filter(|told| {
                told.workload == shown.workload
                    && told.part == shown.part
                    && told.threads == *threads
                    && told.quantity == *quantity
            });
            lines.extend(told.map(|told| line(Some(*told))));
            if lines.len() == before {
                lines.push(line(None));
            }
        }
    }
    lines
}

fn table(
    title: &str,
    lines: &[Line],
    engines: &[String],
    rows: &[Value],
    all: Option<PartRun>,
) -> Table {
    let papers = lines.iter().any(|line| line.told.is_some());
    let mut header = vec!["quantity"];
    header.extend(papers.then_some(["paper's", "paper"]).into_iter().flatten());
    for engine in engines {
        header.push(engine.as_str());
        header.extend(papers.then_some("to paper"));
    }
    let mut table = Table::new(title, header.into_iter().map(str::to_owned).collect());
    for line in lines {
        let system = line.told.map_or("-", |told| told.system);
        let paper = line.told.map(|told| told.figure);
        let show = |figure: Option<f64>| or_dash(figure.map(|figure| line.quantity.show(figure)));
        let mut cells = vec![line.name.clone()];
        if papers {
            cells.extend([system.to_owned(), show(paper)]);
        }
        for engine in engines {
            let ours = measured(line, engine, rows, all);
            let ratio = ours.zip(paper).map(|(ours, paper)| ours / paper);
            cells.push(show(ours));
            cells.extend(papers.then(|| or_dash(ratio.map(show_ratio))));
        }
        table.rows.push(cells);
    }
    table
}

/// The figure of a line; `all` is the part in which all data are in memory.
fn measured(line: &Line, engine: &str, rows: &[Value], all: Option<PartRun>) -> Option<f64> {
    let ours = median_of(line, engine, line.part, line.workload, rows)?;
    let divisor = match line.quantity {
        Quantity::ToMemory => median_of(line, engine, all, line.workload, rows)?,
        quantity if quantity.is_to_peer() => median_of(line, PEER, line.part, line.workload, rows)?,
        _ => 1.0,
    };
    (divisor > 0.0).then(|| ours / divisor)
}

/// The median over the repeats.
fn median_of(
    line: &Line,
    engine: &str,
    part: Option<PartRun>,
    workload: &str,
    rows: &[Value],
) -> Option<f64> {
    let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_u64);
    let is = |row: &&Value| {
        row.get("engine").and_then(Value::as_str) == Some(engine)
            && row.get("workload").and_then(Value::as_str) == Some(workload)
            && number(row, "threads") == Some(line.threads as u64)
            && part.is_none_or(|part| {
                number(row, "memory_bytes") == Some(part.memory)
                    && number(row, "num") == Some(part.num)
            })
    };
    // The run of that number in each repeat.
    let mut times: BTreeMap<Option<u64>, usize> = BTreeMap::new();
    let figures = rows.iter().filter(is).filter(|row| {
        let time = times.entry(number(row, "repeat")).or_default();
        *time += 1;
        *time == line.time
    });
    let figures: Vec<f64> = figures.filter_map(|row| line.quantity.of(row)).collect();
    median(&figures)
}

/// Small ratios keep their digits.
fn show_ratio(ratio: f64) -> String {
    if ratio < 0.1 {
        format!("{ratio:.4}")
    } else {
        format!("{ratio:.2}")
    }
}

pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Measured;
    use crate::suite::papers::SUITES;
    use serde_json::json;

    fn text_of(suite: &Suite, parts: &[PartRun], results: &Results) -> String {
        let aside = show(suite, parts, results);
        let tables = aside.tables.iter().map(Table::text);
        tables.chain(aside.notes).collect::<Vec<_>>().join("\n")
    }

    fn results(rows: &[Value]) -> Results {
        let measured = rows.iter().zip(1..).map(|(row, repeat)| Measured {
            repeat,
            fields: row.as_object().cloned().unwrap(),
        });
        Results {
            engines: vec!["heliox".to_owned(), "lmdb".to_owned()],
            measured: measured.collect(),
            failures: Vec::new(),
            raw: None,
            memory_limit: String::new(),
            interrupted: false,
        }
    }

    #[test]
    fn ours_stands_beside_the_paper_with_the_ratio() {
        let row = |workload: &str, threads: u64, rate: f64| {
            json!({
                "engine": "heliox", "workload": workload, "threads": threads, "ops_per_s": rate,
                "mean_us": 71.6,
            })
        };
        let rows = [
            row("readwhilewriting", 32, 400e3),
            row("readwhilewriting", 32, 494e3),
            row("readwhilewriting", 64, 43e3),
            row("readwhilewriting", 16, 1.0),
        ];
        let suite = SUITES.iter().find(|suite| suite.name == "herocks").unwrap();
        let text = text_of(suite, &[], &results(&rows));
        let line = |name: &str, system: &str| {
            let mut lines = text
                .lines()
                .filter(|line| line.contains(&format!(" {name} ")));
            let found = lines
                .find(|line| line.contains(&format!(" {system} ")))
                .unwrap();
            let cells = found.trim_matches('│').split('┆').skip(2).map(str::trim);
            cells.map(str::to_owned).collect::<Vec<_>>()
        };
        let rate = "readwhilewriting, 32 threads, ops/s";
        assert_eq!(
            line(rate, "HeRocks, Z-SSD"),
            ["894,000", "447,000", "0.50", "-", "-"]
        );
        assert_eq!(
            line(rate, "RocksDB 5.2.1, PM1725a"),
            ["67,000", "447,000", "6.67", "-", "-"]
        );
        let mean = line("readwhilewriting, 32 threads, mean us", "HeRocks, Z-SSD");
        assert_eq!(mean, ["35.8", "71.6", "2.00", "-", "-"]);
        let other = line("readwhilewriting, 64 threads, ops/s", "HeRocks");
        assert_eq!(other, ["4,300,000", "43,000", "0.0100", "-", "-"]);
        assert_eq!(
            line("fillseq, 64 threads, p99 us", "RocksDB"),
            ["373", "-", "-", "-", "-"]
        );
        assert!(!text.contains("devices:"), "{text}");
    }

    #[test]
    fn rates_are_held_against_those_in_memory() {
        let suite = SUITES.iter().find(|suite| suite.name == "scylla").unwrap();
        let row = |memory: u64, found: u64| {
            json!({
                "engine": "heliox", "workload": "readrandom", "threads": 64, "ops_per_s": 1.0,
                "memory_bytes": memory, "num": 7, "latency_limit": { "found_rate": found },
                "memory_share": 0.4,
            })
        };
        let rows = [row(25, 2100), row(50, 4000), row(150, 10_000)];
        let parts = [25, 25, 50, 75, 150].map(|memory| PartRun { memory, num: 7 });
        let text = text_of(suite, &parts, &results(&rows));
        let line = |name: &str| {
            let found = text.lines().find(|line| line.contains(name)).unwrap();
            let cells = found.trim_matches('│').split('┆').skip(2).map(str::trim);
            cells.take(3).map(str::to_owned).collect::<Vec<_>>()
        };
        let to_memory = "64 threads, rate to all in memory";
        for (share, expected) in [
            ("25 %", ["0.42", "0.21", "0.50"]),
            ("50 %", ["0.56", "0.40", "0.71"]),
            ("75 %", ["0.77", "-", "-"]),
        ] {
            assert_eq!(
                line(&format!("reads, {share} in memory, {to_memory}")),
                expected
            );
        }
        let hits = line("reads, 50 % in memory, 64 threads, share from memory");
        assert_eq!(hits, ["0.50", "0.40", "0.80"]);
        let all = line("reads, all in memory, 64 threads, ops/s");
        assert_eq!(all, ["570,000", "10,000", "0.0175"]);
    }

    #[test]
    fn what_a_paper_tells_as_a_ratio_is_held_against_rocksdb_here() {
        let suite = SUITES.iter().find(|suite| suite.name == "hse").unwrap();
        let row = |engine: &str, rate: f64, p999: f64| {
            json!({
                "engine": engine, "workload": "ycsb-a", "threads": 96, "ops_per_s": rate,
                "reads": { "p999_us": p999 }, "writes": null,
            })
        };
        let rows = [row("heliox", 300e3, 200.0), row("rocksdb", 100e3, 800.0)];
        let mut all = results(&rows);
        all.measured[1].repeat = 1;
        let text = text_of(suite, &[], &all);
        let line = |name: &str| {
            let found = text.lines().find(|line| line.contains(name)).unwrap();
            let cells = found.trim_matches('│').split('┆').skip(2).map(str::trim);
            cells.take(3).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            line("A, 96 threads, rate to RocksDB's"),
            ["6.00", "3.00", "0.50"]
        );
        assert_eq!(
            line("A, 96 threads, p99.9 of reads to RocksDB's"),
            ["0.58", "0.25", "0.43"]
        );
        assert_eq!(
            line("A, 96 threads, written B/op to RocksDB's"),
            ["0.15", "-", "-"]
        );
        assert_eq!(line("B, 96 threads, rate to RocksDB's"), ["6.00", "-", "-"]);
    }

    #[test]
    fn what_the_paper_does_not_tell_is_shown_without() {
        let suite = SUITES.iter().find(|suite| suite.name == "helium").unwrap();
        let row = json!({
            "engine": "lmdb", "workload": "deleterandom", "threads": 8, "p999_us": 12.5,
        });
        let text = text_of(suite, &[], &results(&[row]));
        let line = text
            .lines()
            .find(|line| line.contains("delete, 8 threads, p99.9 us"));
        let cells: Vec<&str> = line
            .unwrap()
            .trim_matches('│')
            .split('┆')
            .map(str::trim)
            .collect();
        assert_eq!(cells[1..], ["-", "-", "-", "-", "12.5", "-"]);
    }

    #[test]
    fn without_a_paper_the_runs_of_a_workload_are_told_apart_by_number_and_part() {
        let suite = SUITES.iter().find(|suite| suite.name == "growth").unwrap();
        let rows = [(1000, 10.0), (1000, 20.0), (2000, 30.0), (2000, 40.0)].map(|(num, rate)| {
            json!({
                "engine": "heliox", "workload": "readrandom", "threads": 4, "ops_per_s": rate,
                "memory_bytes": 64, "num": num, "peak_rss_bytes": 5000,
            })
        });
        let mut results = results(&rows);
        for row in &mut results.measured {
            row.repeat = 1;
        }
        let parts = [1000, 2000].map(|num| PartRun { memory: 64, num });
        let text = text_of(suite, &parts, &results);
        let line = |name: &str| {
            let found = text.lines().find(|line| line.contains(name)).unwrap();
            let cells = found.trim_matches('│').split('┆').map(str::trim);
            cells.skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            line("1,000 objects: cached get, 4 threads, ops/s"),
            ["20", "-"]
        );
        assert_eq!(
            line("2,000 objects: cached get, 4 threads, ops/s"),
            ["40", "-"]
        );
        assert_eq!(
            line("2,000 objects: cached get, 4 threads, memory"),
            ["2.5", "-"]
        );
        assert!(
            !text.contains("paper's ") && !text.contains("to paper"),
            "{text}"
        );
    }
}
