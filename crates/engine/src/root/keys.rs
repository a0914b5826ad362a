//! The keys of an encrypted store: made with it, unwrapped when it is opened, wrapped anew when its
//! master key changes. `FORMAT.md`, section "Encryption".
//!
//! Invariants: data keys are on media wrapped only; a key is durable in both superblock copies
//! before anything is written with it; a key leaves the superblock only when no segment in use is of
//! a birth that it is for.

use std::sync::Arc;

use heliox_format::checksum::ChecksumSalt;
use heliox_format::ids::Birth;
use heliox_format::sealed::{KeySlot, KEYS_MAX, KEY_BYTES, KEY_ID_MAX, NONCE_BYTES, SESSION_BYTES};
use heliox_format::superblock::Superblock;
use heliox_log::cipher::{self, Cipher, DataKey, MasterKey};
use heliox_log::sealed::SealedMedia;
use heliox_media::Media;
use zeroize::Zeroizing;

use super::Root;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Settings;

/// What an open encrypted store encrypts with.
pub(super) struct Sealing {
    cipher: Arc<Cipher>,
    media: Arc<SealedMedia>,
}

impl Root {
    /// Makes the store readable: with its key, or without one if it has none.
    pub(super) fn unlock(&mut self, superblock: &Superblock, settings: &Settings) -> Result<()> {
        let keys = unwrap(superblock, settings).map_err(|error| error.context(&self.place))?;
        let Some(keys) = keys else {
            return Ok(());
        };
        let mut session = [0; SESSION_BYTES];
        settings.environment.fill_random(&mut session)?;
        let (salt, segment_bytes) = (superblock.salt(), superblock.segment_bytes);
        let cipher = Arc::new(Cipher::new(salt, segment_bytes, session, keys));
        let geometry = self.log_geometry(superblock);
        let media = SealedMedia::new(self.raw_media(), Arc::clone(&cipher), geometry);
        let media = Arc::new(media);
        self.sealing = Some(Sealing { cipher, media });
        Ok(())
    }

    /// What encrypts the chunks of checkpoints; none in a plain store.
    pub(crate) fn cipher(&self) -> Option<&Cipher> {
        self.sealing.as_ref().map(|sealing| &*sealing.cipher)
    }

    /// Memory that encrypting takes.
    pub(crate) fn sealing_memory_bytes(&self) -> u64 {
        self.sealing
            .as_ref()
            .map_or(0, |_| SealedMedia::MEMORY_BYTES)
    }

    /// The flat space as an open store sees it: plain, whatever is on media.
    pub(crate) fn media(&self) -> Arc<dyn Media> {
        match &self.sealing {
            Some(sealing) => Arc::clone(&sealing.media) as Arc<dyn Media>,
            None => self.raw_media(),
        }
    }

    /// Wraps the keys of the superblock with another master key, and adds a data key for what is
    /// written from the next opening on. False if there is no room for one. Nothing is written.
    pub(crate) fn rewrap(
        &self,
        superblock: &mut Superblock,
        new: &MasterKey,
        environment: &Environment,
    ) -> Result<bool> {
        let Some(cipher) = self.cipher() else {
            return Err(not_encrypted().context(&self.place));
        };
        let mut nonces = [[0; NONCE_BYTES]; KEYS_MAX];
        for nonce in &mut nonces {
            environment.fill_random(nonce)?;
        }
        let mut keys = cipher.wrap(new, &nonces);
        // One that was never used is not kept: it was wrapped with the master key that goes.
        keys.retain(|slot| {
            let is_there = superblock.keys.iter().any(|old| old.id == slot.id);
            is_there && slot.first_birth != KeySlot::UNUSED
        });
        let has_room = keys.len() < KEYS_MAX;
        if has_room {
            let (salt, id) = (superblock.salt(), free_id(&keys));
            keys.extend(new_key(new, salt, id, KeySlot::UNUSED, environment)?);
        }
        superblock.keys = keys;
        Ok(has_room)
    }
}

/// The keys of a new store, if it is to be encrypted.
pub(super) fn first_keys(salt: ChecksumSalt, settings: &Settings) -> Result<Vec<KeySlot>> {
    match &settings.master_key {
        Some(master) => new_key(master, salt, 1, Birth(0), &settings.environment),
        None => Ok(Vec::new()),
    }
}

