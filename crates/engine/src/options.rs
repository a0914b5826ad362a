//! How a store is opened and how a write behaves: the builders, and the one place that checks them.
//!
//! Invariants: a builder takes anything; [`Options::validate`] runs once per open and gives
//! [`Settings`], whose values are within their bounds, so nothing below checks an option again.
//! Options in the group *behaviour* change what the store promises; those in the group
//! *performance* change only speed and space. Threads: plain data.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heliox_format::label::HEAD_BYTES;
use heliox_format::limits::{
    BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, STORE_BYTES_MAX, VOLUMES_MAX,
};
use heliox_format::record::EXPIRY_MS_MAX;
use heliox_log::cipher::MasterKey;
use heliox_media::space::memory_limit_bytes;
use heliox_media::{IoMode, Media};

use crate::encryption::KeySource;
use crate::environment::{Environment, Simulation};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Listener};

/// Least memory a store runs with.
pub(crate) const MEMORY_BUDGET_BYTES_MIN: u64 = 16 << 20;
/// Fewest segments a store has: below, garbage collection has no room to work in.
pub(crate) const SEGMENTS_MIN: u32 = 16;
/// Least capacity of a store on one volume: its head and [`SEGMENTS_MIN`] of the smallest segments.
#[cfg(test)]
pub(crate) const CAPACITY_BYTES_MIN: u64 = HEAD_BYTES + SEGMENTS_MIN as u64 * SEGMENT_BYTES_MIN;

/// Longest time that [`Durability::Bounded`] may state.
const BOUNDED_MS_MAX: u64 = 60 * 60 * 1000;
/// Longest time to live; far enough from the last expiry that a record can carry.
const TTL_MS_MAX: u64 = EXPIRY_MS_MAX / 2;
/// Memory that stays for the record cache when index and tail have taken all they may.
const CACHE_FLOOR_BYTES: u64 = 1 << 20;
const TAIL_BYTES_MIN: u64 = 2 << 20;
const TAIL_BYTES_MAX: u64 = 64 << 20;
/// What is taken for the machine's memory where the system does not say.
const MEMORY_UNKNOWN_BYTES: u64 = 1 << 30;
const FINGERPRINT_BITS_MAX: u32 = 31;
/// A week.
const SCRUB_PERIOD_SECS: u64 = 7 * 24 * 60 * 60;
/// Ten years.
const SCRUB_PERIOD_SECS_MAX: u64 = 10 * 366 * 24 * 60 * 60;

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// A write returns when it is durable. Writers that wait at the same time share one sync; a
    /// lone writer pays a sync of the device per write.
    Sync,
    /// A write returns at once, and a crash loses at most the last `ms` milliseconds and `bytes`
    /// bytes of acknowledged writes. A writer waits when either bound would be exceeded.
    Bounded {
        /// Longest time that an acknowledged write stays volatile: 1 to 3,600,000 (an hour).
        ms: u64,
        /// Most acknowledged bytes that are volatile, those on their way included; at least 4096.
        bytes: u64,
    },
    /// A write returns at once and becomes durable with the next flush, checkpoint or close, or
    /// when memory runs out. A crash loses a suffix of the writes, never part of one.
    None,
}

impl Default for Durability {
    /// `Bounded { ms: 100, bytes: 8 MiB }`.
    fn default() -> Durability {
        Durability::Bounded {
            ms: 100,
            bytes: 8 << 20,
        }
    }
}

impl Durability {
    /// # Errors
    /// [`ErrorKind::Invalid`] if a bound is out of its range.
    pub(crate) fn validate(self) -> Result<Durability> {
        let Durability::Bounded { ms, bytes } = self else {
            return Ok(self);
        };
        if !(1..=BOUNDED_MS_MAX).contains(&ms) {
            return Err(Error::invalid(format!(
                "durability: bounded by {ms} ms; 1 to {BOUNDED_MS_MAX} ms are possible: use Sync for no loss at all, None for no bound"
            )));
        }
        if bytes < BLOCK_BYTES as u64 {
            return Err(Error::invalid(format!(
                "durability: bounded by {bytes} bytes; at least {BLOCK_BYTES} are needed: use Sync for no loss at all"
            )));
        }
        Ok(self)
    }
}

/// How one write differs from the store's defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
    pub(crate) ttl_ms: Option<u64>,
}

