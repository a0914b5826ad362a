//! Checkpoints: the index and the accounts on media, so that recovery replays only the tail.
//!
//! The cut is the order P at which the accounts are copied. Leaves are copied one by one after
//! that, each under its lock and with the order at which it was copied: replay skips, leaf by leaf,
//! what a copy already has. Writers never wait for a checkpoint. Before the superblock names it,
//! the log is durable beyond the youngest copy, so every entry of the image points to a durable
//! record; both superblock copies are durable before anything of the old checkpoint is released.

use std::time::Duration;

use heliox_format::bytes::WriteBytes;
use heliox_format::checkpoint::{
    encode_chunk, CheckpointMeta, ChunkHeader, ChunkKind, CHUNK_HEADER_BYTES,
    CHUNK_PAYLOAD_BYTES_MAX, CHUNK_SEAL_BYTES,
};
use heliox_format::ids::{Birth, SegmentId, SeqNo};
use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_format::superblock::CheckpointRoot;
use heliox_log::segments::SegmentState;
use heliox_media::AlignedBuf;
use heliox_sync::atomic::Ordering;
use heliox_sync::MutexGuard;

use crate::canary::{is, Canary};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::events::EventKind;
use crate::root::keys;

/// Leaf images collected before a chunk is written.
const PAYLOAD_GOAL_BYTES: usize = 512 << 10;
/// Pause after each chunk of a checkpoint that nobody waits for.
const PACE: Duration = Duration::from_millis(1);

/// How a checkpoint is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// With pauses, beside running writers.
    Gentle,
    /// As fast as the device takes it.
    Fast,
}

/// Writes a checkpoint and releases what only the one before needed.
pub(crate) fn run(core: &Core, pace: Pace, closing: bool) -> Result<()> {
    let Some(_one) = enter(core) else {
        return Ok(());
    };
    if !closing && core.check_open().is_err() {
        // The one that closes the store comes last.
        return Ok(());
    }
    core.log_bytes_at_checkpoint
        .store(core.log_bytes(), Ordering::Relaxed);
    core.space.begin_checkpoint();
    let (cut_number, meta) = take_cut(core);
    let cut = meta.cut;
    // No attempt ever has the number of another: chunks that an unfinished one left, at whatever
    // place, are not taken for this one's.
    let number = u64::from(meta.incarnation.0) << 32 | cut_number;
    let oldest = meta.segments.iter().map(|s| s.birth).min();
    let mut writer = ChunkWriter::begin(core, pace, number)?;
    let written = write_stream(core, &mut writer, meta, cut_number);
    if let Err(error) = written {
        writer.abandon();
        return Err(error);
    }
    // A batch that was being installed while leaves were copied is complete before the sync.
    drop(core.batches.enter());
    if !is(Canary::SuperblockFirst) {
        core.sync()?;
    }
    if is(Canary::CheckpointErased) {
        release_old(core, &writer);
    }
    let root = writer.root(cut);
    publish(core, root, oldest, closing)?;
    core.checkpointed.store(cut.0, Ordering::Release);
    core.checkpointed_cut.store(cut_number, Ordering::Release);
    release_old(core, &writer);
    core.space.end_checkpoint();
    core.ranges.drop_done(cut_number, core.snapshots.oldest());
    core.space.expect_checkpoint(core.index.memory_bytes());
    core.counters.checkpoints.add(1);
    let bytes = writer.bytes;
    core.events
        .emit(core.now_ms(), EventKind::CheckpointWritten { bytes });
    Ok(())
}

/// One at a time. In a simulation nobody can wait: an operation that runs in the middle of a
/// checkpoint goes without another.
fn enter(core: &Core) -> Option<MutexGuard<'_, ()>> {
    if core.settings.environment.is_simulated() {
        return core.checkpoint_lock.try_lock();
    }
    Some(core.checkpoint_lock.lock())
}

/// Leaves the store so that the next open replays nothing. A run that wrote nothing only says so.
pub(crate) fn close(core: &Core) -> Result<()> {
    // Writers that were admitted before find the log ended: whatever it takes is covered below.
    let pass = core.batches.enter();
    core.log.end();
    drop(pass);
    core.sync()?;
    // One that began before is through; none begins any more.
    drop(enter(core));
    let is_covered = core.log.last_seq() <= core.checkpointed();
    let mut superblock = core.superblock.lock();
    if superblock.checkpoint.is_none() || !is_covered {
        drop(superblock);
        return run(core, Pace::Fast, true);
    }
    let mut next = superblock.clone();
    next.generation += 1;
    next.clean = !core.may_leave_orphans();
    core.write_superblock(&next)?;
    *superblock = next;
    Ok(())
}

