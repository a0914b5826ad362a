//! Memory that goes back to the system when it is dropped.
//!
//! The C library's allocator keeps what is freed between what is not, and after the first large
//! buffer was freed it keeps large buffers too: a store that shrinks its cache while its index
//! grows would hold half as much again as its budget. So large buffers and the pieces of a
//! [`Region`](crate::Region) are mapped by themselves.
//!
//! Invariants: a mapping's bytes are initialised (zeros at first), its address and length are
//! multiples of the page, and it is unmapped once. Threads: whoever owns a mapping owns its bytes.
#![allow(unsafe_code)]

use std::ptr::NonNull;

/// Addresses of anonymous memory, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: a mapping owns its bytes alone, as a `Box<[u8]>` does.
unsafe impl Send for Mapping {}
// SAFETY: shared access hands out the address only; who reads or writes there argues for it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps zeroed memory; none if the system refuses. Pages take memory when they are touched.
    pub(crate) fn new(len_bytes: usize) -> Option<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mut kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // Miri, which interprets the tests, does not know the flag.
        if !cfg!(miri) {
            kind |= libc::MAP_NORESERVE;
        }
        // SAFETY: a new anonymous mapping at an address of the system's choice; it overlaps nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(Mapping {
            start: NonNull::new(start.cast())?,
            len_bytes,
        })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Gives the memory of a range of whole pages back; it reads as zeros afterwards.
    ///
    /// # Safety
    /// The range lies in the mapping, and nobody borrows bytes of it.
    pub(crate) unsafe fn give_back(&self, offset: usize, len_bytes: usize) {
        // SAFETY: by the caller's promise the range is ours and unborrowed. A refusal leaves the
        // pages as they are, which is sound: their content is nobody's.
        unsafe {
            let start = self.start.as_ptr().add(offset);
            if cfg!(miri) {
                // It does not know the call; this is what the call does to the bytes.
                start.write_bytes(0, len_bytes);
                return;
            }
            libc::madvise(start.cast(), len_bytes, libc::MADV_DONTNEED);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and is owned: nobody uses it now.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
