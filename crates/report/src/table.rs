//! A table that a terminal and a page show alike, and those of one run. No state, no threads.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement};
use heliox_bench::size::show_bytes;
use heliox_bench::{short, thousands};

use crate::case::{groups, Beside, Case, Group};
use crate::device::{Device, Point};
use crate::figure::{spread_percent, COSTS, SPEED};
use crate::row::Failed;

/// What ratios are relative to.
const BASE: &str = "heliox";

/// A table: texts, the first column to the left, the others to the right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// What stands above it.
    pub title: String,
    /// The names of its columns.
    pub header: Vec<String>,
    /// Its lines, each as long as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns, without a line.
    #[must_use]
    pub fn new(title: &str, header: Vec<String>) -> Table {
        Table {
            title: title.to_owned(),
            header,
            rows: Vec::new(),
        }
    }

    /// Leaves out the columns in which no row says anything, and fills what else is missing.
    pub(crate) fn tidy(mut self) -> Table {
        let says = |place: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(place));
            place == 0 || cells.into_iter().any(|cell| !cell.is_empty())
        };
        let kept: Vec<usize> = (0..self.header.len())
            .filter(|place| says(*place))
            .collect();
        let pick = |row: &Vec<String>, rest: &str| -> Vec<String> {
            let cell = |place: &usize| row.get(*place).filter(|cell| !cell.is_empty());
            let cells = kept
                .iter()
                .map(|place| cell(place).map_or(rest, |cell| cell));
            cells.map(str::to_owned).collect()
        };
        self.rows = self.rows.iter().map(|row| pick(row, "-")).collect();
        self.header = pick(&self.header, "");
        self
    }

    /// The table for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.header);
        for row in &self.rows {
            table.add_row(row.iter().enumerate().map(|(place, text)| match place {
                0 => Cell::new(text),
                _ => Cell::new(text).set_alignment(CellAlignment::Right),
            }));
        }
        format!("{}\n{table}", self.title)
    }
}

/// The tables of one run: one for each workload where there are several engines, else one.
pub(crate) fn tables(cases: &[Case], failures: &[Failed]) -> Vec<Table> {
    let beside = Beside::of(cases);
    let groups = groups(cases, failures);
    let tables = groups.iter().map(|group| table(group, beside));
    tables.collect()
}

fn table(group: &Group<'_>, beside: Beside) -> Table {
    let several = beside == Beside::Engines;
    let to_base = if several { "to heliox" } else { "" };
    let header = [beside.name(), SPEED.name, to_base, "spread"].into_iter();
    let header = header.chain(COSTS.iter().map(|figure| figure.name));
    let mut table = Table::new(&group.title, header.map(str::to_owned).collect());
    let base = if several { base(group) } else { None };
    for (label, case) in group.places() {
        table.rows.push(match case {
            Some(case) => cells(label, case, base),
            None => vec![label.to_owned(), "FAILED".to_owned()],
        });
    }
    table.tidy()
}

/// The speed that the cases of a group are held against.
fn base(group: &Group<'_>) -> Option<f64> {
    let mut cases = group.cases.iter().map(|(_, case)| case);
    let base = cases.find(|case| case.engine == BASE)?;
    base.median(&SPEED).filter(|speed| *speed > 0.0)
}

fn cells(label: &str, case: &Case, base: Option<f64>) -> Vec<String> {
    let speed = case.median(&SPEED);
    let relative = speed.zip(base).map(|(speed, base)| speed / base);
    let spread = spread_percent(&case.figures(&SPEED));
    let mut cells = vec![
        label.to_owned(),
        speed.map(SPEED.show).unwrap_or_default(),
        relative
            .map(|ratio| format!("{ratio:.2}"))
            .unwrap_or_default(),
        spread
            .map(|percent| format!("{percent:.0} %"))
            .unwrap_or_default(),
    ];
    let costs = COSTS
        .iter()
        .map(|figure| case.median(figure).map(figure.show));
    cells.extend(costs.map(Option::unwrap_or_default));
    cells
}

/// That of the raw device; `None` where it was not measured.
pub(crate) fn of_device(device: &Device) -> Option<Table> {
    let header = [
        "operation",
        "block",
        "depth",
        "ops/s",
        "MiB/s",
        "mean us",
        "p95",
        "p99",
    ];
    let header = header.map(str::to_owned).to_vec();
    let mut table = Table::new("raw device, without an engine", header);
    table.rows = device.points.iter().map(cells_of_point).collect();
    (!device.points.is_empty()).then(|| table.tidy())
}

fn cells_of_point(point: &Point) -> Vec<String> {
    let mib_per_s = |bytes: f64| point.ops_per_s * bytes / f64::from(1 << 20);
    let figures = [
        point.block_bytes.map(|bytes| show_bytes(bytes as u64)),
        Some(point.depth.to_string()),
        Some(thousands(point.ops_per_s)),
        point.block_bytes.map(|bytes| thousands(mib_per_s(bytes))),
        point.mean_us.map(short),
        point.p95_us.map(short),
        point.p99_us.map(short),
    ];
    let figures = figures.map(Option::unwrap_or_default);
    std::iter::once(point.operation.clone())
        .chain(figures)
        .collect()
}