/// Copies the accounts at one order, with no batch half installed.
fn take_cut(core: &Core) -> (u64, CheckpointMeta) {
    let pass = core.batches.enter();
    let (number, (cut, next_birth, segments, settled)) = core.log.begin_cut(|seq, birth, table| {
        let settled = table.settled().map(|(location, _)| location);
        (seq, birth, table.entries(), settled.collect())
    });
    drop(pass);
    let (keyspaces, next_keyspace) = core.keyspaces.entries();
    let mut meta = CheckpointMeta {
        cut,
        incarnation: core.superblock.lock().incarnation,
        next_birth,
        next_keyspace,
        user_bytes: core.counters.user_bytes_written(),
        segments,
        ranges: core.ranges.entries(),
        keyspaces,
        settled,
    };
    if is(Canary::RangeDeleteForgotten) {
        meta.ranges.clear();
    }
    (number, meta)
}

fn write_stream(
    core: &Core,
    writer: &mut ChunkWriter<'_>,
    mut meta: CheckpointMeta,
    cut_number: u64,
) -> Result<()> {
    let mut cursor = core.index.image_start();
    let (mut payload, mut leaf) = (Vec::new(), Vec::new());
    loop {
        leaf.clear();
        let copied = core
            .index
            .image_next(&mut cursor, &mut leaf, &mut || core.log.last_seq())?;
        let Some(at) = copied else {
            break;
        };
        payload.put_varint(at.0);
        payload.put_prefixed(&leaf);
        if writer.pace == Pace::Gentle {
            core.settings.environment.breathe();
        }
        if payload.len() >= PAYLOAD_GOAL_BYTES {
            flush_payload(writer, &mut payload)?;
        }
    }
    flush_payload(writer, &mut payload)?;
    note_changes_since(core, cut_number, &mut meta);
    let mut encoded = Vec::new();
    meta.encode(&mut encoded);
    for part in encoded.chunks(writer.content_bytes_max()) {
        writer.put(ChunkKind::Meta, part)?;
    }
    writer.put(ChunkKind::End, &[])
}

/// Entries that went without a record between the cut and the copy of their leaf are missing in
/// the image: the sums of their segments must not be compared. What was settled since the cut holds
/// whatever replay finds, and the image may lack what it was settled by: it goes into the accounts.
fn note_changes_since(core: &Core, cut_number: u64, meta: &mut CheckpointMeta) {
    core.log.with_table(|table| {
        for entry in &mut meta.segments {
            let now = table.get(entry.id);
            let is_late = now.removal_cut > cut_number;
            entry.voided |= now.birth != entry.birth || now.voided || is_late;
        }
        for (location, settled) in table.settled() {
            let is_known = meta.settled.contains(&location);
            let same = meta.segments.iter_mut().find(|e| e.birth == settled.birth);
            if let (false, Some(entry)) = (is_known, same) {
                entry.displaced_sum = entry.displaced_sum.wrapping_add(settled.difference);
                meta.settled.push(location);
            }
        }
    });
    meta.settled
        .sort_unstable_by_key(|location| location.bits());
}

/// Writes the payload in chunks; a leaf image may go over a chunk's border.
fn flush_payload(writer: &mut ChunkWriter<'_>, payload: &mut Vec<u8>) -> Result<()> {
    for part in payload.chunks(writer.content_bytes_max()) {
        writer.put(ChunkKind::Leaves, part)?;
    }
    payload.clear();
    Ok(())
}

/// Lets both superblock copies name the checkpoint. `oldest`: of the segments that it knows.
fn publish(core: &Core, root: CheckpointRoot, oldest: Option<Birth>, closing: bool) -> Result<()> {
    core.log
        .media()
        .sync()
        .map_err(|e| Error::from(core.log.fail(e.into())))?;
    let mut superblock = core.superblock.lock();
    let mut next = superblock.clone();
    next.generation += 1;
    next.checkpoint = Some(root);
    next.cuts.clear();
    next.clean = closing && !core.may_leave_orphans();
    // Recovery may still read what was given back since the cut, so both count.
    let in_use = core.log.with_table(|table| {
        let used = table.iter().filter(|(_, s)| s.state != SegmentState::Free);
        used.map(|(_, s)| s.birth).min()
    });
    if let Some(least) = in_use.into_iter().chain(oldest).min() {
        keys::retire(&mut next.keys, least);
    }
    core.write_superblock(&next)?;
    *superblock = next;
    Ok(())
}

/// Gives back the segments of every checkpoint but the new one.
fn release_old(core: &Core, writer: &ChunkWriter<'_>) {
    let old: Vec<SegmentId> = core.log.with_table(|table| {
        let used = table
            .iter()
            .filter(|(_, s)| s.kind == SegmentKind::Checkpoint)
            // One that is retired waits for a backup, which gives it back.
            .filter(|(_, s)| matches!(s.state, SegmentState::Open | SegmentState::Sealed));
        let ids = used.map(|(id, _)| id);
        ids.filter(|id| !writer.segments.iter().any(|(new, _)| new == id))
            .collect()
    });
    for id in old {
        core.discard_and_release(id);
    }
}

