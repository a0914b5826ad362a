//! How addresses, segments and locations relate. Pure arithmetic.

use heliox_format::checksum::ChecksumSalt;
use heliox_format::frame::FrameShape;
use heliox_format::ids::{Location, SegmentId};
use heliox_format::limits::BLOCK_BYTES;

/// The fixed shape of a store's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogGeometry {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// How many segments there are.
    pub segments: u32,
    /// A location counts units of 1 << this bytes.
    pub unit_shift: u8,
    /// Frames are padded to this.
    pub sector_bytes: usize,
    /// What the checksums are salted with.
    pub salt: ChecksumSalt,
    /// How long the headers of frames are.
    pub shape: FrameShape,
}

impl LogGeometry {
    /// The byte address of a location.
    #[must_use]
    pub fn address(&self, location: Location) -> u64 {
        location.bits() << self.unit_shift
    }

    /// What a record takes that starts there and ends before this address: with the frames that it
    /// crosses, and what is lost before the next can start.
    #[must_use]
    pub fn packed_bytes(&self, location: Location, end: u64) -> u64 {
        let bytes = end.saturating_sub(self.address(location));
        bytes.next_multiple_of(1 << self.unit_shift)
    }

    /// The location of an address that is a multiple of the unit.
    #[must_use]
    pub fn location(&self, address: u64) -> Location {
        Location::from_bits(address >> self.unit_shift)
    }

    /// The segment that holds an address.
    #[must_use]
    pub fn segment_of(&self, address: u64) -> SegmentId {
        SegmentId((address / self.segment_bytes) as u32)
    }

    /// The segment that holds a location; none for one beyond the store.
    #[must_use]
    pub fn segment_at(&self, location: Location) -> Option<SegmentId> {
        let id = self.address(location) / self.segment_bytes;
        (location.is_some() && id < u64::from(self.segments)).then_some(SegmentId(id as u32))
    }

    /// The first address of a segment.
    #[must_use]
    pub fn start(&self, segment: SegmentId) -> u64 {
        u64::from(segment.0) * self.segment_bytes
    }

    /// The address after a segment.
    #[must_use]
    pub fn end(&self, segment: SegmentId) -> u64 {
        self.start(segment) + self.segment_bytes
    }

    /// Where the first frame of the block at `block` starts: the segment's header comes before it
    /// in its first block.
    #[must_use]
    pub fn first_frame(&self, block: u64) -> u64 {
        if block.is_multiple_of(self.segment_bytes) {
            block + self.sector_bytes as u64
        } else {
            block
        }
    }

    /// The start of the block that holds an address.
    #[must_use]
    pub fn block_of(address: u64) -> u64 {
        address - address % BLOCK_BYTES as u64
    }
}

/// The smallest location unit, as a shift, that reaches a store of so many bytes.
#[must_use]
pub fn unit_shift_for(store_bytes: u64) -> u8 {
    let reach = 1u64 << Location::BITS;
    let mut shift = 0;
    // The last location is "none", so the reach must be larger, not equal.
    while (reach << shift) <= store_bytes && shift < 6 {
        shift += 1;
    }
    shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_grows_with_the_store() {
        assert_eq!(unit_shift_for(1 << 30), 0);
        assert_eq!(unit_shift_for((1 << 40) - 1), 0);
        assert_eq!(unit_shift_for(1 << 40), 1);
        assert_eq!(unit_shift_for(16 << 40), 5);
        assert_eq!(unit_shift_for((64 << 40) - 1), 6);
    }

    #[test]
    fn locations_and_addresses_agree() {
        let geometry = LogGeometry {
            segment_bytes: 4 << 20,
            segments: 10,
            unit_shift: 2,
            sector_bytes: 512,
            salt: ChecksumSalt(0),
            shape: FrameShape::Plain,
        };
        let location = geometry.location((4 << 20) + 512);
        assert_eq!(geometry.address(location), (4 << 20) + 512);
        assert_eq!(geometry.segment_at(location), Some(SegmentId(1)));
        assert_eq!(geometry.segment_at(geometry.location(40 << 20)), None);
        assert_eq!(geometry.segment_at(Location::NONE), None);
        assert_eq!(geometry.first_frame(4 << 20), (4 << 20) + 512);
        assert_eq!(geometry.first_frame((4 << 20) + 4096), (4 << 20) + 4096);
    }
}
