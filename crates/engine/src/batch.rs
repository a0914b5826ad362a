//! A set of writes that become visible and durable together.

use crate::keyspace::Keyspace;
use crate::options::validate_ttl_ms;
use crate::write::check_sizes;

/// One write of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) keyspace: Keyspace,
    pub(crate) key: Vec<u8>,
    /// None for a delete.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) ttl_ms: Option<u64>,
}

/// Writes over any keyspaces of one store that take effect all together or not at all.
///
/// A later write of a key in the batch takes the place of an earlier one. A batch is kept in memory
/// until it is written.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    operations: Vec<Operation>,
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

    /// Takes all writes out.
    pub fn clear(&mut self) {
        self.operations.clear();
    }

    fn push(&mut self, keyspace: &Keyspace, key: &[u8], value: Option<&[u8]>, ttl: Option<u64>) {
        self.operations.push(Operation {
            keyspace: keyspace.clone(),
            key: key.to_vec(),
            value: value.map(<[u8]>::to_vec),
            ttl_ms: ttl,
        });
    }

    /// The writes in key order, of each key the last; refused if one of them cannot be written.
    pub(crate) fn sorted(&self) -> crate::error::Result<Vec<&Operation>> {
        for operation in &self.operations {
            check_sizes(&operation.key, operation.value.as_ref().map_or(0, Vec::len))?;
            operation.ttl_ms.map_or(Ok(()), validate_ttl_ms)?;
        }
        let mut sorted: Vec<&Operation> = self.operations.iter().collect();
        let place = |o: &Operation| (o.keyspace.id(), o.key.clone());
        sorted.sort_by(|a, b| {
            a.keyspace
                .id()
                .cmp(&b.keyspace.id())
                .then_with(|| a.key.cmp(&b.key))
        });
        sorted.reverse();
        sorted.dedup_by(|a, b| place(a) == place(b));
        sorted.reverse();
        Ok(sorted)
    }
}
