//! Inner nodes: from a key to the leaf between whose fences it lies.
//!
//! Separators are raw internal keys, as short as a split could make them. A node keeps for each
//! separator the eight bytes after those that all its separators share, and searches them sixteen
//! at a time; only equal heads lead to whole separators.
//!
//! Invariants: a node with `n` children has `n - 1` separators, strictly ascending; child `i` holds
//! the keys from separator `i - 1` (inclusive) to separator `i`; all leaves are at one depth.
//! Threads: the shape is changed under the exclusive lock of the tree alone.

use std::cmp::Ordering;

use heliox_sync::{Mutex, MutexGuard};

use crate::key::{common_bytes, head_of, KeyView};
use crate::leaf::Leaf;
use crate::simd::{self, HEADS};

/// Most children of an inner node.
const FANOUT: usize = 256;
/// What the allocator adds to a piece of memory, about.
const ALLOCATION_BYTES: usize = 16;

/// A leaf with its lock. The lock is taken while the tree is held, never the other way round, and
/// never two at once.
#[repr(align(64))]
pub(crate) struct LeafCell(Mutex<Leaf>);

impl LeafCell {
    fn new(leaf: Leaf) -> Box<LeafCell> {
        Box::new(LeafCell(Mutex::new(leaf)))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Leaf> {
        self.0.lock()
    }

    /// Asks for the cache lines of the leaf's header.
    #[inline]
    pub(crate) fn prefetch(&self) {
        simd::prefetch_all(self);
    }
}

/// Where to go down.
#[derive(Clone, Copy)]
pub(crate) enum Probe<'a> {
    /// To the leaf that may hold the key.
    At(KeyView<'a>),
    /// To the leaf of the greatest keys below this one.
    Before(&'a [u8]),
    /// To the last leaf.
    Last,
}

/// The bounds of a leaf: keys from `low` on, below `high` if there is one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fences {
    pub(crate) low: Vec<u8>,
    pub(crate) high: Option<Vec<u8>>,
}

/// Boxed: nodes move when their neighbours change, and leaves must stay on their cache lines.
#[allow(clippy::vec_box)]
enum Children {
    Inner(Vec<Box<Inner>>),
    Leaf(Vec<Box<LeafCell>>),
}

struct Inner {
    samples: [u64; HEADS],
    heads: [u64; FANOUT],
    /// Bytes that all separators share.
    skip: usize,
    seps: Vec<Box<[u8]>>,
    children: Children,
}

/// The tree.
pub(crate) struct Tree {
    root: Box<Inner>,
    leaves: usize,
    inners: usize,
    separator_bytes: usize,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        Tree::of_leaves(std::iter::empty(), Leaf::new())
    }

    /// A tree of the first leaf and of others with their separators, in order.
    pub(crate) fn of_leaves(others: impl Iterator<Item = (Vec<u8>, Leaf)>, first: Leaf) -> Tree {
        let root = Inner::new(Vec::new(), Children::Leaf(vec![LeafCell::new(first)]));
        let mut tree = Tree {
            root,
            leaves: 1,
            inners: 1,
            separator_bytes: 0,
        };
        for (separator, leaf) in others {
            tree.insert(separator, leaf);
        }
        tree
    }

    /// All memory of nodes, separators and leaf headers.
    pub(crate) fn bytes(&self) -> u64 {
        let node = std::mem::size_of::<Inner>()
            + FANOUT * (std::mem::size_of::<Box<[u8]>>() + std::mem::size_of::<usize>())
            + 3 * ALLOCATION_BYTES;
        let leaf = std::mem::size_of::<LeafCell>() + ALLOCATION_BYTES;
        (self.inners * node + self.leaves * leaf + self.separator_bytes) as u64
    }

    #[cfg(test)]
    pub(crate) fn leaves(&self) -> usize {
        self.leaves
    }

    pub(crate) fn inners(&self) -> usize {
        self.inners
    }

    #[inline]
    pub(crate) fn leaf(&self, probe: Probe<'_>) -> &LeafCell {
        let mut node = &*self.root;
        loop {
            let at = node.child_of(probe);
            match &node.children {
                Children::Inner(inners) => node = &inners[at],
                Children::Leaf(leaves) => return &leaves[at],
            }
        }
    }

