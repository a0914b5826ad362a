//! Which charts there are of one run or two, and what they show. A chart of which the rows tell
//! nothing is left out. No state, no threads.

use heliox_bench::{short, thousands};

use crate::case::{engines, groups, Beside, Case, Group};
use crate::chart::{bars, lines, Axis, Bar, Line};
use crate::compare::{pairs, Naming};
use crate::error::ReportError;
use crate::figure::{Figure, AMPLIFICATION, OPENING, SPEED};
use crate::growth;
use crate::row::Row;
use crate::run::Run;

/// Lines in one chart; more could not be told apart.
const LINES_MAX: usize = 6;
/// Points of a line over time; more are taken together. Ten minutes are shown second by second.
const TIME_POINTS_MAX: usize = 600;
/// Of the last second of a run this share must have passed for it to be shown.
const LAST_SECOND_MIN: f64 = 0.5;
/// Shortest latency that is told from none: a nanosecond.
const SHORTEST_US: f64 = 1e-3;

/// Charts of one kind.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) note: &'static str,
    pub(crate) plots: Vec<Plot>,
}

/// A chart with its title and the names of its lines.
pub(crate) struct Plot {
    pub(crate) title: String,
    /// Names of lines with the numbers of their colours.
    pub(crate) legend: Vec<(String, usize)>,
    pub(crate) svg: String,
}

const SPEED_NOTE: &str = "Medians of the repeats.";
const OPENING_NOTE: &str =
    "Seconds from the begin of opening the store to the answer of the first read, \
     with an empty page cache. Medians of the repeats.";
const LATENCY_NOTE: &str = "How long a call took at most, for a share of all calls: each step to \
     the right is a tenth of the calls of the step before. Of the repeat with the median speed.";
const CDF_NOTE: &str =
    "Share of the calls that took no longer than what stands below it: the higher and the \
     more to the left, the better. Of the repeat with the median speed.";
const BUCKETS_NOTE: &str =
    "Share of the calls that took so long, and longer than the bar above says. \
     Of the repeat with the median speed.";
const TIME_NOTE: &str =
    "Operations completed in each second (of a run of more than ten minutes, the \
     mean of a few seconds). Of the repeat with the median speed.";
const TRAFFIC_NOTE: &str = "MiB that the kernel fetched from storage for the process, or sent there, in \
     each second; what an engine leaves in the page cache is told when it becomes dirty. Of the repeat \
     with the median speed.";
const CPU_NOTE: &str =
    "Seconds of processor time of all threads, those of the benchmark included, in \
     each second: how many processors were busy. Of the repeat with the median speed.";
const AMPLIFICATION_NOTE: &str =
    "Bytes written to media for each byte of keys and values. Medians of the repeats.";
const SPACE_NOTE: &str =
    "For each live object, keys and values included: what the store occupies, \
     the most memory of the process, and what of it is the index, where an engine tells. Objects \
     are those that Heliox counts.";
const GROWTH_NOTE: &str =
    "By the number of keys, where stores of several sizes were measured: operations a second, \
     seconds to open, and memory, space and index of a key. Medians of the repeats.";
const SCALING_NOTE: &str = "Operations a second by number of threads. Medians of the repeats.";

/// The charts of one run.
pub(crate) fn of_one(run: &Run) -> Result<Vec<Section>, ReportError> {
    let cases = &run.cases;
    let groups = groups(cases, &run.results.failures);
    let lines = lines_of(cases, &groups);
    let sections = [
        section(
            "Operations a second",
            SPEED_NOTE,
            speed_bars(cases, &groups, &SPEED),
        )?,
        section(
            "Opening",
            OPENING_NOTE,
            speed_bars(cases, &groups, &OPENING),
        )?,
        section("Latency", LATENCY_NOTE, each(&lines, latency))?,
        section("Latency, CDF", CDF_NOTE, each(&lines, distribution))?,
        section(
            "Latency distribution",
            BUCKETS_NOTE,
            buckets(cases, &groups),
        )?,
        section("Speed over time", TIME_NOTE, each(&lines, over_time))?,
        section("Device traffic over time", TRAFFIC_NOTE, traffic(&lines))?,
        section("Processors over time", CPU_NOTE, each(&lines, processors))?,
        section("Scaling over threads", SCALING_NOTE, scaling(cases))?,
        section("Growth over keys", GROWTH_NOTE, growth(cases))?,
        section(
            "Write amplification",
            AMPLIFICATION_NOTE,
            speed_bars(cases, &groups, &AMPLIFICATION),
        )?,
        section("Memory and space", SPACE_NOTE, space(cases, &groups))?,
    ];
    Ok(kept(sections))
}

