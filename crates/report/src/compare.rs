//! Two runs beside each other: cases that both have, ratios of their medians, and whether a
//! difference exceeds the spread. No state, no threads.

use crate::case::{settings, show_name, show_values, Case};
use crate::figure::{median, spread, Figure, COSTS, SPEED};
use crate::row::Results;
use crate::table::Table;

/// How the second run stands to the first in one figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Better by more than the spread.
    Better,
    /// Worse by more than the spread.
    Worse,
    /// The difference is within the spread of one of them.
    Within,
    /// One of them was measured once, so its spread is not known.
    Unknown,
}

impl Verdict {
    /// How tables mark it.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Verdict::Better => "better ",
            Verdict::Worse => "WORSE ",
            Verdict::Within => "",
            Verdict::Unknown => "? ",
        }
    }
}

/// The ratio of the medians, new to old, and what it is worth; `None` where one has no figure or
/// the old one is 0.
pub(crate) fn verdict(figure: &Figure, old: &Case, new: &Case) -> Option<(f64, Verdict)> {
    let (old, new) = (old.figures(figure), new.figures(figure));
    let (was, is) = (median(&old)?, median(&new)?);
    let ratio = (was > 0.0).then(|| is / was)?;
    let verdict = match spread(&old).zip(spread(&new)) {
        None => Verdict::Unknown,
        Some((one, other)) if (is - was).abs() <= one.max(other) => Verdict::Within,
        Some(_) if (is > was) == figure.more_is_better => Verdict::Better,
        Some(_) => Verdict::Worse,
    };
    Some((ratio, verdict))
}

/// The cases of both runs, in the order of the first.
pub(crate) fn pairs<'c>(old: &'c [Case], new: &'c [Case]) -> Vec<(&'c Case, &'c Case)> {
    let pair = |case: &'c Case| Some((case, new.iter().find(|other| case.matches(other))?));
    old.iter().filter_map(pair).collect()
}

/// What tells the cases of two runs apart, and is therefore part of their names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    engines: bool,
    threads: bool,
}

impl Naming {
    /// All of it.
    const FULL: Naming = Naming {
        engines: true,
        threads: true,
    };

    /// That of these cases.
    pub(crate) fn of(old: &[Case], new: &[Case]) -> Naming {
        let both = || old.iter().chain(new);
        let Some(first) = both().next() else {
            return Naming::FULL;
        };
        Naming {
            engines: both().any(|case| case.engine != first.engine),
            threads: both().any(|case| case.threads != first.threads),
        }
    }

    /// What a case is called.
    pub(crate) fn name(self, case: &Case) -> String {
        let engine = self.engines.then(|| case.engine.clone());
        let threads = self.threads.then(|| case.show_threads());
        let parts = [Some(case.work()), engine, threads].into_iter().flatten();
        parts.collect::<Vec<String>>().join(", ")
    }
}

/// The figures beside the speed that are compared.
fn compared() -> impl Iterator<Item = &'static Figure> {
    COSTS.iter().filter(|figure| figure.compared)
}

/// The table of all pairs.
pub(crate) fn table(old: &[Case], new: &[Case]) -> Table {
    let naming = Naming::of(old, new);
    let header = ["", "ops/s, A", "ops/s, B", "B to A"].into_iter();
    let header = header.chain(compared().map(|figure| figure.name));
    let mut table = Table::new("B held against A", header.map(str::to_owned).collect());
    for (old, new) in pairs(old, new) {
        let speed = |case: &Case| case.median(&SPEED).map(SPEED.show).unwrap_or_default();
        let mut cells = vec![naming.name(old), speed(old), speed(new)];
        let figures = std::iter::once(&SPEED).chain(compared());
        cells.extend(figures.map(|figure| match verdict(figure, old, new) {
            Some((ratio, verdict)) => format!("{}{ratio:.2}", verdict.mark()),
            None => String::new(),
        }));
        table.rows.push(cells);
    }
    table.tidy()
}

/// What to know before the ratios are believed: cases that only one run has, and settings that
/// were not the same.
pub(crate) fn remarks(old: (&Results, &[Case]), new: (&Results, &[Case])) -> Vec<String> {
    let mut remarks = Vec::new();
    let (these, those) = (settings(old.0), settings(new.0));
    for (name, values) in &these {
        let others = those.iter().find(|(other, _)| other == name);
        if let Some((_, others)) = others.filter(|(_, others)| others != values) {
            remarks.push(format!(
                "{} is {} in A and {} in B: not the same work",
                show_name(name),
                show_values(name, values),
                show_values(name, others)
            ));
        }
    }
    for (letter, cases, others) in [("A", old.1, new.1), ("B", new.1, old.1)] {
        let alone = |case: &&Case| !others.iter().any(|other| case.matches(other));
        let names: Vec<String> = cases
            .iter()
            .filter(alone)
            .map(|case| Naming::FULL.name(case))
            .collect();
        if !names.is_empty() {
            remarks.push(format!("only in {letter}: {}", names.join("; ")));
        }
    }
    remarks
}
