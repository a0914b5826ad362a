//! A backup as a volume: shows its files where they would lie in a restored store, so that the
//! check of a store proves the backup. Read only; what no file holds reads as zeros.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use heliox_format::ids::MediaClass;
use heliox_format::label::{Label, HEAD_BYTES, LABEL_OFFSET};
use heliox_format::superblock::SUPERBLOCK_OFFSETS;
use heliox_media::{Geometry, IoKind, Media, MediaError, Operation, STRIPE_BYTES};

use super::manifest::{Manifest, Stored};
use super::set::Set;

/// A backup as the one volume of a store, for reading.
pub(super) struct Image {
    name: Arc<str>,
    label: Vec<u8>,
    superblocks: [Vec<u8>; 2],
    segment_bytes: u64,
    geometry: Geometry,
    /// By number of the segment. A file that cannot be opened reads as zeros; it was told already.
    files: BTreeMap<u64, File>,
}

impl Image {
    pub(super) fn new(set: &Set, manifest: &Manifest) -> Image {
        let original = &manifest.superblock;
        let superblock = manifest.restored(original.uuid, 1, original.segments);
        let flat_bytes = u64::from(superblock.segments) * superblock.segment_bytes;
        let volume_bytes = HEAD_BYTES + flat_bytes.next_multiple_of(STRIPE_BYTES);
        let label = Label {
            uuid: superblock.uuid,
            volume: 0,
            volumes: 1,
            class: MediaClass(0),
            volume_bytes,
            stripe_bytes: STRIPE_BYTES as u32,
            created_ms: manifest.created_ms,
        };
        let open = |stored: &Stored| {
            let file = File::open(set.path_of(stored)).ok()?;
            Some((u64::from(stored.id.0), file))
        };
        Image {
            name: format!("backup {}", manifest.number).into(),
            label: label.encode(),
            superblocks: SUPERBLOCK_OFFSETS.map(|offset| superblock.encode(offset)),
            segment_bytes: superblock.segment_bytes,
            geometry: Geometry::new(volume_bytes, superblock.sector_bytes),
            files: manifest.segments.iter().filter_map(open).collect(),
        }
    }

    fn refused(&self) -> MediaError {
        MediaError::Unusable {
            device: Arc::clone(&self.name),
            reason: "a backup is read only".to_owned(),
        }
    }

    /// Fills the part of `buf`, which begins at `offset`, that lies on the bytes from `at` on.
    fn lay(buf: &mut [u8], offset: u64, at: u64, bytes: &[u8]) {
        let skip = at.saturating_sub(offset) as usize;
        let from = offset.saturating_sub(at) as usize;
        let (Some(to), Some(bytes)) = (buf.get_mut(skip..), bytes.get(from..)) else {
            return;
        };
        to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
    }

    /// Reads the segment files under a range of the flat space.
    fn read_segments(&self, mut flat: u64, mut buf: &mut [u8]) -> Result<(), MediaError> {
        while !buf.is_empty() {
            let (id, at) = (flat / self.segment_bytes, flat % self.segment_bytes);
            let len = (self.segment_bytes - at).min(buf.len() as u64) as usize;
            let (now, rest) = buf.split_at_mut(len);
            if let Some(file) = self.files.get(&id) {
                self.read_file(file, flat, at, now)?;
            }
            flat += len as u64;
            buf = rest;
        }
        Ok(())
    }

    /// Reads as far as the file goes.
    fn read_file(
        &self,
        file: &File,
        flat: u64,
        mut at: u64,
        mut buf: &mut [u8],
    ) -> Result<(), MediaError> {
        while !buf.is_empty() {
            match file.read_at(buf, at) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    buf = buf.get_mut(read..).unwrap_or_default();
                    at += read as u64;
                }
                Err(error) => {
                    return Err(MediaError::Io {
                        device: Arc::clone(&self.name),
                        operation: Operation::Read,
                        offset: flat,
                        len_bytes: buf.len() as u64,
                        errno: error.raw_os_error().unwrap_or(0),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Media for Image {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        buf.fill(0);
        Image::lay(buf, offset, LABEL_OFFSET, &self.label);
        for (at, superblock) in SUPERBLOCK_OFFSETS.iter().zip(&self.superblocks) {
            Image::lay(buf, offset, *at, superblock);
        }
        let head = HEAD_BYTES.saturating_sub(offset).min(buf.len() as u64) as usize;
        let flat = offset.saturating_sub(HEAD_BYTES);
        self.read_segments(flat, buf.get_mut(head..).unwrap_or_default())
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<(), MediaError> {
        Err(self.refused())
    }

    fn sync(&self) -> Result<(), MediaError> {
        Err(self.refused())
    }

    fn discard(&self, _offset: u64, _len_bytes: u64) -> Result<(), MediaError> {
        Err(self.refused())
    }

    fn describe(&self) -> String {
        self.name.to_string()
    }

    fn io_kind(&self) -> IoKind {
        IoKind::Memory
    }
}
