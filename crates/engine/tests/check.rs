//! The offline check: silent about whatever a sound store may look like, and clear about each kind
//! of damage. A check that cries wolf is as bad as one that sleeps, so the sound stores come first.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // these are tests

mod image;

use std::sync::Arc;

use heliox::{Batch, Durability, ErrorKind, Media, Options, Store, WriteOptions};
use heliox_format::bytes::Reader;
use heliox_format::checkpoint::{encode_chunk, open_chunk, CheckpointMeta, ChunkKind};
use heliox_format::label::HEAD_BYTES;
use heliox_format::segment::SegmentKind;
use heliox_media::{MemoryMedia, RecordingMedia};
use image::{
    check, check_with, closed, crashed, options, Choices, Image, SEGMENT_BYTES, STORE_BYTES,
};

fn new_media() -> Arc<MemoryMedia> {
    Arc::new(MemoryMedia::new(STORE_BYTES, 512).unwrap())
}

#[track_caller]
fn assert_sound(image: &Image) {
    let before = image.blocks.clone();
    let media = image.media();
    let report = check_with(&options(&media));
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.problem_count, 0);
    assert!(
        before == Image::of(&media).blocks,
        "the check wrote something"
    );
}

#[test]
fn a_store_that_was_just_made_is_sound() {
    let media = new_media();
    let store = Store::create("", &options(&media)).unwrap();
    assert_sound(&Image::of(&media));
    drop(store);
    assert_sound(&Image::of(&media));
}

#[test]
fn a_closed_store_is_sound_and_everything_in_it_is_counted() {
    let (image, content) = closed(true);
    assert_sound(&image);
    let report = check(&image);
    let live = content.now.values().filter(|v| v.is_some()).count() as u64;
    assert!(report.entries >= live, "{report:?}");
    assert!(report.records > report.entries, "{report:?}");
    assert!(report.segments >= 2 && report.bytes > 1 << 20, "{report:?}");
    assert_eq!(report.strangers, 0);
}

#[test]
fn a_crashed_store_is_sound() {
    let (image, _) = crashed(true);
    assert!(!image.superblock().clean);
    assert_sound(&image);
}

/// Overwrites until segments were collected and reused, with deletes, range deletes, expiry and
/// large values that die; then checks what media hold at several moments and after the close.
#[test]
fn stores_that_were_collected_and_swept_are_sound() {
    let media = new_media();
    let store = Store::create("", &options(&media).durability(Durability::None)).unwrap();
    let main = store.create_keyspace("main").unwrap();
    let mut gone = store.create_keyspace("gone").unwrap();
    let mut choices = Choices(3);
    let brief = WriteOptions::new().ttl_ms(1);
    let mut steps = 0;
    for round in 0..14u32 {
        for _ in 0..6000 {
            let key = format!("k{:05}", choices.below(9000));
            let n = 300 + choices.below(400) as usize;
            match choices.below(20) {
                0 => main.delete(&key).unwrap(),
                1 => main.put_with(&key, choices.bytes(n), &brief).unwrap(),
                _ => main.put(&key, choices.bytes(n)).unwrap(),
            }
            if choices.below(64) == 0 {
                steps += u32::from(store.step().unwrap());
            }
        }
        gone.put(format!("g{round}"), choices.bytes(3000)).unwrap();
        main.put("large", choices.bytes((1 << 20) + 99)).unwrap();
        let mut batch = Batch::new();
        (0..20).for_each(|i| batch.put(&gone, format!("b{i}"), choices.bytes(100)));
        store.write(&batch).unwrap();
        main.delete_range(
            format!("k{:05}", round * 500),
            format!("k{:05}", round * 500 + 200),
        )
        .unwrap();
        if round == 9 {
            store.drop_keyspace("gone").unwrap();
            gone = store.create_keyspace("gone2").unwrap();
        }
        if round == 5 {
            store.checkpoint().unwrap();
        }
        if round >= 9 {
            (0..20).for_each(|_| steps += u32::from(store.step().unwrap()));
            store.sync().unwrap();
            assert_sound(&Image::of(&media));
        }
    }
    assert!(
        steps > 0 && store.stats().gc_segments > 0,
        "{:?}",
        store.stats()
    );
    store.close().unwrap();
    assert_sound(&Image::of(&media));
    let store = Store::open("", &options(&media)).unwrap();
    (0..50).for_each(|_| _ = store.step().unwrap());
    store.close().unwrap();
    assert_sound(&Image::of(&media));
}

