//! The offline check: silent about whatever a sound store may look like, and clear about each kind
//! of damage. A check that cries wolf is as bad as one that sleeps, so the sound stores come first.

mod image;

use std::sync::Arc;

use heliox::{Batch, Durability, ErrorKind, Options, Store, WriteOptions};
use heliox_format::label::HEAD_BYTES;
use heliox_format::segment::SegmentKind;
use heliox_media::MemoryMedia;
use image::{check, check_with, closed, crashed, options, Choices, Image, STORE_BYTES};

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
    assert!(before == Image::of(&media).blocks, "the check wrote something");
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
        main.delete_range(format!("k{:05}", round * 500), format!("k{:05}", round * 500 + 200))
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
    assert!(steps > 0 && store.stats().gc_segments > 0, "{:?}", store.stats());
    store.close().unwrap();
    assert_sound(&Image::of(&media));
    let store = Store::open("", &options(&media)).unwrap();
    (0..50).for_each(|_| drop(store.step().unwrap()));
    store.close().unwrap();
    assert_sound(&Image::of(&media));
}

// ---- what a check must find ----

/// A bit flipped in this byte of the image must be told, with words that say what and where.
#[track_caller]
fn assert_found(image: &Image, at: u64, words: &[&str]) {
    let mut damaged = image.clone();
    damaged.flip(at, 3);
    let report = check(&damaged);
    assert!(report.problem_count > 0, "nothing found after a flip at {at:#x}");
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
    assert_found(&image, (64 << 10) + 40, &["superblock", "0x10000", "checksum"]);
    assert_found(&image, (128 << 10) + 40, &["superblock", "0x20000", "checksum"]);
    assert_found(&image, user + 16, &["segment header", "checksum"]);
    assert_found(&image, checkpoint + 16, &["checkpoint 2", "header", "address"]);
    assert_found(&image, checkpoint + 512 + 100, &["checkpoint chunk", "address"]);
    let frame = user + 512 + 1000;
    let block = format!("addresses {:#x} to", user + 512 - HEAD_BYTES);
    assert_found(&image, frame, &["segment", &block, "frame", "checksum", "cannot be read"]);
    let unclean = crashed(false).0;
    assert_found(&unclean, unclean.start_of(SegmentKind::User) + 16, &["segment header"]);
}

#[test]
fn both_superblocks_gone_is_a_finding_and_not_an_error() {
    let (mut image, _) = closed(false);
    image.flip((64 << 10) + 40, 1);
    image.flip((128 << 10) + 40, 1);
    let report = check(&image);
    assert_eq!(report.problem_count, 1);
    assert!(report.problems[0].contains("neither superblock"), "{report:?}");
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
    foreign.write(user, &other.bytes(other.start_of(SegmentKind::User), 64 << 10));
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
    let small = Options::new().capacity_bytes(STORE_BYTES).memory_budget_bytes(16 << 20);
    let store = Store::create(&path, &small).unwrap();
    let error = Store::check(&path, &small, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreInUse, "{error}");
    store.close().unwrap();
    let mut seen = 0;
    let report = Store::check(&path, &small, &mut |p| seen = p.total_bytes).unwrap();
    assert_eq!(report.problem_count, 0, "{report:?}");
    assert!(seen > 0);
}
