//! What is measured in the same way, gathered: the rows of an engine, a workload and a number of
//! threads are one case, its repeats. Plain data, no threads.

use std::collections::{BTreeMap, BTreeSet};

use heliox_bench::size::show_bytes;

use crate::figure::{median, Figure};
use crate::row::{Failed, Results, Row};

/// The rows of one case; never none.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) engine: String,
    pub(crate) workload: String,
    pub(crate) threads: u64,
    /// What tells it from others of the same engine, workload and threads; often nothing.
    pub(crate) variant: String,
    pub(crate) rows: Vec<Row>,
}

impl Case {
    /// A figure, one for each repeat that has it.
    pub(crate) fn figures(&self, figure: &Figure) -> Vec<f64> {
        self.rows.iter().filter_map(figure.of).collect()
    }

    /// The median of a figure over the repeats.
    pub(crate) fn median(&self, figure: &Figure) -> Option<f64> {
        median(&self.figures(figure))
    }

    /// The repeat whose speed is the median (of two in the middle, the slower): the one that is
    /// shown where figures of several cannot be put together.
    pub(crate) fn typical(&self) -> Option<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let speed = |row: &Row| row.ops_per_s.unwrap_or_default();
        rows.sort_by(|a, b| speed(a).total_cmp(&speed(b)));
        rows.get(rows.len().saturating_sub(1) / 2).copied()
    }

    /// The workload with what tells it from others of that name.
    pub(crate) fn work(&self) -> String {
        if self.variant.is_empty() {
            self.workload.clone()
        } else {
            format!("{}, {}", self.workload, self.variant)
        }
    }

    /// Its rows tell what the kernel counted.
    pub(crate) fn has_kernel_figures(&self) -> bool {
        let told = |row: &Row| row.kernel_read_bytes.or(row.peak_rss_bytes).is_some();
        self.rows.iter().any(told)
    }

    /// Its rows tell how much of the raw device they had.
    pub(crate) fn has_raw_share(&self) -> bool {
        self.rows.iter().any(|row| row.raw_share.is_some())
    }

    /// The number of threads, with the word.
    pub(crate) fn show_threads(&self) -> String {
        match self.threads {
            1 => "1 thread".to_owned(),
            more => format!("{more} threads"),
        }
    }

    /// Is the same case of another run.
    pub(crate) fn matches(&self, other: &Case) -> bool {
        self.engine == other.engine
            && self.workload == other.workload
            && self.threads == other.threads
            && self.variant == other.variant
    }
}

type Kind<'r> = (&'r str, &'r str, u64);

/// Settings that differ among rows of the same engine, workload and threads.
pub(crate) type Varying = BTreeSet<&'static str>;

/// The settings that differ within the results.
pub(crate) fn varying(results: &Results) -> Varying {
    let mut firsts: BTreeMap<Kind<'_>, &Row> = BTreeMap::new();
    let mut varying = Varying::new();
    for row in &results.rows {
        let kind = (row.engine.as_str(), row.workload.as_str(), row.threads);
        let first = firsts.entry(kind).or_insert(row);
        for (one, other) in [(*first, row), (row, *first)] {
            let names = one
                .settings
                .iter()
                .filter(|setting| !other.settings.contains(setting));
            varying.extend(names.map(|(name, _)| *name));
        }
    }
    varying
}

/// The cases of the results, in the order of their first rows. A workload that stands twice in one
/// repeat was run twice, on another state of the store each time: two cases.
pub(crate) fn cases(results: &Results, varying: &Varying) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for row in &results.rows {
        let told = row
            .settings
            .iter()
            .filter(|(name, _)| varying.contains(name));
        let setting: Vec<String> = told
            .map(|(name, value)| {
                let value = show_values(name, std::slice::from_ref(value));
                format!("{} {value}", show_name(name))
            })
            .collect();
        for time in 1usize.. {
            let mut parts = setting.clone();
            if time > 1 {
                parts.push(format!("time {time}"));
            }
            let case = Case {
                engine: row.engine.clone(),
                workload: row.workload.clone(),
                threads: row.threads,
                variant: parts.join(", "),
                rows: vec![row.clone()],
            };
            match cases.iter_mut().find(|other| other.matches(&case)) {
                None => cases.push(case),
                Some(known) if known.rows.iter().all(|other| other.repeat != row.repeat) => {
                    known.rows.extend(case.rows);
                }
                Some(_) => continue,
            }
            break;
        }
    }
    cases
}

/// The settings of all rows: a name and the values that occur.
pub(crate) fn settings(results: &Results) -> Vec<(&'static str, Vec<String>)> {
    let mut settings: Vec<(&'static str, Vec<String>)> = Vec::new();
    for (name, value) in results.rows.iter().flat_map(|row| &row.settings) {
        match settings.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) if values.contains(value) => {}
            Some((_, values)) => values.push(value.clone()),
            None => settings.push((*name, vec![value.clone()])),
        }
    }
    settings
}

