//! Verifying and mending what a store is found by while it is open: labels and superblock copies.
//!
//! A label is written anew with the bytes that it was opened with: it lies within one sector, so a
//! crash leaves the damaged one or the whole one. A superblock copy is mended as every superblock is
//! written: the damaged copy first, durable before the other one is touched.

use heliox_format::label::LABEL_OFFSET;
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::superblock::SUPERBLOCK_OFFSETS;

use super::{read_copy, Root};
use crate::error::{Error, ErrorKind, Result};

/// A part of a volume's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Head {
    /// Of this volume.
    Label(usize),
    /// The first or the second, on the first volume.
    Superblock(usize),
}

impl Head {
    /// The volume and where on it.
    pub(crate) fn place(self) -> (usize, u64) {
        match self {
            Head::Label(volume) => (volume, LABEL_OFFSET),
            Head::Superblock(copy) => (0, SUPERBLOCK_OFFSETS[copy % 2]),
        }
    }
}

impl Root {
    /// All parts of the volumes' heads.
    pub(crate) fn heads(&self) -> impl Iterator<Item = Head> {
        let labels = (0..self.volumes.len()).map(Head::Label);
        labels.chain([Head::Superblock(0), Head::Superblock(1)])
    }

    /// What is wrong with a part of a head, in words; none if it is as it was written.
    ///
    /// # Errors
    /// If the device cannot be read.
    pub(crate) fn verify_head(&self, head: Head) -> Result<Option<String>> {
        match head {
            Head::Label(volume) => self.verify_label(volume),
            Head::Superblock(copy) => {
                let generation = self.copies.lock().generation;
                if self.verify_copy(copy, generation)?.is_none() {
                    return Ok(None);
                }
                // It may have been in the middle of being written: now it is not.
                let copies = self.copies.lock();
                self.verify_copy(copy, copies.generation)
            }
        }
    }

    fn verify_label(&self, volume: usize) -> Result<Option<String>> {
        let (Some(expected), Some(volume)) = (self.labels.get(volume), self.volumes.get(volume))
        else {
            return Ok(None);
        };
        match volume.label() {
            Ok(Some(found)) if found == *expected => Ok(None),
            Ok(Some(found)) => Ok(Some(format!("{expected:?} expected, found {found:?}"))),
            Ok(None) => Ok(Some("a label expected, found none".to_owned())),
            Err(error) => damage_only(error),
        }
    }

    fn verify_copy(&self, copy: usize, generation: u64) -> Result<Option<String>> {
        match read_copy(self.head()?, Head::Superblock(copy).place().1, self.uuid) {
            Ok(found) if found.generation == generation => Ok(None),
            Ok(found) => Ok(Some(format!(
                "generation {generation} expected, found {}: a write was lost",
                found.generation
            ))),
            Err(error) => damage_only(error),
        }
    }

    /// Lets the next superblock be written to this copy first: it is damaged.
    pub(crate) fn write_first(&self, copy: usize) {
        self.copies.lock().first = copy % 2;
    }

    /// Writes a volume's label anew, and returns how many bytes that took.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn mend_label(&self, volume: usize) -> Result<u64> {
        let (Some(label), Some(volume)) = (self.labels.get(volume), self.volumes.get(volume))
        else {
            return Err(Error::internal("a label of no volume"));
        };
        volume.write_block(LABEL_OFFSET, &label.encode())?;
        Ok(BLOCK_BYTES as u64)
    }

    /// Where a flat address of the log is: the volume, and the offset on it.
    pub(crate) fn place_of(&self, address: u64) -> (usize, u64) {
        self.flat.place(address)
    }

    /// Fails if a volume does not answer at all.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn probe(&self) -> Result<()> {
        for volume in &self.volumes {
            volume.read_block(LABEL_OFFSET)?;
        }
        Ok(())
    }
}

fn damage_only(error: Error) -> Result<Option<String>> {
    match error.kind() {
        ErrorKind::Damaged | ErrorKind::Version => Ok(Some(error.to_string())),
        _ => Err(error),
    }
}
