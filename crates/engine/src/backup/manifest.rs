//! The text of one backup: which segment files make up one state of which store. `FORMAT.md`,
//! section "Backup sets".
//!
//! Invariant: the last line is a checksum of all before it, so a manifest is whole or refused.
//! Plain data, no I/O.

use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

use heliox_format::ids::{Birth, Incarnation, SegmentId, SeqNo, StoreUuid};
use heliox_format::limits::{BIRTH_MAX, ORDER_MAX};
use heliox_format::sealed::KeySlot;
use heliox_format::superblock::{CheckpointRoot, Cut, Superblock, CUTS_MAX};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind, Result};
use crate::root::FIRST_GENERATION;

const TITLE: &str = "Heliox backup: the segment files of one state of a store. Do not edit.";
/// The version of sets and manifests.
pub(super) const VERSION: u32 = 1;
/// That of the manifest of an encrypted store: one that older programs refuse.
const ENCRYPTED_VERSION: u32 = 2;

/// A segment as it lies in the set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Stored {
    /// Its place in the store.
    pub(super) id: SegmentId,
    pub(super) birth: Birth,
    /// Length of its file.
    pub(super) bytes: u64,
    /// XXH3-64 of its file.
    pub(super) checksum: u64,
}

impl Stored {
    /// The name of its file.
    pub(super) fn file_name(&self) -> String {
        format!("{:08x}-{:016x}.seg", self.birth.0, self.checksum)
    }
}

/// What one backup is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Manifest {
    pub(super) number: u64,
    /// When it was begun, in milliseconds since 1970.
    pub(super) created_ms: u64,
    /// As it was at the cut.
    pub(super) superblock: Superblock,
    /// The cut: the last order that counts.
    pub(super) last: SeqNo,
    pub(super) segments: Vec<Stored>,
}

