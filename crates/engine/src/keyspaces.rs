//! The names of keyspaces and their ids. Ids are never used twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use heliox_format::checkpoint::KeyspaceEntry;
use heliox_format::ids::{KeyspaceId, SeqNo};
use heliox_sync::atomic::{AtomicBool, Ordering};
use heliox_sync::RwLock;

/// The keyspace that holds the chunks of large values. No user can name it.
pub(crate) const CHUNKS: KeyspaceId = KeyspaceId(0);
/// The keyspace that says who owns a large value. No user can name it.
pub(crate) const OWNERS: KeyspaceId = KeyspaceId(u32::MAX);
/// The id of the first keyspace that a user creates.
pub(crate) const FIRST_ID: u32 = 1;

/// A keyspace that a handle stands for.
#[derive(Debug)]
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    dropped: AtomicBool,
}

impl KeyspaceState {
    pub(crate) fn new(id: KeyspaceId, name: String) -> KeyspaceState {
        KeyspaceState {
            id,
            name,
            dropped: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }
}

#[derive(Default)]
struct Inner {
    by_name: BTreeMap<String, Arc<KeyspaceState>>,
    next_id: u32,
}

/// All keyspaces of a store.
pub(crate) struct Keyspaces(RwLock<Inner>);

impl Keyspaces {
    pub(crate) fn new(entries: Vec<KeyspaceEntry>, next_id: u32) -> Keyspaces {
        let by_name = entries
            .into_iter()
            .map(|e| (e.name.clone(), Arc::new(KeyspaceState::new(e.id, e.name))))
            .collect();
        Keyspaces(RwLock::new(Inner {
            by_name,
            next_id: next_id.max(FIRST_ID),
        }))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<KeyspaceState>> {
        self.0.read().by_name.get(name).cloned()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.read().by_name.keys().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.read().by_name.len()
    }

    /// Adds a keyspace if `append` makes its record; `None` if the name is taken.
    pub(crate) fn create<E>(
        &self,
        name: &str,
        append: impl FnOnce(KeyspaceId) -> Result<(), E>,
    ) -> Result<Option<Arc<KeyspaceState>>, E> {
        let mut inner = self.0.write();
        if inner.by_name.contains_key(name) {
            return Ok(None);
        }
        let id = KeyspaceId(inner.next_id);
        append(id)?;
        inner.next_id += 1;
        let state = Arc::new(KeyspaceState::new(id, name.to_owned()));
        inner.by_name.insert(name.to_owned(), Arc::clone(&state));
        Ok(Some(state))
    }

    /// Takes a keyspace away if `append` makes its record, and gives what that gave; `None` if there is
    /// none of the name.
    pub(crate) fn remove<E>(
        &self,
        name: &str,
        append: impl FnOnce(KeyspaceId) -> Result<Option<SeqNo>, E>,
    ) -> Result<Option<Option<SeqNo>>, E> {
        let mut inner = self.0.write();
        let Some(state) = inner.by_name.get(name).cloned() else {
            return Ok(None);
        };
        let appended = append(state.id)?;
        if appended.is_some() {
            inner.by_name.remove(name);
            state.dropped.store(true, Ordering::Release);
        }
        Ok(Some(appended))
    }

    /// What a checkpoint says: all keyspaces and the next id.
    pub(crate) fn entries(&self) -> (Vec<KeyspaceEntry>, u32) {
        let inner = self.0.read();
        let entry = |s: &Arc<KeyspaceState>| KeyspaceEntry {
            id: s.id,
            name: s.name.clone(),
        };
        (inner.by_name.values().map(entry).collect(), inner.next_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_never_used_twice() {
        let keyspaces = Keyspaces::new(Vec::new(), 0);
        let ok = |_| Ok::<(), ()>(());
        let first = keyspaces.create("a", ok).unwrap().unwrap();
        assert!(keyspaces.create("a", ok).unwrap().is_none());
        let gone = |_| Ok::<_, ()>(Some(SeqNo(7)));
        assert_eq!(keyspaces.remove("a", gone).unwrap(), Some(Some(SeqNo(7))));
        assert!(first.is_dropped());
        assert_eq!(keyspaces.remove("a", gone).unwrap(), None);
        let second = keyspaces.create("a", ok).unwrap().unwrap();
        assert_ne!(first.id, second.id);
        assert_ne!(first.id, CHUNKS);
        assert_eq!(keyspaces.entries().1, second.id.0 + 1);
    }

    #[test]
    fn a_record_that_is_not_made_changes_nothing() {
        let keyspaces = Keyspaces::new(Vec::new(), 0);
        assert!(keyspaces.create("a", |_| Err(())).is_err());
        assert!(keyspaces.get("a").is_none());
        assert_eq!(keyspaces.len(), 0);
        let kept = keyspaces
            .create("b", |_| Ok::<(), ()>(()))
            .unwrap()
            .unwrap();
        assert_eq!(
            keyspaces.remove("b", |_| Ok::<_, ()>(None)).unwrap(),
            Some(None)
        );
        assert!(!kept.is_dropped() && keyspaces.get("b").is_some());
    }
}
