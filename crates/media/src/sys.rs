//! The system calls that the standard library has no door for, each as a safe function.
//!
//! No state, no threads. Every function takes a borrowed file, so the descriptor is open for the
//! length of the call.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

// Numbers from linux/fs.h; the libc crate does not carry them all.
const BLKSSZGET: libc::Ioctl = 0x1268;
const BLKPBSZGET: libc::Ioctl = 0x127b;
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272u32 as libc::Ioctl;
const BLKDISCARD: libc::Ioctl = 0x1277;
const FICLONERANGE: libc::Ioctl = 0x4020_940d;

fn check(result: libc::c_int) -> Result<()> {
    if result < 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}

/// The length of a block device.
pub(crate) fn device_len_bytes(file: &File) -> Result<u64> {
    let mut len = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64 to the pointer, which is valid for that.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, std::ptr::from_mut(&mut len)) })?;
    Ok(len)
}

/// The logical sector of a block device: the grain of its requests.
pub(crate) fn device_logical_sector_bytes(file: &File) -> Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int to the pointer, which is valid for that.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKSSZGET, std::ptr::from_mut(&mut bytes)) })?;
    u32::try_from(bytes).map_err(|_| Error::from_raw_os_error(libc::EINVAL))
}

/// The physical sector of a block device: the grain at which it writes.
pub(crate) fn device_physical_sector_bytes(file: &File) -> Result<u32> {
    let mut bytes: libc::c_uint = 0;
    // SAFETY: BLKPBSZGET writes one unsigned int to the pointer, which is valid for that.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKPBSZGET, std::ptr::from_mut(&mut bytes)) })?;
    Ok(bytes)
}

/// Discards a range of a block device.
pub(crate) fn device_discard(file: &File, offset: u64, len_bytes: u64) -> Result<()> {
    let range = [offset, len_bytes];
    // SAFETY: BLKDISCARD reads two u64 from the pointer, which is valid for that.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) })
}

/// Gives the blocks of a range of a file back; the range reads as zeros, the length stays.
pub(crate) fn punch_hole(file: &File, offset: u64, len_bytes: u64) -> Result<()> {
    let too_large = |_| Error::from_raw_os_error(libc::EFBIG);
    let offset = libc::off64_t::try_from(offset).map_err(too_large)?;
    let len_bytes = libc::off64_t::try_from(len_bytes).map_err(too_large)?;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes numbers only.
    check(unsafe { libc::fallocate64(file.as_raw_fd(), mode, offset, len_bytes) })
}

/// Where the first byte at or after `offset` is that has no block, or one that was never written; the end
/// of the file if there is none.
pub(crate) fn first_hole(file: &File, offset: u64) -> Result<u64> {
    let too_large = |_| Error::from_raw_os_error(libc::EFBIG);
    let offset = libc::off64_t::try_from(offset).map_err(too_large)?;
    // SAFETY: takes numbers only. It moves the descriptor's position, which nobody uses.
    let hole = unsafe { libc::lseek64(file.as_raw_fd(), offset, libc::SEEK_HOLE) };
    u64::try_from(hole).map_err(|_| Error::last_os_error())
}

/// Lets a range of `to` share the blocks of a range of `from`. Refused by file systems that cannot.
pub(crate) fn clone_range(
    from: &File,
    offset: u64,
    len_bytes: u64,
    to: &File,
    at: u64,
) -> Result<()> {
    let source = i64::from(from.as_raw_fd()) as u64;
    // struct file_clone_range: four fields of 8 bytes.
    let range = [source, offset, len_bytes, at];
    // SAFETY: FICLONERANGE reads four u64 from the pointer, which is valid for that; both files
    // are open for the length of the call.
    check(unsafe { libc::ioctl(to.as_raw_fd(), FICLONERANGE, range.as_ptr()) })
}

/// Memory and offset alignment that direct I/O on this file demands, if the kernel says (Linux 6.1).
/// `Some(0)` means that direct I/O is not possible.
pub(crate) fn direct_alignment_bytes(file: &File) -> Option<u32> {
    let mut stat = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty C string (the descriptor itself is meant), and statx writes one
    // `struct statx` to the pointer, which is valid for that.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            stat.as_mut_ptr(),
        )
    };
    // SAFETY: all zeros is a valid `struct statx`, and the kernel wrote a valid one over it, or
    // nothing.
    let stat = unsafe { stat.assume_init() };
    let known = result == 0 && stat.stx_mask & libc::STATX_DIOALIGN != 0;
    known.then(|| stat.stx_dio_mem_align.max(stat.stx_dio_offset_align))
}

/// Blocks of a file system: `(block size, blocks, blocks free to ordinary users)`.
pub(crate) fn file_system(path: &Path) -> Result<(u64, u64, u64)> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut stat = MaybeUninit::<libc::statvfs64>::zeroed();
    // SAFETY: `path` is a C string that outlives the call; statvfs writes one `struct statvfs` to
    // the pointer, which is valid for that.
    check(unsafe { libc::statvfs64(path.as_ptr(), stat.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so the structure was written (and zeros were valid before).
    let stat = unsafe { stat.assume_init() };
    Ok((stat.f_frsize, stat.f_blocks, stat.f_bavail))
}
