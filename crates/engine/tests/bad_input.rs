//! Whatever a user gives wrongly has an error of its own kind, whose words say what, where, and what
//! to do. Nothing panics, and a refusal changes nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // these are tests

mod image;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use heliox::{Batch, Durability, Error, ErrorKind, Options, Store, WriteOptions};
use heliox_format::checksum::{checksum, ChecksumSalt};
use heliox_media::MemoryMedia;
use image::{closed, options, Image, STORE_BYTES};

#[track_caller]
fn assert_error<T>(result: Result<T, Error>, kind: ErrorKind, words: &[&str]) {
    let error = result.err().expect("an error");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(
            error.to_string().contains(word),
            "{word:?} is missing in: {error}"
        );
    }
}

fn small() -> Options {
    Options::new()
        .capacity_bytes(STORE_BYTES)
        .memory_budget_bytes(16 << 20)
}

fn file(path: &Path, len: u64) {
    File::create(path).unwrap().set_len(len).unwrap();
}

fn memory_store() -> Store {
    let media = Arc::new(MemoryMedia::new(STORE_BYTES, 512).unwrap());
    Store::create("", &options(&media)).unwrap()
}

// ---- places ----

#[test]
fn a_place_without_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let only_open = small().create_if_missing(false);
    let missing = dir.path().join("missing");
    let words = ["missing", "no such directory", "create"];
    assert_error(
        Store::open(&missing, &only_open),
        ErrorKind::NotAStore,
        &words,
    );
    assert_error(
        Store::open(dir.path(), &only_open),
        ErrorKind::NotAStore,
        &["HELIOX", "create"],
    );
    let a_file = dir.path().join("file");
    file(&a_file, 10);
    assert_error(
        Store::open(&a_file, &only_open),
        ErrorKind::NotAStore,
        &["is a file"],
    );
    assert_error(
        Store::open(&a_file, &small()),
        ErrorKind::Invalid,
        &["is a file", "choose another"],
    );
    assert!(!missing.exists());
}

#[test]
fn a_place_that_has_a_store() {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path(), &small())
        .unwrap()
        .close()
        .unwrap();
    let words = ["is there already", "open it"];
    assert_error(
        Store::create(dir.path(), &small()),
        ErrorKind::StoreExists,
        &words,
    );
}

#[test]
fn unknown_short_and_foreign_devices() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let on = |devices: &[&str]| Options::new().devices(devices.iter().map(|d| path(d)).collect());
    let gone = Store::create(path("s1"), &on(&["gone"]));
    assert_error(
        gone,
        ErrorKind::WrongDevice,
        &["gone", "no such device", "attached"],
    );
    file(&path("tiny"), 1 << 20);
    assert_error(
        Store::create(path("s1"), &on(&["tiny"])),
        ErrorKind::ShortDevice,
        &["tiny", "needs"],
    );
    let twice = Store::create(path("s1"), &on(&["tiny", "tiny"]));
    assert_error(twice, ErrorKind::Invalid, &["tiny", "twice"]);
    for name in ["a", "b", "c"] {
        file(&path(name), STORE_BYTES);
    }
    Store::create(path("s1"), &on(&["a", "b"]))
        .unwrap()
        .close()
        .unwrap();
    Store::create(path("s2"), &on(&["c"]))
        .unwrap()
        .close()
        .unwrap();
    let taken = Store::create(path("s3"), &on(&["c"]));
    assert_error(taken, ErrorKind::StoreExists, &["/c", "carries", "wipe"]);
    let swapped = Store::open(path("s1"), &on(&["b", "a"]));
    assert_error(
        swapped,
        ErrorKind::WrongDevice,
        &["volume 0 of 2", "volume 1 of 2", "order"],
    );
    let foreign = Store::open(path("s1"), &on(&["a", "c"]));
    assert_error(
        foreign,
        ErrorKind::WrongDevice,
        &["/c", "a volume of store", "right device"],
    );
    let one = Store::open(path("s1"), &on(&["a"]));
    assert_error(one, ErrorKind::WrongDevice, &["2 volumes", "given: 1"]);
    File::options()
        .write(true)
        .open(path("b"))
        .unwrap()
        .set_len(STORE_BYTES / 4)
        .unwrap();
    let cut = Store::open(path("s1"), &Options::new());
    assert_error(
        cut,
        ErrorKind::ShortDevice,
        &["/b", "bytes long", "whole device"],
    );
    std::fs::remove_file(path("b")).unwrap();
    let removed = Store::open(path("s1"), &Options::new());
    assert_error(
        removed,
        ErrorKind::WrongDevice,
        &["/b", "volume 1 of 2", "attached"],
    );
}