impl WriteOptions {
    /// The store's defaults.
    #[must_use]
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// When this write counts as done. Default: the store's [`Options::durability`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> WriteOptions {
        self.durability = Some(durability);
        self
    }

    /// The value expires so many milliseconds from now (at least 1). Default: never. Reads skip
    /// what has expired; its space comes back by garbage collection. Costs 6 bytes a record.
    #[must_use]
    pub fn ttl_ms(mut self, ttl_ms: u64) -> WriteOptions {
        self.ttl_ms = Some(ttl_ms);
        self
    }

    /// # Errors
    /// [`ErrorKind::Invalid`] if the durability or the time to live is out of its range.
    pub(crate) fn validate(&self) -> Result<()> {
        if let Some(durability) = self.durability {
            durability.validate()?;
        }
        self.ttl_ms.map_or(Ok(()), validate_ttl_ms)
    }
}

/// # Errors
/// [`ErrorKind::Invalid`] for a time to live of zero or of millennia.
pub(crate) fn validate_ttl_ms(ttl_ms: u64) -> Result<()> {
    if (1..=TTL_MS_MAX).contains(&ttl_ms) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "time to live of {ttl_ms} ms; 1 to {TTL_MS_MAX} ms are possible: leave it out for a value that never expires, delete the key to end it now"
    )))
}

/// Combines the value of a key with an operand. One per store; called by
/// `Keyspace::merge` under no lock, possibly several times for one merge, from any thread: it must
/// be a pure function of its arguments.
pub trait MergeOperator: Send + Sync {
    /// The operator's name, for messages.
    fn name(&self) -> &str;

    /// The new value of `key` from its present one (`None`: the key is absent) and the operand;
    /// `None` refuses the operand, and the merge fails.
    fn merge(&self, key: &[u8], base: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>>;
}

/// How a store is opened or created: a builder. `Options::new()` is right for most stores.
///
/// Options marked *at creation* are kept in the store, and are ignored when it is opened again.
#[derive(Clone)]
pub struct Options {
    create_if_missing: bool,
    read_only: bool,
    durability: Durability,
    devices: Vec<PathBuf>,
    volumes: Vec<Arc<dyn Media>>,
    capacity_bytes: Option<u64>,
    exact: bool,
    merge_operator: Option<Arc<dyn MergeOperator>>,
    encryption: Option<KeySource>,
    memory_budget_bytes: Option<u64>,
    segment_bytes: Option<u64>,
    io: IoMode,
    scrub_period_secs: u64,
    listener: Option<Listener>,
    background: bool,
    fingerprint_bits: u32,
    hash_seed: Option<u64>,
    simulation: Option<Arc<dyn Simulation>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: true,
            read_only: false,
            durability: Durability::default(),
            devices: Vec::new(),
            volumes: Vec::new(),
            capacity_bytes: None,
            exact: false,
            merge_operator: None,
            encryption: None,
            memory_budget_bytes: None,
            segment_bytes: None,
            io: IoMode::Auto,
            scrub_period_secs: SCRUB_PERIOD_SECS,
            listener: None,
            background: true,
            fingerprint_bits: FINGERPRINT_BITS_MAX,
            hash_seed: None,
            simulation: None,
        }
    }
}

