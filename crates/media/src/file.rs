//! Files and block devices.
//!
//! Invariants: the descriptor is locked as long as the device is open, exclusively but for those that only
//! read, so that nobody writes a device that another one has; what is locked is the file of that name still, not one that was deleted
//! meanwhile. Each request holds the descriptor until it has ended, and closing
//! waits for all of them before it gives the lock back: what another one writes from then on is never
//! read here, and nothing is written here any more. Direct I/O is used where the file system accepts it, and
//! [`Geometry::direct`] says whether it is. A file is sparse: its length is the capacity, its blocks
//! come with the writes and go with discards.
//!
//! Threads: any. Reads and writes go to the kernel side by side. Syncs run one after the other,
//! because the kernel reports a failed write-back to one caller only: a sync that ran beside the
//! failing one would claim success. A caller who waited while a whole sync ran after its arrival
//! takes that one's result.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Error;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliox_format::limits::{SECTOR_BYTES_MAX, SECTOR_BYTES_MIN};
use heliox_sync::{Mutex, RwLock};

use crate::blocking::{read_blocking, write_blocking};
use crate::buffer::AlignedBuf;
use crate::error::{MediaError, Operation};
use crate::sticky::Sticky;
use crate::uring::{self, Request, RingPool};
use crate::{check_request, sys, Geometry, IoKind, IoMode, Media, Read};

/// How long what is in use is tried again, and how often.
const IN_USE_PATIENCE: Duration = Duration::from_millis(500);
const IN_USE_PAUSE: Duration = Duration::from_millis(2);
/// Between two looks whether the last request has ended.
const CLOSE_PAUSE: Duration = Duration::from_micros(200);

/// Zeros written at a time: readers of the device wait for no more.
const PREPARE_BYTES: usize = 256 << 10;

/// How a file or device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileOptions {
    /// How reads reach the kernel. Default: [`IoMode::Auto`].
    pub io_mode: IoMode,
    /// Bypass the page cache where the file system accepts it. Default: true.
    pub direct: bool,
    /// For reading alone: writes fail, and the lock is shared with others who only read. Default: false.
    pub read_only: bool,
}

impl Default for FileOptions {
    fn default() -> FileOptions {
        FileOptions {
            io_mode: IoMode::Auto,
            direct: true,
            read_only: false,
        }
    }
}

/// An open file or block device.
pub struct FileMedia {
    name: Arc<str>,
    /// None once it was closed. Requests hold a share of it.
    file: RwLock<Option<Arc<File>>>,
    is_device: bool,
    geometry: Geometry,
    sticky: Sticky,
    /// Where batches of reads go; none for blocking calls.
    rings: Option<&'static RingPool>,
    /// Syncs begun so far.
    syncs_begun: AtomicU64,
    sync_turn: Mutex<()>,
}

