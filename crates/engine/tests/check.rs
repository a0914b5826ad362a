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
    let gone = store.create_keyspace("gone").unwrap();
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
            store.create_keyspace("gone2").unwrap();
        }
        if round == 5 {
            store.checkpoint().unwrap();
        }
        if round >= 9 {
            (0..20).for_each(|_| steps += u32::from(store.step().unwrap()));
            store.sync().unwrap();
            assert_sound(&Image::of(&media));
            break_off_if(round == 13);
        }
        if round >= 9 {
            continue;
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

fn break_off_if(_: bool) {}
