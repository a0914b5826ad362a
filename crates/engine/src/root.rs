//! Where a store lives: its directory, its volumes, their labels and the two superblock copies.
//!
//! Invariants:
//! - Nothing of a volume is trusted before its label named this store, this place in it and its
//!   length. Labels are written at creation, and again, with the same bytes, where one is damaged.
//! - A creation that does not end leaves no store: in a directory the file `HELIOX` comes last, on
//!   volumes given directly the label of volume 0 does. The next creation recognises the volumes
//!   that the unfinished one has labelled, and goes on.
//! - At every moment one superblock copy is whole: the copies are written one after the other, each
//!   durable before the next is touched, and the damaged or older one is written first.
//! - While a store is open its files and devices are locked; a second open is refused, unless both only
//!   read: then nothing here writes. Volumes given directly are the caller's to guard.
//!
//! Threads: any; superblock writes take turns.

mod create;
pub(crate) mod destroy;
mod heads;
pub(crate) mod keys;
mod manifest;
mod restore;
mod volume;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use heliox_format::frame::FrameShape;
use heliox_format::ids::StoreUuid;
use heliox_format::label::{Label, HEAD_BYTES};
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::superblock::{Superblock, CUTS_MAX, SUPERBLOCK_OFFSETS};
use heliox_log::geometry::LogGeometry;
use heliox_media::{FileMedia, IoKind, Media, StripedMedia};
use heliox_sync::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::options::Settings;
pub(crate) use heads::Head;
use manifest::{busy, Intent, Making, Manifest, MANIFEST_NAME};
pub(crate) use restore::{Ground, Restored};
use volume::Volume;

/// The generation of the superblock that a making writes; each write of an opened store has a larger one.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// What is known of the superblock copies on media.
#[derive(Clone, Copy, Debug)]
struct Copies {
    /// The newest generation.
    generation: u64,
    /// Which copy is written first: one that is damaged or older than the other.
    first: usize,
}

/// The place of an open store. Dropping it unlocks the files and devices, if it was not closed before.
pub(crate) struct Root {
    /// The directory, or words for volumes given directly.
    place: String,
    uuid: StoreUuid,
    volumes: Vec<Volume>,
    /// What the volumes' labels say.
    labels: Vec<Label>,
    /// Bytes of each volume that the store uses, head included.
    volume_bytes: u64,
    flat: Arc<StripedMedia>,
    /// Of an open encrypted store.
    sealing: Option<keys::Sealing>,
    copies: Mutex<Copies>,
    creation_bytes_written: u64,
    warnings: Vec<String>,
}

/// The text that the file `HELIOX`, or `HELIOX.new`, of the same meaning is written as.
pub(crate) fn rewritten(text: &[u8]) -> Result<Vec<u8>> {
    let (making, text) = Making::of(text);
    making.text(&Manifest::decode(Path::new(MANIFEST_NAME), text)?)
}

impl Root {
    /// Makes a store and opens it. The superblock that is returned has generation 1, incarnation 0,
    /// no checkpoint, and is clean. With volumes given in the settings, `dir` is ignored.
    ///
    /// # Errors
    /// [`ErrorKind::StoreExists`] if there is one or a device carries the label of one,
    /// [`ErrorKind::StoreInUse`], [`ErrorKind::WrongDevice`], [`ErrorKind::ShortDevice`],
    /// [`ErrorKind::Invalid`] if the options do not fit the place, [`ErrorKind::Full`],
    /// [`ErrorKind::ReadOnly`], [`ErrorKind::Io`]. Nothing that was there is changed by a refusal.
    pub(crate) fn create(dir: &Path, settings: &Settings) -> Result<(Root, Superblock)> {
        let (mut root, superblock) = if settings.volumes.is_empty() {
            create::in_dir(named(dir), settings)?
        } else {
            create::on_volumes(settings)?
        };
        root.unlock(&superblock, settings)?;
        Ok((root, superblock))
    }

    /// Opens a store: checks labels, lengths and superblocks, and locks it.
    ///
    /// # Errors
    /// [`ErrorKind::NotAStore`], [`ErrorKind::StoreInUse`], [`ErrorKind::WrongDevice`],
    /// [`ErrorKind::ShortDevice`], [`ErrorKind::Version`], [`ErrorKind::Damaged`],
    /// [`ErrorKind::Encrypted`], [`ErrorKind::NotEncrypted`], [`ErrorKind::WrongKey`],
    /// [`ErrorKind::ReadOnly`], [`ErrorKind::Io`].
    pub(crate) fn open(dir: &Path, settings: &Settings) -> Result<(Root, Superblock)> {
        let (mut root, superblock) = if !settings.volumes.is_empty() {
            open_given(settings)?
        } else {
            let dir = named(dir);
            open_found(dir, &find(dir)?, settings)?
        };
        root.unlock(&superblock, settings)?;
        Ok((root, superblock))
    }

