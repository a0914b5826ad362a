//! Slices: what an entry knows of its key's place in its leaf.
//!
//! A leaf's [`Window`] maps keys to 32768 cells, monotonely: smaller keys never get larger cells.
//! A slice is an interval of cells in 16 bits: the lowest set bit is a sentinel that marks where
//! knowledge ends; with `k` zeros below it, the interval is an aligned run of `2^k` cells.
//! Entries with overlapping intervals are a tie group, whose order is not known.
//!
//! Soundness: whatever the window, the interval of an entry contains the cell of its key. Moving
//! an entry to another window maps both ends of what is known and takes the smallest aligned run
//! around them, so bits are shifted or dropped and never invented. Keys outside the window's range
//! go to its first or last cell, so these two say nothing of the key's code on that side.
//! Plain values; no threads.

use crate::code::{Coded, CODE_BITS};

/// Cells of a window.
pub(crate) const CELLS: u64 = 1 << 15;
/// The last cell.
const LAST: u16 = (CELLS - 1) as u16;
/// An entry that has lost this many bits of its slice is read when its leaf is rebuilt.
pub(crate) const LOST_BITS_MAX: u32 = 7;

/// The slice of a key whose cell is known.
pub(crate) fn known(cell: u16) -> u16 {
    cell << 1 | 1
}

/// The smallest slice that covers two cells, the first not above the last.
pub(crate) fn covering(first: u16, last: u16) -> u16 {
    let lost = 16 - (first ^ last).leading_zeros();
    ((u32::from(first) >> lost << 1 | 1) << lost) as u16
}

/// How many bits of the cell are not known. A slice is never zero.
pub(crate) fn lost_bits(slice: u16) -> u32 {
    slice.trailing_zeros().min(15)
}

/// The first cell of the interval.
pub(crate) fn first_cell(slice: u16) -> u16 {
    let lost = lost_bits(slice);
    (u32::from(slice) >> (lost + 1) << lost) as u16
}

/// The last cell of the interval.
pub(crate) fn last_cell(slice: u16) -> u16 {
    first_cell(slice) + ((1u32 << lost_bits(slice)) - 1) as u16
}

/// Whether the known bits of `entry` agree with a `key` slice that is wholly known.
#[inline(always)]
pub(crate) fn agrees(entry: u16, key: u16) -> bool {
    (u32::from(entry ^ key) >> 1) >> lost_bits(entry) == 0
}

/// The slice seen from the other end: the first cell becomes the last.
pub(crate) fn mirrored(slice: u16) -> u16 {
    slice ^ (0xffff_u32 << (lost_bits(slice) + 1)) as u16
}

/// What is known of a key's 64 bits at some offset: an inclusive range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Span {
    /// The part within another range that the key is known to be in.
    pub(crate) fn within(self, other: Span) -> Span {
        let low = self.low.clamp(other.low, other.high);
        Span {
            low,
            high: self.high.clamp(low, other.high),
        }
    }
}

/// The monotone map from keys to the cells of one leaf.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The bits that all keys in range share, when the leaf's fences alone do not imply them.
    pub(crate) prefix: Option<Box<Coded>>,
    /// The 64 bits at `offset` that cell 0 starts with.
    pub(crate) base: u64,
    /// Bits of the code before those that tell the keys of the leaf apart.
    pub(crate) offset: u16,
    /// A cell is `2^shift` wide.
    pub(crate) shift: u8,
}

/// A window before its leaf holds any key.
pub(crate) const NO_WINDOW: Window = Window {
    prefix: None,
    base: 0,
    offset: 0,
    shift: SHIFT_MAX,
};
/// With this shift the cells cover all 64 bits.
pub(crate) const SHIFT_MAX: u8 = 64 - 15;

impl Window {
    /// The cell of a key.
    #[inline]
    pub(crate) fn cell(&self, code: &Coded) -> u16 {
        let offset = usize::from(self.offset);
        if let Some(prefix) = &self.prefix {
            match code.truncated(offset).cmp(prefix) {
                std::cmp::Ordering::Less => return 0,
                std::cmp::Ordering::Greater => return LAST,
                std::cmp::Ordering::Equal => {}
            }
        }
        self.cell_of_bits(code.bits(offset))
    }