/// Raises the version at `at` and makes the checksum right again, as a later program would.
fn raise_version(bytes: &mut [u8], offset: u64, from: usize, to: usize) {
    bytes[from] = 99;
    let crc = checksum(ChecksumSalt(0), offset, &bytes[12..to]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_store_of_a_later_version_is_refused_and_not_called_damaged() {
    let (image, _) = closed(false);
    let words = [
        "version 1 was expected",
        "99 found",
        "program of the version",
    ];
    let mut label = image.clone();
    let mut bytes = image.bytes(0, 4096);
    raise_version(&mut bytes, 0, 12, 72);
    label.write(0, &bytes);
    assert_error(
        Store::open("", &options(&label.media())),
        ErrorKind::Version,
        &words,
    );
    let later = |offsets: &[u64]| {
        let mut later: Image = image.clone();
        for at in offsets {
            let mut bytes = image.bytes(*at, 4096);
            raise_version(&mut bytes, *at, 12, 4096);
            later.write(*at, &bytes);
        }
        Store::open("", &options(&later.media()))
    };
    // Even one copy of a later version: that program may have gone on from there.
    let words = ["version 2 was expected", words[1], words[2]];
    assert_error(later(&[64 << 10]), ErrorKind::Version, &words);
    assert_error(later(&[64 << 10, 128 << 10]), ErrorKind::Version, &words);
}

#[test]
fn a_manifest_that_is_not_one() {
    let dir = tempfile::tempdir().unwrap();
    Store::create(dir.path(), &small())
        .unwrap()
        .close()
        .unwrap();
    let path = dir.path().join("HELIOX");
    let text = std::fs::read_to_string(&path).unwrap();
    let open = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Store::open(dir.path(), &small())
    };
    let version = text.replace("format 1", "format 2");
    assert_error(
        open(&version),
        ErrorKind::Version,
        &["HELIOX", "version 1", "2 found"],
    );
    assert_error(
        open("nonsense"),
        ErrorKind::Damaged,
        &["HELIOX", "line 1", "nonsense"],
    );
    let moved = text.replace("volume data", "volume elsewhere");
    assert_error(
        open(&moved),
        ErrorKind::WrongDevice,
        &["elsewhere", "no such"],
    );
    open(&text).unwrap().close().unwrap();
}

#[test]
fn a_store_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &small()).unwrap();
    assert_error(
        Store::open(dir.path(), &small()),
        ErrorKind::StoreInUse,
        &["data"],
    );
    let output = other_process(dir.path());
    assert!(output.contains("refused: StoreInUse"), "{output}");
    store.close().unwrap();
    let output = other_process(dir.path());
    assert!(output.contains("opened"), "{output}");
}

/// Opens the store in a process of its own: this test program again, with only the test below.
fn other_process(dir: &Path) -> String {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "opens_for_the_other_test",
            "--ignored",
            "--nocapture",
        ])
        .env("HELIOX_TEST_DIR", dir)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "run by a_store_in_use in another process"]
fn opens_for_the_other_test() {
    let Some(dir) = std::env::var_os("HELIOX_TEST_DIR") else {
        return;
    };
    match Store::open(dir, &small()) {
        Ok(_) => println!("opened"),
        Err(error) => println!("refused: {:?}", error.kind()),
    }
}

