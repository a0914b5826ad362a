//! The world of one run: the store, its device, its model; opening, crashing and closing.
//!
//! Threads: one. The world stands behind a lock only so that operations can come between, in the
//! pauses of a background step, while the step itself runs with the world unlocked.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use heliox::{Durability, Error, ErrorKind, MergeOperator, Options, Snapshot, Step, Store};
use heliox_media::Random;

use crate::array::Array;
use crate::checkers::{check_offline, dump};
use crate::clock::Clock;
use crate::keys::{self, Key, Value, FINGERPRINT_BITS};
use crate::media::Fault;
use crate::model::{same, Found, Found1, Model, State};
use crate::script::{Event, Setup};

/// A broken promise, in words; or nothing.
pub(crate) type Checked = Result<(), String>;

/// Least segment of a store: all simulated ones have it.
pub(crate) const SEGMENT_BYTES: u64 = 4 << 20;
/// An image is checked offline before it is opened, once in so many crashes.
const OFFLINE_CHECK_EVERY: u64 = 4;
/// What a store may report after faults that cost it nothing: a copy of the superblock that was
/// damaged on purpose, or could not be read.
const EXPECTED_DAMAGE: &str = "superblock copy";
/// How the device calls a read that it fails.
const FAILED_READ: &str = "simulated device: read";
/// What a check finds where weak fingerprints hide so many keys that the books of a segment no
/// longer tell which.
const HIDDEN: [&str; 2] = [
    "has no entry, and nothing says why",
    "has an entry for the older",
];
/// Below so many bits of a fingerprint that is common, and older versions come back.
const SCARCE_BITS: u32 = 10;
/// Opens that may fail one after the other: one for each fault that was armed for them, and more.
const OPENS_MAX: u32 = 8;
/// Parts of the bound in which time passes, with a look of the flusher after each.
const TICKS_PER_BOUND: u64 = 16;

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Operations of the store, members of batches and entries of scans not counted.
    pub operations: u64,
    /// Crashes, those during recovery included.
    pub crashes: u64,
    /// Faults that took effect.
    pub faults: u64,
    /// Operations that came between, in pauses of background steps.
    pub interleaved: u64,
    /// Writes that were refused for lack of room.
    pub refused: u64,
    /// Segments that collection gave back.
    pub collected: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.operations += other.operations;
        self.crashes += other.crashes;
        self.faults += other.faults;
        self.interleaved += other.interleaved;
        self.refused += other.refused;
        self.collected += other.collected;
    }
}

/// The world of one run.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) keys: Vec<Key>,
    hash_seed: u64,
    pub(crate) clock: Arc<Clock>,
    pub(crate) media: Arc<Array>,
    pub(crate) store: Option<Store>,
    pub(crate) model: Model,
    pub(crate) snapshots: VecDeque<(Snapshot, State)>,
    pub(crate) tag: u64,
    pub(crate) counts: Counts,
    /// The store or its device has failed; nothing but a crash helps.
    pub(crate) is_failed: bool,
    /// Damage was detected that keeps the store from being opened: the run is over.
    pub(crate) is_over: bool,
    /// Operations that wait for a pause, with its number.
    pub(crate) waiting: VecDeque<(u32, Event)>,
    pub(crate) pause: u32,
    pub(crate) violation: Option<String>,
    /// One superblock copy rots in the next crash; which, and where.
    pub(crate) superblock_rot: Option<u64>,
    /// The power goes soon; what the crash will leave.
    pub(crate) crash_due: Option<(u64, u64, u64)>,
    /// Faults that wait for the next open, and their volumes.
    pub(crate) open_faults: Vec<(u8, Fault)>,
    /// Keys that lost their entry to a key of the same weak fingerprint when they were written, or
    /// came back: nothing is expected of them but that their values are theirs.
    pub(crate) lost: BTreeSet<(u8, Key)>,
    /// The crashes and damages up to which damage was reported.
    told: Cell<Option<(u64, u64)>>,
}

struct Mixer;

impl MergeOperator for Mixer {
    fn name(&self) -> &str {
        "mixer"
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        // The operand names the keyspace, which a value's bytes depend on.
        let (space, operand) = operand.split_first()?;
        let old = base.map(|bytes| Value {
            tag: keys::tag_of(bytes),
            len: bytes.len() as u32,
        });
        Some(Value::merged(old, keys::tag_of(operand)).bytes(*space, key))
    }
}

