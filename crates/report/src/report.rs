//! One run or two in order, and how they are shown. Plain data, no threads.

use crate::aside::Aside;
use crate::case::varying;
use crate::compare;
use crate::error::ReportError;
use crate::page;
use crate::plots;
use crate::row::Results;
use crate::run::{Run, COMPARE_LEGEND};
use crate::trials;

/// One run, or two to compare.
#[derive(Clone, Debug)]
pub struct Report {
    runs: Vec<Run>,
    remarks: Vec<String>,
    asides: Vec<Aside>,
}

impl Report {
    /// Of one run.
    #[must_use]
    pub fn new(results: Results) -> Report {
        let varying = varying(&results);
        Report {
            runs: vec![Run::new(results, &varying)],
            remarks: Vec::new(),
            asides: Vec::new(),
        }
    }

    /// Adds what stands first on the page, and last in the text.
    #[must_use]
    pub fn with_aside(mut self, aside: Aside) -> Report {
        self.asides.push(aside);
        self
    }

    /// Of two: `new` is held against `old`. Rows match that have the same engine, workload and
    /// threads, and the same of every setting that differs within a run.
    #[must_use]
    pub fn compare(old: Results, new: Results) -> Report {
        let mut varying_names = varying(&old);
        varying_names.extend(varying(&new));
        let (old, new) = (Run::new(old, &varying_names), Run::new(new, &varying_names));
        let remarks = compare::remarks((&old.results, &old.cases), (&new.results, &new.cases));
        Report {
            runs: vec![old, new],
            remarks,
            asides: Vec::new(),
        }
    }

    /// The tables for a terminal, with what is to be known about them.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if let [old, new] = self.runs.as_slice() {
            let (a, b) = (&old.results.name, &new.results.name);
            parts.push(format!("A: {a}\nB: {b}"));
            let table = compare::table(&old.cases, &new.cases);
            if !table.rows.is_empty() {
                parts.push(table.text());
                parts.push(COMPARE_LEGEND.to_owned());
            }
            parts.extend(self.remarks.iter().cloned());
            for (letter, run) in [("A", old), ("B", new)] {
                let notes = run.notes().into_iter();
                parts.extend(notes.map(|note| format!("{letter}: {note}")));
            }
            return parts.join("\n");
        }
        for run in &self.runs {
            let tables = run.tables();
            parts.extend(tables.iter().map(|table| format!("{}\n", table.text())));
            parts.extend(run.legend());
            parts.extend(run.notes());
            let trials = trials::tables(&run.cases);
            parts.extend(trials.iter().map(|table| format!("\n{}", table.text())));
        }
        for aside in &self.asides {
            let tables = aside.tables.iter();
            parts.extend(tables.map(|table| format!("\n{}", table.text())));
            parts.extend(aside.notes.iter().cloned());
        }
        parts.join("\n")
    }

    /// The page for a browser: tables and plots in one file that refers to nothing outside.
    ///
    /// # Errors
    /// [`ReportError::Chart`] if the library refuses to draw, which would be a bug.
    pub fn html(&self) -> Result<String, ReportError> {
        let sections = match self.runs.as_slice() {
            [old, new] => plots::of_two(old, new)?,
            [run] => plots::of_one(run)?,
            _ => Vec::new(),
        };
        Ok(page::page(
            &self.runs,
            &self.remarks,
            &self.asides,
            &sections,
        ))
    }
}