/// Root may write where nobody may, so a read-only place is one that is mounted so.
#[test]
fn a_place_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| {
        let status = std::process::Command::new("mount")
            .args(args)
            .arg(dir.path())
            .output();
        status.is_ok_and(|o| o.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=80m", "tmpfs"]) {
        eprintln!("SKIPPED: a read-only place needs the right to mount, which this user lacks");
        return;
    }
    let inside = dir.path().join("store");
    Store::create(&inside, &small()).unwrap().close().unwrap();
    let is_read_only = mount(&["-o", "remount,ro"]);
    let opened = Store::open(&inside, &small());
    let created = Store::create(dir.path().join("new"), &small());
    let unmounted = std::process::Command::new("umount")
        .arg(dir.path())
        .status();
    assert!(is_read_only && unmounted.is_ok_and(|s| s.success()));
    assert_error(opened, ErrorKind::ReadOnly, &["data", "read"]);
    assert_error(created, ErrorKind::ReadOnly, &["new", "read-only"]);
}

// ---- arguments ----

#[test]
fn keys_values_and_names_beyond_the_limits() {
    let store = memory_store();
    let ks = store.create_keyspace("ks").unwrap();
    let long_key = vec![b'k'; 65_536];
    let words = ["key of 65536 bytes", "at most 65535", "hash"];
    assert_error(ks.put(&long_key, "v"), ErrorKind::TooLarge, &words);
    assert_error(ks.delete(&long_key), ErrorKind::TooLarge, &words);
    ks.put(&long_key[1..], "v").unwrap();
    assert_eq!(ks.get(&long_key[1..]).unwrap().as_deref(), Some(&b"v"[..]));
    // No key of that length can be there.
    assert!(!matches!(ks.get(&long_key), Ok(Some(_))));
    let long_value = vec![0u8; (256 << 20) + 1];
    let words = ["value of 268435457 bytes", "at most 268435456", "split"];
    assert_error(ks.put("k", &long_value), ErrorKind::TooLarge, &words);
    assert_eq!(ks.get("k").unwrap(), None);
    let mut batch = Batch::new();
    batch.put(&ks, "fine", "v");
    batch.put(&ks, &long_key, "v");
    assert_error(store.write(&batch), ErrorKind::TooLarge, &["65536"]);
    assert_eq!(
        ks.get("fine").unwrap(),
        None,
        "a batch is refused as a whole"
    );
    assert_error(
        store.create_keyspace(""),
        ErrorKind::Invalid,
        &["1 to 255", "found 0"],
    );
    let long_name = "n".repeat(256);
    assert_error(
        store.create_keyspace(&long_name),
        ErrorKind::Invalid,
        &["1 to 255", "found 256"],
    );
}

#[test]
fn keyspaces_that_are_not_there_or_already_there() {
    let store = memory_store();
    let words = ["\"stars\"", "none of this name", "create"];
    assert_error(store.keyspace("stars"), ErrorKind::UnknownKeyspace, &words);
    assert_error(
        store.drop_keyspace("stars"),
        ErrorKind::UnknownKeyspace,
        &words,
    );
    let ks = store.create_keyspace("stars").unwrap();
    assert_error(
        store.create_keyspace("stars"),
        ErrorKind::KeyspaceExists,
        &["\"stars\"", "already"],
    );
    store.drop_keyspace("stars").unwrap();
    assert_error(ks.put("k", "v"), ErrorKind::UnknownKeyspace, &["\"stars\""]);
    assert_error(ks.get("k"), ErrorKind::UnknownKeyspace, &["\"stars\""]);
}

#[test]
fn a_closed_store() {
    let store = memory_store();
    let ks = store.create_keyspace("ks").unwrap();
    let other = store.clone();
    store.close().unwrap();
    assert_error(
        ks.put("k", "v"),
        ErrorKind::Closed,
        &["closed", "open it again"],
    );
    assert_error(ks.get("k"), ErrorKind::Closed, &["closed"]);
    assert_error(other.keyspace("ks"), ErrorKind::Closed, &["closed"]);
}

