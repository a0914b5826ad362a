//! Keys made ready for the index: once per operation, then used by every step of it.
//!
//! An internal key is the keyspace id (4 bytes, big-endian) followed by the user's key, so that
//! one sorted structure holds all keyspaces. Values of this module are immutable and may be
//! shared between threads.

use std::cmp::Ordering;

use heliox_format::ids::KeyspaceId;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::api::KEYSPACE_BYTES;
use crate::code::Coded;

/// A key made ready once per operation: coded and hashed. Holds no heap memory.
#[derive(Clone, Debug)]
pub struct PreparedKey<'k> {
    code: Coded,
    hash: u64,
    key: &'k [u8],
    keyspace: [u8; KEYSPACE_BYTES],
}

impl<'k> PreparedKey<'k> {
    /// Codes and hashes a key. About 30 ns for a short one.
    #[must_use]
    #[inline]
    pub fn new(seed: u64, keyspace: KeyspaceId, key: &'k [u8]) -> PreparedKey<'k> {
        PreparedKey::of_hashed(PreparedKey::hash_of(seed, keyspace, key), keyspace, key)
    }

    /// As [`PreparedKey::new`], with what [`PreparedKey::hash_of`] gave for the key.
    #[must_use]
    #[inline]
    pub fn of_hashed(hash: u64, keyspace: KeyspaceId, key: &'k [u8]) -> PreparedKey<'k> {
        let keyspace = keyspace.0.to_be_bytes();
        PreparedKey {
            code: Coded::of(&keyspace, key),
            hash,
            key,
            keyspace,
        }
    }

    /// The hash alone, without the code.
    #[must_use]
    #[inline]
    pub fn hash_of(seed: u64, keyspace: KeyspaceId, key: &[u8]) -> u64 {
        // The keyspace goes into the seed, which spares a copy of the internal key.
        let seed = seed ^ u64::from(keyspace.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        xxh3_64_with_seed(key, seed)
    }

    /// The same for an internal key; `None` if it is too short to be one.
    #[must_use]
    pub fn from_internal(seed: u64, internal: &'k [u8]) -> Option<PreparedKey<'k>> {
        let (id, key) = internal.split_first_chunk::<KEYSPACE_BYTES>()?;
        Some(PreparedKey::new(
            seed,
            KeyspaceId(u32::from_be_bytes(*id)),
            key,
        ))
    }

    /// The keyed hash of the internal key, all 64 bits.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// What an entry keeps of the hash: so many bits of it, at most 31.
    #[must_use]
    #[inline]
    pub fn fingerprint(&self, bits: u32) -> u32 {
        (self.hash >> 32) as u32 & ((1u64 << bits) - 1) as u32
    }

    /// The keyspace.
    #[must_use]
    pub fn keyspace(&self) -> KeyspaceId {
        KeyspaceId(u32::from_be_bytes(self.keyspace))
    }

    /// The user's key.
    #[must_use]
    pub fn key(&self) -> &'k [u8] {
        self.key
    }

    /// The internal key, copied.
    #[must_use]
    pub fn internal(&self) -> Vec<u8> {
        [&self.keyspace, self.key].concat()
    }

    pub(crate) fn code(&self) -> &Coded {
        &self.code
    }

    pub(crate) fn view(&self) -> KeyView<'_> {
        KeyView {
            head: &self.keyspace,
            tail: self.key,
        }
    }
}

/// An internal key in two pieces, for comparisons with fences that need no copy.
#[derive(Clone, Copy)]
pub(crate) struct KeyView<'a> {
    head: &'a [u8],
    tail: &'a [u8],
}

impl<'a> From<&'a [u8]> for KeyView<'a> {
    fn from(internal: &'a [u8]) -> KeyView<'a> {
        KeyView {
            head: internal,
            tail: &[],
        }
    }
}

impl KeyView<'_> {
    /// The key in one piece.
    pub(crate) fn internal(&self) -> SmallVec<[u8; 64]> {
        let mut whole = SmallVec::from_slice(self.head);
        whole.extend_from_slice(self.tail);
        whole
    }

    /// Compares with a whole key.
    pub(crate) fn compare(&self, other: &[u8]) -> Ordering {
        let (front, back) = other.split_at(other.len().min(self.head.len()));
        // A shorter front settles the order unless it is a prefix, and then `back` is empty.
        match self.head.cmp(front) {
            Ordering::Equal => self.tail.cmp(back),
            unequal => unequal,
        }
    }

    /// Compares the first bytes, as many as `prefix` has, with `prefix`.
    #[inline]
    pub(crate) fn compare_front(&self, prefix: &[u8]) -> Ordering {
        let (front, back) = prefix.split_at(prefix.len().min(self.head.len()));
        match self.head[..front.len()].cmp(front) {
            Ordering::Equal => self.tail[..back.len().min(self.tail.len())].cmp(back),
            unequal => unequal,
        }
    }

    /// The eight bytes from `skip` on as a big-endian number, padded with zeros.
    #[inline]
    pub(crate) fn head_at(&self, skip: usize) -> u64 {
        if let Some(at) = skip.checked_sub(self.head.len()) {
            let rest = self.tail.get(at..).unwrap_or(&[]);
            if let Some(chunk) = rest.first_chunk::<8>() {
                return u64::from_be_bytes(*chunk);
            }
            return head_of(rest);
        }
        let mut bytes = [0; 8];
        let pieces = self.head[skip..].iter().chain(self.tail);
        bytes
            .iter_mut()
            .zip(pieces)
            .for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(bytes)
    }
}

/// The first eight bytes as a big-endian number, padded with zeros.
pub(crate) fn head_of(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = bytes.len().min(8);
    head[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(head)
}

/// How many leading bytes two keys share.
pub(crate) fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_two_pieces_compares_like_the_whole() {
        let keys: [&[u8]; 8] = [
            b"",
            b"\0",
            b"\0\0\0\x01",
            b"\0\0\0\x01a",
            b"\0\0\0\x01a\0",
            b"\0\0\0\x01ab",
            b"\0\0\0\x02",
            b"z",
        ];
        for key in keys.iter().filter(|key| key.len() >= 4) {
            let prepared = PreparedKey::from_internal(1, key).unwrap();
            for other in keys {
                assert_eq!(prepared.view().compare(other), (*key).cmp(other));
                let front = &key[..key.len().min(other.len())];
                assert_eq!(prepared.view().compare_front(other), front.cmp(other));
            }
            assert_eq!(prepared.view().head_at(2), head_of(&key[2..]));
            assert_eq!(prepared.view().head_at(40), 0);
            assert_eq!(prepared.internal(), *key);
        }
        assert!(PreparedKey::from_internal(1, b"abc").is_none());
    }

    #[test]
    fn keyspaces_have_different_hashes() {
        let hash = |seed, id| PreparedKey::new(seed, KeyspaceId(id), b"k").hash();
        assert_ne!(hash(1, 1), hash(1, 2));
        assert_ne!(hash(1, 1), hash(2, 1));
    }
}
