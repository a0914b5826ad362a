//! Making a store out of a backup: its segments are laid where they were, and the superblock says
//! that nothing after the cut counts. The first open then recovers it as after a crash at the cut.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use std::cell::RefCell;
use std::collections::BTreeMap;

use heliox_format::frame::FrameShape;
use heliox_format::ids::SegmentId;
use heliox_format::limits::BLOCK_BYTES;
use heliox_log::geometry::LogGeometry;
use heliox_media::{AlignedBuf, Media};
use xxhash_rust::xxh3::Xxh3;

use super::copy::PIECE_BYTES;
use super::manifest::{Manifest, Stored};
use super::set::Set;
use super::{BackupProgress, RestoreReport};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Options, Settings};
use crate::root::{Ground, Restored, Root};

/// Runs of the original, after the backup, that cannot be taken for runs of the restored store.
const RUNS_AHEAD_MIN: u32 = 1 << 20;

/// Restores a backup of the set into `dir`.
pub(super) fn run(
    set: &Path,
    number: Option<u64>,
    dir: &Path,
    options: &Options,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<RestoreReport> {
    let settings = options.validate()?;
    let set = Set::open(set)?;
    let manifest = set.choose(number)?;
    let runs_ahead = runs_ahead(&settings)?;
    let progress = RefCell::new(progress);
    let fill = |media: &dyn Media, ground: Ground, segments: u32| {
        let mut layer = Layer {
            set: &set,
            manifest: &manifest,
            media,
            ground,
            piece: AlignedBuf::new(PIECE_BYTES)?,
        };
        layer.all(segments, &mut **progress.borrow_mut())
    };
    let root = Root::restore(
        dir,
        &settings,
        &Restored {
            superblock: &manifest.superblock,
            segments_needed: manifest.segments_needed(),
            make_superblock: &|uuid, segments| Ok(manifest.restored(uuid, runs_ahead, segments)),
            fill: &fill,
        },
    )?;
    Ok(RestoreReport {
        number: manifest.number,
        created_ms: manifest.created_ms,
        segments: manifest.segments.len() as u64,
        bytes: manifest.bytes(),
        capacity_bytes: root.capacity_bytes(),
    })
}

/// How far the numbers of the restored store's runs are ahead: by chance, so that two stores that
/// are restored from one backup do not share any either.
fn runs_ahead(settings: &Settings) -> Result<u32> {
    let mut random = [0; 4];
    settings.environment.fill_random(&mut random)?;
    Ok(RUNS_AHEAD_MIN + u32::from_le_bytes(random) % RUNS_AHEAD_MIN)
}

/// Lays segments out on media.
struct Layer<'a> {
    set: &'a Set,
    manifest: &'a Manifest,
    media: &'a dyn Media,
    ground: Ground,
    piece: AlignedBuf,
}

impl Layer<'_> {
    fn all(&mut self, segments: u32, progress: &mut dyn FnMut(BackupProgress)) -> Result<()> {
        let manifest = self.manifest;
        let superblock = &manifest.superblock;
        let geometry = LogGeometry {
            segment_bytes: superblock.segment_bytes,
            segments,
            unit_shift: superblock.unit_shift,
            sector_bytes: superblock.sector_bytes as usize,
            salt: superblock.salt(),
            // Only places of segments are asked for.
            shape: FrameShape::Plain,
        };
        let total_bytes = manifest.bytes();
        let mut done_bytes = 0;
        for stored in &manifest.segments {
            self.segment(stored, geometry.start(stored.id))?;
            done_bytes += stored.bytes;
            progress(BackupProgress {
                done_bytes,
                total_bytes,
            });
        }
        if self.ground == Ground::Used {
            self.clear_rest(&geometry)?;
        }
        Ok(())
    }

    /// Copies one segment and verifies what was copied.
    fn segment(&mut self, stored: &Stored, start: u64) -> Result<()> {
        let path = self.set.path_of(stored);
        let file = File::open(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => damaged(&path, "the file is missing"),
            _ => Error::io("open", &path, e),
        })?;
        let len = file
            .metadata()
            .map_err(|e| Error::io("look at", &path, e))?;
        if len.len() != stored.bytes {
            let (want, have) = (stored.bytes, len.len());
            return Err(damaged(
                &path,
                &format!("{want} bytes expected, found {have}"),
            ));
        }
        let mut sum = Xxh3::new();
        let mut at = 0;
        while at < stored.bytes {
            let len = (stored.bytes - at).min(PIECE_BYTES as u64) as usize;
            let piece = self
                .piece
                .get_mut(..len)
                .ok_or_else(|| Error::internal("a piece of a restore is too long"))?;
            file.read_exact_at(piece, at)
                .map_err(|e| Error::io("read", &path, e))?;
            sum.update(piece);
            if self.ground == Ground::Used || piece.iter().any(|byte| *byte != 0) {
                self.media.write_at(start + at, piece)?;
            }
            at += len as u64;
        }
        if sum.digest() != stored.checksum {
            return Err(damaged(&path, "its content does not fit its checksum"));
        }
        Ok(())
    }

    /// What an earlier state of the same store left would pass every checksum: the rest of each
    /// segment that was copied is cleared, and of each other one the blocks by which recovery
    /// knows it. Deeper inside those, what is left tells runs that this store never has.
    fn clear_rest(&mut self, geometry: &LogGeometry) -> Result<()> {
        let copied: BTreeMap<SegmentId, u64> = self
            .manifest
            .segments
            .iter()
            .map(|s| (s.id, s.bytes))
            .collect();
        for id in (0..geometry.segments).map(SegmentId) {
            let start = geometry.start(id);
            match copied.get(&id) {
                Some(bytes) => self.clear(start + bytes, geometry.end(id))?,
                None => self.clear(start, start + 2 * BLOCK_BYTES as u64)?,
            }
        }
        Ok(())
    }

    fn clear(&mut self, mut from: u64, to: u64) -> Result<()> {
        self.piece.fill(0);
        while from < to {
            let len = (to - from).min(PIECE_BYTES as u64);
            let zeros = self.piece.get(..len as usize).unwrap_or_default();
            self.media.write_at(from, zeros)?;
            from += len;
        }
        Ok(())
    }
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::Damaged,
        format!(
            "{}: {what}; restore another backup of the set (`verify` tells which are whole)",
            path.display()
        ),
    )
}
