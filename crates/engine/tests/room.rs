//! Where room is short: a slow backup under which the store fills up, one that shares blocks with the
//! store, which is then written over, and a snapshot that keeps what is overwritten.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use common::{differences, dump, name, value, Clock, Rng};
use heliox::{BackupOptions, ErrorKind, Keyspace, Options, Step, Store};

const STORE_BYTES: u64 = 66 << 20;
const VALUE_BYTES: usize = 4000;
/// Longest that anything here may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Puts keys until so many segments are left.
fn fill(store: &Store, ks: &Keyspace, segments_left: u64) -> u64 {
    let mut n = 0;
    while store.stats().segments_free > segments_left {
        for _ in 0..100 {
            ks.put(name(n), value(n, VALUE_BYTES)).unwrap();
            n += 1;
        }
    }
    n
}

fn whole(set: &Path) {
    let options = common::small(common::memory(STORE_BYTES));
    let report = Store::verify_backup(set, None, &options, &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Calls back when the copy of a segment begins.
fn when_copying(f: impl Fn() + Send + Sync + 'static) -> BackupOptions {
    BackupOptions::new().watch(move |verb, path| {
        let is_segment = path.parent().is_some_and(|dir| dir.ends_with("segments"));
        if verb == "create the file" && is_segment {
            f();
        }
        Ok(())
    })
}

/// Opened once, for all.
#[derive(Default)]
struct Door(Mutex<bool>, Condvar);

impl Door {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }
}

/// Lets everybody go home, also when the test fails: nothing waits for ever.
struct GoHome<'a>(&'a Door, &'a AtomicBool);

impl Drop for GoHome<'_> {
    fn drop(&mut self) {
        self.0.open();
        self.1.store(true, Ordering::Relaxed);
    }
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Overwrites its own half of the keys, and counts.
fn overwrite(ks: &Keyspace, keys: u64, half: u64, done: &AtomicU64, stop: &AtomicBool) {
    let mut n = half;
    while !stop.load(Ordering::Relaxed) {
        ks.put(name(n % keys), value(n, VALUE_BYTES)).unwrap();
        done.fetch_add(1, Ordering::Relaxed);
        n += 2;
    }
}

#[test]
fn writers_wait_for_a_backup_that_stands_still_and_go_on_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = common::small(common::memory(STORE_BYTES)).background(true);
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let keys = fill(&store, &ks, 9) / 2 * 2;
    let set = dir.path().join("set");
    let (door, stop, done) = (
        Arc::new(Door::default()),
        AtomicBool::new(false),
        AtomicU64::new(0),
    );
    std::thread::scope(|scope| {
        let _home = GoHome(&door, &stop);
        let inner = Arc::clone(&door);
        let options = when_copying(move || inner.pass());
        let (inner, into) = (&store, &set);
        let backup = scope.spawn(move || inner.backup(into, &options, &mut |_| {}));
        for half in 0..2 {
            let (ks, done, stop) = (ks.clone(), &done, &stop);
            scope.spawn(move || overwrite(&ks, keys, half, done, stop));
        }
        // Nothing is given back, so the writers come to a halt.
        let mut last = (0, Instant::now());
        wait_until("the writers stand still", || {
            let now = done.load(Ordering::Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            }
            now > 0 && last.1.elapsed() > Duration::from_millis(1500)
        });
        assert!(!backup.is_finished());
        // Readers do not wait, nor does who deletes or asks for a checkpoint's worth of safety.
        assert!(ks.get(name(1)).unwrap().is_some());
        assert_eq!(ks.iter().keys_only().start().unwrap().count() as u64, keys);
        ks.delete("nothing").unwrap();
        store.sync().unwrap();
        door.open();
        backup.join().unwrap().unwrap();
        let halted = done.load(Ordering::Relaxed);
        wait_until("the writers go on", || {
            done.load(Ordering::Relaxed) > halted + 2000
        });
    });
    whole(&set);
    let backed_up = common::small(common::memory(STORE_BYTES));
    Store::restore(&set, None, "", &backed_up, &mut |_| {}).unwrap();
    let restored = Store::open("", &backed_up).unwrap();
    assert_eq!(dump(&restored)["a"].len() as u64, keys);
}

#[test]
fn a_writer_that_waited_in_vain_is_told_of_the_backup_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let options = common::small(common::memory(STORE_BYTES)).simulation(Clock::new());
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let keys = fill(&store, &ks, 9);
    let before = dump(&store);
    let words = Arc::new(Mutex::new(None));
    let (inner, told) = (ks.clone(), Arc::clone(&words));
    // The backup stands still until a writer has given up.
    let options = when_copying(move || {
        let mut told = told.lock().unwrap();
        let mut n = 0;
        while told.is_none() {
            *told = inner.put(name(n % keys), value(n + 1, VALUE_BYTES)).err();
            n += 1;
        }
    });
    let set = dir.path().join("set");
    store.backup(&set, &options, &mut |_| {}).unwrap();
    let error = words.lock().unwrap().take().unwrap();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("backup"), "{error}");
    // The room is there again at once.
    for n in 0..2 * keys {
        ks.put(name(n % keys), value(n, VALUE_BYTES)).unwrap();
    }
    whole(&set);
    let media = common::small(common::memory(STORE_BYTES));
    Store::restore(&set, None, "", &media, &mut |_| {}).unwrap();
    let restored = dump(&Store::open("", &media).unwrap());
    assert!(differences(&before, &restored).is_empty());
}