impl FileMedia {
    /// Creates a sparse file of `len_bytes`, durably (file and directory entry are synced), or takes
    /// the first `len_bytes` of an existing block device. The length is rounded down to the sector.
    ///
    /// # Errors
    /// [`MediaError::Io`] with `EEXIST` if a file is there already, [`MediaError::Unusable`] if the
    /// device is shorter, and as [`FileMedia::open`].
    pub fn create(
        path: &Path,
        len_bytes: u64,
        options: FileOptions,
    ) -> Result<FileMedia, MediaError> {
        let name = name_of(path);
        let is_device =
            std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device());
        if !is_device {
            create_file(path, len_bytes).map_err(|e| open_error(&name, &e))?;
        }
        let mut media = FileMedia::open(path, options)?;
        if media.geometry.len_bytes < rounded_down(len_bytes, media.geometry.sector_bytes) {
            let reason = format!(
                "{} bytes long, {len_bytes} wanted",
                media.geometry.len_bytes
            );
            return Err(MediaError::Unusable {
                device: name,
                reason,
            });
        }
        media.geometry.len_bytes = rounded_down(len_bytes, media.geometry.sector_bytes);
        Ok(media)
    }

    /// Opens an existing file or block device in its whole length, and locks it.
    ///
    /// # Errors
    /// [`MediaError::InUse`] if another process or handle has it, [`MediaError::Unusable`] if it is
    /// neither file nor block device, [`MediaError::Io`] for what the operating system refuses.
    pub fn open(path: &Path, options: FileOptions) -> Result<FileMedia, MediaError> {
        let name = name_of(path);
        let metadata = std::fs::metadata(path).map_err(|e| open_error(&name, &e))?;
        let is_device = metadata.file_type().is_block_device();
        if !is_device && !metadata.is_file() {
            let reason = "neither a file nor a block device".to_owned();
            return Err(MediaError::Unusable {
                device: name,
                reason,
            });
        }
        let (file, direct) = open_locked(&name, path, is_device, options)?;
        let geometry = geometry_of(&file, is_device, direct).map_err(|e| open_error(&name, &e))?;
        let rings = rings_for(&name, options.io_mode, direct, uring::shared())?;
        Ok(FileMedia {
            sticky: Sticky::new(Arc::clone(&name)),
            name,
            file: RwLock::new(Some(Arc::new(file))),
            is_device,
            geometry,
            rings,
            syncs_begun: AtomicU64::new(0),
            sync_turn: Mutex::new(()),
        })
    }

    /// True if requests bypass the page cache.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.geometry.direct
    }

    /// Closes and unlocks the device, so that another one may open it; waits for the requests under way.
    /// Later ones are refused as [`MediaError::Closed`]. Makes nothing durable.
    pub fn close(&self) {
        let Some(mut file) = self.file.write().take() else {
            return;
        };
        loop {
            match Arc::try_unwrap(file) {
                Ok(last) => {
                    // Closing alone would leave the lock to a child process that was forked meanwhile
                    // and has not replaced itself yet. Nothing is lost if it fails.
                    let _ = last.unlock();
                    return;
                }
                Err(shared) => file = shared,
            }
            std::thread::sleep(CLOSE_PAUSE);
        }
    }

    /// The descriptor, for one request.
    pub(crate) fn file(&self) -> Result<Arc<File>, MediaError> {
        let file = self.file.read().clone();
        file.ok_or_else(|| MediaError::Closed {
            device: Arc::clone(&self.name),
        })
    }

    pub(crate) fn check(&self, offset: u64, len: usize, address: usize) -> Result<(), MediaError> {
        check_request(&self.name, &self.geometry, offset, len as u64, address)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Where a write or sync that failed is remembered.
    pub(crate) fn sticky(&self) -> &Sticky {
        &self.sticky
    }

    /// The rings that this file's batches go to; none for blocking calls.
    pub(crate) fn rings(&self) -> Option<&'static RingPool> {
        self.rings
    }

    /// One read for a ring; the arguments were checked.
    pub(crate) fn request<'a>(
        &'a self,
        offset: u64,
        buf: &'a mut [u8],
    ) -> Result<Request<'a>, MediaError> {
        Ok(self.request_on(self.file()?, offset, buf))
    }

    fn request_on<'a>(&'a self, file: Arc<File>, offset: u64, buf: &'a mut [u8]) -> Request<'a> {
        Request {
            name: &self.name,
            file,
            offset,
            buf,
        }
    }

    /// `None` if there are no rings, or none is free.
    fn read_by_ring(
        &self,
        file: &Arc<File>,
        reads: &mut [Read<'_>],
    ) -> Option<Result<(), MediaError>> {
        let rings = self.rings.filter(|_| reads.len() > 1)?;
        let mut requests: Vec<_> = reads
            .iter_mut()
            .map(|read| self.request_on(Arc::clone(file), read.offset, read.buf))
            .collect();
        rings.read(&mut requests)
    }

    fn sync_in_turn(&self) -> Result<(), MediaError> {
        let begun = self.syncs_begun.load(Ordering::SeqCst);
        let file = self.file()?;
        let _turn = self.sync_turn.lock();
        self.sticky.check()?;
        if self.syncs_begun.load(Ordering::SeqCst) > begun {
            // One began after our arrival and, since we hold the turn, has ended well.
            return Ok(());
        }
        self.syncs_begun.fetch_add(1, Ordering::SeqCst);
        self.sticky.guard(|| {
            file.sync_data()
                .map_err(|e| MediaError::from_io(&self.name, Operation::Sync, 0, 0, &e))
        })
    }
}

