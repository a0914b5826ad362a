//! The cipher of an encrypted store: data keys, how the master key wraps them, and how frames and
//! chunks are encrypted in place. `FORMAT.md`, section "Encryption".
//!
//! AES-256-GCM with nonces of 24 bytes, as XAES-256-GCM (C2SP) has them: the first 12 bytes of the
//! nonce and the key give a key of AES-256-GCM, which the other 12 are the nonce of. The session is
//! in front, so a run derives one key for all that it writes.
//!
//! Invariants: keys leave this file only wrapped, and are wiped when they go. Threads: any.

use std::fmt;
use std::sync::Arc;

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::aes::cipher::{Block, BlockCipherEncrypt};
use aes_gcm::aes::Aes256;
use aes_gcm::Aes256Gcm;
use heliox_format::checkpoint::{set_chunk_seal, ChunkSeal, CHUNK_SEAL_BYTES};
use heliox_format::checksum::ChecksumSalt;
use heliox_format::error::{DecodeError, KEY_FIELD, TAG_FIELD};
use heliox_format::frame::{set_frame_key, FrameHeader};
use heliox_format::ids::Birth;
use heliox_format::limits::SECTOR_BYTES_MIN;
use heliox_format::sealed::{
    clear_seal, nonce_of, parts, renew_checksum, session_of, set_session, KeySlot, KEY_BYTES,
    LOCKED_PLAIN, LOCKED_TAG, NONCE_BYTES, SESSION_BYTES, TAG_BYTES,
};
use heliox_sync::atomic::{AtomicU32, Ordering};
use heliox_sync::RwLock;
use zeroize::Zeroizing;

/// Bytes of a nonce that a key is derived with.
const DERIVING_BYTES: usize = 12;
/// Derived keys of other sessions that are kept, for reading.
const OTHERS_MAX: usize = 64;

/// 32 secret bytes, wiped when they go.
type Secret = Zeroizing<[u8; KEY_BYTES]>;

/// The user's key. It encrypts data keys and nothing else.
pub struct MasterKey(Secret);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

impl MasterKey {
    /// The key of these bytes.
    #[must_use]
    pub fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> MasterKey {
        MasterKey(bytes)
    }

    /// What the tag of a wrapped key proves besides: whose it is.
    fn associated(salt: ChecksumSalt, id: u8) -> [u8; 17] {
        let mut bytes = *b"data-key\0\0\0\0\0\0\0\0\0";
        bytes[8..16].copy_from_slice(&salt.0.to_le_bytes());
        bytes[16] = id;
        bytes
    }

    fn wrap(&self, salt: ChecksumSalt, key: &DataKey, nonce: [u8; NONCE_BYTES]) -> KeySlot {
        let mut wrapped = *key.secret;
        let mut tag = [0; TAG_BYTES];
        let associated = MasterKey::associated(salt, key.id);
        Sealer::new(&self.0, &nonce).seal(&nonce, &associated, &mut wrapped, &mut tag);
        KeySlot {
            id: key.id,
            first_birth: key.first_birth(),
            nonce,
            wrapped,
            tag,
        }
    }

    fn unwrap(&self, salt: ChecksumSalt, slot: &KeySlot) -> Option<DataKey> {
        let mut secret = Zeroizing::new(slot.wrapped);
        let associated = MasterKey::associated(salt, slot.id);
        let sealer = Sealer::new(&self.0, &slot.nonce);
        let fits = sealer.open(&slot.nonce, &associated, &mut secret[..], &slot.tag);
        fits.then(|| DataKey {
            id: slot.id,
            first_birth: AtomicU32::new(slot.first_birth.0),
            secret,
        })
    }
}

/// A key that frames and chunks are encrypted with.
pub struct DataKey {
    id: u8,
    first_birth: AtomicU32,
    secret: Secret,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey {}", self.id)
    }
}

impl DataKey {
    /// A key for the segments of this birth and later ones.
    #[must_use]
    pub fn new(id: u8, first_birth: Birth, secret: Zeroizing<[u8; KEY_BYTES]>) -> DataKey {
        DataKey {
            id,
            first_birth: AtomicU32::new(first_birth.0),
            secret,
        }
    }

