//! Making a backup of an open store, beside its readers and writers.
//!
//! What is copied is what a crash at one moment, the cut, would leave: the superblock, and every
//! segment in use. Recovery knows what to make of that. The segments that are appended to are ended
//! at the cut, so each one copied is complete, never changes again in its life, and is known by
//! its birth: the next backup copies only those born since. Until it is copied a segment is pinned.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use heliox_format::ids::{Birth, SegmentId, SeqNo};
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::segment::SegmentKind;
use heliox_format::superblock::Superblock;
use heliox_log::segments::{Segment, SegmentState};
use heliox_media::AlignedBuf;
use xxhash_rust::xxh3::Xxh3;

use super::files::Files;
use super::manifest::{Manifest, Stored};
use super::set::Set;
use super::{BackupOptions, BackupProgress, BackupReport};
use crate::core::Core;
use crate::error::{Error, Result};

/// Bytes that are read, summed and written at a time.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Backs the store up into the set in `dir`.
pub(super) fn run(
    core: &Core,
    dir: &Path,
    options: &BackupOptions,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<BackupReport> {
    core.check_open()?;
    let _one = core.pins.begin();
    let files = Files::new(options.watch.clone());
    let set = Set::open_or_create(dir, core.log.geometry().salt, files)?;
    set.remove_unfinished()?;
    let number = set.list()?.last().map_or(1, |(newest, _)| newest + 1);
    let created_ms = core.now_ms();
    let mut cut = Cut::take(core);
    // Everything up to the cut is on media, and durable, before any of it is copied.
    core.sync()?;
    let mut report = BackupReport {
        number,
        ..BackupReport::default()
    };
    let segments = Copy::new(core, &set)?.all(&mut cut, &mut report, progress)?;
    set.add(&Manifest {
        number,
        created_ms,
        superblock: cut.superblock.clone(),
        last: cut.last,
        segments,
    })?;
    if let Some(keep) = options.keep {
        report.removed = set.keep(keep)?;
    }
    set.remove_unneeded()?;
    Ok(report)
}

/// A segment to be copied.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    id: SegmentId,
    birth: Birth,
    /// How much of it is copied: whole blocks.
    bytes: u64,
}

/// One moment of a store, and the pins on the segments that it needs.
struct Cut<'a> {
    core: &'a Core,
    superblock: Superblock,
    last: SeqNo,
    /// Those not copied yet are pinned.
    left: BTreeMap<SegmentId, Wanted>,
}

impl<'a> Cut<'a> {
    fn take(core: &'a Core) -> Cut<'a> {
        // No checkpoint is half written, so all its segments are those that the superblock names;
        // and no batch is half installed.
        let _no_checkpoint = core.checkpoint_lock.lock();
        let pass = core.batches.enter();
        let segment_bytes = core.log.geometry().segment_bytes;
        let (last, left) = core.log.seal_at_cut(|last, table| {
            let wanted = |(id, s): (SegmentId, &Segment)| Wanted {
                id,
                birth: s.birth,
                bytes: s
                    .used_bytes
                    .next_multiple_of(BLOCK_BYTES as u64)
                    .min(segment_bytes),
            };
            let in_use = table.iter().filter(|(_, s)| is_in_use(s)).map(wanted);
            let left: BTreeMap<_, _> = in_use.map(|w| (w.id, w)).collect();
            core.pins.set(left.keys().copied());
            (last, left)
        });
        drop(pass);
        Cut {
            superblock: core.superblock.lock().clone(),
            core,
            last,
            left,
        }
    }

    fn bytes(&self) -> u64 {
        self.left.values().map(|w| w.bytes).sum()
    }

    /// The next segment to copy: first what collection waits for.
    fn next(&self) -> Option<Wanted> {
        let held = self.core.pins.first_held();
        let first = held.and_then(|id| self.left.get(&id));
        first.or_else(|| self.left.values().next()).copied()
    }

    fn done(&mut self, id: SegmentId) {
        if self.left.remove(&id).is_some() {
            self.core.unpin(id);
        }
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        for id in std::mem::take(&mut self.left).into_keys() {
            self.core.unpin(id);
        }
    }
}

/// Segments of the log are all sealed by now.
fn is_in_use(segment: &Segment) -> bool {
    match segment.state {
        SegmentState::Sealed => true,
        SegmentState::Open => segment.kind == SegmentKind::Checkpoint,
        SegmentState::Free | SegmentState::Retired => false,
    }
}

/// Copies segments into a set.
struct Copy<'a> {
    core: &'a Core,
    set: &'a Set,
    /// What the set holds already.
    stored: BTreeMap<Birth, Vec<(u64, u64)>>,
    piece: AlignedBuf,
    /// The file systems share blocks, as far as is known.
    clones: bool,
}