#[test]
fn nonsense_options() {
    let open = |options: Options| Store::open("/nonexistent/heliox", &options);
    let cases: Vec<(Options, &[&str])> = vec![
        (
            Options::new().memory_budget_bytes(0),
            &["memory_budget_bytes", "0 given", "16 MiB"],
        ),
        (
            Options::new().capacity_bytes(1 << 20),
            &["capacity_bytes", "1048576", "least"],
        ),
        (
            Options::new().segment_bytes(5 << 20),
            &["segment_bytes", "power of two"],
        ),
        (
            Options::new().segment_bytes(128 << 20),
            &["segment_bytes", "64 MiB"],
        ),
        (
            Options::new().durability(Durability::Bounded {
                ms: 0,
                bytes: 1 << 20,
            }),
            &["0 ms", "Sync"],
        ),
        (
            Options::new().durability(Durability::Bounded { ms: 5, bytes: 1 }),
            &["1 bytes", "4096"],
        ),
        (
            Options::new().devices(vec!["/dev/x".into(); 65]),
            &["65", "at most 64"],
        ),
    ];
    for (options, words) in cases {
        assert_error(open(options), ErrorKind::Invalid, words);
    }
    let store = memory_store();
    let ks = store.create_keyspace("ks").unwrap();
    let never = WriteOptions::new().ttl_ms(0);
    assert_error(
        ks.put_with("k", "v", &never),
        ErrorKind::Invalid,
        &["time to live of 0 ms"],
    );
    assert_error(ks.merge("k", "v"), ErrorKind::Invalid, &["merge"]);
    assert!(!Path::new("/nonexistent").exists());
}

/// The least budget and far more keys than its index holds: writes of new keys are refused, reads,
/// overwrites and deletes go on.
#[test]
fn a_budget_that_is_too_small_for_the_index() {
    let media = Arc::new(MemoryMedia::new(STORE_BYTES, 512).unwrap());
    let options = options(&media)
        .background(true)
        .durability(Durability::None);
    let store = Store::create("", &options).unwrap();
    let ks = store.create_keyspace("ks").unwrap();
    let key = |i: u32| format!("{:08x}", i.wrapping_mul(0x9e37_79b1));
    let mut written = 0;
    let error = loop {
        match ks.put(key(written), "v") {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(
            written < 4_000_000,
            "the index of 16 MiB took four million keys"
        );
    };
    assert_error(
        Err::<(), _>(error),
        ErrorKind::OverBudget,
        &["bytes of memory", "memory_budget_bytes"],
    );
    assert!(written > 500_000, "{written}");
    assert!(store.stats().index_bytes <= 16 << 20);
    for i in (0..written).step_by(10_007) {
        assert_eq!(ks.get(key(i)).unwrap().as_deref(), Some(&b"v"[..]));
        ks.put(key(i), "w").unwrap();
        assert_eq!(ks.get(key(i)).unwrap().as_deref(), Some(&b"w"[..]));
    }
    ks.delete(key(1)).unwrap();
    assert_eq!(ks.get(key(1)).unwrap(), None);
    store.close().unwrap();
    let store = Store::open("", &options).unwrap();
    assert_eq!(
        store
            .keyspace("ks")
            .unwrap()
            .get(key(2))
            .unwrap()
            .as_deref(),
        Some(&b"v"[..])
    );
}

/// The store's file replaced by one of the same length from another store.
#[test]
fn the_file_of_another_store() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    for path in [&one, &two] {
        Store::create(path, &small()).unwrap().close().unwrap();
    }
    std::fs::rename(two.join("data"), one.join("data")).unwrap();
    let words = ["volume of store", "right device"];
    assert_error(Store::open(&one, &small()), ErrorKind::WrongDevice, &words);
    // And one without any label.
    let mut file = File::options()
        .read(true)
        .write(true)
        .open(one.join("data"))
        .unwrap();
    let mut head = [0u8; 72];
    file.read_exact(&mut head).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&[0; 72]).unwrap();
    drop(file);
    assert_error(
        Store::open(&one, &small()),
        ErrorKind::WrongDevice,
        &["no label", "check the path"],
    );
}
