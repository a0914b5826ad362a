//! Tie groups: how well slices tell the keys of a leaf apart, which decides its format.
//!
//! Pure functions over the slices of a leaf, in any order.

use crate::slice;

/// A tie group of this size is large: a seek into it reads that many records.
const LARGE_GROUP: usize = 8;

/// Whether more than half of the entries are in large tie groups.
pub(crate) fn mostly_tied(slices: Vec<u16>) -> bool {
    let count = slices.len();
    in_groups(slices, LARGE_GROUP) * 2 > count
}

/// Whether slices tell these keys apart so well that they still will when the leaf has grown to
/// `full` entries: less than a quarter of the entries are in groups that would be large by then, as
/// groups grow like the leaf. So a leaf that left a format is not soon back in it. A few keys prove
/// nothing.
pub(crate) fn hardly_tied(slices: Vec<u16>, full: usize) -> bool {
    let count = slices.len();
    let large = (LARGE_GROUP * count).div_ceil(full.max(1));
    count >= 2 * LARGE_GROUP && in_groups(slices, large.max(2)) * 4 < count
}

/// How many entries are in tie groups of at least this size.
pub(crate) fn in_groups(mut slices: Vec<u16>, least: usize) -> usize {
    // Intervals nest or are disjoint, so slices in order as numbers keep a group together.
    if !slices.is_sorted() {
        slices.sort_unstable();
    }
    // The last cell of each group so far, and its size.
    let mut groups: Vec<(u16, u32)> = Vec::with_capacity(slices.len());
    for slice in slices {
        let (first, mut last, mut size) = (slice::first_cell(slice), slice::last_cell(slice), 1);
        // A coarse slice comes after the finer ones in its first half.
        while let Some((end, joined)) = groups.pop_if(|(end, _)| *end >= first) {
            last = last.max(end);
            size += joined;
        }
        groups.push((last, size));
    }
    let sizes = groups.iter().map(|(_, size)| *size as usize);
    sizes.filter(|size| *size >= least).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Held against the definition: a group is what overlaps, step by step.
        #[test]
        fn groups_are_what_overlaps(slices in prop::collection::vec(1u16.., 0..60), least in 1usize..6) {
            let mut cells: Vec<(u16, u16)> =
                slices.iter().map(|s| (slice::first_cell(*s), slice::last_cell(*s))).collect();
            cells.sort_unstable();
            let mut sizes: Vec<(u16, usize)> = Vec::new();
            for (first, last) in cells {
                match sizes.last_mut() {
                    Some((end, size)) if *end >= first => (*end, *size) = ((*end).max(last), *size + 1),
                    _ => sizes.push((last, 1)),
                }
            }
            let expected = sizes.iter().map(|(_, size)| *size).filter(|size| *size >= least).sum();
            prop_assert_eq!(in_groups(slices, least), expected);
        }
    }

    /// What counts is how large groups will be when the leaf has filled.
    #[test]
    fn ties_count_for_more_in_a_leaf_that_will_grow() {
        let groups_of = |size: usize, count: usize| {
            let cell = |at: usize| slice::known((at / size) as u16);
            hardly_tied((0..count).map(cell).collect(), 1472)
        };
        assert!(groups_of(1, 16) && !groups_of(1, 15));
        assert!(!groups_of(2, 100) && !groups_of(4, 512));
        assert!(groups_of(4, 1024) && !groups_of(8, 1024));
        let some_tied = |tied: u16| {
            let cell = |at: u16| slice::known(if at < tied { at / 4 } else { at });
            hardly_tied((0..512).map(cell).collect(), 1472)
        };
        assert!(some_tied(124) && !some_tied(128));
    }
}
