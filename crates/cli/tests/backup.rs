//! `backup`, `restore` and `verify`: what they print, how they exit, and what kill -9 leaves.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{text, Place};

/// A store with some rows, and the paths of a set and of a store to be.
fn filled() -> (Place, PathBuf, PathBuf) {
    let place = Place::with_store();
    import(&place, 0, 3000);
    let (set, copy) = (
        place.root.path().join("set"),
        place.root.path().join("copy"),
    );
    (place, set, copy)
}

fn import(place: &Place, from: usize, rows: usize) {
    let pad = "x".repeat(1500);
    let lines: Vec<String> = (from..from + rows)
        .map(|n| format!("k{n:06}\t{n}{pad}\n"))
        .collect();
    let file = place.file("rows.tsv", format!("id\tv\n{}", lines.concat()).as_bytes());
    place.ok(&[
        "import",
        "STORE",
        "--format",
        "tsv",
        "--key",
        "id",
        text(&file),
    ]);
}

fn scan(place: &Place, store: &Path) -> String {
    place.ok(&["scan", text(store)])
}

#[test]
fn a_store_goes_through_backup_verify_and_restore() {
    let (place, set, copy) = filled();
    let rows = scan(&place, &place.store);
    let said = place.ok(&["backup", "STORE", text(&set)]);
    assert!(said.starts_with("backup 1 in "), "{said}");
    place.ok(&["put", "STORE", "new", "one"]);
    let said = place.ok(&["backup", "STORE", text(&set)]);
    assert!(said.contains("backup 2 in"), "{said}");
    let listed = place.ok(&["backup", "--list", text(&set)]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(
        lines[0].starts_with("1\t20") && lines[0].contains(" UTC\t"),
        "{listed}"
    );
    let said = place.ok(&["verify", text(&set)]);
    assert!(
        said.contains("verified 2 backups") && said.contains("no damage"),
        "{said}"
    );
    let said = place.ok(&["restore", text(&set), text(&copy), "--backup", "1"]);
    assert!(said.starts_with("restored backup 1 of 20"), "{said}");
    assert!(place
        .ok(&["check", text(&copy)])
        .contains("no damage found"));
    assert!(scan(&place, &copy) == rows);
    assert_ne!(rows, scan(&place, &place.store));
    // What is refused.
    let message = place.fails(2, &["restore", text(&set), text(&copy)]);
    assert!(message.contains("is there already"), "{message}");
    let message = place.fails(2, &["backup", "STORE", text(&copy)]);
    assert!(message.contains("not empty"), "{message}");
    let message = place.fails(2, &["verify", text(&copy)]);
    assert!(message.contains("not a Heliox backup set"), "{message}");
    let message = place.fails(2, &["restore", text(&set), "/x", "--backup", "7"]);
    assert!(message.contains("no backup 7"), "{message}");
    place.fails(2, &["backup", "STORE", text(&set), "--keep", "0"]);
    place.fails(2, &["backup", "STORE"]);
    let said = place.ok(&["backup", "--delete", "1", text(&set)]);
    assert!(said.starts_with("deleted backup 1 of "), "{said}");
    let message = place.fails(2, &["backup", "--delete", "1", text(&set)]);
    assert!(message.contains("no backup 1"), "{message}");
    place.fails(2, &["backup", "STORE", text(&set), "--delete", "2"]);
    assert_eq!(
        place.ok(&["backup", "--list", text(&set)]).lines().count(),
        1
    );
    // Only the last stays.
    let said = place.ok(&["backup", "STORE", text(&set), "--keep", "1"]);
    assert!(said.contains("removed 1 older backups"), "{said}");
    assert!(place
        .ok(&["backup", "--list", text(&set)])
        .starts_with("3\t"));
}

#[test]
fn verify_exits_1_and_names_the_damaged_file() {
    let (place, set, copy) = filled();
    place.ok(&["backup", "STORE", text(&set)]);
    let entries = fs::read_dir(set.join("segments")).unwrap();
    let path = entries.map(|e| e.unwrap().path()).min().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[5000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let output = place.run(&["verify", text(&set)]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(
        said.contains(name) && said.contains("DAMAGE FOUND"),
        "{said}"
    );
    let message = place.fails(2, &["restore", text(&set), text(&copy)]);
    assert!(message.contains(name), "{message}");
    let message = place.fails(2, &["get", text(&copy), "k000001"]);
    assert!(message.contains("no store"), "{message}");
}

/// Runs the command, kills it after some time, and tells whether it had ended by itself.
fn kill_after(place: &Place, args: &[&str], micros: u64) -> bool {
    let mut command = place.command(args);
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_micros(micros));
    let ended = child.try_wait().unwrap();
    if ended.is_none() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    if ended.is_some() {
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {message}");
    }
    ended.is_some()
}

/// Kills the command at growing times until it has ended by itself; after each kill, `look`.
fn kill_often(place: &Place, args: &[&str], prepare: &dyn Fn(), look: &dyn Fn()) {
    let mut micros = 500;
    let mut kills = 0;
    loop {
        prepare();
        if kill_after(place, args, micros) {
            break;
        }
        kills += 1;
        look();
        micros = micros * 3 / 2;
    }
    assert!(kills > 2, "{args:?} was killed {kills} times");
}

#[test]
fn kill_9_in_a_backup_leaves_the_earlier_ones_and_the_next_cleans_up() {
    let (place, set, copy) = filled();
    let rows = scan(&place, &place.store);
    place.ok(&["backup", "STORE", text(&set)]);
    let next = std::cell::Cell::new(3000);
    let args = ["backup", "STORE", text(&set)];
    kill_often(
        &place,
        &args,
        &|| {
            import(&place, next.get(), 2000);
            next.set(next.get() + 2000);
        },
        &|| {
            let said = place.ok(&["verify", text(&set)]);
            assert!(said.contains("no damage found"), "{said}");
            let _ = fs::remove_dir_all(&copy);
            place.ok(&["restore", text(&set), text(&copy), "--backup", "1"]);
            assert!(scan(&place, &copy) == rows);
            assert!(place.ok(&["check", "STORE"]).contains("no damage found"));
        },
    );
    place.ok(&["backup", "STORE", text(&set), "--keep", "1"]);
    let entries = fs::read_dir(set.join("segments")).unwrap();
    let left = entries.filter(|e| {
        let name = e.as_ref().unwrap().file_name();
        !name.to_str().unwrap().ends_with(".seg")
    });
    assert_eq!(left.count(), 0);
    let _ = fs::remove_dir_all(&copy);
    place.ok(&["restore", text(&set), text(&copy)]);
    assert!(scan(&place, &copy) == scan(&place, &place.store));
    assert!(place
        .ok(&["check", text(&copy)])
        .contains("no damage found"));
}

#[test]
fn kill_9_in_a_restore_leaves_no_store_and_it_starts_over() {
    let (place, set, copy) = filled();
    let rows = scan(&place, &place.store);
    place.ok(&["backup", "STORE", text(&set)]);
    let args = ["restore", text(&set), text(&copy)];
    let unfinished = std::cell::Cell::new(0);
    kill_often(
        &place,
        &args,
        &|| {
            if copy.join("HELIOX").exists() {
                fs::remove_dir_all(&copy).unwrap();
            }
        },
        &|| {
            if copy.join("HELIOX").exists() {
                assert!(scan(&place, &copy) == rows);
            } else if fs::metadata(copy.join("HELIOX.new")).is_ok_and(|m| m.len() > 0) {
                // It had said what it was about to do.
                let message = place.fails(2, &["create", text(&copy)]);
                assert!(
                    message.contains("restore of a backup there did not end"),
                    "{message}"
                );
                let message = place.fails(2, &["get", text(&copy), "k000001"]);
                assert!(message.contains("no store"), "{message}");
                unfinished.set(unfinished.get() + 1);
            }
        },
    );
    assert!(unfinished.get() > 0, "no restore was caught in the middle");
    assert!(scan(&place, &copy) == rows);
    assert!(place
        .ok(&["check", text(&copy)])
        .contains("no damage found"));
}

#[test]
fn kill_9_in_a_verification_changes_nothing() {
    let (place, set, _) = filled();
    place.ok(&["backup", "STORE", text(&set)]);
    let content = || -> Vec<(PathBuf, Vec<u8>)> {
        let dirs = ["", "segments", "backups"].map(|d| set.join(d));
        let entries = dirs.iter().flat_map(|d| fs::read_dir(d).unwrap());
        let paths = entries.map(|e| e.unwrap().path()).filter(|p| p.is_file());
        let mut content: Vec<_> = paths.map(|p| (p.clone(), fs::read(p).unwrap())).collect();
        content.sort();
        content
    };
    let before = content();
    kill_often(&place, &["verify", text(&set)], &|| (), &|| {
        assert!(content() == before);
    });
    place.ok(&["verify", text(&set)]);
}
