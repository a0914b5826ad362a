//! What an engine adds to the device: mean and p95 of reads that fall due at the rates that the raw device
//! had, beside the device's own. No state, no threads.

use heliox_bench::{short, thousands};
use heliox_report::{median, Table};
use serde_json::Value;

use super::beside::or_dash;
use super::papers::OVERHEAD_THREADS;
use crate::raw::{Point, Raw};

/// What the columns are.
pub(super) const LEGEND: &str =
    "over the device: the device has so many requests under way at its own rate; reads fall due at that rate, or \
     at the nearest lower one that an engine keeps up with (its ops/s), and count from when they were due; \
     more: the engine's minus the device's, in us; the paper's p95 is 6 to 7.1 times its device's";

/// A line for each engine and depth.
pub(super) fn table(raw: &Raw, engines: &[String], rows: &[Value]) -> Table {
    let header = [
        "engine",
        "depth",
        "device ops/s",
        "mean us",
        "p95 us",
        "ops/s",
        "mean us",
        "p95 us",
        "more: mean",
        "more: p95",
        "p95 ratio",
    ];
    let header = header.map(str::to_owned).to_vec();
    let mut table = Table::new("over the device, at its rates", header);
    for engine in engines {
        let lines = raw.reads().enumerate();
        let lines = lines.map(|(place, point)| line(engine, point, &runs(engine, place, rows)));
        table.rows.extend(lines);
    }
    table
}

/// The runs of an engine at the rate of that place, one a repeat, as far as it kept up.
fn runs<'r>(engine: &str, place: usize, rows: &'r [Value]) -> Vec<&'r Value> {
    let threads: Option<u64> = OVERHEAD_THREADS.parse().ok();
    let is = |row: &&Value| {
        row.get("engine").and_then(Value::as_str) == Some(engine)
            && row.get("workload").and_then(Value::as_str) == Some("readrandom")
            && row.get("threads").and_then(Value::as_u64) == threads
    };
    let repeat = |row: &Value| row.get("repeat").and_then(Value::as_u64);
    let rows: Vec<&Value> = rows.iter().filter(is).collect();
    let of_place = rows.iter().enumerate().filter(|(at, row)| {
        let before = rows.iter().take(*at);
        before.filter(|other| repeat(other) == repeat(row)).count() == place
    });
    let kept_up = |row: &&Value| {
        let keeps_up = row.pointer("/open_loop/keeps_up");
        keeps_up.and_then(Value::as_bool) == Some(true)
    };
    of_place.map(|(_, row)| *row).filter(kept_up).collect()
}

fn line(engine: &str, point: &Point, runs: &[&Value]) -> Vec<String> {
    let of = |name: &str| {
        let figures = runs.iter().filter_map(|row| row.get(name)?.as_f64());
        median(&figures.collect::<Vec<f64>>())
    };
    let (mean, p95) = (of("mean_us"), of("p95_us"));
    let more = |ours: Option<f64>, device: f64| or_dash(ours.map(|ours| signed(ours - device)));
    let ratio = p95.filter(|_| point.p95_us > 0.0);
    vec![
        engine.to_owned(),
        point.depth.to_string(),
        thousands(point.ops_per_s()),
        short(point.mean_us),
        short(point.p95_us),
        or_dash(of("ops_per_s").map(thousands)),
        or_dash(mean.map(short)),
        or_dash(p95.map(short)),
        more(mean, point.mean_us),
        more(p95, point.p95_us),
        or_dash(ratio.map(|p95| format!("{:.2}", p95 / point.p95_us))),
    ]
}

fn signed(micros: f64) -> String {
    let sign = if micros < 0.0 { "-" } else { "+" };
    format!("{sign}{}", short(micros.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Pattern;
    use serde_json::json;

    #[test]
    fn an_engine_stands_beside_the_device_at_each_depth() {
        let point = |pattern, depth, ops, mean_us| Point {
            pattern,
            depth,
            ops,
            seconds: 1.0,
            mean_us,
            p95_us: 2.0 * mean_us,
            p99_us: 3.0 * mean_us,
        };
        let raw = Raw {
            tool: "a test".to_owned(),
            file_bytes: 1,
            preconditioned: false,
            direct: true,
            points: vec![
                point(Pattern::RandomRead, 1, 10_000, 100.0),
                point(Pattern::RandomWrite, 1, 5, 7.0),
                point(Pattern::RandomRead, 2, 18_000, 110.0),
            ],
        };
        let row = |repeat: u64, rate: f64, mean_us: f64, keeps_up: bool| {
            json!({
                "engine": "heliox", "workload": "readrandom", "threads": 48, "repeat": repeat,
                "ops_per_s": rate, "mean_us": mean_us, "p95_us": 2.5 * mean_us,
                "open_loop": { "keeps_up": keeps_up },
            })
        };
        let rows = [
            row(1, 9990.0, 130.0, true),
            row(1, 15_300.0, 90.0, true),
            row(2, 9990.0, 150.0, true),
            row(2, 99.0, 9999.0, false),
        ];
        let engines = ["heliox", "lmdb"].map(str::to_owned);
        let table = table(&raw, &engines, &rows);
        let header = table.header.len();
        assert!(table.rows.iter().all(|row| row.len() == header));
        assert_eq!(
            table.rows[0][1..],
            ["1", "10,000", "100", "200", "9,990", "140", "350", "+40.0", "+150", "1.75"]
        );
        assert_eq!(
            table.rows[1][1..],
            ["2", "18,000", "110", "220", "15,300", "90.0", "225", "-20.0", "+5.00", "1.02"]
        );
        assert_eq!(table.rows[3][0..4], ["lmdb", "2", "18,000", "110"]);
        assert!(table.rows[3][5..].iter().all(|cell| cell == "-"));
    }
}
