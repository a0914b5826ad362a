//! `heliox backup`: adds a backup of a store to a set, lists the set's backups, or deletes one.

use std::path::Path;

use heliox::{BackupInfo, BackupOptions, BackupReport, Store};
use heliox_bench::DurabilityMode;

use crate::args::{BackupArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::{byte_bar, print_line, Output};
use heliox_bench::size::{show_bytes, show_time};

/// Makes a backup, lists those there are, or deletes one.
pub(crate) fn run(args: &BackupArgs, shared: &Shared) -> Result<Outcome, Failure> {
    if let Some(number) = args.delete {
        Store::delete_backup(&args.dir, number)?;
        print_line(&format!(
            "deleted backup {number} of {}",
            args.dir.display()
        ))?;
        return Ok(Outcome::Done);
    }
    let Some(set) = &args.set else {
        return list(&args.dir);
    };
    let mut options = BackupOptions::new();
    if let Some(keep) = args.keep {
        options = options.keep(keep);
    }
    let store = open::store(&args.dir, shared, DurabilityMode::Bounded)?;
    let bar = byte_bar(Some(0));
    let report = store.backup(set, &options, &mut |progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
    });
    bar.finish_and_clear();
    let closed = store.close();
    let report = report?;
    closed?;
    print_line(&describe(&report, set))?;
    Ok(Outcome::Done)
}

fn describe(report: &BackupReport, set: &Path) -> String {
    let how = match report.shared_bytes {
        0 => "copied",
        bytes if bytes == report.copied_bytes => "shared as reflinks",
        _ => "copied or shared as reflinks",
    };
    let mut text = format!(
        "backup {} in {}: {} segments, {}; new in the set: {} segments, {} {how}",
        report.number,
        set.display(),
        report.segments,
        show_bytes(report.bytes),
        report.copied_segments,
        show_bytes(report.copied_bytes),
    );
    if report.removed > 0 {
        text.push_str(&format!("; removed {} older backups", report.removed));
    }
    text
}

fn list(set: &Path) -> Result<Outcome, Failure> {
    let backups = Store::backups(set)?;
    let mut output = Output::new();
    for backup in &backups {
        output.line(&line(backup))?;
    }
    if backups.is_empty() {
        output.line("no backup yet")?;
    }
    output.finish()?;
    Ok(Outcome::Done)
}

fn line(backup: &BackupInfo) -> String {
    match &backup.damage {
        Some(damage) => format!("{}\tDAMAGED: {damage}", backup.number),
        None => format!(
            "{}\t{}\t{} segments\t{}",
            backup.number,
            show_time(backup.created_ms),
            backup.segments,
            show_bytes(backup.bytes)
        ),
    }
}
