//! `import`: formats, repeated keys, malformed lines, and what it says about them.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use common::{stderr, text, Place};

fn import<'a>(format: &'a str, key: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [
        &["import", "STORE", "--format", format, "--key", key][..],
        more,
    ]
    .concat()
}

#[test]
fn rows_of_json_are_stored_as_they_stand() {
    let place = Place::with_store();
    let output = place.run_with_input(
        &import("ndjson", "id", &["-"]),
        b"{\"id\":\"b\",\"n\":1.50}\n{\"id\":7}\n\n{\"id\":\"b\",\"n\":2}",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(
        summary.starts_with("3 rows: 2 new, 1 overwritten; 0 malformed; "),
        "{summary}"
    );
    assert_eq!(
        place.ok(&["scan", "STORE"]),
        "7\t{\"id\":7}\nb\t{\"id\":\"b\",\"n\":2}\n"
    );
}

#[test]
fn rows_of_csv_and_tsv_become_objects() {
    let place = Place::with_store();
    let csv = place.file("a.csv", b"id,name\n1,\"two\nlines\"\n2,\"a \"\"b\"\"\"\n");
    let tsv = place.file("a.tsv", b"name\tid\nx \"y\t3\n");
    place.ok(&import("csv", "id", &[text(&csv)]));
    place.ok(&import("tsv", "id", &[text(&tsv), "--keyspace", "t"]));
    let get = |key: &str| place.ok(&["get", "STORE", key]);
    assert_eq!(get("1"), "{\"id\":\"1\",\"name\":\"two\\nlines\"}\n");
    assert_eq!(get("2"), "{\"id\":\"2\",\"name\":\"a \\\"b\\\"\"}\n");
    let other = place.ok(&["get", "STORE", "3", "--keyspace", "t"]);
    assert_eq!(other, "{\"name\":\"x \\\"y\",\"id\":\"3\"}\n");
}

#[test]
fn keys_that_are_there_already_are_counted() {
    let place = Place::with_store();
    let file = place.file("a.csv", b"id,x\n1,a\n2,b\n1,c\n");
    let first = place.ok(&import("csv", "id", &[text(&file)]));
    assert!(first.starts_with("3 rows: 2 new, 1 overwritten"), "{first}");
    let second = place.ok(&import("csv", "id", &[text(&file)]));
    assert!(
        second.starts_with("3 rows: 0 new, 3 overwritten"),
        "{second}"
    );
}

#[test]
fn malformed_lines_are_listed_ten_at_most_and_skipped() {
    let place = Place::with_store();
    let rows: String = (0..15)
        .map(|i| format!("{{\"id\":{i}}}\nbroken {i}\n"))
        .collect();
    let file = place.file("rows", rows.as_bytes());
    let output = place.run(&import("ndjson", "id", &[text(&file)]));
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let lines: Vec<_> = messages.lines().collect();
    assert_eq!(lines.len(), 11, "{messages}");
    assert!(lines[0].starts_with("heliox: line 2: ") && lines[9].contains("line 20: "));
    assert!(lines[10].contains("5 more"), "{messages}");
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(
        summary.starts_with("15 rows: 15 new, 0 overwritten; 15 malformed"),
        "{summary}"
    );
}

#[test]
fn strict_stops_at_the_first_malformed_line_and_names_it() {
    let place = Place::with_store();
    let file = place.file("a.csv", b"id,x\n1,a\n2\n3,c\n");
    let message = place.fails(2, &import("csv", "id", &[text(&file), "--strict"]));
    assert!(
        message.contains("line 3") && message.contains("a.csv"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
    assert_eq!(place.ok(&["scan", "STORE", "--keys-only"]), "1\n");
}

#[test]
fn a_key_that_is_too_long_is_a_malformed_line() {
    let place = Place::with_store();
    let rows = format!(
        "{{\"id\":\"{}\"}}\n{{\"id\":\"short\"}}\n",
        "k".repeat(70_000)
    );
    let output = place.run_with_input(&import("ndjson", "id", &[]), rows.as_bytes());
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("line 1: "), "{}", stderr(&output));
    assert_eq!(place.ok(&["scan", "STORE", "--keys-only"]), "short\n");
}

#[test]
fn files_that_are_no_use_are_named() {
    let place = Place::with_store();
    let csv = place.file("a.csv", b"id,name\n1,x\n");
    let empty = place.file("empty.csv", b"");
    let absent = place.root.path().join("absent");
    for (file, key, word) in [
        (csv.as_path(), "number", "id, name"),
        (empty.as_path(), "id", "empty.csv"),
        (absent.as_path(), "id", "absent"),
        (place.root.path(), "id", "directory"),
    ] {
        let message = place.fails(2, &import("csv", key, &[text(file)]));
        assert!(message.contains(word), "{message}");
    }
}