    fn first_birth(&self) -> Birth {
        Birth(self.first_birth.load(Ordering::Acquire))
    }
}

/// All data keys wrapped with a master key. `nonces`: as many as there are keys, drawn for this.
#[must_use]
pub fn wrap(
    master: &MasterKey,
    salt: ChecksumSalt,
    keys: &[DataKey],
    nonces: &[[u8; NONCE_BYTES]],
) -> Vec<KeySlot> {
    let pairs = keys.iter().zip(nonces);
    pairs
        .map(|(key, nonce)| master.wrap(salt, key, *nonce))
        .collect()
}

/// The data keys that were wrapped with this master key; none if it was another one.
#[must_use]
pub fn unwrap(master: &MasterKey, salt: ChecksumSalt, slots: &[KeySlot]) -> Option<Vec<DataKey>> {
    slots.iter().map(|slot| master.unwrap(salt, slot)).collect()
}

/// AES-256-GCM with the key that a nonce derives.
struct Sealer(Aes256Gcm);

impl Sealer {
    /// The derivation of XAES-256-GCM: CMAC of a counter and the first half of the nonce.
    fn new(key: &[u8; KEY_BYTES], nonce: &[u8; NONCE_BYTES]) -> Sealer {
        let aes = Aes256::new(key.into());
        let mut mask = Block::<Aes256>::default();
        aes.encrypt_block(&mut mask);
        // The mask times x, in the field of CMAC.
        let shifted = u128::from_be_bytes(mask.into());
        let carry = if shifted >> 127 == 1 { 0x87 } else { 0 };
        let mask = ((shifted << 1) ^ carry).to_be_bytes();
        let mut derived = Secret::default();
        for (counter, half) in (1..).zip(derived.chunks_exact_mut(16)) {
            let mut block = [0; 16];
            block[..4].copy_from_slice(&[0, counter, b'X', 0]);
            block[4..].copy_from_slice(&nonce[..DERIVING_BYTES]);
            block.iter_mut().zip(mask).for_each(|(b, m)| *b ^= m);
            let mut block = Block::<Aes256>::from(block);
            aes.encrypt_block(&mut block);
            half.copy_from_slice(&block);
        }
        Sealer(Aes256Gcm::new((&*derived).into()))
    }

    fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        associated: &[u8],
        content: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) {
        let nonce = rest_of(nonce);
        // Fails for contents of 64 GiB only, and then nothing is encrypted: no tag, no key.
        match self
            .0
            .encrypt_inout_detached((&nonce).into(), associated, content.into())
        {
            Ok(computed) => tag.copy_from_slice(&computed),
            Err(_) => content.fill(0),
        }
    }

    /// False, and the content stays as it is, if the tag does not fit.
    fn open(
        &self,
        nonce: &[u8; NONCE_BYTES],
        associated: &[u8],
        content: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        let (nonce, cipher) = (rest_of(nonce), &self.0);
        let opened =
            cipher.decrypt_inout_detached((&nonce).into(), associated, content.into(), tag.into());
        opened.is_ok()
    }
}

fn rest_of(nonce: &[u8; NONCE_BYTES]) -> [u8; NONCE_BYTES - DERIVING_BYTES] {
    let mut rest = [0; NONCE_BYTES - DERIVING_BYTES];
    rest.copy_from_slice(&nonce[DERIVING_BYTES..]);
    rest
}

type Session = [u8; SESSION_BYTES];

/// The keys of an open store. Shared by all threads.
pub struct Cipher {
    salt: ChecksumSalt,
    segment_bytes: u64,
    session: Session,
    keys: Vec<DataKey>,
    /// This session's, key by key.
    own: Vec<Sealer>,
    /// Those of other sessions that were read.
    others: RwLock<Vec<(u8, Session, Arc<Sealer>)>>,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

impl Cipher {
    /// A cipher with these keys, by first birth. `session`: drawn for this opening of the store.
    #[must_use]
    pub fn new(
        salt: ChecksumSalt,
        segment_bytes: u64,
        session: [u8; SESSION_BYTES],
        keys: Vec<DataKey>,
    ) -> Cipher {
        let nonce = nonce_of(&session, Birth(0), 0);
        Cipher {
            own: keys
                .iter()
                .map(|k| Sealer::new(&k.secret, &nonce))
                .collect(),
            others: RwLock::new(Vec::new()),
            salt,
            segment_bytes,
            session,
            keys,
        }
    }

