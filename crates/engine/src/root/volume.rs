//! One volume of a store: opening it by its path, its label, and joining several.
//!
//! Invariant: nothing of a volume is trusted before its label was checked by [`Volume::check`].
//! Threads: a volume may be used by any number of threads.

use std::path::Path;
use std::sync::Arc;

use heliox_format::ids::{MediaClass, StoreUuid};
use heliox_format::label::{Label, HEAD_BYTES, LABEL_OFFSET};
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::superblock::{Superblock, SUPERBLOCK_OFFSETS};
use heliox_media::{AlignedBuf, FileMedia, FileOptions, IoMode, Media, StripedMedia, STRIPE_BYTES};

use super::FIRST_GENERATION;
use crate::error::{Error, ErrorKind, Result};

/// A volume and its name for messages.
#[derive(Clone)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) media: Arc<dyn Media>,
    /// The name is a path.
    by_path: bool,
}

impl Volume {
    /// Opens and locks the file or block device at `path`.
    pub(super) fn open(path: &Path, io_mode: IoMode, read_only: bool) -> Result<Volume> {
        let name = path.display().to_string();
        if !path.exists() {
            return Err(Error::new(
                ErrorKind::WrongDevice,
                format!("{name}: there is no such device or file; check the path and that the device is attached; if its path has changed, give the present ones with `devices`"),
            ));
        }
        let options = FileOptions {
            read_only,
            ..file_options(io_mode)
        };
        let media = FileMedia::open(path, options)?;
        Ok(Volume {
            name,
            media: Arc::new(media),
            by_path: true,
        })
    }

    /// Creates a sparse file.
    pub(super) fn create_file(path: &Path, len_bytes: u64, io_mode: IoMode) -> Result<Volume> {
        let media = FileMedia::create(path, len_bytes, file_options(io_mode)).map_err(|error| {
            if error.errno() == Some(libc::EFBIG) {
                let message = format!("{error}; the file system takes no file of {len_bytes} bytes: lower capacity_bytes, or give several devices");
                return Error::with_source(ErrorKind::Invalid, message, error);
            }
            Error::from(error)
        })?;
        Ok(Volume {
            name: path.display().to_string(),
            media: Arc::new(media),
            by_path: true,
        })
    }

    /// Volumes that the caller gave directly.
    pub(super) fn given(volumes: &[Arc<dyn Media>]) -> Vec<Volume> {
        let named = |(at, media): (usize, &Arc<dyn Media>)| Volume {
            name: format!("volume {at} ({})", media.describe()),
            media: Arc::clone(media),
            by_path: false,
        };
        volumes.iter().enumerate().map(named).collect()
    }

    /// The file or device, if it was opened here.
    pub(super) fn as_own_file(&self) -> Option<&FileMedia> {
        self.media.as_file().filter(|_| self.by_path)
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.media.geometry().len_bytes
    }

    /// Reads the block at `offset`.
    pub(super) fn read_block(&self, offset: u64) -> Result<AlignedBuf> {
        let mut block = AlignedBuf::for_read(BLOCK_BYTES)?;
        self.media.read_at(offset, &mut block)?;
        Ok(block)
    }

    /// Writes one block at `offset`, durably.
    pub(super) fn write_block(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut block = AlignedBuf::new(BLOCK_BYTES)?;
        let target = block
            .get_mut(..bytes.len())
            .ok_or_else(|| Error::internal("more than a block for the head of a volume"))?;
        target.copy_from_slice(bytes);
        self.media.write_at(offset, &block)?;
        self.media.sync()?;
        Ok(())
    }

    /// As [`Volume::write_block`], and reads it back. A write that went astray is made once more: without
    /// the superblock of a run nothing would tell that there was one.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] if it is not there again.
    pub(super) fn write_surely(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        for _ in 0..2 {
            self.write_block(offset, bytes)?;
            // What cannot be read now says nothing of what was written.
            let is_there = |block: &AlignedBuf| block.starts_with(bytes);
            if self.read_block(offset).as_ref().map_or(true, is_there) {
                return Ok(());
            }
        }
        let what = format!(
            "{}: {} bytes were written at {offset:#x} twice and are not there: replace the device",
            self.name,
            bytes.len()
        );
        Err(Error::new(ErrorKind::Damaged, what))
    }

    /// The label; none if the volume carries none. A label that does not decode is an error.
    pub(super) fn label(&self) -> Result<Option<Label>> {
        if self.len_bytes() < HEAD_BYTES {
            return Err(self.short(HEAD_BYTES, "the head of a volume"));
        }
        let block = self.read_block(LABEL_OFFSET)?;
        Label::decode(&block).map_err(|error| Error::from(error).context(&self.name))
    }

