//! Memory that a device can read into and write from directly.
//!
//! Invariants: the address is a multiple of [`AlignedBuf::ALIGN_BYTES`], the length a multiple of
//! 512 that never changes, and every byte is initialised. Buffers of up to 64 KiB come from and go
//! back to a small free list of the thread, so that a cold read does not call the allocator; a
//! thread keeps at most [`POOL_BYTES_MAX`] bytes. A simulation, which reads whole segments all day,
//! lets its thread keep large ones too ([`keep_large_buffers`]). Threads: a buffer may move between threads and
//! goes to the list of the thread that drops it.
#![allow(unsafe_code)]

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::error::MediaError;
use crate::mapping::Mapping;

/// What a buffer's length must be a multiple of.
const LEN_GRAIN_BYTES: usize = 512;
/// Size classes of the free list: 4, 8, 16, 32 and 64 KiB.
const POOL_CLASSES: usize = 5;
/// Buffers from this size on are mapped by themselves.
const MAPPED_BYTES_MIN: usize = 256 << 10;
/// Most bytes that one thread keeps in its free list.
const POOL_BYTES_MAX: usize = 512 << 10;

/// Most large buffers that a thread keeps which was told to.
const LARGE_MAX: usize = 8;

/// Bytes at a 4096-aligned address, of a length fixed at creation.
pub struct AlignedBuf {
    memory: Memory,
    len: usize,
}

/// One allocation of exactly `capacity` bytes, aligned, initialised, freed on drop: from the
/// allocator, or mapped if it is large.
struct Memory {
    start: NonNull<u8>,
    capacity: usize,
    mapping: Option<Mapping>,
}

// SAFETY: a `Memory` owns its bytes alone (no other pointer to them exists), as a `Box<[u8]>` does.
unsafe impl Send for Memory {}
// SAFETY: shared access only reads, as with `Box<[u8]>`.
unsafe impl Sync for Memory {}

impl AlignedBuf {
    /// The alignment of every buffer.
    pub const ALIGN_BYTES: usize = 4096;

    /// A zeroed buffer of `len` bytes, a multiple of 512. Buffers of up to 64 KiB cost a `memset`
    /// only, once the thread has dropped one of their size.
    ///
    /// # Errors
    /// [`MediaError::NoMemory`] if memory is refused or the length is no multiple of 512.
    pub fn new(len: usize) -> Result<AlignedBuf, MediaError> {
        let mut fresh = true;
        let mut buffer = AlignedBuf::take(len, &mut fresh)?;
        if !fresh {
            buffer.fill(0);
        }
        Ok(buffer)
    }

    /// As [`AlignedBuf::new`], but the bytes are whatever an earlier user of the memory left: for
    /// callers that overwrite all of it.
    ///
    /// # Errors
    /// As [`AlignedBuf::new`].
    pub fn for_read(len: usize) -> Result<AlignedBuf, MediaError> {
        AlignedBuf::take(len, &mut true)
    }

