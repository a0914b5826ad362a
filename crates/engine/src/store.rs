//! The store as its user has it: opening, keyspaces, batches, snapshots, figures, closing.

use std::path::Path;
use std::sync::Arc;

use heliox_format::checkpoint::RangeEntry;
use heliox_format::ids::{Incarnation, SeqNo};
use heliox_format::limits::{KEYSPACES_MAX, KEYSPACE_NAME_BYTES_MAX};
use heliox_format::record::RecordKind;
use heliox_format::superblock::{Cut, Superblock, CUTS_MAX};
use heliox_log::append::NewRecord;
use heliox_log::{Log, LogError, LogOptions, Stream};
use heliox_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use heliox_sync::Mutex;

use crate::admit::{acknowledge, admit};
use crate::ahead::Ahead;
use crate::background::{run_step, Step, Workers};
use crate::batch::{Batch, Operation};
use crate::batches::BatchGate;
use crate::cache::RecordCache;
use crate::check::{self, CheckProgress, CheckReport};
use crate::checkpoint::{self, Pace};
use crate::commit::{commit, Member};
use crate::core::{Core, NO_SYNC_DUE};
use crate::encryption::KeySource;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Events};
use crate::findings::Findings;
use crate::gc;
use crate::health::{Health, ScrubProgress, ScrubReport};
use crate::keyspace::Keyspace;
use crate::keyspaces::Keyspaces;
use crate::large;
use crate::options::{Options, Settings, WriteOptions};
use crate::patrol::Patrol;
use crate::pins::Pins;
use crate::range_delete;
use crate::ranges::Ranges;
use crate::recover;
use crate::room;
use crate::root::{destroy, keys, Root};
use crate::scrub;
use crate::signals::Signals;
use crate::snapshot::{Snapshot, SnapshotGuard};
use crate::snapshots::Snapshots;
use crate::space::{Space, Wish};
use crate::stats::{Counters, Stats};
use crate::tombstones::Tombstones;
use crate::watch;

/// An open store. Cheap to clone; shared by all threads. The last clone that is dropped closes it.
#[derive(Clone)]
pub struct Store(Arc<Handle>);

struct Handle {
    core: Arc<Core>,
    workers: Mutex<Workers>,
}

/// # Opening and closing
impl Store {
    /// Opens the store in `dir`; makes it first if there is none and the options allow that.
    ///
    /// # Errors
    /// See [`ErrorKind`]: each kind of bad input has its own.
    pub fn open(dir: impl AsRef<Path>, options: &Options) -> Result<Store> {
        let settings = options.validate()?;
        let (root, superblock) = if settings.create_if_missing {
            Root::open_or_create(dir.as_ref(), &settings)?
        } else {
            Root::open(dir.as_ref(), &settings)?
        };
        Store::start(root, superblock, settings)
    }

    /// Makes a store in `dir` and opens it.
    ///
    /// # Errors
    /// `StoreExists` if there is one, and as [`Store::open`].
    pub fn create(dir: impl AsRef<Path>, options: &Options) -> Result<Store> {
        let settings = options.validate()?;
        if settings.read_only {
            return Err(Error::invalid(
                "read_only: a store cannot be made for reading alone",
            ));
        }
        let (root, superblock) = Root::create(dir.as_ref(), &settings)?;
        Store::start(root, superblock, settings)
    }

    /// Deletes the store in `dir`, which nobody may have open: its files, and the directory if nothing else
    /// is in it; devices become such that hold no store. Nothing is deleted that the store does not
    /// name, or that does not carry its label; the content of devices is not overwritten. Needs no key.
    ///
    /// If this does not end, there is the whole store, or none: opening says that the deletion did not
    /// end, and the next one, or the making of another store there, goes on with it. So does this with
    /// what a making that did not end has left.
    ///
    /// # Errors
    /// `NotAStore` if there is none, `StoreInUse`, `WrongDevice` if a device is missing or is another
    /// store's; then nothing was deleted. What the operating system refuses.
    pub fn destroy(dir: impl AsRef<Path>) -> Result<()> {
        destroy::run(dir.as_ref())
    }

    fn start(root: Root, superblock: Superblock, mut settings: Settings) -> Result<Store> {
        // From here on the data keys suffice.
        settings.master_key = None;
        let background = settings.background;
        let core = Arc::new(assemble(root, superblock, settings)?);
        let mut workers = Workers::default();
        if background {
            // Those that were started hold the store.
            let started = workers.start(&core);
            started.inspect_err(|_| workers.stop(&core))?;
        }
        Ok(Store(Arc::new(Handle {
            core,
            workers: Mutex::new(workers),
        })))
    }