    /// The leaf and its fences.
    pub(crate) fn leaf_between(&self, probe: Probe<'_>) -> (&LeafCell, Fences) {
        let mut node = &*self.root;
        let (mut low, mut high): (&[u8], Option<&[u8]>) = (&[], None);
        loop {
            let at = node.child_of(probe);
            low = at.checked_sub(1).map_or(low, |before| &node.seps[before]);
            high = node.seps.get(at).map(|next| &**next).or(high);
            match &node.children {
                Children::Inner(inners) => node = &inners[at],
                Children::Leaf(leaves) => {
                    let high = high.map(<[u8]>::to_vec);
                    return (
                        &leaves[at],
                        Fences {
                            low: low.to_vec(),
                            high,
                        },
                    );
                }
            }
        }
    }

    /// The leaf, to change while the tree is held exclusively.
    pub(crate) fn leaf_mut(&mut self, probe: Probe<'_>) -> &mut Leaf {
        let mut node = &mut *self.root;
        loop {
            let at = node.child_of(probe);
            match &mut node.children {
                Children::Inner(inners) => node = &mut inners[at],
                Children::Leaf(leaves) => return leaves[at].0.get_mut(),
            }
        }
    }

    /// Adds a leaf for the keys from `separator` to the end of the leaf that had them.
    pub(crate) fn insert(&mut self, separator: Vec<u8>, leaf: Leaf) {
        self.leaves += 1;
        self.separator_bytes += separator.len().next_multiple_of(16) + ALLOCATION_BYTES;
        let new = LeafCell::new(leaf);
        if let Some((up, right)) = self.root.insert(separator.into(), new, &mut self.inners) {
            self.inners += 1;
            let empty = Inner::new(Vec::new(), Children::Inner(Vec::new()));
            let left = std::mem::replace(&mut self.root, empty);
            self.root = Inner::new(vec![up], Children::Inner(vec![left, right]));
        }
    }

    /// Visits all leaves in order, without locking them.
    pub(crate) fn for_each(&self, f: &mut dyn FnMut(&LeafCell)) {
        self.root.for_each(f);
    }
}

impl Inner {
    fn new(seps: Vec<Box<[u8]>>, children: Children) -> Box<Inner> {
        let (samples, heads) = ([u64::MAX; HEADS], [u64::MAX; FANOUT]);
        let mut node = Box::new(Inner {
            samples,
            heads,
            skip: 0,
            seps,
            children,
        });
        node.reserve();
        node.recut();
        node
    }

    /// Vectors have the size of a full node from the start: their growth would waste more.
    fn reserve(&mut self) {
        self.seps
            .reserve_exact(FANOUT.saturating_sub(self.seps.len()));
        match &mut self.children {
            Children::Inner(inners) => inners.reserve_exact(FANOUT.saturating_sub(inners.len())),
            Children::Leaf(leaves) => leaves.reserve_exact(FANOUT.saturating_sub(leaves.len())),
        }
    }

    fn shared(&self) -> usize {
        match (self.seps.first(), self.seps.last()) {
            (Some(first), Some(last)) => common_bytes(first, last),
            _ => 0,
        }
    }

    /// Computes the heads anew.
    fn recut(&mut self) {
        self.skip = self.shared();
        self.heads = [u64::MAX; FANOUT];
        for (head, sep) in self.heads.iter_mut().zip(&self.seps) {
            *head = head_of(&sep[self.skip..]);
        }
        self.resample();
    }

    fn resample(&mut self) {
        for (sample, heads) in self.samples.iter_mut().zip(self.heads.chunks_exact(HEADS)) {
            *sample = heads[HEADS - 1];
        }
    }

    #[inline]
    fn child_of(&self, probe: Probe<'_>) -> usize {
        match probe {
            Probe::At(key) => self.seps_upto(key),
            Probe::Before(key) => self.seps.partition_point(|sep| **sep < *key),
            Probe::Last => self.seps.len(),
        }
    }

