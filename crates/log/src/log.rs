//! The log itself: what its lock protects, and how it is put together.
//!
//! Lock order: the flush gate, then the state, then the lock of those who wait for room, under which no
//! other is taken. Nothing under the state lock blocks or does I/O.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use heliox_format::ids::{Birth, Incarnation, Location, SegmentId, SeqNo};
use heliox_format::segment::SegmentKind;
use heliox_media::{AlignedBuf, Media};
use heliox_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use heliox_sync::{Condvar, Mutex, MutexGuard};

use crate::chunk::{ActiveChunk, FrozenChunk, CHUNK_MEMORY_BYTES};
use crate::error::LogError;
use crate::expiries::Expiries;
use crate::geometry::LogGeometry;
use crate::heads::{DeadHead, Heads};
use crate::segments::{Segment, SegmentState, SegmentTable, SegmentViews};
use crate::sums::{weight, Settlement};

/// How exactly the bytes of the tail are told without the lock.
const UNWRITTEN_GRAIN_BYTES: u64 = 4 << 10;

/// Which sequence of segments a record is appended to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Records as users write them.
    User = 0,
    /// Records that garbage collection moves.
    Survivor = 1,
}

impl Stream {
    pub(crate) const ALL: [Stream; 2] = [Stream::User, Stream::Survivor];

    pub(crate) fn kind(self) -> SegmentKind {
        match self {
            Stream::User => SegmentKind::User,
            Stream::Survivor => SegmentKind::Survivor,
        }
    }
}

/// Where a log starts.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The shape of the store.
    pub geometry: LogGeometry,
    /// This run of the store.
    pub incarnation: Incarnation,
    /// The first order to give.
    pub next_seq: SeqNo,
    /// The first birth to give.
    pub next_birth: Birth,
}

/// A segment that a stream appends to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSegment {
    pub(crate) id: SegmentId,
    pub(crate) birth: Birth,
}

/// A frozen chunk and whether it is on media yet.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) chunk: Arc<FrozenChunk>,
    pub(crate) written: bool,
}

/// One stream's tail.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) segment: Option<OpenSegment>,
    pub(crate) active: Option<ActiveChunk>,
    pub(crate) frozen: VecDeque<Frozen>,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) next_seq: SeqNo,
    pub(crate) next_birth: Birth,
    pub(crate) ended: bool,
    /// Cuts for checkpoints taken so far.
    pub(crate) cuts: u64,
    pub(crate) tails: [Tail; 2],
    pub(crate) table: SegmentTable,
    pub(crate) heads: Heads,
    pub(crate) pool: Vec<AlignedBuf>,
    /// Bytes of the tail that are not on media yet.
    pub(crate) unwritten_bytes: u64,
    /// The segment that was prepared last.
    pub(crate) prepared: Option<SegmentId>,
    /// What users had appended when everything was last put in line for writing, as for a sync.
    pub(crate) reached_user_bytes: u64,
}

/// What every append changes. It begins on one cache line, so that a writer waits once for what
/// the writer before it changed.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Hot {
    /// The order of the newest record; changes under the lock only.
    pub(crate) last_seq: AtomicU64,
    /// Bytes of user records appended by this run; changes under the lock only.
    pub(crate) user_appended_bytes: AtomicU64,
    state: Mutex<State>,
}

impl Hot {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Who flushes now, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct FlushGate {
    pub(crate) busy: bool,
}

/// The log of an open store. Shared by all threads.
pub struct Log {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) geometry: LogGeometry,
    pub(crate) incarnation: Incarnation,
    pub(crate) views: SegmentViews,
    pub(crate) state: Hot,
    pub(crate) gate: Mutex<FlushGate>,
    pub(crate) gate_opened: Condvar,
    /// Of those who wait for room in the tail.
    pub(crate) write_lock: Mutex<()>,
    pub(crate) chunk_written: Condvar,
    /// All records up to this order are on media, durable or not.
    pub(crate) written_seq: AtomicU64,
    pub(crate) durable_seq: AtomicU64,
    /// What the state says, published every [`UNWRITTEN_GRAIN_BYTES`].
    unwritten_bytes: AtomicU64,
    /// What that was when the newest finished sync began; changes under the gate only.
    pub(crate) user_synced_bytes: AtomicU64,
    pub(crate) free_segments: AtomicU64,
    /// What the newest sync had to write.
    pub(crate) last_sync_bytes: AtomicU64,
    /// The segment that comes next should be prepared.
    pub(crate) prepare_due: AtomicBool,
    pub(crate) is_failed: AtomicBool,
    pub(crate) failure: Mutex<Option<LogError>>,
    pub(crate) size_hint: AtomicU64,
    pub(crate) counters: Counters,
}