    fn take(len: usize, fresh: &mut bool) -> Result<AlignedBuf, MediaError> {
        if !len.is_multiple_of(LEN_GRAIN_BYTES) {
            return Err(MediaError::NoMemory { len_bytes: len });
        }
        let capacity = class_of(len).map_or(len.max(LEN_GRAIN_BYTES), class_bytes);
        let memory = match pool_take(len) {
            Some(memory) => {
                *fresh = false;
                memory
            }
            None => Memory::allocate(capacity)?,
        };
        Ok(AlignedBuf { memory, len })
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `memory` owns `capacity >= len` initialised bytes at `start`, and the borrow of
        // `self` keeps them alive and unwritten.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the unique borrow of `self` makes the slice unique.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        let memory = Memory {
            start: self.memory.start,
            capacity: self.memory.capacity,
            mapping: self.memory.mapping.take(),
        };
        // The field's own drop must not free what the pool now owns: see `Memory::drop`.
        self.memory.capacity = 0;
        pool_give(memory);
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

impl Memory {
    fn allocate(capacity: usize) -> Result<Memory, MediaError> {
        let refused = MediaError::NoMemory {
            len_bytes: capacity,
        };
        let layout = Layout::from_size_align(capacity, AlignedBuf::ALIGN_BYTES)
            .map_err(|_| refused.clone())?;
        if capacity == 0 {
            return Err(refused);
        }
        if capacity >= MAPPED_BYTES_MIN {
            let mapping = Mapping::new(capacity).ok_or(refused)?;
            return Ok(Memory {
                start: mapping.start(),
                capacity,
                mapping: Some(mapping),
            });
        }
        // SAFETY: the layout's size is not zero (checked above).
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        Ok(Memory {
            start,
            capacity,
            mapping: None,
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A capacity of 0 marks memory whose ownership went elsewhere.
        let Ok(layout) = Layout::from_size_align(self.capacity, AlignedBuf::ALIGN_BYTES) else {
            return;
        };
        if self.capacity != 0 && self.mapping.is_none() {
            // SAFETY: `start` came from `alloc_zeroed` with this very layout, and nobody else
            // frees it: whoever takes ownership away sets `capacity` to 0.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

#[derive(Default)]
struct Pool {
    classes: [Vec<Memory>; POOL_CLASSES],
    held_bytes: usize,
    /// Buffers that are mapped by themselves, where the thread keeps them.
    large: Vec<Memory>,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool::default());
    static KEEPS_LARGE: Cell<bool> = const { Cell::new(false) };
}

/// From now on this thread keeps a few large buffers instead of giving them back to the system,
/// whose pages cost a simulation a third of its time. Not for a store that lives within a budget.
#[doc(hidden)]
pub fn keep_large_buffers() {
    KEEPS_LARGE.set(true);
}

/// The smallest size class that holds `len` bytes.
fn class_of(len: usize) -> Option<usize> {
    (0..POOL_CLASSES).find(|&class| len <= class_bytes(class))
}

fn class_bytes(class: usize) -> usize {
    AlignedBuf::ALIGN_BYTES << class
}

fn pool_take(len: usize) -> Option<Memory> {
    let Some(class) = class_of(len) else {
        return large_take(len);
    };
    // `try_with`: a buffer may be used while the thread's own storage is already being torn down.
    POOL.try_with(|pool| {
        let mut pool = pool.try_borrow_mut().ok()?;
        let memory = pool.classes.get_mut(class)?.pop()?;
        pool.held_bytes -= memory.capacity;
        Some(memory)
    })
    .ok()
    .flatten()
}

fn large_take(len: usize) -> Option<Memory> {
    let take = |pool: &RefCell<Pool>| {
        let mut pool = pool.try_borrow_mut().ok()?;
        let n = pool.large.iter().position(|m| m.capacity == len)?;
        Some(pool.large.swap_remove(n))
    };
    POOL.try_with(take).ok().flatten()
}

fn pool_give(memory: Memory) {
    let mut memory = Some(memory);
    let _ = POOL.try_with(|pool| {
        let Ok(mut pool) = pool.try_borrow_mut() else {
            return;
        };
        let Some(given) = memory.take() else { return };
        let bytes = given.capacity;
        let class = class_of(bytes).filter(|&class| class_bytes(class) == bytes);
        if let Some(class) = class.filter(|_| pool.held_bytes + bytes <= POOL_BYTES_MAX) {
            pool.held_bytes += bytes;
            pool.classes[class].push(given);
        } else if given.mapping.is_some() && KEEPS_LARGE.get() && pool.large.len() < LARGE_MAX {
            pool.large.push(given);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_reused() {
        // The last one is interpreted byte by byte.
        let lengths = [512, 4096, 12_288, 65_536, 1 << 20];
        for len in &lengths[..if cfg!(miri) { 2 } else { 5 }] {
            let len = *len;
            let mut buffer = AlignedBuf::new(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr() as usize % AlignedBuf::ALIGN_BYTES, 0);
            assert!(buffer.iter().all(|&b| b == 0));
            buffer.fill(0xee);
        }
        let again = AlignedBuf::for_read(4096).unwrap();
        assert!(
            again.iter().all(|&b| b == 0xee),
            "the free list was not used"
        );
        drop(again);
        assert!(AlignedBuf::new(4096).unwrap().iter().all(|&b| b == 0));
    }

    #[test]
    fn the_free_list_is_bounded() {
        let many: Vec<_> = (0..64).map(|_| AlignedBuf::new(65_536).unwrap()).collect();
        drop(many);
        POOL.with(|pool| assert_eq!(pool.borrow().held_bytes, POOL_BYTES_MAX));
    }

    #[test]
    fn large_buffers_are_kept_only_by_threads_that_were_told() {
        let len = 1 << 20;
        let is_reused = move || {
            AlignedBuf::new(len).unwrap().fill(0xee);
            let again = AlignedBuf::for_read(len).unwrap();
            again.iter().all(|&b| b == 0xee)
        };
        assert!(!is_reused());
        std::thread::spawn(move || {
            keep_large_buffers();
            assert!(is_reused());
            assert!(AlignedBuf::new(len).unwrap().iter().all(|&b| b == 0));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn odd_and_absurd_lengths_are_refused() {
        assert!(AlignedBuf::new(100).is_err());
        assert!(AlignedBuf::new(usize::MAX & !511).is_err());
        assert_eq!(AlignedBuf::new(0).unwrap().len(), 0);
    }

    #[test]
    fn a_buffer_may_die_on_another_thread() {
        let buffer = AlignedBuf::new(8192).unwrap();
        std::thread::spawn(move || assert_eq!(buffer.len(), 8192))
            .join()
            .unwrap();
    }
}
