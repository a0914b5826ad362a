//! Bits flip, sectors are overwritten, tails are torn. Whatever is damaged: never a wrong value,
//! never a panic, never a silent loss of what was durable; and the loss is one frame, not the store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // these are tests

mod image;

use std::collections::BTreeSet;
use std::sync::Arc;

use heliox::{Error, ErrorKind, Store};
use heliox_format::ids::SegmentId;
use heliox_format::label::HEAD_BYTES;
use heliox_format::segment::SegmentKind;
use heliox_media::MemoryMedia;
use image::{check, closed, crashed, options, Choices, Content, Image, BLOCK_BYTES, SEGMENT_BYTES};

fn open(image: &Image) -> Result<(Store, Arc<MemoryMedia>), Error> {
    let media = image.media();
    Ok((Store::open("", &options(&media))?, media))
}

fn open_error(image: &Image) -> Error {
    match open(image) {
        Err(error) => error,
        Ok(_) => panic!("the store opened"),
    }
}

/// What became of the content of a damaged store.
#[derive(Default, Debug)]
struct Losses {
    /// Keys whose reads say that they are damaged.
    told: usize,
    /// Keys that have an older value, or none, where a newer one was durable.
    reverted: usize,
}

/// Reads everything. A value that no version of its key ever had is wrong, whatever was damaged.
fn read_all(store: &Store, content: &Content) -> Losses {
    let mut losses = Losses::default();
    for ((keyspace, key), expected) in &content.now {
        let Ok(ks) = store.keyspace(keyspace) else {
            losses.reverted += 1;
            continue;
        };
        match ks.get(key) {
            Ok(found) if found == *expected => {}
            Ok(None) => losses.reverted += 1,
            Ok(Some(value)) => {
                let ever = content.ever.get(&(keyspace.clone(), key.clone()));
                assert!(
                    ever.is_some_and(|e| e.contains(&value)),
                    "a wrong value of {key:?}"
                );
                losses.reverted += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                assert!(error.to_string().contains("address 0x"), "{error}");
                losses.told += 1;
            }
        }
    }
    losses
}

/// Scans both ways: keys in order, each right, one error for each damaged record and no end at it.
fn scan_all(store: &Store, content: &Content, told: usize) {
    for reverse in [false, true] {
        let (mut errors, mut seen) = (0, BTreeSet::new());
        for name in store.keyspaces() {
            let iter = store.keyspace(&name).unwrap().iter();
            let iter = if reverse { iter.reverse() } else { iter };
            let mut last: Option<Vec<u8>> = None;
            for item in iter.start().unwrap() {
                let (key, value) = match item {
                    Ok(item) => item,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                        errors += 1;
                        continue;
                    }
                };
                let ordered = last
                    .as_ref()
                    .is_none_or(|l| (*l < key) != reverse && *l != key);
                assert!(ordered, "{key:?} after {last:?}");
                let id = (name.clone(), key.clone());
                let is_known = content.ever.get(&id).is_some_and(|e| e.contains(&value));
                assert!(is_known || key == b"last", "a wrong value of {key:?}");
                seen.insert(id);
                last = Some(key);
            }
        }
        if errors == 0 && told == 0 {
            continue;
        }
        // Damaged tombstones are told too.
        assert!(
            errors >= told.min(1),
            "{errors} errors for {told} damaged keys"
        );
        let live = content.now.iter().filter(|(_, v)| v.is_some()).count();
        assert!(
            seen.len() + errors >= live,
            "{} seen, {errors} errors, {live} live",
            seen.len()
        );
    }
}

// ---- whole structures ----

#[test]
fn one_superblock_copy_is_enough_and_the_other_is_reported() {
    for (image, content) in [closed(false), crashed(false)] {
        for offset in [64u64 << 10, 128 << 10] {
            let mut bad = image.clone();
            bad.write(offset, &[0x5a; 512]);
            let (store, media) = open(&bad).unwrap();
            assert!(
                store.warnings().iter().any(|w| w.contains("superblock")),
                "{offset:#x}"
            );
            let losses = read_all(&store, &content);
            assert_eq!((losses.told, losses.reverted), (0, 0));
            assert!(check(&bad)
                .problems
                .iter()
                .any(|p| p.contains("superblock")));
            // Opening wrote both copies anew.
            store.close().unwrap();
            assert_eq!(check(&Image::of(&media)).problem_count, 0);
        }
    }
}

