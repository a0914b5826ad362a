//! `heliox scrub` and what `heliox stat` says of a store's health.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use common::Place;
use serde_json::Value;

/// The file that holds the volume: the largest below the store.
fn volume(place: &Place) -> PathBuf {
    let files = std::fs::read_dir(&place.store).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let len = |path: &PathBuf| path.metadata().unwrap().size();
    paths.max_by_key(len).unwrap()
}

fn bytes(path: &Path, at: u64, len: usize) -> Vec<u8> {
    let file = OpenOptions::new().read(true).open(path).unwrap();
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at).unwrap();
    bytes
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 16], at).unwrap();
}

fn find(path: &Path, marker: &str) -> u64 {
    let all = bytes(path, 0, 32 << 20);
    let at = all
        .windows(marker.len())
        .position(|w| w == marker.as_bytes());
    at.unwrap() as u64
}

#[test]
fn a_whole_store_has_no_findings() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "v"]);
    let text = place.ok(&["scrub", "STORE"]);
    assert!(
        text.starts_with("scrubbed 2 segments") && text.contains("no damage found"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&place.ok(&["scrub", "STORE", "--json"])).unwrap();
    assert_eq!(json["finding_count"], 0);
    assert!(json["bytes"].as_u64().unwrap() > 8192);
    let missing = place.run(&["scrub", "nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_flipped_bit_is_found_and_told_once_it_is_read() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "a value that is easily found"]);
    place.ok(&["put", "STORE", "other", "still here"]);
    let path = volume(&place);
    let at = find(&path, "easily found");
    flip(&path, at);
    let output = place.run(&["scrub", "STORE", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &json["findings"][0];
    assert_eq!(json["finding_count"], 1, "{json:#}");
    assert_eq!(finding["structure"], "records");
    let offset = finding["offset"].as_u64().unwrap();
    assert!((offset..offset + finding["len_bytes"].as_u64().unwrap()).contains(&at));
    assert_eq!(finding["lost_records"], 1);
    place.fails(2, &["get", "STORE", "k"]);
    assert_eq!(place.ok(&["get", "STORE", "other"]), "still here\n");
    let text = place.run(&["scrub", "STORE"]);
    assert_eq!(
        text.status.code(),
        Some(1),
        "it stands until the key is written"
    );
    assert!(String::from_utf8(text.stdout)
        .unwrap()
        .contains("DAMAGE FOUND: 1"));
    place.ok(&["put", "STORE", "k", "again"]);
    assert!(place.ok(&["scrub", "STORE"]).contains("no damage found"));
}

#[test]
fn what_opening_replaces_counts_as_found() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "v"]);
    let path = volume(&place);
    flip(&path, (64 << 10) + 20);
    let output = place.run(&["scrub", "STORE"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("superblock copy"), "{text}");
    assert!(place.ok(&["scrub", "STORE"]).contains("no damage found"));
}

#[test]
fn stat_tells_the_health_and_the_events() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "v"]);
    let json: Value = serde_json::from_str(&place.ok(&["stat", "STORE", "--json"])).unwrap();
    assert_eq!(json["health"]["state"], "healthy");
    assert_eq!(json["health"]["conditions"], Value::Array(Vec::new()));
    assert!(json["events"].is_array() && json["last_scrub"].is_null());
    assert!(json["scrub_findings"].is_u64());
    // Nothing of a scrub that another program made is known.
    place.ok(&["scrub", "STORE"]);
    let text = place.ok(&["stat", "STORE"]);
    assert!(text.contains("health: healthy"), "{text}");
    assert!(text.contains("last scrub: not known here"), "{text}");
}