    /// Makes everything durable, writes a checkpoint so that the next open replays nothing, and
    /// closes. When this returns, with an error too, files and devices are unlocked and closed: the store
    /// can be opened again, whatever handles of it are left. These give `Closed`, also what was under way,
    /// and neither read nor write a byte of it any more. Volumes that were given directly
    /// (`Options::volumes`) are the caller's: nothing may be under way when these are used again.
    ///
    /// # Errors
    /// A device failure; what was durable stays so. Only who closes first is told.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }
}

impl Handle {
    fn close(&self) -> Result<()> {
        let core = &self.core;
        // Who comes second waits until the files are free.
        let mut workers = self.workers.lock();
        if core.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        workers.stop(core);
        let closed = match core.log.failure() {
            Some(first) => Err(Error::failed(&first.into())),
            None if core.settings.read_only => Ok(()),
            None => checkpoint::close(core),
        };
        core.root.close();
        // Handles that are left need none of it.
        core.cache.set_budget_bytes(0);
        watch::look(core);
        let ended = std::mem::take(&mut *workers);
        // A listener may call back.
        drop(workers);
        ended.end_events(core);
        closed
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Who wants to know calls `close`.
        let _ = self.close();
    }
}

/// Recovers and puts the parts together.
fn assemble(root: Root, superblock: Superblock, settings: Settings) -> Result<Core> {
    let begun = settings.environment.elapsed();
    let geometry = root.log_geometry(&superblock);
    let recovered = recover::run(&root, &superblock, &settings)?;
    recovered.index.set_limit_bytes(settings.index_limit_bytes);
    let mut next = next_superblock(&superblock, &recovered);
    keys::begin_births(&mut next.keys, recovered.next_birth);
    if let Some(cipher) = root.cipher() {
        cipher.set_first_births(&next.keys);
    }
    let counters = first_counts(&root, &recovered);
    let log_options = LogOptions {
        geometry,
        incarnation: next.incarnation,
        next_seq: recovered.next_seq,
        next_birth: recovered.next_birth,
    };
    let log = Log::new(root.media(), log_options, recovered.table);
    let space = Space::new(u64::from(geometry.segments), geometry.segment_bytes);
    space.expect_checkpoint(recovered.index.memory_bytes());
    let core = Core {
        hash_seed: superblock.hash_seed,
        cache: RecordCache::new(first_cache_bytes(&settings)),
        keyspaces: Keyspaces::new(recovered.meta.keyspaces, recovered.meta.next_keyspace),
        ranges: Ranges::new(recovered.meta.ranges),
        snapshots: Snapshots::new(settings.memory_budget_bytes / 8),
        batches: BatchGate::default(),
        signals: Signals::default(),
        checkpointed: AtomicU64::new(superblock.checkpoint.map_or(0, |c| c.cut.0)),
        checkpointed_cut: AtomicU64::new(0),
        checkpoint_lock: Mutex::new(()),
        gc_lock: Mutex::new(()),
        tombstones: Tombstones::default(),
        next_value_id: AtomicU64::new(recovered.next_value_id),
        recovered: SeqNo(recovered.next_seq.0 - 1),
        first_value_id: recovered.next_value_id,
        orphans_due: AtomicBool::new(!superblock.clean),
        large_unsure: AtomicU64::new(0),
        closed: AtomicBool::new(false),
        make_room: room::make_room,
        sync_due_ms: AtomicU64::new(NO_SYNC_DUE),
        log_bytes_at_checkpoint: AtomicU64::new(0),
        findings: Findings::of_words([root.warnings(), &recovered.damage].concat()),
        damage_at_open: recovered.damage,
        opened_ms: settings.environment.now_ms(),
        patrol: Patrol::new(settings.environment.elapsed()),
        events: Arc::new(Events::new(settings.listener.clone())),
        vitals: Mutex::default(),
        index: recovered.index,
        superblock: Mutex::new(superblock),
        settings,
        root,
        log,
        space,
        pins: Pins::default(),
        ahead: Ahead::default(),
        counters,
    };
    begin_run(&core, next)?;
    let taken = core.settings.environment.elapsed().saturating_sub(begun);
    core.counters.recovery_millis.add(taken.as_millis() as u64);
    Ok(core)
}

/// The cache's share before memory is divided for the first time.
fn first_cache_bytes(settings: &Settings) -> u64 {
    let tail = settings.tail_limit_bytes * 2;
    settings.memory_budget_bytes.saturating_sub(tail) / 2
}

