//! The keys and values of a run: key families that the index finds hard, and values that tell which
//! write of which key they are.
//!
//! Invariants: the same number gives the same bytes; a value of eight bytes or more holds the tag of
//! its write, and every byte follows from tag, key and length. Threads: plain data.

use std::collections::BTreeSet;
use std::sync::Arc;

use heliox_format::ids::KeyspaceId;
use heliox_index::PreparedKey;
use heliox_media::Random;

/// More than most runs make.
const KEYSPACES: u32 = 32;
const HASH_SEEDS: u64 = 16;
/// Of a store that nobody weakens.
pub(crate) const FINGERPRINT_BITS: u32 = 31;

/// A key, shared by model, history and snapshots.
pub(crate) type Key = Arc<[u8]>;

/// The keys of a run, all different, by number.
#[must_use]
pub(crate) fn table(seed: u64, families: u8, count: u32) -> Vec<Key> {
    let mut seen = BTreeSet::new();
    (0..count)
        .map(|n| {
            let mut key = family_key(seed, families, n);
            if !seen.insert(key.clone()) {
                key.extend_from_slice(&n.to_be_bytes());
                seen.insert(key.clone());
            }
            key.into()
        })
        .collect()
}

/// A hash seed under which no two keys have the same fingerprint, in any keyspace that a run is likely to
/// make. By chance, one run in thousands would have such two, and one of them might be missing until
/// collection; what is expected of strangers is seen where weak fingerprints make many.
#[must_use]
pub(crate) fn hash_seed(seed: u64, keys: &[Key]) -> u64 {
    let is_free = |hash_seed: &u64| {
        (0..KEYSPACES).all(|id| {
            let mut seen = BTreeSet::new();
            let prepared = |key| PreparedKey::new(*hash_seed, KeyspaceId(id), key);
            keys.iter()
                .all(|key| seen.insert(prepared(key).fingerprint(FINGERPRINT_BITS)))
        })
    };
    let tries = (0..HASH_SEEDS).map(|n| seed.wrapping_add(n << 32));
    tries.into_iter().find(is_free).unwrap_or(seed)
}

/// One key; bit `i` of `families` admits family `i`.
fn family_key(seed: u64, families: u8, n: u32) -> Vec<u8> {
    let admitted: Vec<u8> = (0..8).filter(|f| families >> f & 1 == 1).collect();
    let family = admitted
        .get(n as usize % admitted.len().max(1))
        .copied()
        .unwrap_or(2);
    let m = n / admitted.len().max(1) as u32;
    let mix = Random::new(seed ^ u64::from(n)).next();
    match family {
        0 => mix.to_be_bytes().repeat(2),
        1 => u64::from(m).to_be_bytes().to_vec(),
        2 => format!("user{:016}", mix % 10_000_000_000_000_000).into_bytes(),
        3 => format!(
            "https://www.example{}.org/section-{}/article-{m}.html",
            m % 5,
            m / 7
        )
        .into_bytes(),
        // Prefixes of one another, the empty key first.
        4 => vec![b'a' + (m / 40 % 3) as u8; (m % 40) as usize],
        // Runs of zero bytes.
        5 => vec![0; (m % 50) as usize],
        6 if m % 256 == 5 => vec![b'L'; 60_000],
        6 => [&[0xff; 3][..], &(mix as u16).to_be_bytes()].concat(),
        _ => format!("k{m}").into_bytes(),
    }
}

/// A value as the model keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Value {
    /// Which write gave it.
    pub tag: u64,
    /// Its length in bytes.
    pub len: u32,
}

fn key_sum(space: u8, key: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ u64::from(space);
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    // The ends of a key tell as much as all of it.
    let ends = key.iter().take(24).chain(key.iter().rev().take(24));
    ends.fold(start ^ key.len() as u64, step)
}

impl Value {
    /// The bytes of this value of this key.
    #[must_use]
    pub(crate) fn bytes(self, space: u8, key: &[u8]) -> Vec<u8> {
        let len = self.len as usize;
        let mut random = Random::new(self.tag ^ key_sum(space, key));
        let mut bytes = Vec::with_capacity(len + 8);
        bytes.extend_from_slice(&self.tag.to_le_bytes());
        while bytes.len() < len {
            bytes.extend_from_slice(&random.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// What `bytes` say they are; `None` if no write of this key can have given them.
    #[must_use]
    pub(crate) fn parse(space: u8, key: &[u8], bytes: &[u8]) -> Option<Value> {
        let value = Value {
            tag: tag_of(bytes),
            len: u32::try_from(bytes.len()).ok()?,
        };
        (value.bytes(space, key) == bytes).then_some(value)
    }

    /// What remains of the tag in a value that may be shorter than it.
    #[must_use]
    pub(crate) fn stored_tag(self) -> u64 {
        match self.len {
            0 => 0,
            len @ 1..=7 => self.tag & ((1 << (8 * len)) - 1),
            _ => self.tag,
        }
    }

    /// The value that an operand makes of `old`.
    #[must_use]
    pub(crate) fn merged(old: Option<Value>, operand: u64) -> Value {
        let old = old.map_or(1, |v| v.stored_tag() ^ u64::from(v.len) << 32);
        let mixed = Random::new(old ^ operand.rotate_left(17)).next();
        Value {
            tag: mixed,
            len: 8 + (mixed % 120) as u32,
        }
    }
}

/// The tag in a value's first bytes.
#[must_use]
pub(crate) fn tag_of(bytes: &[u8]) -> u64 {
    let mut tag = [0; 8];
    for (to, from) in tag.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_of_a_run_share_a_fingerprint() {
        // Under this seed two of these keys did.
        let unlucky = 139_243_659_264_664;
        let keys = table(unlucky, 35, 300);
        let seed = hash_seed(unlucky, &keys);
        assert_ne!(seed, unlucky);
        assert_eq!(hash_seed(seed, &keys), seed);
        assert_eq!(hash_seed(7, &table(7, 35, 300)), 7);
    }
}