    /// Opens a store, or makes it if there is none and the settings allow it.
    ///
    /// # Errors
    /// Those of [`Root::open`] and [`Root::create`].
    pub(crate) fn open_or_create(dir: &Path, settings: &Settings) -> Result<(Root, Superblock)> {
        match Root::open(dir, settings) {
            Err(error) if error.kind() == ErrorKind::NotAStore && settings.create_if_missing => {}
            other => return other,
        }
        match Root::create(dir, settings) {
            // Others may have made one since, and have it open or not.
            Err(error) if error.kind() == ErrorKind::StoreExists => Root::open(dir, settings)
                .map_err(|again| match again.kind() {
                    ErrorKind::NotAStore => error,
                    _ => again,
                }),
            other => other,
        }
    }

    /// Makes a store with the content of a backup. It is not opened. With volumes given in the
    /// settings, `dir` is ignored.
    ///
    /// # Errors
    /// As [`Root::create`], and what `what` gives; then there is no store, and a restore into the
    /// same place starts over.
    pub(crate) fn restore(dir: &Path, settings: &Settings, what: &Restored<'_>) -> Result<Root> {
        // The key is not needed; one that is given must be right.
        if settings.master_key.is_some() {
            keys::unwrap(what.superblock, settings)?;
        }
        if settings.volumes.is_empty() {
            restore::in_dir(named(dir), settings, what)
        } else {
            restore::on_volumes(settings, what)
        }
    }

    fn assemble(place: String, uuid: StoreUuid, volumes: Vec<Volume>, bytes: u64) -> Result<Root> {
        let flat = volume::join(&volumes).map_err(|error| error.context(&place))?;
        let cached =
            |v: &&Volume| v.media.io_kind() != IoKind::Memory && !v.media.geometry().direct;
        let warnings = volumes.iter().filter(cached).map(|v| {
            format!("{}: the file system refuses direct I/O, so reads and writes go through the page cache", v.name)
        });
        Ok(Root {
            warnings: warnings.collect(),
            place,
            uuid,
            volumes,
            labels: Vec::new(),
            volume_bytes: bytes,
            flat: Arc::new(flat),
            sealing: None,
            copies: Mutex::new(Copies {
                generation: 0,
                first: 0,
            }),
            creation_bytes_written: 0,
        })
    }

    /// The store's identity.
    #[cfg(test)]
    pub(crate) fn uuid(&self) -> StoreUuid {
        self.uuid
    }

    /// The flat space of all volumes, heads excluded: the log's address space, as it is on media.
    pub(crate) fn raw_media(&self) -> Arc<dyn Media> {
        #[cfg(feature = "canary")]
        if crate::canary::is(crate::canary::Canary::OneVolumeSynced) {
            return Arc::new(crate::canary::OneVolumeSynced(Arc::clone(&self.flat)));
        }
        Arc::clone(&self.flat) as Arc<dyn Media>
    }

    /// What is not as it should be, and did not keep the store from opening.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What making this store wrote to media; 0 for one that was opened.
    pub(crate) fn creation_bytes_written(&self) -> u64 {
        self.creation_bytes_written
    }

    /// Gives files and devices back, so that another store may be opened on them; waits for the requests
    /// under way. Whoever is late is refused: nothing of them is read or written through this root any
    /// more. Volumes given directly stay as they are.
    pub(crate) fn close(&self) {
        let own = self.volumes.iter().filter_map(Volume::as_own_file);
        own.for_each(FileMedia::close);
    }

