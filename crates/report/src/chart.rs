//! One chart as SVG text: lines over two axes, or bars beside each other. No state, no threads.
//!
//! Colours are those of a light page; the style of the page turns each into one of its own by the
//! attribute that holds it, so that a dark page is readable. Small, so that a telephone shows
//! them nearly at their size.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::ReportError;

/// The colours of lines and bars: told apart by people who see few colours too (after Okabe and
/// Ito). `style.css` has each of them once more.
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x7A, 0x5C, 0x3A),
    RGBColor(0x6B, 0x6B, 0x6B),
];
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const ALARM: RGBColor = RGBColor(0xB3, 0x26, 0x1E);
const GRID: RGBColor = RGBColor(0xE4, 0xE4, 0xE4);

const WIDTH: u32 = 390;
const LINES_HEIGHT: u32 = 240;
const BAR_HEIGHT: u32 = 24;
/// The library shows 1 as 1 / 1.24 pixels.
const FONT_SIZE: f64 = 14.9;
/// What a character of that size needs, about.
const CHAR_WIDTH: f64 = 6.6;
const LABEL_CHARS_MAX: usize = 27;

/// A line, or a bar of a single value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Line {
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
    /// Its points are few, and stand for themselves.
    pub(crate) dots: bool,
}

/// A bar with what stands left and right of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) colour: usize,
    pub(crate) value: f64,
    pub(crate) text: String,
    /// There is no value: the text says that it failed.
    pub(crate) failed: bool,
}

/// A scale from `low` to `high`, which may be the smaller one, with a text at each tick.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to a little above `largest`, at round numbers.
    pub(crate) fn linear(name: &str, largest: f64, show: impl Fn(f64) -> String) -> Axis {
        Axis::in_steps(name, largest, 0.0, show)
    }

    /// The same for what is counted: no ticks between whole numbers.
    pub(crate) fn whole(name: &str, largest: f64, show: impl Fn(f64) -> String) -> Axis {
        Axis::in_steps(name, largest, 1.0, show)
    }

    fn in_steps(name: &str, largest: f64, least: f64, show: impl Fn(f64) -> String) -> Axis {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let power = 10f64.powf((largest / 4.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let fits = |step: &&f64| largest / **step <= 6.0;
        let step = steps
            .iter()
            .find(fits)
            .copied()
            .unwrap_or(10.0 * power)
            .max(least);
        let count = (largest / step).ceil();
        let tick = |place: u32| (f64::from(place) * step, show(f64::from(place) * step));
        Axis {
            name: name.to_owned(),
            low: 0.0,
            high: count * step,
            ticks: (0..=count as u32).map(tick).collect(),
        }
    }

    /// Of logarithms to base 10 that are drawn, from one power of ten to another around them.
    pub(crate) fn logarithmic(
        name: &str,
        values: impl Iterator<Item = f64>,
        show: impl Fn(f64) -> String,
    ) -> Axis {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
        let tick = |power: i32| (f64::from(power), show(10f64.powi(power)));
        Axis {
            name: name.to_owned(),
            low,
            high,
            ticks: (low as i32..=high as i32).map(tick).collect(),
        }
    }

    fn label(&self, value: f64) -> String {
        let near = |(tick, _): &&(f64, String)| (tick - value).abs() < 1e-9;
        let found = self.ticks.iter().find(near);
        found.map(|(_, text)| text.clone()).unwrap_or_default()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(value, _)| *value).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.label(*value)
    }
}

/// Lines over two axes.
pub(crate) fn lines(name: &str, x: Axis, y: Axis, lines: &[Line]) -> Result<String, ReportError> {
    let mut svg = String::new();
    let drawn = draw_lines(&mut svg, x, y, lines);
    finish(name, drawn, svg)
}

/// Bars from the top to the bottom, each as long as its value is to the largest.
pub(crate) fn bars(name: &str, bars: &[Bar]) -> Result<String, ReportError> {
    let mut svg = String::new();
    let drawn = draw_bars(&mut svg, bars);
    finish(name, drawn, svg)
}