impl std::fmt::Debug for FileMedia {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Media for FileMedia {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.check(offset, buf.len(), buf.as_ptr() as usize)?;
        read_blocking(&self.name, &*self.file()?, offset, buf)
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
        for read in reads.iter() {
            self.check(read.offset, read.buf.len(), read.buf.as_ptr() as usize)?;
        }
        let file = self.file()?;
        if let Some(result) = self.read_by_ring(&file, reads) {
            return result;
        }
        reads
            .iter_mut()
            .try_for_each(|read| read_blocking(&self.name, &file, read.offset, read.buf))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.check(offset, data.len(), data.as_ptr() as usize)?;
        let file = self.file()?;
        self.sticky
            .guard(|| write_blocking(&self.name, &file, offset, data))
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.sync_in_turn()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        check_request(&self.name, &self.geometry, offset, len_bytes, 0)?;
        if len_bytes == 0 {
            return Ok(());
        }
        let discard = if self.is_device {
            sys::device_discard
        } else {
            sys::punch_hole
        };
        match discard(&*self.file()?, offset, len_bytes) {
            Err(error) if !is_unsupported(&error) => Err(MediaError::from_io(
                &self.name,
                Operation::Discard,
                offset,
                len_bytes as usize,
                &error,
            )),
            _ => Ok(()),
        }
    }

    fn prepare(&self, offset: u64, len_bytes: u64) -> Result<u64, MediaError> {
        check_request(&self.name, &self.geometry, offset, len_bytes, 0)?;
        let end = offset + len_bytes;
        if self.is_device || len_bytes == 0 {
            return Ok(0);
        }
        let file = self.file()?;
        let hole = match sys::first_hole(&file, offset) {
            Ok(hole) => rounded_down(hole.max(offset), self.geometry.sector_bytes),
            // A file system that does not say.
            Err(_) => return Ok(0),
        };
        let zeros = AlignedBuf::new(PREPARE_BYTES)?;
        let mut at = hole;
        while at < end {
            let step = (end - at).min(PREPARE_BYTES as u64);
            write_blocking(&self.name, &file, at, &zeros[..step as usize])?;
            at += step;
        }
        Ok(end.saturating_sub(hole))
    }

    fn describe(&self) -> String {
        let kind = if self.is_device { "device" } else { "file" };
        let path = if self.geometry.direct {
            "direct"
        } else {
            "through the page cache"
        };
        format!(
            "{} ({kind}, {path}, sector {})",
            self.name, self.geometry.sector_bytes
        )
    }

    fn clone_to(&self, offset: u64, len_bytes: u64, file: &File, at: u64) -> bool {
        !self.is_device
            && check_request(&self.name, &self.geometry, offset, len_bytes, 0).is_ok()
            && self
                .file()
                .is_ok_and(|own| sys::clone_range(&own, offset, len_bytes, file, at).is_ok())
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        if self.is_device {
            return Ok(self.geometry.len_bytes);
        }
        let metadata = self
            .file()?
            .metadata()
            .map_err(|e| open_error(&self.name, &e))?;
        Ok(metadata.blocks() * 512)
    }

    fn failure(&self) -> Option<MediaError> {
        self.sticky.cause()
    }

    fn io_kind(&self) -> IoKind {
        match self.rings {
            Some(_) => IoKind::Uring,
            None => IoKind::Blocking,
        }
    }

    fn as_file(&self) -> Option<&FileMedia> {
        Some(self)
    }
}