    #[inline]
    fn cell_of_bits(&self, bits: u64) -> u16 {
        match bits.checked_sub(self.base) {
            Some(above) => (above >> self.shift).min(CELLS - 1) as u16,
            None => 0,
        }
    }

    /// What a slice says of the key's bits at this offset; `None` if it reaches into an end cell
    /// that may also hold keys with another prefix. Other end cells reach to the end of the range.
    pub(crate) fn span(&self, slice: u16) -> Option<Span> {
        let (first, last) = (first_cell(slice), last_cell(slice));
        if self.prefix.is_some() && (first == 0 || last == LAST) {
            return None;
        }
        let start = |cell: u16| self.base.saturating_add(u64::from(cell) << self.shift);
        let low = if first == 0 { 0 } else { start(first) };
        let high = if last == LAST {
            u64::MAX
        } else {
            start(last + 1).saturating_sub(1)
        };
        // A cell beyond the range of 64 bits cannot be reached by a key.
        (low <= high).then_some(Span { low, high })
    }

    /// How many bits at this offset an entry does not know.
    pub(crate) fn granule_bits(&self, slice: u16) -> u32 {
        lost_bits(slice) + u32::from(self.shift)
    }

    /// The slice of an entry known as `span` in the bits at `offset`, not before this offset's.
    pub(crate) fn slice_of(&self, span: Span, offset: u16) -> u16 {
        let advance = u32::from(self.offset - offset);
        let low = span.low.checked_shl(advance).unwrap_or(0);
        let ones = 1u64.checked_shl(advance).map_or(u64::MAX, |bit| bit - 1);
        let high = span.high.checked_shl(advance).unwrap_or(0) | ones;
        covering(self.cell_of_bits(low), self.cell_of_bits(high))
    }
}

/// The range that a window is to be cut for, in the bits at an offset that all its keys share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// Shared by all keys up to the offset.
    pub(crate) prefix: Coded,
    pub(crate) offset: u16,
    pub(crate) span: Span,
    /// The coarsest granule of what is known of the keys, in bits.
    pub(crate) granule_bits: u32,
    /// How many leading bits the leaf's fences share.
    pub(crate) fence_bits: usize,
    /// No key of the leaf lies below the span.
    pub(crate) closed_low: bool,
    /// No key of the leaf lies above the span's end, and at its end one hardly does.
    pub(crate) closed_high: bool,
}

