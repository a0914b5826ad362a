//! Where the zones of a store lie on its device, read from the device itself, and their rot.
//!
//! Threads: the caller's.

use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_format::superblock::{Superblock, SUPERBLOCK_OFFSETS};
use heliox_media::Random;

use crate::array::Array;
use crate::media::SECTOR_BYTES;
use crate::script::Zone;
use crate::world::{Checked, World, SEGMENT_BYTES};

const BLOCK_BYTES: u64 = 4096;
/// Blocks that are tried to find one with something in it.
const TRIES: u64 = 64;
/// Segments of the log, newest first, that count as its tail.
const TAIL_SEGMENTS: usize = 2;

fn superblocks(media: &Array) -> Vec<Superblock> {
    let read = |&offset: &u64| {
        let mut block = vec![0; BLOCK_BYTES as usize];
        media.peek_head(offset, &mut block).ok()?;
        Superblock::decode(offset, &block).ok()
    };
    SUPERBLOCK_OFFSETS.iter().filter_map(read).collect()
}

/// First addresses of the zone's segments.
fn segments(media: &Array, superblock: &Superblock, zone: Zone) -> Vec<u64> {
    let mut found: Vec<(SegmentHeader, u64)> = Vec::new();
    for n in 0..u64::from(superblock.segments) {
        let address = n * SEGMENT_BYTES;
        let mut sector = vec![0; SECTOR_BYTES as usize];
        if media.peek(address, &mut sector).is_err() {
            continue;
        }
        if let Ok(header) = SegmentHeader::decode(superblock.salt(), address, &sector) {
            found.push((header, address));
        }
    }
    found.sort_by_key(|(header, _)| std::cmp::Reverse(header.birth));
    let is_checkpoint = |h: &SegmentHeader| h.kind == SegmentKind::Checkpoint;
    let starts = |wanted: bool| {
        let of_kind = found
            .iter()
            .filter(move |(h, _)| is_checkpoint(h) == wanted);
        of_kind.map(|(_, start)| *start)
    };
    match zone {
        Zone::Checkpoint => starts(true).take(1).collect(),
        Zone::Tail => starts(false).take(TAIL_SEGMENTS).collect(),
        Zone::Sealed => starts(false).skip(TAIL_SEGMENTS).collect(),
        Zone::Superblock => Vec::new(),
    }
}

impl World {
    /// Flips a bit somewhere in the zone; of the superblock, in the next crash.
    pub(crate) fn rot(&mut self, zone: Zone, pick: u64) -> Checked {
        if zone == Zone::Superblock {
            self.superblock_rot = Some(pick);
            return Ok(());
        }
        let Some(superblock) = superblocks(&self.media).pop() else {
            return Ok(());
        };
        let segments = segments(&self.media, &superblock, zone);
        let mut random = Random::new(pick);
        for _ in 0..TRIES {
            let n = random.below(segments.len() as u64) as usize;
            let Some(start) = segments.get(n) else {
                break;
            };
            let block = start + random.below(SEGMENT_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
            let mut bytes = vec![0; BLOCK_BYTES as usize];
            let read = self.media.peek(block, &mut bytes);
            if read.is_err() || bytes.iter().all(|b| *b == 0) {
                continue;
            }
            let offset = block + random.below(BLOCK_BYTES);
            self.media.rot(offset, 1 << random.below(8));
            break;
        }
        Ok(())
    }

    /// Lets one of two whole superblock copies rot, if that is due. A store that is open does not
    /// know of it, and a crash while it writes the other copy would be a second fault: so it happens
    /// between two runs. True if a copy is damaged now.
    pub(crate) fn rot_superblock(&mut self) -> Result<bool, String> {
        let Some(pick) = self.superblock_rot.take() else {
            return Ok(false);
        };
        if superblocks(&self.media).len() < SUPERBLOCK_OFFSETS.len() {
            return Ok(false);
        }
        let mut random = Random::new(pick);
        let n = random.below(SUPERBLOCK_OFFSETS.len() as u64) as usize;
        let Some(offset) = SUPERBLOCK_OFFSETS.get(n) else {
            return Ok(false);
        };
        // The first bytes are under the checksum whatever the superblock holds.
        let offset = offset + random.below(64);
        self.media.rot_head(offset, 1 << random.below(8));
        Ok(true)
    }
}
