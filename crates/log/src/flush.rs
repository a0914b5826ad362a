//! Writing the tail to media, and group commit.
//!
//! One thread flushes at a time. Whoever asks for durability either becomes that thread or waits
//! for it; when it is done, everybody whose records it covered goes on.

use std::sync::Arc;

use heliox_format::error::DecodeError;
use heliox_format::ids::SeqNo;
use heliox_media::{AlignedBuf, Media};
use heliox_sync::atomic::Ordering;

use crate::chunk::FrozenChunk;
use crate::error::LogError;
use crate::log::{Log, State, Stream};

/// Most chunk memories kept for reuse.
const POOL_CHUNKS_MAX: usize = 16;

/// What a flush covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// Chunks that are full.
    Full,
    /// Everything appended so far.
    All,
}

impl Log {
    /// Returns when every record up to `seq`, or the newest one if that is older, is durable. One
    /// sync serves everybody who waits.
    ///
    /// # Errors
    /// The failure of the write or sync, or of an earlier one.
    pub fn sync_to(&self, seq: SeqNo) -> Result<(), LogError> {
        // An order that was not given yet would never become durable.
        let seq = seq.min(self.last_seq());
        while self.durable_seq() < seq {
            self.check_failed()?;
            if !self.enter_gate(|| self.durable_seq() >= seq) {
                break;
            }
            let result = self.sync_now();
            self.leave_gate();
            result?;
        }
        Ok(())
    }

    /// Makes everything appended so far durable.
    ///
    /// # Errors
    /// As [`Log::sync_to`].
    pub fn sync(&self) -> Result<(), LogError> {
        self.check_failed()?;
        self.sync_to(self.last_seq())
    }

    /// Writes the chunks that are full; durability is not promised.
    ///
    /// # Errors
    /// The failure of the write, or of an earlier one.
    pub fn write_full_chunks(&self) -> Result<(), LogError> {
        self.flush(Reach::Full, || false)
    }

    /// Returns when every record appended so far is written; durability is not promised. One write
    /// serves everybody who waits.
    ///
    /// # Errors
    /// The failure of the write, or of an earlier one.
    pub fn write_all(&self) -> Result<(), LogError> {
        self.check_failed()?;
        let seq = self.last_seq().0;
        self.flush(Reach::All, || {
            self.written_seq.load(Ordering::Acquire) >= seq
        })
    }

    fn flush(&self, reach: Reach, done: impl Fn() -> bool) -> Result<(), LogError> {
        if !self.enter_gate(done) {
            return Ok(());
        }
        let result = self.write_chunks(reach).map(|_| ());
        self.leave_gate();
        result
    }

    /// Waits until nobody flushes, then takes the gate; false if `done` came true before.
    fn enter_gate(&self, done: impl Fn() -> bool) -> bool {
        let mut gate = self.gate.lock();
        loop {
            // Asked under the gate: whoever held it last may have done this caller's work.
            if done() {
                return false;
            }
            if !gate.busy {
                gate.busy = true;
                return true;
            }
            self.gate_opened.wait(&mut gate);
        }
    }

    fn leave_gate(&self) {
        self.gate.lock().busy = false;
        self.gate_opened.notify_all();
    }

    /// Called with the gate held.
    fn sync_now(&self) -> Result<(), LogError> {
        let reached = self.write_chunks(Reach::All)?;
        self.media.sync().map_err(|e| self.fail(e.into()))?;
        // What failed meanwhile, elsewhere in the store, spoils this success too.
        self.check_failed()?;
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.user_synced_bytes
            .store(reached.user_bytes, Ordering::Release);
        self.durable_seq.fetch_max(reached.seq.0, Ordering::AcqRel);
        Ok(())
    }

    /// Writes what `reach` says, with the gate held; gives how far the log went when it began.
    fn write_chunks(&self, reach: Reach) -> Result<Reached, LogError> {
        // Again, for whoever waited for the gate while the log failed.
        self.check_failed()?;
        let (chunks, reached) = {
            let mut state = self.state.lock();
            let reached = Reached {
                seq: SeqNo(state.next_seq.0 - 1),
                user_bytes: self.state.user_appended_bytes.load(Ordering::Relaxed),
            };
            if reach == Reach::All {
                state.reached_user_bytes = reached.user_bytes;
                self.freeze_both(&mut state)?;
            }
            (unwritten(&state), reached)
        };
        if reach == Reach::All {
            let bytes: usize = chunks.iter().map(|(_, chunk)| chunk.len).sum();
            self.last_sync_bytes.store(bytes as u64, Ordering::Relaxed);
        }
        for (stream, chunk) in chunks {
            let bytes = &chunk.memory[..chunk.len];
            self.media
                .write_at(chunk.base, bytes)
                .map_err(|e| self.fail(e.into()))?;
            self.check_begun(&chunk).map_err(|e| self.fail(e))?;
            self.note_written(stream, chunk);
            self.wake_one();
        }
        if reach == Reach::All {
            self.written_seq.fetch_max(reached.seq.0, Ordering::AcqRel);
        }
        Ok(reached)
    }

