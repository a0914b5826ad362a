//! Images of leaves, for checkpoints: written leaf by leaf, loaded in the same order.
//!
//! The image of a leaf, little-endian:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | length of the image, this field and the checksum included |
//! | 4 | 1 | version: 1 |
//! | 5 | 1 | kind: 0 slices, 1 full keys |
//! | 6 | 1 | width of the fingerprints in bits |
//! | 7 | 1 | flags: 1 there is an upper fence, 2 there is a prefix |
//! | 8 | 8 | base of the window |
//! | 16 | 2 | offset of the window |
//! | 18 | 1 | shift of the window |
//! | 19 | 1 | sorted blocks |
//! | 20 | 4 | entries, holes included |
//! | 24 | 4 | length of the lower fence |
//! | 28 | 4 | length of the upper fence |
//! | 32 |  | lower fence, upper fence, prefix (64 bytes, big-endian words), body |
//! | end - 8 | 8 | XXH3 of all before |
//!
//! The body of slices is, block by block, the slices (2 bytes each) and the rests (9 bytes each)
//! of up to 46 entries; that of full keys is, for each entry, the key's length (4), the key, and
//! location and tombstone bit (6).
//!
//! The first leaf's lower fence is empty, each further one equals the upper fence before it, and
//! the last leaf has none above: a loader refuses anything else. Threads: a walk holds no lock
//! between its steps; a leaf split behind the cursor was written whole, one split before it is
//! written in two parts. Leaves are never merged, so fences behind a cursor stay.

use heliox_format::ids::{Location, SeqNo};
use xxhash_rust::xxh3::xxh3_64;

use crate::api::{Entry, IndexOptions};
use crate::blocks::{Blocks, BLOCK_ENTRIES, REST_BYTES};
use crate::code::{Coded, CODE_BITS};
use crate::error::{ImageError, IndexError};
use crate::index::Index;
use crate::key::KeyView;
use crate::keyed_leaf::{KeyedEntry, KeyedLeaf};
use crate::leaf::{Leaf, Rest, FULL_MAX, LEAF_BLOCKS};
use crate::slice::{Window, NO_WINDOW, SHIFT_MAX};
use crate::tree::{Fences, Probe, Tree};

const VERSION: u8 = 1;
const KIND_SLICES: u8 = 0;
const KIND_KEYS: u8 = 1;
const FLAG_HIGH: u8 = 1;
const FLAG_PREFIX: u8 = 2;
const HEADER_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
const ENTRY_BYTES: usize = Location::BYTES + 1;

/// How far an image walk has come: the lower fence of the next leaf.
#[derive(Debug)]
pub struct ImageCursor {
    next: Option<Vec<u8>>,
}

impl Index {
    /// Starts an image walk at the first leaf.
    #[must_use]
    pub fn image_start(&self) -> ImageCursor {
        ImageCursor {
            next: Some(Vec::new()),
        }
    }

    /// Appends the image of the next leaf to `out`, copied under the leaf's lock, and returns what
    /// `at` said under that lock; `None` when all leaves were written. `at` must not call the index.
    ///
    /// # Errors
    /// `Internal` if a leaf is too large for an image, which no leaf is.
    pub fn image_next(
        &self,
        cursor: &mut ImageCursor,
        out: &mut Vec<u8>,
        at: &mut dyn FnMut() -> SeqNo,
    ) -> Result<Option<SeqNo>, IndexError> {
        let Some(low) = &cursor.next else {
            return Ok(None);
        };
        let tree = self.tree.shared();
        let (cell, fences) = tree.leaf_between(Probe::At(KeyView::from(low.as_slice())));
        let leaf = cell.lock();
        self.write_image(&leaf, &fences, out)?;
        let order = at();
        cursor.next = fences.high;
        Ok(Some(order))
    }

    fn write_image(
        &self,
        leaf: &Leaf,
        fences: &Fences,
        out: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        let start = out.len();
        let window = &leaf.window;
        let high = fences.high.as_deref();
        let prefix = window.prefix.as_deref();
        let flags = if high.is_some() { FLAG_HIGH } else { 0 }
            | if prefix.is_some() { FLAG_PREFIX } else { 0 };
        let (kind, count) = match &leaf.keyed {
            Some(keyed) => (KIND_KEYS, keyed.len()),
            None => (KIND_SLICES, leaf.slots()),
        };
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[VERSION, kind, self.options.fingerprint_bits as u8, flags]);
        out.extend_from_slice(&window.base.to_le_bytes());
        out.extend_from_slice(&window.offset.to_le_bytes());
        out.extend_from_slice(&[window.shift, leaf.full() as u8]);
        for len in [count, fences.low.len(), high.map_or(0, <[u8]>::len)] {
            out.extend_from_slice(&(len as u32).to_le_bytes());
        }
        out.extend_from_slice(&fences.low);
        out.extend_from_slice(high.unwrap_or(&[]));
        prefix
            .into_iter()
            .for_each(|prefix| out.extend_from_slice(&prefix.to_bytes()));
        match &leaf.keyed {
            Some(keyed) => keyed.visit(|key, entry| put_keyed(out, key, entry)),
            None => put_blocks(out, leaf, &self.blocks),
        }
        let len = out.len() - start + CHECKSUM_BYTES;
        let len = u32::try_from(len)
            .map_err(|_| IndexError::Internal("a leaf too large for its image"))?;
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
        let checksum = xxh3_64(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        Ok(())
    }

