//! The arena of 512-byte blocks that all leaves take theirs from.
//!
//! Memory comes in chunks that are reserved whole, touched as they are used, and never given
//! back while the arena lives; freed blocks are used again.
//!
//! Invariants: a [`BlockRef`] is a token, neither copied nor cloned, made by `alloc` of one arena
//! and given back to the same one; so two live tokens never name one block, and whoever borrows
//! the token may borrow the block in the same way. All memory of a chunk is initialised (zeros).
//!
//! Threads: `alloc` and `free` lock the list; access to a block needs its token alone.
#![allow(unsafe_code)]

use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use heliox_sync::Mutex;

/// Entries in a block.
pub(crate) const BLOCK_ENTRIES: usize = 46;
/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 512;
/// Bytes of an entry beside its slice.
pub(crate) const REST_BYTES: usize = 9;

/// Blocks reserved at a time: 64 MiB of addresses.
const CHUNK_BLOCKS: usize = 1 << 17;
const CHUNK_BYTES: usize = CHUNK_BLOCKS * BLOCK_BYTES;
/// Most chunks: 64 GiB of index, more than five thousand million entries.
const CHUNKS_MAX: usize = 1024;

/// 46 entries: slices apart from the rest, so that a search touches few cache lines.
#[repr(C, align(512))]
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) slices: [u16; BLOCK_ENTRIES],
    pub(crate) rests: [[u8; REST_BYTES]; BLOCK_ENTRIES],
    spare: [u8; 6],
}

const _: () = assert!(std::mem::size_of::<Block>() == BLOCK_BYTES);

/// The right to one block of an arena.
#[derive(Debug)]
pub(crate) struct BlockRef(NonZeroU32);

/// The arena refused: there is no memory.
#[derive(Debug)]
pub(crate) struct NoMemory;

#[derive(Default)]
struct List {
    free: Vec<BlockRef>,
    /// Blocks ever handed out; the next new one.
    used: usize,
}

/// The arena.
pub(crate) struct Blocks {
    chunks: Box<[AtomicPtr<Block>]>,
    list: Mutex<List>,
    used: AtomicU64,
}

impl Blocks {
    pub(crate) fn new() -> Blocks {
        Blocks {
            chunks: (0..CHUNKS_MAX).map(|_| AtomicPtr::default()).collect(),
            list: Mutex::default(),
            used: AtomicU64::new(0),
        }
    }

    /// A block with any content.
    pub(crate) fn alloc(&self) -> Result<BlockRef, NoMemory> {
        let mut list = self.list.lock();
        match list.free.pop() {
            Some(block) => Ok(block),
            None => self.extend(&mut list),
        }
    }

    /// Makes sure that the next `count` calls of `alloc` succeed if no other thread calls it.
    pub(crate) fn reserve(&self, count: usize) -> Result<(), NoMemory> {
        let mut list = self.list.lock();
        while list.free.len() < count {
            let block = self.extend(&mut list)?;
            list.free.push(block);
        }
        Ok(())
    }

    fn extend(&self, list: &mut List) -> Result<BlockRef, NoMemory> {
        let chunk = self.chunks.get(list.used / CHUNK_BLOCKS).ok_or(NoMemory)?;
        if list.used.is_multiple_of(CHUNK_BLOCKS) && chunk.load(Ordering::Relaxed).is_null() {
            chunk.store(map_chunk().ok_or(NoMemory)?.as_ptr(), Ordering::Release);
        }
        let number = u32::try_from(list.used + 1).map_err(|_| NoMemory)?;
        list.free.try_reserve(1).map_err(|_| NoMemory)?;
        list.used += 1;
        self.used.store(list.used as u64, Ordering::Relaxed);
        NonZeroU32::new(number).map(BlockRef).ok_or(NoMemory)
    }

    /// Takes a block back.
    pub(crate) fn free(&self, block: BlockRef) {
        self.list.lock().free.push(block);
    }

    /// Blocks ever touched, free ones included.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Blocks that wait to be used again.
    pub(crate) fn free_count(&self) -> u64 {
        self.list.lock().free.len() as u64
    }

