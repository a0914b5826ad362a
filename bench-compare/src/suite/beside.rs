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
     1 for operations a second, below 1 for all else; -: not known, not measured, or not told";

/// What is held against what, on one line.
struct Line {
    name: String,
    workload: &'static str,
    threads: usize,
    quantity: Quantity,
    told: Option<Told>,
}

/// The engines beside the paper, and the raw device, where it was measured, beside the paper's.
pub(crate) fn show(suite: &Suite, results: &Results) -> String {
    let rows = results.to_json();
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = suite.shown.iter().flat_map(|shown| lines(suite, shown));
    let table = table(&lines.collect::<Vec<_>>(), &results.engines, rows);
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
        workload: told.workload,
        threads: told.threads,
        quantity: told.quantity,
        told: Some(*told),
    };
    let lines: Vec<Line> = suite.devices.iter().map(line).collect();
    table(&lines, &[raw::NAME.to_owned()], rows)
}

/// A line for each figure that the paper tells, and one without where it tells none.
fn lines(suite: &Suite, shown: &Shown) -> Vec<Line> {
    let mut lines = Vec::new();
    for threads in shown.threads {
        for quantity in shown.quantities {
            let line = |told: Option<Told>| Line {
                name: match threads {
                    1 => format!("{}, 1 thread, {}", shown.label, quantity.name()),
                    more => format!("{}, {more} threads, {}", shown.label, quantity.name()),
                },
                workload: shown.workload,
                threads: *threads,
                quantity: *quantity,
                told,
            };
            let before = lines.len();
            let told = suite.told.iter().filter(|told| {
                told.workload == shown.workload
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

fn table(lines: &[Line], engines: &[String], rows: &[Value]) -> Table {
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
            let ours = measured(line, engine, rows);
            let ratio = ours.zip(paper).map(|(ours, paper)| ours / paper);
            cells.push(right(show(ours)));
            cells.push(right(ratio.map(show_ratio)));
        }
        table.add_row(cells);
    }
    table
}

/// The median over the repeats.
fn measured(line: &Line, engine: &str, rows: &[Value]) -> Option<f64> {
    let is = |row: &&Value| {
        row.get("engine").and_then(Value::as_str) == Some(engine)
            && row.get("workload").and_then(Value::as_str) == Some(line.workload)
            && row.get("threads").and_then(Value::as_u64) == Some(line.threads as u64)
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
        let text = show(suite, &results(&rows));
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
    fn what_the_paper_does_not_tell_is_shown_without() {
        let suite = SUITES.iter().find(|suite| suite.name == "helium").unwrap();
        let row = json!({
            "engine": "lmdb", "workload": "deleterandom", "threads": 8, "p999_us": 12.5,
        });
        let text = show(suite, &results(&[row]));
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
