//! What changes with the number of keys: lines over it, where an engine was measured with several numbers.
//! No state, no threads.

use crate::case::{engines, Case};
use crate::figure::{Figure, OPENING, SPEED};
use crate::row::Row;

/// A point for each number of keys.
pub(crate) type Points = Vec<(f64, f64)>;

/// What is drawn over the number of keys: a name for its axis, and a line of each engine that has two
/// points and more.
pub(crate) struct Growth {
    /// What is done, how often before, by how many threads, and the figure.
    pub(crate) title: String,
    pub(crate) axis: &'static str,
    /// Engine by its place, with its points by number.
    pub(crate) lines: Vec<(usize, Points)>,
}

type Of = fn(&Row) -> Option<f64>;

/// The name of an axis, its figure, and whether that is divided by the number of keys.
const FIGURES: [(&str, Of, bool); 5] = [
    ("operations a second", SPEED.of, false),
    ("seconds to open", OPENING.of, false),
    ("peak memory, bytes a key", |row| row.peak_rss_bytes, true),
    ("occupied, bytes a key", |row| row.disk_bytes, true),
    (
        "index, bytes a key",
        |row| row.index_bytes_per_object,
        false,
    ),
];

/// All of them; none where every store had as many keys.
pub(crate) fn growth(cases: &[Case]) -> Vec<Growth> {
    let mut works: Vec<(String, u64, usize)> = Vec::new();
    for case in cases {
        let work = (case.workload.clone(), case.threads, time(case, cases));
        if !works.contains(&work) {
            works.push(work);
        }
    }
    let engines = engines(cases);
    let all = works.iter().flat_map(|work| {
        FIGURES.iter().filter_map(|(axis, of, divided)| {
            let of_engine = |(place, engine): (usize, &&str)| {
                let points = points(cases, engine, work, *of, *divided);
                (points.len() > 1).then_some((place, points))
            };
            let lines: Vec<_> = engines.iter().enumerate().filter_map(of_engine).collect();
            (!lines.is_empty()).then(|| Growth {
                title: title(work, axis),
                axis,
                lines,
            })
        })
    });
    all.collect()
}

fn title((workload, threads, time): &(String, u64, usize), figure: &str) -> String {
    let time = match time {
        1 => String::new(),
        again => format!(", time {again}"),
    };
    let threads = match threads {
        1 => "1 thread".to_owned(),
        more => format!("{more} threads"),
    };
    format!("{workload}{time}, {threads}: {figure}")
}

/// Which run of its workload a case is, on a store of its size: from 1 on.
fn time(case: &Case, cases: &[Case]) -> usize {
    let same = |other: &&Case| {
        other.engine == case.engine
            && other.workload == case.workload
            && other.threads == case.threads
            && keys(other) == keys(case)
    };
    let before = cases.iter().take_while(|other| !std::ptr::eq(*other, case));
    before.filter(same).count() + 1
}

/// How many keys its store had.
fn keys(case: &Case) -> Option<u64> {
    let row = case.rows.first()?;
    let told = row.settings.iter().find(|(name, _)| *name == "num");
    told?.1.parse().ok()
}

fn points(
    cases: &[Case],
    engine: &str,
    (workload, threads, of_time): &(String, u64, usize),
    of: Of,
    divided: bool,
) -> Points {
    let figure = Figure { of, ..SPEED };
    let these = cases.iter().filter(|case| {
        case.engine == engine
            && case.workload == *workload
            && case.threads == *threads
            && time(case, cases) == *of_time
    });
    let point = |case: &Case| {
        let keys = keys(case).filter(|keys| *keys > 0)? as f64;
        let divisor = if divided { keys } else { 1.0 };
        Some((keys, case.median(&figure)? / divisor))
    };
    let mut points: Points = these.filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