/// The charts of two runs beside each other.
pub(crate) fn of_two(old: &Run, new: &Run) -> Result<Vec<Section>, ReportError> {
    let naming = Naming::of(&old.cases, &new.cases);
    let pairs: Vec<LinesOf<'_>> = pairs(&old.cases, &new.cases)
        .into_iter()
        .map(|(one, other)| LinesOf {
            title: naming.name(one),
            cases: vec![("A".to_owned(), 0, one), ("B".to_owned(), 1, other)],
        })
        .collect();
    let sections = [
        section(
            "Operations a second",
            SPEED_NOTE,
            pair_bars(old, new, &SPEED),
        )?,
        section("Opening", OPENING_NOTE, pair_bars(old, new, &OPENING))?,
        section("Latency", LATENCY_NOTE, each(&pairs, latency))?,
        section("Latency, CDF", CDF_NOTE, each(&pairs, distribution))?,
        section("Speed over time", TIME_NOTE, each(&pairs, over_time))?,
        section("Device traffic over time", TRAFFIC_NOTE, traffic(&pairs))?,
        section("Processors over time", CPU_NOTE, each(&pairs, processors))?,
        section(
            "Write amplification",
            AMPLIFICATION_NOTE,
            pair_bars(old, new, &AMPLIFICATION),
        )?,
    ];
    Ok(kept(sections))
}

type Plots = Result<Vec<Plot>, ReportError>;

fn section(title: &'static str, note: &'static str, plots: Plots) -> Result<Section, ReportError> {
    Ok(Section {
        title,
        note,
        plots: plots?,
    })
}

fn kept<const N: usize>(sections: [Section; N]) -> Vec<Section> {
    let says = |section: &Section| !section.plots.is_empty();
    sections.into_iter().filter(says).collect()
}

/// Cases that share a chart of lines, with their names and colours.
struct LinesOf<'c> {
    title: String,
    cases: Vec<(String, usize, &'c Case)>,
}

/// Names in the order of their colours: an engine has the same one in every chart.
fn colours<'l>(cases: &[Case], groups: &'l [Group<'_>]) -> Vec<&'l str> {
    let mut labels: Vec<&str> = Vec::new();
    if Beside::of(cases) != Beside::Workloads {
        for (label, _) in groups.iter().flat_map(|group| &group.cases) {
            if !labels.contains(&label.as_str()) {
                labels.push(label);
            }
        }
    }
    labels
}

/// The place among all names, or what stands for it where the names are those of workloads.
fn colour(labels: &[&str], label: &str, other: usize) -> usize {
    let place = labels.iter().position(|known| *known == label);
    place.unwrap_or(other)
}

/// Groups with no more cases than a chart can hold.
fn lines_of<'c>(cases: &[Case], groups: &[Group<'c>]) -> Vec<LinesOf<'c>> {
    let labels = colours(cases, groups);
    let chunks = groups.iter().flat_map(|group| {
        let chunks = group.cases.chunks(LINES_MAX);
        chunks.map(|cases| LinesOf {
            title: group.title.clone(),
            cases: cases
                .iter()
                .enumerate()
                .map(|(place, (label, case))| (label.clone(), colour(&labels, label, place), *case))
                .collect(),
        })
    });
    chunks.collect()
}