impl World {
    /// Empty volumes and no store yet. `may_rot`: bytes may be damaged behind the store's back.
    ///
    /// # Errors
    /// In words, if the setup makes no device.
    pub(crate) fn new(setup: &Setup, may_rot: bool) -> Result<World, String> {
        let clock = Arc::new(Clock::new(setup.seed));
        let media = Array::new(setup.volumes, setup.device_mib << 20, &clock);
        let keys = keys::table(setup.seed, setup.families, setup.keys);
        Ok(World {
            setup: *setup,
            hash_seed: match setup.fingerprint_bits {
                FINGERPRINT_BITS if !setup.exact => keys::hash_seed(setup.seed, &keys),
                _ => setup.seed,
            },
            keys,
            media: Arc::new(media.map_err(|e| e.to_string())?),
            clock,
            store: None,
            model: match may_rot {
                true => Model::with_history(),
                false => Model::default(),
            },
            snapshots: VecDeque::new(),
            tag: 0,
            counts: Counts::default(),
            is_failed: false,
            is_over: false,
            waiting: VecDeque::new(),
            pause: 0,
            violation: None,
            superblock_rot: None,
            crash_due: None,
            open_faults: Vec::new(),
            lost: BTreeSet::new(),
            told: Cell::new(None),
        })
    }

    /// True if a key may be missing, or come back: fingerprints are so weak that keys hide one
    /// another.
    pub(crate) fn has_strangers(&self) -> bool {
        self.setup.fingerprint_bits < FINGERPRINT_BITS && !self.setup.exact
    }

    pub(crate) fn now_ms(&self) -> u64 {
        heliox::Simulation::now_ms(&*self.clock)
    }

    pub(crate) fn bounded(&self) -> Durability {
        Durability::Bounded {
            ms: self.setup.bound_ms,
            bytes: self.setup.bound_bytes,
        }
    }

    fn options(&self, media: &Array) -> Options {
        Options::new()
            .volumes(media.volumes())
            .segment_bytes(SEGMENT_BYTES)
            .memory_budget_bytes(self.setup.memory_mib << 20)
            .fingerprint_bits(self.setup.fingerprint_bits)
            .exact(self.setup.exact)
            .hash_seed(self.hash_seed)
            .durability(self.bounded())
            .merge_operator(Arc::new(Mixer))
            .simulation(Arc::clone(&self.clock) as Arc<dyn heliox::Simulation>)
    }

    /// Opens the store on the volumes as they are, with the faults that wait for this, until it is
    /// open; then compares it with the model.
    pub(crate) fn open(&mut self) -> Checked {
        for (volume, fault) in std::mem::take(&mut self.open_faults) {
            self.media.arm(volume, fault);
        }
        for _ in 0..OPENS_MAX {
            let fired = self.media.fired();
            match Store::open("", &self.options(&self.media)) {
                Ok(store) => {
                    if self.opened(&store)? {
                        self.store = Some(store);
                        return Ok(());
                    }
                }
                Err(_) if self.media.is_tainted() => {
                    // Detected; nothing more can be asked of it.
                    self.is_over = true;
                    return Ok(());
                }
                Err(error) if self.media.fired() == fired => return Err(format!("open: {error}")),
                Err(error) => is_of_a_device(&error)?,
            }
            self.restart()?;
        }
        Err("the store does not open any more, and no fault is left to explain it".to_owned())
    }

    /// The process ends while the store was being opened, or the power goes, and the fault with it.
    fn restart(&mut self) -> Checked {
        let down_at = self.media.down_at();
        self.media.power_off(0);
        let mut random = Random::new(self.setup.seed ^ self.counts.crashes << 32);
        match random.below(2) {
            0 => self.media = Arc::new(self.media.copy()),
            _ => self.replace_media(random.next())?,
        }
        self.media.note_down_at(down_at);
        Ok(())
    }

    /// Compares a store that was just opened with the model; false if a fault keeps it from being
    /// read.
    fn opened(&mut self, store: &Store) -> Result<bool, String> {
        let fired = self.media.fired();
        let mut found = dump(store, self.media.is_tainted());
        let is_whole = matches!(found, Ok((_, 0)));
        if !is_whole && self.media.fired() > fired && !self.media.is_broken() {
            // A read failed on purpose.
            self.media.disarm();
            found = dump(store, self.media.is_tainted());
        }
        if found.is_err() && self.media.is_broken() {
            return Ok(false);
        }
        let (found, errors) = found?;
        let damage = reported(store);
        self.is_failed = false;
        // Perhaps only since it was read.
        if self.media.is_tainted() {
            if errors > 0 || !damage.is_empty() {
                self.note_told();
            }
            return self.opened_damaged(&found).map(|()| true);
        }
        if !damage.is_empty() {
            return Err(format!("open reports damage: {damage:?}"));
        }
        let kept = self
            .model
            .prefix_of(&found, self.now_ms(), &|s, k: &Key, w, f| {
                self.is_allowed(s, k, w, f)
            })?;
        self.check_bound(kept)?;
        self.note_hidden(&found);
        self.model.crash(kept);
        self.note_returned(&found);
        Ok(true)
    }