impl Manifest {
    /// Bytes of all its segment files.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.bytes).sum()
    }

    /// Segments that a store needs at least to hold it.
    pub(super) fn segments_needed(&self) -> u32 {
        let ids = self.segments.iter().map(|s| s.id.0 + 1);
        ids.max().unwrap_or(0)
    }

    /// The superblock of a store that is made of it: nothing after the cut counts, and no run of
    /// it has a number that the original gives.
    pub(super) fn restored(&self, uuid: StoreUuid, runs_ahead: u32, segments: u32) -> Superblock {
        let mut made = self.superblock.clone();
        made.uuid = uuid;
        made.generation = FIRST_GENERATION;
        made.clean = false;
        made.segments = segments;
        if made.cuts.len() < CUTS_MAX {
            made.cuts.push(Cut {
                incarnation: made.incarnation,
                last: self.last,
            });
        }
        made.incarnation = Incarnation(made.incarnation.0.saturating_add(runs_ahead));
        made
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let s = &self.superblock;
        let version = match s.is_encrypted() {
            false => VERSION,
            true => ENCRYPTED_VERSION,
        };
        let mut text = format!("{TITLE}\nformat {version}\n");
        let mut line = |name: &str, values: &[&dyn std::fmt::Display]| {
            text.push_str(name);
            for value in values {
                // Writing to a string does not fail.
                let _ = write!(text, " {value}");
            }
            text.push('\n');
        };
        line("number", &[&self.number]);
        line("created", &[&self.created_ms]);
        line("store", &[&s.uuid]);
        line("last", &[&self.last]);
        line("incarnation", &[&s.incarnation.0, &s.generation]);
        let sizes: [&dyn std::fmt::Display; 4] = [
            &s.segment_bytes,
            &s.segments,
            &s.unit_shift,
            &s.sector_bytes,
        ];
        line("geometry", &sizes);
        line("seed", &[&s.hash_seed]);
        if let Some(root) = &s.checkpoint {
            let last = (root.last_segment.0, root.birth.0);
            let (n, cut) = (root.segments, root.cut);
            line("checkpoint", &[&root.number, &last.0, &last.1, &n, &cut]);
        }
        for cut in &s.cuts {
            line("ended", &[&cut.incarnation.0, &cut.last]);
        }
        for slot in &s.keys {
            let hex = [&slot.nonce[..], &slot.wrapped, &slot.tag].map(hex);
            let (id, birth) = (slot.id, slot.first_birth.0);
            line("key", &[&id, &birth, &hex[0], &hex[1], &hex[2]]);
        }
        for stored in &self.segments {
            let checksum = format!("{:016x}", stored.checksum);
            let (id, birth) = (stored.id.0, stored.birth.0);
            line("segment", &[&id, &birth, &stored.bytes, &checksum]);
        }
        let sum = xxh3_64(text.as_bytes());
        // As above.
        let _ = writeln!(text, "checksum {sum:016x}");
        text.into_bytes()
    }

    /// Decodes the manifest that was read from `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], or [`ErrorKind::Version`] for one of a later program.
    pub(super) fn decode(path: &Path, text: &[u8]) -> Result<Manifest> {
        let bad = |what: String| {
            let path = path.display();
            let advice = "this backup cannot be used, others of the set can";
            Error::new(ErrorKind::Damaged, format!("{path}: {what}; {advice}"))
        };
        let text = std::str::from_utf8(text).map_err(|_| bad("is not text".to_owned()))?;
        check_version(path, text, ENCRYPTED_VERSION)?;
        let whole = text.strip_suffix('\n').and_then(|t| {
            let (_, last) = t.rsplit_once('\n')?;
            let body = &text[..t.len() - last.len()];
            let sum = u64::from_str_radix(last.strip_prefix("checksum ")?, 16).ok()?;
            (sum == xxh3_64(body.as_bytes())).then_some(body)
        });
        let body = whole.ok_or_else(|| bad("its checksum does not fit its text".to_owned()))?;
        let mut manifest = empty();
        for (n, line) in body.lines().enumerate().skip(2) {
            let mut words = Words(line.split(' '));
            let taken = manifest.take_line(&mut words);
            if taken.is_none() || words.0.next().is_some() {
                return Err(bad(format!("line {} is not understood", n + 1)));
            }
        }
        manifest.check_bounds().map(|()| manifest).map_err(bad)
    }

    fn take_line(&mut self, words: &mut Words<'_>) -> Option<()> {
        let s = &mut self.superblock;
        match words.0.next()? {
            "number" => self.number = words.value()?,
            "created" => self.created_ms = words.value()?,
            "store" => s.uuid = parse_uuid(words.0.next()?)?,
            "last" => self.last = SeqNo(words.value()?),
            "incarnation" => {
                s.incarnation = Incarnation(words.value()?);
                s.generation = words.value()?;
            }
            "geometry" => {
                s.segment_bytes = words.value()?;
                s.segments = words.value()?;
                s.unit_shift = words.value()?;
                s.sector_bytes = words.value()?;
            }
            "seed" => s.hash_seed = words.value()?,
            "checkpoint" => {
                s.checkpoint = Some(CheckpointRoot {
                    number: words.value()?,
                    last_segment: SegmentId(words.value()?),
                    birth: Birth(words.value()?),
                    segments: words.value()?,
                    cut: SeqNo(words.value()?),
                });
            }
            "ended" => s.cuts.push(Cut {
                incarnation: Incarnation(words.value()?),
                last: SeqNo(words.value()?),
            }),
            "key" => s.keys.push(KeySlot {
                id: words.value()?,
                first_birth: Birth(words.value()?),
                nonce: parse_hex(words.0.next()?)?,
                wrapped: parse_hex(words.0.next()?)?,
                tag: parse_hex(words.0.next()?)?,
            }),
            "segment" => self.segments.push(Stored {
                id: SegmentId(words.value()?),
                birth: Birth(words.value()?),
                bytes: words.value()?,
                checksum: u64::from_str_radix(words.0.next()?, 16).ok()?,
            }),
            _ => return None,
        }
        Some(())
    }

    /// The superblock is held to the bounds of its own codec; segments must lie in it.
    fn check_bounds(&self) -> std::result::Result<(), String> {
        Superblock::decode(0, &self.superblock.encode(0)).map_err(|error| error.to_string())?;
        let segment_bytes = self.superblock.segment_bytes;
        let ids: std::collections::BTreeSet<_> = self.segments.iter().map(|s| s.id).collect();
        let fits = |s: &Stored| s.bytes <= segment_bytes && s.id.0 < self.superblock.segments;
        if ids.len() != self.segments.len() || !self.segments.iter().all(fits) {
            return Err("its segments do not fit its geometry".to_owned());
        }
        let births = self.segments.iter().map(|s| s.birth.0);
        if self.last.0 > ORDER_MAX || births.max().unwrap_or(0) > BIRTH_MAX {
            return Err("it holds an order or a birth that no store reaches".to_owned());
        }
        Ok(())
    }
}