/// What was counted before there was a store to count it.
fn first_counts(root: &Root, recovered: &recover::Recovered) -> Counters {
    let counters = Counters::default();
    counters.recovery_tail_records.add(recovered.tail_records);
    counters.recovery_bytes_read.add(recovered.bytes_read);
    counters.user_bytes_before.add(recovered.meta.user_bytes);
    let made = root.creation_bytes_written();
    counters.metadata_bytes_written.add(made);
    counters.damage_found.add(recovered.damage.len() as u64);
    counters
}

/// Begins a new run of the store: durable before its first write, so that records of the run before
/// beyond its cut never count again.
fn begin_run(core: &Core, next: Superblock) -> Result<()> {
    if core.settings.read_only {
        core.log.end();
        core.divide_memory();
        return Ok(());
    }
    // What was replayed counts as durable from here on, on every volume.
    core.log
        .media()
        .sync()
        .map_err(|e| core.log.fail(e.into()))?;
    core.write_superblock(&next)?;
    let needs_checkpoint = next.cuts.len() >= CUTS_MAX;
    *core.superblock.lock() = next;
    core.divide_memory();
    core.find_tombstones();
    if needs_checkpoint {
        checkpoint::run(core, Pace::Fast, false)?;
    }
    Ok(())
}

fn next_superblock(superblock: &Superblock, recovered: &recover::Recovered) -> Superblock {
    let mut next = superblock.clone();
    let last = SeqNo(recovered.next_seq.0 - 1);
    next.generation += 1;
    // A run that ended in order has no records beyond its checkpoint to be told from others.
    // A full list is of a run that appended nothing either: its checkpoint came first.
    if !superblock.clean && next.cuts.len() < CUTS_MAX {
        next.cuts.push(Cut {
            incarnation: superblock.incarnation,
            last,
        });
    }
    next.incarnation = Incarnation(superblock.incarnation.0 + 1);
    next.clean = false;
    next
}

/// # Encryption
impl Store {
    /// Changes the key of an encrypted store that nobody has open: `options` give the present one.
    /// The data keys are wrapped anew; the data is not written anew. What is written from the next
    /// opening on gets a data key of its own; older ones stay until all they are for is gone. A
    /// crash leaves the store with the old key or with the new one.
    ///
    /// The old key still opens copies of the superblock, and so backups, that were made before.
    ///
    /// # Errors
    /// `NotEncrypted`, `WrongKey` and as [`Store::open`]; `Invalid` if the new key cannot be read.
    pub fn change_key(
        dir: impl AsRef<Path>,
        options: &Options,
        new: &KeySource,
    ) -> Result<KeyChange> {
        let settings = options.validate()?;
        if settings.read_only {
            return Err(Error::read_only());
        }
        let new = new.read()?;
        let (root, mut superblock) = Root::open(dir.as_ref(), &settings)?;
        let added = root.rewrap(&mut superblock, &new, &settings.environment)?;
        superblock.generation += 1;
        root.write_superblock(&superblock)?;
        Ok(KeyChange::of(&superblock, added))
    }

    /// As [`Store::change_key`], for the open store.
    ///
    /// # Errors
    /// As [`Store::change_key`]; after a failed write the store writes nothing more, and either key
    /// may be the one that opens it.
    pub fn rotate_key(&self, new: &KeySource) -> Result<KeyChange> {
        let core = self.core();
        core.check_writable()?;
        let new = new.read()?;
        let mut superblock = core.superblock.lock();
        let mut next = superblock.clone();
        let environment = &core.settings.environment;
        let added = core.root.rewrap(&mut next, &new, environment)?;
        next.generation += 1;
        core.write_superblock(&next)?;
        *superblock = next;
        Ok(KeyChange::of(&superblock, added))
    }
}

/// What a change of keys did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeyChange {
    /// Data keys that the store has now, at most 16.
    pub data_keys: usize,
    /// One of them is for what is written from the next opening on. False if there was no room.
    pub added: bool,
}

impl KeyChange {
    fn of(superblock: &Superblock, added: bool) -> KeyChange {
        KeyChange {
            data_keys: superblock.keys.len(),
            added,
        }
    }
}

/// # Verifying
impl Store {
    /// Verifies the store in `dir`, which nobody may have open: every checksum, the index against
    /// the log, counts and sums against a scan. Writes nothing. Damage is in the report, never an
    /// error. Needs the index's memory, and reads everything once.
    ///
    /// # Errors
    /// As [`Store::open`], but for damage; a store that is missing is not made.
    pub fn check(
        dir: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        check::run(dir.as_ref(), options, progress)
    }
}

