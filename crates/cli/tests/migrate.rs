//! `import --from` and `export --to` beside the program that knows the other engine: when it is
//! missing, of another version, dies, or lies. What real stores give is in `scripts/migrate-test`.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use common::{stderr, text, Place};

/// A frame of the protocol.
fn frame(kind: u8, first: &[u8], second: &[u8]) -> Vec<u8> {
    let len = |part: &[u8]| u32::try_from(part.len()).unwrap().to_le_bytes();
    [&[kind], &len(first)[..], &len(second), first, second].concat()
}

fn hello() -> Vec<u8> {
    let total = frame(b'T', &9_u64.to_le_bytes(), b"");
    [frame(b'V', b"heliox-migrate 1", b""), total].concat()
}

const ORDER: &[u8] = b"leveldb.BytewiseComparator";

/// What a helper says that reads a store with one record.
fn records() -> Vec<u8> {
    let family = |kind| frame(kind, b"default", ORDER);
    let record = frame(b'R', b"key", b"value");
    [hello(), family(b'L'), family(b'F'), record].concat()
}

/// A place with a source that looks like a store, and a helper that says `words` and ends so.
fn place(words: &[u8], ending: &str) -> Place {
    let place = Place::with_store();
    let source = place.root.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("CURRENT"), "").unwrap();
    place.file("words", words);
    let script = format!(
        "#!/bin/sh\ncat {}\n{ending}\n",
        text(&place.root.path().join("words"))
    );
    for name in ["heliox-migrate-leveldb", "heliox-migrate-rocksdb"] {
        let helper = place.file(name, script.as_bytes());
        std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    place
}

fn run(place: &Place, args: &[&str]) -> Output {
    let mut command = place.command(args);
    command.env("HELIOX_MIGRATE_DIR", place.root.path());
    command.output().unwrap()
}

fn import(place: &Place, more: &[&str]) -> Output {
    let source = place.root.path().join("source");
    let args = ["import", "STORE", "--from", "leveldb", text(&source)];
    run(place, &[&args[..], more].concat())
}

fn said(output: &Output, code: i32) -> String {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

#[test]
fn a_missing_helper_says_how_to_build_it() {
    let place = place(b"", "");
    std::fs::remove_file(place.root.path().join("heliox-migrate-leveldb")).unwrap();
    let message = said(&import(&place, &[]), 2);
    assert!(
        message.contains("make migrate") && message.contains("HELIOX_MIGRATE_DIR"),
        "{message}"
    );
}

#[test]
fn helpers_that_fail_or_lie_leave_nothing() {
    let sum = |count: u64| frame(b'S', &count.to_le_bytes(), &7_u64.to_le_bytes());
    let end = frame(b'Z', b"", b"");
    for (words, ending, part) in [
        (Vec::new(), "", "ended without a word"),
        (frame(b'V', b"heliox-migrate 0", b""), "", "make migrate"),
        (
            [records(), frame(b'X', b"no more", b"")].concat(),
            "exit 1",
            "no more",
        ),
        (records(), "exit 3", "exit status: 3"),
        (records(), "kill -9 $$", "signal: 9"),
        (
            [records(), sum(1), end.clone()].concat(),
            "",
            "another order",
        ),
        (
            [hello(), frame(b'L', b"default", b"other.Order")].concat(),
            "",
            "other.Order",
        ),
        (
            [hello(), frame(b'F', b"unlisted", ORDER)].concat(),
            "",
            "another order",
        ),
    ] {
        let place = place(&words, ending);
        let message = said(&import(&place, &[]), 2);
        assert!(message.contains(part), "{message}");
        assert_eq!(place.ok(&["scan", "STORE"]), "", "{part}");
        assert!(!place.ok(&["stat", "STORE"]).contains(".import"), "{part}");
    }
}

#[test]
fn an_import_that_did_not_end_is_begun_anew_only_when_told_to() {
    let place = place(&records(), "exit 1");
    place.ok(&["put", "STORE", "--keyspace", ".import", "default", ""]);
    place.ok(&["put", "STORE", "part", "1"]);
    let message = said(&import(&place, &[]), 2);
    assert!(
        message.contains("--again") && message.contains("in default"),
        "{message}"
    );
    assert_eq!(place.ok(&["scan", "STORE"]), "part\t1\n");
    let back = place.root.path().join("back");
    let export = ["export", "STORE", "--to", "leveldb", text(&back)];
    assert!(said(&run(&place, &export), 2).contains("did not end"));
    // It was nearly through: the catalog is the last that it writes.
    place.ok(&["put", "STORE", "--keyspace", ".herocks", "format", "1"]);
    assert!(said(&import(&place, &[]), 2).contains("--again"));
    // Ends at what the helper says, having dropped what there was.
    said(&import(&place, &["--again"]), 2);
    for keyspace in ["default", ".herocks"] {
        assert!(place
            .fails(2, &["scan", "STORE", "--keyspace", keyspace])
            .contains("none of this name"));
    }
}

#[test]
fn keyspaces_with_data_are_not_written_into() {
    let place = place(&records(), "");
    place.ok(&["put", "STORE", "own", "1"]);
    assert!(said(&import(&place, &[]), 2).contains("holds data in the keyspace default"));
    assert_eq!(place.ok(&["scan", "STORE"]), "own\t1\n");
    assert!(said(&import(&place, &["--keyspace", "other"]), 2).contains("ended without a word"));
}

#[test]
fn places_that_are_no_stores_are_told() {
    let place = place(b"", "");
    let root = place.root.path().to_owned();
    let file = place.file("file", b"");
    std::fs::create_dir(root.join("empty")).unwrap();
    let from = |path: &Path| {
        run(
            &place,
            &["import", "STORE", "--from", "rocksdb", text(path)],
        )
    };
    for (path, part) in [
        (file, "is a file"),
        (root.join("empty"), "no file CURRENT"),
        (root.join("nothing"), "cannot read"),
        (root.join("source"), "say --from leveldb"),
        (place.store.clone(), "store of Heliox already"),
    ] {
        let message = said(&from(&path), 2);
        assert!(message.contains(part), "{message}");
    }
    let source = root.join("source");
    let into = ["import", text(&source), "--from", "leveldb", text(&source)];
    assert!(said(&run(&place, &into), 2).contains("is a store of LevelDB"));
    let alone = ["import", "--from", "leveldb", text(&source)];
    assert!(said(&run(&place, &alone), 2).contains("import DIR --from leveldb PATH"));
    assert!(!source.join("HELIOX").exists());
}

#[test]
fn an_export_that_fails_leaves_nothing() {
    let hello = frame(b'V', b"heliox-migrate 1", b"");
    let error = frame(b'X', b"the disk is full", b"");
    let other = frame(b'T', b"", b"");
    for (answer, ending, part) in [
        (&error, "exit 1", "the disk is full"),
        (&error, "cat >/dev/null", "the disk is full"),
        (&other, "cat >/dev/null", "not confirmed"),
        (&Vec::new(), "cat >/dev/null", "ended without a word"),
    ] {
        let place = place(&[&hello[..], answer].concat(), ending);
        place.ok(&["put", "STORE", "key", "value"]);
        let back = place.root.path().join("back");
        let output = run(&place, &["export", "STORE", "--to", "leveldb", text(&back)]);
        let message = said(&output, 2);
        assert!(message.contains(part), "{message}");
        assert!(!back.exists());
    }
}
