//! What encrypted frames and chunks have in common, and the wrapped data keys of the superblock.
//! `FORMAT.md`, section "Encryption". Layout only: the cipher is in `heliox-log`.
//!
//! A frame, or a chunk of a checkpoint, of an encrypted store has 32 bytes more before its content:
//! the session and the tag. In memory, where the content is plain, they are zero and so is the id
//! of the data key.

use crate::bytes::{Reader, WriteBytes};
use crate::checksum::{checksum, ChecksumSalt};
use crate::ids::Birth;

/// Bytes before the content of an encrypted frame or chunk.
pub const SEALED_HEADER_BYTES: usize = 64;
/// Bytes of what is drawn for each opening of a store.
pub const SESSION_BYTES: usize = 16;
/// Bytes of an authentication tag.
pub const TAG_BYTES: usize = 16;
/// Bytes of a nonce: session, birth and sector.
pub const NONCE_BYTES: usize = 24;
/// Bytes of a key, master or data.
pub const KEY_BYTES: usize = 32;
/// Most data keys that a store has at a time.
pub const KEYS_MAX: usize = 16;
/// The largest id of a data key. 0 stands for none.
pub const KEY_ID_MAX: u8 = 253;
/// In memory: a frame whose tag does not fit.
pub const LOCKED_TAG: u8 = 255;
/// In memory: a frame that is not encrypted, where all are.
pub const LOCKED_PLAIN: u8 = 254;

const SESSION_AT: usize = 32;
const TAG_AT: usize = SESSION_AT + SESSION_BYTES;
/// The checksum at the begin says nothing that must be proven.
const PROVEN_FROM: usize = 4;
const ASSOCIATED_BYTES: usize = TAG_AT - PROVEN_FROM + 8;

/// The parts of an encrypted frame or chunk.
#[derive(Debug)]
pub struct Parts<'a> {
    /// What the tag proves besides the content: the header from its fifth byte to the session, and the
    /// address.
    pub associated: [u8; ASSOCIATED_BYTES],
    /// Where the tag stands.
    pub tag: &'a mut [u8; TAG_BYTES],
    /// What is encrypted.
    pub content: &'a mut [u8],
}

/// Takes a frame or chunk apart whose content ends at byte `end`. None if it is too short.
#[must_use]
pub fn parts(address: u64, bytes: &mut [u8], end: usize) -> Option<Parts<'_>> {
    let mut associated = [0; ASSOCIATED_BYTES];
    let (header, content) = bytes
        .get_mut(..end)?
        .split_at_mut_checked(SEALED_HEADER_BYTES)?;
    let (proven, tag) = header.split_at_mut_checked(TAG_AT)?;
    let (fields, place) = associated.split_at_mut(TAG_AT - PROVEN_FROM);
    fields.copy_from_slice(proven.get(PROVEN_FROM..)?);
    place.copy_from_slice(&address.to_le_bytes());
    Some(Parts {
        associated,
        tag: tag.try_into().ok()?,
        content,
    })
}

/// The session of a frame or chunk; zeros for one that is too short.
#[must_use]
pub fn session_of(bytes: &[u8]) -> [u8; SESSION_BYTES] {
    let session = bytes.get(SESSION_AT..TAG_AT);
    session.and_then(|s| s.try_into().ok()).unwrap_or_default()
}

/// Enters the session.
pub fn set_session(bytes: &mut [u8], session: &[u8; SESSION_BYTES]) {
    if let Some(place) = bytes.get_mut(SESSION_AT..TAG_AT) {
        place.copy_from_slice(session);
    }
}

/// Clears session and tag, as a frame has them while its content is plain.
pub fn clear_seal(bytes: &mut [u8]) {
    if let Some(place) = bytes.get_mut(SESSION_AT..SEALED_HEADER_BYTES) {
        place.fill(0);
    }
}

/// Computes the checksum of a frame, or of a chunk without its padding, anew.
pub fn renew_checksum(salt: ChecksumSalt, address: u64, bytes: &mut [u8]) {
    if let Some((place, rest)) = bytes.split_at_mut_checked(PROVEN_FROM) {
        place.copy_from_slice(&checksum(salt, address, rest).to_le_bytes());
    }
}

/// The nonce of what a session writes at a sector of a segment's life.
#[must_use]
pub fn nonce_of(session: &[u8; SESSION_BYTES], birth: Birth, sector: u32) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..SESSION_BYTES].copy_from_slice(session);
    nonce[SESSION_BYTES..20].copy_from_slice(&birth.0.to_le_bytes());
    nonce[20..].copy_from_slice(&sector.to_le_bytes());
    nonce
}

/// A data key as the superblock has it: encrypted with the master key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySlot {
    /// Its id: 1 to [`KEY_ID_MAX`].
    pub id: u8,
    /// The first birth of the segments that are written with it, up to that of the next key;
    /// [`KeySlot::UNUSED`] until the next opening.
    pub first_birth: Birth,
    /// Drawn when it was wrapped.
    pub nonce: [u8; NONCE_BYTES],
    /// The key, encrypted.
    pub wrapped: [u8; KEY_BYTES],
    /// Proves it.
    pub tag: [u8; TAG_BYTES],
}

impl KeySlot {
    /// No segment has the key yet.
    pub const UNUSED: Birth = Birth(u32::MAX);

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put(&[self.id, 0, 0, 0]);
        out.put_u32(self.first_birth.0);
        out.put(&self.nonce);
        out.put(&self.wrapped);
        out.put(&self.tag);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<KeySlot> {
        let [id, _, _, _] = reader.array()?;
        Some(KeySlot {
            id,
            first_birth: Birth(reader.u32()?),
            nonce: reader.array()?,
            wrapped: reader.array()?,
            tag: reader.array()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_frame_are_where_the_tables_say() {
        let mut bytes: Vec<u8> = (0..100).collect();
        let parts = parts(0x0102_0304, &mut bytes, 90).unwrap();
        assert_eq!((parts.content.len(), parts.content[0]), (26, 64));
        assert_eq!((parts.tag[0], parts.tag[15]), (48, 63));
        assert_eq!((parts.associated[0], parts.associated[43]), (4, 47));
        assert_eq!(parts.associated[44..], [4, 3, 2, 1, 0, 0, 0, 0]);
        assert!(
            super::parts(0, &mut bytes, 63).is_none(),
            "within the header"
        );
        assert!(super::parts(0, &mut bytes, 101).is_none(), "beyond the end");
        assert_eq!(session_of(&bytes)[..2], [32, 33]);
        clear_seal(&mut bytes);
        assert_eq!((bytes[31], bytes[32], bytes[63], bytes[64]), (31, 0, 0, 64));
    }

    #[test]
    fn nonces_differ_in_each_of_their_parts() {
        let nonce = |s, b, sector| nonce_of(&[s; 16], Birth(b), sector);
        let all = [
            nonce(1, 1, 1),
            nonce(2, 1, 1),
            nonce(1, 2, 1),
            nonce(1, 1, 2),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(!all[..n].contains(one));
        }
    }
}