/// Which rings a file uses. Through the page cache, rings would only move copying to kernel
/// threads, so they are used there on demand only.
fn rings_for<'p>(
    name: &Arc<str>,
    mode: IoMode,
    direct: bool,
    granted: Result<&'p RingPool, i32>,
) -> Result<Option<&'p RingPool>, MediaError> {
    match (mode, granted) {
        (IoMode::Blocking, _) | (IoMode::Auto, Err(_)) => Ok(None),
        (IoMode::Auto, Ok(pool)) => Ok(Some(pool).filter(|_| direct)),
        (IoMode::Uring, Ok(pool)) => Ok(Some(pool)),
        (IoMode::Uring, Err(errno)) => Err(no_uring(name, errno)),
    }
}

pub(crate) fn no_uring(device: &Arc<str>, errno: i32) -> MediaError {
    MediaError::Unusable {
        device: Arc::clone(device),
        reason: format!("the kernel grants no io_uring (errno {errno})"),
    }
}

fn name_of(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

fn open_error(name: &Arc<str>, error: &Error) -> MediaError {
    if error.raw_os_error() == Some(libc::EBUSY) {
        return MediaError::InUse {
            device: Arc::clone(name),
        };
    }
    MediaError::from_io(name, Operation::Open, 0, 0, error)
}

fn rounded_down(len_bytes: u64, sector_bytes: u32) -> u64 {
    len_bytes - len_bytes % u64::from(sector_bytes)
}

fn is_unsupported(error: &Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY)
    )
}

/// Creates a sparse file and makes it and its name durable.
fn create_file(path: &Path, len_bytes: u64) -> Result<(), Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let made = make_durable(&file, path, len_bytes);
    if made.is_err() {
        // Half a device would be in the way of the next attempt.
        let _ = std::fs::remove_file(path);
    }
    made
}

fn make_durable(file: &File, path: &Path, len_bytes: u64) -> Result<(), Error> {
    file.set_len(len_bytes)?;
    file.sync_all()?;
    let parent = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// Opens for reading and writing; the flag says whether direct I/O is on.
fn open_descriptor(
    path: &Path,
    is_device: bool,
    options: FileOptions,
) -> Result<(File, bool), Error> {
    // O_EXCL on a block device: refused while it is mounted or otherwise claimed.
    let base = if is_device { libc::O_EXCL } else { 0 };
    let open = |flags| {
        OpenOptions::new()
            .read(true)
            .write(!options.read_only)
            .custom_flags(flags)
            .open(path)
    };
    if options.direct {
        match open(base | libc::O_DIRECT) {
            Ok(file) if sys::direct_alignment_bytes(&file) != Some(0) => return Ok((file, true)),
            // The file system does not know direct I/O: go through the page cache.
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((open(base)?, false))
}

impl Drop for FileMedia {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens and locks.
fn open_locked(
    name: &Arc<str>,
    path: &Path,
    is_device: bool,
    options: FileOptions,
) -> Result<(File, bool), MediaError> {
    let open = || open_descriptor(path, is_device, options);
    locked(name, path, is_device, options.read_only, open)
}

/// Locks what `open` gives. A file that is not at `path` once it is locked was deleted or replaced after
/// its opening: what was written to it would be gone. The next try opens what is there now.
fn locked(
    name: &Arc<str>,
    path: &Path,
    is_device: bool,
    shared: bool,
    open: impl Fn() -> Result<(File, bool), Error>,
) -> Result<(File, bool), MediaError> {
    let attempt = || {
        let (file, direct) = open().map_err(|e| open_error(name, &e))?;
        lock(name, &file, shared)?;
        if is_device || is_same_file(&file, path) {
            return Ok((file, direct));
        }
        Err(MediaError::InUse {
            device: Arc::clone(name),
        })
    };
    patiently(attempt, |error| matches!(error, MediaError::InUse { .. }))
}

/// True if `path` leads to this open file.
#[doc(hidden)]
#[must_use]
pub fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.dev() == named.dev() && open.ino() == named.ino(),
        _ => false,
    }
}

/// Tries again for a moment while something is in use: the kernel lets go of the files of a process
/// that was killed some milliseconds after the process is gone, if it read through `io_uring`.
///
/// # Errors
/// The last one of `attempt`.
#[doc(hidden)]
pub fn patiently<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_in_use: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_in_use(&error) && begun.elapsed() < IN_USE_PATIENCE => {
                std::thread::sleep(IN_USE_PAUSE);
            }
            other => return other,
        }
    }
}