/// # Behaviour: what the store promises
impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Make a store where there is none. Default: true. If false, opening a place without a store
    /// is an error ([`ErrorKind::NotAStore`]). No cost.
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Options {
        self.create_if_missing = create;
        self
    }

    /// Open for reading alone: not a byte of the store's files is written, so that they need no right to
    /// write and may lie on a file system that is mounted read-only. Others may have it open in the same way
    /// meanwhile, nobody to write. Default: false. What would change the store is `ReadOnly` then, also
    /// [`Store::scrub`](crate::Store::scrub) and [`Store::checkpoint`](crate::Store::checkpoint); a store
    /// that is not there is not made. What a run that did not end in order has left is replayed with every
    /// such open; there are no background threads, and so no scrub.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// When a write counts as done, unless it says otherwise itself. Default:
    /// `Bounded { ms: 100, bytes: 8 MiB }`. [`Durability::Sync`] costs a sync of the device per
    /// group of writers; [`Durability::None`] costs the writes since the last flush in a crash.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// *At creation*: block devices, or files that exist, to stripe the store over, at most 64;
    /// their contents are overwritten, except that one with the label of a store is refused.
    /// Default: none, and the store lives in one sparse file in its directory. All are used up to
    /// the length of the shortest. Losing one device loses the store.
    ///
    /// At a later open: where the devices are now, in the same order, if their paths have changed;
    /// empty means the paths that the store remembers.
    #[must_use]
    pub fn devices(mut self, devices: Vec<PathBuf>) -> Options {
        self.devices = devices;
        self
    }

    /// *At creation*: bytes that the store takes on media at most, over all its devices. Default:
    /// the devices' length, or what the file system has free less a reserve of 5 % (at most
    /// 16 GiB). Least: 65 MiB. Files are sparse, so capacity costs space only as
    /// data comes; the fuller a store, the more its garbage collection writes.
    #[must_use]
    pub fn capacity_bytes(mut self, bytes: u64) -> Options {
        self.capacity_bytes = Some(bytes);
        self
    }

    /// Verify the key of each displaced record by a background read. Default: false, and a wrong
    /// attribution (expected below once in many billions of new keys) is found and healed when its
    /// segment is collected. True costs up to one media read per overwrite or delete.
    #[must_use]
    pub fn exact(mut self, exact: bool) -> Options {
        self.exact = exact;
        self
    }

    /// What `merge` does. Default: none, and `merge` is an error. No cost of its own.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Options {
        self.merge_operator = Some(operator);
        self
    }

    /// *At creation*: encrypt everything of the user's (AES-256-GCM), with keys that this key wraps.
    /// Default: none, and nothing is encrypted. Later: the same key, or the one that it was changed
    /// to; without it the store is refused ([`ErrorKind::Encrypted`], [`ErrorKind::WrongKey`]), and
    /// so is a key for a store that is not encrypted ([`ErrorKind::NotEncrypted`]). Costs processor
    /// time when records go to media or come from there, none in the record cache; 32 bytes in each
    /// 4 KiB; and half a MiB of the memory budget.
    #[must_use]
    pub fn encryption(mut self, key: KeySource) -> Options {
        self.encryption = Some(key);
        self
    }

    /// Who is told of events: damage that was found, another health, checkpoints, passes of the scrub
    /// and more. Default: nobody; the newest events are kept for [`Store::events`] all the same.
    ///
    /// It is called by a thread of its own, one event at a time and in order, with no lock of the store
    /// held, so it may call the store. A panic in it is caught, and the next event is given. While it
    /// blocks nothing else waits for it: at most 1,024 events do, then the oldest are dropped, which the
    /// next event says; closing the store waits for it for a second.
    ///
    /// [`Store::events`]: crate::Store::events
    #[must_use]
    pub fn on_event(mut self, listener: Arc<dyn Fn(&Event) + Send + Sync>) -> Options {
        self.listener = Some(listener);
        self
    }

    /// Gives the store its volumes directly instead of paths: for stores in memory and for tests.
    /// The directory is then ignored and nothing is written outside these volumes; keep them to
    /// open the store again. At most 64, not together with [`Options::devices`]. Default: none.
    #[must_use]
    pub fn volumes(mut self, volumes: Vec<Arc<dyn Media>>) -> Options {
        self.volumes = volumes;
        self
    }
}

/// # Performance: speed and space only
impl Options {
    /// Memory for index, tail buffers and record cache together. Default: a quarter of what the
    /// machine or its control group allows. Least: 16 MiB. The index takes about 12 bytes an
    /// object; what it leaves caches records. Too small for the index: writes of new keys fail
    /// with [`ErrorKind::OverBudget`]. What the program's allocator keeps comes on top: glibc's up to
    /// some 20 MiB for each of its arenas, others (mimalloc, jemalloc) little.
    #[must_use]
    pub fn memory_budget_bytes(mut self, bytes: u64) -> Options {
        self.memory_budget_bytes = Some(bytes);
        self
    }

    /// *At creation*: bytes of a segment, the unit of space reclaiming: a power of two from 4 to
    /// 64 MiB. Default by capacity: 4 MiB below 4 GiB, 8 MiB below 8 GiB, 16 MiB below 4 TiB,
    /// else 64 MiB. Larger segments suit large devices; smaller ones reclaim small stores finer.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.segment_bytes = Some(bytes);
        self
    }

    /// In how many seconds the scrub, in the background, reads and verifies everything in use, to find
    /// bit rot before a reader does. Default: 604,800 (a week). At most ten years; 0 turns it off. The
    /// pace is at least 64 KiB and at most 32 MiB a second, whatever the period: the default costs the
    /// device that and the processor next to nothing. It begins five seconds after opening, at a
    /// random place.
    #[must_use]
    pub fn scrub_period_secs(mut self, secs: u64) -> Options {
        self.scrub_period_secs = secs;
        self
    }

    /// How reads reach the kernel. Default: [`IoMode::Auto`], `io_uring` where the kernel grants
    /// it. [`IoMode::Uring`] makes its absence an error; [`IoMode::Blocking`] costs more processor
    /// time per cold read.
    #[must_use]
    pub fn io(mut self, io: IoMode) -> Options {
        self.io = io;
        self
    }
}

