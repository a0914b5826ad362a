//! A snapshot as its holder has it: ends when the last handle is dropped.

use std::sync::Arc;

use heliox_format::ids::SeqNo;

use crate::core::Core;
use crate::error::{Error, Result};

/// Keeps a snapshot alive.
pub(crate) struct SnapshotGuard {
    core: Arc<Core>,
    seq: SeqNo,
}

impl SnapshotGuard {
    /// Takes a snapshot of everything that is visible now. Waits for a batch in flight, so that
    /// the snapshot sees all of a batch or nothing.
    pub(crate) fn take(core: &Arc<Core>) -> SnapshotGuard {
        let pass = core.batches.enter();
        let seq = core.snapshots.register(|| core.log.at_cut(|seq, _, _| seq));
        drop(pass);
        SnapshotGuard {
            core: Arc::clone(core),
            seq,
        }
    }

    pub(crate) fn seq(&self) -> SeqNo {
        self.seq
    }

    /// True if the snapshot is of this store.
    pub(crate) fn is_of(&self, core: &Core) -> bool {
        std::ptr::eq(&*self.core, core)
    }

    /// Refuses to go on once the snapshot gave way to the memory budget.
    pub(crate) fn check_readable(&self) -> Result<()> {
        if self.core.snapshots.is_readable(self.seq) {
            return Ok(());
        }
        Err(Error::snapshot_too_old())
    }
}

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        self.core.snapshots.release(self.seq);
        self.core.space.note_garbage();
    }
}

/// Everything that was visible when it was taken. Cheap to clone; ends with the last clone.
#[derive(Clone)]
pub struct Snapshot(pub(crate) Arc<SnapshotGuard>);