/// The data keys of a store; none if it is plain and no key is given.
pub(super) fn unwrap(superblock: &Superblock, settings: &Settings) -> Result<Option<Vec<DataKey>>> {
    let master = match (&settings.master_key, superblock.is_encrypted()) {
        (None, false) => return Ok(None),
        (Some(_), false) => return Err(not_encrypted()),
        (None, true) => {
            return Err(Error::new(
                ErrorKind::Encrypted,
                "the store is encrypted and no key is given; give the key that it was made with, or that it got since",
            ));
        }
        (Some(master), true) => master,
    };
    // The superblock is whole, so it is the key that does not fit, and no damage.
    let keys = cipher::unwrap(master, superblock.salt(), &superblock.keys);
    let wrong = || {
        Error::new(
            ErrorKind::WrongKey,
            "the key given is not that of the store; give the one that it was made with, or that it got since (nothing is damaged)",
        )
    };
    keys.map(Some).ok_or_else(wrong)
}

fn not_encrypted() -> Error {
    Error::new(
        ErrorKind::NotEncrypted,
        "a key is given and the store is not encrypted; leave the key out (encryption is chosen when a store is made: copy it to one that was made with a key)",
    )
}

/// Says that the newest key, if nothing was written with it yet, is for this birth and later ones.
pub(crate) fn begin_births(keys: &mut [KeySlot], next_birth: Birth) {
    let unused = keys
        .iter_mut()
        .filter(|slot| slot.first_birth == KeySlot::UNUSED);
    unused.for_each(|slot| slot.first_birth = next_birth);
}

/// Removes the keys that no segment of this birth or a later one is written with.
pub(crate) fn retire(keys: &mut Vec<KeySlot>, least: Birth) {
    let is_old = |next: &KeySlot| next.first_birth <= least;
    while keys.get(1).is_some_and(is_old) {
        keys.remove(0);
    }
}

fn new_key(
    master: &MasterKey,
    salt: ChecksumSalt,
    id: u8,
    first_birth: Birth,
    environment: &Environment,
) -> Result<Vec<KeySlot>> {
    let mut secret = Zeroizing::new([0; KEY_BYTES]);
    environment.fill_random(&mut *secret)?;
    let mut nonce = [0; NONCE_BYTES];
    environment.fill_random(&mut nonce)?;
    let key = DataKey::new(id, first_birth, secret);
    Ok(cipher::wrap(master, salt, &[key], &[nonce]))
}

/// The id after the newest that no key has: one of a key that went long ago, in the end.
fn free_id(keys: &[KeySlot]) -> u8 {
    let newest = keys.last().map_or(0, |slot| slot.id);
    let after = (newest..KEY_ID_MAX).map(|id| id + 1);
    let mut ids = after.chain(1..=newest);
    let is_free = |id: &u8| !keys.iter().any(|slot| slot.id == *id);
    ids.find(is_free).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(id: u8, first_birth: u32) -> KeySlot {
        KeySlot {
            id,
            first_birth: Birth(first_birth),
            nonce: [0; 24],
            wrapped: [0; 32],
            tag: [0; 16],
        }
    }

    #[test]
    fn a_key_goes_when_the_next_one_is_for_all_that_is_left() {
        let left = |least| {
            let mut keys = vec![slot(1, 0), slot(2, 10), slot(3, 20), slot(4, u32::MAX)];
            retire(&mut keys, Birth(least));
            keys.iter().map(|slot| slot.id).collect::<Vec<_>>()
        };
        assert_eq!(left(9), [1, 2, 3, 4]);
        assert_eq!(left(10), [2, 3, 4]);
        assert_eq!(left(19), [2, 3, 4]);
        assert_eq!(left(20), [3, 4]);
        assert_eq!(
            left(1 << 30),
            [3, 4],
            "nothing was written with the last one"
        );
    }

    #[test]
    fn ids_go_round_and_pass_over_those_in_use() {
        assert_eq!(free_id(&[]), 1);
        assert_eq!(free_id(&[slot(1, 0), slot(7, 0)]), 8);
        assert_eq!(free_id(&[slot(1, 0), slot(2, 0), slot(253, 0)]), 3);
    }
}