/// Writes chunks into checkpoint segments, opening them as needed.
struct ChunkWriter<'a> {
    core: &'a Core,
    pace: Pace,
    number: u64,
    chunk: u32,
    segments: Vec<(SegmentId, Birth)>,
    offset: u64,
    bytes: u64,
}

impl<'a> ChunkWriter<'a> {
    fn begin(core: &'a Core, pace: Pace, number: u64) -> Result<ChunkWriter<'a>> {
        let mut writer = ChunkWriter {
            core,
            pace,
            number,
            chunk: 0,
            segments: Vec::new(),
            offset: 0,
            bytes: 0,
        };
        writer.open_segment()?;
        Ok(writer)
    }

    fn open_segment(&mut self) -> Result<()> {
        let core = self.core;
        let (id, birth) = core.log.open_checkpoint_segment()?;
        core.space.take_for_checkpoint();
        let previous = self.segments.last().map(|(id, _)| *id);
        self.segments.push((id, birth));
        let geometry = core.log.geometry();
        let header = SegmentHeader {
            kind: SegmentKind::Checkpoint,
            class: Default::default(),
            birth,
            incarnation: core.superblock.lock().incarnation,
            first_seq: core.log.last_seq(),
            previous,
            checkpoint: self.number,
        };
        let start = geometry.start(id);
        self.write(
            start,
            &header.encode(geometry.salt, start, geometry.sector_bytes),
        )?;
        self.offset = geometry.sector_bytes as u64;
        Ok(())
    }

    /// Most bytes of a chunk's content.
    fn content_bytes_max(&self) -> usize {
        CHUNK_PAYLOAD_BYTES_MAX - self.seal_bytes()
    }

    /// Bytes of the payload before the content, for session and tag.
    fn seal_bytes(&self) -> usize {
        self.core.root.cipher().map_or(0, |_| CHUNK_SEAL_BYTES)
    }

    fn put(&mut self, kind: ChunkKind, content: &[u8]) -> Result<()> {
        let geometry = *self.core.log.geometry();
        let payload_bytes = self.seal_bytes() + content.len();
        let bytes = (CHUNK_HEADER_BYTES + payload_bytes) as u64;
        let padded = bytes.next_multiple_of(geometry.sector_bytes as u64);
        if self.offset + padded > geometry.segment_bytes {
            self.open_segment()?;
        }
        let Some((id, birth)) = self.segments.last() else {
            return Err(Error::internal("a checkpoint without a segment"));
        };
        let address = geometry.start(*id) + self.offset;
        let header = ChunkHeader {
            kind,
            checkpoint: self.number,
            number: self.chunk,
            payload_bytes: payload_bytes as u32,
        };
        let encode = |payload| {
            encode_chunk(
                geometry.salt,
                address,
                &header,
                payload,
                geometry.sector_bytes,
            )
        };
        let chunk = match self.core.root.cipher() {
            None => encode(content),
            Some(cipher) => {
                let mut chunk = encode(&[&[0; CHUNK_SEAL_BYTES], content].concat());
                let whole = chunk.get_mut(..bytes as usize).unwrap_or_default();
                if !cipher.seal_chunk(address, *birth, whole) {
                    return Err(Error::internal("no key for a segment of a checkpoint"));
                }
                chunk
            }
        };
        self.write(address, &chunk)?;
        self.offset += padded;
        self.chunk += 1;
        if self.pace == Pace::Gentle {
            self.core.settings.environment.sleep(PACE);
        }
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        let mut memory = AlignedBuf::for_read(bytes.len())?;
        memory.copy_from_slice(bytes);
        let core = self.core;
        let written = core.log.media().write_at(address, &memory);
        written.map_err(|e| Error::from(core.log.fail(e.into())))?;
        core.counters
            .checkpoint_bytes_written
            .add(bytes.len() as u64);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn root(&self, cut: SeqNo) -> CheckpointRoot {
        let (last_segment, birth) = self
            .segments
            .last()
            .copied()
            .unwrap_or((SegmentId(0), Birth(0)));
        CheckpointRoot {
            number: self.number,
            last_segment,
            birth,
            segments: self.segments.len() as u32,
            cut,
        }
    }

    /// Gives back the segments of a checkpoint that was not finished.
    fn abandon(&self) {
        for (id, _) in &self.segments {
            self.core.discard_and_release(*id);
        }
        self.core.space.end_checkpoint();
    }
}

#[cfg(test)]
mod tests;
