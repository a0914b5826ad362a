//! The results for people: the tables and the page of `heliox report`, with what this program knows
//! besides. No state, no threads.

use std::fs;

use heliox_report::{Aside, Report, ReportError};

use crate::args::RunArgs;
use crate::results::Results;

/// All tables, the failures, and what bounded the memory; last what a suite has to say.
///
/// # Errors
/// Rows that the report does not understand, which would be a bug.
pub(crate) fn show(results: &Results, aside: Option<&Aside>) -> Result<String, ReportError> {
    let mut text = match report(results, aside)? {
        Some(report) => report.text(),
        None => format!(
            "nothing was measured\nmemory limit: {}",
            results.memory_limit
        ),
    };
    if results.interrupted {
        text.push_str("\nInterrupted: this is what was measured until then.");
    }
    Ok(text)
}

/// Writes tables and plots as a page for a browser, where one was asked for; an empty file while
/// nothing is measured, so that the page of an earlier run is not taken for this one's.
///
/// # Errors
/// As [`show`], and a file that cannot be written.
pub(crate) fn write_page(
    args: &RunArgs,
    results: &Results,
    aside: Option<&Aside>,
) -> Result<(), String> {
    let Some(path) = &args.html else {
        return Ok(());
    };
    let page = page(results, aside).map_err(|error| error.to_string())?;
    let written = fs::write(path, page.unwrap_or_default());
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn page(results: &Results, aside: Option<&Aside>) -> Result<Option<String>, ReportError> {
    report(results, aside)?
        .map(|report| report.html())
        .transpose()
}

fn report(results: &Results, aside: Option<&Aside>) -> Result<Option<Report>, ReportError> {
    let rows = results.to_json();
    if rows.as_array().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let text = rows.to_string();
    let rows = heliox_report::Results::parse("bench-compare", text.as_bytes())?;
    let report = Report::new(rows);
    Ok(Some(match aside {
        Some(aside) => report.with_aside(aside.clone()),
        None => report,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Failure, Measured};
    use serde_json::{json, Value};

    fn results() -> Results {
        Results {
            engines: ["heliox", "lmdb", "redb"].map(str::to_owned).to_vec(),
            measured: Vec::new(),
            failures: Vec::new(),
            raw: None,
            memory_limit: "none: no groups".to_owned(),
            interrupted: true,
        }
    }

    #[test]
    fn engines_are_compared_and_failures_are_not_left_out() {
        let row = |engine: &str, repeat: u32, speed: f64| {
            let fields = json!({
                "engine": engine, "workload": "fillseq", "threads": 1, "ops_per_s": speed,
                "ops": 100, "p50_us": 1.5, "cpu_seconds": 0.001, "percentiles_us": [[0, 1], [50, 2]],
            });
            let Value::Object(fields) = fields else {
                unreachable!()
            };
            Measured { repeat, fields }
        };
        let mut results = results();
        results.measured = vec![
            row("heliox", 1, 1000.0),
            row("heliox", 2, 3000.0),
            row("lmdb", 1, 500.0),
        ];
        results.failures = vec![Failure {
            engine: "redb".to_owned(),
            repeat: 1,
            why: "disk full".to_owned(),
        }];
        let text = show(&results, None).unwrap();
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
        let page = page(&results, None).unwrap().unwrap();
        assert!(page.contains("<h2>Latency"), "{page}");
    }

    #[test]
    fn a_run_that_measured_nothing_says_so() {
        let text = show(&results(), None).unwrap();
        assert!(
            text.contains("nothing was measured") && text.contains("no groups"),
            "{text}"
        );
        assert_eq!(page(&results(), None).unwrap(), None);
    }
}
