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
pub(crate) fn in_groups(slices: Vec<u16>, least: usize) -> usize {
    let sizes = groups(slices).into_iter();
    sizes.filter(|len| *len >= least).sum()
}

/// The sizes of the tie groups, in order.
fn groups(mut slices: Vec<u16>) -> Vec<usize> {
    slices.sort_by_key(|slice| slice::first_cell(*slice));
    let mut groups = Vec::new();
    let mut last = None;
    for slice in slices {
        match groups.last_mut() {
            Some(len) if last >= Some(slice::first_cell(slice)) => *len += 1,
            _ => groups.push(1),
        }
        last = last.max(Some(slice::last_cell(slice)));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

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
