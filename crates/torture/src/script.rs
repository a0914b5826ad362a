//! What the threads of a load do: operation `n` of a thread is a function of seed, life, thread and
//! `n` alone, so that whoever knows how many were done knows what the store must hold.
//!
//! Each thread has keys of its own in two keyspaces; a few counters are shared by all. Every value
//! carries a stamp that says who wrote it and when, and is verified to its last byte. No I/O, no
//! state, no threads.

use heliox_media::Random;

/// The keyspaces of a load.
pub(crate) const KEYSPACES: [&str; 2] = ["a", "b"];
/// Keys of each thread in each keyspace.
pub(crate) const KEYS: u16 = 64;
/// Counters that all threads share, in the first keyspace.
pub(crate) const COUNTERS: usize = 4;
/// A stamp at the head of a value.
const STAMP_BYTES: u32 = 24;

/// A key of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Slot {
    pub(crate) keyspace: u8,
    pub(crate) key: u16,
}

/// Which write a value is of. It decides every byte of the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) life: u32,
    pub(crate) thread: u16,
    pub(crate) slot: Slot,
    pub(crate) number: u64,
    pub(crate) bytes: u32,
}

/// One operation; sizes are those of the values it writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Put(Slot, u32),
    Delete(Slot),
    Batch(Vec<(Slot, Option<u32>)>),
    /// Keys `from..to`.
    DeleteRange {
        keyspace: u8,
        from: u16,
        to: u16,
    },
    InsertIfAbsent(Slot, u32),
    ReplaceIfPresent(Slot, u32),
    Take(Slot),
    /// Gives a key that has a value the next, and one that has none nothing.
    Update(Slot, u32),
    /// Adds one to this thread's part of a shared counter.
    Count(usize),
    Sync,
    Flush,
    Read(Slot),
    Scan(u8),
}

impl Action {
    /// True if everything that was acknowledged before it survives a crash once it returned. A
    /// flush hands the writes to the device, which is enough when only the process dies.
    pub(crate) fn is_barrier(&self, only_process_dies: bool) -> bool {
        match self {
            Action::Sync => true,
            Action::Flush => only_process_dies,
            _ => false,
        }
    }
}

/// How large values are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Most bytes of a usual value.
    pub(crate) most: u32,
    /// Of so many puts one is of more than 1 MiB; 0: none.
    pub(crate) large_one_in: u32,
    /// Of so many operations one is a sync or a flush; 0: none.
    pub(crate) barrier_one_in: u32,
}

/// The operations of all threads in one life of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) life: u32,
    pub(crate) sizes: Sizes,
}

impl Script {
    /// Operation `number` of a thread.
    pub(crate) fn action(&self, thread: u16, number: u64) -> Action {
        let place = u64::from(self.life) << 16 | u64::from(thread);
        let mut mixer = Random::new(self.seed ^ Random::new(place).next());
        let mut random = Random::new(mixer.next() ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let random = &mut random;
        let barrier = self.sizes.barrier_one_in;
        if barrier > 0 && random.below(u64::from(barrier)) == 0 {
            return match random.below(2) {
                0 => Action::Sync,
                _ => Action::Flush,
            };
        }
        let slot = any_slot(random);
        match random.below(100) {
            0..=39 => Action::Put(slot, self.size(random, true)),
            40..=49 => Action::Delete(slot),
            50..=64 => Action::Batch(self.members(random)),
            65 => {
                let from = random.below(u64::from(KEYS)) as u16;
                Action::DeleteRange {
                    keyspace: slot.keyspace,
                    from,
                    to: (from + 1 + random.below(8) as u16).min(KEYS),
                }
            }
            66..=70 => Action::InsertIfAbsent(slot, self.size(random, false)),
            71..=74 => Action::ReplaceIfPresent(slot, self.size(random, false)),
            75..=77 => Action::Take(slot),
            78..=83 => Action::Update(slot, self.size(random, false)),
            84..=93 => Action::Count(random.below(COUNTERS as u64) as usize),
            94 => Action::Scan(slot.keyspace),
            _ => Action::Read(slot),
        }
    }

    fn members(&self, random: &mut Random) -> Vec<(Slot, Option<u32>)> {
        let count = 2 + random.below(8);
        let mut member = |_| {
            let slot = any_slot(random);
            let is_put = random.below(4) > 0;
            (slot, is_put.then(|| self.size(random, false)))
        };
        (0..count).map(&mut member).collect()
    }

    fn size(&self, random: &mut Random, may_be_large: bool) -> u32 {
        let large = u64::from(self.sizes.large_one_in);
        if may_be_large && large > 0 && random.below(large) == 0 {
            return (1 << 20) + 1 + random.below(300_000) as u32;
        }
        // Half of them small: many records share a block.
        let most = match random.below(2) {
            0 => 200.min(self.sizes.most),
            _ => self.sizes.most,
        };
        STAMP_BYTES + random.below(u64::from(most)) as u32
    }

    /// The stamp of what this operation writes to a slot.
    pub(crate) fn stamp(&self, thread: u16, number: u64, slot: Slot, bytes: u32) -> Stamp {
        Stamp {
            life: self.life,
            thread,
            slot,
            number,
            bytes,
        }
    }
}

fn any_slot(random: &mut Random) -> Slot {
    Slot {
        keyspace: random.below(KEYSPACES.len() as u64) as u8,
        key: random.below(u64::from(KEYS)) as u16,
    }
}

/// The bytes of a thread's key: sorted by number, of many lengths.
pub(crate) fn key(thread: u16, key: u16) -> Vec<u8> {
    let rest = Random::new(u64::from(thread) << 16 | u64::from(key)).below(40) as usize;
    format!("t{thread:02}/{key:03}{:x<rest$}", "").into_bytes()
}

/// What all keys of a thread begin with.
pub(crate) fn prefix(thread: u16) -> Vec<u8> {
    format!("t{thread:02}/").into_bytes()
}

/// The key of a shared counter.
pub(crate) fn counter_key(counter: usize) -> Vec<u8> {
    format!("counter/{counter}").into_bytes()
}

/// What a key is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyOf {
    Thread(u16, u16),
    Counter(usize),
}