/// # Tests only
impl Options {
    /// Weakens the fingerprints so that strangers are common: 1 to 31 bits. Default: 31.
    #[doc(hidden)]
    #[must_use]
    pub fn fingerprint_bits(mut self, bits: u32) -> Options {
        self.fingerprint_bits = bits;
        self
    }

    /// *At creation*: fixes the secret of the hashes, so that a run can be repeated. Default:
    /// random, so that nobody can choose keys that collide.
    #[doc(hidden)]
    #[must_use]
    pub fn hash_seed(mut self, seed: u64) -> Options {
        self.hash_seed = Some(seed);
        self
    }

    /// False: no thread of the store's own; whoever owns it drives each step. Default: true.
    #[doc(hidden)]
    #[must_use]
    pub fn background(mut self, background: bool) -> Options {
        self.background = background;
        self
    }

    /// Simulated surroundings instead of the system's; the store has no threads then.
    #[doc(hidden)]
    #[must_use]
    pub fn simulation(mut self, simulation: Arc<dyn Simulation>) -> Options {
        self.simulation = Some(simulation);
        self.background = false;
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let volumes: Vec<String> = self.volumes.iter().map(|v| v.describe()).collect();
        f.debug_struct("Options")
            .field("create_if_missing", &self.create_if_missing)
            .field("read_only", &self.read_only)
            .field("durability", &self.durability)
            .field("devices", &self.devices)
            .field("volumes", &volumes)
            .field("capacity_bytes", &self.capacity_bytes)
            .field("exact", &self.exact)
            .field(
                "merge_operator",
                &self.merge_operator.as_ref().map(|m| m.name()),
            )
            .field("encryption", &self.encryption)
            .field("memory_budget_bytes", &self.memory_budget_bytes)
            .field("segment_bytes", &self.segment_bytes)
            .field("io", &self.io)
            .field("scrub_period_secs", &self.scrub_period_secs)
            .finish_non_exhaustive()
    }
}

/// Options that were checked: every value is within its bounds.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) create_if_missing: bool,
    pub(crate) read_only: bool,
    pub(crate) durability: Durability,
    pub(crate) devices: Vec<PathBuf>,
    /// Volumes given directly; `dir` and `devices` are then not used.
    pub(crate) volumes: Vec<Arc<dyn Media>>,
    /// `None`: derive it when the store is created.
    pub(crate) capacity_bytes: Option<u64>,
    /// `None`: derive it when the store is created.
    pub(crate) segment_bytes: Option<u64>,
    pub(crate) exact: bool,
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    /// The user's key of an encrypted store.
    pub(crate) master_key: Option<Arc<MasterKey>>,
    /// All memory: index, tail and cache.
    pub(crate) memory_budget_bytes: u64,
    /// Most memory of the log's unflushed tail.
    pub(crate) tail_limit_bytes: u64,
    /// Most memory of the index: the budget less the tail's limit and a floor for the cache.
    pub(crate) index_limit_bytes: u64,
    pub(crate) io: IoMode,
    /// 0: no scrub in the background.
    pub(crate) scrub_period_secs: u64,
    pub(crate) listener: Option<Listener>,
    pub(crate) background: bool,
    pub(crate) fingerprint_bits: u32,
    /// `None`: draw it when the store is created.
    pub(crate) hash_seed: Option<u64>,
    pub(crate) environment: Environment,
}