    /// Reads the label and checks that this is volume `position` of `count` of the store.
    pub(super) fn check(&self, position: usize, count: usize, uuid: StoreUuid) -> Result<Label> {
        let wrong = |found: String, advice: &str| {
            Error::new(
                ErrorKind::WrongDevice,
                format!("{}: expected volume {position} of {count} of store {uuid}, found {found}; {advice}", self.name),
            )
        };
        let Some(label) = self.label()? else {
            let advice = "check the path: another device may have taken this name, or the device was overwritten";
            return Err(wrong("no label".to_owned(), advice));
        };
        if label.uuid != uuid {
            let advice = "give the path of the right device";
            return Err(wrong(format!("a volume of store {}", label.uuid), advice));
        }
        if usize::from(label.volume) != position || usize::from(label.volumes) != count {
            let found = format!("volume {} of {}", label.volume, label.volumes);
            let advice = "give all devices of the store, each once, in the order of its creation";
            return Err(wrong(found, advice));
        }
        self.check_shape(&label)?;
        Ok(label)
    }

    fn check_shape(&self, label: &Label) -> Result<()> {
        if label.class != MediaClass(0) || u64::from(label.stripe_bytes) != STRIPE_BYTES {
            return Err(Error::new(
                ErrorKind::Version,
                format!("{}: the label has media class {} and stripes of {} bytes, this program knows class 0 and stripes of {STRIPE_BYTES}; open the store with a program of the version that wrote it", self.name, label.class.0, label.stripe_bytes),
            ));
        }
        if self.len_bytes() < label.volume_bytes {
            return Err(self.short(label.volume_bytes, "the store that was made on it"));
        }
        Ok(())
    }

    /// Refuses a volume that belongs to a store, other than to the unfinished one `own`.
    pub(super) fn check_unused(&self, own: Option<StoreUuid>) -> Result<()> {
        let found = match self.label() {
            Ok(None) => self.store_without_label(own)?,
            Ok(Some(label)) if Some(label.uuid) == own => None,
            Ok(Some(label)) => Some(format!(
                "volume {} of {} of store {}",
                label.volume, label.volumes, label.uuid
            )),
            Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Version) => {
                Some(format!("a label that does not decode ({error})"))
            }
            Err(error) => return Err(error),
        };
        let Some(found) = found else {
            return Ok(());
        };
        let name = &self.name;
        let how = if self.by_path {
            format!(": dd if=/dev/zero of={name} bs={HEAD_BYTES} count=1 conv=notrunc,fsync")
        } else {
            format!(", its first {HEAD_BYTES} bytes")
        };
        Err(Error::new(
            ErrorKind::StoreExists,
            format!("{name}: carries {found}; open that store, or, if its data is not needed (or its creation in another directory did not end), wipe its head{how}"),
        ))
    }

    /// The store whose label was overwritten, or was not read as it is: its superblock is there. One that
    /// was never opened is of a store whose making did not end, since the label comes last.
    fn store_without_label(&self, own: Option<StoreUuid>) -> Result<Option<String>> {
        for offset in SUPERBLOCK_OFFSETS {
            let superblock = match Superblock::decode(offset, &self.read_block(offset)?) {
                Ok(superblock) => superblock,
                Err(_) => continue,
            };
            if superblock.generation > FIRST_GENERATION && Some(superblock.uuid) != own {
                return Ok(Some(format!(
                    "no label, but a superblock of store {}",
                    superblock.uuid
                )));
            }
        }
        Ok(None)
    }

    pub(super) fn short(&self, needed_bytes: u64, what: &str) -> Error {
        Error::new(
            ErrorKind::ShortDevice,
            format!("{}: {} bytes long, but {what} needs {needed_bytes}; attach the whole device, enlarge it, or give another", self.name, self.len_bytes()),
        )
    }
}

fn file_options(io_mode: IoMode) -> FileOptions {
    FileOptions {
        io_mode,
        ..FileOptions::default()
    }
}

/// Volumes as one flat space, heads excluded.
pub(super) fn join(volumes: &[Volume]) -> Result<StripedMedia> {
    let shared = |volume: &Volume| Box::new(Arc::clone(&volume.media)) as Box<dyn Media>;
    Ok(StripedMedia::new(
        volumes.iter().map(shared).collect(),
        HEAD_BYTES,
    )?)
}