    /// A loader of images that were made with the same seed and fingerprint width.
    #[must_use]
    pub fn loader(options: IndexOptions) -> IndexLoader {
        IndexLoader {
            options,
            blocks: Blocks::new(),
            leaves: Vec::new(),
            expected: Some(Vec::new()),
        }
    }
}

fn put_keyed(out: &mut Vec<u8>, key: &[u8], entry: Entry) {
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    let bits = entry.location.bits() | u64::from(entry.tombstone) << Location::BITS;
    out.extend_from_slice(&bits.to_le_bytes()[..ENTRY_BYTES]);
}

fn put_blocks(out: &mut Vec<u8>, leaf: &Leaf, blocks: &Blocks) {
    for (block, len) in leaf.blocks(blocks) {
        block.slices[..len]
            .iter()
            .for_each(|slice| out.extend_from_slice(&slice.to_le_bytes()));
        out.extend_from_slice(block.rests[..len].as_flattened());
    }
}

/// Builds an index out of images. The limit of the options holds for growth after loading.
pub struct IndexLoader {
    options: IndexOptions,
    blocks: Blocks,
    leaves: Vec<(Vec<u8>, Leaf)>,
    /// The lower fence that the next leaf must have; `None` after the last.
    expected: Option<Vec<u8>>,
}

impl IndexLoader {
    /// Takes the next leaf's image off the front of `bytes` and returns its lower fence.
    ///
    /// # Errors
    /// `Truncated` or `Damaged`: the image was not taken and the loader is as before. `Index` if
    /// memory ran out.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<Vec<u8>, ImageError> {
        let len = bytes.first_chunk().ok_or(ImageError::Truncated)?;
        let len = u32::from_le_bytes(*len) as usize;
        let (image, rest) = bytes.split_at_checked(len).ok_or(ImageError::Truncated)?;
        let (fences, leaf) = self.read(image)?;
        if self.expected.as_ref() != Some(&fences.low) {
            leaf.release(&self.blocks);
            return Err(ImageError::Damaged("a leaf does not follow the one before"));
        }
        self.expected = fences.high;
        self.leaves.push((fences.low.clone(), leaf));
        *bytes = rest;
        Ok(fences.low)
    }

    /// The index, once all leaves were taken.
    ///
    /// # Errors
    /// `Truncated` if leaves are missing.
    pub fn finish(self) -> Result<Index, ImageError> {
        if self.expected.is_some() {
            return Err(ImageError::Truncated);
        }
        let mut leaves = self.leaves.into_iter();
        let (_, first) = leaves.next().ok_or(ImageError::Truncated)?;
        let tree = Tree::of_leaves(leaves, first);
        Ok(Index::of_parts(self.options, tree, self.blocks))
    }

    fn read(&self, image: &[u8]) -> Result<(Fences, Leaf), ImageError> {
        let (content, checksum) = image
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or(ImageError::Damaged("a length"))?;
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return Err(ImageError::Damaged("a checksum"));
        }
        let (header, mut body) = content
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(ImageError::Damaged("a length"))?;
        let header = Header::read(header, self.options.fingerprint_bits)?;
        let body = &mut body;
        let low = take(body, header.low_len)?.to_vec();
        let high = take(body, header.high_len)?.to_vec();
        let fences = Fences {
            low,
            high: header.has_high.then_some(high),
        };
        if fences.high.as_ref().is_some_and(|high| *high <= fences.low) {
            return Err(ImageError::Damaged("fences out of order"));
        }
        let window = header.window(body)?;
        let leaf = match header.kind {
            KIND_KEYS => read_keys(body, header.count, &fences)?,
            _ => self.read_slices(body, &header, window)?,
        };
        if !body.is_empty() {
            leaf.release(&self.blocks);
            return Err(ImageError::Damaged("more bytes than entries"));
        }
        Ok((fences, leaf))
    }

    fn read_slices(
        &self,
        body: &mut &[u8],
        header: &Header,
        window: Window,
    ) -> Result<Leaf, ImageError> {
        let tail = header.count.checked_sub(header.full * BLOCK_ENTRIES);
        let fits = tail.is_some_and(|tail| tail <= BLOCK_ENTRIES) && header.full <= FULL_MAX;
        let bytes = take(body, header.count * (2 + REST_BYTES))?;
        if !fits || header.count > LEAF_BLOCKS * BLOCK_ENTRIES {
            return Err(ImageError::Damaged("a leaf of a wrong size"));
        }
        let mut leaf = Leaf::new();
        leaf.window = window;
        for (at, part) in bytes.chunks(BLOCK_ENTRIES * (2 + REST_BYTES)).enumerate() {
            let (slices, rests) = part.split_at(part.len() / (2 + REST_BYTES) * 2);
            let rests: &[Rest] = rests.as_chunks().0;
            let loaded =
                leaf.load_block(&self.blocks, slices.as_chunks().0, rests, at < header.full);
            if let Err(error) = loaded {
                leaf.release(&self.blocks);
                return Err(error);
            }
        }
        Ok(leaf)
    }
}

