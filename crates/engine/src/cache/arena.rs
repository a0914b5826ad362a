//! The bytes of one cache shard: records appended to segments that are taken and given back whole.
//!
//! A record is a 12-byte header (location 40 bits, birth 32, length 22, heat 2; little-endian in
//! that order) and its bytes, padded to even. A segment is either a chunk that holds many records or,
//! for a record too large for that, a segment of its own with exactly its size.
//!
//! No threads: the shard's lock guards it.

use super::table::RecordHash;
use heliox_format::ids::{Birth, Location};
use heliox_index::prefetch;
use heliox_media::{Piece, Region};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Bytes of a record's header.
pub(super) const HEADER_BYTES: usize = 12;
/// Largest chunk: what 14 bits of offset in units of 2 bytes reach.
pub(super) const CHUNK_BYTES_MAX: usize = 32 << 10;
/// Longest record that the header can describe.
pub(super) const RECORD_BYTES_MAX: usize = (1 << LENGTH_BITS) - 1;
/// Cache lines of a record that are asked for ahead: the processor fetches the rest of a long one by
/// itself.
const PREFETCHED_LINES: usize = 4;
/// Hottest that a record becomes.
const HEAT_MAX: u32 = 3;
const UNIT_BYTES: usize = 2;
const LENGTH_BITS: u32 = 22;
const OFFSET_BITS: u32 = 14;
const SLOTS_MAX: usize = 1 << (Address::BITS - OFFSET_BITS);
/// What the allocator adds to a segment.
const SEGMENT_EXTRA_BYTES: u64 = 16;
/// What a slot takes: its place in the arena, in the free list and in either queue, each of which
/// grows by doubling. Slots stay when their segments go.
const SLOT_COST_BYTES: u64 = 2 * (size_of::<SegmentBytes>() as u64 + 2 + 2 + 2);

/// Where a record is: slot of its segment and offset in it. Zero is nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Address(u32);

impl Address {
    /// How many bits an address has.
    pub(super) const BITS: u32 = 26;

    pub(super) fn from_bits(bits: u32) -> Address {
        Address(bits & ((1 << Address::BITS) - 1))
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }

    /// The address of a byte offset in a segment.
    pub(super) fn at(slot: Slot, offset: usize) -> Address {
        Address(u32::from(slot.0) << OFFSET_BITS | (offset / UNIT_BYTES) as u32)
    }

    fn slot(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * UNIT_BYTES
    }
}

/// The number of a segment of the arena; zero is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(u16);

impl Slot {
    pub(super) const NONE: Slot = Slot(0);
}

/// A record's name: a location in one life of its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordId {
    low: u64,
    high: u8,
}

impl RecordId {
    pub(super) fn new(location: Location, birth: Birth) -> RecordId {
        RecordId {
            low: location.bits() | u64::from(birth.0) << 40,
            high: (birth.0 >> 24) as u8,
        }
    }

    pub(super) fn hash(self) -> RecordHash {
        RecordHash::of(self.low ^ u64::from(self.high) << 32)
    }
}

/// A record's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) id: RecordId,
    pub(super) len: usize,
    pub(super) heat: u32,
}

impl Header {
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Header {
        let [a, b, c, d, e, f, g, h, high, l0, l1, l2] = *bytes;
        let word = u32::from_le_bytes([l0, l1, l2, 0]);
        Header {
            id: RecordId {
                low: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
                high,
            },
            len: (word & ((1 << LENGTH_BITS) - 1)) as usize,
            heat: word >> LENGTH_BITS,
        }
    }

    fn encode(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, d, e, f, g, h] = self.id.low.to_le_bytes();
        let word = self.len as u32 & ((1 << LENGTH_BITS) - 1) | self.heat << LENGTH_BITS;
        let [l0, l1, l2, _] = word.to_le_bytes();
        [a, b, c, d, e, f, g, h, self.id.high, l0, l1, l2]
    }
}

/// Bytes that a record of `len` bytes takes in a segment.
pub(super) fn stored_bytes(len: usize) -> usize {
    (HEADER_BYTES + len).next_multiple_of(UNIT_BYTES)
}

/// The most memory that one more segment of `capacity` bytes takes.
pub(super) fn segment_cost_bytes(capacity: usize) -> u64 {
    held_bytes(capacity) + SLOT_COST_BYTES
}

