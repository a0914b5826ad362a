//! The gate of atomic batches: one batch is installed at a time.
//!
//! While a batch is being installed its members are pending: readers pass them over to the version
//! below, writers that meet one wait, and neither a snapshot nor a checkpoint's cut is taken. Its
//! members become visible together when the gate is left. A key that it deletes and that is not
//! there has no record to meet, so writers are told of it by name.

use std::collections::HashSet;

use heliox_format::ids::{KeyspaceId, Location, SeqNo};
use heliox_format::record::Record;
use heliox_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use heliox_sync::{Mutex, MutexGuard};

/// The gate. No batch is pending while `first` is zero.
#[derive(Default)]
pub(crate) struct BatchGate {
    gate: Mutex<()>,
    first: AtomicU64,
    last_commit: AtomicU64,
    members: Mutex<HashSet<Location>>,
    /// How many keys `absent` holds.
    absent_count: AtomicUsize,
    absent: Mutex<HashSet<(KeyspaceId, Vec<u8>)>>,
}

/// A batch in flight, or the promise that none is.
pub(crate) struct BatchPass<'a> {
    gate: &'a BatchGate,
    _held: MutexGuard<'a, ()>,
}

impl BatchGate {
    /// Waits until no batch is in flight; none begins while the pass is held.
    pub(crate) fn enter(&self) -> BatchPass<'_> {
        BatchPass {
            _held: self.gate.lock(),
            gate: self,
        }
    }

    /// Waits until the batch that is in flight now is done.
    pub(crate) fn wait(&self) {
        drop(self.gate.lock());
    }

    /// The order of the first record of the batch in flight.
    pub(crate) fn pending_first(&self) -> Option<SeqNo> {
        match self.first.load(Ordering::SeqCst) {
            0 => None,
            first => Some(SeqNo(first)),
        }
    }

    /// The order of the newest commit record. A batch counts only once that is durable.
    pub(crate) fn last_commit(&self) -> SeqNo {
        SeqNo(self.last_commit.load(Ordering::SeqCst))
    }

    /// True if the record is a member of the batch in flight.
    pub(crate) fn is_pending(&self, record: &Record<'_>) -> bool {
        let Some(offset) = record.header.batch_offset else {
            return false;
        };
        self.pending_first()
            .is_some_and(|first| record.seq.0 - offset == first.0)
    }

    /// True if the entry at this location is a member of the batch in flight. Asked under the
    /// leaf's lock: a member is announced before its entry appears.
    pub(crate) fn is_pending_at(&self, location: Location) -> bool {
        self.pending_first().is_some() && self.members.lock().contains(&location)
    }

    /// True if the batch in flight deletes this key and found nothing there. Asked under the leaf's
    /// lock, by whoever would put something there.
    pub(crate) fn is_absent(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.absent_count.load(Ordering::SeqCst) != 0
            && self.absent.lock().contains(&(keyspace, key.to_vec()))
    }
}

impl BatchPass<'_> {
    /// Announces a member before its entry appears; the first one opens the batch.
    pub(crate) fn announce(&self, first: SeqNo, location: Location) {
        self.gate.members.lock().insert(location);
        self.gate.first.store(first.0, Ordering::SeqCst);
    }

    /// Announces that a key which this batch deletes is not there, under the lock of its leaf: what
    /// others put there now comes after the batch, and so waits for its end.
    pub(crate) fn announce_absent(&self, keyspace: KeyspaceId, key: &[u8]) {
        let mut absent = self.gate.absent.lock();
        absent.insert((keyspace, key.to_vec()));
        self.gate.absent_count.store(absent.len(), Ordering::SeqCst);
    }

    /// True if the location belongs to this batch itself.
    pub(crate) fn is_member(&self, location: Location) -> bool {
        self.gate.members.lock().contains(&location)
    }

    /// Makes the members visible; their commit record has this order.
    pub(crate) fn publish(&self, commit: SeqNo) {
        self.gate.last_commit.store(commit.0, Ordering::SeqCst);
        self.gate.first.store(0, Ordering::SeqCst);
        self.gate.members.lock().clear();
    }
}

impl Drop for BatchPass<'_> {
    fn drop(&mut self) {
        if self.gate.absent_count.load(Ordering::SeqCst) != 0 {
            self.gate.absent.lock().clear();
            self.gate.absent_count.store(0, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_batch_found_absent_is_known_until_its_end() {
        let gate = BatchGate::default();
        let pass = gate.enter();
        pass.announce_absent(KeyspaceId(1), b"key");
        assert!(gate.is_absent(KeyspaceId(1), b"key"));
        assert!(!gate.is_absent(KeyspaceId(2), b"key"));
        drop(pass);
        assert!(!gate.is_absent(KeyspaceId(1), b"key"));
    }

    #[test]
    fn members_are_pending_until_published() {
        let gate = BatchGate::default();
        let pass = gate.enter();
        let location = Location::from_bits(5);
        assert!(!gate.is_pending_at(location));
        pass.announce(SeqNo(9), location);
        assert_eq!(gate.pending_first(), Some(SeqNo(9)));
        assert!(gate.is_pending_at(location));
        assert!(!gate.is_pending_at(Location::from_bits(6)));
        pass.publish(SeqNo(11));
        assert_eq!(gate.last_commit(), SeqNo(11));
        assert!(!gate.is_pending_at(location));
        assert_eq!(gate.pending_first(), None);
    }
}
