//! What a device promises, and the devices: files, block devices, stripes over several of them,
//! memory, and devices that fail on purpose.
//!
//! # Invariants
//! The trait [`Media`] carries the contract; every implementation here is tested against it.
//! Unsafe code is confined to `buffer`, `mapping`, `region`, `sys` and `uring`.
//!
//! # Threads
//! Every device may be used from any number of threads at once.

mod blocking;
mod buffer;
mod error;
mod fault;
mod file;
mod mapping;
mod memory;
mod random;
mod recording;
mod region;
mod ring;
mod shared;
pub mod space;
mod sticky;
mod striped;
mod sys;
mod uring;

use std::sync::Arc;

#[doc(hidden)]
pub use buffer::keep_large_buffers;
pub use buffer::AlignedBuf;
pub use error::{MediaError, Operation};
pub use fault::{FaultMedia, IoCounts};
#[doc(hidden)]
pub use file::{is_same_file, patiently};
pub use file::{FileMedia, FileOptions};
pub use memory::MemoryMedia;
#[doc(hidden)]
pub use random::Random;
pub use recording::{CrashChoice, RecordingMedia};
pub use region::{Piece, Region};
pub use ring::FileRing;
pub use striped::{StripedMedia, STRIPE_BYTES};

/// The shape of a device; fixed while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Geometry {
    /// Usable length; a multiple of the sector.
    pub len_bytes: u64,
    /// Grain of every request and of atomicity: a power of two from 512 to 4096.
    pub sector_bytes: u32,
    /// True if seeks cost: a spinning disk.
    pub rotational: bool,
    /// True if requests bypass the operating system's page cache.
    pub direct: bool,
}

impl Geometry {
    /// A device of this length and sector, not rotational, not direct.
    #[must_use]
    pub fn new(len_bytes: u64, sector_bytes: u32) -> Geometry {
        Geometry {
            len_bytes,
            sector_bytes,
            rotational: false,
            direct: false,
        }
    }
}

/// One read of a batch.
#[derive(Debug)]
pub struct Read<'a> {
    /// First byte on the device; a multiple of the sector.
    pub offset: u64,
    /// Where the bytes go; length and address are multiples of the sector.
    pub buf: &'a mut [u8],
}

/// How reads reach the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum IoMode {
    /// `io_uring` where the kernel grants it, else blocking calls.
    #[default]
    Auto,
    /// `io_uring`, or an error at open.
    Uring,
    /// Blocking calls (`pread`) only.
    Blocking,
}

/// How reads of an open device do reach the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IoKind {
    /// Batches go through `io_uring`.
    Uring,
    /// Every request is a blocking call.
    Blocking,
    /// No operating system involved.
    Memory,
}

/// A device: a flat array of sectors. The whole contract, on which everything above relies:
///
/// - **Alignment.** Offset, length and memory address of every request are multiples of
///   [`Geometry::sector_bytes`], else [`MediaError::Unaligned`]. An [`AlignedBuf`] always is. Empty
///   requests succeed and do nothing. Requests beyond the end give [`MediaError::OutOfRange`] and
///   do nothing.
/// - **Threads.** All methods may be called from any number of threads at once. Requests that
///   overlap in time and place, one of them a write, have no order: a read sees each *sector* either
///   before or after.
/// - **Visibility.** A write that has returned is seen by every later read, durable or not.
/// - **Durability.** When [`Media::sync`] returns `Ok`, every write that had returned before the
///   call to sync survives a crash. Without it a write may survive whole, in part, or not at all,
///   and independently of every other write since the last sync: **no order is promised between
///   unsynced writes**.
/// - **Torn writes.** A crash tears a write at sector grain only: each sector is wholly old or wholly
///   new. Neighbouring sectors that were not written are never harmed.
/// - **Sticky failure.** After the first write or sync that failed, every later write and sync gives
///   [`MediaError::Failed`] with that first cause, until the device is reopened; those that are under
///   way meanwhile do not report success either. A failed write leaves old, new, or any mix of whole
///   sectors. Reads go on, and a failed read is not sticky. Requests refused for their arguments are
///   not failures of the device.
/// - **Damage** is not detected here: whoever writes adds checksums.
pub trait Media: Send + Sync {
    /// The shape of the device. Free of cost.
    fn geometry(&self) -> Geometry;

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// See the contract; [`MediaError::ShortDevice`] if the device shrank.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError>;

