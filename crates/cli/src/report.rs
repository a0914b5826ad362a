//! `heliox report`: shows results of benchmarks as tables and, if asked, as a page for a browser.

use std::fs;
use std::path::Path;

use heliox_report::{Report, Results};

use crate::args::{ReportArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::output::print_line;

/// Prints the tables of one run, or of two beside each other; writes the page first.
pub(crate) fn run(args: &ReportArgs, shared: &Shared) -> Result<Outcome, Failure> {
    if let Some(name) = shared.given() {
        return Err(Failure::Argument(format!(
            "report opens no store: leave {name} out"
        )));
    }
    if let Some(html) = &args.html {
        let inputs = [Some(&args.results), args.other.as_ref()];
        if inputs.into_iter().flatten().any(|input| same(input, html)) {
            return Err(Failure::Argument(format!(
                "--html {} would overwrite the results: give another file",
                html.display()
            )));
        }
    }
    let results = Results::read(&args.results)?;
    let report = match &args.other {
        Some(other) => Report::compare(results, Results::read(other)?),
        None => Report::new(results),
    };
    if let Some(html) = &args.html {
        let page = report.html()?;
        fs::write(html, page).map_err(|error| Failure::file("write", html, error))?;
    }
    print_line(&report.text())?;
    Ok(Outcome::Done)
}

/// Both are there, and are one file.
fn same(one: &Path, other: &Path) -> bool {
    let paths = one.canonicalize().ok().zip(other.canonicalize().ok());
    paths.is_some_and(|(one, other)| one == other)
}
