//! Rows as JSON and as a table. No state, no threads.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use serde_json::{json, Map, Value};

use crate::config::Step;
use crate::draw::Distribution;
use crate::open_loop::OpenLoop;
use crate::row::{Reopened, Row};
use crate::search::LimitSearch;
use crate::summary::CallSummary;
use crate::usage::Used;

/// The rows as a JSON list of objects; the names of the fields are part of the command's contract.
#[must_use]
pub fn rows_to_json(rows: &[Row]) -> Value {
    Value::Array(rows.iter().map(row_to_json).collect())
}

/// One row as a JSON object, the same as in [`rows_to_json`].
#[must_use]
pub fn row_to_json(row: &Row) -> Value {
    let mut object = Map::new();
    for part in [speed(row), setting(row), media(row), further(row)] {
        if let Value::Object(fields) = part {
            object.extend(fields);
        }
    }
    Value::Object(object)
}

/// The text of a list of objects with a field a line, so that people can read it and compare two
/// by `diff`; what is within a field stays on its line.
#[must_use]
pub fn rows_to_text(rows: &Value) -> String {
    let Some(rows) = rows.as_array().filter(|rows| !rows.is_empty()) else {
        return format!("{rows}\n");
    };
    let object = |row: &Value| match row {
        Value::Object(fields) if !fields.is_empty() => {
            let line = |(name, value): (&String, &Value)| {
                format!("    {}: {value}", Value::from(name.as_str()))
            };
            let lines: Vec<String> = fields.iter().map(line).collect();
            format!("  {{\n{}\n  }}", lines.join(",\n"))
        }
        other => format!("  {other}"),
    };
    let objects: Vec<String> = rows.iter().map(object).collect();
    format!("[\n{}\n]\n", objects.join(",\n"))
}

fn speed(row: &Row) -> Value {
    json!({
        "engine": row.engine,
        "workload": row.workload.name(),
        "threads": row.threads,
        "ops": row.ops,
        "seconds": row.seconds,
        "ops_per_s": row.ops_per_s,
        "p50_us": row.calls.p50_us,
        "p95_us": row.calls.p95_us,
        "p99_us": row.calls.p99_us,
        "p999_us": row.calls.p999_us,
        "p9999_us": row.calls.p9999_us,
        "max_us": row.calls.max_us,
        "longest_stall_ms": row.longest_stall_ms,
    })
}

fn setting(row: &Row) -> Value {
    json!({
        "key_size": row.key_size,
        "value_size": row.value_size,
        "keys": row.keys.name(),
        "durability": row.durability.name(),
        "memory_bytes": row.memory_bytes,
        "capacity_bytes": row.capacity_bytes,
        "objects": row.objects,
    })
}

fn media(row: &Row) -> Value {
    json!({
        "user_bytes": row.user_bytes,
        "media_bytes_written": row.written.total(),
        "media_bytes_read": row.media_bytes_read,
        "bytes_written_by_cause": {
            "data": row.written.data,
            "gc": row.written.gc,
            "checkpoint": row.written.checkpoint,
            "metadata": row.written.metadata,
        },
        "write_amplification": row.write_amplification,
        "media_reads_per_op": row.media_reads_per_op,
        "index_bytes_per_object": row.index_bytes_per_object,
        "disk_bytes": row.disk_bytes,
        "rss_bytes": row.rss_bytes,
    })
}