fn each(
    charts: &[LinesOf<'_>],
    draw: impl Fn(&LinesOf<'_>) -> Result<Option<Plot>, ReportError>,
) -> Plots {
    let plots = charts.iter().map(draw);
    plots.filter_map(Result::transpose).collect()
}

/// The lines that say something, and their names; none where no line has two points. One that has
/// a single point is a dot beside the others.
fn told(
    chart: &LinesOf<'_>,
    points: impl Fn(&Row) -> Vec<(f64, f64)>,
) -> (Vec<(String, usize)>, Vec<Line>) {
    let line = |(label, colour, case): &(String, usize, &Case)| {
        let points = case.typical().map(&points).unwrap_or_default();
        let line = Line {
            colour: *colour,
            dots: points.len() == 1,
            points,
        };
        (!line.points.is_empty()).then(|| ((label.clone(), *colour), line))
    };
    let told: Vec<_> = chart.cases.iter().filter_map(line).collect();
    if told.iter().all(|(_, line)| line.dots) {
        return (Vec::new(), Vec::new());
    }
    told.into_iter().unzip()
}

fn latency(chart: &LinesOf<'_>) -> Result<Option<Plot>, ReportError> {
    let (legend, told) = told(chart, |row| {
        let place = |(percent, micros): &(f64, f64)| {
            let slower = 1.0 - percent / 100.0;
            (-slower.log10(), micros.max(SHORTEST_US).log10())
        };
        let told = row.open_seconds.is_none().then_some(&row.percentiles_us);
        told.into_iter().flatten().map(place).collect()
    });
    if told.is_empty() {
        return Ok(None);
    }
    let share = ["0", "90 %", "99", "99.9", "99.99", "99.999"];
    let last = all(&told).map(|(x, _)| x).fold(1.0, f64::max);
    let ticks = share.iter().enumerate();
    let x = Axis {
        name: "share of the calls".to_owned(),
        low: 0.0,
        high: last,
        ticks: ticks
            .map(|(place, text)| (place as f64, (*text).to_owned()))
            .filter(|(place, _)| *place <= last + 1e-6)
            .collect(),
    };
    let y = Axis::logarithmic("latency", all(&told).map(|(_, y)| y), time);
    let svg = lines(&chart.title, x, y, &told)?;
    Ok(Some(plot(&chart.title, legend, svg)))
}

/// The share of the calls over how long they took at most.
fn distribution(chart: &LinesOf<'_>) -> Result<Option<Plot>, ReportError> {
    let (legend, told) = told(chart, |row| {
        let place = |(percent, micros): &(f64, f64)| (micros.max(SHORTEST_US).log10(), *percent);
        let told = row.open_seconds.is_none().then_some(&row.percentiles_us);
        told.into_iter().flatten().map(place).collect()
    });
    if told.is_empty() {
        return Ok(None);
    }
    let x = Axis::logarithmic("latency", all(&told).map(|(x, _)| x), time);
    let y = Axis::linear("share of the calls", 100.0, |share| {
        format!("{} %", plain(share))
    });
    let svg = lines(&chart.title, x, y, &told)?;
    Ok(Some(plot(&chart.title, legend, svg)))
}

fn over_time(chart: &LinesOf<'_>) -> Result<Option<Plot>, ReportError> {
    let told = told(chart, |row| seconds(row, &row.ops_by_second));
    time_chart(&chart.title, "operations a second", told)
}

fn processors(chart: &LinesOf<'_>) -> Result<Option<Plot>, ReportError> {
    let told = told(chart, |row| seconds(row, &row.cpu_seconds_by_second));
    time_chart(&chart.title, "processors", told)
}

/// A chart of what was read and one of what was written; none of what no engine did.
fn traffic(charts: &[LinesOf<'_>]) -> Plots {
    type Series = fn(&Row) -> &[f64];
    let kinds: [(&str, Series); 2] = [
        ("read", |row| &row.read_bytes_by_second),
        ("written", |row| &row.write_bytes_by_second),
    ];
    let plots = charts.iter().flat_map(|chart| {
        kinds.iter().map(|(kind, series)| {
            let told = told(chart, |row| {
                let bytes = seconds(row, series(row)).into_iter();
                bytes.map(|(x, y)| (x, y / f64::from(1 << 20))).collect()
            });
            if all(&told.1).all(|(_, y)| y == 0.0) {
                return Ok(None);
            }
            time_chart(&format!("{}, {kind}", chart.title), "MiB a second", told)
        })
    });
    plots.filter_map(Result::transpose).collect()
}

fn time_chart(
    title: &str,
    what: &str,
    (legend, told): (Vec<(String, usize)>, Vec<Line>),
) -> Result<Option<Plot>, ReportError> {
    if told.is_empty() {
        return Ok(None);
    }
    let x = Axis::whole(
        "seconds",
        all(&told).map(|(x, _)| x).fold(0.0, f64::max),
        plain,
    );
    let y = Axis::linear(what, all(&told).map(|(_, y)| y).fold(0.0, f64::max), count);
    let svg = lines(title, x, y, &told)?;
    Ok(Some(plot(title, legend, svg)))
}

/// How the calls are spread over latencies: a chart for each case.
fn buckets(cases: &[Case], groups: &[Group<'_>]) -> Plots {
    let labels = colours(cases, groups);
    let told = groups.iter().flat_map(|group| {
        let case = |(label, case): &(String, &Case)| {
            (group.title.clone(), label.clone(), case.typical().cloned())
        };
        group.cases.iter().map(case).collect::<Vec<_>>()
    });
    let charts = told.filter_map(|(title, label, row)| {
        let calls = row
            .filter(|row| row.open_seconds.is_none())?
            .calls_by_latency;
        let all: f64 = calls.iter().map(|(_, calls)| calls).sum();
        let bars = calls.iter().map(|(micros, calls)| {
            let name = format!("up to {}", time(*micros));
            bar(
                &name,
                colour(&labels, &label, 0),
                calls / all.max(1.0),
                percent,
            )
        });
        bar_chart(&format!("{title}, {label}"), bars.collect())
    });
    charts.collect()
}

fn all(lines: &[Line]) -> impl Iterator<Item = (f64, f64)> + '_ {
    lines.iter().flat_map(|line| line.points.iter().copied())
}

/// Figures of a row by second at the middles of their seconds; many are taken together.
fn seconds(row: &Row, series: &[f64]) -> Vec<(f64, f64)> {
    let mut speeds = series.to_vec();
    let whole = speeds.len().saturating_sub(1);
    // The last one is as long as the run has left.
    let part = row
        .seconds
        .map_or(1.0, |seconds| (seconds - whole as f64).clamp(0.0, 1.0));
    if part < LAST_SECOND_MIN {
        speeds.pop();
    } else if let Some(last) = speeds.last_mut() {
        *last /= part;
    }
    let step = speeds.len().div_ceil(TIME_POINTS_MAX).max(1);
    let chunks = speeds.chunks(step).enumerate();
    let point = |(place, chunk): (usize, &[f64])| {
        let begin = (place * step) as f64;
        let length = chunk.len() as f64;
        (begin + length / 2.0, chunk.iter().sum::<f64>() / length)
    };
    chunks.map(point).collect()
}

/// Bars of a figure: a chart for each workload where there are several engines, else one chart.
fn speed_bars(cases: &[Case], groups: &[Group<'_>], figure: &Figure) -> Plots {
    let labels = colours(cases, groups);
    let charts = groups.iter().filter_map(|group| {
        let median = |case: &Case| case.median(figure);
        bar_chart(&group.title, bars_of(group, &labels, median, figure.show))
    });
    charts.collect()
}

/// The bars of a group, with a mark where an engine failed.
fn bars_of(
    group: &Group<'_>,
    labels: &[&str],
    value: impl Fn(&Case) -> Option<f64>,
    show: fn(f64) -> String,
) -> Vec<Bar> {
    let bars = group.places().into_iter().map(|(label, case)| match case {
        Some(case) => Some(bar(label, colour(labels, label, 0), value(case)?, show)),
        None => Some(failed_bar(label)),
    });
    bars.flatten().collect()
}

/// The same of two runs: a bar for either, of each case that both have, or that one has and whose engine failed
/// in the other.
fn pair_bars(old: &Run, new: &Run, figure: &Figure) -> Plots {
    let only_new = new.cases.iter().filter(|case| old.find(case).is_none());
    let cases: Vec<Case> = old.cases.iter().chain(only_new).cloned().collect();
    let groups = groups(&cases, &[]);
    let charts = groups.iter().filter_map(|group| {
        let pairs = group.cases.iter();
        let bars = pairs.flat_map(|(label, case)| pair(label, case, [old, new], figure));
        bar_chart(&group.title, bars.collect())
    });
    charts.collect()
}

fn pair(label: &str, case: &Case, runs: [&Run; 2], figure: &Figure) -> Vec<Bar> {
    let found = runs.map(|run| run.find(case));
    let value = |case: Option<&Case>| case.and_then(|case| case.median(figure));
    let missing =
        |(run, found): (&Run, &Option<&Case>)| found.is_none() && !run.has_failed(&case.engine);
    if runs.into_iter().zip(&found).any(missing) || found.iter().all(|case| value(*case).is_none())
    {
        return Vec::new();
    }
    let letters = ["A", "B"].into_iter().enumerate().zip(found);
    let bars = letters.map(|((colour, letter), found)| {
        let label = format!("{label} {letter}");
        match found {
            Some(case) => Some(bar(&label, colour, case.median(figure)?, figure.show)),
            None => Some(failed_bar(&label)),
        }
    });
    bars.flatten().collect()
}

fn bar(label: &str, colour: usize, value: f64, show: fn(f64) -> String) -> Bar {
    Bar {
        label: label.to_owned(),
        colour,
        value,
        text: show(value),
        failed: false,
    }
}

fn failed_bar(label: &str) -> Bar {
    Bar {
        failed: true,
        ..bar(label, 0, 0.0, |_| "failed".to_owned())
    }
}

/// `None` if there is nothing to draw.
fn bar_chart(title: &str, told: Vec<Bar>) -> Option<Result<Plot, ReportError>> {
    if told.iter().all(|bar| bar.failed) {
        return None;
    }
    let svg = bars(title, &told);
    Some(svg.map(|svg| plot(title, Vec::new(), svg)))
}

/// What an object costs, after the last workload that was measured.
fn space(cases: &[Case], groups: &[Group<'_>]) -> Plots {
    let several = Beside::of(cases) != Beside::Workloads;
    let labels = colours(cases, groups);
    let group = groups.iter().rev().find(|group| objects(group).is_some());
    let Some((group, objects)) = group.and_then(|group| Some((group, objects(group)?))) else {
        return Ok(Vec::new());
    };
    type Bytes = fn(&Row) -> Option<f64>;
    let figures: [(&str, bool, Bytes); 3] = [
        ("occupied, bytes an object", true, |row| row.disk_bytes),
        ("peak memory, bytes an object", true, |row| {
            row.peak_rss_bytes
        }),
        ("index, bytes an object", false, |row| {
            row.index_bytes_per_object
        }),
    ];
    let charts = figures.into_iter().filter_map(|(title, divided, of)| {
        let figure = Figure {
            name: title,
            of,
            show: short,
            more_is_better: false,
            compared: false,
        };
        let value = |case: &Case| {
            let own = case.typical().and_then(|row| row.objects);
            let count = if divided { own.unwrap_or(objects) } else { 1.0 };
            Some(case.median(&figure)? / count.max(1.0))
        };
        let bars = bars_of(group, &labels, value, figure.show);
        let title = if several {
            format!("{title}, after {}", group.title)
        } else {
            title.to_owned()
        };
        bar_chart(&title, bars)
    });
    charts.collect()
}

/// Objects of the stores of a group, by the engine that tells.
fn objects(group: &Group<'_>) -> Option<f64> {
    let rows = group.cases.iter().filter_map(|(_, case)| case.typical());
    let told = rows.filter_map(|row| row.objects).fold(0.0, f64::max);
    (told > 0.0).then_some(told)
}

/// Speeds over threads, where an engine was measured with several numbers of them: a chart for
/// each workload.
fn scaling(cases: &[Case]) -> Plots {
    let engines = engines(cases);
    let mut works: Vec<String> = Vec::new();
    for case in cases {
        if !works.contains(&case.work()) {
            works.push(case.work());
        }
    }
    let charts = works.iter().map(|work| {
        let mut legend = Vec::new();
        let mut told = Vec::new();
        for (colour, engine) in engines.iter().enumerate() {
            let these = cases
                .iter()
                .filter(|case| case.engine == **engine && case.work() == *work);
            let point = |case: &Case| Some((case.threads as f64, case.median(&SPEED)?));
            let mut points: Vec<(f64, f64)> = these.filter_map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if points.len() > 1 {
                legend.push(((*engine).to_owned(), colour));
                told.push(Line {
                    colour,
                    points,
                    dots: true,
                });
            }
        }
        scaling_chart(work, legend, &told)
    });
    charts.filter_map(Result::transpose).collect()
}

fn scaling_chart(
    work: &str,
    legend: Vec<(String, usize)>,
    told: &[Line],
) -> Result<Option<Plot>, ReportError> {
    if told.is_empty() {
        return Ok(None);
    }
    let x = Axis::whole(
        "threads",
        all(told).map(|(x, _)| x).fold(0.0, f64::max),
        plain,
    );
    let y = Axis::linear(
        "operations a second",
        all(told).map(|(_, y)| y).fold(0.0, f64::max),
        count,
    );
    let svg = lines(work, x, y, told)?;
    Ok(Some(plot(work, legend, svg)))
}

/// Figures over the number of keys.
fn growth(cases: &[Case]) -> Plots {
    let engines = engines(cases);
    let charts = growth::growth(cases).into_iter().map(|growth| {
        let logarithm = |(keys, value): &(f64, f64)| (keys.log10(), *value);
        let line = |(colour, points): &(usize, growth::Points)| Line {
            colour: *colour,
            points: points.iter().map(logarithm).collect(),
            dots: true,
        };
        let told: Vec<Line> = growth.lines.iter().map(line).collect();
        let name = |(place, _): &(usize, growth::Points)| {
            let engine = engines.get(*place).copied().unwrap_or_default();
            (engine.to_owned(), *place)
        };
        let legend = growth.lines.iter().map(name).collect();
        let x = Axis::logarithmic("keys", all(&told).map(|(x, _)| x), count);
        let largest = all(&told).map(|(_, y)| y).fold(0.0, f64::max);
        let y = Axis::linear(growth.axis, largest, count);
        let svg = lines(&growth.title, x, y, &told)?;
        Ok(plot(&growth.title, legend, svg))
    });
    charts.collect()
}

fn plot(title: &str, legend: Vec<(String, usize)>, svg: String) -> Plot {
    Plot {
        title: title.to_owned(),
        legend,
        svg,
    }
}

/// Microseconds in the unit that suits them.
fn time(micros: f64) -> String {
    match micros {
        x if x < 0.99 => format!("{:.0} ns", x * 1e3),
        x if x < 999.0 => format!("{x:.0} us"),
        x if x < 999e3 => format!("{:.0} ms", x / 1e3),
        x => format!("{} s", thousands(x / 1e6)),
    }
}

fn count(number: f64) -> String {
    match number {
        x if x < 1e3 => plain(x),
        x if x < 1e6 => format!("{} K", plain(x / 1e3)),
        x if x < 1e9 => format!("{} M", plain(x / 1e6)),
        x => format!("{x:e}"),
    }
}

/// A share with two digits, however small.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        x if x >= 9.95 => format!("{x:.0} %"),
        x if x <= 0.0 => "0".to_owned(),
        x => {
            let decimals = 1 - x.log10().floor() as i32;
            format!("{x:.*} %", decimals.max(0) as usize)
        }
    }
}

/// A round number without decimals that say nothing.
fn plain(number: f64) -> String {
    let decimals = if number < 1.0 { 4 } else { 2 };
    let text = format!("{number:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
