//! The volumes of a simulated store as one: their power, what the store was told, and where the
//! flat addresses of the log lie.
//!
//! Invariant: all volumes share one power supply, one clock and one count of requests, so the order
//! of requests over all of them is part of a run. Threads: any, but a run uses one.

use std::sync::Arc;
use std::time::Duration;

use heliox_format::label::HEAD_BYTES;
use heliox_media::{Media, MediaError, MemoryMedia, Random, STRIPE_BYTES};

use crate::clock::Clock;
use crate::media::{Fault, SimMedia, SECTOR_BYTES};
use crate::power::{Common, Shared};

/// The volumes of a store.
pub(crate) struct Array {
    volumes: Vec<Arc<SimMedia>>,
    shared: Arc<Shared>,
}

impl Array {
    /// So many empty volumes, of so many bytes together.
    ///
    /// # Errors
    /// Of memory that makes no device.
    pub(crate) fn new(count: u8, bytes: u64, clock: &Arc<Clock>) -> Result<Array, MediaError> {
        let shared = Shared::new(clock, Common::default());
        let each = bytes / u64::from(count.max(1)) / STRIPE_BYTES * STRIPE_BYTES + HEAD_BYTES;
        let volume = |_| {
            let image = MemoryMedia::new(each, SECTOR_BYTES)?;
            Ok(Arc::new(SimMedia::new(image, Arc::clone(&shared))))
        };
        let volumes = (0..count.max(1)).map(volume).collect::<Result<_, _>>()?;
        Ok(Array { volumes, shared })
    }

    /// The volumes as the store takes them.
    #[must_use]
    pub(crate) fn volumes(&self) -> Vec<Arc<dyn Media>> {
        let given = |volume: &Arc<SimMedia>| Arc::clone(volume) as Arc<dyn Media>;
        self.volumes.iter().map(given).collect()
    }

    /// Arms a fault on one volume, whatever the number.
    pub(crate) fn arm(&self, volume: u8, fault: Fault) {
        let n = usize::from(volume) % self.volumes.len().max(1);
        if let Some(volume) = self.volumes.get(n) {
            volume.arm(fault);
        }
    }

    /// Forgets all faults that wait, or go on.
    pub(crate) fn disarm(&self) {
        self.volumes.iter().for_each(|volume| volume.disarm());
    }

    /// Flips bits of a byte of the log.
    pub(crate) fn rot(&self, address: u64, bits: u8) {
        let (volume, offset) = self.place(address);
        if let Some(volume) = self.volumes.get(volume) {
            volume.rot(offset, bits);
            self.shared.note_fired();
            self.shared.note_damage();
        }
    }

    /// Flips bits of a byte of the first volume's head; costs nothing while there is another copy.
    pub(crate) fn rot_head(&self, offset: u64, bits: u8) {
        if let Some(first) = self.volumes.first() {
            first.rot(offset, bits);
            self.shared.note_fired();
        }
    }

    /// The power goes at the `after`-th request from now that changes something; 0 is at once.
    pub(crate) fn power_off(&self, after: u64) {
        let mut state = self.shared.state.lock();
        state.power_left = Some(after);
        if after == 0 {
            state.is_off = true;
            state.down_at.get_or_insert(self.shared.clock.ticked());
        }
    }

    /// True if the power is off.
    #[must_use]
    pub(crate) fn is_off(&self) -> bool {
        self.shared.is_off()
    }

    /// True if a write or sync has failed, or a volume is gone.
    #[must_use]
    pub(crate) fn is_broken(&self) -> bool {
        self.volumes.iter().any(|volume| volume.failure().is_some())
    }

    /// True if a write or sync has failed, or a volume is off or gone: nothing may be acknowledged.
    #[must_use]
    pub(crate) fn has_failed(&self) -> bool {
        self.is_off() || self.is_broken()
    }

    /// True if the store was told that a write or sync failed.
    #[must_use]
    pub(crate) fn is_reported(&self) -> bool {
        self.shared.state.lock().is_reported
    }

    /// When something failed for good, on the clock between events.
    #[must_use]
    pub(crate) fn down_at(&self) -> Option<Duration> {
        self.shared.state.lock().down_at
    }