impl Range {
    /// Cuts a window: shared bits are passed over, a granule of margin is left at an end that is
    /// not closed so that the end cell stays empty, and the base is aligned to the coarsest granule, so that
    /// entries of any granule keep all they know.
    pub(crate) fn window(&self) -> Window {
        let granule = self.granule_bits.min(63);
        let unit = 1u64 << granule;
        let low = match self.closed_low {
            true => self.span.low,
            false => (self.span.low >> granule << granule).saturating_sub(unit),
        };
        // An upper fence is exclusive, and often a power of two: the cell before it is the last.
        let high = match self.closed_high {
            true => self.span.high.saturating_sub(1).max(low),
            false => self.span.high.saturating_add(unit),
        };
        let fence = if self.closed_high {
            self.span.high
        } else {
            high
        };
        let shared = (low ^ fence)
            .leading_zeros()
            .min(63)
            .min((CODE_BITS - 64) as u32 - u32::from(self.offset));
        let offset = self.offset + shared as u16;
        let low = low << shared;
        let high = high << shared | ((1u64 << shared) - 1);
        let granule = (granule + shared).min(63);
        let (mut shift, mut base) = (0, low);
        loop {
            let align = granule.max(shift);
            base = if align < 64 {
                base >> align << align
            } else {
                0
            };
            let needed = (64 - (high - base).leading_zeros()).saturating_sub(15);
            if needed <= shift {
                break;
            }
            shift = needed;
        }
        let before = self
            .prefix
            .with_window(usize::from(self.offset), self.span.low, 0);
        let beyond_fences = usize::from(offset) > self.fence_bits;
        Window {
            prefix: beyond_fences.then(|| Box::new(before.truncated(usize::from(offset)))),
            base,
            offset,
            shift: shift.min(u32::from(SHIFT_MAX)) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slices_are_intervals_of_cells() {
        assert_eq!((first_cell(known(77)), last_cell(known(77))), (77, 77));
        let all = covering(0, LAST);
        assert_eq!((all, first_cell(all), last_cell(all)), (0x8000, 0, LAST));
        assert!(agrees(all, known(5)) && !agrees(known(4), known(5)));
        assert_eq!(mirrored(all), all);
        assert_eq!(mirrored(known(0)), known(LAST));
    }

    /// The base of a window lies on the coarsest granule of its entries: if it did not, entries
    /// would straddle cells and know less from split to split.
    #[test]
    fn a_base_is_aligned_to_the_coarsest_granule() {
        for (low, granule_bits) in [(0x1234_5678_9abc, 20), (0x0fff_ffff_ffff, 12), (77, 3)] {
            let span = Span {
                low,
                high: low + (1 << 30),
            };
            let range = Range {
                prefix: Coded::ZERO,
                offset: 0,
                span,
                granule_bits,
                fence_bits: 0,
                closed_low: true,
                closed_high: false,
            };
            let window = range.window();
            for number in 1..900u64 {
                let start = (low >> granule_bits) + number;
                let entry = Span {
                    low: start << granule_bits,
                    high: ((start + 1) << granule_bits) - 1,
                };
                let slice = window.slice_of(entry, 0);
                let shift =
                    u32::from(window.shift) - u32::from(window.offset).min(window.shift.into());
                let known = granule_bits.saturating_sub(shift);
                if entry.high < span.high {
                    assert!(lost_bits(slice) <= known, "{window:?} {entry:?} {slice:x}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_covering_slice_covers_and_agrees(a in 0..=LAST, b in 0..=LAST, c in 0..=LAST) {
            let (low, high) = (a.min(b), a.max(b));
            let slice = covering(low, high);
            prop_assert!(first_cell(slice) <= low && high <= last_cell(slice));
            prop_assert!(lost_bits(slice) == 0 || first_cell(slice) ^ low < 1 << lost_bits(slice));
            let inside = first_cell(slice) <= c && c <= last_cell(slice);
            prop_assert_eq!(agrees(slice, known(c)), inside);
            let flipped = mirrored(slice);
            prop_assert_eq!(first_cell(flipped), LAST - last_cell(slice));
            prop_assert_eq!(last_cell(flipped), LAST - first_cell(slice));
        }

        /// The base need not be aligned for soundness; a window is cut for ranges at odd places.
        #[test]
        fn an_entry_keeps_its_key_through_windows(
            key: u64, low: u64, size in 0u32..64, granule in 0u32..20, zoom in 0u64..1 << 40, closed: bool,
        ) {
            let code = Coded::ZERO.with_window(0, key, 0);
            let range = |low: u64, high: u64| Range {
                prefix: Coded::ZERO, offset: 0, span: Span { low, high }, granule_bits: granule, fence_bits: 0, closed_low: closed, closed_high: closed,
            };
            let first = range(low, low.saturating_add(u64::MAX >> size)).window();
            let slice = known(first.cell(&code));
            let Some(span) = first.span(slice) else { return Ok(()) };
            let seen = code.bits(usize::from(first.offset));
            prop_assert!(span.low <= seen && seen <= span.high);
            let around = Range {
                prefix: code, offset: first.offset,
                span: Span { low: span.low.saturating_sub(zoom), high: span.high.saturating_add(zoom) },
                granule_bits: granule.max(first.granule_bits(slice)), fence_bits: 0, closed_low: false, closed_high: closed,
            };
            let second = around.window();
            let moved = second.slice_of(span, first.offset);
            prop_assert!(agrees(moved, known(second.cell(&code))), "{first:?} {second:?}");
        }
    }
}