/// With much room left, what collection empties is discarded at once, while the checkpoint that the
/// next open starts from still lists it.
#[test]
fn segments_that_were_given_back_since_the_checkpoint_are_not_missed() {
    let media = Arc::new(MemoryMedia::new(HEAD_BYTES + (256 << 20), 512).unwrap());
    let options = || options(&media).capacity_bytes(HEAD_BYTES + (256 << 20));
    let store = Store::create("", &options().durability(Durability::None)).unwrap();
    let main = store.create_keyspace("main").unwrap();
    for round in 0..3u32 {
        (0..9000u32).for_each(|i| main.put(i.to_be_bytes(), vec![round as u8; 900]).unwrap());
    }
    store.checkpoint().unwrap();
    drop(main);
    store.close().unwrap();
    let report = check_with(&options());
    assert_eq!(report.problems, Vec::<String>::new());
    let before = report.segments;
    // The same segments, as collection gives them back.
    let mut zeroed = 0;
    for id in 0..before as u32 - 1 {
        let start = HEAD_BYTES + u64::from(id) * SEGMENT_BYTES;
        media.poke(start, &vec![0; SEGMENT_BYTES as usize]).unwrap();
        let report = check_with(&options());
        zeroed += u32::from(report.problem_count == 0);
        if report.problem_count > 0 {
            break;
        }
    }
    assert!(zeroed >= 2, "{zeroed} of {before}");
}

// ---- what a check must find ----

/// A bit flipped in this byte of the image must be told, with words that say what and where.
#[track_caller]
fn assert_found(image: &Image, at: u64, words: &[&str]) {
    let mut damaged = image.clone();
    damaged.flip(at, 3);
    let report = check(&damaged);
    assert!(
        report.problem_count > 0,
        "nothing found after a flip at {at:#x}"
    );
    let all = report.problems.join("\n");
    for word in words {
        assert!(all.contains(word), "{word:?} is missing in:\n{all}");
    }
}

#[test]
fn damage_of_each_structure_is_found_and_named() {
    let (image, _) = closed(false);
    let user = image.start_of(SegmentKind::User);
    let checkpoint = image.start_of(SegmentKind::Checkpoint);
    assert_found(&image, 20, &["label", "checksum", "expected", "found"]);
    assert_found(
        &image,
        (64 << 10) + 40,
        &["superblock", "0x10000", "checksum"],
    );
    assert_found(
        &image,
        (128 << 10) + 40,
        &["superblock", "0x20000", "checksum"],
    );
    assert_found(&image, user + 16, &["segment header", "checksum"]);
    let number = image.superblock().checkpoint.unwrap().number;
    let name = format!("checkpoint {number}");
    assert_found(&image, checkpoint + 16, &[&name, "header", "address"]);
    assert_found(
        &image,
        checkpoint + 512 + 100,
        &["checkpoint chunk", "address"],
    );
    let frame = user + 512 + 1000;
    let block = format!("addresses {:#x} to", user + 512 - HEAD_BYTES);
    assert_found(
        &image,
        frame,
        &["segment", &block, "frame", "checksum", "cannot be read"],
    );
    let unclean = crashed(false).0;
    assert_found(
        &unclean,
        unclean.start_of(SegmentKind::User) + 16,
        &["segment header"],
    );
}