/// Bytes that go back to the system with a segment of `capacity` bytes.
fn held_bytes(capacity: usize) -> u64 {
    capacity as u64 + SEGMENT_EXTRA_BYTES
}

/// Changes the heat of the record that starts at `offset` of a segment.
pub(super) fn set_heat_at(segment: &mut [u8], offset: usize, heat: u32) {
    let head = segment
        .get_mut(offset..)
        .and_then(|rest| rest.first_chunk_mut::<HEADER_BYTES>());
    if let Some(head) = head {
        *head = Header {
            heat,
            ..Header::decode(head)
        }
        .encode();
    }
}

/// The header of the record that starts at `offset` of a segment, if one does.
pub(super) fn header_at(segment: &[u8], offset: usize) -> Option<Header> {
    segment.get(offset..)?.first_chunk().map(Header::decode)
}

/// Where chunks have their memory, so that what the cache gives back is the system's again: a
/// window of [`CHUNK_BYTES_MAX`] addresses for each. None where the system refused them.
pub(super) type Windows = Option<Arc<Region>>;

/// A segment of any other size comes from the allocator: windows give memory by the page.
const WINDOW_GRAIN_BYTES: usize = 4096;

/// The memory of a segment, and how much of it is written.
#[derive(Default)]
pub(super) struct SegmentBytes {
    memory: Memory,
    len: usize,
}

#[derive(Default)]
enum Memory {
    #[default]
    None,
    Window(Piece),
    Heap(Box<[u8]>),
}

impl SegmentBytes {
    fn new(windows: &Windows, capacity: usize) -> SegmentBytes {
        let window = windows
            .as_ref()
            .filter(|_| capacity.is_multiple_of(WINDOW_GRAIN_BYTES))
            .and_then(|windows| windows.take(capacity));
        let memory = match window {
            Some(piece) => Memory::Window(piece),
            None => Memory::Heap(vec![0; capacity].into_boxed_slice()),
        };
        SegmentBytes { memory, len: 0 }
    }

    #[inline]
    fn all(&self) -> &[u8] {
        match &self.memory {
            Memory::Window(piece) => piece,
            Memory::Heap(bytes) => bytes,
            Memory::None => &[],
        }
    }

    #[inline]
    fn all_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Window(piece) => piece,
            Memory::Heap(bytes) => bytes,
            Memory::None => &mut [],
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.all().len()
    }
}

impl Deref for SegmentBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.all().get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for SegmentBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        self.all_mut().get_mut(..len).unwrap_or_default()
    }
}

/// See the module's head.
pub(super) struct Arena {
    windows: Windows,
    segments: Vec<SegmentBytes>,
    free: Vec<Slot>,
    bytes: u64,
}

impl Arena {
    /// An empty arena; takes no memory until the first segment.
    pub(super) fn new(windows: Windows) -> Arena {
        Arena {
            windows,
            segments: Vec::new(),
            free: Vec::new(),
            bytes: 0,
        }
    }

    /// Gives all segments back.
    pub(super) fn clear(&mut self) {
        *self = Arena::new(self.windows.take());
    }