/// Bytes and operations on media, counted from the first day.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes written for the user's stream, headers and padding included.
    pub user_bytes_written: AtomicU64,
    /// Bytes written for the survivors' stream.
    pub survivor_bytes_written: AtomicU64,
    /// Bytes read to answer [`Log::read`] and [`Log::read_many`].
    pub record_bytes_read: AtomicU64,
    /// Reads sent to media to answer these.
    pub record_reads: AtomicU64,
    /// Syncs of the media.
    pub syncs: AtomicU64,
}

impl Log {
    /// A log over `media` whose segments are as `table` says; appends start in fresh segments.
    #[must_use]
    pub fn new(media: Arc<dyn Media>, options: LogOptions, table: SegmentTable) -> Log {
        let geometry = options.geometry;
        let views = SegmentViews::new(geometry.segments);
        for (id, segment) in table.iter().filter(|(_, s)| s.state != SegmentState::Free) {
            views.open(id, segment.birth, segment.first_seq, geometry.segment_bytes);
        }
        // Order 0 stands for "before everything" and is never given.
        let next_seq = options.next_seq.max(SeqNo(1));
        let last = next_seq.0 - 1;
        Log {
            media,
            geometry,
            incarnation: options.incarnation,
            views,
            free_segments: AtomicU64::new(table.free_count() as u64),
            state: Hot {
                last_seq: AtomicU64::new(last),
                user_appended_bytes: AtomicU64::new(0),
                state: Mutex::new(State {
                    next_seq,
                    next_birth: options.next_birth,
                    ended: false,
                    cuts: 0,
                    heads: Heads::default(),
                    tails: [Tail::default(), Tail::default()],
                    table,
                    pool: Vec::new(),
                    unwritten_bytes: 0,
                    prepared: None,
                    reached_user_bytes: 0,
                }),
            },
            gate: Mutex::new(FlushGate::default()),
            gate_opened: Condvar::new(),
            write_lock: Mutex::new(()),
            chunk_written: Condvar::new(),
            written_seq: AtomicU64::new(last),
            durable_seq: AtomicU64::new(last),
            unwritten_bytes: AtomicU64::new(0),
            user_synced_bytes: AtomicU64::new(0),
            last_sync_bytes: AtomicU64::new(0),
            prepare_due: AtomicBool::new(false),
            is_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            size_hint: AtomicU64::new(128),
            counters: Counters::default(),
        }
    }

    /// The shape of the store.
    #[must_use]
    pub fn geometry(&self) -> &LogGeometry {
        &self.geometry
    }

    /// What readers may know of the segments without the lock.
    #[must_use]
    pub fn views(&self) -> &SegmentViews {
        &self.views
    }

    /// What was written and read so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The order of the newest record.
    #[must_use]
    pub fn last_seq(&self) -> SeqNo {
        SeqNo(self.state.last_seq.load(Ordering::Acquire))
    }

    /// All records up to this order are durable.
    #[must_use]
    pub fn durable_seq(&self) -> SeqNo {
        SeqNo(self.durable_seq.load(Ordering::Acquire))
    }

    /// Bytes of the tail that are not on media yet: 4 KiB more or less while records are appended,
    /// 0 once all of them are written.
    #[must_use]
    pub fn unwritten_bytes(&self) -> u64 {
        self.unwritten_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that users have appended so far, what their records carry included.
    #[must_use]
    pub fn user_appended_bytes(&self) -> u64 {
        self.state.user_appended_bytes.load(Ordering::Relaxed)
    }

    /// Bytes appended by users that no finished sync covers, or that are lost with a record which
    /// none covers; 0 once everything is durable.
    #[must_use]
    pub fn unsynced_bytes(&self) -> u64 {
        // In this order: what was synced is never more than what was appended.
        let synced = self.user_synced_bytes.load(Ordering::Acquire);
        let appended = self.state.user_appended_bytes.load(Ordering::Relaxed);
        appended.saturating_sub(synced)
    }

    /// Counts bytes of the tail that are not on media.
    pub(crate) fn grow_unwritten(&self, state: &mut State, bytes: u64) {
        let before = state.unwritten_bytes;
        state.unwritten_bytes += bytes;
        // Every writer reads it: a line that each append changed would be fought over.
        if before / UNWRITTEN_GRAIN_BYTES != state.unwritten_bytes / UNWRITTEN_GRAIN_BYTES {
            self.unwritten_bytes
                .store(state.unwritten_bytes, Ordering::Relaxed);
        }
    }

    /// The inverse of [`Log::grow_unwritten`].
    pub(crate) fn shrink_unwritten(&self, state: &mut State, bytes: u64) {
        state.unwritten_bytes = state.unwritten_bytes.saturating_sub(bytes);
        self.unwritten_bytes
            .store(state.unwritten_bytes, Ordering::Relaxed);
    }

    /// Waits until the tail holds no more unwritten bytes than `limit` or the log fails, at most so
    /// long. Ends for no reason at times.
    ///
    /// A chunk that was written wakes one who waits, and who goes on wakes the next while there is room:
    /// those whom it would not let on sleep on. None sleeps while there is room: room is made before
    /// `wake_one`, which takes the lock under which whoever comes to wait looks first; so it sees
    /// the room, or is asleep by then and can be woken. One who was woken and finds room wakes another in
    /// turn, whether its time was up or not; if it finds none, what took the room will be written, and that
    /// chunk wakes the next.
    pub fn wait_for_room(&self, limit: u64, most: Duration) {
        let has_room = || self.unwritten_bytes() <= limit;
        let mut waiting = self.write_lock.lock();
        if !has_room() && !self.is_failed.load(Ordering::Acquire) {
            self.chunk_written.wait_for(&mut waiting, most);
        }
        if has_room() {
            self.chunk_written.notify_one();
        }
    }

    /// Room was made for one who waits in [`Log::wait_for_room`].
    pub(crate) fn wake_one(&self) {
        drop(self.write_lock.lock());
        self.chunk_written.notify_one();
    }

    /// How many segments are free.
    #[must_use]
    pub fn free_segments(&self) -> u64 {
        self.free_segments.load(Ordering::Acquire)
    }

    /// The memory that the tail holds, its pool included.
    #[must_use]
    pub fn tail_memory_bytes(&self) -> u64 {
        let state = self.state.lock();
        let chunks: usize = state
            .tails
            .iter()
            .map(|t| t.frozen.len() + usize::from(t.active.is_some()))
            .sum();
        ((chunks + state.pool.len()) * CHUNK_MEMORY_BYTES) as u64
    }

    /// The memory that the notes of heads and of expiries take, roughly.
    #[must_use]
    pub fn notes_memory_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.heads.memory_bytes() + state.table.expiries_memory_bytes()
    }

