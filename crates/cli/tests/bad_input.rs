//! Everything a user can get wrong: exit code 2, one message that says what to do, no panic.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use std::io::Write;
use std::process::Stdio;

use common::{heliox, text, Place};

#[test]
fn nonsense_on_the_command_line_is_refused() {
    let place = Place::empty();
    let bench = |more: &[&'static str]| {
        [
            &["bench", "--dir", "STORE", "--workload", "fillseq"][..],
            more,
        ]
        .concat()
    };
    for (args, word) in [
        (vec!["frobnicate"], "frobnicate"),
        (vec!["put", "STORE", "key-alone"], "VALUE"),
        (vec!["get", "STORE", "k", "--durable"], "--durable"),
        (
            vec!["put", "STORE", "k", "v", "--durability", "maybe"],
            "bounded",
        ),
        (vec!["create", "STORE", "--capacity", "lots"], "lots"),
        (vec!["create", "STORE", "--capacity", "-1"], "-1"),
        (vec!["scan", "STORE", "--limit", "x"], "--limit"),
        (
            vec!["import", "STORE", "--format", "xml", "--key", "k"],
            "ndjson",
        ),
        (
            vec!["bench", "--dir", "STORE", "--workload", "fillsec"],
            "fillrandom",
        ),
        (
            vec!["bench", "--dir", "STORE", "--workload", ""],
            "workload",
        ),
        (vec!["bench", "--workload", "fillseq"], "--dir"),
        (bench(&["--threads", "0"]), "--threads"),
        (bench(&["--num", "0"]), "--num"),
        (bench(&["--key-size", "0"]), "--key-size"),
        (bench(&["--key-size", "1", "--num", "1000"]), "--key-size"),
        (bench(&["--keys", "emoji"]), "ycsb"),
        (bench(&["--distribution", "normal"]), "gaussian"),
        (
            vec!["bench", "--dir", "STORE", "--workload", "reopen-killed"],
            "bench-compare",
        ),
        (bench(&["--read-share", "150"]), "--read-share"),
        (bench(&["--duration", "soon"]), "soon"),
        (bench(&["--json", "/no/such/place"]), "/no/such/place"),
    ] {
        let message = place.fails(2, &args);
        assert!(message.contains(word), "{args:?}: {message}");
        assert!(!place.store.exists(), "{args:?} made a store");
    }
}

#[test]
fn a_missing_store_is_named_with_what_to_do() {
    let place = Place::empty();
    let file = place.file("rows", b"{\"k\":1}\n");
    let import = [
        "import",
        "STORE",
        "--format",
        "ndjson",
        "--key",
        "k",
        text(&file),
    ];
    std::fs::create_dir(place.root.path().join("plain")).unwrap();
    let plain = place.root.path().join("plain");
    for args in [
        &["put", "STORE", "k", "v"][..],
        &["get", "STORE", "k"],
        &["delete", "STORE", "k"],
        &["scan", "STORE"],
        &["stat", "STORE"],
        &["check", "STORE"],
        &import,
        &["get", text(&plain), "k"],
        &["put", text(&plain), "k", "v"],
    ] {
        let message = place.fails(2, args);
        assert!(message.contains("heliox create"), "{args:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(!place.store.exists(), "{args:?} made a store");
        assert_eq!(
            std::fs::read_dir(&plain).unwrap().count(),
            0,
            "{args:?} left files"
        );
    }
}

#[test]
fn a_store_is_not_made_twice() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "v"]);
    place.fails(2, &["create", "STORE", "--capacity", "256M"]);
    assert_eq!(place.ok(&["get", "STORE", "k"]), "v\n");
}

#[test]
fn an_unknown_device_is_named() {
    let place = Place::empty();
    let message = place.fails(2, &["create", "STORE", "--device", "/dev/no-such-device"]);
    assert!(message.contains("/dev/no-such-device"), "{message}");
}

#[test]
fn a_store_in_use_is_refused() {
    let place = Place::with_store();
    let mut command = place.command(&["import", "STORE", "--format", "ndjson", "--key", "k"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The first process has the store open when it has taken more than the pipe and buffers hold.
    let row = format!("{{\"k\":1,\"x\":\"{}\"}}\n", "x".repeat(1 << 20));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(row.as_bytes()).unwrap();
    for args in [
        &["get", "STORE", "k"][..],
        &["check", "STORE"],
        &["put", "STORE", "k", "v"],
    ] {
        let message = place.fails(2, args);
        assert!(message.contains("use"), "{message}");
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(place.ok(&["scan", "STORE", "--keys-only"]), "1\n");
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    // The super-user may write anywhere; this file system refuses everyone.
    let message = Place::empty().fails(2, &["create", "/proc/heliox-store"]);
    assert!(message.contains("/proc/heliox-store"), "{message}");
    let place = Place::empty();
    std::fs::write(&place.store, "a file").unwrap();
    place.fails(2, &["create", "STORE", "--capacity", "256M"]);
    place.fails(2, &["get", "STORE", "k"]);
    assert_eq!(std::fs::read(&place.store).unwrap(), b"a file");
}

#[test]
fn a_key_that_is_too_long_is_refused() {
    let place = Place::with_store();
    let message = place.fails(2, &["put", "STORE", &"k".repeat(65_536), "v"]);
    assert!(
        message.contains("65535") || message.contains("65,535"),
        "{message}"
    );
    place.ok(&["put", "STORE", &"k".repeat(65_535), "v"]);
}

#[test]
fn a_full_output_is_an_error() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "v"]);
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = place
        .command(&["get", "STORE", "k"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(common::stderr(&output).contains("standard output"));
    assert_eq!(heliox().arg("get").output().unwrap().status.code(), Some(2));
}
