//! Our figures beside those of a paper, as a table. No state, no threads.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use heliox_report::median;
use serde_json::Value;

use super::papers::{Shown, Suite, Told};
use super::quantity::Quantity;
use crate::raw;
use crate::results::Results;

/// What the columns are.
const LEGEND: &str =
    "to paper: ours divided by the paper's, of medians over the repeats; better above \
     1 for rates, below 1 for all else; -: not known, not measured, or not told";

/// What is held against what, on one line.
struct Line {
    name: String,
    /// The memory of the part that ran it, where several did.
    memory: Option<u64>,
    workload: &'static str,
    threads: usize,
    quantity: Quantity,
    told: Option<Told>,
}

/// The engines beside the paper, and the raw device, where it was measured, beside the paper's;
/// `memory` is that of each part, in bytes.
pub(crate) fn show(suite: &Suite, memory: &[u64], results: &Results) -> String {
    let rows = results.to_json();
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = suite
        .shown
        .iter()
        .flat_map(|shown| lines(suite, memory, shown));
    let all = memory.last().copied();
    let table = table(&lines.collect::<Vec<_>>(), &results.engines, rows, all);
    let mut text = format!("{}: {}\n{table}\n", suite.name, suite.source);
    if results.raw.is_some() {
        let device = table_of_device(suite, rows);
        text.push_str(&format!(
            "devices: data sheets of the paper's, which do not tell a depth for rates\n{device}\n"
        ));
    }
    text.push_str(LEGEND);
    text
}

fn table_of_device(suite: &Suite, rows: &[Value]) -> Table {
    let line = |told: &Told| Line {
        name: format!(
            "{}, depth {}, {}",
            told.workload,
            told.threads,
            told.quantity.name()
        ),
        memory: None,
        workload: told.workload,
        threads: told.threads,
        quantity: told.quantity,
        told: Some(*told),
    };
    let lines: Vec<Line> = suite.devices.iter().map(line).collect();
    table(&lines, &[raw::NAME.to_owned()], rows, None)
}

/// A line for each figure that the paper tells, and one without where it tells none.
fn lines(suite: &Suite, memory: &[u64], shown: &Shown) -> Vec<Line> {
    let memory = shown.part.and_then(|part| memory.get(part).copied());
    let mut lines = Vec::new();
    for threads in shown.threads {
        for quantity in shown.quantities {
            let line = |told: Option<Told>| Line {
                name: match threads {
                    1 => format!("{}, 1 thread, {}", shown.label, quantity.name()),
                    more => format!("{}, {more} threads, {}", shown.label, quantity.name()),
                },
                memory,
                workload: shown.workload,
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

fn table(lines: &[Line], engines: &[String], rows: &[Value], all_memory: Option<u64>) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec!["quantity", "paper's", "paper"];
    for engine in engines {
        header.extend([engine.as_str(), "to paper"]);
    }
    table.set_header(header);
    for line in lines {
        let system = line.told.map_or("-", |told| told.system);
        let paper = line.told.map(|told| told.figure);
        let show = |figure: Option<f64>| figure.map(|figure| line.quantity.show(figure));
        let mut cells = vec![Cell::new(&line.name), Cell::new(system), right(show(paper))];
        for engine in engines {
            let ours = measured(line, engine, rows, all_memory);
            let ratio = ours.zip(paper).map(|(ours, paper)| ours / paper);
            cells.push(right(show(ours)));
            cells.push(right(ratio.map(show_ratio)));
        }
        table.add_row(cells);
    }
    table
}

/// The figure of a line; `all_memory` is that of the part in which all data are in memory.
fn measured(line: &Line, engine: &str, rows: &[Value], all_memory: Option<u64>) -> Option<f64> {
    let ours = median_of(line, engine, line.memory, line.workload, rows)?;
    let divisor = match line.quantity {
        Quantity::ToMemory => median_of(line, engine, all_memory, line.workload, rows)?,
        Quantity::ToDevice => {
            let reads = raw::Pattern::RandomRead.name();
            median_of(line, raw::NAME, None, reads, rows)?
        }
        _ => 1.0,
    };
    (divisor > 0.0).then(|| ours / divisor)
}

/// The median over the repeats.
fn median_of(
    line: &Line,
    engine: &str,
    memory: Option<u64>,
    workload: &str,
    rows: &[Value],
) -> Option<f64> {
    let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_u64);
    let is = |row: &&Value| {
        row.get("engine").and_then(Value::as_str) == Some(engine)
            && row.get("workload").and_then(Value::as_str) == Some(workload)
            && number(row, "threads") == Some(line.threads as u64)
            && (memory.is_none() || number(row, "memory_bytes") == memory)
    };
    let figures = rows.iter().filter(is);
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

fn right(text: Option<String>) -> Cell {
    Cell::new(text.unwrap_or_else(|| "-".to_owned())).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Measured;
    use crate::suite::papers::SUITES;
    use serde_json::json;

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
        let text = show(suite, &[], &results(&rows));
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
    fn rates_are_held_against_those_in_memory_and_latencies_against_the_device() {
        let suite = SUITES.iter().find(|suite| suite.name == "scylla").unwrap();
        let row = |memory: u64, found: u64| {
            json!({
                "engine": "heliox", "workload": "readrandom", "threads": 64, "ops_per_s": 1.0,
                "memory_bytes": memory, "latency_limit": { "found_rate": found },
                "media_reads_per_op": 0.6,
            })
        };
        let p95 = |engine: &str, workload: &str, p95_us: f64| {
            json!({
                "engine": engine, "workload": workload, "threads": 4, "p95_us": p95_us,
                "memory_bytes": 25,
            })
        };
        let rows = [
            row(25, 2100),
            row(50, 4000),
            row(150, 10_000),
            p95("heliox", "readrandom", 450.0),
            p95("raw-device", "randread-4k", 150.0),
        ];
        let text = show(suite, &[25, 25, 50, 75, 150], &results(&rows));
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
        let misses = line("reads, 50 % in memory, 64 threads, media reads/op");
        assert_eq!(misses, ["0.50", "0.60", "1.20"]);
        let all = line("reads, all in memory, 64 threads, ops/s");
        assert_eq!(all, ["570,000", "10,000", "0.0175"]);
        assert_eq!(line("over the device, 4 threads"), ["6.00", "3.00", "0.50"]);
        assert_eq!(line("over the device, 8 threads"), ["6.00", "-", "-"]);
    }

    #[test]
    fn what_the_paper_does_not_tell_is_shown_without() {
        let suite = SUITES.iter().find(|suite| suite.name == "helium").unwrap();
        let row = json!({
            "engine": "lmdb", "workload": "deleterandom", "threads": 8, "p999_us": 12.5,
        });
        let text = show(suite, &[], &results(&[row]));
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
}
