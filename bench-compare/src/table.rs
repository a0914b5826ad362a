//! The results for people: a table a workload, an engine a line, medians over repeats. No state, no
//! threads.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use heliox_bench::size::show_bytes;
use heliox_bench::{short, thousands, Workload};

use crate::results::{median, spread_percent, Results};

/// What ratios are relative to.
const BASE: &str = "heliox";
const HEADER: [&str; 13] = [
    "engine",
    "ops/s",
    "to heliox",
    "spread",
    "p50 us",
    "p99",
    "p99.9",
    "max",
    "write amp",
    "read B/op",
    "cpu us/op",
    "disk",
    "peak memory",
];

/// All tables, the failures, and what bounded the memory.
pub(crate) fn show(results: &Results, workloads: &[Workload]) -> String {
    let mut text = String::new();
    for (place, workload) in workloads.iter().enumerate() {
        // Writing to a text does not fail.
        let _ = writeln!(text, "\n{workload}\n{}", table(results, place));
    }
    let _ = write!(
        text,
        "\nto heliox: operations a second relative to Heliox; spread: largest minus smallest of the \
         repeats.\nwrite amp, read B/op, cpu, peak memory: the kernel's account of the engine's \
         process, settling included; pages\nthat are read from the page cache do not count as read.\
         \nmemory limit: {}",
        results.memory_limit
    );
    for failure in &results.failures {
        let (engine, repeat, why) = (&failure.engine, failure.repeat, &failure.why);
        let _ = write!(text, "\nFAILED: {engine}, repeat {repeat}: {why}");
    }
    if results.interrupted {
        text.push_str("\nInterrupted: this is what was measured until then.");
    }
    text
}

fn table(results: &Results, place: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(HEADER);
    for engine in &results.engines {
        table.add_row(cells(results, engine, place));
    }
    table
}

fn cells(results: &Results, engine: &str, place: usize) -> Vec<Cell> {
    let figure = |name: &str| median(&results.figures(engine, place, name));
    let speeds = results.figures(engine, place, "ops_per_s");
    let Some(speed) = median(&speeds) else {
        let why = if results.failure(engine).is_some() {
            "FAILED"
        } else {
            "not measured"
        };
        return vec![Cell::new(engine), right(why.to_owned())];
    };
    let base = median(&results.figures(BASE, place, "ops_per_s"));
    let each = |name: &str| {
        figure(name)
            .zip(figure("ops"))
            .map(|(sum, ops)| sum / ops.max(1.0))
    };
    let micros = |name: &str| figure(name).map(short);
    let texts = [
        Some(thousands(speed)),
        base.map(|base| format!("{:.2}", speed / base)),
        spread_percent(&speeds).map(|percent| format!("{percent:.0} %")),
        micros("p50_us"),
        micros("p99_us"),
        micros("p999_us"),
        micros("max_us"),
        figure("write_amplification").map(|ratio| format!("{ratio:.2}")),
        each("kernel_read_bytes").map(thousands),
        each("cpu_seconds").map(|seconds| short(seconds * 1e6)),
        figure("disk_bytes").map(|bytes| show_bytes(bytes as u64)),
        figure("peak_rss_bytes").map(|bytes| show_bytes(bytes as u64)),
    ];
    let texts = texts.map(|text| right(text.unwrap_or_else(|| "-".to_owned())));
    std::iter::once(Cell::new(engine)).chain(texts).collect()
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Failure, Measured};
    use serde_json::{json, Value};

    #[test]
    fn engines_are_compared_and_failures_are_not_left_out() {
        let row = |engine: &str, repeat: u32, speed: f64| {
            let fields =
                json!({ "ops_per_s": speed, "ops": 100, "p50_us": 1.5, "cpu_seconds": 0.001 });
            let Value::Object(fields) = fields else {
                unreachable!()
            };
            Measured {
                engine: engine.to_owned(),
                repeat,
                place: 0,
                fields,
            }
        };
        let results = Results {
            engines: ["heliox", "lmdb", "redb"].map(str::to_owned).to_vec(),
            measured: vec![
                row("heliox", 1, 1000.0),
                row("heliox", 2, 3000.0),
                row("lmdb", 1, 500.0),
            ],
            failures: vec![Failure {
                engine: "redb".to_owned(),
                repeat: 1,
                why: "disk full".to_owned(),
            }],
            memory_limit: "none: no groups".to_owned(),
            interrupted: true,
        };
        let text = show(&results, &[Workload::FillSeq]);
        let line = |name: &str| {
            let start = format!("│ {name}");
            text.lines().find(|line| line.starts_with(&start)).unwrap()
        };
        for expected in ["2,000", "1.00", "100 %", "10.0"] {
            assert!(line("heliox").contains(expected), "{expected}: {text}");
        }
        assert!(line("lmdb").contains("0.25"), "{text}");
        assert!(line("redb").contains("FAILED"), "{text}");
        for expected in [
            "redb, repeat 1: disk full",
            "none: no groups",
            "Interrupted",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
