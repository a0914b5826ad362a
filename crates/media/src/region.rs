//! One reserved range of addresses, handed out in pieces.
//!
//! For memory that grows and shrinks by many pieces within a budget: a piece that is dropped takes
//! no memory any more, whatever its neighbours do. A few dropped pieces stay warm, so that who drops
//! one to take the next does not pay for fresh pages. Each piece starts a window of equal size, of
//! which only the pages that it uses take memory.
//!
//! Invariants: a number is in one place only, in a piece or in a list; so two pieces never share
//! bytes. Beyond a piece's pages its window holds no memory. All bytes are initialised. Threads: the lists are locked; a piece belongs to its owner.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use heliox_sync::Mutex;

use crate::mapping::Mapping;

/// Dropped pieces that keep their memory. Few where schedules are tried, or hardly one would go cold.
const WARM_PIECES_MAX: usize = if cfg!(feature = "shuttle") { 2 } else { 16 };
/// No system that we know has smaller pages.
const PAGE_BYTES: usize = 4096;

/// The range. Taking and dropping a piece cost a lock, and now and then a system call.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    window_bytes: usize,
    windows: u32,
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Dropped, with memory: the number, and the length of the piece that it was.
    warm: Vec<(u32, u32)>,
    /// Dropped, without.
    cold: Vec<u32>,
    /// Windows ever used.
    used: u32,
}

/// Some bytes of a region, until dropped; their content is whatever an earlier owner left.
pub struct Piece {
    region: Arc<Region>,
    start: NonNull<u8>,
    number: u32,
    len_bytes: u32,
}

// SAFETY: a piece's bytes are its own alone, as those of a `Box<[u8]>` are.
unsafe impl Send for Piece {}
// SAFETY: shared access only reads.
unsafe impl Sync for Piece {}

impl Region {
    /// Reserves addresses, not memory, for `windows` pieces of at most `window_bytes` each (a
    /// multiple of 4096). None if the system refuses or the size is odd.
    pub fn reserve(windows: usize, window_bytes: usize) -> Option<Arc<Region>> {
        if window_bytes == 0 || !window_bytes.is_multiple_of(PAGE_BYTES) {
            return None;
        }
        let mapping = Mapping::new(windows.max(1).checked_mul(window_bytes)?)?;
        let windows = u32::try_from(windows).ok()?;
        u32::try_from(window_bytes).ok()?;
        Some(Arc::new(Region {
            mapping,
            window_bytes,
            windows,
            lists: Mutex::default(),
        }))
    }

    /// Takes a piece of `len_bytes`; it takes memory by the page, as it is written. None when all
    /// windows are in use or smaller.
    pub fn take(self: &Arc<Region>, len_bytes: usize) -> Option<Piece> {
        if len_bytes > self.window_bytes {
            return None;
        }
        let mut lists = self.lists.lock();
        let (number, held_bytes) = match lists.warm.pop() {
            Some(warm) => warm,
            None => match lists.cold.pop() {
                Some(number) => (number, 0),
                None if lists.used < self.windows => {
                    lists.used += 1;
                    (lists.used - 1, 0)
                }
                None => return None,
            },
        };
        drop(lists);
        // SAFETY: `number < windows`, so the offset lies in the mapping.
        let start = unsafe {
            self.mapping
                .start()
                .add(number as usize * self.window_bytes)
        };
        let needed = len_bytes.next_multiple_of(PAGE_BYTES);
        if held_bytes as usize > needed {
            self.give_pages_back(number, needed, held_bytes as usize);
        }
        Some(Piece {
            region: Arc::clone(self),
            start,
            number,
            // Windows are no longer than this reaches.
            len_bytes: len_bytes as u32,
        })
    }

    /// Of a window that is neither in a list nor borrowed.
    fn give_pages_back(&self, number: u32, from: usize, to: usize) {
        let to = to.next_multiple_of(PAGE_BYTES);
        // SAFETY: the range lies in the window, and the window is the caller's alone.
        unsafe {
            self.mapping
                .give_back(number as usize * self.window_bytes + from, to - from);
        }
    }

    fn give(&self, number: u32, len_bytes: u32) {
        let mut lists = self.lists.lock();
        if lists.warm.len() < WARM_PIECES_MAX {
            lists.warm.push((number, len_bytes));
            return;
        }
        drop(lists);
        self.give_pages_back(number, 0, len_bytes as usize);
        self.lists.lock().cold.push(number);
    }
}

impl Deref for Piece {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is the first of `len_bytes` initialised bytes that this piece alone
        // owns; the region, and with it the mapping, lives as long as the piece.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes as usize) }
    }
}