fn lock(name: &Arc<str>, file: &File, shared: bool) -> Result<(), MediaError> {
    let locked = match shared {
        true => file.try_lock_shared(),
        false => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(MediaError::InUse {
            device: Arc::clone(name),
        }),
        Err(TryLockError::Error(error)) => Err(open_error(name, &error)),
    }
}

fn geometry_of(file: &File, is_device: bool, direct: bool) -> Result<Geometry, Error> {
    let metadata = file.metadata()?;
    let (len_bytes, id) = if is_device {
        (sys::device_len_bytes(file)?, metadata.rdev())
    } else {
        (metadata.len(), metadata.dev())
    };
    let needed = if is_device {
        sys::device_logical_sector_bytes(file)?.max(sys::device_physical_sector_bytes(file)?)
    } else {
        let physical = queue_number(id, "physical_block_size").unwrap_or(SECTOR_BYTES_MAX as u64);
        physical.min(SECTOR_BYTES_MAX as u64) as u32
    };
    let aligned = if direct {
        sys::direct_alignment_bytes(file).unwrap_or(0)
    } else {
        0
    };
    let sector_bytes = needed
        .max(aligned)
        .next_power_of_two()
        .clamp(SECTOR_BYTES_MIN as u32, SECTOR_BYTES_MAX as u32);
    let rotational = queue_number(id, "rotational") == Some(1);
    let len_bytes = rounded_down(len_bytes, sector_bytes);
    Ok(Geometry {
        len_bytes,
        sector_bytes,
        rotational,
        direct,
    })
}

/// A number that the kernel publishes about the queue of a block device (or of the disk that a
/// partition is on); none for file systems without one device.
fn queue_number(id: u64, what: &str) -> Option<u64> {
    let base = PathBuf::from(format!(
        "/sys/dev/block/{}:{}",
        libc::major(id),
        libc::minor(id)
    ));
    let read = |dir: &str| std::fs::read_to_string(base.join(dir).join(what)).ok();
    read("queue")
        .or_else(|| read("../queue"))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_given_back_when_the_last_request_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let media = FileMedia::create(&path, 1 << 20, FileOptions::default()).unwrap();
        let request = media.file().unwrap();
        let other = File::open(&path).unwrap();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| media.close());
            while media.file().is_ok() {
                std::thread::yield_now();
            }
            assert!(other.try_lock().is_err(), "given back under a request");
            drop(request);
            closing.join().unwrap();
        });
        other.try_lock().unwrap();
    }

    /// Somebody deletes, or replaces, the file between its opening and the lock.
    #[test]
    fn a_file_that_was_deleted_before_it_was_locked_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for is_replaced in [false, true] {
            std::fs::write(&path, "old").unwrap();
            let gone = std::cell::Cell::new(false);
            let open = || {
                let options = FileOptions {
                    direct: false,
                    ..FileOptions::default()
                };
                let file = open_descriptor(&path, false, options)?;
                if !gone.replace(true) {
                    std::fs::remove_file(&path)?;
                    if is_replaced {
                        std::fs::write(&path, "another")?;
                    }
                }
                Ok(file)
            };
            let taken = locked(&name_of(&path), &path, false, false, open);
            if is_replaced {
                let (file, _) = taken.unwrap();
                assert_eq!(file.metadata().unwrap().len(), "another".len() as u64);
            } else {
                assert_eq!(taken.unwrap_err().errno(), Some(libc::ENOENT));
            }
        }
    }
}