    /// Bytes of the directory and the free list, beside the blocks.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        let list = self.list.lock().free.capacity() * std::mem::size_of::<BlockRef>();
        (CHUNKS_MAX * std::mem::size_of::<usize>() + list) as u64
    }

    #[inline]
    fn place(&self, block: &BlockRef) -> *mut Block {
        let number = block.0.get() as usize - 1;
        let chunk = self.chunks[number / CHUNK_BLOCKS].load(Ordering::Acquire);
        debug_assert!(!chunk.is_null());
        // SAFETY: the token came from `extend` of this arena, so its chunk is mapped, and the
        // offset is below the chunk's length.
        unsafe { chunk.add(number % CHUNK_BLOCKS) }
    }

    /// The block that a token is for.
    #[inline]
    pub(crate) fn get<'a>(&'a self, block: &'a BlockRef) -> &'a Block {
        // SAFETY: in bounds and initialised (`place`); tokens are unique, so while this one is
        // borrowed shared nobody can borrow the block mutably.
        unsafe { &*self.place(block) }
    }

    /// The block that a token is for, to change.
    #[inline]
    pub(crate) fn get_mut<'a>(&'a self, block: &'a mut BlockRef) -> &'a mut Block {
        // SAFETY: in bounds and initialised (`place`); tokens are unique and this one is borrowed
        // mutably, so nobody else can borrow the block.
        unsafe { &mut *self.place(block) }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            if let Some(chunk) = NonNull::new(*chunk.get_mut()) {
                // SAFETY: the chunk came from `map_chunk`, and no borrow outlives the arena.
                unsafe { unmap_chunk(chunk) };
            }
        }
    }
}

/// Reserves a chunk of zeroed memory that is touched as it is used.
#[cfg(all(unix, not(miri)))]
fn map_chunk() -> Option<NonNull<Block>> {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing of ours.
    let chunk = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            CHUNK_BYTES,
            access,
            kind | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if chunk == libc::MAP_FAILED {
        return None;
    }
    // Huge pages spare a miss of the page table on nearly every search. Only a hint.
    #[cfg(target_os = "linux")]
    // SAFETY: the range is the mapping just made.
    unsafe {
        libc::madvise(chunk, CHUNK_BYTES, libc::MADV_HUGEPAGE);
    }
    NonNull::new(chunk.cast())
}

/// # Safety
/// `chunk` came from `map_chunk`, is not used any more, and is unmapped once.
#[cfg(all(unix, not(miri)))]
unsafe fn unmap_chunk(chunk: NonNull<Block>) {
    // SAFETY: the caller's promise; the length is that of the mapping.
    unsafe { libc::munmap(chunk.as_ptr().cast(), CHUNK_BYTES) };
}

#[cfg(not(all(unix, not(miri))))]
const CHUNK_LAYOUT: std::alloc::Layout =
    match std::alloc::Layout::from_size_align(CHUNK_BYTES, BLOCK_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a chunk has a valid layout"),
    };

#[cfg(not(all(unix, not(miri))))]
fn map_chunk() -> Option<NonNull<Block>> {
    // SAFETY: the layout is not of size zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(CHUNK_LAYOUT) }.cast())
}

/// # Safety
/// `chunk` came from `map_chunk`, is not used any more, and is freed once.
#[cfg(not(all(unix, not(miri))))]
unsafe fn unmap_chunk(chunk: NonNull<Block>) {
    // SAFETY: the caller's promise; the layout is that of the allocation.
    unsafe { std::alloc::dealloc(chunk.as_ptr().cast(), CHUNK_LAYOUT) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_distinct_kept_and_used_again() {
        let blocks = Blocks::new();
        let mut tokens: Vec<_> = (0..1000).map(|_| blocks.alloc().unwrap()).collect();
        for (at, token) in tokens.iter_mut().enumerate() {
            blocks.get_mut(token).slices = [at as u16; BLOCK_ENTRIES];
        }
        for (at, token) in tokens.iter().enumerate() {
            assert_eq!(blocks.get(token).slices, [at as u16; BLOCK_ENTRIES]);
        }
        tokens.into_iter().for_each(|token| blocks.free(token));
        assert_eq!((blocks.used(), blocks.free_count()), (1000, 1000));
        blocks.reserve(1001).unwrap();
        assert_eq!((blocks.used(), blocks.free_count()), (1001, 1001));
    }
}