    /// Writes both copies, each durably, and returns how many bytes that took. What the superblock
    /// refers to must be durable before. One caller at a time does I/O; others wait for it.
    ///
    /// # Errors
    /// The device's; then it is open which generation the next open sees. [`ErrorKind::Internal`]
    /// if the generation did not grow, or the superblock is not this store's.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) -> Result<u64> {
        let mut copies = self.copies.lock();
        if superblock.generation <= copies.generation {
            return Err(Error::internal(format_args!(
                "superblock generation {} after {}",
                superblock.generation, copies.generation
            )));
        }
        if superblock.uuid != self.uuid || superblock.cuts.len() > CUTS_MAX {
            return Err(Error::internal(format_args!(
                "superblock of store {} with {} cuts for store {}",
                superblock.uuid,
                superblock.cuts.len(),
                self.uuid
            )));
        }
        let head = self.head()?;
        let order = [copies.first, 1 - copies.first];
        // Whatever happens below, no generation is ever written twice with two meanings.
        copies.generation = superblock.generation;
        for copy in order {
            // Until this copy is durable it may be torn: then it must come first again.
            copies.first = copy;
            let offset = SUPERBLOCK_OFFSETS[copy];
            head.write_surely(offset, &superblock.encode(offset))?;
        }
        Ok((order.len() * BLOCK_BYTES) as u64)
    }

    fn head(&self) -> Result<&Volume> {
        self.volumes
            .first()
            .ok_or_else(|| Error::internal("a store without volumes"))
    }

    /// The shape of the log.
    pub(crate) fn log_geometry(&self, superblock: &Superblock) -> LogGeometry {
        LogGeometry {
            segment_bytes: superblock.segment_bytes,
            segments: superblock.segments,
            unit_shift: superblock.unit_shift,
            sector_bytes: superblock.sector_bytes as usize,
            salt: superblock.salt(),
            shape: shape_of(superblock),
        }
    }

    /// What the store occupies on media now: blocks of files, the used part of devices.
    ///
    /// # Errors
    /// If the operating system cannot say.
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for volume in &self.volumes {
            bytes += volume.media.allocated_bytes()?.min(self.volume_bytes);
        }
        Ok(bytes)
    }

    /// What the store takes on media at most, heads included.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.volume_bytes * self.volumes.len() as u64
    }

    /// The store and its volumes, for messages.
    pub(crate) fn describe(&self) -> String {
        let volumes: Vec<String> = self.volumes.iter().map(|v| v.media.describe()).collect();
        format!(
            "{}: store {}, {} bytes on {}",
            self.place,
            self.uuid,
            self.capacity_bytes(),
            volumes.join(" + ")
        )
    }

    /// Reads both copies and takes the newer whole one.
    fn read_superblock(&mut self) -> Result<Superblock> {
        let head = self.head()?;
        // A read that went astray must not make an older copy the newest.
        let read = |offset| match read_copy(head, offset, self.uuid) {
            Err(error) if error.kind() == ErrorKind::Damaged => read_copy(head, offset, self.uuid),
            read => read,
        };
        let copies = SUPERBLOCK_OFFSETS.map(read);
        let (newest, first) = match copies {
            [Ok(a), Ok(b)] if a.generation < b.generation => (b, 0),
            [Ok(a), Ok(_)] => (a, 1),
            [Ok(whole), Err(bad)] => (self.keep(whole, &bad)?, 1),
            [Err(bad), Ok(whole)] => (self.keep(whole, &bad)?, 0),
            [Err(a), Err(b)] => return Err(both_bad(&head.name, a, &b)),
        };
        self.check_fit(&newest)?;
        *self.copies.get_mut() = Copies {
            generation: newest.generation,
            first,
        };
        Ok(newest)
    }

    /// Goes on with the whole copy, unless the other one is of a later program.
    fn keep(&mut self, whole: Superblock, bad: &Error) -> Result<Superblock> {
        if bad.kind() == ErrorKind::Version {
            return Err(bad.clone().context(&self.head()?.name));
        }
        self.warnings.push(format!(
            "one superblock copy cannot be used ({bad}); the other one, generation {}, is whole and is used, and the next checkpoint mends this one",
            whole.generation
        ));
        Ok(whole)
    }

    /// What is wrong with the superblock copies on media, in words.
    ///
    /// # Errors
    /// If the device cannot be read.
    pub(crate) fn superblock_damage(&self) -> Result<Vec<String>> {
        let head = self.head()?;
        let mut found = Vec::new();
        for offset in SUPERBLOCK_OFFSETS {
            match read_copy(head, offset, self.uuid) {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    found.push(format!("{}: superblock copy: {error}", head.name));
                }
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(found)
    }

    /// The superblock is whole; are the volumes what it was made for?
    fn check_fit(&self, superblock: &Superblock) -> Result<()> {
        let geometry = self.flat.geometry();
        let needed_bytes = superblock.segment_bytes * u64::from(superblock.segments);
        if geometry.len_bytes < needed_bytes {
            return Err(Error::new(
                ErrorKind::ShortDevice,
                format!("{}: the superblock names {needed_bytes} bytes of segments, and the devices have {} for them; attach the whole devices", self.place, geometry.len_bytes),
            ));
        }
        if geometry.sector_bytes > superblock.sector_bytes {
            return Err(Error::new(
                ErrorKind::WrongDevice,
                format!("{}: the store was made for sectors of {} bytes, and its devices have sectors of {} now; attach it to devices (or a file system) with sectors of at most that size", self.place, superblock.sector_bytes, geometry.sector_bytes),
            ));
        }
        Ok(())
    }
}

fn shape_of(superblock: &Superblock) -> FrameShape {
    match superblock.is_encrypted() {
        false => FrameShape::Plain,
        true => FrameShape::Sealed,
    }
}

