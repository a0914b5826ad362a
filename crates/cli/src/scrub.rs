//! `heliox scrub`: reads and verifies everything in use, and mends what it can.

use heliox::{Finding, ScrubReport};
use heliox_bench::DurabilityMode;
use serde_json::{json, Value};

use crate::args::{ScrubArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::{byte_bar, Output};
use heliox_bench::size::show_bytes;

/// Scrubs a store that nobody has open, and prints what was found. What opening met and replaced
/// counts as found.
pub(crate) fn run(args: &ScrubArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let store = open::store(&args.dir, shared, DurabilityMode::Bounded)?;
    let bar = byte_bar(Some(0));
    let mut met = store.damage();
    // Of these, what says nothing of damage: how the device is driven.
    met.retain(|words| !words.contains("direct I/O"));
    let report = store.scrub(&mut |progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
    });
    bar.finish_and_clear();
    let report = report?;
    store.close()?;
    let mut output = Output::new();
    if args.json {
        output.line(&as_json(&report, &met).to_string())?;
    } else {
        print(&mut output, &report, &met)?;
    }
    output.finish()?;
    Ok(Outcome::of_findings(
        report.finding_count + met.len() as u64,
    ))
}

fn print(output: &mut Output, report: &ScrubReport, met: &[String]) -> Result<(), Failure> {
    output.line(&format!(
        "scrubbed {} segments, {}",
        report.segments,
        show_bytes(report.bytes)
    ))?;
    if report.unsteady_reads > 0 {
        output.line(&format!(
            "{} reads went wrong once and were right when repeated",
            report.unsteady_reads
        ))?;
    }
    if report.moved_records > 0 {
        output.line(&format!(
            "{} records were moved away from damage, {} are lost",
            report.moved_records, report.lost_records
        ))?;
    }
    let found = report.findings.iter().map(Finding::to_string);
    let listed: Vec<String> = met.iter().cloned().chain(found).collect();
    output.findings(&listed, report.finding_count + met.len() as u64)
}

/// A report as JSON; of a pass alone, without what opening met.
pub(crate) fn report_json(report: &ScrubReport) -> Value {
    json!({
        "started_ms": report.started_ms,
        "finished_ms": report.finished_ms,
        "segments": report.segments,
        "bytes": report.bytes,
        "unsteady_reads": report.unsteady_reads,
        "moved_records": report.moved_records,
        "lost_records": report.lost_records,
        "finding_count": report.finding_count,
        "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
    })
}

fn as_json(report: &ScrubReport, met: &[String]) -> Value {
    let mut value = report_json(report);
    value["found_when_opened"] = json!(met);
    value
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "structure": finding.structure.to_string(),
        "volume": finding.place.volume,
        "offset": finding.place.offset,
        "len_bytes": finding.place.len_bytes,
        "segment": finding.place.segment,
        "what": finding.what,
        "found_ms": finding.found_ms,
        "live_records": finding.live_records,
        "lost_records": finding.lost_records,
        "remedy": finding.remedy.to_string(),
    })
}
