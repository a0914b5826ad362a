//! A set of writes that become visible and durable together.

use std::ops::Range;
use std::sync::Arc;

use crate::keyspace::Keyspace;
use crate::options::validate_ttl_ms;
use crate::write::check_sizes;

/// One write of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'b> {
    pub(crate) keyspace: &'b Keyspace,
    pub(crate) key: &'b [u8],
    /// None for a delete.
    pub(crate) value: Option<&'b [u8]>,
    pub(crate) ttl_ms: Option<u64>,
}

/// The same as a batch keeps it: keyspace by number, key and value by their place in `bytes`.
#[derive(Clone, Debug)]
struct Kept {
    keyspace: usize,
    key: Range<usize>,
    value: Option<Range<usize>>,
    ttl_ms: Option<u64>,
}

/// Writes over any keyspaces of one store that take effect all together or not at all.
///
/// A later write of a key in the batch takes the place of an earlier one. A batch is kept in memory
/// until it is written.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    operations: Vec<Kept>,
    keyspaces: Vec<Keyspace>,
    bytes: Vec<u8>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Gives `key` the value.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(keyspace, key.as_ref(), Some(value.as_ref()), None);
    }

    /// Gives `key` the value for so many milliseconds.
    pub fn put_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl_ms: u64,
    ) {
        self.push(keyspace, key.as_ref(), Some(value.as_ref()), Some(ttl_ms));
    }

    /// Takes the value of `key` away.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        self.push(keyspace, key.as_ref(), None, None);
    }

    /// How many writes the batch holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True if it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Takes all writes out; their memory is kept for the next ones.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.keyspaces.clear();
        self.bytes.clear();
    }

    fn push(&mut self, keyspace: &Keyspace, key: &[u8], value: Option<&[u8]>, ttl_ms: Option<u64>) {
        // Most batches write one keyspace, or a few in runs.
        if !self
            .keyspaces
            .last()
            .is_some_and(|k| Arc::ptr_eq(&k.state, &keyspace.state))
        {
            self.keyspaces.push(keyspace.clone());
        }
        let key = self.keep(key);
        let value = value.map(|value| self.keep(value));
        self.operations.push(Kept {
            keyspace: self.keyspaces.len() - 1,
            key,
            value,
            ttl_ms,
        });
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// The writes as they were asked for.
    fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let bytes = |place: &Range<usize>| self.bytes.get(place.clone()).unwrap_or_default();
        self.operations.iter().filter_map(move |kept| {
            Some(Operation {
                keyspace: self.keyspaces.get(kept.keyspace)?,
                key: bytes(&kept.key),
                value: kept.value.as_ref().map(bytes),
                ttl_ms: kept.ttl_ms,
            })
        })
    }

    /// The writes in key order, of each key the last; refused if one of them cannot be written.
    pub(crate) fn sorted(&self) -> crate::error::Result<Vec<Operation<'_>>> {
        let mut sorted = Vec::with_capacity(self.len());
        for operation in self.operations() {
            check_sizes(operation.key, operation.value.map_or(0, <[u8]>::len))?;
            operation.ttl_ms.map_or(Ok(()), validate_ttl_ms)?;
            let place = (operation.keyspace.id(), front_of(operation.key));
            sorted.push((place, operation));
        }
        // The fronts decide nearly always, and are at hand.
        sorted.sort_by(|(a, left), (b, right)| a.cmp(b).then_with(|| left.key.cmp(right.key)));
        // Of those of one key, the last stays.
        sorted.reverse();
        sorted.dedup_by(|(a, left), (b, right)| a == b && left.key == right.key);
        Ok(sorted.into_iter().rev().map(|(_, o)| o).collect())
    }
}

/// The first eight bytes of a key, as a number of the same order; what a shorter one lacks is zero.
fn front_of(key: &[u8]) -> u64 {
    let mut front = [0; 8];
    let len = key.len().min(front.len());
    front[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests;

    #[test]
    fn of_each_key_the_last_write_stays_and_keys_are_in_order() {
        let (store, one) = tests::open(&tests::options(tests::memory(130)));
        let two = store.create_keyspace("two").unwrap();
        let mut batch = Batch::new();
        // Keys that share their first eight bytes, that are prefixes of each other, that end in zeros.
        for (number, key) in ["prefix-0b", "prefix-0a", "a\0", "a", "prefix-0a", ""]
            .into_iter()
            .enumerate()
        {
            batch.put(&two, key, [number as u8]);
            batch.put(&one, key, [number as u8 + 100]);
        }
        batch.delete(&two, "a");
        let sorted = batch.sorted().unwrap();
        let seen: Vec<_> = sorted
            .iter()
            .map(|o| (o.keyspace.id() == two.id(), o.key, o.value.map(|v| v[0])))
            .collect();
        let of = |is_two: bool, a: Option<u8>, add: u8| {
            [
                (is_two, &b""[..], Some(5 + add)),
                (is_two, b"a", a),
                (is_two, b"a\0", Some(2 + add)),
                (is_two, b"prefix-0a", Some(4 + add)),
                (is_two, b"prefix-0b", Some(add)),
            ]
        };
        assert_eq!(seen[..5], of(false, Some(103), 100));
        assert_eq!(seen[5..], of(true, None, 0));
    }
}