/// What a key is of; none if it is of nothing here.
pub(crate) fn parse_key(bytes: &[u8]) -> Option<KeyOf> {
    let text = std::str::from_utf8(bytes).ok()?;
    let parsed = match text.strip_prefix("counter/") {
        Some(rest) => KeyOf::Counter(rest.parse().ok()?),
        None => KeyOf::Thread(text.get(1..3)?.parse().ok()?, text.get(4..7)?.parse().ok()?),
    };
    let again = match parsed {
        KeyOf::Thread(thread, number) => key(thread, number),
        KeyOf::Counter(number) => counter_key(number),
    };
    (again == bytes).then_some(parsed)
}

/// The value of a stamp.
pub(crate) fn value(stamp: &Stamp) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(stamp.bytes as usize + 8);
    bytes.extend(stamp.life.to_le_bytes());
    bytes.extend(stamp.thread.to_le_bytes());
    bytes.extend(stamp.slot.key.to_le_bytes());
    bytes.extend([stamp.slot.keyspace, 0, 0, 0]);
    bytes.extend(stamp.number.to_le_bytes());
    bytes.extend(stamp.bytes.to_le_bytes());
    let place = u64::from(stamp.life) << 32 | u64::from(stamp.thread) << 16;
    let mut random = Random::new(place ^ stamp.number.rotate_left(40) ^ u64::from(stamp.slot.key));
    while bytes.len() < stamp.bytes as usize {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(stamp.bytes as usize);
    bytes
}

/// The stamp of a value that is whole to its last byte.
pub(crate) fn parse_value(bytes: &[u8]) -> Option<Stamp> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let stamp = Stamp {
        life: u32_at(0)?,
        thread: u16_at(4)?,
        slot: Slot {
            key: u16_at(6)?,
            keyspace: *bytes.get(8)?,
        },
        number: u64::from_le_bytes(bytes.get(12..20)?.try_into().ok()?),
        bytes: u32_at(20)?,
    };
    (stamp.bytes as usize == bytes.len() && value(&stamp) == bytes).then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_read_back_and_every_wrong_byte_is_seen() {
        for thread in [0, 7, 99] {
            for number in 0..KEYS {
                let bytes = key(thread, number);
                assert_eq!(parse_key(&bytes), Some(KeyOf::Thread(thread, number)));
                assert!(number == 0 || key(thread, number - 1) < bytes);
            }
        }
        let (slot, bytes) = (
            Slot {
                keyspace: 1,
                key: 3,
            },
            100,
        );
        let stamp = Stamp {
            life: 9,
            thread: 2,
            slot,
            number: 77,
            bytes,
        };
        let whole = value(&stamp);
        assert_eq!(parse_value(&whole), Some(stamp));
        assert_eq!(parse_value(&whole[..99]), None);
        for at in 0..100 {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert_ne!(parse_value(&wrong), Some(stamp), "byte {at}");
        }
    }
}