    /// What was found on damaged media: history up to where damage may end it in silence, or
    /// something is told.
    fn opened_damaged(&mut self, found: &Found) -> Checked {
        let least = self.model.silent_from(self.media.rots());
        let rule = |s, k: &Key, w, f| self.is_allowed(s, k, w, f);
        let lost = match self.model.prefix_of(found, self.now_ms(), &rule) {
            Ok(kept) if kept >= least => {
                self.note_hidden(found);
                self.model.crash(kept);
                None
            }
            Ok(kept) => Some(format!("steps {kept} to {least} were synced and are gone")),
            Err(words) => Some(words),
        };
        if let Some(words) = lost {
            self.expect_told(words)?;
            self.model.adopt(found);
        }
        self.note_returned(found);
        Ok(())
    }

    /// Something is not as it should be: a broken promise, unless bytes were damaged and the store
    /// tells of it.
    pub(crate) fn expect_told(&self, words: String) -> Checked {
        if !self.media.is_tainted() {
            return Err(words);
        }
        if self.told.get() == Some(self.told_now()) {
            return Ok(());
        }
        let damage = self.store.as_ref().map(reported).unwrap_or_default();
        let is_told = !damage.is_empty() || self.check_offline("damaged", true).is_err();
        if is_told {
            self.note_told();
            return Ok(());
        }
        Err(format!("damage was not told: {words}"))
    }

    pub(crate) fn note_told(&self) {
        self.told.set(Some(self.told_now()));
    }

    fn told_now(&self) -> (u64, u64) {
        (self.counts.crashes, self.media.damages())
    }

    /// True if this may be found of a key: what is wanted, and with weak fingerprints what
    /// strangers do.
    pub(crate) fn is_allowed(
        &self,
        space: u8,
        key: &Key,
        wanted: Option<Value>,
        found: Option<Found1>,
    ) -> bool {
        if same(wanted, found) || self.model.is_unknown(space, key) {
            return true;
        }
        let is_stranger = wanted.is_none() || found.is_none();
        let is_common = self.setup.fingerprint_bits < SCARCE_BITS;
        self.has_strangers()
            && (is_common || is_stranger || self.lost.contains(&(space, Key::clone(key))))
    }

    /// With weak fingerprints, keys whose last writes may have been lost and that no scan shows: one
    /// may lie under another key's entry, and which of its versions it is shows when it is read.
    fn note_hidden(&mut self, found: &Found) {
        if !self.has_strangers() {
            return;
        }
        let is_shown =
            |space: &u8, key: &Key| found.get(space).is_some_and(|map| map.contains_key(key));
        let hidden = self.model.keys_since().filter(|(s, k)| !is_shown(s, k));
        self.lost.extend(hidden);
    }

    /// With weak fingerprints, keys that are there and should not be, or not so: nothing is expected
    /// of them any more.
    fn note_returned(&mut self, found: &Found) {
        if !self.has_strangers() {
            return;
        }
        for (space, map) in found {
            for (key, has) in map {
                let wanted = self.model.get(*space, key, self.now_ms());
                if !same(wanted, Some(*has)) {
                    self.lost.insert((*space, Key::clone(key)));
                }
            }
        }
    }