fn finish<E: Display>(
    name: &str,
    drawn: Result<(), E>,
    svg: String,
) -> Result<String, ReportError> {
    drawn.map(|()| svg).map_err(|error| ReportError::Chart {
        chart: name.to_owned(),
        what: error.to_string(),
    })
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw_lines(svg: &mut String, x: Axis, y: Axis, lines: &[Line]) -> Drawn {
    let root = SVGBackend::with_string(svg, (WIDTH, LINES_HEIGHT)).into_drawing_area();
    let longest = y.ticks.iter().map(|(_, text)| text.chars().count()).max();
    let left = (longest.unwrap_or(0) as f64 * CHAR_WIDTH) as u32 + 14;
    let (x_name, x_labels, y_labels) = (x.name.clone(), x.ticks.len(), y.ticks.len());
    let (y_name, y_top) = (y.name.clone(), y.high);
    let x_low = x.low;
    let mut chart = ChartBuilder::on(&root)
        .margin_top(30)
        .margin_right(24)
        .x_label_area_size(40)
        .y_label_area_size(left)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .x_labels(x_labels)
        .y_labels(y_labels)
        .label_style(text_style())
        .axis_desc_style(text_style())
        .x_desc(x_name)
        .draw()?;
    // Above the axis rather than along it: upright, and it takes no width.
    let above = text_style().pos(Pos::new(HPos::Left, VPos::Bottom));
    let at = (x_low, y_top);
    let name = EmptyElement::at(at) + Text::new(y_name, (4 - left as i32, -12), above);
    chart.draw_series([name])?;
    for line in lines {
        let style = colour(line.colour).stroke_width(2);
        chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
        if line.dots {
            let dot = |point: &(f64, f64)| Circle::new(*point, 3, style.filled());
            chart.draw_series(line.points.iter().map(dot))?;
        }
    }
    drop(chart);
    root.present()
}

fn draw_bars(svg: &mut String, bars: &[Bar]) -> Drawn {
    let count = bars.len() as u32;
    let height = count * BAR_HEIGHT + 8;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    let labels: Vec<String> = bars.iter().map(|bar| cut(&bar.label)).collect();
    let width = |chars: Option<usize>| chars.unwrap_or(0) as f64 * CHAR_WIDTH;
    let left = width(labels.iter().map(|label| label.chars().count()).max()) + 12.0;
    let right = width(bars.iter().map(|bar| bar.text.chars().count()).max()) + 10.0;
    let largest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let x = Axis {
        name: String::new(),
        low: 0.0,
        high: if largest > 0.0 { largest } else { 1.0 },
        ticks: Vec::new(),
    };
    let middle = |place: usize| place as f64 + 0.5;
    let y = Axis {
        name: String::new(),
        low: f64::from(count),
        high: 0.0,
        ticks: Vec::new(),
    };
    let mut chart = ChartBuilder::on(&root)
        .margin_top(4)
        .margin_bottom(4)
        .margin_left(left as i32)
        .margin_right(right as i32)
        .build_cartesian_2d(x, y)?;
    for (place, (bar, label)) in bars.iter().zip(labels).enumerate() {
        let middle = middle(place);
        let corners = [(0.0, middle - 0.36), (bar.value, middle + 0.36)];
        if !bar.failed {
            chart.draw_series([Rectangle::new(corners, colour(bar.colour).filled())])?;
        }
        let before = text_style().pos(Pos::new(HPos::Right, VPos::Center));
        let ink = if bar.failed { &ALARM } else { &INK };
        let after = text_style().color(ink);
        let after = after.pos(Pos::new(HPos::Left, VPos::Center));
        chart.draw_series([
            EmptyElement::at((0.0, middle)) + Text::new(label, (-6, 0), before),
            EmptyElement::at((bar.value, middle)) + Text::new(bar.text.clone(), (6, 0), after),
        ])?;
    }
    drop(chart);
    root.present()
}

fn text_style() -> TextStyle<'static> {
    ("sans-serif", FONT_SIZE, &INK).into_text_style(&(WIDTH, LINES_HEIGHT))
}

/// The colour of a number; there are as many as there are, then they begin again.
fn colour(number: usize) -> RGBColor {
    let found = COLOURS.get(number % COLOURS.len());
    found.copied().unwrap_or(INK)
}

/// A label that leaves room for its bar.
fn cut(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARS_MAX {
        return label.to_owned();
    }
    let kept = label.chars().take(LABEL_CHARS_MAX - 1);
    kept.chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        for (largest, last, count) in [(0.0, 1.0, 5), (7.3, 8.0, 4), (61_000.0, 80_000.0, 4)] {
            let axis = Axis::linear("", largest, |x| x.to_string());
            assert!((axis.high - last).abs() < 1e-9, "{largest}: {axis:?}");
            assert_eq!(axis.ticks.len(), count + 1, "{largest}: {axis:?}");
        }
        let few = Axis::whole("", 1.5, |x| x.to_string());
        assert_eq!((few.high, few.ticks.len()), (2.0, 3));
        let axis = Axis::logarithmic("", [-0.3, 2.2].into_iter(), |x| x.to_string());
        assert_eq!((axis.low, axis.high, axis.ticks.len()), (-1.0, 3.0, 5));
        let axis = Axis::logarithmic("", [2.0, 2.0].into_iter(), |x| x.to_string());
        assert_eq!((axis.low, axis.high), (2.0, 3.0));
        let none = Axis::logarithmic("", std::iter::empty(), |x| x.to_string());
        assert_eq!((none.low, none.high), (0.0, 1.0));
    }

    #[test]
    fn labels_are_escaped_and_cut() {
        let bar = |label: &str| Bar {
            label: label.to_owned(),
            colour: 9,
            value: 3.0,
            text: "3 <b>".to_owned(),
            failed: false,
        };
        let svg = bars("x", &[bar("<script>&"), bar(&"ö".repeat(90))]).unwrap();
        assert!(
            svg.contains("&lt;script&gt;&amp;") && svg.contains("3 &lt;b&gt;"),
            "{svg}"
        );
        assert!(!svg.contains("<script>") && !svg.contains("<b>"), "{svg}");
        assert!(
            svg.contains("ö\u{2026}") && !svg.contains(&"ö".repeat(40)),
            "{svg}"
        );
        assert!(
            svg.contains("#D55E00"),
            "the tenth colour is the second: {svg}"
        );
    }
}