fn further(row: &Row) -> Value {
    json!({
        "kernel_write_bytes": row.kernel_write_bytes,
        "cpu_seconds": row.cpu_seconds,
        "cpu_us_per_op": row.cpu_us_per_op,
        "control_stall_ms": row.control_stall_ms,
        "settle_seconds": row.settle_seconds,
        "kernel_write_amplification": row.kernel_write_amplification,
        "kernel_read_bytes": row.kernel_read_bytes,
        "peak_rss_bytes": row.peak_rss_bytes,
        "mean_us": row.calls.mean_us,
        "p99999_us": row.calls.p99999_us,
        "read_ops": row.read_ops,
        "found": row.found,
        "found_expected": row.found_expected(),
        "remark": row.remark(),
        "entries_read": row.entries_read,
        "cut_short": row.cut_short,
        "inserts_again": row.inserts_again,
        "close_seconds": row.reopened.and_then(|reopened| reopened.close_seconds),
        "open_seconds": row.reopened.map(|reopened| reopened.open_seconds),
        "batch": row.batch,
        "num": row.num,
        "distribution": row.distribution.map(Distribution::name),
        "seed": row.seed,
        "memory_share": row.memory_share,
        "open_loop": row.open_loop.map(OpenLoop::to_json),
        "writer_loop": row.writer_loop.map(OpenLoop::to_json),
        "warm_up_seconds": row.warm_up.map(|warm_up| warm_up.seconds),
        "warm_up_steady": row.warm_up.map(|warm_up| warm_up.steady),
        "latency_limit": row.search.as_ref().map(LimitSearch::to_json),
        "reads": calls(&row.reads),
        "writes": calls(&row.writes),
        "ops_by_second": row.ops_by_second,
        "read_bytes_by_second": by_second(row, |used| used.read_bytes.into()),
        "write_bytes_by_second": by_second(row, |used| used.write_bytes.into()),
        "cpu_seconds_by_second": by_second(row, |used| used.cpu_seconds.into()),
        "percentiles_us": row.percentiles_us,
        "calls_by_latency": row.calls_by_latency,
    })
}

fn by_second(row: &Row, part: fn(&Used) -> Value) -> Value {
    row.used_by_second.iter().map(part).collect()
}

fn calls(calls: &CallSummary) -> Value {
    if calls.calls == 0 {
        return Value::Null;
    }
    json!({
        "calls": calls.calls,
        "mean_us": calls.mean_us,
        "p50_us": calls.p50_us,
        "p95_us": calls.p95_us,
        "p99_us": calls.p99_us,
        "p999_us": calls.p999_us,
        "p9999_us": calls.p9999_us,
        "p99999_us": calls.p99999_us,
        "max_us": calls.max_us,
    })
}

/// The rows as a table for people; latencies are in microseconds.
#[must_use]
pub fn rows_to_table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "workload",
        "ops/s",
        "p50 us",
        "p95",
        "p99",
        "p99.9",
        "p99.99",
        "p99.999",
        "max",
        "stall ms",
        "control ms",
        "write amp",
        "reads/op",
        "index B/obj",
        "cpu us/op",
    ]);
    let swept = rows.windows(2).any(|two| match two {
        [one, other] => one.threads != other.threads,
        _ => false,
    });
    for row in rows {
        table.add_row(cells(row, swept));
        if let Some(search) = &row.search {
            table.add_row([Cell::new(match search.found_rate {
                Some(_) => format!("  highest rate within {}", search.limit),
                None => format!("  NO RATE FOUND WITHIN {}", search.limit),
            })]);
        }
        if let Some(reopened) = &row.reopened {
            table.add_row([Cell::new(show_reopened(reopened))]);
        }
        if let Some(load) = &row.open_loop {
            table.add_row(load_cells(
                "  offered",
                load.offered_ops_per_s,
                load.keeps_up,
            ));
        }
        if let Some(load) = &row.writer_loop {
            table.add_row(load_cells("  its writer", load.achieved_ops_per_s, true));
            table.add_row(load_cells(
                "  offered to it",
                load.offered_ops_per_s,
                load.keeps_up,
            ));
        }
        if row.reads.calls > 0 && row.writes.calls > 0 {
            table.add_row(part_cells("  its reads", &row.reads));
            table.add_row(part_cells("  its writes", &row.writes));
        }
    }
    table.to_string()
}