/// One copy, if it is whole and this store's.
fn read_copy(head: &Volume, offset: u64, uuid: StoreUuid) -> Result<Superblock> {
    let superblock = Superblock::decode(offset, &head.read_block(offset)?)?;
    if superblock.uuid != uuid {
        return Err(Error::new(
            ErrorKind::Damaged,
            format!(
                "damaged superblock at address {offset:#x}: store {uuid} was expected and {} found",
                superblock.uuid
            ),
        ));
    }
    Ok(superblock)
}

fn both_bad(name: &str, a: Error, b: &Error) -> Error {
    for error in [&a, b] {
        if error.kind() == ErrorKind::Version {
            return error.clone().context(name);
        }
    }
    let message = format!("{name}: neither superblock copy can be used: first: {a}; second: {b}. Without one the store cannot be opened");
    // A copy that could not be read may be whole.
    let is_unread = a.kind() == ErrorKind::Io || b.kind() == ErrorKind::Io;
    let kind = match is_unread {
        true => ErrorKind::Io,
        false => ErrorKind::Damaged,
    };
    Error::with_source(kind, message, a)
}

/// The empty path stands for the current directory, as everywhere.
fn named(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() {
        return Path::new(".");
    }
    dir
}

/// The manifest of a directory that must hold a store.
fn find(dir: &Path) -> Result<Manifest> {
    let found = match std::fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => match Manifest::read(dir)? {
            Some(manifest) => return Ok(manifest),
            None => Intent::left_in(dir).map_or_else(
                || format!("the directory holds no file {MANIFEST_NAME}"),
                |making| making.unfinished().to_owned(),
            ),
        },
        Ok(_) => "it is a file, and a store lives in a directory".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "there is no such directory".to_owned()
        }
        Err(error) => return Err(Error::io("look at the directory", dir, error)),
    };
    Err(Error::not_a_store(dir, found))
}

/// Opens the store of a directory whose manifest was read.
fn open_found(dir: &Path, manifest: &Manifest, settings: &Settings) -> Result<(Root, Superblock)> {
    let volumes = open_paths(dir, manifest, settings)?;
    // A deletion locks the volumes before it removes the manifest: with them locked here, one that is
    // there stays, and one that has gone meanwhile leaves volumes that the next deletion takes.
    if find(dir)?.uuid != manifest.uuid {
        return Err(busy(dir));
    }
    let (mut root, superblock) = open_volumes(dir.display().to_string(), manifest.uuid, volumes)?;
    if !settings.read_only {
        root.warnings.extend(destroy::take_back(dir));
    }
    Ok((root, superblock))
}

/// Opens the volumes that the manifest names, or where the settings say that they are now.
fn open_paths(dir: &Path, manifest: &Manifest, settings: &Settings) -> Result<Vec<Volume>> {
    let expected = manifest.volumes.len();
    let moved = settings.devices.len();
    if moved != 0 && moved != expected {
        return Err(Error::new(
            ErrorKind::WrongDevice,
            format!("{}: store {} has {expected} volumes, devices given: {moved}; give all, in the order of its creation, or none if their paths are unchanged", dir.display(), manifest.uuid),
        ));
    }
    let paths: Vec<PathBuf> = if moved == 0 {
        manifest.volumes.iter().map(|path| dir.join(path)).collect()
    } else {
        settings.devices.clone()
    };
    let open = |(at, path): (usize, &PathBuf)| {
        Volume::open(path, settings.io, settings.read_only).map_err(|error| {
            let place = dir.display();
            error.context(format_args!("{place}: volume {at} of {expected}"))
        })
    };
    paths.iter().enumerate().map(open).collect()
}

/// Opens a store on volumes given directly: the label of the first says which store it is.
fn open_given(settings: &Settings) -> Result<(Root, Superblock)> {
    let volumes = Volume::given(&settings.volumes);
    let Some(label) = volumes.first().map_or(Ok(None), Volume::label)? else {
        return Err(Error::new(
            ErrorKind::NotAStore,
            "the volumes given: not a Heliox store: the first carries no label; give the volumes of a store in their order, or make a store on them with `create`",
        ));
    };
    open_volumes("the volumes given".to_owned(), label.uuid, volumes)
}

fn open_volumes(
    place: String,
    uuid: StoreUuid,
    volumes: Vec<Volume>,
) -> Result<(Root, Superblock)> {
    let mut volume_bytes = HEAD_BYTES;
    let mut labels = Vec::with_capacity(volumes.len());
    for (position, volume) in volumes.iter().enumerate() {
        let label = volume
            .check(position, volumes.len(), uuid)
            .map_err(|error| error.context(&place))?;
        volume_bytes = volume_bytes.max(label.volume_bytes);
        labels.push(label);
    }
    let mut root = Root::assemble(place, uuid, volumes, volume_bytes)?;
    root.labels = labels;
    let superblock = root.read_superblock()?;
    Ok((root, superblock))
}