    /// Bytes of memory of all segments and of the lists that name them.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes + self.segments.len() as u64 * SLOT_COST_BYTES
    }

    /// How many more segments can be open.
    pub(super) fn slots_left(&self) -> usize {
        SLOTS_MAX - self.segments.len().min(SLOTS_MAX) + self.free.len()
    }

    /// Takes a segment of `capacity` bytes. None when all slots are in use.
    pub(super) fn open(&mut self, capacity: usize) -> Option<Slot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.new_slot()?,
        };
        let place = self.segments.get_mut(usize::from(slot.0))?;
        *place = SegmentBytes::new(&self.windows, capacity);
        self.bytes += held_bytes(place.capacity());
        Some(slot)
    }

    /// Takes the segment's bytes out, to walk over them; [`Arena::close`] or [`Arena::put_back`]
    /// must follow.
    pub(super) fn take_out(&mut self, slot: Slot) -> SegmentBytes {
        self.segments
            .get_mut(usize::from(slot.0))
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Undoes [`Arena::take_out`].
    pub(super) fn put_back(&mut self, slot: Slot, bytes: SegmentBytes) {
        if let Some(place) = self.segments.get_mut(usize::from(slot.0)) {
            *place = bytes;
        }
    }

    /// Gives a segment that was taken out back to the system.
    pub(super) fn close(&mut self, slot: Slot, bytes: SegmentBytes) {
        self.bytes -= held_bytes(bytes.capacity());
        self.free.push(slot);
    }

    /// Bytes that closing this segment would free.
    pub(super) fn cost_bytes(&self, slot: Slot) -> u64 {
        self.segments
            .get(usize::from(slot.0))
            .map_or(0, |bytes| held_bytes(bytes.capacity()))
    }

    /// Appends a record. None if the segment has no room for it.
    pub(super) fn append(
        &mut self,
        slot: Slot,
        header: Header,
        parts: &[&[u8]],
    ) -> Option<Address> {
        if slot == Slot::NONE {
            return None;
        }
        let segment = self.segments.get_mut(usize::from(slot.0))?;
        let offset = segment.len;
        let end = offset + stored_bytes(header.len);
        let mut target = segment.all_mut().get_mut(offset..end)?;
        for part in [&header.encode()[..]].iter().chain(parts) {
            let (place, rest) = target.split_at_mut_checked(part.len())?;
            place.copy_from_slice(part);
            target = rest;
        }
        target.fill(0);
        segment.len = end;
        Some(Address::at(slot, offset))
    }

    /// Asks the processor for the first cache lines of the record at an address.
    #[inline]
    pub(super) fn prefetch(&self, address: Address) {
        let segment = self.segments.get(address.slot());
        for line in 0..PREFETCHED_LINES {
            let offset = address.offset() + line * 64;
            segment
                .and_then(|s| s.all().get(offset))
                .inspect(|b| prefetch(*b));
        }
    }

    /// The header at an address.
    #[inline]
    pub(super) fn header(&self, address: Address) -> Option<Header> {
        header_at(self.segments.get(address.slot())?, address.offset())
    }

    /// The record's bytes; it gets hotter by being read.
    #[inline]
    pub(super) fn touch(&mut self, address: Address) -> Option<&[u8]> {
        let record = self
            .segments
            .get_mut(address.slot())?
            .get_mut(address.offset()..)?;
        let (head, body) = record.split_first_chunk_mut::<HEADER_BYTES>()?;
        let header = Header::decode(head);
        if header.heat < HEAT_MAX {
            *head = Header {
                heat: header.heat + 1,
                ..header
            }
            .encode();
        }
        body.get(..header.len)
    }

    /// Overwrites a record by one of the same length; false if the length differs.
    pub(super) fn overwrite(&mut self, address: Address, len: usize, parts: &[&[u8]]) -> bool {
        let Some(header) = self.header(address).filter(|header| header.len == len) else {
            return false;
        };
        let start = address.offset() + HEADER_BYTES;
        let target = self
            .segments
            .get_mut(address.slot())
            .and_then(|segment| segment.get_mut(start..start + header.len));
        let Some(mut target) = target else {
            return false;
        };
        for part in parts {
            let Some((place, rest)) = target.split_at_mut_checked(part.len()) else {
                return false;
            };
            place.copy_from_slice(part);
            target = rest;
        }
        true
    }

    fn new_slot(&mut self) -> Option<Slot> {
        if self.segments.is_empty() {
            self.segments.push(SegmentBytes::default()); // Slot 0 stays unused: address 0 is nowhere.
        }
        if self.segments.len() >= SLOTS_MAX {
            return None;
        }
        let slot = Slot(self.segments.len() as u16);
        self.segments.push(SegmentBytes::default());
        Some(slot)
    }
}

#[cfg(test)]
impl Arena {
    pub(super) fn held_bytes(&self) -> u64 {
        self.bytes
    }

    /// What the arena's collections say that they hold.
    pub(super) fn counted_bytes(&self) -> u64 {
        let segments: usize = self.segments.iter().map(SegmentBytes::capacity).sum();
        let lists = self.segments.capacity() * size_of::<SegmentBytes>() + self.free.capacity() * 2;
        (segments + lists) as u64
    }

    pub(super) fn segment_len(&self, slot: Slot) -> Option<usize> {
        self.segments
            .get(usize::from(slot.0))
            .map(|segment| segment.len)
    }
}
