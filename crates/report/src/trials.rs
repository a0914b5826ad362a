//! How the highest rates within a limit were looked for: a table of trials for each search. No state, no
//! threads.

use heliox_bench::{short, thousands};
use serde_json::Value;

use crate::case::Case;
use crate::row::Row;
use crate::table::Table;

/// The tables of all searches, in the order of the cases.
pub(crate) fn tables(cases: &[Case]) -> Vec<Table> {
    let rows = cases
        .iter()
        .flat_map(|case| case.rows.iter().map(move |row| (case, row)));
    rows.filter_map(|(case, row)| table(case, row)).collect()
}

fn table(case: &Case, row: &Row) -> Option<Table> {
    let search = row.search.as_ref()?;
    let trials = search.get("trials")?.as_array()?;
    let limit = search.get("limit").and_then(Value::as_str);
    let repeat = row.repeat.map(|repeat| format!(", repeat {repeat}"));
    let title = format!(
        "{} {}{}, trials within {}",
        case.engine,
        case.work(),
        repeat.unwrap_or_default(),
        limit.unwrap_or_default()
    );
    let header = [
        "rate",
        "offered/s",
        "achieved/s",
        "p50 us",
        "p95",
        "p99",
        "p99.9",
        "max",
        "verdict",
    ];
    let mut table = Table::new(&title, header.map(str::to_owned).to_vec());
    table.rows = trials.iter().map(cells).collect();
    Some(table)
}

fn cells(trial: &Value) -> Vec<String> {
    let number = |name: &str, show: fn(f64) -> String| {
        let told = trial.get(name).and_then(Value::as_f64);
        told.filter(|number| number.is_finite())
            .map_or_else(|| "-".to_owned(), show)
    };
    let rates = ["rate", "offered_ops_per_s", "achieved_ops_per_s"];
    let micros = ["p50_us", "p95_us", "p99_us", "p999_us", "max_us"];
    let rates = rates.map(|name| number(name, thousands));
    let micros = micros.map(|name| number(name, short));
    let verdict = trial.get("verdict").and_then(Value::as_str);
    let verdict = crate::row::clean(verdict.unwrap_or_default());
    rates.into_iter().chain(micros).chain([verdict]).collect()
}