#[test]
fn both_superblocks_gone_is_a_finding_and_not_an_error() {
    let (mut image, _) = closed(false);
    image.flip((64 << 10) + 40, 1);
    image.flip((128 << 10) + 40, 1);
    let report = check(&image);
    assert_eq!(report.problem_count, 1);
    assert!(
        report.problems[0].contains("neither superblock"),
        "{report:?}"
    );
}

#[test]
fn without_an_index_the_frames_are_verified_all_the_same() {
    let (mut image, _) = closed(false);
    image.flip(image.start_of(SegmentKind::Checkpoint) + 512 + 100, 1);
    let whole = check(&image);
    assert!(whole.records > 900 && whole.problem_count == 1, "{whole:?}");
    image.flip(image.start_of(SegmentKind::User) + 20_000, 1);
    let report = check(&image);
    assert_eq!(report.problem_count, 2, "{report:?}");
    assert!(report.records < whole.records);
}

/// A frame from another place with a checksum of that place, and a whole segment of an earlier
/// life: both verify where they come from, and neither may pass here.
#[test]
fn content_that_belongs_elsewhere_is_found() {
    let (image, _) = closed(false);
    let user = image.start_of(SegmentKind::User);
    let mut moved = image.clone();
    moved.write(user + 8192, &image.bytes(user + 4096, 4096));
    let report = check(&moved);
    assert!(report.problem_count > 1, "{report:?}");
    assert!(report.problems[0].contains("frame"), "{report:?}");
    let (other, _) = closed(false);
    let mut foreign = image.clone();
    foreign.write(
        user,
        &other.bytes(other.start_of(SegmentKind::User), 64 << 10),
    );
    let report = check(&foreign);
    assert!(report.problem_count > 1, "{report:?}");
}

#[test]
fn many_problems_are_counted_and_a_hundred_told() {
    let (mut image, _) = closed(false);
    let user = image.start_of(SegmentKind::User);
    for block in 0..30 {
        image.write(user + 512 + block * 4096, &[0xee; 3000]);
    }
    let report = check(&image);
    assert_eq!(report.problems.len(), 100);
    assert!(report.problem_count > 300, "{}", report.problem_count);
}

#[test]
fn a_check_that_cannot_be_done_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nothing");
    let error = Store::check(&missing, &Options::new(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAStore);
    assert!(!missing.exists(), "a check makes nothing");
    let path = dir.path().join("store");
    let small = Options::new()
        .capacity_bytes(STORE_BYTES)
        .memory_budget_bytes(16 << 20);
    let store = Store::create(&path, &small).unwrap();
    let error = Store::check(&path, &small, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreInUse, "{error}");
    store.close().unwrap();
    let mut seen = 0;
    let report = Store::check(&path, &small, &mut |p| seen = p.total_bytes).unwrap();
    assert_eq!(report.problem_count, 0, "{report:?}");
    assert!(seen > 0);
}

