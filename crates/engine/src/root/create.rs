//! Making a store: its shape, the labels and the first superblock.
//!
//! Invariants: whatever can be refused is refused before anything is written; the order of writing
//! is superblock copies, labels from the last volume to the first, and in a directory the file
//! `HELIOX` at the very end, each durable before the next.

use std::path::{Path, PathBuf};

use heliox_format::ids::{Incarnation, MediaClass, StoreUuid};
use heliox_format::label::{Label, HEAD_BYTES, LABEL_OFFSET};
use heliox_format::limits::{BLOCK_BYTES, STORE_BYTES_MAX};
use heliox_format::superblock::{Superblock, SUPERBLOCK_OFFSETS};
use heliox_log::geometry::unit_shift_for;
use heliox_media::space::file_system_space;
use heliox_media::STRIPE_BYTES;

use super::keys::first_keys;
use super::manifest::{sync_dir, Intent, Making, Manifest};
use super::volume::Volume;
use super::{destroy, Root, FIRST_GENERATION};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Settings, SEGMENTS_MIN};

/// The volume of a store without devices, in its directory.
pub(super) const DATA_NAME: &str = "data";
/// Most that is left to others on the file system.
const RESERVE_BYTES_MAX: u64 = 16 << 30;
/// Most that a store in a directory takes unasked: common file systems end a file at 16 TiB.
const FILE_CAPACITY_BYTES_MAX: u64 = 15 << 40;

/// What is fixed when a store is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) segment_bytes: u64,
    pub(super) segments: u32,
    /// Bytes of each volume that the store uses, head included.
    pub(super) volume_bytes: u64,
}

/// Derives the shape from the capacity over all volumes. `None`: too small for enough segments.
pub(super) fn shape_for(
    volumes: usize,
    capacity_bytes: u64,
    segment_bytes: Option<u64>,
) -> Option<Shape> {
    let volumes = volumes.max(1) as u64;
    let stripes = (capacity_bytes / volumes).saturating_sub(HEAD_BYTES) / STRIPE_BYTES;
    let flat_bytes = (stripes * STRIPE_BYTES * volumes).min(STORE_BYTES_MAX);
    let segment_bytes = segment_bytes.unwrap_or_else(|| default_segment_bytes(capacity_bytes));
    let segments = u32::try_from(flat_bytes / segment_bytes).ok()?;
    // What the segments leave over is not taken: a segment is a whole number of stripes.
    let used_stripes = u64::from(segments) * segment_bytes / STRIPE_BYTES;
    let volume_bytes = HEAD_BYTES + used_stripes.div_ceil(volumes) * STRIPE_BYTES;
    (segments >= SEGMENTS_MIN).then_some(Shape {
        segment_bytes,
        segments,
        volume_bytes,
    })
}

fn default_segment_bytes(capacity_bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match capacity_bytes {
        bytes if bytes < 4096 * MIB => 4 * MIB,
        bytes if bytes < 8192 * MIB => 8 * MIB,
        bytes if bytes < 4 << 40 => 16 * MIB,
        _ => 64 * MIB,
    }
}

/// Makes a store in a directory, which is made too if it is missing.
pub(super) fn in_dir(dir: &Path, settings: &Settings) -> Result<(Root, Superblock)> {
    intending(dir, |intent| with_intent(dir, settings, intent))
}

/// Makes a directory if it is missing, and a store in it, once a deletion that did not end there has
/// ended; a failure leaves neither what was made nor the intent.
pub(super) fn intending<R>(dir: &Path, make: impl FnOnce(&mut Intent) -> Result<R>) -> Result<R> {
    let made = make_dir(dir)?;
    let result = Intent::take(dir).and_then(|mut intent| {
        let result = destroy::end(dir, &mut intent)
            .and_then(|()| make(&mut intent))
            .map_err(|error| error.context(dir.display()));
        if result.is_err() {
            intent.withdraw();
        }
        result
    });
    if result.is_err() && made {
        // Succeeds only while the directory is empty, which is what is wanted.
        let _ = std::fs::remove_dir(dir);
    }
    result
}