    /// How many separators are not above the key.
    #[inline]
    fn seps_upto(&self, key: KeyView<'_>) -> usize {
        let Some(first) = self.seps.first() else {
            return 0;
        };
        match key.compare_front(&first[..self.skip]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.seps.len(),
            Ordering::Equal => {}
        }
        let head = key.head_at(self.skip);
        let group = simd::heads_below(&self.samples, head);
        let heads = self
            .heads
            .get(group * HEADS..)
            .and_then(<[u64]>::first_chunk);
        let below = group * HEADS + heads.map_or(0, |heads| simd::heads_below(heads, head));
        let below = below.min(self.seps.len());
        if self.heads.get(below) != Some(&head) {
            return below;
        }
        let equal = self.seps[below..].iter().zip(&self.heads[below..]);
        let equal = equal.take_while(|(_, other)| **other == head).count();
        let run = &self.seps[below..below + equal];
        below + run.partition_point(|sep| key.compare(sep).is_ge())
    }

    /// Adds a leaf below this node; if the node had to be split, returns the right part.
    fn insert(
        &mut self,
        separator: Box<[u8]>,
        leaf: Box<LeafCell>,
        inners: &mut usize,
    ) -> Option<(Box<[u8]>, Box<Inner>)> {
        let at = self.seps_upto(KeyView::from(&*separator));
        let separator = match &mut self.children {
            Children::Leaf(leaves) => {
                leaves.insert(at + 1, leaf);
                separator
            }
            Children::Inner(nodes) => {
                let (up, right) = nodes[at].insert(separator, leaf, inners)?;
                nodes.insert(at + 1, right);
                up
            }
        };
        self.add_separator(at, separator);
        (self.seps.len() >= FANOUT).then(|| {
            *inners += 1;
            self.split(at)
        })
    }

    fn add_separator(&mut self, at: usize, separator: Box<[u8]>) {
        let before = self.skip;
        self.seps.insert(at, separator);
        if before != self.shared() || self.seps.len() <= 2 || self.seps.len() >= FANOUT {
            self.recut();
            return;
        }
        self.heads.copy_within(at..FANOUT - 1, at + 1);
        self.heads[at] = head_of(&self.seps[at][self.skip..]);
        self.resample();
    }

    /// Moves the right part to a new node. Where keys are appended, the left part stays nearly full.
    fn split(&mut self, at: usize) -> (Box<[u8]>, Box<Inner>) {
        let count = self.seps.len();
        let kept = if at + 1 == count {
            count * 15 / 16
        } else {
            count / 2
        };
        let right_seps = self.seps.split_off(kept + 1);
        let up = self.seps.pop().unwrap_or_default();
        let right = match &mut self.children {
            Children::Inner(inners) => Children::Inner(inners.split_off(kept + 1)),
            Children::Leaf(leaves) => Children::Leaf(leaves.split_off(kept + 1)),
        };
        self.recut();
        (up, Inner::new(right_seps, right))
    }

    fn for_each(&self, f: &mut dyn FnMut(&LeafCell)) {
        match &self.children {
            Children::Inner(inners) => inners.iter().for_each(|inner| inner.for_each(f)),
            Children::Leaf(leaves) => leaves.iter().for_each(|leaf| f(leaf)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_key_goes_between_its_fences(
            seps in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(97), any::<u8>()], 1..12), 1..900),
            probes in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(97), any::<u8>()], 0..14), 50),
        ) {
            let mut tree = Tree::new();
            let mut set = BTreeSet::new();
            for sep in seps {
                if set.insert(sep.clone()) {
                    tree.insert(sep, Leaf::new());
                }
            }
            prop_assert_eq!(tree.leaves(), set.len() + 1);
            for key in probes.iter().chain(&set) {
                let low = set.range(..=key.clone()).next_back().cloned().unwrap_or_default();
                let high = set.iter().find(|sep| *sep > key).cloned();
                let (cell, fences) = tree.leaf_between(Probe::At(KeyView::from(key.as_slice())));
                prop_assert!(std::ptr::eq(cell, tree.leaf(Probe::At(KeyView::from(key.as_slice())))));
                prop_assert_eq!(fences, Fences { low, high });
                let before = tree.leaf_between(Probe::Before(key)).1;
                prop_assert!(before.low < *key || key.is_empty() || before.low.is_empty());
                prop_assert!(before.high.is_none_or(|high| high >= *key));
            }
        }
    }
}