fn cells(row: &Row, swept: bool) -> Vec<Cell> {
    let (workload, threads) = (row.workload, row.threads);
    let name = if swept {
        Step { workload, threads }.to_string()
    } else {
        workload.to_string()
    };
    let mut cells = vec![Cell::new(name), right(thousands(row.ops_per_s))];
    cells.extend(latency_cells(&row.calls));
    cells.push(right(optional(row.longest_stall_ms, 1)));
    cells.push(right(optional(row.control_stall_ms, 1)));
    cells.push(right(optional(row.write_amplification, 3)));
    cells.push(right(format!("{:.3}", row.media_reads_per_op)));
    cells.push(right(optional(row.index_bytes_per_object, 2)));
    cells.push(right(optional(row.cpu_us_per_op, 2)));
    cells
}

/// The trials of a search for a rate as a table for people, from what [`row_to_json`] says of it
/// under `latency_limit`; `None` if nothing was searched for.
#[must_use]
pub fn trials_to_table(row: &Value) -> Option<String> {
    let trials = row.get("latency_limit")?.get("trials")?.as_array()?;
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "rate",
        "offered/s",
        "achieved/s",
        "p50 us",
        "p95",
        "p99",
        "p99.9",
        "max",
        "verdict",
    ]);
    for trial in trials {
        let number = |name: &str| trial.get(name).and_then(Value::as_f64).unwrap_or_default();
        let rates = ["rate", "offered_ops_per_s", "achieved_ops_per_s"];
        let micros = ["p50_us", "p95_us", "p99_us", "p999_us", "max_us"];
        let rates = rates.map(|name| right(thousands(number(name))));
        let micros = micros.map(|name| right(short(number(name))));
        let verdict = trial.get("verdict").and_then(Value::as_str);
        let verdict = Cell::new(verdict.unwrap_or_default());
        table.add_row(rates.into_iter().chain(micros).chain([verdict]));
    }
    Some(table.to_string())
}

fn show_reopened(reopened: &Reopened) -> String {
    let closed = match reopened.close_seconds {
        Some(seconds) => format!("closed in {seconds:.3} s"),
        None => "killed".to_owned(),
    };
    format!("  {closed}, open in {:.3} s", reopened.open_seconds)
}

/// A rate beside that of the row, and whether it was kept up with.
fn load_cells(name: &str, ops_per_s: f64, keeps_up: bool) -> [Cell; 2] {
    let verdict = if keeps_up { "" } else { ": NOT KEPT UP" };
    [
        Cell::new(format!("{name}{verdict}")),
        right(thousands(ops_per_s)),
    ]
}

fn part_cells(name: &str, calls: &CallSummary) -> Vec<Cell> {
    let mut cells = vec![Cell::new(name), Cell::new("")];
    cells.extend(latency_cells(calls));
    cells
}

fn latency_cells(calls: &CallSummary) -> impl Iterator<Item = Cell> {
    [
        calls.p50_us,
        calls.p95_us,
        calls.p99_us,
        calls.p999_us,
        calls.p9999_us,
        calls.p99999_us,
        calls.max_us,
    ]
    .into_iter()
    .map(|micros| right(short(micros)))
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn optional(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.decimals$}"))
}

/// Three digits or more, without decimals where they say nothing.
#[must_use]
pub fn short(micros: f64) -> String {
    match micros {
        x if x < 10.0 => format!("{x:.2}"),
        x if x < 100.0 => format!("{x:.1}"),
        x => thousands(x),
    }
}

/// A whole number with commas.
#[must_use]
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_a_field_a_line_and_is_the_same_json() {
        let rows = json!([
            { "engine": "a \"b\"\n", "list": [[0.0, 1.5], [99.999, 2]], "none": null, "o": {"x": 1} },
            { "engine": "b" },
            {},
            3
        ]);
        let text = rows_to_text(&rows);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), rows);
        assert!(
            text.contains("\n    \"list\": [[0.0,1.5],[99.999,2]],\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2 + 6 + 3 + 2, "{text}");
        assert_eq!(rows_to_text(&json!([])), "[]\n");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(short(1.234), "1.23");
        assert_eq!(short(12_345.6), "12,346");
        assert_eq!(optional(None, 1), "-");
    }
}
