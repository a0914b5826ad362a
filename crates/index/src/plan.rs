//! Plans how a leaf is split, or cut anew, out of what its entries know and of keys read so far.
//!
//! A plan changes nothing. Where knowledge does not suffice it names the entries to be read, and
//! is made again when they have been; so it can be made under the exclusive lock, and reading is
//! done with no lock held. Pure functions over a leaf held exclusively.

use std::collections::BTreeMap;

use heliox_format::ids::Location;

use crate::api::{IndexOptions, KEYSPACE_BYTES};
use crate::blocks::{Blocks, BLOCK_ENTRIES};
use crate::code::{self, Coded, CODE_BITS};
use crate::key::{common_bytes, PreparedKey};
use crate::keyed_leaf::{KeyedEntry, KeyedLeaf};
use crate::leaf::{entry_of, rest_of, Leaf, Stored, FULL_ENTRIES, LEAF_BLOCKS};
use crate::slice::{self, Range, Span, Window, LOST_BITS_MAX};
use crate::ties::{hardly_tied, mostly_tied};
use crate::tree::Fences;

/// Internal keys read so far, by location. Few, mostly, while every entry of a leaf asks for its own.
pub(crate) type Keys = BTreeMap<Location, Vec<u8>>;

/// A leaf's new content.
pub(crate) enum Content {
    Slices(Window, Vec<Stored>),
    Keys(KeyedLeaf),
}

impl Content {
    fn blocks(&self) -> usize {
        match self {
            Content::Slices(_, stored) => stored.len().div_ceil(BLOCK_ENTRIES),
            Content::Keys(_) => 0,
        }
    }
}

/// What to do with a leaf.
pub(crate) enum Plan {
    /// These entries' keys are needed first.
    Read(Vec<Location>),
    /// The leaf stays one, with this content.
    Recut(Content),
    /// The leaf becomes two.
    Split {
        separator: Vec<u8>,
        left: Content,
        right: Content,
    },
    /// The leaf keeps its entries, told anew where they were read; an empty one with this window
    /// follows it.
    Append {
        separator: Vec<u8>,
        left: Option<Content>,
        window: Window,
    },
    /// The leaf's content moves behind the separator; an empty leaf with this window precedes it.
    Prepend { separator: Vec<u8>, window: Window },
}

impl Plan {
    /// Blocks of the leaf's new content, whatever it has now.
    pub(crate) fn blocks(&self) -> usize {
        match self {
            Plan::Recut(content) => content.blocks(),
            Plan::Split { left, right, .. } => left.blocks() + right.blocks(),
            Plan::Append { left, .. } => left.as_ref().map_or(0, Content::blocks),
            Plan::Read(_) | Plan::Prepend { .. } => 0,
        }
    }
}

/// Codes of keys read so far.
type Codes = BTreeMap<Location, Coded>;

/// An entry and what is known of it: its bits at the old window's offset, and its code if its key
/// was read.
#[derive(Clone, Copy)]
struct Item<'c> {
    stored: Stored,
    span: Span,
    granule_bits: u32,
    code: Option<&'c Coded>,
}

/// Entries between this and the other end of a leaf may be where it is split: the middle half.
const MIDDLE_DIVISOR: usize = 4;
/// The middle quarter is preferred.
const QUARTER_DIVISOR: usize = 8;
/// Keys that are spread over this part of the range they may come in fill it.
const RANGE_DIVISOR: u64 = 4;
/// So many gaps are tried.
const GAPS_MAX: usize = 8;
/// An entry that would lose this many bits in its new window is read.
const LOST_ANEW_MAX: u32 = LOST_BITS_MAX + 2;

/// Cells behind the first key of a leaf of growing keys, for keys that come a little late.
const NEAR_CELLS: u64 = 1 << 12;
/// The shift of a window for growing keys, if it can be had: bits enough below the cells for
/// splits, the others above, so that the keys do not outgrow the window's prefix.
const NEAR_SHIFT: u16 = 16;

