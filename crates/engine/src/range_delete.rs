//! Deleting a range: one record in the log, one interval in memory, whatever the range holds.

use std::time::Duration;

use heliox_format::checkpoint::RangeEntry;
use heliox_format::ids::{KeyspaceId, SeqNo};
use heliox_format::record::RecordKind;
use heliox_log::append::NewRecord;
use heliox_log::{LogError, Stream};
use heliox_sync::atomic::Ordering;

use crate::admit::{acknowledge, admit};
use crate::checkpoint;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::space::Wish;
use crate::sweep::{sweep_for_writer, sweep_ranges};

/// How often room is made for one more interval, and how long something that holds it up is waited for
/// each time.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Takes away every key of `[from, to)`, or from `from` to the end of the keyspace.
pub(crate) fn run(
    core: &Core,
    keyspace: KeyspaceId,
    from: &[u8],
    to: Option<&[u8]>,
    options: &WriteOptions,
) -> Result<()> {
    let bytes = from.len() + to.map_or(0, <[u8]>::len);
    admit(core, Wish::Delete, bytes)?;
    let mut value = vec![u8::from(to.is_some())];
    value.extend_from_slice(to.unwrap_or_default());
    let record = NewRecord::new(RecordKind::RangeDelete, keyspace, from, &value);
    let seq = with_room(core, || {
        Ok(core.ranges.add(|| {
            let appended = core.log.append(Stream::User, &record)?;
            Ok::<_, LogError>(RangeEntry {
                seq: appended.seq,
                keyspace,
                from: from.to_vec(),
                to: to.map(<[u8]>::to_vec),
            })
        })?)
    })?;
    acknowledge(core, seq, options)
}

/// Adds an interval by `add`, which gives none where there is no room for another: others may take the
/// room that was made for this one.
pub(crate) fn with_room(
    core: &Core,
    mut add: impl FnMut() -> Result<Option<SeqNo>>,
) -> Result<SeqNo> {
    // Who adds faster than the background sweeps, helps: what is swept late waits for every snapshot that was
    // taken until then, and where too many wait, snapshots must end.
    if core.ranges.is_half_full() {
        sweep_for_writer(core)?;
    }
    for _ in 0..TRIES {
        make_room(core)?;
        // No batch is half installed around the delete's order.
        let pass = core.batches.enter();
        let added = add();
        drop(pass);
        // Also when there is no room: then all the more.
        core.signals.upkeep.ring();
        if let Some(seq) = added? {
            core.space.note_garbage();
            return Ok(seq);
        }
    }
    Err(too_many())
}

/// Sees to it that another range delete may wait for its sweep: where too many do, they are swept now.
/// Snapshots that keep them from it end, rather than that a range delete is refused.
fn make_room(core: &Core) -> Result<()> {
    for _ in 0..TRIES {
        if core.ranges.has_room() {
            return Ok(());
        }
        while sweep_ranges(core)? {}
        let cut = core.checkpointed_cut.load(Ordering::Acquire);
        core.ranges.drop_done(cut, core.snapshots.oldest());
        if !core.ranges.has_room() && core.ranges.wait_for_cut(cut) {
            // What was swept goes with the next checkpoint.
            checkpoint::run(core, checkpoint::Pace::Fast, false)?;
        }
        if core.ranges.has_room() {
            return Ok(());
        }
        let is_held = |oldest| core.ranges.wait_for(oldest);
        if !core.snapshots.oldest().is_some_and(is_held) || !core.snapshots.fail_oldest() {
            core.check_open()?;
            let environment = &core.settings.environment;
            environment.listen(&core.signals.room, PAUSE);
        }
    }
    Err(too_many())
}

/// What is said where as many range deletes wait as may.
fn too_many() -> Error {
    Error::full("too many range deletes wait for their sweep; wait a little and try again")
}