/// The second line says the version, whatever the rest is. `newest`: that is known.
pub(super) fn check_version(path: &Path, text: &str, newest: u32) -> Result<()> {
    let line = text.lines().nth(1).unwrap_or_default();
    let version: Option<u32> = line.strip_prefix("format ").and_then(|v| v.parse().ok());
    match version {
        Some(found) if !(VERSION..=newest).contains(&found) => Err(Error::new(
            ErrorKind::Version,
            format!("{}: format version {newest} was expected and {found} found; use a program of the version that wrote it", path.display()),
        )),
        _ => Ok(()),
    }
}

struct Words<'a>(std::str::Split<'a, char>);

impl Words<'_> {
    fn value<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }
}

fn empty() -> Manifest {
    Manifest {
        number: 0,
        created_ms: 0,
        superblock: Superblock {
            uuid: StoreUuid([0; 16]),
            generation: 0,
            incarnation: Incarnation(0),
            clean: false,
            unit_shift: 0,
            segment_bytes: 0,
            segments: 0,
            sector_bytes: 0,
            hash_seed: 0,
            checkpoint: None,
            cuts: Vec::new(),
            keys: Vec::new(),
        },
        last: SeqNo::ZERO,
        segments: Vec::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let pairs = text.as_bytes().chunks_exact(2);
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (text.len() == 2 * N).then_some(bytes)
}

fn parse_uuid(text: &str) -> Option<StoreUuid> {
    let number = u128::from_str_radix(text, 16).ok()?;
    (text.len() == 32).then_some(StoreUuid(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let mut manifest = empty();
        manifest.number = 7;
        manifest.created_ms = 1_700_000_000_000;
        manifest.last = SeqNo(99);
        let s = &mut manifest.superblock;
        s.uuid = StoreUuid([0x0a; 16]);
        s.generation = 3;
        s.incarnation = Incarnation(4);
        (s.segment_bytes, s.segments, s.sector_bytes) = (4 << 20, 16, 512);
        s.hash_seed = u64::MAX;
        s.checkpoint = Some(CheckpointRoot {
            number: 4 << 32,
            last_segment: SegmentId(2),
            birth: Birth(9),
            segments: 1,
            cut: SeqNo(50),
        });
        s.cuts.push(Cut {
            incarnation: Incarnation(3),
            last: SeqNo(60),
        });
        manifest.segments.push(Stored {
            id: SegmentId(5),
            birth: Birth(8),
            bytes: 8192,
            checksum: 0xfe,
        });
        manifest
    }

    #[test]
    fn a_manifest_round_trips_and_no_changed_byte_passes() {
        let text = sample().encode();
        let decode = |text: &[u8]| Manifest::decode(Path::new("/b/1"), text);
        assert_eq!(decode(&text).unwrap(), sample());
        for at in 0..text.len() {
            let mut bad = text.clone();
            bad[at] ^= 1;
            let error = decode(&bad).unwrap_err();
            assert!(error.to_string().contains("/b/1"), "{error}");
            assert!(decode(&text[..at]).is_err(), "cut to {at}");
        }
    }

    #[test]
    fn nothing_after_the_cut_counts_in_a_restored_store() {
        let made = sample().restored(StoreUuid([1; 16]), 1000, 32);
        let expected = Cut {
            incarnation: Incarnation(4),
            last: SeqNo(99),
        };
        assert_eq!(made.cuts.last(), Some(&expected));
        assert_eq!((made.incarnation, made.segments), (Incarnation(1004), 32));
        assert!(!made.clean && made.generation == FIRST_GENERATION);
    }

    /// A store restored from it could not be opened.
    #[test]
    fn an_order_or_a_birth_that_no_store_reaches_is_refused() {
        let change: [fn(&mut Manifest); 3] = [
            |m| m.last = SeqNo(u64::MAX),
            |m| m.segments[0].birth = Birth(u32::MAX),
            |m| m.superblock.generation = u64::MAX,
        ];
        for change in change {
            let mut bad = sample();
            change(&mut bad);
            let error = Manifest::decode(Path::new("/b/1"), &bad.encode()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        }
    }
}