    /// Reads the header of a segment back that was just begun: recovery finds a segment by its first
    /// blocks, so a device that wrote them elsewhere would hide all that follows.
    fn check_begun(&self, chunk: &FrozenChunk) -> Result<(), LogError> {
        let id = self.geometry.segment_of(chunk.base);
        if self.geometry.start(id) != chunk.base {
            return Ok(());
        }
        let mut header = AlignedBuf::for_read(self.geometry.sector_bytes)?;
        // What cannot be read shows nothing, and a write that was done is no failure.
        if self.media.read_at(chunk.base, &mut header).is_err() {
            return Ok(());
        }
        if chunk.memory.get(..header.len()) == Some(&header[..]) {
            return Ok(());
        }
        let error = DecodeError::new("segment header", chunk.base, "sector as written", 1, 0);
        Err(LogError::Damaged(error))
    }

    fn freeze_both(&self, state: &mut State) -> Result<(), LogError> {
        for stream in Stream::ALL {
            let holds_bytes = |s: &State| {
                let active = s.tails[stream as usize].active.as_ref();
                active.is_some_and(|a| !a.is_empty())
            };
            if !holds_bytes(state) {
                continue;
            }
            self.freeze_active(state, stream);
            let Some(open) = state.tails[stream as usize].segment else {
                continue;
            };
            if state.table.get(open.id).used_bytes < self.geometry.segment_bytes {
                self.next_chunk(state, stream)?;
            }
        }
        Ok(())
    }

    /// Marks a chunk as written and lets go of those that no record needs in memory any more.
    fn note_written(&self, stream: Stream, written: Arc<FrozenChunk>) {
        let written_bytes = written.len as u64;
        let counter = match stream {
            Stream::User => &self.counters.user_bytes_written,
            Stream::Survivor => &self.counters.survivor_bytes_written,
        };
        counter.fetch_add(written_bytes, Ordering::Relaxed);
        // Memory beyond the pool is given back after the lock: that takes its time.
        let mut surplus = Vec::new();
        let mut state = self.state.lock();
        self.shrink_unwritten(&mut state, written_bytes);
        let tail = &mut state.tails[stream as usize];
        for frozen in &mut tail.frozen {
            frozen.written |= Arc::ptr_eq(&frozen.chunk, &written);
        }
        // The tail must hold the last reference, else the memory would not be reused.
        drop(written);
        let done = tail.frozen.iter().take_while(|f| f.written).count();
        let whole = (0..done)
            .rev()
            .find(|i| !tail.frozen[*i].chunk.ends_within_record);
        let Some(last) = whole else {
            return;
        };
        let State { tails, pool, .. } = &mut *state;
        for frozen in tails[stream as usize].frozen.drain(..=last) {
            let id = self.geometry.segment_of(frozen.chunk.base);
            let end = frozen.chunk.base + frozen.chunk.len as u64 - self.geometry.start(id);
            // A segment may have been retired since: then there is nobody left to tell.
            if self.views.birth(id) == frozen.chunk.birth {
                self.views.set_written(id, end);
            }
            match Arc::into_inner(frozen.chunk) {
                Some(chunk) if pool.len() < POOL_CHUNKS_MAX => pool.push(chunk.memory),
                given_back => surplus.push(given_back),
            }
        }
        drop(state);
    }
}

/// How far the log went at the point that a flush covers.
#[derive(Clone, Copy, Debug)]
struct Reached {
    seq: SeqNo,
    user_bytes: u64,
}

fn unwritten(state: &State) -> Vec<(Stream, Arc<FrozenChunk>)> {
    let of = |stream: Stream| {
        let frozen = state.tails[stream as usize].frozen.iter();
        frozen
            .filter(|f| !f.written)
            .map(move |f| (stream, Arc::clone(&f.chunk)))
    };
    Stream::ALL.into_iter().flat_map(of).collect()
}
