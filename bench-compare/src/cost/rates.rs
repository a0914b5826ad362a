//! Measured rates: the row of the results that a kind of node names. No state, no threads.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use heliox_bench::size::show_bytes;
use heliox_report::median;
use serde_json::Value;

use super::prices::RowOf;
use crate::raw;
use crate::suite::quantity::Quantity;

/// Rows with the name of their file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    rows: Vec<(String, Value)>,
}

impl Rates {
    /// Adds the rows of a file that `run`, `suite` or `heliox bench` wrote.
    ///
    /// # Errors
    /// A file that cannot be read, or that is none of theirs.
    pub(crate) fn read(&mut self, path: &Path) -> Result<(), String> {
        let failed = |what: String| format!("{}: {what}", path.display());
        let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
        let rows: Vec<Value> = serde_json::from_slice(&text)
            .map_err(|error| failed(format!("expected results of run --json: {error}")))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rows = rows.into_iter().map(|row| (name.to_string(), row));
        self.rows.extend(rows);
        Ok(())
    }

    /// Operations a second, the median over the repeats.
    ///
    /// # Errors
    /// No such row, or rows that differ in more than their repeats.
    pub(crate) fn of(&self, row: &RowOf) -> Result<f64, String> {
        let rows = self
            .rows
            .iter()
            .filter(|(file, fields)| matches(row, file, fields));
        let rows: Vec<&(String, Value)> = rows.collect();
        let ways: BTreeSet<String> = rows.iter().map(|(file, row)| way(file, row)).collect();
        if ways.len() > 1 {
            let ways: Vec<String> = ways.into_iter().collect();
            return Err(format!(
                "several rows are {}: {}; name memory and file, or give results in which they do not differ",
                show(row),
                ways.join("; ")
            ));
        }
        if rows.is_empty() {
            return Err(self.no_row(row));
        }
        let rates: Vec<f64> = rows
            .iter()
            .filter_map(|(_, row)| Quantity::Rate.of(row))
            .collect();
        let rate = median(&rates).filter(|rate| *rate > 0.0);
        rate.ok_or_else(|| {
            format!(
                "there is no rate of {}: none was found within its limit",
                show(row)
            )
        })
    }

    /// Says what there is instead: the same in other ways, else everything.
    fn no_row(&self, row: &RowOf) -> String {
        let any = RowOf {
            memory: None,
            file: None,
            ..row.clone()
        };
        let rows = || self.rows.iter();
        let same = rows().filter(|(file, fields)| matches(&any, file, fields));
        let mut there: BTreeSet<String> = same.map(|(file, fields)| way(file, fields)).collect();
        if there.is_empty() {
            there = rows().filter_map(|(_, row)| kind(row)).collect();
        }
        let mut there: Vec<String> = there.into_iter().collect();
        if there.is_empty() {
            there.push("none".to_owned());
        }
        format!("no row is {}; there are {}", show(row), there.join("; "))
    }
}

fn matches(row: &RowOf, file: &str, fields: &Value) -> bool {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    text("engine") == Some(&row.engine)
        && text("workload") == Some(&row.workload)
        && number("threads") == Some(row.threads)
        && row
            .memory
            .is_none_or(|memory| number("memory_bytes") == Some(memory))
        && row.file.as_ref().is_none_or(|name| name == file)
}

/// What of a row is neither named nor a figure.
fn way(file: &str, row: &Value) -> String {
    let told = |name: &str| row.get(name).map(Value::to_string).unwrap_or_default();
    let limit = row.pointer("/latency_limit/limit").and_then(Value::as_str);
    let rate = row.pointer("/open_loop/rate").filter(|_| limit.is_none());
    format!(
        "{file}, memory {}, keys of {} and values of {} bytes, durability {}, limit {}, rate {}",
        told("memory_bytes"),
        told("key_size"),
        told("value_size"),
        told("durability"),
        limit.unwrap_or("none"),
        rate.map_or_else(|| "none".to_owned(), Value::to_string)
    )
}

fn kind(row: &Value) -> Option<String> {
    let text = |name: &str| row.get(name).and_then(Value::as_str);
    let threads = row.get("threads")?;
    if text("engine") == Some(raw::NAME) {
        return None;
    }
    Some(format!(
        "{} {} with {threads} threads",
        text("engine")?,
        text("workload")?
    ))
}

fn show(row: &RowOf) -> String {
    let memory = row
        .memory
        .map(|bytes| format!(", memory {}", show_bytes(bytes)));
    let file = row.file.as_ref().map(|name| format!(", of {name}"));
    format!(
        "{} {} with {} threads{}{}",
        row.engine,
        row.workload,
        row.threads,
        memory.unwrap_or_default(),
        file.unwrap_or_default()
    )
}