/// # Keyspaces
impl Store {
    /// The keyspace of this name.
    ///
    /// # Errors
    /// `UnknownKeyspace` if there is none.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.core().check_open()?;
        let state = self.core().keyspaces.get(name);
        let state = state.ok_or_else(|| Error::unknown_keyspace(name))?;
        Ok(Keyspace {
            core: Arc::clone(self.core()),
            state,
        })
    }

    /// Makes a keyspace. It is as durable as any write; [`Store::sync`] makes it certain.
    ///
    /// # Errors
    /// `KeyspaceExists`; `Invalid` for a name that is empty or longer than 255 bytes, or when the
    /// store has 65,536 already.
    pub fn create_keyspace(&self, name: &str) -> Result<Keyspace> {
        let core = self.core();
        core.check_writable()?;
        check_name(name)?;
        if core.keyspaces.len() >= KEYSPACES_MAX {
            return Err(Error::invalid(format!(
                "the store has {KEYSPACES_MAX} keyspaces already"
            )));
        }
        admit(core, Wish::Delete, name.len())?;
        let mut seq = SeqNo::ZERO;
        let created = core.keyspaces.create(name, |id| {
            let record = NewRecord::new(RecordKind::Keyspace, id, name.as_bytes(), &[1]);
            seq = core.log.append(Stream::User, &record)?.seq;
            Ok::<_, LogError>(())
        })?;
        let state = created.ok_or_else(|| Error::keyspace_exists(name))?;
        acknowledge(core, seq, &WriteOptions::new())?;
        Ok(Keyspace {
            core: Arc::clone(core),
            state,
        })
    }

    /// The keyspace of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Store::create_keyspace`].
    pub fn keyspace_or_create(&self, name: &str) -> Result<Keyspace> {
        match self.create_keyspace(name) {
            Err(error) if error.kind() == ErrorKind::KeyspaceExists => self.keyspace(name),
            other => other,
        }
    }

    /// Takes a keyspace with all its keys away, in constant time; space is reclaimed later.
    /// Handles to it give `UnknownKeyspace` from now on.
    ///
    /// # Errors
    /// `UnknownKeyspace` if there is none.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let core = self.core();
        core.check_open()?;
        admit(core, Wish::Delete, name.len())?;
        let seq = range_delete::with_room(core, || {
            // One record drops the name and covers all keys.
            let removed = core.keyspaces.remove(name, |id| {
                let record = NewRecord::new(RecordKind::Keyspace, id, name.as_bytes(), &[0]);
                core.ranges.add(|| {
                    let seq = core.log.append(Stream::User, &record)?.seq;
                    let (from, to) = (Vec::new(), None);
                    Ok::<_, LogError>(RangeEntry {
                        seq,
                        keyspace: id,
                        from,
                        to,
                    })
                })
            })?;
            removed.ok_or_else(|| Error::unknown_keyspace(name))
        })?;
        acknowledge(core, seq, &WriteOptions::new())
    }

    /// The names of all keyspaces, in order.
    #[must_use]
    pub fn keyspaces(&self) -> Vec<String> {
        self.core().keyspaces.names()
    }
}

/// Deletes the chunks of a batch that was refused for lack of room or memory. Gives what became of it.
fn settle(core: &Core, stored: &[Option<large::InRecord<'_>>], done: Result<()>) -> Result<()> {
    let chunked = stored.iter().flatten().filter(|(_, c)| c.is_some());
    for (bytes, _) in chunked {
        large::settle(core, bytes, done.as_ref().err())?;
    }
    done
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > KEYSPACE_NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the name of a keyspace has 1 to {KEYSPACE_NAME_BYTES_MAX} bytes, found {}",
            name.len()
        )));
    }
    Ok(())
}

