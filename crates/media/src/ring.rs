//! Requests of one thread that are under way side by side on a file: for who keeps a device at a depth, as a
//! measurement does. A store does not: its threads wait for what they read.
//!
//! Invariants: a request holds its buffer and the descriptor until it is complete. What the kernel left short
//! or undone is finished by blocking calls before it is given back. Writes keep the contract of [`Media`]'s,
//! the sticky failure too.
//!
//! Threads: one at a time has a ring; a file may have any number of rings.
//!
//! [`Media`]: crate::Media

use std::io::Error;

use crate::blocking::{read_blocking, write_blocking};
use crate::buffer::AlignedBuf;
use crate::error::{MediaError, Operation};
use crate::file::{no_uring, FileMedia};
use crate::uring::{done_bytes, Owned, OwnedRing};

/// Reads and writes of one file by an `io_uring` of their own, complete in any order. A `T` goes with each,
/// to know it by.
///
/// Dropping it waits for what is under way. So does [`FileMedia::close`]: do not call it from the thread that
/// has the ring.
pub struct FileRing<'m, T> {
    media: &'m FileMedia,
    ring: OwnedRing<T>,
}

impl<'m, T> FileRing<'m, T> {
    /// A ring on a file, whatever the way in which the file reads otherwise.
    ///
    /// # Errors
    /// [`MediaError::Unusable`] if the kernel grants no ring.
    pub fn new(media: &'m FileMedia) -> Result<FileRing<'m, T>, MediaError> {
        let ring = OwnedRing::new().map_err(|errno| no_uring(media.name(), errno))?;
        Ok(FileRing { media, ring })
    }

    /// Begins a read that fills `buf`; with 64 under way, waits for one of them first.
    ///
    /// # Errors
    /// Refused arguments, as in the contract of `Media`; what the kernel says of the ring.
    pub fn read(&mut self, offset: u64, buf: AlignedBuf, token: T) -> Result<(), MediaError> {
        self.start(false, offset, buf, token)
    }

    /// Begins a write of all of `buf`, as [`FileRing::read`] does. Not durable before a sync that begins after it
    /// was given back.
    ///
    /// # Errors
    /// As [`FileRing::read`], and [`MediaError::Failed`] if a write or sync failed before.
    pub fn write(&mut self, offset: u64, buf: AlignedBuf, token: T) -> Result<(), MediaError> {
        self.media.sticky().check()?;
        self.start(true, offset, buf, token)
    }

    /// Gives the next that is complete back, whole; `None` if nothing is under way.
    ///
    /// # Errors
    /// What went wrong with that request, whose buffer is lost; as `Media` has it.
    pub fn wait(&mut self) -> Result<Option<(T, AlignedBuf)>, MediaError> {
        let next = self.ring.wait();
        let Some((mut request, result)) = next.map_err(|error| self.ring_error(&error))? else {
            return Ok(None);
        };
        let finished = self.finish(&mut request, result);
        match request.is_write {
            true => self.media.sticky().guard(|| finished)?,
            false => finished?,
        }
        Ok(Some((request.token, request.buf)))
    }

    fn start(
        &mut self,
        is_write: bool,
        offset: u64,
        buf: AlignedBuf,
        token: T,
    ) -> Result<(), MediaError> {
        self.media.check(offset, buf.len(), buf.as_ptr() as usize)?;
        let request = Owned {
            file: self.media.file()?,
            is_write,
            offset,
            buf,
            token,
        };
        let started = self.ring.start(request);
        started.map_err(|error| self.ring_error(&error))
    }

    fn finish(&self, request: &mut Owned<T>, result: i32) -> Result<(), MediaError> {
        let name = self.media.name();
        let operation = match request.is_write {
            true => Operation::Write,
            false => Operation::Read,
        };
        let (offset, len) = (request.offset, request.buf.len());
        let done = done_bytes(result).map_err(|errno| {
            let error = Error::from_raw_os_error(errno);
            MediaError::from_io(name, operation, offset, len, &error)
        })?;
        let Some(rest) = request.buf.get_mut(done..) else {
            return Ok(());
        };
        let at = offset + done as u64;
        match operation {
            Operation::Write => write_blocking(name, &request.file, at, rest),
            _ => read_blocking(name, &request.file, at, rest),
        }
    }

    fn ring_error(&self, error: &Error) -> MediaError {
        MediaError::from_io(self.media.name(), Operation::Read, 0, 0, error)
    }
}

impl<T> std::fmt::Debug for FileRing<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileRing({})", self.media.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileOptions, Media};

    #[test]
    fn what_was_cut_short_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let options = FileOptions {
            direct: false,
            ..FileOptions::default()
        };
        let media = FileMedia::create(&dir.path().join("f"), 8192, options).unwrap();
        let Ok(ring) = FileRing::<()>::new(&media) else {
            println!("skipped: the kernel grants no io_uring");
            return;
        };
        let request = |is_write, byte| {
            let mut buf = AlignedBuf::new(4096).unwrap();
            buf.fill(byte);
            Owned {
                file: media.file().unwrap(),
                is_write,
                offset: 4096,
                buf,
                token: (),
            }
        };
        ring.finish(&mut request(true, 7), 1000).unwrap();
        let mut read = request(false, 9);
        ring.finish(&mut read, 500).unwrap();
        let bytes = [499, 500, 999, 1000, 4095].map(|at| read.buf[at]);
        assert_eq!(bytes, [9, 0, 0, 7, 7]);
        ring.finish(&mut read, -libc::EAGAIN).unwrap();
        assert_eq!([read.buf[0], read.buf[1000]], [0, 7]);
        let error = ring.finish(&mut read, -libc::EIO).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EIO));
        assert!(media.failure().is_none());
    }
}