    /// What `Bounded` promises: how much, and how old, what a crash loses may be.
    fn check_bound(&self, kept: usize) -> Checked {
        let down_at = self.media.down_at().unwrap_or(self.clock.ticked());
        let bytes: u64 = self.model.lost_acks(kept).map(|ack| ack.bytes).sum();
        if bytes > self.setup.bound_bytes {
            return Err(format!(
                "{bytes} bytes acknowledged under a bound of {} were lost",
                self.setup.bound_bytes
            ));
        }
        let oldest = self.model.lost_acks(kept).map(|ack| ack.at).min();
        let age = oldest.map_or(Duration::ZERO, |at| down_at.saturating_sub(at));
        if age > Duration::from_millis(self.setup.bound_ms + 1) {
            return Err(format!(
                "a write acknowledged under a bound of {} ms was lost {age:?} later",
                self.setup.bound_ms
            ));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.snapshots.clear();
        if let Some(store) = self.store.take() {
            self.counts.collected += store.stats().gc_segments;
        }
    }

    /// The power goes now; recovery; perhaps the power goes again meanwhile.
    pub(crate) fn crash(&mut self, image: u64, again: u64, again_image: u64) -> Checked {
        self.crash_due = None;
        self.media.power_off(0);
        let down_at = self.media.down_at();
        self.leave();
        self.replace_media(image)?;
        if again > 0 {
            self.media.power_off(again);
            let opened = Store::open("", &self.options(&self.media));
            match opened {
                Err(error) if !self.media.is_off() && !self.media.is_tainted() => {
                    return Err(format!("open: {error}"));
                }
                _ => {}
            }
            self.media.power_off(0);
            drop(opened);
            self.replace_media(again_image)?;
        }
        let rotten = self.rot_superblock()?;
        let is_due = self.counts.crashes.is_multiple_of(OFFLINE_CHECK_EVERY);
        if is_due && !rotten && !self.media.is_tainted() {
            self.check_offline("the image of a crash", true)?;
        }
        self.media.note_down_at(down_at);
        let opened = self.open();
        self.media.note_down_at(None);
        opened
    }

    fn replace_media(&mut self, image: u64) -> Checked {
        let next = self.media.crashed(image).map_err(|e| e.to_string())?;
        self.media = Arc::new(next);
        self.counts.crashes += 1;
        Ok(())
    }

    /// Verifies the whole store, index against log, accounts against a scan. `is_rough`: one copy
    /// of the superblock may be damaged.
    pub(crate) fn check_offline(&self, what: &str, is_rough: bool) -> Checked {
        let mut expected: Vec<&str> = is_rough.then_some(EXPECTED_DAMAGE).into_iter().collect();
        if self.has_strangers() {
            expected.extend(HIDDEN);
        }
        let options = self.options(&self.media.copy());
        check_offline(&options, &expected).map_err(|e| format!("{what}: {e}"))
    }

    /// Closes the store in order, checks it, opens it.
    pub(crate) fn reopen(&mut self) -> Checked {
        self.snapshots.clear();
        let Some(store) = self.store.take() else {
            return Ok(());
        };
        self.counts.collected += store.stats().gc_segments;
        let closed = store.close();
        if self.media.has_failed() || self.is_failed {
            if closed.is_ok() && self.media.is_reported() {
                return Err("closed in order after a failure".to_owned());
            }
            return self.crash(self.tag, 0, 0);
        }
        match closed {
            Err(_) if self.media.is_tainted() => return self.crash(self.tag, 0, 0),
            Err(error) if error.kind() == ErrorKind::Full => {
                return self.crash(self.tag, 0, 0);
            }
            // A read that failed once: as after a crash, but nothing is lost by it.
            Err(error) if error.kind() == ErrorKind::Io => {
                return self.crash(self.tag, 0, 0);
            }
            Err(error) => return Err(format!("close: {error}")),
            Ok(()) => {}
        }
        if !self.media.has_lied() {
            self.model.sync();
        }
        if !self.media.is_tainted() {
            self.check_offline("closed in order", false)?;
        }
        self.media = Arc::new(self.media.copy());
        self.open()
    }

    /// Time passes; the flusher looks often enough to keep the bound.
    pub(crate) fn tick(&mut self, micros: u64) -> Checked {
        let most = (self.setup.bound_ms * 1000 / TICKS_PER_BOUND).max(1);
        let parts = micros.div_ceil(most).clamp(1, 4 * TICKS_PER_BOUND);
        for _ in 0..parts {
            self.clock
                .tick(Duration::from_micros(micros.div_ceil(parts).min(most)));
            self.flush()?;
        }
        // What is left of a long time passes with nothing to be synced.
        let passed = parts * micros.div_ceil(parts).min(most);
        self.clock
            .tick(Duration::from_micros(micros.saturating_sub(passed)));
        Ok(())
    }

    /// What the flusher does when it wakes.
    pub(crate) fn flush(&mut self) -> Checked {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        let done = store.step_of(Step::Flush).map(|_| ());
        self.after_step("flush", done)
    }
}

/// What the store reports, but for what was damaged on purpose at no cost, and places that it could not
/// read while the device was told to fail.
pub(crate) fn reported(store: &Store) -> Vec<String> {
    let mut damage = store.damage();
    damage.retain(|words| !words.contains(EXPECTED_DAMAGE) && !words.contains(FAILED_READ));
    damage
}

/// An open that fails with the device says so, and nothing else.
fn is_of_a_device(error: &Error) -> Checked {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Failed | ErrorKind::Full => Ok(()),
        _ => Err(format!("open on a failing device: {error}")),
    }
}
