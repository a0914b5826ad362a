//! What can go wrong on a device: one typed error that says where, what and why.
//!
//! Invariant: every variant names its device, so that a message is useful without context. Errors
//! are plain data (`Clone`), because the first failure of a device is kept and handed to every
//! later writer. No threads, no I/O.

use std::fmt;
use std::sync::Arc;

/// What was being done when a device failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Opening, creating, locking or asking for the geometry.
    Open,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Making earlier writes durable.
    Sync,
    /// Giving space back.
    Discard,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::Discard => "discard",
        })
    }
}

/// An error of a device. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The operating system refused an operation; `errno` is its number.
    #[error("{device}: {operation} of {len_bytes} bytes at {offset} failed: {} (errno {errno})", errno_text(*.errno))]
    Io {
        /// The device.
        device: Arc<str>,
        /// What was being done.
        operation: Operation,
        /// First byte of the request; 0 where there is none.
        offset: u64,
        /// Length of the request; 0 where there is none.
        len_bytes: u64,
        /// The number that the operating system gave.
        errno: i32,
    },
    /// An earlier write or sync failed on this device, so no later one is reported as done. Reads
    /// go on. Reopen the store once the device is well again.
    #[error("{device}: refused, because the device failed earlier: {cause}")]
    Failed {
        /// The device.
        device: Arc<str>,
        /// The first failure.
        cause: Box<MediaError>,
    },
    /// The request reaches beyond the end of the device.
    #[error(
        "{device}: {len_bytes} bytes at {offset} reach beyond the device's {capacity_bytes} bytes"
    )]
    OutOfRange {
        /// The device.
        device: Arc<str>,
        /// First byte of the request.
        offset: u64,
        /// Length of the request.
        len_bytes: u64,
        /// Length of the device.
        capacity_bytes: u64,
    },
    /// Offset, length or memory address is no multiple of the device's sector.
    #[error("{device}: {len_bytes} bytes at {offset}, memory {address:#x}: not a multiple of the sector of {sector_bytes} bytes")]
    Unaligned {
        /// The device.
        device: Arc<str>,
        /// First byte of the request.
        offset: u64,
        /// Length of the request.
        len_bytes: u64,
        /// Address of the caller's memory; 0 where there is none.
        address: u64,
        /// What all three must be multiples of.
        sector_bytes: u32,
    },
    /// The device ended before the request did, although its geometry promised more: it shrank, or
    /// its file was truncated.
    #[error("{device}: {operation} of {len_bytes} bytes at {offset} stopped after {done_bytes}: the device is shorter than it was when it was opened")]
    ShortDevice {
        /// The device.
        device: Arc<str>,
        /// What was being done.
        operation: Operation,
        /// First byte of the request.
        offset: u64,
        /// Length of the request.
        len_bytes: u64,
        /// How much of it was done.
        done_bytes: u64,
    },
    /// Another process (or another handle of this one) holds the device.
    #[error("{device}: in use, by another process or by this one; close the other store (a device: unmount it), then open again")]
    InUse {
        /// The device.
        device: Arc<str>,
    },
    /// The device was closed: nothing is read or written through this handle any more.
    #[error("{device}: closed; open it again before using it")]
    Closed {
        /// The device.
        device: Arc<str>,
    },
    /// The device cannot carry a store: too small, an impossible sector, or not a file or device.
    #[error("{device}: not usable: {reason}")]
    Unusable {
        /// The device.
        device: Arc<str>,
        /// Why, in words.
        reason: String,
    },
    /// Memory for a buffer was refused, or its length is no multiple of 512.
    #[error("no memory for an aligned buffer of {len_bytes} bytes")]
    NoMemory {
        /// Length that was asked for.
        len_bytes: usize,
    },
    /// The media crate broke its own rules; nothing was done. Please report it.
    #[error("{device}: internal error: {what}")]
    Internal {
        /// The device.
        device: Arc<str>,
        /// Which rule.
        what: &'static str,
    },
}

impl MediaError {
    /// The number that the operating system gave, if it was asked; that of the first failure for
    /// [`MediaError::Failed`].
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            MediaError::Io { errno, .. } => Some(*errno),
            MediaError::Failed { cause, .. } => cause.errno(),
            _ => None,
        }
    }

    /// True if the device refuses writes from now on because an earlier one failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self, MediaError::Failed { .. })
    }

    /// An [`MediaError::Io`] from what the standard library reports.
    pub(crate) fn from_io(
        device: &Arc<str>,
        operation: Operation,
        offset: u64,
        len: usize,
        error: &std::io::Error,
    ) -> MediaError {
        MediaError::Io {
            device: Arc::clone(device),
            operation,
            offset,
            len_bytes: len as u64,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

fn errno_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_device_place_and_cause() {
        let cause = MediaError::Io {
            device: "/dev/x".into(),
            operation: Operation::Write,
            offset: 8192,
            len_bytes: 4096,
            errno: libc::ENOSPC,
        };
        let failed = MediaError::Failed {
            device: "/dev/x".into(),
            cause: Box::new(cause),
        };
        let text = failed.to_string();
        for part in ["/dev/x", "write of 4096 bytes at 8192", "errno 28"] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
        assert_eq!(failed.errno(), Some(libc::ENOSPC));
        assert!(failed.is_failed());
    }

    #[test]
    fn an_error_stays_small_enough_to_return() {
        assert!(std::mem::size_of::<MediaError>() <= 64);
    }
}