/// Plans for a leaf that has no room for `key`.
pub(crate) fn plan(
    leaf: &Leaf,
    blocks: &Blocks,
    fences: &Fences,
    options: &IndexOptions,
    key: &PreparedKey<'_>,
    keys: &Keys,
) -> Plan {
    if let Some(keyed) = &leaf.keyed {
        let entries = keyed.entries();
        let plan = beside_keyed(&entries, fences, options, key);
        return plan.unwrap_or_else(|| split_keyed(&entries, fences, options));
    }
    let stored = leaf.stored(blocks);
    if leaf.wants_reslice {
        return with_all_keys(&stored, keys, |entries| Plan::Recut(exact(entries, fences)));
    }
    if let Some(plan) = split_by_slices(leaf, &stored, fences, key, keys) {
        return plan;
    }
    with_all_keys(&stored, keys, |entries| split_exact(entries, fences))
}

/// Splits by what the slices say; `None` if they do not say enough.
fn split_by_slices(
    leaf: &Leaf,
    stored: &[Stored],
    fences: &Fences,
    key: &PreparedKey<'_>,
    keys: &Keys,
) -> Option<Plan> {
    let window = &leaf.window;
    let offset = usize::from(window.offset);
    let prefix = match &window.prefix {
        Some(prefix) => **prefix,
        None => Coded::of_internal(&fences.low).truncated(offset),
    };
    let coded = |(location, key): (&Location, &Vec<u8>)| (*location, Coded::of_internal(key));
    let codes: Codes = keys.iter().map(coded).collect();
    let mut items = match resolve(window, &prefix, stored, &codes)? {
        Ok(items) => items,
        Err(missing) => return Some(Plan::Read(missing)),
    };
    // Slices come in order, which suffices: their intervals nest or are disjoint, so none lies
    // between two of a tie group. What was read stands anywhere within its slice.
    if !codes.is_empty() {
        items.sort_by_key(|item| item.span.low);
    }
    if let Some(plan) = beside(window, &prefix, &items, fences, key) {
        return Some(plan);
    }
    if mostly_tied(stored.iter().map(|stored| stored.slice).collect()) {
        return None;
    }
    let (at, separator) = best_gap(&prefix, offset, &items)?;
    let (left, right) = items.split_at(at);
    let (low, high) = fences_around(fences, &separator);
    let mut missing = Vec::new();
    let left = reslice(left, &prefix, window.offset, &low, &mut missing);
    let right = reslice(right, &prefix, window.offset, &high, &mut missing);
    if missing.is_empty() {
        return Some(Plan::Split {
            separator,
            left,
            right,
        });
    }
    Some(Plan::Read(missing))
}

/// What is known of each entry, or which entries must be read; `None` if one lies outside of the
/// window's prefix.
#[allow(clippy::type_complexity)]
fn resolve<'c>(
    window: &Window,
    prefix: &Coded,
    stored: &[Stored],
    codes: &'c Codes,
) -> Option<Result<Vec<Item<'c>>, Vec<Location>>> {
    let offset = usize::from(window.offset);
    let mut items = Vec::with_capacity(stored.len());
    let mut missing = Vec::new();
    for &stored in stored {
        let location = entry_of(&stored.rest).location;
        if let Some(code) = codes.get(&location) {
            if code.truncated(offset) != *prefix {
                return None;
            }
            let bits = code.bits(offset);
            let span = Span {
                low: bits,
                high: bits,
            };
            items.push(Item {
                stored,
                span,
                granule_bits: 0,
                code: Some(code),
            });
            continue;
        }
        match window.span(stored.slice) {
            Some(span) if slice::lost_bits(stored.slice) < LOST_BITS_MAX => {
                let granule_bits = window.granule_bits(stored.slice);
                items.push(Item {
                    stored,
                    span,
                    granule_bits,
                    code: None,
                });
            }
            _ => missing.push(location),
        }
    }
    Some(if missing.is_empty() {
        Ok(items)
    } else {
        Err(missing)
    })
}

