//! The commands on single keys, and `scan`, `stat` and `check`: what they print and how they exit.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use common::{heliox, stderr, Place};

#[test]
fn what_was_put_is_got_until_it_is_deleted() {
    let place = Place::with_store();
    assert_eq!(place.ok(&["put", "STORE", "fruit", "apple"]), "");
    assert_eq!(place.ok(&["get", "STORE", "fruit"]), "apple\n");
    place.ok(&["put", "STORE", "fruit", "pear", "--durability", "none"]);
    assert_eq!(place.ok(&["get", "STORE", "fruit"]), "pear\n");
    place.ok(&["delete", "STORE", "fruit"]);
    assert!(place
        .fails(1, &["get", "STORE", "fruit"])
        .contains("no such key"));
    assert!(place
        .fails(1, &["delete", "STORE", "fruit"])
        .contains("no such key"));
}

#[test]
fn keys_and_values_are_any_bytes() {
    let place = Place::with_store();
    let (key, value) = (
        OsStr::from_bytes(b"\xff\xfe k"),
        OsStr::from_bytes(b"\x80\n\xc3"),
    );
    let [put, get, store] = ["put", "get", "STORE"].map(OsStr::new);
    assert_eq!(place.run(&[put, store, key, value]).status.code(), Some(0));
    assert_eq!(place.run(&[get, store, key]).stdout, b"\x80\n\xc3\n");
    assert_eq!(
        place.ok(&["scan", "STORE"]),
        "\\xff\\xfe k\t\\x80\\x0a\\xc3\n"
    );
    assert_eq!(
        place.ok(&["delete", "STORE", "--escaped", "\\xff\\xfe k"]),
        ""
    );
    place.ok(&["put", "STORE", "--escaped", "a\\x00b", "\\x5c"]);
    assert_eq!(place.ok(&["get", "STORE", "--escaped", "a\\x00b"]), "\\\n");
    let message = place.fails(2, &["get", "STORE", "--escaped", "a\\q"]);
    assert!(
        message.contains("KEY: the backslash at byte 1"),
        "{message}"
    );
}

#[test]
fn the_empty_key_and_value_and_leading_dashes_work() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "", ""]);
    assert_eq!(place.ok(&["get", "STORE", ""]), "\n");
    place.ok(&["put", "STORE", "--", "-k", "--value"]);
    assert_eq!(place.ok(&["get", "STORE", "--", "-k"]), "--value\n");
}

#[test]
fn scan_prints_ranges_in_both_directions() {
    let place = Place::with_store();
    for key in ["a", "ab", "abc", "b", "c"] {
        place.ok(&["put", "STORE", key, &format!("<{key}>")]);
    }
    let scan = |options: &[&str]| place.ok(&[&["scan", "STORE"], options].concat());
    assert_eq!(scan(&[]), "a\t<a>\nab\t<ab>\nabc\t<abc>\nb\t<b>\nc\t<c>\n");
    assert_eq!(scan(&["--keys-only", "--prefix", "ab"]), "ab\nabc\n");
    assert_eq!(
        scan(&["--keys-only", "--from", "ab", "--to", "b"]),
        "ab\nabc\n"
    );
    assert_eq!(
        scan(&["--keys-only", "--reverse", "--limit", "2"]),
        "c\nb\n"
    );
    let reverse = ["--keys-only", "--reverse", "--from", "ab", "--to", "c"];
    assert_eq!(scan(&reverse), "b\nabc\nab\n");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--from", "b", "--to", "a"]), "");
}

#[test]
fn a_reader_that_leaves_ends_a_scan_quietly() {
    let place = Place::with_store();
    let rows: String = (0..20_000)
        .map(|i| format!("{{\"k\":{i},\"text\":\"some text\"}}\n"))
        .collect();
    let file = place.file("rows", rows.as_bytes());
    place.ok(&[
        "import",
        "STORE",
        "--format",
        "ndjson",
        "--key",
        "k",
        common::text(&file),
    ]);
    let mut command = place.command(&["scan", "STORE"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    assert!(line.starts_with("0\t{"), "{line}");
}

#[test]
fn keyspaces_are_apart() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "one"]);
    place.ok(&["put", "STORE", "k", "two", "--keyspace", "other"]);
    assert_eq!(place.ok(&["get", "STORE", "k"]), "one\n");
    assert_eq!(
        place.ok(&["get", "STORE", "k", "--keyspace", "other"]),
        "two\n"
    );
    assert_eq!(
        place.ok(&["--keyspace", "other", "scan", "STORE"]),
        "k\ttwo\n"
    );
    for command in [
        &["get", "STORE", "k"][..],
        &["scan", "STORE"],
        &["delete", "STORE", "k"],
    ] {
        let message = place.fails(2, &[command, &["--keyspace", "absent"]].concat());
        assert!(message.contains("absent"), "{message}");
    }
}

#[test]
fn stat_is_a_table_or_an_object() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "v"]);
    let table = place.ok(&["stat", "STORE"]);
    assert!(
        table.contains("objects") && table.contains("keyspaces: default"),
        "{table}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&place.ok(&["stat", "STORE", "--json"])).unwrap();
    assert_eq!(json["objects"], 1);
    assert_eq!(json["keyspaces"], serde_json::json!(["default"]));
}

#[test]
fn a_sound_store_passes_the_check() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "v"]);
    let report = place.ok(&["check", "STORE"]);
    assert!(report.contains("no damage found"), "{report}");
}

#[test]
fn help_shows_examples() {
    let output = heliox().arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        help.contains("Examples:") && help.contains("Exit codes:"),
        "{help}"
    );
    assert_eq!(heliox().output().unwrap().status.code(), Some(2));
    assert_eq!(
        heliox().arg("--version").output().unwrap().status.code(),
        Some(0)
    );
}

#[test]
fn damage_is_found_and_reported() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "other", "still here"]);
    let marker = "a value that is easily found";
    place.ok(&["put", "STORE", "k", marker]);
    assert!(flip_one_bit(&place.store, marker.as_bytes()));
    let output = place.run(&["check", "STORE"]);
    let report = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}{}", stderr(&output));
    assert!(report.contains("DAMAGE FOUND"), "{report}");
    let message = place.fails(2, &["get", "STORE", "k"]);
    assert_eq!(message.lines().count(), 1, "{message}");
}

/// Flips one bit of `marker` in whichever file below `dir` holds it.
fn flip_one_bit(dir: &std::path::Path, marker: &[u8]) -> bool {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if flip_one_bit(&path, marker) {
                return true;
            }
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes
            .windows(marker.len())
            .position(|window| window == marker);
        if let Some(offset) = found {
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&[marker[0] ^ 1], offset as u64).unwrap();
            return true;
        }
    }
    false
}

#[test]
fn a_store_is_destroyed_if_that_is_meant() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "fruit", "apple"]);
    let said = place.fails(2, &["destroy", "STORE"]);
    assert!(said.contains("--yes"), "{said}");
    assert_eq!(place.ok(&["get", "STORE", "fruit"]), "apple\n");
    assert_eq!(place.ok(&["destroy", "STORE", "--yes"]), "");
    assert!(!place.store.exists());
    let said = place.fails(2, &["destroy", "STORE", "--yes"]);
    assert!(said.contains("holds no store"), "{said}");
}