fn with_intent(dir: &Path, settings: &Settings, intent: &mut Intent) -> Result<(Root, Superblock)> {
    intent.refuse(Making::Restore)?;
    let uuid = intent
        .earlier_uuid()
        .map_or_else(|| new_uuid(settings), Ok)?;
    let place = dir.display().to_string();
    let made = if settings.devices.is_empty() {
        let free_bytes = file_system_space(dir)?.free_bytes;
        let (shape, warning) = plan_file(dir, free_bytes, settings)?;
        check_data_file(dir, intent)?;
        let volumes = vec![PathBuf::from(DATA_NAME)];
        intent.announce(Making::Creation, &Manifest { uuid, volumes })?;
        let volume = make_data_file(dir, shape, settings)?;
        let (mut root, superblock) = write_heads(place, uuid, vec![volume], shape, settings)?;
        root.warnings.extend(warning);
        (root, superblock)
    } else {
        let paths = absolute(&settings.devices)?;
        let open = |path: &PathBuf| Volume::open(path, settings.io, false);
        let volumes = paths.iter().map(open).collect::<Result<Vec<_>>>()?;
        let shape = plan_volumes(&volumes, intent.earlier_uuid(), settings)?;
        let manifest = Manifest {
            uuid,
            volumes: paths,
        };
        intent.announce(Making::Creation, &manifest)?;
        write_heads(place, uuid, volumes, shape, settings)?
    };
    intent.commit()?;
    Ok(made)
}

/// Makes a store on volumes given directly.
pub(super) fn on_volumes(settings: &Settings) -> Result<(Root, Superblock)> {
    let volumes = Volume::given(&settings.volumes);
    let unfinished = volumes.first().and_then(unfinished_uuid);
    let shape = plan_volumes(&volumes, unfinished, settings)?;
    let uuid = unfinished.map_or_else(|| new_uuid(settings), Ok)?;
    let place = "the volumes given".to_owned();
    write_heads(place, uuid, volumes, shape, settings)
}

/// The identity that a creation which did not end has given to these volumes: it wrote the first
/// superblock, and had yet to write the label of the first volume, which comes last.
fn unfinished_uuid(first: &Volume) -> Option<StoreUuid> {
    if !matches!(first.label(), Ok(None)) {
        return None;
    }
    let written = |&offset: &u64| {
        let block = first.read_block(offset).ok()?;
        let superblock = Superblock::decode(offset, &block).ok()?;
        (superblock.generation == FIRST_GENERATION).then_some(superblock.uuid)
    };
    SUPERBLOCK_OFFSETS.iter().find_map(written)
}

/// The shape of a store on volumes that exist, all of which it may take.
pub(super) fn plan_volumes(
    volumes: &[Volume],
    unfinished: Option<StoreUuid>,
    settings: &Settings,
) -> Result<Shape> {
    for volume in volumes {
        volume.check_unused(unfinished)?;
    }
    let count = volumes.len();
    let Some(shortest) = volumes.iter().min_by_key(|volume| volume.len_bytes()) else {
        return Err(Error::internal("a store without volumes"));
    };
    let offered = shortest.len_bytes() * count as u64;
    let capacity = settings.capacity_bytes.unwrap_or(offered);
    let Some(shape) = shape_for(count, capacity, settings.segment_bytes) else {
        let each = least_capacity(count, settings, capacity) / count as u64;
        return Err(match settings.capacity_bytes {
            Some(_) => too_little_asked(count, settings, capacity),
            None => shortest.short(each, "the smallest store on these devices"),
        });
    };
    if shortest.len_bytes() < shape.volume_bytes {
        let what = format!(
            "a capacity of {capacity} bytes over {count} devices (capacity_bytes may be left out to take all there is)"
        );
        return Err(shortest.short(shape.volume_bytes, &what));
    }
    Ok(shape)
}

/// The shape of a store in one file of the directory, and a warning if it may not fit.
pub(super) fn plan_file(
    dir: &Path,
    free_bytes: u64,
    settings: &Settings,
) -> Result<(Shape, Option<String>)> {
    let capacity = settings.capacity_bytes.unwrap_or_else(|| {
        let reserve = (free_bytes / 20).min(RESERVE_BYTES_MAX);
        (free_bytes - reserve).min(FILE_CAPACITY_BYTES_MAX)
    });
    let Some(shape) = shape_for(1, capacity, settings.segment_bytes) else {
        if settings.capacity_bytes.is_some() {
            return Err(too_little_asked(1, settings, capacity));
        }
        let least = least_capacity(1, settings, capacity);
        return Err(Error::new(
            ErrorKind::Full,
            format!("the file system has {free_bytes} bytes free, and the smallest store needs {least} and a reserve of 5 %; free space, or choose another directory"),
        ));
    };
    let warning = (capacity > free_bytes).then(|| {
        format!("{}: the capacity of {capacity} bytes is more than the {free_bytes} bytes that the file system has free; the store fails when that is used up", dir.display())
    });
    Ok((shape, warning))
}

fn least_capacity(volumes: usize, settings: &Settings, capacity_bytes: u64) -> u64 {
    let segment_bytes = settings
        .segment_bytes
        .unwrap_or_else(|| default_segment_bytes(capacity_bytes));
    let flat_bytes = u64::from(SEGMENTS_MIN) * segment_bytes;
    let stripes = (flat_bytes / STRIPE_BYTES).div_ceil(volumes as u64);
    (HEAD_BYTES + stripes * STRIPE_BYTES) * volumes as u64
}

