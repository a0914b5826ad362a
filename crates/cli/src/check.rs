//! `heliox check`: verifies a whole store that nobody has open.

use heliox::{CheckReport, Store};

use crate::args::{CheckArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::{byte_bar, Output};
use heliox_bench::size::show_bytes;

/// Verifies the store and prints what was found.
pub(crate) fn run(args: &CheckArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let bar = byte_bar(Some(0));
    let report = Store::check(&args.dir, &open::options(shared), &mut |progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| open::no_store(&args.dir, error))?;
    print(&report)?;
    Ok(Outcome::of_findings(report.problem_count))
}

fn print(report: &CheckReport) -> Result<(), Failure> {
    let mut output = Output::new();
    output.line(&format!(
        "checked {} records, {} index entries, {} segments, {}",
        report.records,
        report.entries,
        report.segments,
        show_bytes(report.bytes)
    ))?;
    if report.strangers > 0 {
        output.line(&format!(
            "{} records wait for an entry of their own (no damage)",
            report.strangers
        ))?;
    }
    output.findings(&report.problems, report.problem_count)?;
    output.finish()
}
