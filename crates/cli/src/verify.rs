//! `heliox verify`: proves the backups of a set without restoring them.

use heliox::{Store, VerifyReport};

use crate::args::{Shared, VerifyArgs};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::{byte_bar, Output};
use heliox_bench::size::show_bytes;

/// Verifies one backup or all, and prints what was found.
pub(crate) fn run(args: &VerifyArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let bar = byte_bar(Some(0));
    let options = open::options(shared);
    let report = Store::verify_backup(&args.set, args.backup, &options, &mut |progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
    });
    bar.finish_and_clear();
    let report = report?;
    print(&report)?;
    Ok(Outcome::of_findings(report.problem_count))
}

fn print(report: &VerifyReport) -> Result<(), Failure> {
    let mut output = Output::new();
    output.line(&format!(
        "verified {} backups, {} segment files, {}, {} records",
        report.backups,
        report.files,
        show_bytes(report.bytes),
        report.records
    ))?;
    output.findings(&report.problems, report.problem_count)?;
    output.finish()
}
