//! A run with its rows in order, and what is to be known about it. Plain data, no threads.

use std::collections::BTreeSet;

use crate::case::{cases, engines, settings, show_name, show_values, Case, Varying};
use crate::row::Results;
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
                 under way as threads;\nof engines that do not count them, the pages that the kernel \
                 fetched",
            );
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