    /// Fills all buffers, in no particular order, with one submission to the device where it can;
    /// all are complete on return. On an error the contents of all buffers are unspecified.
    ///
    /// # Errors
    /// The first one met; see [`Media::read_at`].
    fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
        for read in reads {
            self.read_at(read.offset, read.buf)?;
        }
        Ok(())
    }

    /// Writes all of `data` at `offset`. Not durable before [`Media::sync`].
    ///
    /// # Errors
    /// See the contract; sticky, except for refused arguments.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError>;

    /// Makes everything durable that was written before the call.
    ///
    /// # Errors
    /// See the contract; sticky.
    fn sync(&self) -> Result<(), MediaError>;

    /// Says that the bytes are no longer needed, so that their space can be given back. A hint:
    /// until they are written again, reads may give anything (even differing from read to read),
    /// and so may reads after a crash. Where the device cannot do it, nothing happens and the
    /// answer is `Ok`. Not sticky.
    ///
    /// # Errors
    /// Refused arguments, or an error of the operating system other than "not supported".
    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError>;

    /// Gives the range its blocks ahead of its use, where they come with the first write otherwise (a sparse
    /// file's): then a sync of what is written there need not wait for the file system to find some. Gives
    /// the bytes that were written for that. What was in the range is lost, as by [`Media::discard`]; nobody
    /// may use it meanwhile. A hint; not sticky.
    ///
    /// # Errors
    /// Refused arguments, or what the operating system says: no space is left, for instance.
    fn prepare(&self, offset: u64, len_bytes: u64) -> Result<u64, MediaError> {
        let _ = (offset, len_bytes);
        Ok(0)
    }

    /// The device's path or name, and how it is driven; for messages.
    fn describe(&self) -> String;

    /// Lets a range of `file`, from `at` on, share the device's blocks instead of copying them: on
    /// file systems with reflinks, and if everything is a multiple of their block. False, and the
    /// range of `file` is unspecified, if that cannot be done.
    fn clone_to(&self, offset: u64, len_bytes: u64, file: &std::fs::File, at: u64) -> bool {
        let _ = (offset, len_bytes, file, at);
        false
    }

    /// Bytes that the device really occupies: less than its length for a sparse file.
    ///
    /// # Errors
    /// If the operating system cannot say.
    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        Ok(self.geometry().len_bytes)
    }

    /// The first failed write or sync, if there was one: writes are refused since.
    fn failure(&self) -> Option<MediaError> {
        None
    }

    /// How reads reach the device.
    fn io_kind(&self) -> IoKind {
        IoKind::Blocking
    }

    /// The file behind the device, so that a batch over several files is one submission. Only
    /// devices that are a file and nothing else answer.
    #[doc(hidden)]
    fn as_file(&self) -> Option<&FileMedia> {
        None
    }
}

/// Checks one request's arguments against a device; `address` is that of the caller's memory, or 0.
fn check_request(
    device: &Arc<str>,
    geometry: &Geometry,
    offset: u64,
    len_bytes: u64,
    address: usize,
) -> Result<(), MediaError> {
    let mask = u64::from(geometry.sector_bytes) - 1;
    // The address of an empty slice means nothing.
    let address = if len_bytes == 0 { 0 } else { address };
    if (offset | len_bytes | address as u64) & mask != 0 {
        return Err(MediaError::Unaligned {
            device: Arc::clone(device),
            offset,
            len_bytes,
            address: address as u64,
            sector_bytes: geometry.sector_bytes,
        });
    }
    if offset
        .checked_add(len_bytes)
        .is_none_or(|end| end > geometry.len_bytes)
    {
        return Err(MediaError::OutOfRange {
            device: Arc::clone(device),
            offset,
            len_bytes,
            capacity_bytes: geometry.len_bytes,
        });
    }
    Ok(())
}