impl<'a> Copy<'a> {
    fn new(core: &'a Core, set: &'a Set) -> Result<Copy<'a>> {
        Ok(Copy {
            core,
            set,
            stored: set.stored()?,
            piece: AlignedBuf::for_read(PIECE_BYTES)?,
            clones: true,
        })
    }

    fn all(
        &mut self,
        cut: &mut Cut<'_>,
        report: &mut BackupReport,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<Vec<Stored>> {
        report.bytes = cut.bytes();
        report.segments = cut.left.len() as u64;
        let mut segments = Vec::with_capacity(cut.left.len());
        let mut done_bytes = 0;
        while let Some(wanted) = cut.next() {
            // A store that failed or was closed keeps its media for as long as this lasts; the
            // user who closed it does not want to wait for that.
            self.core.check_open()?;
            let stored = match self.find(&wanted)? {
                Some(stored) => stored,
                None => self.copy(&wanted, report)?,
            };
            segments.push(stored);
            cut.done(wanted.id);
            done_bytes += wanted.bytes;
            progress(BackupProgress {
                done_bytes,
                total_bytes: report.bytes,
            });
        }
        segments.sort();
        Ok(segments)
    }

    /// The segment, if an earlier backup, or one that did not end, has copied it. A birth is given
    /// once in the life of a store; of a store that was put back to an earlier state by other
    /// means than a restore, the first and the last block tell.
    fn find(&mut self, wanted: &Wanted) -> Result<Option<Stored>> {
        let files = self.stored.get(&wanted.birth).cloned().unwrap_or_default();
        for (checksum, _) in files.iter().filter(|(_, len)| *len == wanted.bytes) {
            let stored = Stored {
                id: wanted.id,
                birth: wanted.birth,
                bytes: wanted.bytes,
                checksum: *checksum,
            };
            let last = wanted.bytes.saturating_sub(BLOCK_BYTES as u64);
            if self.agrees(&stored, 0)? && self.agrees(&stored, last)? {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }

    /// True if the block at `at` is the same in the store and in the set.
    fn agrees(&mut self, stored: &Stored, at: u64) -> Result<bool> {
        let path = self.set.path_of(stored);
        let failed = |error| Error::io("read", &path, error);
        let file = File::open(&path).map_err(failed)?;
        let mut copied = vec![0; BLOCK_BYTES];
        file.read_exact_at(&mut copied, at).map_err(failed)?;
        let start = self.core.log.geometry().start(stored.id);
        let block = self.read(start + at, BLOCK_BYTES)?;
        Ok(*block == copied[..])
    }

    fn read(&mut self, address: u64, len: usize) -> Result<&[u8]> {
        let piece = self
            .piece
            .get_mut(..len)
            .ok_or_else(|| Error::internal("a piece of a backup is too long"))?;
        // As it is on media: encrypted, if it is.
        self.core.root.raw_media().read_at(address, piece)?;
        Ok(piece)
    }

    fn copy(&mut self, wanted: &Wanted, report: &mut BackupReport) -> Result<Stored> {
        let (set, start) = (self.set, self.core.log.geometry().start(wanted.id));
        let files = set.files();
        let new = set
            .segments_dir()
            .join(format!("{:08x}.new", wanted.birth.0));
        let file = files.create(&new)?;
        let media = self.core.root.raw_media();
        self.clones = self.clones && media.clone_to(start, wanted.bytes, &file, 0);
        let mut sum = Xxh3::new();
        let mut at = 0;
        while at < wanted.bytes {
            let len = (wanted.bytes - at).min(PIECE_BYTES as u64) as usize;
            let clones = self.clones;
            let piece = self.read(start + at, len)?;
            sum.update(piece);
            // Blocks that were never written stay holes.
            if !clones && piece.iter().any(|byte| *byte != 0) {
                files.write(&file, &new, at, piece)?;
            }
            at += len as u64;
        }
        file.set_len(wanted.bytes)
            .map_err(|error| Error::io("set the length of", &new, error))?;
        files.sync(&file, &new)?;
        let stored = Stored {
            id: wanted.id,
            birth: wanted.birth,
            bytes: wanted.bytes,
            checksum: sum.digest(),
        };
        files.rename(&new, &set.path_of(&stored))?;
        report.copied_segments += 1;
        report.copied_bytes += wanted.bytes;
        report.shared_bytes += if self.clones { wanted.bytes } else { 0 };
        Ok(stored)
    }
}