#[test]
fn without_a_superblock_the_store_is_refused_by_name() {
    let (mut image, _) = closed(false);
    image.flip((64 << 10) + 20, 0);
    image.write(128 << 10, &[0; BLOCK_BYTES]);
    let error = open_error(&image);
    assert_eq!(error.kind(), ErrorKind::Damaged);
    for words in [
        "neither superblock",
        "0x10000",
        "0x20000",
        "checksum",
        "magic",
    ] {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

#[test]
fn a_damaged_label_is_refused_before_anything_is_trusted() {
    let (image, _) = closed(false);
    let mut bad = image.clone();
    for byte in [3, 30] {
        let mut bad = image.clone();
        bad.flip(byte, 2);
        assert_eq!(open_error(&bad).kind(), ErrorKind::Damaged, "byte {byte}");
    }
    bad.flip(30, 2);
    let error = open_error(&bad);
    for words in ["label", "checksum", "expected", "found", "backup"] {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    let mut wiped = image;
    wiped.write(0, &[0; BLOCK_BYTES]);
    let only_open = options(&wiped.media()).create_if_missing(false);
    let error = Store::open("", &only_open).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotAStore);
}

#[test]
fn a_damaged_checkpoint_is_an_error_that_says_what_and_where() {
    let (image, _) = closed(false);
    let start = image.start_of(SegmentKind::Checkpoint);
    let address = start - HEAD_BYTES;
    let chunk = format!("{:#x}", address + 512);
    // The header of its segment, a chunk's header, leaf images, and the end.
    let cases = [
        (16, "no header of it at address"),
        (512 + 8, &chunk),
        (512 + 900, &chunk),
    ];
    for (offset, words) in cases {
        let mut bad = image.clone();
        bad.flip(start + offset, 4);
        let error = open_error(&bad);
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert!(error.to_string().contains("address 0x"), "{error}");
    }
    let mut cut = image.clone();
    let blocks: Vec<u64> = image
        .blocks
        .range(start + 4096..start + SEGMENT_BYTES)
        .map(|b| *b.0)
        .collect();
    for block in blocks {
        cut.write(block, &[0; BLOCK_BYTES]);
    }
    assert_eq!(open_error(&cut).kind(), ErrorKind::Damaged);
}

#[test]
fn a_damaged_segment_header_costs_nothing_but_a_report() {
    for (image, content) in [closed(false), crashed(false)] {
        let mut bad = image.clone();
        bad.write(image.start_of(SegmentKind::User) + 16, &[0xab; 16]);
        let (store, _media) = open(&bad).unwrap();
        let losses = read_all(&store, &content);
        assert_eq!((losses.told, losses.reverted), (0, 0));
        assert_eq!(
            store.damage().is_empty(),
            image.superblock().clean,
            "{:?}",
            store.damage()
        );
        assert!(check(&bad)
            .problems
            .iter()
            .any(|p| p.contains("segment header")));
    }
}

/// A crash may lose the header while frames of the same write arrive.
#[test]
fn a_segment_without_a_header_is_not_damaged() {
    for (image, content) in [closed(false), crashed(false)] {
        let mut torn = image.clone();
        torn.write(image.start_of(SegmentKind::User), &[0; 512]);
        let (store, _media) = open(&torn).unwrap();
        let losses = read_all(&store, &content);
        assert_eq!((losses.told, losses.reverted), (0, 0));
        assert_eq!(store.damage(), Vec::<String>::new());
        assert_eq!(check(&torn).problems, Vec::<String>::new());
    }
}

#[test]
fn a_frame_costs_the_keys_of_its_block_and_writing_goes_on() {
    let (image, content) = closed(false);
    let mut bad = image.clone();
    let block = image.start_of(SegmentKind::User) + 5 * 4096;
    bad.write(block, &Choices(1).bytes(BLOCK_BYTES));
    let (store, media) = open(&bad).unwrap();
    let losses = read_all(&store, &content);
    assert!((1..200).contains(&losses.told), "{losses:?}");
    assert_eq!(losses.reverted, 0);
    scan_all(&store, &content, losses.told);
    // multi_get tells it too, and what is written anew heals its key.
    let main = store.keyspace("main").unwrap();
    let keys: Vec<Vec<u8>> = content
        .now
        .keys()
        .filter(|k| k.0 == "main")
        .map(|k| k.1.clone())
        .collect();
    assert_eq!(
        main.multi_get(&keys).unwrap_err().kind(),
        ErrorKind::Damaged
    );
    for key in &keys {
        main.put(key, b"new").unwrap();
    }
    assert!(main
        .multi_get(&keys)
        .unwrap()
        .iter()
        .all(|v| v.as_deref() == Some(b"new")));
    store.close().unwrap();
    let (store, _media) = open(&Image::of(&media)).unwrap();
    let main = store.keyspace("main").unwrap();
    assert!(keys
        .iter()
        .all(|k| main.get(k).unwrap().as_deref() == Some(b"new")));
}

#[test]
fn a_chunk_of_a_large_value_costs_that_value_only() {
    let (image, content) = closed(true);
    let mut bad = image.clone();
    // The large value was written after the small ones: half a mebibyte on is in its middle.
    bad.flip(image.start_of(SegmentKind::User) + (900 << 10), 5);
    let (store, _media) = open(&bad).unwrap();
    let losses = read_all(&store, &content);
    assert_eq!((losses.told, losses.reverted), (1, 0));
    let side = store.keyspace("side").unwrap();
    assert_eq!(side.get("large").unwrap_err().kind(), ErrorKind::Damaged);
    scan_all(&store, &content, 1);
    // A part that does not touch the damaged chunk is still there.
    let large = &content.now[&("side".to_owned(), b"large".to_vec())];
    let end = side.get_range("large", 1 << 20, 100).unwrap();
    assert_eq!(
        end.as_deref(),
        large.as_ref().map(|l| &l[1 << 20..(1 << 20) + 100])
    );
}

/// A torn tail: all but the first sectors of the last frames never reached the device. What was
/// synced before is there, and nothing is reported, since that is how every crash looks.
#[test]
fn a_torn_tail_is_cut_off_without_a_word() {
    let (image, content) = crashed(false);
    let user = image.start_of(SegmentKind::User);
    let last = *image
        .blocks
        .range(user..user + SEGMENT_BYTES)
        .next_back()
        .unwrap()
        .0;
    let used = image.bytes(last, BLOCK_BYTES);
    let sectors = used
        .chunks(512)
        .filter(|s| s.iter().any(|b| *b != 0))
        .count() as u64;
    let mut torn = image.clone();
    torn.write(last + (sectors - 1) * 512, &[0; 512]);
    let (store, media) = open(&torn).unwrap();
    let losses = read_all(&store, &content);
    assert_eq!((losses.told, losses.reverted), (0, 0));
    assert_eq!(store.damage(), Vec::<String>::new());
    assert_eq!(store.keyspace("side").unwrap().get("last").unwrap(), None);
    assert_eq!(check(&torn).problem_count, 0);
    store.keyspace("side").unwrap().put("after", "x").unwrap();
    store.close().unwrap();
    assert_eq!(check(&Image::of(&media)).problem_count, 0);
}

/// The opposite: frames in the middle of the tail are gone and later ones say that they were
/// durable. That is damage, and opening says so.
#[test]
fn a_hole_in_the_durable_tail_is_reported() {
    let (image, content) = crashed(false);
    let user = image.start_of(SegmentKind::User);
    let blocks: Vec<u64> = image
        .blocks
        .range(user..user + SEGMENT_BYTES)
        .map(|b| *b.0)
        .collect();
    let mut bad = image.clone();
    bad.write(blocks[blocks.len() - 3], &[0; BLOCK_BYTES]);
    let (store, media) = open(&bad).unwrap();
    assert!(
        store.damage().iter().any(|d| d.contains("were durable")),
        "{:?}",
        store.damage()
    );
    let losses = read_all(&store, &content);
    assert!(losses.reverted + losses.told > 0);
    assert!(check(&bad).problem_count > 0);
    assert_eq!(
        store.keyspace("side").unwrap().get("last").unwrap(),
        Some(b"word".to_vec())
    );
    store.keyspace("side").unwrap().put("after", "x").unwrap();
    store.close().unwrap();
    let (store, _media) = open(&Image::of(&media)).unwrap();
    assert_eq!(
        store.keyspace("side").unwrap().get("after").unwrap(),
        Some(b"x".to_vec())
    );
}

#[test]
fn all_of_the_tail_gone_is_reported_by_what_the_checkpoint_knows() {
    // Orders that the image of a leaf covers were durable, even if no frame is left to say so.
    let (image, _) = crashed(false);
    let mut bad = image.clone();
    for id in 0..16 {
        if image
            .segment(SegmentId(id))
            .is_some_and(|h| h.kind != SegmentKind::Checkpoint)
        {
            let start = HEAD_BYTES + u64::from(id) * SEGMENT_BYTES;
            let blocks: Vec<u64> = image
                .blocks
                .range(start..start + SEGMENT_BYTES)
                .map(|b| *b.0)
                .collect();
            blocks
                .iter()
                .for_each(|b| bad.write(*b, &[0x77; BLOCK_BYTES]));
        }
    }
    let (store, _media) = open(&bad).unwrap();
    let main = store.keyspace("main").unwrap();
    assert_eq!(
        main.get("key000002").unwrap_err().kind(),
        ErrorKind::Damaged
    );
    assert!(check(&bad).problem_count > 100);
}

// ---- every block ----

/// Flips one bit in each block of a store and reads everything back.
fn flip_every_block(image: &Image, content: &Content, seed: u64) -> (usize, usize) {
    let superblock = image.superblock();
    let newest = superblock.checkpoint.map_or(0, |c| c.number);
    let mut choices = Choices(seed);
    let (mut opened, mut with_losses) = (0, 0);
    for (at, block) in &image.blocks {
        let set: Vec<u64> = (0..BLOCK_BYTES as u64)
            .filter(|i| block[*i as usize] != 0)
            .collect();
        let byte = at + set[choices.below(set.len() as u64) as usize];
        let mut bad = image.clone();
        bad.flip(byte, choices.below(8) as u8);
        let header = at
            .checked_sub(HEAD_BYTES)
            .and_then(|flat| image.segment(SegmentId((flat / SEGMENT_BYTES) as u32)));
        let is_checkpoint =
            header.is_some_and(|h| h.kind == SegmentKind::Checkpoint && h.checkpoint == newest);
        let is_stale =
            header.is_some_and(|h| h.kind == SegmentKind::Checkpoint && h.checkpoint != newest);
        let report = check(&bad);
        assert!(
            report.problem_count > 0 || is_stale,
            "a flip at {byte:#x} was not found"
        );
        let (store, _media) = match open(&bad) {
            Ok(opened) => opened,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{byte:#x}: {error}");
                assert!(
                    is_checkpoint || *at == 0,
                    "{byte:#x} keeps the store from opening: {error}"
                );
                continue;
            }
        };
        opened += 1;
        let losses = read_all(&store, content);
        // Only what opening reports may be lost without an error at the key.
        let reported = !store.damage().is_empty();
        assert!(
            losses.reverted == 0 || reported,
            "{byte:#x}: {losses:?} without a report"
        );
        assert!(losses.told + losses.reverted < 200, "{byte:#x}: {losses:?}");
        scan_all(&store, content, losses.told);
        with_losses += usize::from(losses.told + losses.reverted > 0);
    }
    (opened, with_losses)
}

#[test]
fn a_bit_in_any_block_of_a_closed_store() {
    let (image, content) = closed(false);
    let (opened, with_losses) = flip_every_block(&image, &content, 1);
    assert!(opened > 40 && with_losses > 20, "{opened} {with_losses}");
}

#[test]
fn a_bit_in_any_block_of_a_crashed_store() {
    let (image, content) = crashed(false);
    let (opened, with_losses) = flip_every_block(&image, &content, 2);
    assert!(opened > 40 && with_losses > 20, "{opened} {with_losses}");
}

/// A leaf that is split may want to read keys to know where they belong; one that cannot be read
/// must not keep its neighbours from being written, nor the store from being opened.
#[test]
fn a_damaged_key_does_not_stand_in_the_way_of_others() {
    let (image, content) = closed(false);
    let mut bad = image.clone();
    let user = image.start_of(SegmentKind::User);
    for block in (1..20).step_by(2) {
        bad.write(user + block * 4096, &[0x33; BLOCK_BYTES]);
    }
    let (store, media) = open(&bad).unwrap();
    let told = read_all(&store, &content).told;
    assert!(told > 50, "{told}");
    let main = store.keyspace("main").unwrap();
    for i in 0..30_000u32 {
        let key = format!("key{:06}x{i}", i.wrapping_mul(40_503) % 900);
        main.put(&key, "new").unwrap();
    }
    store.sync().unwrap();
    let crash = Image::of(&media);
    drop(store);
    for image in [crash, Image::of(&media)] {
        let (store, _media) = open(&image).unwrap();
        // What was given up is told by its damage no more at each read.
        assert!(read_all(&store, &content).told <= told);
        let main = store.keyspace("main").unwrap();
        let keys = |i: u32| format!("key{:06}x{i}", i.wrapping_mul(40_503) % 900);
        assert!((0..30_000).all(|i| main.get(keys(i)).unwrap().as_deref() == Some(b"new")));
    }
}

/// All records of the tail are lost in one block, and only the rest of a long one still says that
/// the others were durable.
#[test]
fn a_tail_without_any_record_still_tells_what_was_durable() {
    let media = Arc::new(MemoryMedia::new(image::STORE_BYTES, 512).unwrap());
    let store = Store::create("", &options(&media)).unwrap();
    let ks = store.create_keyspace("ks").unwrap();
    store.sync().unwrap();
    store.checkpoint().unwrap();
    ks.put("durable", "x").unwrap();
    store.sync().unwrap();
    ks.put("long", vec![b'l'; 9000]).unwrap();
    store.sync().unwrap();
    let mut image = Image::of(&media);
    drop(store);
    image.write(image.start_of(SegmentKind::User), &[0x55; BLOCK_BYTES]);
    let (store, _media) = open(&image).unwrap();
    let told = |d: &String| d.contains("were durable and cannot be read");
    assert!(store.damage().iter().any(told), "{:?}", store.damage());
    assert!(check(&image).problems.iter().any(told));
}