fn too_little_asked(volumes: usize, settings: &Settings, capacity_bytes: u64) -> Error {
    let least = least_capacity(volumes, settings, capacity_bytes);
    Error::invalid(format!(
        "capacity_bytes: {capacity_bytes} given; at least {least} are needed on {volumes} volumes: raise it, or lower segment_bytes"
    ))
}

/// Refuses to overwrite a file that no unfinished creation has made.
pub(super) fn check_data_file(dir: &Path, intent: &Intent) -> Result<()> {
    let path = dir.join(DATA_NAME);
    if !path.exists() || intent.earlier_names(Path::new(DATA_NAME)) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::StoreExists,
        format!("{}: the file is there already, and no HELIOX file says what it is; move it away, or choose another directory", path.display()),
    ))
}

pub(super) fn make_data_file(dir: &Path, shape: Shape, settings: &Settings) -> Result<Volume> {
    let path = dir.join(DATA_NAME);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io(
                "remove what an unfinished creation left",
                &path,
                error,
            ));
        }
        _ => {}
    }
    Volume::create_file(&path, shape.volume_bytes, settings.io)
}

/// Writes superblocks and labels; afterwards the volumes are a store.
fn write_heads(
    place: String,
    uuid: StoreUuid,
    volumes: Vec<Volume>,
    shape: Shape,
    settings: &Settings,
) -> Result<(Root, Superblock)> {
    let root = Root::assemble(place, uuid, volumes, shape.volume_bytes)?;
    let superblock = Superblock {
        uuid,
        generation: FIRST_GENERATION,
        incarnation: Incarnation(0),
        clean: true,
        unit_shift: unit_shift_for(shape.segment_bytes * u64::from(shape.segments)),
        segment_bytes: shape.segment_bytes,
        segments: shape.segments,
        sector_bytes: root.media().geometry().sector_bytes,
        hash_seed: settings.hash_seed.map_or_else(|| new_seed(settings), Ok)?,
        checkpoint: None,
        cuts: Vec::new(),
        keys: first_keys(uuid.salt(), settings)?,
    };
    write_superblock_and_labels(root, superblock, settings)
}

/// What makes volumes a store. Everything that the superblock refers to is durable before.
pub(super) fn write_superblock_and_labels(
    mut root: Root,
    superblock: Superblock,
    settings: &Settings,
) -> Result<(Root, Superblock)> {
    root.check_fit(&superblock)?;
    root.creation_bytes_written = root.write_superblock(&superblock)?;
    let (uuid, count) = (superblock.uuid, root.volumes.len());
    let created_ms = settings.environment.now_ms();
    let mut labels = Vec::with_capacity(count);
    for (position, volume) in root.volumes.iter().enumerate().rev() {
        let label = Label {
            uuid,
            volume: position as u16,
            volumes: count as u16,
            class: MediaClass(0),
            volume_bytes: root.volume_bytes,
            stripe_bytes: STRIPE_BYTES as u32,
            created_ms,
        };
        volume.write_block(LABEL_OFFSET, &label.encode())?;
        labels.push(label);
    }
    labels.reverse();
    root.labels = labels;
    root.creation_bytes_written += (count * BLOCK_BYTES) as u64;
    Ok((root, superblock))
}

pub(super) fn new_uuid(settings: &Settings) -> Result<StoreUuid> {
    let mut uuid = [0; 16];
    settings.environment.fill_random(&mut uuid)?;
    Ok(StoreUuid(uuid))
}

fn new_seed(settings: &Settings) -> Result<u64> {
    let mut seed = [0; 8];
    settings.environment.fill_random(&mut seed)?;
    Ok(u64::from_le_bytes(seed))
}

pub(super) fn absolute(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|error| Error::io("find the device", path, error))
    };
    paths.iter().map(absolute).collect()
}

/// Makes the directory with its parents, durably. True if it was missing.
fn make_dir(dir: &Path) -> Result<bool> {
    match std::fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => return Ok(false),
        Ok(_) => {
            return Err(Error::invalid(format!(
                "{}: it is a file, and a store lives in a directory; choose another path",
                dir.display()
            )));
        }
        Err(_) => {}
    }
    let missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.exists()).collect();
    std::fs::create_dir_all(dir).map_err(|e| Error::io("create the directory", dir, e))?;
    for made in missing {
        if let Some(parent) = made.parent() {
            let here = parent.as_os_str().is_empty();
            sync_dir(if here { Path::new(".") } else { parent })?;
        }
    }
    Ok(true)
}