impl DerefMut for Piece {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the unique borrow of `self` makes the slice unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes as usize) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.region.give(self.number, self.len_bytes);
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} of {:?})", self.number, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_share_bytes_and_end() {
        let region = Region::reserve(3, 8192).unwrap();
        let lengths = [8192, 100, 5000];
        let mut pieces: Vec<Piece> = lengths.iter().map(|l| region.take(*l).unwrap()).collect();
        assert!(region.take(1).is_none());
        for (i, piece) in pieces.iter_mut().enumerate() {
            assert_eq!(piece.len(), lengths[i]);
            piece.fill(i as u8 + 1);
        }
        for (i, piece) in pieces.iter().enumerate() {
            assert!(piece.iter().all(|b| *b == i as u8 + 1));
        }
        pieces.remove(1);
        assert!(region.take(8193).is_none());
        assert!(region.take(8192).is_some());
        assert!(Region::reserve(3, 100).is_none());
    }

    #[test]
    fn a_dropped_piece_takes_no_memory_unless_it_is_warm() {
        let count = WARM_PIECES_MAX * 3;
        let region = Region::reserve(count, 8192).unwrap();
        let mut pieces: Vec<Piece> = (0..count).map(|_| region.take(8192).unwrap()).collect();
        pieces.iter_mut().for_each(|piece| piece.fill(0xee));
        drop(pieces);
        // Memory that was given back reads as zeros.
        let again: Vec<Piece> = (0..count).map(|_| region.take(8192).unwrap()).collect();
        let warm = again.iter().filter(|p| p.iter().all(|b| *b == 0xee));
        let warm = warm.count();
        let cold = again.iter().filter(|p| p.iter().all(|b| *b == 0)).count();
        assert_eq!((warm, cold), (WARM_PIECES_MAX, count - WARM_PIECES_MAX));
    }

    #[test]
    fn a_smaller_piece_does_not_keep_the_pages_of_a_larger_one() {
        let region = Region::reserve(1, 16384).unwrap();
        region.take(16384).unwrap().fill(0xee);
        drop(region.take(100).unwrap());
        let again = region.take(16384).unwrap();
        assert!(again[..4096].iter().all(|b| *b == 0xee), "it was warm");
        assert!(again[4096..].iter().all(|b| *b == 0));
    }

    /// Each is taken and written by one thread, read and dropped by another: one held by each of the
    /// three at a time.
    #[test]
    fn pieces_may_die_on_other_threads() {
        let region = Region::reserve(3, 4096).unwrap();
        let (give, given) = std::sync::mpsc::sync_channel::<Piece>(0);
        let rounds = if cfg!(miri) { 3 } else { 1000 };
        std::thread::scope(|scope| {
            for fill in 1..=2u8 {
                let (region, give) = (&region, give.clone());
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let mut piece = region.take(4096).unwrap();
                        piece.fill(fill);
                        assert!(piece.iter().all(|b| *b == fill));
                        give.send(piece).unwrap();
                    }
                });
            }
            drop(give);
            let mut dropped = 0;
            for piece in given {
                let fill = piece[0];
                assert!(fill > 0 && piece.iter().all(|b| *b == fill));
                dropped += 1;
            }
            assert_eq!(dropped, 2 * rounds);
        });
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod schedules {
    use heliox_sync::{explore, thread, Plan};

    use super::*;

    /// Pieces come and go on several threads: each belongs to one alone, and when all are gone all
    /// windows can be taken again.
    #[test]
    fn a_piece_belongs_to_one_thread_alone() {
        let plan = Plan {
            schedules: 4000,
            patient: true,
        };
        explore(plan, |_| {
            // As many as are in use at once, and more than stay warm: windows go cold and come back.
            let windows = 6;
            let region = Region::reserve(windows, 8192).unwrap();
            let take_all = || (0..windows).map(|_| region.take(8192).unwrap());
            drop(take_all().collect::<Vec<Piece>>());
            let work = |fill: u8| {
                for _ in 0..2 {
                    let mut pieces = [5000, 8192].map(|len| region.take(len).unwrap());
                    pieces.iter_mut().for_each(|piece| piece.fill(fill));
                    thread::yield_now();
                    for piece in pieces {
                        assert!(piece.iter().all(|byte| *byte == fill));
                    }
                }
            };
            thread::scope(|scope| {
                scope.spawn(|| work(1));
                scope.spawn(|| work(2));
                scope.spawn(|| work(3));
            });
            assert_eq!(take_all().collect::<Vec<Piece>>().len(), windows);
        });
    }
}