impl Options {
    /// Checks everything that can be checked without looking at the store.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the bounds, for the first option that is out of them.
    pub(crate) fn validate(&self) -> Result<Settings> {
        let memory_budget_bytes = self.checked_budget()?;
        self.check_volumes()?;
        self.check_space()?;
        if !(1..=FINGERPRINT_BITS_MAX).contains(&self.fingerprint_bits) {
            return Err(Error::invalid(format!(
                "fingerprint_bits: {} given; 1 to {FINGERPRINT_BITS_MAX} are possible",
                self.fingerprint_bits
            )));
        }
        if self.scrub_period_secs > SCRUB_PERIOD_SECS_MAX {
            return Err(Error::invalid(format!(
                "scrub_period_secs: {} given; at most {SCRUB_PERIOD_SECS_MAX} (ten years) are possible, 0 turns the scrub off",
                self.scrub_period_secs
            )));
        }
        // Last of all: it may be a command.
        let master_key = self.encryption.as_ref().map(KeySource::read).transpose()?;
        let tail_limit_bytes = (memory_budget_bytes / 8).clamp(TAIL_BYTES_MIN, TAIL_BYTES_MAX);
        Ok(Settings {
            create_if_missing: self.create_if_missing && !self.read_only,
            read_only: self.read_only,
            durability: self.durability.validate()?,
            devices: self.devices.clone(),
            volumes: self.volumes.clone(),
            capacity_bytes: self.capacity_bytes,
            segment_bytes: self.segment_bytes,
            exact: self.exact,
            merge_operator: self.merge_operator.clone(),
            master_key,
            memory_budget_bytes,
            tail_limit_bytes,
            index_limit_bytes: memory_budget_bytes - tail_limit_bytes - CACHE_FLOOR_BYTES,
            io: self.io,
            scrub_period_secs: self.scrub_period_secs,
            listener: self.listener.clone(),
            background: self.background && !self.read_only,
            fingerprint_bits: self.fingerprint_bits,
            hash_seed: self.hash_seed,
            environment: Environment::new(self.simulation.clone()),
        })
    }

    fn checked_budget(&self) -> Result<u64> {
        let Some(bytes) = self.memory_budget_bytes else {
            let quarter = memory_limit_bytes().unwrap_or(MEMORY_UNKNOWN_BYTES) / 4;
            return Ok(quarter.max(MEMORY_BUDGET_BYTES_MIN));
        };
        if bytes < MEMORY_BUDGET_BYTES_MIN {
            return Err(Error::invalid(format!(
                "memory_budget_bytes: {bytes} given; at least {MEMORY_BUDGET_BYTES_MIN} (16 MiB) are needed, and about 12 bytes for each object"
            )));
        }
        Ok(bytes)
    }

    fn check_volumes(&self) -> Result<()> {
        let (name, count) = match self.volumes.len() {
            0 => ("devices", self.devices.len()),
            count => ("volumes", count),
        };
        if count > VOLUMES_MAX {
            return Err(Error::invalid(format!(
                "{name}: {count} given; a store is striped over at most {VOLUMES_MAX}: give fewer, or join some below the store"
            )));
        }
        if !self.volumes.is_empty() && !self.devices.is_empty() {
            return Err(Error::invalid(
                "volumes and devices are both given; a store has either: leave one out",
            ));
        }
        let mut seen = Vec::new();
        for device in &self.devices {
            let real = real_path(device);
            if seen.contains(&real) {
                return Err(Error::invalid(format!(
                    "devices: {} is given twice (as {}); name each device once",
                    device.display(),
                    real.display()
                )));
            }
            seen.push(real);
        }
        let doubled = |i: usize| {
            let one = &self.volumes[i];
            self.volumes[..i]
                .iter()
                .any(|other| Arc::ptr_eq(one, other))
        };
        match (0..self.volumes.len()).find(|&i| doubled(i)) {
            Some(i) => Err(Error::invalid(format!(
                "volumes: volume {i} ({}) is given twice; give each volume once",
                self.volumes[i].describe()
            ))),
            None => Ok(()),
        }
    }

    fn check_space(&self) -> Result<()> {
        let segment_bytes = self.segment_bytes.unwrap_or(SEGMENT_BYTES_MIN);
        let allowed = SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX;
        if !segment_bytes.is_power_of_two() || !allowed.contains(&segment_bytes) {
            return Err(Error::invalid(format!(
                "segment_bytes: {segment_bytes} given; a power of two from {SEGMENT_BYTES_MIN} (4 MiB) to {SEGMENT_BYTES_MAX} (64 MiB) is possible"
            )));
        }
        let Some(capacity_bytes) = self.capacity_bytes else {
            return Ok(());
        };
        let volumes = self.volumes.len().max(self.devices.len()).max(1) as u64;
        let least = volumes * HEAD_BYTES + u64::from(SEGMENTS_MIN) * segment_bytes;
        if capacity_bytes < least {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("capacity_bytes: {capacity_bytes} given; at least {least} are needed ({SEGMENTS_MIN} segments of {segment_bytes} bytes and 1 MiB for each of {volumes} devices)"),
            ));
        }
        if capacity_bytes > STORE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "capacity_bytes: {capacity_bytes} given; a store has at most {STORE_BYTES_MAX} (64 TiB)"
            )));
        }
        Ok(())
    }
}