/// Whatever a crash leaves is no damage: writes that were not synced are kept, lost, reordered and
/// torn, while segments are collected, swept and checkpointed. Nor is what comes of going on.
#[test]
fn crash_images_are_sound_and_so_is_what_follows() {
    let recording = Arc::new(RecordingMedia::new(
        MemoryMedia::new(STORE_BYTES, 512).unwrap(),
    ));
    let on = |media: Arc<dyn Media>| {
        options(&new_media())
            .volumes(vec![media])
            .durability(Durability::None)
    };
    let store = Store::create("", &on(recording.clone())).unwrap();
    let main = store.create_keyspace("main").unwrap();
    let mut choices = Choices(5);
    let mut points = Vec::new();
    for round in 0..120u32 {
        for _ in 0..700 {
            let key = format!("k{:05}", choices.below(5000));
            let n = 200 + choices.below(600) as usize;
            match choices.below(12) {
                0 => main.delete(&key).unwrap(),
                1 => main
                    .put_with(&key, choices.bytes(n), &WriteOptions::new().ttl_ms(1))
                    .unwrap(),
                _ => main.put(&key, choices.bytes(n)).unwrap(),
            }
        }
        let mut batch = Batch::new();
        (0..30).for_each(|_| batch.put(&main, format!("k{:05}", choices.below(5000)), "b"));
        store.write(&batch).unwrap();
        let from = choices.below(5000);
        main.delete_range(format!("k{from:05}"), format!("k{:05}", from + 20))
            .unwrap();
        match round % 6 {
            0 => store.flush().unwrap(),
            1 => store.sync().unwrap(),
            2 if round % 24 == 2 => store.checkpoint().unwrap(),
            _ => (0..4).for_each(|_| _ = store.step().unwrap()),
        }
        if round % 5 == 0 {
            points.push((recording.event_count(), choices.next()));
        }
    }
    assert!(store.stats().gc_segments > 0, "{:?}", store.stats());
    let mut cut_off = 0;
    for (event, seed) in points {
        let media = Arc::new(recording.crash_image(event, seed).unwrap());
        assert_sound(&Image::of(&media));
        let store = Store::open("", &options(&media)).unwrap();
        assert_eq!(store.damage(), Vec::<String>::new());
        cut_off += u32::from(store.stats().recovery.tail_records > 0);
        // A fresh store has no keyspace yet.
        let Ok(main) = store.keyspace_or_create("main") else {
            continue;
        };
        (0..300).for_each(|i| main.put(format!("k{:05}", i * 7), vec![1; 500]).unwrap());
        (0..30).for_each(|_| _ = store.step().unwrap());
        store.sync().unwrap();
        assert_sound(&Image::of(&media));
        store.close().unwrap();
        assert_sound(&Image::of(&media));
    }
    assert!(cut_off > 12, "{cut_off}");
}

// ---- accounts that disagree although every checksum is right ----

/// Rewrites the payloads of the newest checkpoint, each with a right checksum.
fn rewrite(image: &Image, change: &mut dyn FnMut(ChunkKind, &mut Vec<u8>)) -> Image {
    let mut changed = image.clone();
    let (salt, start) = (
        image.superblock().salt(),
        image.start_of(SegmentKind::Checkpoint),
    );
    let mut at = start + 512;
    loop {
        let bytes = image.bytes(at, 1 << 20);
        let address = at - HEAD_BYTES;
        let (header, payload) = open_chunk(salt, address, &bytes).unwrap();
        let mut payload = payload.to_vec();
        change(header.kind, &mut payload);
        assert_eq!(payload.len(), header.payload_bytes as usize);
        changed.write(at, &encode_chunk(salt, address, &header, &payload, 512));
        if header.kind == ChunkKind::End {
            return changed;
        }
        at += (32 + payload.len() as u64).next_multiple_of(512);
    }
}

#[track_caller]
fn assert_meta_found(image: &Image, change: impl Fn(&mut CheckpointMeta), words: &str) {
    let changed = rewrite(image, &mut |kind, payload| {
        if kind == ChunkKind::Meta {
            let mut meta = CheckpointMeta::decode(payload).unwrap();
            change(&mut meta);
            payload.clear();
            meta.encode(payload);
        }
    });
    let report = check(&changed);
    let all = report.problems.join("\n");
    assert!(all.contains(words), "{words:?} is missing in: {all:?}");
}

