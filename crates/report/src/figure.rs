//! Which figures of a row are shown, and medians and spreads of them. Plain data, no threads.

use heliox_bench::size::show_bytes;
use heliox_bench::{short, thousands};

use crate::row::Row;

/// A figure that each row may have.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    /// The heading of its column.
    pub(crate) name: &'static str,
    /// Its value in one row.
    pub(crate) of: fn(&Row) -> Option<f64>,
    /// Its value for people.
    pub(crate) show: fn(f64) -> String,
    /// More of it is better.
    pub(crate) more_is_better: bool,
    /// It has a column where two runs are compared.
    pub(crate) compared: bool,
}

/// Operations a second, which everything else is beside; a store that is opened again does none.
pub(crate) const SPEED: Figure = Figure {
    name: "ops/s",
    of: |row| row.ops_per_s.filter(|_| row.open_seconds.is_none()),
    show: thousands,
    more_is_better: true,
    compared: true,
};

pub(crate) const AMPLIFICATION: Figure = cost("write amp", |row| row.write_amplification, ratio);

pub(crate) const OPENING: Figure = cost("open s", |row| row.open_seconds, seconds);

/// The figures beside it, in the order of the tables.
pub(crate) const COSTS: [Figure; 16] = [
    OPENING,
    aside("close s", |row| row.close_seconds, seconds),
    aside("offered", |row| row.offered, thousands),
    aside("found", |row| row.found.map(|(found, _)| found), thousands),
    cost("p50 us", |row| row.p50_us, short),
    cost("p99", |row| row.p99_us, short),
    cost("p99.9", |row| row.p999_us, short),
    cost("max", |row| row.max_us, short),
    cost("stall ms", |row| row.stall_ms, |ms| format!("{ms:.1}")),
    AMPLIFICATION,
    aside(
        "read B/op",
        |row| each(row.kernel_read_bytes, row),
        thousands,
    ),
    aside(
        "of raw",
        |row| row.raw_share,
        |share| format!("{:.0} %", 100.0 * share),
    ),
    cost(
        "cpu us/op",
        |row| each(row.cpu_seconds, row),
        |seconds| short(seconds * 1e6),
    ),
    aside("index B/obj", |row| row.index_bytes_per_object, ratio),
    cost("disk", |row| row.disk_bytes, bytes),
    cost("peak memory", |row| row.peak_rss_bytes, bytes),
];

const fn cost(name: &'static str, of: fn(&Row) -> Option<f64>, show: fn(f64) -> String) -> Figure {
    Figure {
        name,
        of,
        show,
        more_is_better: false,
        compared: true,
    }
}

/// One that would only widen the comparison of two runs.
const fn aside(name: &'static str, of: fn(&Row) -> Option<f64>, show: fn(f64) -> String) -> Figure {
    Figure {
        compared: false,
        ..cost(name, of, show)
    }
}

fn each(sum: Option<f64>, row: &Row) -> Option<f64> {
    sum.zip(row.ops).map(|(sum, ops)| sum / ops.max(1.0))
}

fn seconds(figure: f64) -> String {
    format!("{figure:.3}")
}

fn ratio(figure: f64) -> String {
    format!("{figure:.2}")
}

fn bytes(figure: f64) -> String {
    show_bytes(figure as u64)
}

/// The middle of the figures; of an even number, the mean of the two in the middle.
#[must_use]
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// From the smallest to the largest figure; `None` for fewer than two.
pub(crate) fn spread(figures: &[f64]) -> Option<f64> {
    let smallest = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (figures.len() > 1).then_some(largest - smallest)
}

/// The same in percent of the median; `None` for fewer than two, or where that is 0.
#[must_use]
pub fn spread_percent(figures: &[f64]) -> Option<f64> {
    let middle = median(figures).filter(|middle| *middle > 0.0)?;
    Some(100.0 * spread(figures)? / middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads_are_those_of_the_definition() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(spread_percent(&[3.0]), None);
        assert_eq!(spread_percent(&[0.0, 0.0]), None);
        assert_eq!(spread_percent(&[9.0, 10.0, 12.0]), Some(30.0));
    }
}