/// A key beyond all entries gets a leaf of its own beside them: appended keys fill leaves whole.
fn beside(
    window: &Window,
    prefix: &Coded,
    items: &[Item<'_>],
    fences: &Fences,
    key: &PreparedKey<'_>,
) -> Option<Plan> {
    let offset = usize::from(window.offset);
    let low = items.iter().map(|item| item.span.low).min()?;
    let high = items.iter().map(|item| item.span.high).max()?;
    let first = prefix.with_window(offset, low, 0);
    let last = prefix.with_window(offset, high, u64::MAX);
    let near = Window {
        shift: near_shift(low, high),
        ..window.clone()
    };
    let beside = |separator, below| (separator, window_near(&near, prefix, key.code(), below));
    if *key.code() > last {
        let (separator, window) = beside(code::separator(&last, key.code())?, NEAR_CELLS);
        let mut missing = Vec::new();
        let read = items.iter().any(|item| item.code.is_some());
        let between = Fences {
            low: fences.low.clone(),
            high: Some(separator.clone()),
        };
        let left = read.then(|| reslice(items, prefix, near.offset, &between, &mut missing));
        return Some(Plan::Append {
            separator,
            left: left.filter(|_| missing.is_empty()),
            window,
        });
    }
    if *key.code() < first {
        let (separator, window) = beside(
            code::separator(key.code(), &first)?,
            slice::CELLS - NEAR_CELLS,
        );
        return Some(Plan::Prepend { separator, window });
    }
    None
}

/// The shift of a window in which as many keys again as lie between these take a quarter of the cells:
/// growing keys fill leaf after leaf so.
fn near_shift(low: u64, high: u64) -> u8 {
    let width = 64 - (high - low).leading_zeros();
    let shift = width.saturating_sub(13);
    shift.clamp(0, u32::from(slice::SHIFT_MAX)) as u8
}

/// The same beside a leaf of full keys, as a leaf is that began with keys of two keyspaces: it gets
/// slices, if these tell its keys apart now that none will come beyond them.
fn beside_keyed(
    entries: &[KeyedEntry],
    fences: &Fences,
    options: &IndexOptions,
    key: &PreparedKey<'_>,
) -> Option<Plan> {
    let (first, last) = (&entries.first()?.key, &entries.last()?.key);
    let new = key.internal();
    let (grows, shrinks) = (new > *last, new < *first);
    let is_one = [last, &new]
        .iter()
        .all(|key| common_bytes(first, key) >= KEYSPACE_BYTES);
    if !is_one || !grows && !shrinks {
        return None;
    }
    let (below, upto) = if grows { (last, &new) } else { (&new, first) };
    let separator = upto.get(..=common_bytes(below, upto))?.to_vec();
    let (low, high) = fences_around(fences, &separator);
    let held = sliced_again(entries, if grows { &low } else { &high }, options)?;
    let Content::Slices(window, _) = &held else {
        return None;
    };
    let offset = usize::from(window.offset);
    let codes = (Coded::of_internal(first), Coded::of_internal(last));
    let near = Window {
        shift: near_shift(codes.0.bits(offset), codes.1.bits(offset)),
        ..window.clone()
    };
    let cells = if grows {
        NEAR_CELLS
    } else {
        slice::CELLS - NEAR_CELLS
    };
    let near = window_near(&near, &codes.0.truncated(offset), key.code(), cells);
    let empty = Content::Slices(near, Vec::new());
    let (left, right) = if grows { (held, empty) } else { (empty, held) };
    Some(Plan::Split {
        separator,
        left,
        right,
    })
}

/// A window as fine as its neighbour's, for keys that go on from `code`, with `below` cells below
/// it. It starts far enough in front of the bits that tell the keys apart that counting on changes
/// no bit of the prefix.
fn window_near(window: &Window, prefix: &Coded, code: &Coded, below: u64) -> Window {
    let keyspace = 8 * KEYSPACE_BYTES as u16;
    let back = u16::from(window.shift)
        .saturating_sub(NEAR_SHIFT)
        .min(window.offset.saturating_sub(keyspace));
    let (offset, shift) = (window.offset - back, window.shift - back as u8);
    let prefix = prefix.truncated(usize::from(offset));
    if code.truncated(usize::from(offset)) != prefix {
        return slice::NO_WINDOW;
    }
    let base = code.bits(usize::from(offset)) >> shift << shift;
    Window {
        prefix: Some(Box::new(prefix)),
        base: base.saturating_sub(below << shift),
        offset,
        shift,
    }
}

/// The gap between tie groups whose separator is shortest, in the middle quarter if there is one.
fn best_gap(prefix: &Coded, offset: usize, items: &[Item<'_>]) -> Option<(usize, Vec<u8>)> {
    let count = items.len();
    let mut lows = vec![u64::MAX; count + 1];
    for (at, item) in items.iter().enumerate().rev() {
        lows[at] = lows[at + 1].min(item.span.low);
    }
    let mut gaps = Vec::with_capacity(GAPS_MAX);
    let mut high = 0;
    for (at, item) in items.iter().enumerate() {
        if at > 0 && high < lows[at] {
            let off = at.abs_diff(count / 2);
            if off <= count / MIDDLE_DIVISOR {
                let far = off > count / QUARTER_DIVISOR;
                let gap = (far, (high ^ lows[at]).leading_zeros(), off, at, high);
                if gaps.len() < GAPS_MAX || gaps.last() > Some(&gap) {
                    gaps.truncate(GAPS_MAX - 1);
                    gaps.insert(gaps.partition_point(|better| *better < gap), gap);
                }
            }
        }
        high = high.max(item.span.high);
    }
    gaps.iter().find_map(|&(_, _, _, at, high)| {
        let below = prefix.with_window(offset, high, u64::MAX);
        let upto = prefix.with_window(offset, lows[at], 0);
        Some((at, code::separator(&below, &upto)?))
    })
}

/// The fences of the parts that a separator makes of a leaf.
fn fences_around(fences: &Fences, separator: &[u8]) -> (Fences, Fences) {
    let low = Fences {
        low: fences.low.clone(),
        high: Some(separator.to_vec()),
    };
    let high = Fences {
        low: separator.to_vec(),
        high: fences.high.clone(),
    };
    (low, high)
}

/// How many leading bits of the code all keys between the fences share.
fn fence_bits(fences: &Fences) -> usize {
    match &fences.high {
        Some(high) => Coded::of_internal(&fences.low).common_bits(&Coded::of_internal(high)),
        None => 0,
    }
}

/// The range to cut a window for: that between the fences if the keys fill a good part of it, else
/// that of the keys with as much again around it.
fn range_for(
    prefix: &Coded,
    offset: u16,
    keys: Span,
    granule_bits: u32,
    count: usize,
    fences: &Fences,
) -> Range {
    let fence_bits = fence_bits(fences);
    let around = |keys: Span| {
        let width = keys.high - keys.low;
        (
            keys.low.saturating_sub(width / 2),
            keys.high.saturating_add(width / 2),
        )
    };
    let (mut low, mut high) = around(keys);
    let (mut closed_low, mut closed_high) = (false, false);
    if let (true, Some(upper)) = (usize::from(offset) <= fence_bits, &fences.high) {
        // Nothing lies outside of the fences, whatever the entries know.
        let first = Coded::of_internal(&fences.low).bits(usize::from(offset));
        let end = Coded::of_internal(upper).bits(usize::from(offset));
        let keys = Span {
            low: keys.low.max(first),
            high: keys.high.min(end).max(first),
        };
        (low, high) = around(keys);
        if count < BLOCK_ENTRIES || (end - first) / 8 <= keys.high.saturating_sub(keys.low) {
            (low, high) = (first, end);
        }
        (low, high) = (low.max(first), high.min(end));
        (closed_low, closed_high) = (low == first, high == end);
    }
    let span = Span { low, high };
    Range {
        prefix: *prefix,
        offset,
        span,
        granule_bits,
        fence_bits,
        closed_low,
        closed_high,
    }
}

/// Gives entries slices in a window of their own. Names those that would know too little.
fn reslice(
    items: &[Item<'_>],
    prefix: &Coded,
    offset: u16,
    fences: &Fences,
    missing: &mut Vec<Location>,
) -> Content {
    let low = items.iter().map(|item| item.span.low).min().unwrap_or(0);
    let high = items
        .iter()
        .map(|item| item.span.high)
        .max()
        .unwrap_or(u64::MAX);
    let granule = items
        .iter()
        .map(|item| item.granule_bits)
        .max()
        .unwrap_or(0);
    let range = range_for(
        prefix,
        offset,
        Span { low, high },
        granule,
        items.len(),
        fences,
    );
    let window = range.window();
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        let slice = match item.code {
            Some(code) => slice::known(window.cell(code)),
            None => window.slice_of(item.span.within(range.span), offset),
        };
        if item.code.is_none() && slice::lost_bits(slice) >= LOST_ANEW_MAX {
            missing.push(entry_of(&item.stored.rest).location);
        }
        all.push(Stored {
            slice,
            rest: item.stored.rest,
        });
    }
    Content::Slices(window, all)
}

/// An entry whose key was read.
struct Known<'a> {
    key: &'a [u8],
    stored: Stored,
}

/// Goes on once all keys were read.
fn with_all_keys(stored: &[Stored], keys: &Keys, then: impl FnOnce(&[Known<'_>]) -> Plan) -> Plan {
    let mut entries = Vec::with_capacity(stored.len());
    let mut missing = Vec::new();
    for &stored in stored {
        let location = entry_of(&stored.rest).location;
        match keys.get(&location) {
            Some(key) => entries.push(Known { key, stored }),
            None => missing.push(location),
        }
    }
    if !missing.is_empty() {
        return Plan::Read(missing);
    }
    entries.sort_unstable_by_key(|entry| entry.key);
    then(&entries)
}

/// A window for sorted keys, and their slices in it; `None` if there are too many for a leaf.
fn exact_slices<'k>(
    count: usize,
    key: impl Fn(usize) -> &'k [u8],
    fences: &Fences,
) -> Option<(Window, Vec<u16>)> {
    if count > LEAF_BLOCKS * BLOCK_ENTRIES {
        return None;
    }
    let Some(end) = count.checked_sub(1) else {
        return Some((slice::NO_WINDOW, Vec::new()));
    };
    let (first, last) = (Coded::of_internal(key(0)), Coded::of_internal(key(end)));
    // A few bits are left for keys just outside.
    let shared = first.common_bits(&last).min(CODE_BITS - 64);
    let offset = shared.saturating_sub(3).max(shared.min(fence_bits(fences))) as u16;
    let at = usize::from(offset);
    let span = Span {
        low: first.bits(at),
        high: last.bits(at),
    };
    let window = range_for(&first.truncated(at), offset, span, 0, count, fences).window();
    let slice = |at| slice::known(window.cell(&Coded::of_internal(key(at))));
    let slices = (0..count).map(slice).collect();
    Some((window, slices))
}

/// Content made of keys: slices if they tell the keys apart, else the keys themselves.
fn exact(entries: &[Known<'_>], fences: &Fences) -> Content {
    let slices = exact_slices(entries.len(), |at| entries[at].key, fences);
    if let Some((window, slices)) = slices.filter(|(_, slices)| !mostly_tied(slices.clone())) {
        let known = entries.iter().zip(slices);
        let stored = known.map(|(entry, slice)| Stored {
            slice,
            rest: entry.stored.rest,
        });
        return Content::Slices(window, stored.collect());
    }
    let keyed = |entry: &Known<'_>| KeyedEntry {
        key: entry.key.to_vec(),
        entry: entry_of(&entry.stored.rest),
    };
    Content::Keys(KeyedLeaf::from_sorted(
        &entries.iter().map(keyed).collect::<Vec<_>>(),
    ))
}

/// Splits a leaf whose keys are all known.
fn split_exact(entries: &[Known<'_>], fences: &Fences) -> Plan {
    let Some((at, separator)) = cut(entries.len(), |at| entries[at].key) else {
        return Plan::Recut(exact(entries, fences));
    };
    let (low, high) = fences_around(fences, &separator);
    let (left, right) = (exact(&entries[..at], &low), exact(&entries[at..], &high));
    Plan::Split {
        separator,
        left,
        right,
    }
}

/// Splits a leaf of full keys: between two keyspaces if it holds more than one, since their keys
/// are seldom alike. A part whose keys slices tell apart goes back to them.
fn split_keyed(entries: &[KeyedEntry], fences: &Fences, options: &IndexOptions) -> Plan {
    let content = |entries: &[KeyedEntry], fences: &Fences| {
        let sliced = sliced_again(entries, fences, options);
        sliced.unwrap_or_else(|| Content::Keys(KeyedLeaf::from_sorted(entries)))
    };
    let key = |at: usize| entries[at].key.as_slice();
    match keyspace_cut(entries.len(), key).or_else(|| cut(entries.len(), key)) {
        Some((at, separator)) => {
            let (low, high) = fences_around(fences, &separator);
            let (left, right) = entries.split_at(at);
            let (left, right) = (content(left, &low), content(right, &high));
            Plan::Split {
                separator,
                left,
                right,
            }
        }
        None => Plan::Recut(content(entries, fences)),
    }
}

/// Entries of full keys as slices, if these tell the keys apart for good.
fn sliced_again(
    entries: &[KeyedEntry],
    fences: &Fences,
    options: &IndexOptions,
) -> Option<Content> {
    if !fill_their_range(entries, fences)? {
        return None;
    }
    let (window, slices) = exact_slices(entries.len(), |at| &entries[at].key, fences)
        .filter(|(_, slices)| hardly_tied(slices.clone(), FULL_ENTRIES))?;
    let stored = entries.iter().zip(slices).map(|(held, slice)| {
        let key = PreparedKey::from_internal(options.seed, &held.key)?;
        let rest = rest_of(key.fingerprint(options.fingerprint_bits), held.entry);
        Some(Stored { slice, rest })
    });
    Some(Content::Slices(window, stored.collect::<Option<_>>()?))
}

/// Whether the keys are spread over a good part of where keys of their keyspaces may come between
/// the fences. If not, those to come may all fall beside the window that is cut for these.
fn fill_their_range(entries: &[KeyedEntry], fences: &Fences) -> Option<bool> {
    let (first, last) = (&entries.first()?.key, &entries.last()?.key);
    let keyspace = |key: &[u8]| Coded::of_internal(key).truncated(8 * KEYSPACE_BYTES);
    let low = Coded::of_internal(&fences.low).max(keyspace(first));
    let end = keyspace(last).with_window(8 * KEYSPACE_BYTES, u64::MAX, u64::MAX);
    let high = match &fences.high {
        Some(high) => Coded::of_internal(high).min(end),
        None => end,
    };
    let offset = low.common_bits(&high).min(CODE_BITS - 64);
    let bits = |code: Coded| code.bits(offset);
    let keys = bits(Coded::of_internal(last)).checked_sub(bits(Coded::of_internal(first)))?;
    Some(keys >= bits(high).checked_sub(bits(low))? / RANGE_DIVISOR)
}

/// Where sorted keys go from one keyspace to another: nearest to the middle, if anywhere.
fn keyspace_cut<'a>(count: usize, key: impl Fn(usize) -> &'a [u8]) -> Option<(usize, Vec<u8>)> {
    let keyspace = |at| key(at).get(..KEYSPACE_BYTES);
    let at = (1..count)
        .filter(|&at| keyspace(at - 1) != keyspace(at))
        .min_by_key(|at| at.abs_diff(count / 2))?;
    let len = common_bytes(key(at - 1), key(at)) + 1;
    Some((at, key(at)[..len].to_vec()))
}

/// Where to cut sorted keys: in the middle half if keys differ there, where the separator is
/// shortest.
fn cut<'a>(count: usize, key: impl Fn(usize) -> &'a [u8]) -> Option<(usize, Vec<u8>)> {
    let shortest = |range: std::ops::Range<usize>| {
        range
            .filter(|&at| key(at - 1) < key(at))
            .map(|at| {
                (
                    common_bytes(key(at - 1), key(at)) + 1,
                    at.abs_diff(count / 2),
                    at,
                )
            })
            .min()
    };
    let quarter = (count / MIDDLE_DIVISOR).max(1);
    let middle = quarter..(count - count / MIDDLE_DIVISOR).min(count);
    let (len, _, at) = shortest(middle).or_else(|| shortest(1..count.max(1)))?;
    Some((at, key(at)[..len].to_vec()))
}
