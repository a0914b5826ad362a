//! Whole reads and writes by `pread` and `pwrite`: interrupted calls are repeated, short ones
//! continued. No state; any thread.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::error::{MediaError, Operation};

/// Reads all of `buf` with blocking calls.
pub(crate) fn read_blocking(
    name: &Arc<str>,
    file: &File,
    offset: u64,
    buf: &mut [u8],
) -> Result<(), MediaError> {
    let len = buf.len();
    let mut done = 0;
    while done < len {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => return Err(short(name, Operation::Read, offset, len, done)),
            Ok(step) => done += step,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(MediaError::from_io(
                    name,
                    Operation::Read,
                    offset,
                    len,
                    &error,
                ));
            }
        }
    }
    Ok(())
}

/// Writes all of `data` with blocking calls.
pub(crate) fn write_blocking(
    name: &Arc<str>,
    file: &File,
    offset: u64,
    data: &[u8],
) -> Result<(), MediaError> {
    let len = data.len();
    let mut done = 0;
    while done < len {
        match file.write_at(&data[done..], offset + done as u64) {
            Ok(0) => return Err(short(name, Operation::Write, offset, len, done)),
            Ok(step) => done += step,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(MediaError::from_io(
                    name,
                    Operation::Write,
                    offset,
                    len,
                    &error,
                ));
            }
        }
    }
    Ok(())
}

/// The device ended early.
pub(crate) fn short(
    name: &Arc<str>,
    operation: Operation,
    offset: u64,
    len: usize,
    done: usize,
) -> MediaError {
    MediaError::ShortDevice {
        device: Arc::clone(name),
        operation,
        offset,
        len_bytes: len as u64,
        done_bytes: done as u64,
    }
}