/// A store with plenty of memory for snapshots, whose time passes only when somebody waits.
fn roomy_for_snapshots() -> (Store, Keyspace) {
    let options = common::small(common::memory(STORE_BYTES))
        .memory_budget_bytes(256 << 20)
        .simulation(Clock::new());
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    (store, ks)
}

#[test]
fn what_a_snapshot_reads_is_moved_once_and_not_again() {
    let (store, ks) = roomy_for_snapshots();
    let keys = fill(&store, &ks, 11) / 4;
    let snapshot = store.snapshot().unwrap();
    for n in 0..keys {
        ks.put(name(n), value(n + 1, VALUE_BYTES)).unwrap();
    }
    let collect = |steps: &[Step]| {
        for step in steps.iter().cycle().take(20 * steps.len()) {
            store.step_of(*step).unwrap();
        }
        store.stats().bytes_written.gc
    };
    let moved = collect(&[Step::Seal, Step::Checkpoint, Step::Collect]);
    let kept_bytes = keys * VALUE_BYTES as u64;
    assert!(moved > kept_bytes, "nothing was kept for the snapshot");
    // What was in a segment of its own that ended early may be moved to others of its kind.
    let again = collect(&[Step::Checkpoint, Step::Collect]) - moved;
    assert!(
        again < 2 * kept_bytes,
        "{again} bytes were moved for nothing"
    );
    for n in 0..keys {
        let found = ks.get_at(name(n), &snapshot).unwrap();
        assert!(found == Some(value(n, VALUE_BYTES)), "key {n}");
    }
}

/// A file system that shares blocks between files, in a file; taken down when it is dropped.
struct Sharing {
    dir: tempfile::TempDir,
}

impl Sharing {
    /// Why there is none, in words.
    fn mount() -> Result<Sharing, String> {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(640 << 20).unwrap();
        let xfs = run(Command::new("mkfs.xfs")
            .args(["-q", "-m", "reflink=1"])
            .arg(&image));
        let btrfs = || run(Command::new("mkfs.btrfs").arg("-q").arg(&image));
        let made = xfs.or_else(|why| btrfs().map_err(|other| format!("{why}; {other}")));
        made?;
        let place = dir.path().join("mounted");
        std::fs::create_dir(&place).unwrap();
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(&place))?;
        Ok(Sharing { dir })
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }

    /// Bytes of it that are in use.
    fn used_bytes(&self) -> u64 {
        run(Command::new("sync").arg("-f").arg(self.path())).unwrap();
        let text = run(Command::new("df")
            .args(["-B1", "--output=used"])
            .arg(self.path()))
        .unwrap();
        text.lines().last().unwrap().trim().parse().unwrap()
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg(self.path()));
    }
}

fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

#[test]
fn blocks_that_a_backup_shares_stay_as_they_were_when_the_store_writes_over_them() {
    let sharing = match Sharing::mount() {
        Ok(sharing) => sharing,
        Err(why) => return println!("skipped: no file system that shares blocks: {why}"),
    };
    let options = Options::new()
        .capacity_bytes(STORE_BYTES)
        .memory_budget_bytes(32 << 20);
    let store = Store::open(sharing.path().join("store"), &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let keys = fill(&store, &ks, 9);
    let before = dump(&store);
    store.sync().unwrap();
    let (set, used) = (sharing.path().join("set"), sharing.used_bytes());
    let report = store
        .backup(&set, &BackupOptions::new(), &mut |_| {})
        .unwrap();
    println!("{report:?}");
    assert!(report.shared_bytes > 20 << 20);
    assert_eq!(report.shared_bytes, report.copied_bytes);
    let grown = sharing.used_bytes().saturating_sub(used);
    assert!(
        grown < report.copied_bytes / 2,
        "{grown} bytes more are in use"
    );
    // Elsewhere the bytes are copied.
    let elsewhere = tempfile::tempdir().unwrap();
    let copied = store.backup(
        elsewhere.path().join("set"),
        &BackupOptions::new(),
        &mut |_| {},
    );
    let copied = copied.unwrap();
    assert_eq!(
        (copied.shared_bytes, copied.copied_bytes > 20 << 20),
        (0, true)
    );
    let mut rng = Rng::new(3);
    for n in 0..4 * keys {
        ks.put(name(rng.below(keys)), value(n, VALUE_BYTES))
            .unwrap();
    }
    assert!(store.stats().gc_segments > 10, "nothing was written over");
    whole(&set);
    let place = sharing.path().join("restored");
    Store::restore(&set, None, &place, &options, &mut |_| {}).unwrap();
    let restored = Store::open(&place, &options).unwrap();
    assert!(differences(&before, &dump(&restored)).is_empty());
    store.close().unwrap();
    restored.close().unwrap();
}
