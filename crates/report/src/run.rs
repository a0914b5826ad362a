//! A run with its rows in order, and what is to be known about it. Plain data, no threads.

use std::collections::BTreeSet;

use heliox_bench::thousands;

use crate::case::{cases, engines, settings, show_name, show_values, Case, Varying};
use crate::row::{Results, Row};
use crate::table::{self, Table};

/// What the columns of a comparison are.
pub(crate) const COMPARE_LEGEND: &str = "Ratios of the medians, B to A. better and WORSE: the \
     medians differ by more than the largest minus the smallest\nof the repeats of either run; ?: \
     measured once, so the spread is not known (bench-compare run --repeat 3).";

/// A run with its rows in order.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) results: Results,
    pub(crate) cases: Vec<Case>,
}

impl Run {
    /// Puts the rows in order; the settings that differ tell cases apart.
    pub(crate) fn new(results: Results, varying: &Varying) -> Run {
        let cases = cases(&results, varying);
        Run { results, cases }
    }

    /// An engine did not get through in one of the repeats.
    pub(crate) fn has_failed(&self, engine: &str) -> bool {
        let mut failures = self.results.failures.iter();
        failures.any(|failure| failure.engine == engine)
    }

    /// Its own of a case, perhaps of another run.
    pub(crate) fn find(&self, case: &Case) -> Option<&Case> {
        self.cases.iter().find(|own| own.matches(case))
    }

    /// The tables of this run alone: the raw device's, then those of the engines.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let device = table::of_device(&self.results.device).into_iter();
        let tables = table::tables(&self.cases, &self.results.failures);
        device.chain(tables).collect()
    }

    /// What the columns of its tables are, where they do not say it themselves.
    pub(crate) fn legend(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.cases.iter().any(|case| case.rows.len() > 1) {
            parts.push("medians of the repeats; spread: largest minus smallest of them");
        }
        if engines(&self.cases).len() > 1 {
            parts.push("to heliox: operations a second relative to Heliox");
        }
        if self.cases.iter().any(Case::has_kernel_figures) {
            parts.push(
                "read B/op, cpu, peak memory: the kernel's account of the process, settling included; \
                 what is read from the page cache does not count",
            );
        }
        if self.cases.iter().any(Case::has_raw_share) {
            parts.push(
                "of raw: reads of media a second, of the raw device's random reads with as many \
                 under way as threads;\n-: an engine that does not count them",
            );
        }
        let found = |row: &Row| row.found.is_some();
        if self.cases.iter().any(|case| case.rows.iter().any(found)) {
            parts.push("found: reads that found their key, where not all did as they should; -: as they should");
        }
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    /// What it was measured under, what did not work, and what was wrong with it.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let settings = settings(&self.results);
        let settings = settings
            .iter()
            .map(|(name, values)| format!("{} {}", show_name(name), show_values(name, values)));
        let mut settings: Vec<String> = settings.collect();
        let threads: BTreeSet<u64> = self.cases.iter().map(|case| case.threads).collect();
        if !threads.is_empty() {
            let threads: Vec<String> = threads.iter().map(u64::to_string).collect();
            settings.insert(0, format!("threads {}", threads.join(" / ")));
        }
        if !settings.is_empty() {
            notes.push(format!("measured with: {}", settings.join(", ")));
        }
        if let Some(limit) = &self.results.memory_limit {
            notes.push(format!("memory limit: {limit}"));
        }
        notes.extend(self.results.device.notes());
        for case in &self.cases {
            if case.rows.iter().any(|row| row.behind) {
                notes.push(format!(
                    "NOT KEPT UP: {}, {}: its latencies grew for as long as it was measured",
                    case.engine,
                    case.work()
                ));
            }
        }
        notes.extend(self.cases.iter().flat_map(without_rate));
        notes.extend(self.cases.iter().flat_map(found_otherwise));
        notes.extend(self.cases.iter().flat_map(without_room));
        notes.extend(self.cases.iter().flat_map(cut_short));
        for failure in &self.results.failures {
            let repeat = match failure.repeat {
                Some(repeat) => format!(", repeat {repeat}"),
                None => String::new(),
            };
            notes.push(format!(
                "FAILED: {}{repeat}: {}",
                failure.engine, failure.why
            ));
        }
        notes
    }
}

/// Searches for a rate that found none.
fn without_rate(case: &Case) -> Vec<String> {
    let notes = case.rows.iter().filter_map(|row| {
        let limit = row.unmet.as_ref()?;
        Some(format!(
            "NO RATE FOUND: {}, {}, {}{}: none at which {limit} holds; what else is told of it is of the \
             lowest that was tried",
            case.engine,
            case.work(),
            case.show_threads(),
            of_repeat(case, row)
        ))
    });
    notes.collect()
}

/// Names the repeat of a row where there are several.
fn of_repeat(case: &Case, row: &Row) -> String {
    let several = case.rows.len() > 1;
    let repeat = row.repeat.filter(|_| several);
    repeat
        .map(|repeat| format!(", repeat {repeat}"))
        .unwrap_or_default()
}

/// Inserts for which there was no room.
fn without_room(case: &Case) -> Vec<String> {
    let notes = case.rows.iter().filter_map(|row| {
        Some(format!(
            "NOT ALL INSERTED: {}, {}, {}{}: {} inserts had no room and wrote again what was inserted before",
            case.engine,
            case.work(),
            case.show_threads(),
            of_repeat(case, row),
            thousands(row.inserts_again?)
        ))
    });
    notes.collect()
}

/// Workloads that were interrupted.
fn cut_short(case: &Case) -> Vec<String> {
    let rows = case.rows.iter().filter(|row| row.cut_short);
    let notes = rows.map(|row| {
        format!(
            "NOT FINISHED: {}, {}, {}{}: cut short after {:.1} s, of which its figures are",
            case.engine,
            case.work(),
            case.show_threads(),
            of_repeat(case, row),
            row.seconds.unwrap_or_default()
        )
    });
    notes.collect()
}

/// What reads of a case found that they should not have, or the other way round: its speed is then not
/// that of what was asked for.
fn found_otherwise(case: &Case) -> Vec<String> {
    let notes = case.rows.iter().filter_map(|row| {
        let (found, expected) = row.found?;
        let repeat = of_repeat(case, row);
        let how = if found < expected { "FEWER" } else { "MORE" };
        Some(format!(
            "FOUND {how}: {}, {}, {}{repeat}: {} keys where {} were expected: its speed is not that of \
             reads that find them",
            case.engine,
            case.work(),
            case.show_threads(),
            thousands(found),
            thousands(expected)
        ))
    });
    notes.collect()
}
