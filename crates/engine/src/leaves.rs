//! Which leaf of the index a key belongs to, told from a list of fences: many keys are looked up in
//! it, and nothing of the index is touched. Immutable once made; may be shared between threads.

use std::cmp::Ordering;

use heliox_format::ids::KeyspaceId;

/// Leaves, to be found by key.
#[derive(Default)]
pub(crate) struct Leaves {
    /// Lower fences of all leaves but the first.
    fences: Vec<Vec<u8>>,
    /// What all fences begin with.
    common: Vec<u8>,
    /// The eight bytes of each fence after that, which nearly always decide.
    heads: Vec<u64>,
    /// How many heads lie in the buckets before each, and at last in all of them.
    buckets: Vec<u32>,
    /// Heads that agree above these bits, counted from the first head on, share a bucket.
    shift: u32,
}

impl Leaves {
    /// The leaves with these lower fences, internal keys in ascending order; the first leaf has
    /// none.
    pub(crate) fn new(fences: Vec<Vec<u8>>) -> Leaves {
        let common = match (fences.first(), fences.last()) {
            (Some(first), Some(last)) => {
                let same = first.iter().zip(last).take_while(|(a, b)| a == b).count();
                first[..same].to_vec()
            }
            _ => Vec::new(),
        };
        let heads = fences.iter().map(|f| head(&f[common.len()..])).collect();
        let mut leaves = Leaves {
            fences,
            common,
            heads,
            buckets: Vec::new(),
            shift: 0,
        };
        leaves.fill_buckets();
        leaves
    }

    /// About two buckets for each head: a binary search over all would miss the cache at each step.
    fn fill_buckets(&mut self) {
        let (Some(first), Some(last)) = (self.heads.first(), self.heads.last()) else {
            return;
        };
        let width = u64::BITS - (last - first).leading_zeros();
        let bits = (2 * self.heads.len()).next_power_of_two().ilog2();
        self.shift = width.saturating_sub(bits);
        let count = ((last - first) >> self.shift) as usize + 1;
        self.buckets = vec![0; count + 1];
        for head in &self.heads {
            self.buckets[((head - first) >> self.shift) as usize + 1] += 1;
        }
        let mut before = 0;
        for bucket in &mut self.buckets {
            before += *bucket;
            *bucket = before;
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.fences.len() + 1
    }

    /// The number of the leaf that the key belongs to, from 0.
    pub(crate) fn of(&self, keyspace: KeyspaceId, key: &[u8]) -> u32 {
        let id = keyspace.0.to_be_bytes();
        let skip = self.common.len();
        let n = if skip >= id.len() && key.len() >= skip - id.len() {
            match compare(&self.common, &id, &key[..skip - id.len()]) {
                Ordering::Equal => self.after_common(&key[skip - id.len()..], &id, key),
                Ordering::Greater => 0,
                Ordering::Less => self.fences.len(),
            }
        } else {
            self.fences
                .partition_point(|f| compare(f, &id, key) != Ordering::Greater)
        };
        n as u32
    }

    fn after_common(&self, rest: &[u8], id: &[u8; 4], key: &[u8]) -> usize {
        let wanted = head(rest);
        let from = self.heads_below(wanted);
        let same = self.heads[from..].iter().take_while(|h| **h == wanted);
        let to = from + same.count();
        let is_past = |f: &Vec<u8>| compare(f, id, key) != Ordering::Greater;
        from + self.fences[from..to].partition_point(is_past)
    }

    fn heads_below(&self, wanted: u64) -> usize {
        let first = self.heads.first().copied().unwrap_or(0);
        let Some(past) = wanted.checked_sub(first) else {
            return 0;
        };
        let bucket = (past >> self.shift) as usize;
        match (self.buckets.get(bucket), self.buckets.get(bucket + 1)) {
            (Some(from), Some(to)) => {
                let (from, to) = (*from as usize, *to as usize);
                from + self.heads[from..to].partition_point(|h| *h < wanted)
            }
            _ => self.heads.len(),
        }
    }
}

/// The first eight bytes, zeros after the end.
fn head(bytes: &[u8]) -> u64 {
    if let Some(whole) = bytes.first_chunk() {
        return u64::from_be_bytes(*whole);
    }
    let mut head = [0; 8];
    let n = bytes.len().min(8);
    head[..n].copy_from_slice(&bytes[..n]);
    u64::from_be_bytes(head)
}

/// Compares an internal key with a keyspace and key that are not put together.
fn compare(internal: &[u8], keyspace: &[u8; 4], key: &[u8]) -> Ordering {
    let (id, rest) = internal.split_at(internal.len().min(keyspace.len()));
    id.cmp(&keyspace[..]).then_with(|| rest.cmp(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn internal(id: u32, key: &[u8]) -> Vec<u8> {
        [&id.to_be_bytes()[..], key].concat()
    }

    fn check(fences: &[Vec<u8>], keys: &[&[u8]]) {
        let leaves = Leaves::new(fences.to_vec());
        for id in 0..4 {
            for key in keys {
                let whole = internal(id, key);
                let wanted = fences.partition_point(|f| *f <= whole);
                let found = leaves.of(KeyspaceId(id), key) as usize;
                assert_eq!(found, wanted, "{id} {key:?}");
            }
        }
    }

    #[test]
    fn leaves_are_found_as_by_comparing_whole_keys() {
        let keys: [&[u8]; 9] = [
            b"",
            b"\0",
            b"a",
            b"aa",
            b"common",
            b"common1",
            b"common12345678",
            b"common2",
            b"z",
        ];
        let sets: [Vec<Vec<u8>>; 4] = [
            Vec::new(),
            vec![internal(1, b"common12345678")],
            vec![
                internal(1, b"common1"),
                internal(1, b"common12345678"),
                internal(1, b"common2"),
            ],
            vec![
                internal(0, b"z"),
                internal(1, b""),
                internal(1, b"aa"),
                internal(2, b"a"),
            ],
        ];
        for fences in sets {
            check(&fences, &keys);
        }
    }

    #[test]
    fn leaves_are_found_among_many_that_lie_unevenly() {
        let numbers: Vec<u64> = (0..400u64)
            .map(|n| n * n * n)
            .chain((0..40).rev().map(|n| u64::MAX - n))
            .collect();
        let fences: Vec<Vec<u8>> = numbers
            .iter()
            .map(|n| internal(1, &n.to_be_bytes()))
            .collect();
        let probes: Vec<[u8; 8]> = numbers
            .iter()
            .flat_map(|n| [n.wrapping_sub(1), *n, n.wrapping_add(1)])
            .map(u64::to_be_bytes)
            .collect();
        let probes: Vec<&[u8]> = probes.iter().map(<[u8; 8]>::as_slice).collect();
        check(&fences, &probes);
    }
}
