//! Damaged, torn, newer and foreign superblocks, and creations that the power cuts short.

use std::sync::Arc;

use heliox_format::checksum::{checksum, ChecksumSalt};
use heliox_format::ids::SeqNo;
use heliox_format::label::LABEL_OFFSET;
use heliox_format::superblock::{Cut, CUTS_MAX, SUPERBLOCK_OFFSETS};
use heliox_media::{AlignedBuf, Geometry, IoKind, Media, MediaError, MemoryMedia, Operation};
use heliox_sync::atomic::{AtomicU64, Ordering};

use super::{memory, nowhere, on, poke, refused, settings, small, Dir, DEVICE_BYTES};
use crate::error::ErrorKind;
use crate::options::Options;
use crate::root::Root;

#[test]
fn one_damaged_superblock_is_reported_and_mended_both_are_refused() {
    let dir = Dir::new();
    let place = dir.path("s");
    let (root, mut newest) = Root::create(&place, &small()).unwrap();
    drop(root);
    let data = place.join("data");
    for offset in SUPERBLOCK_OFFSETS {
        poke(&data, offset + 100, &[0xff]);
        let (root, found) = Root::open(&place, &small()).unwrap();
        assert_eq!(found, newest);
        let told = |w: &String| w.contains("superblock") && w.contains("checksum");
        assert_eq!(root.warnings().iter().filter(|w| told(w)).count(), 1);
        newest.generation += 1;
        assert_eq!(root.write_superblock(&newest).unwrap(), 8192);
        drop(root);
        let (root, found) = Root::open(&place, &small()).unwrap();
        assert_eq!(found, newest);
        assert!(!root.warnings().iter().any(told));
    }
    for offset in SUPERBLOCK_OFFSETS {
        poke(&data, offset, &[0; 8]);
    }
    let parts = ["data", "0x10000", "0x20000", "magic", "neither"];
    refused(Root::open(&place, &small()), ErrorKind::Damaged, &parts);
}

#[test]
fn a_superblock_of_another_version_or_store_is_not_used() {
    let volume = memory(DEVICE_BYTES);
    let settings = on(&[Arc::clone(&volume)]);
    let (_, made) = Root::create(nowhere(), &settings).unwrap();
    let [first, second] = SUPERBLOCK_OFFSETS;
    let mut newer = made.encode(second);
    newer[12] = 9;
    let crc = checksum(ChecksumSalt(0), second, &newer[12..]);
    newer[8..12].copy_from_slice(&crc.to_le_bytes());
    volume.poke(second, &newer).unwrap();
    refused(
        Root::open(nowhere(), &settings),
        ErrorKind::Version,
        &["superblock", "9 found"],
    );

    let mut foreign = made.clone();
    foreign.uuid.0[0] ^= 1;
    foreign.generation = 99;
    volume.poke(second, &foreign.encode(second)).unwrap();
    let (root, found) = Root::open(nowhere(), &settings).unwrap();
    assert_eq!(found, made);
    assert!(root.warnings()[0].contains(&foreign.uuid.to_string()));
    volume.poke(first, &foreign.encode(first)).unwrap();
    refused(
        Root::open(nowhere(), &settings),
        ErrorKind::Damaged,
        &["neither"],
    );
}

#[test]
fn a_superblock_that_names_more_than_there_is_is_refused() {
    let volume = memory(DEVICE_BYTES);
    let settings = on(&[Arc::clone(&volume)]);
    let (_, made) = Root::create(nowhere(), &settings).unwrap();
    let mut wide = made.clone();
    wide.segments += 1;
    wide.generation = 2;
    let offset = SUPERBLOCK_OFFSETS[1];
    volume.poke(offset, &wide.encode(offset)).unwrap();
    refused(
        Root::open(nowhere(), &settings),
        ErrorKind::ShortDevice,
        &["superblock"],
    );
}

#[test]
fn the_newer_copy_wins_and_generations_grow() {
    let volume = memory(DEVICE_BYTES);
    let settings = on(&[Arc::clone(&volume)]);
    let (root, made) = Root::create(nowhere(), &settings).unwrap();
    refused(
        root.write_superblock(&made),
        ErrorKind::Internal,
        &["generation 1 after 1"],
    );
    for copy in [0, 1] {
        let offset = SUPERBLOCK_OFFSETS[copy];
        let mut newer = made.clone();
        newer.generation = 5 + copy as u64;
        volume.poke(offset, &newer.encode(offset)).unwrap();
        let (root, found) = Root::open(nowhere(), &settings).unwrap();
        assert_eq!(found, newer);
        assert!(root.warnings().is_empty());
        refused(
            root.write_superblock(&newer),
            ErrorKind::Internal,
            &["generation"],
        );
    }
    let (root, mut next) = Root::open(nowhere(), &settings).unwrap();
    next.generation += 1;
    let cut = Cut {
        incarnation: next.incarnation,
        last: SeqNo(1),
    };
    next.cuts = vec![cut; CUTS_MAX + 1];
    refused(
        root.write_superblock(&next),
        ErrorKind::Internal,
        &["65 cuts"],
    );
    next.cuts.clear();
    next.uuid.0[3] ^= 1;
    refused(
        root.write_superblock(&next),
        ErrorKind::Internal,
        &["superblock of store"],
    );
}