#[test]
fn counts_sums_and_names_that_cannot_be_are_found() {
    let (image, _) = closed(false);
    assert_eq!(check(&rewrite(&image, &mut |_, _| {})).problem_count, 0);
    assert_meta_found(
        &image,
        |m| m.segments[0].records += 1,
        "records expected, found",
    );
    assert_meta_found(&image, |m| m.segments[0].birth.0 += 1, "birth");
    assert_meta_found(
        &image,
        |m| m.segments[0].kind = SegmentKind::Survivor,
        "kind Survivor",
    );
    assert_meta_found(
        &image,
        |m| m.segments[0].used_bytes += 5000,
        "cannot be read",
    );
    assert_meta_found(&image, |m| m.segments[0].birth.0 = 100, "birth below");
    assert_meta_found(
        &image,
        |m| m.keyspaces[1].name = "main".into(),
        "is there twice",
    );
    assert_meta_found(&image, |m| m.keyspaces[1].id.0 = 9, "an id from 1 to 2");
    assert_meta_found(
        &image,
        |m| m.next_keyspace = 2,
        "keyspace id below 2 expected",
    );
    let swap = |m: &mut CheckpointMeta| m.ranges[0].from = b"key999999".to_vec();
    assert_meta_found(&image, swap, "an interval");
    // Sums that differ make the check look at each dead record; nothing is wrong with these.
    let other_sum = rewrite(&image, &mut |kind, payload| {
        if kind == ChunkKind::Meta {
            let mut meta = CheckpointMeta::decode(payload).unwrap();
            meta.segments[0].displaced_sum ^= 1;
            payload.clear();
            meta.encode(payload);
        }
    });
    let report = check(&other_sum);
    assert_eq!(
        (report.problem_count, report.strangers),
        (0, 0),
        "{report:?}"
    );
}

/// Changes the rest (fingerprint, location) of entry `n` of the first leaf's first block.
fn with_entry(image: &Image, n: usize, change: &dyn Fn(&mut [u8])) -> Option<Image> {
    let (mut is_first, mut is_there) = (true, true);
    let changed = rewrite(image, &mut |kind, payload| {
        if kind != ChunkKind::Leaves || !std::mem::take(&mut is_first) {
            return;
        }
        let all = payload.len();
        let mut reader = Reader::new(payload);
        reader.varint().unwrap();
        let len = reader.prefixed().unwrap().len();
        let from = all - reader.rest().len() - len;
        let leaf = &mut payload[from..from + len];
        assert_eq!(leaf[5], 0, "a leaf of slices");
        let word = |at: usize| u32::from_le_bytes(leaf[at..at + 4].try_into().unwrap()) as usize;
        let prefix = if leaf[7] & 2 != 0 { 64 } else { 0 };
        let (entries, body) = (word(20).min(46), 32 + word(24) + word(28) + prefix);
        is_there = n < entries;
        if is_there {
            let at = body + 2 * entries + 9 * n;
            change(&mut leaf[at..at + 9]);
            let sum = xxhash_rust::xxh3::xxh3_64(&leaf[..len - 8]);
            leaf[len - 8..].copy_from_slice(&sum.to_le_bytes());
        }
    });
    is_there.then_some(changed)
}

/// Takes one entry out of the index, or lets it point elsewhere: each must be missed.
#[test]
fn every_entry_that_is_lost_or_wrong_is_found() {
    let (image, _) = closed(true);
    let mut chunks = 0;
    for n in 0..46 {
        let lost = with_entry(&image, n, &|rest| rest.fill(0xff)).unwrap();
        let report = check(&lost);
        let all = report.problems.join("\n");
        assert!(
            all.contains("has no entry") || all.contains("chunk "),
            "entry {n}: {all:?}"
        );
        chunks += u32::from(all.contains("chunk "));
        let moved = with_entry(&image, n, &|rest| rest[4] ^= 0x40).unwrap();
        let all = check(&moved).problems.join("\n");
        assert!(
            all.contains("is not of the entry's key"),
            "entry {n}: {all:?}"
        );
        let beyond = with_entry(&image, n, &|rest| rest[7] = 0x70).unwrap();
        let all = check(&beyond).problems.join("\n");
        assert!(
            all.contains("where no segment of the log is"),
            "entry {n}: {all:?}"
        );
        let flagged = with_entry(&image, n, &|rest| rest[3] ^= 0x80).unwrap();
        let all = check(&flagged).problems.join("\n");
        assert!(all.contains("says tombstone"), "entry {n}: {all:?}");
    }
    assert!(
        chunks >= 2,
        "the chunks of the large value are among the first entries"
    );
}