    /// All data keys wrapped with another master key. `nonces`: at least as many as there are keys.
    #[must_use]
    pub fn wrap(&self, master: &MasterKey, nonces: &[[u8; NONCE_BYTES]]) -> Vec<KeySlot> {
        wrap(master, self.salt, &self.keys, nonces)
    }

    /// Says which births the keys are for, as the superblock has it by now.
    pub fn set_first_births(&self, slots: &[KeySlot]) {
        for slot in slots {
            if let Some(key) = self.keys.iter().find(|key| key.id == slot.id) {
                key.first_birth.store(slot.first_birth.0, Ordering::Release);
            }
        }
    }

    /// Encrypts a whole frame of this header, which lies at `address`. False if no key is for it.
    #[must_use]
    pub(crate) fn seal_frame(&self, address: u64, header: &FrameHeader, frame: &mut [u8]) -> bool {
        let Some((id, sealer)) = self.key_for(header.birth) else {
            return false;
        };
        set_frame_key(frame, id);
        let end = header.used_bytes.into();
        self.seal(sealer, address, header.birth, frame, end)
    }

    /// Encrypts a chunk without its padding, for a segment of this birth. False if no key is for it.
    #[must_use]
    pub fn seal_chunk(&self, address: u64, birth: Birth, chunk: &mut [u8]) -> bool {
        let Some((key, sealer)) = self.key_for(birth) else {
            return false;
        };
        set_chunk_seal(chunk, ChunkSeal { key, birth });
        let end = chunk.len();
        self.seal(sealer, address, birth, chunk, end)
    }

    /// Decrypts a whole frame that lies at `address` and whose checksum fits; one for which that
    /// cannot be done gets a mark that says why.
    pub(crate) fn open_frame(&self, address: u64, header: &FrameHeader, key: u8, frame: &mut [u8]) {
        let Some(sealer) = self.sealer(key, &session_of(frame)) else {
            // Not encrypted at all: as bad as a wrong tag, or anybody could write records.
            if key == 0 {
                set_frame_key(frame, LOCKED_PLAIN);
            }
            return;
        };
        let end = header.used_bytes.into();
        if !self.open(&sealer, address, header.birth, frame, end) {
            set_frame_key(frame, LOCKED_TAG);
            return;
        }
        set_frame_key(frame, 0);
        clear_seal(frame);
        renew_checksum(self.salt, address, frame);
    }

    /// Decrypts a chunk without its padding, whose checksum fits; gives its content.
    ///
    /// # Errors
    /// No key of the store was used, or the tag does not fit.
    pub fn open_chunk<'c>(
        &self,
        address: u64,
        seal: ChunkSeal,
        chunk: &'c mut [u8],
    ) -> Result<&'c [u8], DecodeError> {
        let bad = |field, expected, found| {
            DecodeError::new("checkpoint chunk", address, field, expected, found)
        };
        let sealer = self.sealer(seal.key, &session_of(chunk));
        let sealer = sealer.ok_or_else(|| bad(KEY_FIELD, 0, u64::from(seal.key)))?;
        let end = chunk.len();
        if !self.open(&sealer, address, seal.birth, chunk, end) {
            return Err(bad(TAG_FIELD, 1, 0));
        }
        Ok(chunk.get(CHUNK_CONTENT_AT..).unwrap_or_default())
    }

    /// The key for what is written into a segment now.
    fn key_for(&self, birth: Birth) -> Option<(u8, &Sealer)> {
        let keys = self.keys.iter().zip(&self.own).rev();
        let mut fit = keys.filter(|(key, _)| key.first_birth() <= birth);
        fit.next().map(|(key, sealer)| (key.id, sealer))
    }

    /// What opens the frames that a session wrote with this key.
    fn sealer(&self, id: u8, session: &Session) -> Option<Known<'_>> {
        let n = self.keys.iter().position(|key| key.id == id)?;
        if *session == self.session {
            return self.own.get(n).map(Known::Own);
        }
        let known = self.others.read();
        let same = known.iter().find(|(k, s, _)| *k == id && s == session);
        if let Some((_, _, sealer)) = same {
            return Some(Known::Other(Arc::clone(sealer)));
        }
        drop(known);
        let secret = &self.keys.get(n)?.secret;
        let sealer = Arc::new(Sealer::new(secret, &nonce_of(session, Birth(0), 0)));
        let mut known = self.others.write();
        if known.len() >= OTHERS_MAX {
            known.remove(0);
        }
        known.push((id, *session, Arc::clone(&sealer)));
        Some(Known::Other(sealer))
    }

    fn nonce(&self, session: &Session, birth: Birth, address: u64) -> [u8; NONCE_BYTES] {
        let sector = address % self.segment_bytes / SECTOR_BYTES_MIN as u64;
        nonce_of(session, birth, sector as u32)
    }

    fn seal(
        &self,
        sealer: &Sealer,
        address: u64,
        birth: Birth,
        bytes: &mut [u8],
        end: usize,
    ) -> bool {
        set_session(bytes, &self.session);
        let nonce = self.nonce(&self.session, birth, address);
        let Some(parts) = parts(address, bytes, end) else {
            return false;
        };
        sealer.seal(&nonce, &parts.associated, parts.content, parts.tag);
        renew_checksum(self.salt, address, bytes);
        true
    }

    fn open(
        &self,
        sealer: &Sealer,
        address: u64,
        birth: Birth,
        bytes: &mut [u8],
        end: usize,
    ) -> bool {
        let nonce = self.nonce(&session_of(bytes), birth, address);
        let Some(parts) = parts(address, bytes, end) else {
            return false;
        };
        sealer.open(&nonce, &parts.associated, parts.content, parts.tag)
    }
}