struct Header {
    kind: u8,
    has_high: bool,
    has_prefix: bool,
    base: u64,
    offset: u16,
    shift: u8,
    full: usize,
    count: usize,
    low_len: usize,
    high_len: usize,
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES], fingerprint_bits: u32) -> Result<Header, ImageError> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let flags = bytes[7];
        if bytes[4] != VERSION || bytes[5] > KIND_KEYS || flags > FLAG_HIGH | FLAG_PREFIX {
            return Err(ImageError::Damaged("an unknown version, kind or flag"));
        }
        if u32::from(bytes[6]) != fingerprint_bits {
            return Err(ImageError::Damaged("fingerprints of another width"));
        }
        let header = Header {
            kind: bytes[5],
            has_high: flags & FLAG_HIGH != 0,
            has_prefix: flags & FLAG_PREFIX != 0,
            base: u64::from(word(8)) | u64::from(word(12)) << 32,
            offset: u16::from_le_bytes([bytes[16], bytes[17]]),
            shift: bytes[18],
            full: usize::from(bytes[19]),
            count: word(20) as usize,
            low_len: word(24) as usize,
            high_len: word(28) as usize,
        };
        if header.shift > SHIFT_MAX || usize::from(header.offset) > CODE_BITS - 64 {
            return Err(ImageError::Damaged("a window out of range"));
        }
        Ok(header)
    }

    fn window(&self, body: &mut &[u8]) -> Result<Window, ImageError> {
        let prefix = if self.has_prefix {
            let (prefix, rest) = body
                .split_first_chunk()
                .ok_or(ImageError::Damaged("a prefix beyond the end"))?;
            *body = rest;
            Some(Box::new(
                Coded::from_bytes(prefix).truncated(usize::from(self.offset)),
            ))
        } else {
            None
        };
        Ok(Window {
            prefix,
            base: self.base,
            offset: self.offset,
            shift: self.shift,
        })
    }
}

fn take<'b>(bytes: &mut &'b [u8], len: usize) -> Result<&'b [u8], ImageError> {
    let (head, tail) = bytes
        .split_at_checked(len)
        .ok_or(ImageError::Damaged("a field beyond the end"))?;
    *bytes = tail;
    Ok(head)
}

fn read_keys(body: &mut &[u8], count: usize, fences: &Fences) -> Result<Leaf, ImageError> {
    let mut entries: Vec<KeyedEntry> = Vec::new();
    for _ in 0..count {
        let mut len = [0; 4];
        len.copy_from_slice(take(body, 4)?);
        let key = take(body, u32::from_le_bytes(len) as usize)?.to_vec();
        let mut word = [0; 8];
        word[..ENTRY_BYTES].copy_from_slice(take(body, ENTRY_BYTES)?);
        let bits = u64::from_le_bytes(word);
        let below = key < fences.low || entries.last().is_some_and(|last| last.key > key);
        if below || fences.high.as_ref().is_some_and(|high| key >= *high) {
            return Err(ImageError::Damaged("a key out of order"));
        }
        let location = Location::from_bits(bits);
        if bits >> (Location::BITS + 1) != 0 || !location.is_some() {
            return Err(ImageError::Damaged("an entry without a location"));
        }
        let entry = Entry {
            location,
            tombstone: bits >> Location::BITS == 1,
        };
        entries.push(KeyedEntry { key, entry });
    }
    let mut leaf = Leaf::new();
    leaf.window = NO_WINDOW;
    if !entries.is_empty() {
        leaf.keyed = Some(Box::new(KeyedLeaf::from_sorted(&entries)));
    }
    Ok(leaf)
}
