//! Keys and values that tell what they are: whose, which version, and a filling that depends on it
//! to the last byte. Plain data.

use heliox_media::Random;

/// Bytes of a value before its filling.
const HEAD_BYTES: usize = 16;
/// The least that a value has.
pub(crate) const VALUE_BYTES_MIN: u32 = HEAD_BYTES as u32;
/// Bytes of every key.
pub(crate) const KEY_BYTES: u64 = 11;

/// What a value says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) thread: u16,
    pub(crate) keyspace: u16,
    pub(crate) slot: u32,
    pub(crate) version: u32,
    pub(crate) bytes: u32,
}

/// A thread's key; its keys are neighbours, in the order of their slots.
pub(crate) fn key(thread: u16, slot: u32) -> Vec<u8> {
    format!("{thread:02}:{slot:08}").into_bytes()
}

/// Whose key it is.
pub(crate) fn parse_key(key: &[u8]) -> Option<(u16, u32)> {
    let text = std::str::from_utf8(key).ok()?;
    let (thread, slot) = text.split_once(':')?;
    Some((thread.parse().ok()?, slot.parse().ok()?))
}

impl Stamp {
    /// The value.
    pub(crate) fn value(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.bytes as usize);
        value.extend(self.thread.to_le_bytes());
        value.extend(self.keyspace.to_le_bytes());
        value.extend(self.slot.to_le_bytes());
        value.extend(self.version.to_le_bytes());
        value.extend(self.bytes.to_le_bytes());
        let mut filling = self.filling();
        while value.len() + 8 <= self.bytes as usize {
            value.extend(filling.next().to_le_bytes());
        }
        let rest = (self.bytes as usize).saturating_sub(value.len());
        value.extend(filling.next().to_le_bytes().iter().take(rest));
        value
    }

    fn filling(&self) -> Random {
        let place = u64::from(self.thread) << 48 | u64::from(self.keyspace) << 32;
        Random::new(place | u64::from(self.slot) ^ u64::from(self.version) << 20)
    }

    /// What a value that is whole, to the last byte, says of itself.
    pub(crate) fn of(value: &[u8]) -> Option<Stamp> {
        let two = |at: usize| Some(u16::from_le_bytes(value.get(at..at + 2)?.try_into().ok()?));
        let four = |at: usize| Some(u32::from_le_bytes(value.get(at..at + 4)?.try_into().ok()?));
        let stamp = Stamp {
            thread: two(0)?,
            keyspace: two(2)?,
            slot: four(4)?,
            version: four(8)?,
            bytes: four(12)?,
        };
        let mut filling = stamp.filling();
        let filled = value.get(HEAD_BYTES..)?;
        let whole = filled.chunks(8).all(|chunk| {
            let wanted = filling.next().to_le_bytes();
            wanted.get(..chunk.len()) == Some(chunk)
        });
        (stamp.bytes as usize == value.len() && whole).then_some(stamp)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_seen_wherever_it_is() {
        for bytes in [16, 17, 24, 31, 100] {
            let stamp = Stamp {
                thread: 3,
                keyspace: 1,
                slot: 77,
                version: 5,
                bytes,
            };
            let value = stamp.value();
            assert_eq!(Stamp::of(&value), Some(stamp));
            for at in 0..value.len() {
                let mut changed = value.clone();
                *changed.get_mut(at).unwrap() ^= 1;
                assert_ne!(Stamp::of(&changed), Some(stamp), "byte {at} of {bytes}");
            }
            assert_eq!(Stamp::of(value.get(..value.len() - 1).unwrap()), None);
        }
        assert_eq!(parse_key(&key(7, 1234)), Some((7, 1234)));
    }
}