    /// The first failure of the log, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<LogError> {
        if !self.is_failed.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().clone()
    }

    /// Lets nothing be appended any more. What was appended can still be written and synced.
    pub fn end(&self) {
        self.state.lock().ended = true;
    }

    /// Makes the log fail for good: from here on nothing is appended or acknowledged.
    pub fn fail(&self, error: LogError) -> LogError {
        let first = self.failure.lock().get_or_insert(error).clone();
        self.is_failed.store(true, Ordering::Release);
        // Nobody waits for room any more; as in [`Log::wake_one`].
        drop(self.write_lock.lock());
        self.chunk_written.notify_all();
        first
    }

    pub(crate) fn check_failed(&self) -> Result<(), LogError> {
        match self.failure() {
            Some(LogError::Ended) => Err(LogError::Ended),
            Some(first) => Err(LogError::Failed(first.to_string())),
            None => Ok(()),
        }
    }

    /// Runs `look` on the table of segments, under the lock: it must be quick.
    pub fn with_table<R>(&self, look: impl FnOnce(&SegmentTable) -> R) -> R {
        look(&self.state.lock().table)
    }

    /// The account of one segment.
    #[must_use]
    pub fn segment(&self, id: SegmentId) -> Segment {
        *self.state.lock().table.get(id)
    }

    /// Runs `look` with the account at a consistent point: the newest order, the next birth and
    /// the table as they are between two appends.
    pub fn at_cut<R>(&self, look: impl FnOnce(SeqNo, Birth, &SegmentTable) -> R) -> R {
        let state = self.state.lock();
        look(SeqNo(state.next_seq.0 - 1), state.next_birth, &state.table)
    }

    /// As [`Log::at_cut`], for a checkpoint: gives the cut's number too, counted by this run from 1.
    pub fn begin_cut<R>(&self, look: impl FnOnce(SeqNo, Birth, &SegmentTable) -> R) -> (u64, R) {
        let mut state = self.state.lock();
        state.cuts += 1;
        let last = SeqNo(state.next_seq.0 - 1);
        (state.cuts, look(last, state.next_birth, &state.table))
    }

    /// The number of the next cut for a checkpoint: it knows of everything done before.
    #[must_use]
    pub fn next_cut(&self) -> u64 {
        self.state.lock().cuts + 1
    }

    /// Opens a segment for a checkpoint and gives its birth. The caller writes all of it.
    ///
    /// # Errors
    /// [`LogError::Full`] if no segment is free, [`LogError::Failed`] after an earlier failure.
    pub fn open_checkpoint_segment(&self) -> Result<(SegmentId, Birth), LogError> {
        self.check_failed()?;
        let mut state = self.state.lock();
        let (birth, seq) = (state.next_birth, state.next_seq);
        let kind = SegmentKind::Checkpoint;
        let id = state.table.open(kind, birth, seq).ok_or(LogError::Full)?;
        state.heads.forget(id);
        state.next_birth = Birth(birth.0 + 1);
        state.table.get_mut(id).used_bytes = self.geometry.segment_bytes;
        self.views.open(id, birth, seq, self.geometry.segment_bytes);
        self.publish_free(&state);
        Ok((id, birth))
    }

    /// Says that an index entry for a record at `location` went without a record that says so (an
    /// expired record, a verified tombstone, a swept range), and was of the key with this hash.
    pub fn note_unlogged_removal(&self, location: Location, key_hash: u64) {
        let Some(id) = self.geometry.segment_at(location) else {
            return;
        };
        let mut state = self.state.lock();
        // Not the order: an idle store takes cut after cut at the same one.
        let next_cut = state.cuts + 1;
        let segment = state.table.get_mut(id);
        segment.dead += 1;
        let sum = key_hash.wrapping_mul(weight(location));
        segment.displaced_sum = segment.displaced_sum.wrapping_add(sum);
        segment.removal_cut = next_cut;
        let dead = DeadHead {
            location,
            key_hash,
            death: SeqNo(state.next_seq.0 - 1),
        };
        state.heads.displace(id, dead, false);
    }

    /// Enters a settlement into the account of its segment; only the first one of a record counts.
    pub fn settle(&self, settlement: &Settlement) {
        if let Some(id) = self.geometry.segment_at(settlement.location) {
            let mut state = self.state.lock();
            let newest = SeqNo(state.next_seq.0 - 1);
            state.table.settle(id, settlement, newest);
        }
    }

    /// True if the record at this location was settled.
    #[must_use]
    pub fn is_settled(&self, location: Location) -> bool {
        let id = self.geometry.segment_at(location);
        id.is_some_and(|id| self.state.lock().table.is_settled(id, location))
    }

    /// Says when the records of a segment expire of which that was not known, if it is still in that life.
    pub fn tell_expiries(&self, id: SegmentId, birth: Birth, expiries: Expiries) {
        let mut state = self.state.lock();
        if state.table.get(id).birth == birth {
            state.table.tell_expiries(id, expiries);
        }
    }

    /// The head of a value in chunks that has been dead for longest, of those that nobody has taken yet.
    #[must_use]
    pub fn take_dead_head(&self) -> Option<DeadHead> {
        self.state.lock().heads.take_dead()
    }

    /// Puts a head back in line that cannot be dealt with yet.
    pub fn put_back_dead_head(&self, dead: DeadHead) {
        self.state.lock().heads.put_back(dead);
    }

    /// Says that every record of a sealed segment that is the head of a value in chunks was copied,
    /// or its chunks were deleted.
    pub fn note_heads_settled(&self, id: SegmentId) {
        self.state.lock().table.get_mut(id).heads = false;
    }

    /// Ends the segments that are appended to, full or not: the next records begin fresh ones.
    pub fn seal_segments(&self) {
        self.seal_at_cut(|_, _| ());
    }

    /// As [`Log::seal_segments`]; then `look` sees the newest order and the table at that point: the
    /// segments in it hold every record up to that order and will never hold another.
    pub fn seal_at_cut<R>(&self, look: impl FnOnce(SeqNo, &SegmentTable) -> R) -> R {
        let mut state = self.state.lock();
        for stream in Stream::ALL {
            self.freeze_active(&mut state, stream);
            self.seal_open(&mut state, stream);
        }
        look(SeqNo(state.next_seq.0 - 1), &state.table)
    }

    /// Ends the life of a sealed segment, or of a checkpoint's: readers of it start over. It is
    /// not free before [`Log::release`]. Of any other segment nothing changes.
    pub fn retire(&self, id: SegmentId) {
        let mut state = self.state.lock();
        let segment = state.table.get(id);
        // A stream still appends to an open one; a free one retired would be given away twice.
        let is_open_checkpoint =
            segment.state == SegmentState::Open && segment.kind == SegmentKind::Checkpoint;
        if segment.state == SegmentState::Sealed || is_open_checkpoint {
            self.views.close(id);
            state.table.get_mut(id).state = SegmentState::Retired;
        }
    }

    /// Makes a retired segment free for new data. One whose chunks still wait to be written stays
    /// retired: their bytes would fall into its next life.
    pub fn release(&self, id: SegmentId) {
        let mut state = self.state.lock();
        let mut chunks = state.tails.iter().flat_map(|t| &t.frozen);
        if chunks.any(|f| self.geometry.segment_of(f.chunk.base) == id) {
            return;
        }
        if state.table.get(id).state == SegmentState::Retired {
            state.table.release(id);
            self.publish_free(&state);
        }
    }

    pub(crate) fn publish_free(&self, state: &State) {
        let free = state.table.free_count() as u64;
        self.free_segments.store(free, Ordering::Release);
    }

    /// The media below.
    #[must_use]
    pub fn media(&self) -> &Arc<dyn Media> {
        &self.media
    }
}