/// Where the content of an encrypted chunk begins.
const CHUNK_CONTENT_AT: usize = heliox_format::checkpoint::CHUNK_HEADER_BYTES + CHUNK_SEAL_BYTES;

/// A derived key at hand.
enum Known<'c> {
    Own(&'c Sealer),
    Other(Arc<Sealer>),
}

impl std::ops::Deref for Known<'_> {
    type Target = Sealer;

    fn deref(&self) -> &Sealer {
        match self {
            Known::Own(sealer) => sealer,
            Known::Other(sealer) => sealer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Both vectors of <https://c2sp.org/XAES-256-GCM>, "Test vectors": the key is one byte, repeated; with
    /// the first the mask does not overflow, with the second it does.
    #[test]
    fn the_construction_gives_the_published_bytes() {
        let nonce = *b"ABCDEFGHIJKLMNOPQRSTUVWX";
        for (key, associated, want) in [
            (
                1,
                "",
                "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271",
            ),
            (
                3,
                "c2sp.org/XAES-256-GCM",
                "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d",
            ),
        ] {
            let mut text = *b"XAES-256-GCM";
            let mut tag = [0; TAG_BYTES];
            let sealer = Sealer::new(&[key; KEY_BYTES], &nonce);
            sealer.seal(&nonce, associated.as_bytes(), &mut text, &mut tag);
            assert_eq!(hex(&text) + &hex(&tag), want);
            assert!(sealer.open(&nonce, associated.as_bytes(), &mut text, &tag));
            assert_eq!(&text, b"XAES-256-GCM");
        }
    }

    #[test]
    fn only_the_same_master_key_store_and_id_unwrap() {
        let master = |byte| MasterKey::new(Zeroizing::new([byte; KEY_BYTES]));
        let salt = ChecksumSalt(7);
        let keys = [1, 2].map(|id| DataKey::new(id, Birth(id.into()), Zeroizing::new([id; 32])));
        let slots = wrap(&master(1), salt, &keys, &[[3; 24], [4; 24]]);
        assert_ne!(slots[0].wrapped, [1; 32], "it is not plain");
        let opened = unwrap(&master(1), salt, &slots).unwrap();
        assert_eq!(*opened[1].secret, [2; 32]);
        assert_eq!(opened[1].first_birth(), Birth(2));
        assert!(unwrap(&master(2), salt, &slots).is_none());
        assert!(unwrap(&master(1), ChecksumSalt(8), &slots).is_none());
        let mut renamed = slots.clone();
        renamed[0].id = 9;
        assert!(unwrap(&master(1), salt, &renamed).is_none());
    }
}
