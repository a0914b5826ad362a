//! The page for a browser: one file, nothing outside of it, no script. Every text is escaped by the
//! template or, in a chart, by the library that draws it. No state, no threads.

use maud::{html, Markup, PreEscaped, DOCTYPE};

use crate::aside::Aside;
use crate::case::engines;
use crate::compare;
use crate::plots::{Plot, Section};
use crate::run::{Run, COMPARE_LEGEND};
use crate::table::Table;
use crate::trials;

const STYLE: &str = include_str!("style.css");
/// The page must not load anything, and a browser that knows this refuses to.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// How notes begin that say what went wrong.
const ALARMS: [&str; 4] = ["FAILED", "FOUND", "NO RATE", "NOT"];

/// The whole page.
pub(crate) fn page(
    runs: &[Run],
    remarks: &[String],
    asides: &[Aside],
    sections: &[Section],
) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.results.name.as_str()).collect();
    let title = names.join(" and ");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " \u{2013} benchmark" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Benchmark" }
                    (head(runs))
                }
                main {
                    @if let [old, new] = runs {
                        (comparison(remarks, old, new))
                    }
                    @for part in asides { (aside(part)) }
                    @for part in sections { (section(part)) }
                    @for (place, run) in runs.iter().enumerate() {
                        (figures(runs, place, run))
                    }
                    @for run in runs { (searches(run)) }
                }
            }
        }
    };
    page.into_string()
}

fn head(runs: &[Run]) -> Markup {
    html! {
        @for (place, run) in runs.iter().enumerate() {
            p.run {
                @if runs.len() > 1 { span.key.(colour(place)) { (letter(place)) } " " }
                strong { (run.results.name) }
            }
            ul.notes {
                @for note in run.notes() {
                    li.alarm[ALARMS.iter().any(|word| note.starts_with(word))] { (note) }
                }
            }
        }
        @if runs.len() == 1 {
            @if let Some(run) = runs.first() { (legend_of_engines(run)) }
        }
    }
}

/// The colours of the engines, which hold for every chart unless it has its own.
fn legend_of_engines(run: &Run) -> Markup {
    let engines = engines(&run.cases);
    html! {
        @if engines.len() > 1 {
            p.muted { (engines.len()) " engines: " (engines.join(", ")) }
        }
    }
}

fn comparison(remarks: &[String], old: &Run, new: &Run) -> Markup {
    let compared = compare::table(&old.cases, &new.cases);
    html! {
        section {
            h2 { "B held against A" }
            @for remark in remarks {
                // What one run has besides takes nothing from what both have.
                @let besides = remark.starts_with("only in");
                p.alarm[!besides].muted[besides] { (remark) }
            }
            @if compared.rows.is_empty() {
                p { "The two have no engine, workload and number of threads in common." }
            } @else {
                p.muted { (COMPARE_LEGEND.replace('\n', " ")) }
                (table(&compared))
            }
        }
    }
}

fn aside(part: &Aside) -> Markup {
    html! {
        section {
            h2 { (part.title) }
            @for part in &part.tables {
                h3 { (part.title) }
                (table(part))
            }
            @if !part.notes.is_empty() {
                ul.notes { @for note in &part.notes { li { (note) } } }
            }
        }
    }
}

/// How rates within a limit were looked for.
fn searches(run: &Run) -> Markup {
    let tables = trials::tables(&run.cases);
    html! {
        @if !tables.is_empty() {
            section {
                h2 { "Trials" }
                p.muted { "Rates that were offered in the search for the highest within a limit, in order." }
                @for part in &tables {
                    h3 { (part.title) }
                    (table(part))
                }
            }
        }
    }
}

fn section(part: &Section) -> Markup {
    html! {
        section {
            h2 { (part.title) }
            p.muted { (part.note) }
            div.plots { @for part in &part.plots { (plot(part)) } }
        }
    }
}

fn plot(plot: &Plot) -> Markup {
    html! {
        figure {
            figcaption { (plot.title) }
            @if !plot.legend.is_empty() {
                p.legend {
                    @for (name, number) in &plot.legend {
                        span.key.(colour(*number)) { (name) } " "
                    }
                }
            }
            (PreEscaped(&plot.svg))
        }
    }
}

fn figures(runs: &[Run], place: usize, run: &Run) -> Markup {
    html! {
        section {
            h2 {
                "All figures"
                @if runs.len() > 1 { " of " (letter(place)) ", " (run.results.name) }
            }
            @if let Some(legend) = run.legend() { p.muted { (legend) } }
            @for part in run.tables() {
                h3 { (part.title) }
                (table(&part))
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                thead { tr { @for name in &table.header { th scope="col" { (name) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (place, text) in row.iter().enumerate() {
                                @if place == 0 {
                                    th scope="row" { (text) }
                                } @else {
                                    td class=[verdict(text)] {
                                        (text)
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The class of a cell that says what is good or bad.
fn verdict(text: &str) -> Option<&'static str> {
    if text.starts_with("better") {
        Some("better")
    } else if text.starts_with("WORSE") || text == "FAILED" {
        Some("worse")
    } else {
        None
    }
}

fn colour(number: usize) -> String {
    format!("c{}", number % crate::chart::COLOURS.len())
}

fn letter(place: usize) -> &'static str {
    if place == 0 {
        "A"
    } else {
        "B"
    }
}
