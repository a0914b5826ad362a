//! `heliox restore`: makes a store out of a backup.

use heliox::{Options, Store};

use crate::args::{RestoreArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::{byte_bar, print_line};
use heliox_bench::size::{show_bytes, show_time};

/// Restores the backup.
pub(crate) fn run(args: &RestoreArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let mut options = Options::new().devices(args.devices.clone());
    if let Some(bytes) = args.capacity {
        options = options.capacity_bytes(bytes);
    }
    options = open::with_shared(options, shared);
    let bar = byte_bar(Some(0));
    let report = Store::restore(
        &args.set,
        args.backup,
        &args.dir,
        &options,
        &mut |progress| {
            bar.set_length(progress.total_bytes);
            bar.set_position(progress.done_bytes);
        },
    );
    bar.finish_and_clear();
    let report = report?;
    print_line(&format!(
        "restored backup {} of {} into {}: {} segments, {}, capacity {}",
        report.number,
        show_time(report.created_ms),
        args.dir.display(),
        report.segments,
        show_bytes(report.bytes),
        show_bytes(report.capacity_bytes)
    ))?;
    Ok(Outcome::Done)
}