/// A device on which the power fails: after `left` writes one is torn, and then nothing works. Before,
/// `astray` writes go nowhere.
struct Failing {
    inner: MemoryMedia,
    left: AtomicU64,
    astray: AtomicU64,
}

impl Failing {
    fn refuse(&self) -> MediaError {
        MediaError::Io {
            device: "failing".into(),
            operation: Operation::Write,
            offset: 0,
            len_bytes: 0,
            errno: libc::EIO,
        }
    }
}

impl Media for Failing {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let spend = |left: u64| left.checked_sub(1);
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        if self.astray.fetch_update(order.0, order.1, spend).is_ok() {
            return Ok(());
        }
        match self.left.fetch_update(order.0, order.1, spend) {
            Ok(_) => self.inner.write_at(offset, data),
            Err(_) => {
                // As if the power failed within it: its first sector is lost, or, of a label,
                // not written.
                self.inner.poke(offset + 512, &data[512..])?;
                if offset != LABEL_OFFSET {
                    self.inner.poke(offset, &[0xee; 512])?;
                }
                Err(self.refuse())
            }
        }
    }
    fn sync(&self) -> Result<(), MediaError> {
        self.inner.sync()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.inner.discard(offset, len)
    }
    fn describe(&self) -> String {
        "failing".to_owned()
    }
    fn io_kind(&self) -> IoKind {
        IoKind::Memory
    }
}

fn failing(left: u64, inner: MemoryMedia) -> Arc<Failing> {
    Arc::new(Failing {
        inner,
        left: AtomicU64::new(left),
        astray: AtomicU64::new(0),
    })
}

#[test]
fn a_superblock_that_went_astray_is_written_again() {
    for astray in 0..=2 {
        let volume = memory(DEVICE_BYTES);
        let (_, made) = Root::create(nowhere(), &on(&[Arc::clone(&volume)])).unwrap();
        let device = failing(9, (*volume).clone());
        let given = settings(Options::new().volumes(vec![device.clone()]));
        let (root, _) = Root::open(nowhere(), &given).unwrap();
        device.astray.store(astray, Ordering::SeqCst);
        let mut next = made.clone();
        next.generation = 2;
        let written = root.write_superblock(&next);
        if astray == 2 {
            refused(written, ErrorKind::Damaged, &["4096", "0x", "not there"]);
            continue;
        }
        written.unwrap();
        for offset in SUPERBLOCK_OFFSETS {
            let mut block = AlignedBuf::for_read(4096).unwrap();
            device.inner.read_at(offset, &mut block).unwrap();
            assert!(block.starts_with(&next.encode(offset)), "{astray} astray");
        }
    }
}

#[test]
fn one_copy_is_whole_at_every_moment_of_a_superblock_write() {
    for damaged in [None, Some(0), Some(1)] {
        for writes in 0..3 {
            let volume = memory(DEVICE_BYTES);
            let (_, made) = Root::create(nowhere(), &on(&[Arc::clone(&volume)])).unwrap();
            if let Some(copy) = damaged {
                volume.poke(SUPERBLOCK_OFFSETS[copy], &[0; 512]).unwrap();
            }
            let device = failing(writes, (*volume).clone());
            let given = settings(Options::new().volumes(vec![device.clone()]));
            let (root, _) = Root::open(nowhere(), &given).unwrap();
            let mut next = made.clone();
            next.generation = 2;
            assert_eq!(root.write_superblock(&next).is_ok(), writes >= 2);
            drop(root);
            let after = on(&[Arc::new(device.inner.clone())]);
            let (_, found) = Root::open(nowhere(), &after).unwrap();
            let expected = if writes == 0 { 1 } else { 2 };
            assert_eq!(found.generation, expected, "{damaged:?}, {writes} writes");
        }
    }
}

#[test]
fn a_creation_on_given_volumes_goes_on_after_a_crash_at_each_write() {
    let whole = |writes_0, writes_1| {
        let empty = || MemoryMedia::new(DEVICE_BYTES, 512).unwrap();
        let devices = [failing(writes_0, empty()), failing(writes_1, empty())];
        let media = devices
            .iter()
            .map(|d| Arc::clone(d) as Arc<dyn Media>)
            .collect();
        let made = Root::create(nowhere(), &settings(Options::new().volumes(media)));
        assert_eq!(made.is_ok(), writes_0 >= 3 && writes_1 >= 1);
        let after = devices.map(|device| Arc::new(device.inner.clone()));
        let after = on(&after);
        if made.is_err() {
            refused(
                Root::open(nowhere(), &after),
                ErrorKind::NotAStore,
                &["no label"],
            );
        }
        let (root, superblock) = Root::open_or_create(nowhere(), &after).unwrap();
        drop(root);
        assert_eq!(Root::open(nowhere(), &after).unwrap().1, superblock);
    };
    for writes in 0..4 {
        whole(writes, 9);
    }
    whole(9, 0);
}
