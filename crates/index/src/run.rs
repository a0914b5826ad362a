//! A run of a leaf's entries in key order, found without touching the blocks that hold none of it.
//!
//! No interval of a leaf reaches over a multiple of `2^lost_max` cells, so a run that starts and
//! ends at such multiples holds tie groups whole. Sorted blocks are read from where the run starts;
//! of the tail what falls into the run is picked. Backward runs see mirrored slices, whose numbers
//! descend as those of the slices ascend. Threads: as for any leaf.

use smallvec::SmallVec;

use crate::api::{Direction, Entry};
use crate::blocks::{Blocks, BLOCK_ENTRIES};
use crate::leaf::{entry_of, is_live, Leaf};
use crate::simd;
use crate::slice;

/// Entries with their slices as seen in the direction, by their first cells.
pub(crate) type Run = SmallVec<[(u16, Entry); 64]>;

/// A slice as seen in a direction.
pub(crate) fn facing(slice: u16, direction: Direction) -> u16 {
    match direction {
        Direction::Forward => slice,
        Direction::Backward => slice::mirrored(slice),
    }
}

impl Leaf {
    /// Collects whole tie groups that reach to the cell `from` or beyond it until at least `limit`
    /// entries lie beyond it. True if the leaf holds more. Costs what is collected, and the tail.
    pub(crate) fn read_run(
        &self,
        blocks: &Blocks,
        from: Option<u16>,
        direction: Direction,
        limit: usize,
        run: &mut Run,
    ) -> bool {
        let ties = self.tie_mask();
        let least = from.map_or(0, |from| slice::known(from) & !ties);
        let mut most = u16::MAX;
        let take = |seen: u16, entry: Entry, run: &mut Run| {
            if from.is_none_or(|from| slice::last_cell(seen) >= from) {
                run.push((seen, entry));
            }
        };
        let (mut beyond, mut more) = (0, false);
        self.visit_sorted(blocks, least, direction, |seen, entry| {
            if seen > most {
                more = true;
                return false;
            }
            take(seen, entry, run);
            beyond += usize::from(from.is_none_or(|from| slice::first_cell(seen) > from));
            if beyond >= limit && most == u16::MAX {
                most = seen | ties;
            }
            true
        });
        if let Some((block, len)) = self.tail_block(blocks) {
            for (&slice, rest) in block.slices.iter().zip(&block.rests).take(len) {
                let seen = facing(slice, direction);
                if seen > most {
                    more = true;
                } else if seen >= least {
                    take(seen, entry_of(rest), run);
                }
            }
        }
        run.sort_unstable_by_key(|(seen, _)| slice::first_cell(*seen));
        more
    }

    /// Visits the live sorted entries in a direction, from the first whose slice as seen is not
    /// below `least`, until told to stop.
    fn visit_sorted(
        &self,
        blocks: &Blocks,
        least: u16,
        direction: Direction,
        mut visit: impl FnMut(u16, Entry) -> bool,
    ) {
        let mut at = self.sorted_start(blocks, least, direction);
        let count = self.full() * BLOCK_ENTRIES;
        while let (true, Some(block)) = (at < count, self.sorted_block(blocks, at / BLOCK_ENTRIES))
        {
            let slot = at % BLOCK_ENTRIES;
            let rest = &block.rests[slot];
            if is_live(rest) && !visit(facing(block.slices[slot], direction), entry_of(rest)) {
                return;
            }
            at = match direction {
                Direction::Forward => at + 1,
                Direction::Backward => at.wrapping_sub(1),
            };
        }
    }

    /// Where the sorted entries not below `least`, as seen in a direction, start; beyond all of
    /// them if there are none.
    fn sorted_start(&self, blocks: &Blocks, least: u16, direction: Direction) -> usize {
        match direction {
            Direction::Forward => self.sorted_below(blocks, least),
            // Seen as `least` or above are the slices up to its mirror image, which is none itself:
            // no entry has lost that many bits.
            Direction::Backward if least > 0 => self
                .sorted_below(blocks, least.wrapping_neg())
                .wrapping_sub(1),
            Direction::Backward => (self.full() * BLOCK_ENTRIES).wrapping_sub(1),
        }
    }

    /// How many sorted entries have a slice below `slice`.
    fn sorted_below(&self, blocks: &Blocks, slice: u16) -> usize {
        let at = self.block_below(slice);
        self.sorted_block(blocks, at).map_or(0, |block| {
            at * BLOCK_ENTRIES + simd::slices_below(&block.slices, slice)
        })
    }
}
