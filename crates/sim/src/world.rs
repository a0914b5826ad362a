//! The world of one run: the store, its device, its model; opening, crashing and closing.
//!
//! Threads: one. The world stands behind a lock only so that operations can come between, in the
//! pauses of a background step, while the step itself runs with the world unlocked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use heliox::{Durability, MergeOperator, Options, Snapshot, Step, Store};
use heliox_media::{Media, MemoryMedia};

use crate::checkers::{check_offline, dump};
use crate::clock::Clock;
use crate::keys::{self, Key, Value};
use crate::media::{SimMedia, SECTOR_BYTES};
use crate::model::{Model, State};
use crate::script::{Event, Setup};

/// A broken promise, in words; or nothing.
pub(crate) type Checked = Result<(), String>;

/// Least segment of a store: all simulated ones have it.
pub(crate) const SEGMENT_BYTES: u64 = 4 << 20;
/// An image is checked offline before it is opened, once in so many crashes.
const OFFLINE_CHECK_EVERY: u64 = 4;
/// What a store may report after faults that cost it nothing: a copy of the superblock that was
/// damaged on purpose, and the header of a segment that a crash tore while frames of it arrived,
/// which is told until the segment is collected.
const EXPECTED_DAMAGE: [&str; 2] = ["superblock copy", "damaged segment header"];
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
    pub(crate) clock: Arc<Clock>,
    pub(crate) media: Arc<SimMedia>,
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
    /// An empty device and no store yet.
    ///
    /// # Errors
    /// In words, if the setup makes no device.
    pub(crate) fn new(setup: &Setup) -> Result<World, String> {
        let clock = Arc::new(Clock::new(setup.seed));
        let image = MemoryMedia::new(setup.device_mib << 20, SECTOR_BYTES);
        let image = image.map_err(|e| e.to_string())?;
        Ok(World {
            setup: *setup,
            keys: keys::table(setup.seed, setup.families, setup.keys),
            media: Arc::new(SimMedia::new(image, Arc::clone(&clock))),
            clock,
            store: None,
            model: Model::default(),
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
        })
    }

    /// True if only detection is owed: bytes were damaged behind the store's back, or fingerprints
    /// are so weak that keys hide one another.
    #[must_use]
    pub(crate) fn is_lenient(&self) -> bool {
        self.media.is_tainted() || self.has_strangers()
    }

    pub(crate) fn has_strangers(&self) -> bool {
        self.setup.fingerprint_bits < 31 && !self.setup.exact
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

    fn options(&self, media: Arc<SimMedia>) -> Options {
        Options::new()
            .volumes(vec![media as Arc<dyn Media>])
            .segment_bytes(SEGMENT_BYTES)
            .memory_budget_bytes(self.setup.memory_mib << 20)
            .fingerprint_bits(self.setup.fingerprint_bits)
            .exact(self.setup.exact)
            .hash_seed(self.setup.seed)
            .durability(self.bounded())
            .merge_operator(Arc::new(Mixer))
            .simulation(Arc::clone(&self.clock) as Arc<dyn heliox::Simulation>)
    }

    /// Opens the store on the device as it is, and compares it with the model.
    pub(crate) fn open(&mut self) -> Checked {
        let opened = Store::open("", &self.options(Arc::clone(&self.media)));
        let store = match opened {
            Ok(store) => store,
            Err(error) if self.media.is_tainted() => {
                // Detected; nothing more can be asked of it.
                let _ = error;
                self.is_over = true;
                return Ok(());
            }
            Err(error) => return Err(format!("open: {error}")),
        };
        let mut damage = store.damage();
        damage.retain(|d| !EXPECTED_DAMAGE.iter().any(|words| d.contains(words)));
        if !damage.is_empty() && !self.is_lenient() {
            return Err(format!("open reports damage: {damage:?}"));
        }
        let found = dump(&store, self.media.is_tainted());
        self.store = Some(store);
        self.is_failed = false;
        let found = found?;
        if self.is_lenient() {
            self.model.adopt(&found);
            return Ok(());
        }
        let kept = self.model.prefix_of(&found, self.now_ms())?;
        self.check_bound(kept)?;
        self.model.crash(kept);
        Ok(())
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
            let opened = Store::open("", &self.options(Arc::clone(&self.media)));
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
        if is_due && !rotten && !self.is_lenient() {
            self.check_offline("the image of a crash", &EXPECTED_DAMAGE)?;
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

    /// Verifies the whole store, index against log, accounts against a scan.
    pub(crate) fn check_offline(&self, what: &str, expected: &[&str]) -> Checked {
        let copy = self.media.copy().map_err(|e| e.to_string())?;
        check_offline(&self.options(Arc::new(copy)), expected).map_err(|e| format!("{what}: {e}"))
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
            Err(error) if error.kind() == heliox::ErrorKind::Full => {
                return self.crash(self.tag, 0, 0);
            }
            // A read that failed once: as after a crash, but nothing is lost by it.
            Err(error) if error.kind() == heliox::ErrorKind::Io => {
                return self.crash(self.tag, 0, 0);
            }
            Err(error) => return Err(format!("close: {error}")),
            Ok(()) => {}
        }
        if !self.media.has_lied() {
            self.model.sync();
        }
        if !self.is_lenient() {
            self.check_offline("closed in order", &EXPECTED_DAMAGE[1..])?;
        }
        self.media = Arc::new(self.media.copy().map_err(|e| e.to_string())?);
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