/// The path without links and dots where it exists (or its directory does), else as given.
fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    match (
        parent.unwrap_or(Path::new(".")).canonicalize(),
        path.file_name(),
    ) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use heliox_media::MemoryMedia;

    use super::*;

    fn refused(options: &Options, parts: &[&str]) {
        let error = options.validate().err().expect("the options were taken");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{error} lacks {part}");
        }
    }

    #[test]
    fn the_defaults_are_valid_and_memory_is_divided() {
        let settings = Options::new().validate().unwrap();
        assert_eq!(
            settings.durability,
            Durability::Bounded {
                ms: 100,
                bytes: 8 << 20
            }
        );
        assert!(settings.create_if_missing && settings.background && !settings.exact);
        for (budget, tail) in [
            (16u64 << 20, 2u64 << 20),
            (128 << 20, 16 << 20),
            (4 << 30, 64 << 20),
        ] {
            let settings = Options::new()
                .memory_budget_bytes(budget)
                .validate()
                .unwrap();
            assert_eq!(settings.memory_budget_bytes, budget);
            assert_eq!(settings.tail_limit_bytes, tail);
            assert_eq!(settings.index_limit_bytes, budget - tail - (1 << 20));
        }
    }

    #[test]
    fn memory_and_durability_out_of_bounds_are_refused() {
        let new = Options::new;
        refused(
            &new().memory_budget_bytes((16 << 20) - 1),
            &["memory_budget_bytes", "16777216"],
        );
        let bounded = |ms, bytes| new().durability(Durability::Bounded { ms, bytes });
        refused(&bounded(0, 1 << 20), &["0 ms", "3600000"]);
        refused(&bounded(3_600_001, 1 << 20), &["3600001"]);
        refused(&bounded(1, 4095), &["4095", "4096"]);
        bounded(3_600_000, 4096).validate().unwrap();
        refused(&new().fingerprint_bits(0), &["fingerprint_bits", "31"]);
        refused(&new().fingerprint_bits(32), &["32"]);
        refused(
            &new().scrub_period_secs(u64::MAX),
            &["scrub_period_secs", "316224000"],
        );
        new().scrub_period_secs(0).validate().unwrap();
    }

    #[test]
    fn space_out_of_bounds_is_refused() {
        let new = Options::new;
        for bytes in [0, 2 << 20, 5 << 20, 128 << 20] {
            refused(
                &new().segment_bytes(bytes),
                &["segment_bytes", "4194304", "67108864"],
            );
        }
        refused(
            &new().capacity_bytes(CAPACITY_BYTES_MIN - 1),
            &["capacity_bytes", "68157440"],
        );
        new().capacity_bytes(CAPACITY_BYTES_MIN).validate().unwrap();
        let tight = new().segment_bytes(64 << 20).capacity_bytes(1 << 30);
        refused(&tight, &["capacity_bytes", "1074790400"]);
        refused(&new().capacity_bytes(u64::MAX), &["64 TiB"]);
    }

    #[test]
    fn devices_given_twice_or_too_many_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("a");
        let again = dir.path().join(".").join("a");
        refused(
            &Options::new().devices(vec![device.clone(), again.clone()]),
            &["twice"],
        );
        std::fs::write(&device, b"").unwrap();
        let link = dir.path().join("b");
        std::os::unix::fs::symlink(&device, &link).unwrap();
        refused(
            &Options::new().devices(vec![device.clone(), link]),
            &["twice"],
        );
        let many = (0..65).map(|i| dir.path().join(i.to_string())).collect();
        refused(&Options::new().devices(many), &["65", "64"]);
        let volume: Arc<dyn Media> = Arc::new(MemoryMedia::new(1 << 20, 512).unwrap());
        refused(&Options::new().volumes(vec![volume.clone(); 2]), &["twice"]);
        refused(
            &Options::new().volumes(vec![volume]).devices(vec![device]),
            &["either"],
        );
    }

    #[test]
    fn a_write_out_of_bounds_is_refused() {
        WriteOptions::new().ttl_ms(1).validate().unwrap();
        for ttl_ms in [0, u64::MAX] {
            let error = WriteOptions::new().ttl_ms(ttl_ms).validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        let never = Durability::Bounded { ms: 0, bytes: 9999 };
        assert!(WriteOptions::new().durability(never).validate().is_err());
    }
}
