//! Making a store with the content of a backup.
//!
//! Invariants: as for a creation, with the content before the superblock: segments, all durable;
//! superblock copies; labels from the last volume to the first; in a directory the file `HELIOX`. A
//! restore that does not end leaves no store, and the next one starts over.
//!
//! The new store has an id of its own, the first half of which is the original's: the checksums of
//! everything that was copied are salted with it. So what a volume held before could verify as part
//! of the store, if it held the same one; [`Ground::Used`] says where that must be ruled out.

use std::path::{Path, PathBuf};

use heliox_format::ids::{Location, StoreUuid};
use heliox_format::label::HEAD_BYTES;
use heliox_format::superblock::Superblock;
use heliox_media::Media;

use super::create::{
    absolute, check_data_file, intending, make_data_file, new_uuid, plan_file, plan_volumes,
    write_superblock_and_labels, Shape, DATA_NAME,
};
use super::manifest::{Intent, Making, Manifest};
use super::volume::Volume;
use super::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Settings;

/// What a volume holds before a restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ground {
    /// Zeros.
    Blank,
    /// Anything, an earlier state of the same store included.
    Used,
}

/// The content of a store to be.
pub(crate) struct Restored<'a> {
    /// That of the original.
    pub(crate) superblock: &'a Superblock,
    /// How many segments the content reaches over.
    pub(crate) segments_needed: u32,
    /// The superblock for this id and so many segments.
    pub(crate) make_superblock: &'a dyn Fn(StoreUuid, u32) -> Result<Superblock>,
    /// Writes all segments, so many in all.
    pub(crate) fill: &'a dyn Fn(&dyn Media, Ground, u32) -> Result<()>,
}

/// Restores into a directory, which is made if it is missing.
pub(super) fn in_dir(dir: &Path, settings: &Settings, what: &Restored<'_>) -> Result<Root> {
    intending(dir, |intent| with_intent(dir, settings, what, intent))
}

fn with_intent(
    dir: &Path,
    settings: &Settings,
    what: &Restored<'_>,
    intent: &mut Intent,
) -> Result<Root> {
    intent.refuse(Making::Creation)?;
    let settings = &sized_as(what.superblock, settings);
    let earlier = intent.earlier_uuid();
    let uuid = uuid_for(what, earlier, settings)?;
    let place = dir.display().to_string();
    let (manifest, volumes, shape, ground) = if settings.devices.is_empty() {
        let free_bytes = heliox_media::space::file_system_space(dir)?.free_bytes;
        let (shape, _) = plan_file(dir, free_bytes, settings)?;
        let shape = fit(shape, what)?;
        check_data_file(dir, intent)?;
        let volumes = vec![PathBuf::from(DATA_NAME)];
        let manifest = Manifest { uuid, volumes };
        intent.announce(Making::Restore, &manifest)?;
        let volumes = vec![make_data_file(dir, shape, settings)?];
        (manifest, volumes, shape, Ground::Blank)
    } else {
        let paths = absolute(&settings.devices)?;
        let open = |path: &PathBuf| Volume::open(path, settings.io, false);
        let volumes = paths.iter().map(open).collect::<Result<Vec<_>>>()?;
        let shape = fit(plan_volumes(&volumes, earlier, settings)?, what)?;
        let manifest = Manifest {
            uuid,
            volumes: paths,
        };
        intent.announce(Making::Restore, &manifest)?;
        (manifest, volumes, shape, Ground::Used)
    };
    let root = Root::assemble(place, uuid, volumes, shape.volume_bytes)?;
    let root = write_all(root, shape, ground, settings, what)?;
    intent.commit_restored(&manifest)?;
    Ok(root)
}

/// Restores onto volumes given directly.
pub(super) fn on_volumes(settings: &Settings, what: &Restored<'_>) -> Result<Root> {
    let settings = &sized_as(what.superblock, settings);
    let volumes = Volume::given(&settings.volumes);
    let shape = fit(plan_volumes(&volumes, None, settings)?, what)?;
    let uuid = uuid_for(what, None, settings)?;
    let place = "the volumes given".to_owned();
    let root = Root::assemble(place, uuid, volumes, shape.volume_bytes)?;
    write_all(root, shape, Ground::Used, settings, what)
}

fn write_all(
    root: Root,
    shape: Shape,
    ground: Ground,
    settings: &Settings,
    what: &Restored<'_>,
) -> Result<Root> {
    let superblock = (what.make_superblock)(root.uuid, shape.segments)?;
    // Refused before anything is written, where it can be.
    root.check_fit(&superblock)?;
    let media = root.media();
    (what.fill)(&*media, ground, shape.segments)?;
    media.sync()?;
    let (root, _) = write_superblock_and_labels(root, superblock, settings)?;
    Ok(root)
}

/// The settings with the segments of the original; without devices also its capacity, unless
/// another one was asked for.
fn sized_as(original: &Superblock, settings: &Settings) -> Settings {
    let mut sized = settings.clone();
    sized.segment_bytes = Some(original.segment_bytes);
    if settings.devices.is_empty() && settings.volumes.is_empty() {
        let bytes = u64::from(original.segments) * original.segment_bytes + HEAD_BYTES;
        sized.capacity_bytes = settings.capacity_bytes.or(Some(bytes));
    }
    sized
}

/// The shape within what the locations of the original can reach.
fn fit(mut shape: Shape, what: &Restored<'_>) -> Result<Shape> {
    let original = what.superblock;
    let reach = (1u64 << Location::BITS) << original.unit_shift;
    // The last location is "none".
    let most = (reach - 1) / original.segment_bytes;
    shape.segments = shape.segments.min(u32::try_from(most).unwrap_or(u32::MAX));
    if shape.segments < what.segments_needed {
        let (given, needed) = (shape.segments, what.segments_needed);
        let bytes = u64::from(needed) * original.segment_bytes + HEAD_BYTES;
        return Err(Error::new(
            ErrorKind::ShortDevice,
            format!("the backup reaches over {needed} segments of {} bytes, and the capacity is {given}; give at least {bytes} bytes (a store whose data lies far behind can be made smaller only by copying its keys)", original.segment_bytes),
        ));
    }
    Ok(shape)
}

/// An id with the first half of the original's; that of a restore which did not end goes on, since
/// it is on labels.
fn uuid_for(
    what: &Restored<'_>,
    earlier: Option<StoreUuid>,
    settings: &Settings,
) -> Result<StoreUuid> {
    let mut uuid = earlier.map_or_else(|| new_uuid(settings), Ok)?;
    let half = uuid.0.len() / 2;
    for (to, from) in uuid.0.iter_mut().zip(what.superblock.uuid.0).take(half) {
        *to = from;
    }
    Ok(uuid)
}