/// A setting's name for people.
pub(crate) fn show_name(name: &str) -> String {
    name.trim_end_matches("_bytes").replace('_', " ")
}

/// A setting's values for people, of which bytes that are many are in a unit.
pub(crate) fn show_values(name: &str, values: &[String]) -> String {
    let show = |value: &String| match value.parse() {
        Ok(bytes) if name == "memory_bytes" => show_bytes(bytes),
        _ => value.clone(),
    };
    let values: Vec<String> = values.iter().map(show).collect();
    values.join(" / ")
}

/// Cases that belong into one table or chart.
#[derive(Clone, Debug)]
pub(crate) struct Group<'c> {
    /// What they have in common.
    pub(crate) title: String,
    /// Each with what tells it from the others.
    pub(crate) cases: Vec<(String, &'c Case)>,
    /// Engines that failed before they were measured in it, each with its place in `places`.
    failed: Vec<(usize, &'c str)>,
}

impl<'c> Group<'c> {
    /// The cases with what tells them from each other, and between them, without a case, the engines that
    /// failed: those measured elsewhere in their order, then the others.
    pub(crate) fn places(&self) -> Vec<(&str, Option<&'c Case>)> {
        let cases = self.cases.iter();
        let mut places: Vec<_> = cases
            .map(|(label, case)| (label.as_str(), Some(*case)))
            .collect();
        for (place, engine) in &self.failed {
            places.insert(*place, (engine, None));
        }
        places
    }
}

/// What stands beside each other in a table or chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beside {
    /// Engines that did the same; a group for each workload and number of threads.
    Engines,
    /// The same workload of the one engine in several ways; a group for each workload.
    Ways,
    /// The workloads of the one engine; a single group.
    Workloads,
}

impl Beside {
    /// What suits these cases.
    pub(crate) fn of(cases: &[Case]) -> Beside {
        let again = |(place, case): (usize, &Case)| {
            let before = cases.iter().take(place);
            before
                .into_iter()
                .any(|other| other.workload == case.workload)
        };
        if engines(cases).len() > 1 {
            Beside::Engines
        } else if cases.iter().enumerate().any(again) {
            Beside::Ways
        } else {
            Beside::Workloads
        }
    }

    /// The heading of their names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Beside::Engines => "engine",
            Beside::Ways => "",
            Beside::Workloads => "workload",
        }
    }
}

/// The cases, with those in one group that stand beside each other, and what failed beside them.
pub(crate) fn groups<'c>(cases: &'c [Case], failures: &'c [Failed]) -> Vec<Group<'c>> {
    let beside = Beside::of(cases);
    let threads = cases.windows(2).any(|pair| match pair {
        [one, other] => one.threads != other.threads,
        _ => false,
    });
    let mut groups: Vec<Group<'_>> = Vec::new();
    for case in cases {
        let threads = threads.then(|| case.show_threads());
        let variant = Some(case.variant.clone()).filter(|variant| !variant.is_empty());
        let (title, label) = match beside {
            Beside::Engines => (
                vec![Some(case.work()), threads],
                vec![Some(case.engine.clone())],
            ),
            Beside::Ways => (vec![Some(case.workload.clone())], vec![variant, threads]),
            Beside::Workloads => (
                vec![Some(case.engine.clone())],
                vec![Some(case.work()), threads],
            ),
        };
        let title = join(title);
        let label = Some(join(label)).filter(|label| !label.is_empty());
        let label = label.unwrap_or_else(|| case.engine.clone());
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.cases.push((label, case)),
            None => groups.push(Group {
                title,
                cases: vec![(label, case)],
                failed: Vec::new(),
            }),
        }
    }
    if beside == Beside::Engines {
        for group in &mut groups {
            group.failed = failed(group, &engines(cases), failures);
        }
    }
    groups
}

/// The engines that failed and have no case in the group, with their places.
fn failed<'c>(
    group: &Group<'c>,
    engines: &[&'c str],
    failures: &'c [Failed],
) -> Vec<(usize, &'c str)> {
    let mut order = engines.to_vec();
    for failure in failures {
        if !order.contains(&failure.engine.as_str()) {
            order.push(&failure.engine);
        }
    }
    let measured = |engine: &str| group.cases.iter().any(|(_, case)| case.engine == engine);
    let failed = |engine: &str| failures.iter().any(|failure| failure.engine == engine);
    let stands = order
        .into_iter()
        .filter(|engine| measured(engine) || failed(engine));
    let placed = stands.enumerate();
    placed.filter(|(_, engine)| !measured(engine)).collect()
}

fn join(parts: Vec<Option<String>>) -> String {
    let told: Vec<String> = parts.into_iter().flatten().collect();
    told.join(", ")
}

/// The engines, in the order of their first cases.
pub(crate) fn engines(cases: &[Case]) -> Vec<&str> {
    let mut engines: Vec<&str> = Vec::new();
    for case in cases {
        if !engines.contains(&case.engine.as_str()) {
            engines.push(&case.engine);
        }
    }
    engines
}