/// # Batches, snapshots, durability, figures
impl Store {
    /// Writes a batch: all of it becomes visible and durable, or nothing.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; nothing was written then.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, &WriteOptions::new())
    }

    /// As [`Store::write`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_with(&self, batch: &Batch, options: &WriteOptions) -> Result<()> {
        let core = self.core();
        core.check_writable()?;
        options.validate()?;
        let operations = batch.sorted()?;
        let now = core.now_ms();
        let mut stored = Vec::with_capacity(operations.len());
        for operation in &operations {
            if !Arc::ptr_eq(&operation.keyspace.core, core) {
                return Err(Error::invalid(
                    "a keyspace of the batch is of another store",
                ));
            }
            if operation.keyspace.state.is_dropped() {
                return Err(Error::unknown_keyspace(operation.keyspace.name()));
            }
            let (id, key) = (operation.keyspace.id(), operation.key);
            match operation
                .value
                .map(|v| large::store(core, id, key, v))
                .transpose()
            {
                Ok(value) => stored.push(value),
                Err(error) => return settle(core, &stored, Err(error)),
            }
        }
        let ttl_ms = |o: &Operation<'_>| o.ttl_ms.or(options.ttl_ms);
        let members: Vec<Member<'_>> = operations
            .iter()
            .zip(&stored)
            .map(|(operation, stored)| Member {
                keyspace: operation.keyspace.id(),
                key: operation.key,
                value: stored.as_ref().map(|(bytes, _)| &bytes[..]),
                chunks: stored.as_ref().and_then(|(_, chunks)| *chunks),
                expiry_ms: ttl_ms(operation).map(|ttl| now.saturating_add(ttl)),
            })
            .collect();
        let committed = commit(core, &members, options);
        settle(core, &stored, committed)
    }

    /// A snapshot of everything that is visible now, over all keyspaces.
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.core().check_open()?;
        Ok(Snapshot(Arc::new(SnapshotGuard::take(self.core()))))
    }

    /// Hands everything to the devices, without waiting until it is durable.
    ///
    /// # Errors
    /// A device failure.
    pub fn flush(&self) -> Result<()> {
        self.core().check_open()?;
        if self.core().settings.read_only {
            return Ok(());
        }
        Ok(self.core().log.write_all()?)
    }

    /// Returns when every write so far is durable.
    ///
    /// # Errors
    /// A device failure.
    pub fn sync(&self) -> Result<()> {
        self.core().check_open()?;
        self.core().sync()
    }

    /// Writes a checkpoint now, so that the next open replays little.
    ///
    /// # Errors
    /// A device failure; `Full` without room for it.
    pub fn checkpoint(&self) -> Result<()> {
        self.core().check_writable()?;
        checkpoint::run(self.core(), Pace::Fast, false)?;
        // Beside a close it may not have been written.
        self.core().check_open()
    }

    /// Does one bounded piece of the work that background threads do otherwise: collection,
    /// checkpoints, sweeps. For stores that were opened with `background(false)`. True if there
    /// was something to do.
    ///
    /// # Errors
    /// A device failure.
    pub fn step(&self) -> Result<bool> {
        let core = self.core();
        core.check_writable()?;
        crate::background::flush_step(core)?;
        crate::background::upkeep_step(core)?;
        let mut done = Ok(false);
        if gc::is_due(core) {
            done = room::make_room(core);
        }
        crate::background::watch_step(core);
        crate::background::deliver(core);
        done
    }

    /// Does one bounded piece of one kind of background work, due or not. For simulations.
    ///
    /// # Errors
    /// As for [`Store::step`].
    #[doc(hidden)]
    pub fn step_of(&self, step: Step) -> Result<bool> {
        self.core().check_writable()?;
        let done = run_step(self.core(), step);
        watch::look(self.core());
        crate::background::deliver(self.core());
        done
    }

    /// The store's figures now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.core().stats();
        stats.health = self.health();
        stats
    }

    /// Whether the store does all its work, and if not, why and since when. Cheap: a few locks.
    #[must_use]
    pub fn health(&self) -> Health {
        watch::look(self.core())
    }

    /// The newest events since the store was opened, at most 64, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.core().events.recent()
    }

    /// What the last pass of the scrub that ended since the store was opened did and found. It is not
    /// kept over a close: no write to media is spent on it.
    #[must_use]
    pub fn last_scrub(&self) -> Option<ScrubReport> {
        self.core().patrol.last()
    }

    /// Reads and verifies everything in use now, as fast as the device gives it and beside whatever
    /// else goes on, and mends what it can: see `Remedy`. Damage is in the report, never an error. What
    /// was written since the last segments were filled is not on media as a whole yet, and is passed
    /// over.
    ///
    /// # Errors
    /// A device that does not answer; `Closed`.
    pub fn scrub(&self, progress: &mut dyn FnMut(ScrubProgress)) -> Result<ScrubReport> {
        self.core().check_writable()?;
        scrub::run(self.core(), progress)
    }

    /// What is not as it should be and did not keep the store from opening, in words: a superblock
    /// copy that is damaged, a file system that refuses direct I/O.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.core().root.warnings().to_vec()
    }

    /// Which store this is and where it is kept, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        self.core().root.describe()
    }

    /// What was found damaged since the store was opened, in words.
    #[must_use]
    pub fn damage(&self) -> Vec<String> {
        self.core().findings.words()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }
}

#[cfg(test)]
mod tests;