    /// Says when the array before this one went down.
    pub(crate) fn note_down_at(&self, down_at: Option<Duration>) {
        self.shared.state.lock().down_at = down_at;
    }

    /// True if bytes were damaged behind the store's back: only detection is owed.
    #[must_use]
    pub(crate) fn is_tainted(&self) -> bool {
        self.damages() > 0
    }

    /// How often that happened.
    #[must_use]
    pub(crate) fn damages(&self) -> u64 {
        self.shared.state.lock().damages
    }

    /// How often bytes were damaged, and no sync lied.
    #[must_use]
    pub(crate) fn rots(&self) -> u64 {
        let state = self.shared.state.lock();
        state.damages - state.lies
    }

    /// True if a sync has lied since the last crash.
    #[must_use]
    pub(crate) fn has_lied(&self) -> bool {
        self.shared.state.lock().has_lied
    }

    /// Faults that took effect.
    #[must_use]
    pub(crate) fn fired(&self) -> u64 {
        self.shared.state.lock().fired
    }

    /// A digest of all requests that changed something, in order: two runs are the same if these
    /// agree.
    #[must_use]
    pub(crate) fn digest(&self) -> u64 {
        self.shared.state.lock().digest
    }

    /// The array as a loss of power now could leave it, faults that wait forgotten, rot kept.
    ///
    /// # Errors
    /// Never, unless the recording is broken.
    pub(crate) fn crashed(&self, seed: u64) -> Result<Array, MediaError> {
        let mut state = self.inherited(seed);
        // What is there after a crash is all there is: nothing hangs on the lie any more.
        state.has_lied = false;
        let shared = Shared::new(&self.shared.clock, state);
        let volumes = self.volumes.iter().enumerate().map(|(n, volume)| {
            let seed = volume_seed(seed, n as u64);
            volume.crashed(seed, &shared).map(Arc::new)
        });
        Ok(Array {
            volumes: volumes.collect::<Result<_, _>>()?,
            shared,
        })
    }

    /// A copy of what the array holds now, rot included: what the end of a process leaves.
    #[must_use]
    pub(crate) fn copy(&self) -> Array {
        let shared = Shared::new(&self.shared.clock, self.inherited(0));
        let volumes = self.volumes.iter();
        let volumes = volumes.map(|volume| Arc::new(volume.copy(&shared)));
        Array {
            volumes: volumes.collect(),
            shared,
        }
    }

    fn inherited(&self, seed: u64) -> Common {
        let old = self.shared.state.lock();
        Common {
            damages: old.damages,
            lies: old.lies,
            has_lied: old.has_lied,
            fired: old.fired,
            digest: old.digest ^ seed,
            ..Common::default()
        }
    }

    /// Reads of the log without faults, rot or rules: to find the zones of the store.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub(crate) fn peek(&self, address: u64, bytes: &mut [u8]) -> Result<(), MediaError> {
        let (volume, offset) = self.place(address);
        let volume = self.volumes.get(volume);
        volume.map_or(Ok(()), |volume| volume.peek(offset, bytes))
    }

    /// As [`Array::peek`], of the first volume's head.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub(crate) fn peek_head(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MediaError> {
        let first = self.volumes.first();
        first.map_or(Ok(()), |volume| volume.peek(offset, bytes))
    }

    /// Which volume holds an address of the log, and where.
    fn place(&self, address: u64) -> (usize, u64) {
        let count = self.volumes.len().max(1) as u64;
        let stripe = address / STRIPE_BYTES;
        let offset = stripe / count * STRIPE_BYTES + address % STRIPE_BYTES;
        ((stripe % count) as usize, HEAD_BYTES + offset)
    }
}

/// Each volume loses other writes; now and then one keeps all of them, or none.
fn volume_seed(seed: u64, volume: u64) -> u64 {
    if seed <= 1 || volume == 0 {
        return seed;
    }
    let mut random = Random::new(seed ^ volume.rotate_left(32));
    match random.below(4) {
        0 => random.below(2),
        _ => random.next(),
    }
}
