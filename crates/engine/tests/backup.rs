//! Backups: a legal state of a store under load, whole after any end, incremental, and proven by
//! `verify_backup` and by what comes out of a restore.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::{differences, dump, key, value, Rng, State};
use heliox::{
    BackupOptions, BackupReport, Batch, Durability, ErrorKind, Media, Options, Step, Store,
};
use heliox_format::label::HEAD_BYTES;
use heliox_media::{MemoryMedia, RecordingMedia};

const STORE_BYTES: u64 = 66 << 20;

/// A store in memory and a directory for the set and for what is restored.
struct Place {
    dir: tempfile::TempDir,
    media: Arc<MemoryMedia>,
}

impl Place {
    fn new() -> Place {
        Place::with_sectors(512)
    }

    /// Files of some file systems have larger sectors than memory.
    fn with_sectors(bytes: u32) -> Place {
        Place {
            dir: tempfile::tempdir().unwrap(),
            media: Arc::new(MemoryMedia::new(STORE_BYTES, bytes).unwrap()),
        }
    }

    fn open(&self) -> Store {
        Store::open("", &common::small(self.media.clone())).unwrap()
    }

    fn set(&self) -> PathBuf {
        self.dir.path().join("set")
    }

    fn backup(&self, store: &Store) -> BackupReport {
        backup(store, &self.set(), &BackupOptions::new()).unwrap()
    }
}

fn backup(store: &Store, set: &Path, options: &BackupOptions) -> heliox::Result<BackupReport> {
    store.backup(set, options, &mut |_| {})
}

fn restore(set: &Path, number: Option<u64>, media: Arc<dyn Media>) -> heliox::Result<()> {
    Store::restore(set, number, "", &common::small(media), &mut |_| {}).map(|_| ())
}

/// The state of a backup, after its restore passed the check.
fn restored(set: &Path, number: Option<u64>) -> State {
    let media = common::memory(STORE_BYTES);
    restore(set, number, media.clone()).unwrap();
    state_of(media)
}

fn state_of(media: Arc<MemoryMedia>) -> State {
    let options = common::small(media);
    let report = Store::check("", &options, &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    let store = Store::open("", &options).unwrap();
    assert_eq!(store.damage(), Vec::<String>::new());
    dump(&store)
}

fn problems_of(set: &Path, number: Option<u64>) -> Vec<String> {
    let options = common::small(common::memory(STORE_BYTES));
    let report = Store::verify_backup(set, number, &options, &mut |_| {}).unwrap();
    assert_eq!(report.problems.is_empty(), report.problem_count == 0);
    report.problems
}

fn whole(set: &Path) {
    assert_eq!(problems_of(set, None), Vec::<String>::new());
}

/// Overwrites and deletes in a few keys.
fn churn(store: &Store, rng: &mut Rng, writes: u64) {
    let ks = store.keyspace_or_create("a").unwrap();
    for _ in 0..writes {
        let key = key(rng.below(600));
        if rng.one_in(5) {
            ks.delete(&key).unwrap();
        } else {
            let len = rng.below(4000) as usize;
            ks.put(&key, value(rng.next(), len)).unwrap();
        }
    }
}

fn same(a: &State, b: &State) {
    let differ = differences(a, b);
    assert!(differ.is_empty(), "{} keys differ", differ.len());
}

#[test]
fn what_is_reused_during_a_backup_was_copied_before() {
    let place = Place::new();
    let store = place.open();
    let mut rng = Rng::new(1);
    churn(&store, &mut rng, 9000);
    let large = value(7, 3 << 20);
    store.keyspace("a").unwrap().put("large", &large).unwrap();
    let before = dump(&store);
    // In the middle of the copy, everything that was there is overwritten and collected.
    let (inner, rng) = (store.clone(), Mutex::new(rng));
    let busy = AtomicU64::new(0);
    let options = BackupOptions::new().watch(move |verb, path| {
        let is_segment = path.parent().is_some_and(|dir| dir.ends_with("segments"));
        if verb == "create the file" && is_segment && busy.fetch_add(1, Ordering::Relaxed) < 6 {
            churn(&inner, &mut rng.lock().unwrap(), 1500);
            for step in [Step::Seal, Step::Checkpoint] {
                inner.step_of(step).unwrap();
            }
            for _ in 0..6 {
                inner.step_of(Step::Collect).unwrap();
            }
        }
        Ok(())
    });
    let collected = store.stats().gc_segments;
    backup(&store, &place.set(), &options).unwrap();
    assert!(
        store.stats().gc_segments > collected + 4,
        "nothing was retired"
    );
    assert!(!differences(&before, &dump(&store)).is_empty());
    same(&before, &restored(&place.set(), None));
    whole(&place.set());
    // All pins are gone: the store takes as much again as it did.
    churn(&store, &mut Rng::new(2), 20_000);
    for _ in 0..40 {
        store.step_of(Step::Collect).unwrap();
    }
    store.checkpoint().unwrap();
    store.step_of(Step::Collect).unwrap();
    assert!(
        store.stats().segments_free > 6,
        "{:?}",
        store.stats().segments_free
    );
}

/// Each writer counts; of each counter the value says which write it is.
const WRITERS: u64 = 4;
const KEYS: u64 = 150;

fn counter_key(writer: u64, n: u64) -> Vec<u8> {
    format!("w{writer}-{:04}", n % KEYS).into_bytes()
}

fn counted(n: u64) -> Vec<u8> {
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.resize(8 + (n * 37 % 3000) as usize, n as u8);
    bytes
}

/// A writer: single puts, and every third time a batch of two neighbours.
fn write_on(store: &Store, writer: u64, begun: &AtomicU64, done: &AtomicU64, stop: &AtomicBool) {
    let ks = store.keyspace("counters").unwrap();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let last = if n % 3 == 0 { n + 1 } else { n };
        begun.store(last + 1, Ordering::SeqCst);
        let mut batch = Batch::new();
        for n in n..=last {
            batch.put(&ks, counter_key(writer, n), counted(n));
        }
        if last == n {
            ks.put(counter_key(writer, n), counted(n)).unwrap();
        } else {
            store.write(&batch).unwrap();
        }
        n = last + 1;
        done.store(n, Ordering::SeqCst);
    }
}

/// Checks one writer's keys: they are what some number of its writes leaves, and gives the number.
fn cut_of(map: &common::Map, writer: u64) -> u64 {
    let mut values = BTreeMap::new();
    for place in 0..KEYS {
        if let Some(value) = map.get(&counter_key(writer, place)) {
            let n = u64::from_le_bytes(value[..8].try_into().unwrap());
            assert_eq!(*value, counted(n), "writer {writer}");
            values.insert(place, n);
        }
    }
    let cut = values.values().max().map_or(0, |n| n + 1);
    for n in cut.saturating_sub(KEYS)..cut {
        assert_eq!(
            values.get(&(n % KEYS)),
            Some(&n),
            "writer {writer} cut {cut}"
        );
    }
    // A batch is numbers 3k and 3k + 1 of the writes: never the first alone.
    cut
}

#[test]
fn a_backup_under_load_is_one_moment_of_it() {
    let place = Place::new();
    let options = common::small(place.media.clone())
        .background(true)
        .durability(Durability::None);
    let store = Store::open("", &options).unwrap();
    store.create_keyspace("counters").unwrap();
    let counters: Vec<_> = (0..WRITERS)
        .map(|_| (AtomicU64::new(0), AtomicU64::new(0)))
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (writer, (begun, done)) in counters.iter().enumerate() {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || write_on(store, writer as u64, begun, done, stop));
        }
        let look = |of: fn(&(AtomicU64, AtomicU64)) -> &AtomicU64| -> Vec<u64> {
            counters
                .iter()
                .map(|c| of(c).load(Ordering::SeqCst))
                .collect()
        };
        for round in 1..=6 {
            let options = BackupOptions::new().keep(2);
            let certain = look(|(_, done)| done);
            let report = backup(&store, &place.set(), &options).unwrap();
            let possible = look(|(begun, _)| begun);
            assert_eq!(report.number, round);
            let state = restored(&place.set(), None);
            for writer in 0..WRITERS {
                let cut = cut_of(&state["counters"], writer);
                let n = writer as usize;
                assert!(cut >= certain[n], "{cut} of {} writes", certain[n]);
                assert!(cut <= possible[n], "{cut} of {} writes", possible[n]);
                assert!(!is_half(cut), "half of a batch: {cut} writes");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(Store::backups(place.set()).unwrap().len(), 2);
    whole(&place.set());
    assert!(store.stats().gc_segments > 0, "collection never ran");
}

/// True if `cut` writes end within a batch: batches begin where a writer's number was a multiple of
/// three, and take two.
fn is_half(cut: u64) -> bool {
    let mut n = 0;
    while n < cut {
        n += if n % 3 == 0 { 2 } else { 1 };
    }
    n != cut
}

#[test]
fn only_new_segments_are_copied_and_old_ones_go_with_their_last_backup() {
    let place = Place::new();
    let store = place.open();
    churn(&store, &mut Rng::new(3), 3000);
    store.checkpoint().unwrap();
    let first = place.backup(&store);
    assert_eq!(first.copied_segments, first.segments);
    let state = dump(&store);
    let idle = place.backup(&store);
    assert_eq!((idle.copied_segments, idle.segments), (0, first.segments));
    store.keyspace("a").unwrap().put("new", "one").unwrap();
    let second = place.backup(&store);
    assert_eq!(second.copied_segments, 1, "{second:?}");
    let files = || fs::read_dir(place.set().join("segments")).unwrap().count() as u64;
    assert_eq!(files(), first.segments + 1);
    // The first two are as they were.
    same(&state, &restored(&place.set(), Some(1)));
    same(&state, &restored(&place.set(), Some(2)));
    // All is new: with the old backups their segments go.
    store.drop_keyspace("a").unwrap();
    store.checkpoint().unwrap();
    for _ in 0..20 {
        store.step_of(Step::Sweep).unwrap();
        store.step_of(Step::Collect).unwrap();
        store.checkpoint().unwrap();
    }
    let last = backup(&store, &place.set(), &BackupOptions::new().keep(1)).unwrap();
    assert_eq!((last.number, last.removed), (4, 3));
    assert!(last.segments < first.segments, "{last:?}");
    assert_eq!(files(), last.segments);
    whole(&place.set());
    // Over an end and an open: what did not change is known again.
    store.close().unwrap();
    let store = place.open();
    let reopened = place.backup(&store);
    assert!(reopened.copied_segments <= 1, "{reopened:?}");
}

#[test]
fn a_restored_store_goes_on_and_is_backed_up_into_the_same_set() {
    let place = Place::new();
    let store = place.open();
    churn(&store, &mut Rng::new(4), 3000);
    place.backup(&store);
    let media = common::memory(STORE_BYTES);
    restore(&place.set(), None, media.clone()).unwrap();
    let copy = Store::open("", &common::small(media.clone())).unwrap();
    // Both go on, differently, with the same births: at first even with segments of one length.
    for (store, tag) in [(&store, 1), (&copy, 2)] {
        let ks = store.keyspace("a").unwrap();
        ks.put("same", value(tag, 100)).unwrap();
        place.backup(store);
    }
    same(&dump(&store), &restored(&place.set(), Some(2)));
    same(&dump(&copy), &restored(&place.set(), Some(3)));
    churn(&store, &mut Rng::new(5), 2000);
    churn(&copy, &mut Rng::new(6), 2000);
    let (ours, theirs) = (dump(&store), dump(&copy));
    let of_copy = place.backup(&copy);
    assert!(of_copy.copied_segments < of_copy.segments, "{of_copy:?}");
    place.backup(&store);
    same(&theirs, &restored(&place.set(), Some(4)));
    same(&ours, &restored(&place.set(), Some(5)));
    whole(&place.set());
    copy.close().unwrap();
    same(&theirs, &state_of(media));
}

/// On a device that held a later state of the store, everything that is left of it would pass every
/// checksum.
#[test]
fn nothing_of_a_later_state_comes_back_on_a_used_device() {
    let place = Place::new();
    let store = place.open();
    let mut rng = Rng::new(8);
    churn(&store, &mut rng, 2000);
    place.backup(&store);
    let state = dump(&store);
    for _ in 0..4 {
        churn(&store, &mut rng, 2500);
        store.step_of(Step::Seal).unwrap();
    }
    store.sync().unwrap();
    // The process ends without a close; the head is wiped, and the backup restored.
    let used = Arc::new(MemoryMedia::clone(&place.media));
    std::mem::forget(store);
    used.poke(0, &[0; HEAD_BYTES as usize]).unwrap();
    restore(&place.set(), None, used.clone()).unwrap();
    same(&state, &state_of(Arc::new(MemoryMedia::clone(&used))));
    // Runs of it that end in disorder find their own records, and no others.
    let mut expected = state;
    for round in 0..4u64 {
        let store = Store::open("", &common::small(used.clone())).unwrap();
        assert_eq!(store.damage(), Vec::<String>::new());
        same(&expected, &dump(&store));
        churn(&store, &mut Rng::new(20 + round), 300);
        store.sync().unwrap();
        expected = dump(&store);
        std::mem::forget(store);
    }
    same(&expected, &state_of(used));
}

#[test]
fn damage_in_a_set_is_found_and_named() {
    let place = Place::new();
    let store = place.open();
    churn(&store, &mut Rng::new(9), 1500);
    store.checkpoint().unwrap();
    place.backup(&store);
    whole(&place.set());
    let mut rng = Rng::new(10);
    let names: Vec<_> = fs::read_dir(place.set().join("segments"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    for path in names {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[rng.below(good.len() as u64) as usize] ^= 1 << rng.below(8);
        for damage in [Some(bad), Some(good[..good.len() - 1].to_vec()), None] {
            match damage {
                Some(bad) => fs::write(&path, bad).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let problems = problems_of(&place.set(), None);
            assert!(problems.iter().any(|p| p.contains(&name)), "{problems:?}");
            let error = restore(&place.set(), None, common::memory(STORE_BYTES)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
            assert!(error.to_string().contains(&name), "{error}");
        }
        // What the store still has is copied again.
        assert_eq!(place.backup(&store).copied_segments, 1);
        assert_eq!(fs::read(&path).unwrap(), good);
        whole(&place.set());
    }
    let manifest = place.set().join("backups/00000001.txt");
    let mut text = fs::read(&manifest).unwrap();
    let middle = text.len() / 2;
    text[middle] ^= 1;
    fs::write(&manifest, &text).unwrap();
    let problems = problems_of(&place.set(), None);
    assert!(problems[0].contains("00000001.txt"), "{problems:?}");
    // Nothing is removed on the word of a manifest that cannot be read.
    let listed = Store::backups(place.set()).unwrap();
    assert!(listed[0].damage.is_some() && listed[1].damage.is_none());
    place.backup(&store);
}

/// A store that is damaged itself: files and checksums agree, the store that they make does not.
#[test]
fn damage_that_was_backed_up_is_found_too() {
    let place = Place::new();
    let store = place.open();
    churn(&store, &mut Rng::new(11), 1500);
    store.sync().unwrap();
    let at = (1 << 20) + (200 << 10);
    let mut byte = [0];
    place.media.peek(at, &mut byte).unwrap();
    place.media.poke(at, &[byte[0] ^ 4]).unwrap();
    place.backup(&store);
    let problems = problems_of(&place.set(), Some(1));
    assert!(
        problems.iter().any(|p| p.contains("backup 1")),
        "{problems:?}"
    );
}

/// Copies a set as a crash would leave it: what was not synced is cut, names whose directory was
/// not synced may be lost.
fn image(set: &Path, to: &Path, unsynced: &[PathBuf], undone: &[PathBuf]) {
    for sub in ["", "segments", "backups"] {
        let (from, to) = (set.join(sub), to.join(sub));
        let Ok(entries) = fs::read_dir(&from) else {
            continue;
        };
        fs::create_dir_all(&to).unwrap();
        for entry in entries.map(|e| e.unwrap().path()).filter(|p| p.is_file()) {
            let copy = to.join(entry.file_name().unwrap());
            if undone.contains(&entry) {
                continue;
            }
            if unsynced.contains(&entry) {
                let bytes = fs::read(&entry).unwrap();
                fs::write(&copy, &bytes[..bytes.len() / 2]).unwrap();
            } else if fs::hard_link(&entry, &copy).is_err() {
                fs::copy(&entry, &copy).unwrap();
            }
        }
    }
}

/// What a watched backup has done so far.
#[derive(Default)]
struct Watched {
    steps: u64,
    unsynced: Vec<PathBuf>,
    renamed: Vec<PathBuf>,
    images: Vec<PathBuf>,
}

impl Watched {
    /// Before each step: two images, with the names not synced and without.
    fn step(&mut self, verb: &str, path: &Path, set: &Path, images: &Path) {
        for undone in [Vec::new(), self.renamed.clone()] {
            let to = images.join(format!("{}", self.images.len()));
            image(set, &to, &self.unsynced, &undone);
            self.images.push(to);
        }
        self.steps += 1;
        match verb {
            "write" => self.unsynced.push(path.to_owned()),
            "sync" => self.unsynced.retain(|p| p != path),
            "rename to" => {
                // A file that is renamed before it was synced stays unsynced under its new name.
                let new = path.with_extension("new");
                if self.unsynced.contains(&new) {
                    self.unsynced.push(path.to_owned());
                }
                self.renamed.push(path.to_owned());
            }
            "sync the directory" => self.renamed.retain(|p| p.parent() != Some(path)),
            _ => {}
        }
    }
}

#[test]
fn a_crash_at_any_step_leaves_every_backup_of_the_set_whole() {
    let place = Place::new();
    let store = place.open();
    churn(&store, &mut Rng::new(12), 400);
    let mut states = vec![dump(&store)];
    place.backup(&store);
    churn(&store, &mut Rng::new(13), 400);
    states.push(dump(&store));
    let (set, images) = (place.set(), place.dir.path().join("images"));
    let watched = Arc::new(Mutex::new(Watched::default()));
    let seen = Arc::clone(&watched);
    let (its_set, its_images) = (set.clone(), images);
    let options = BackupOptions::new().keep(1).watch(move |verb, path| {
        let mut seen = seen.lock().unwrap();
        seen.step(verb, path, &its_set, &its_images);
        Ok(())
    });
    backup(&store, &set, &options).unwrap();
    let watched = watched.lock().unwrap();
    assert!(watched.steps >= 12, "{}", watched.steps);
    for image in &watched.images {
        let listed = Store::backups(image).unwrap();
        assert!(!listed.is_empty(), "{image:?}: no backup is left");
        for info in listed {
            assert_eq!(info.damage, None, "{image:?}");
            same(
                &states[info.number as usize - 1],
                &restored(image, Some(info.number)),
            );
        }
        // The next backup ends what this one began, and leaves nothing lying about.
        backup(&store, image, &BackupOptions::new().keep(1)).unwrap();
        same(&states[1], &restored(image, None));
        let files = fs::read_dir(image.join("segments")).unwrap().count();
        let segments = Store::backups(image).unwrap()[0].segments;
        assert_eq!(files as u64, segments, "{image:?}");
    }
}

/// What a deletion has removed so far without having made that durable.
struct Removals {
    /// The set as it was.
    before: PathBuf,
    unsynced: Vec<PathBuf>,
    images: Vec<PathBuf>,
}

impl Removals {
    /// Before each step three images: without what was removed and not synced, with it, and with what
    /// of it is no segment.
    fn step(&mut self, verb: &str, path: &Path, set: &Path, images: &Path) {
        for back in [&["none"][..], &["backups", "segments"], &["backups"]] {
            let to = images.join(format!("{}", self.images.len()));
            image(set, &to, &[], &[]);
            for removed in &self.unsynced {
                let name = removed.strip_prefix(set).unwrap();
                if !back.iter().any(|dir| name.starts_with(dir)) {
                    continue;
                }
                fs::copy(self.before.join(name), to.join(name)).unwrap();
            }
            self.images.push(to);
        }
        match verb {
            "remove" => self.unsynced.push(path.to_owned()),
            "sync the directory" => self.unsynced.retain(|p| p.parent() != Some(path)),
            _ => panic!("{verb}"),
        }
    }
}

#[test]
fn a_backup_is_deleted_and_a_crash_at_any_step_leaves_the_others_whole() {
    for (number, is_damaged) in [(1, false), (2, false), (3, false), (2, true)] {
        let place = Place::new();
        let store = place.open();
        let mut states = Vec::new();
        for seed in 0..3 {
            churn(&store, &mut Rng::new(20 + seed), 400);
            // Some segments are in all three, some in one.
            store.step_of(Step::Collect).unwrap();
            states.push(dump(&store));
            place.backup(&store);
        }
        let (set, images) = (place.set(), place.dir.path().join("images"));
        if is_damaged {
            fs::write(set.join("backups/00000002.txt"), "nothing").unwrap();
        }
        let before = place.dir.path().join("before");
        image(&set, &before, &[], &[]);
        let watched = Arc::new(Mutex::new(Removals {
            before,
            unsynced: Vec::new(),
            images: Vec::new(),
        }));
        let (seen, its_set, its_images) = (Arc::clone(&watched), set.clone(), images);
        let options = BackupOptions::new().watch(move |verb, path| {
            let mut seen = seen.lock().unwrap();
            seen.step(verb, path, &its_set, &its_images);
            Ok(())
        });
        Store::delete_backup_with(&set, number, &options).unwrap();
        let mut images = std::mem::take(&mut watched.lock().unwrap().images);
        assert!(images.len() >= 6);
        images.push(set);
        for image in &images {
            let listed = Store::backups(image).unwrap();
            let others = listed.iter().filter(|info| info.number != number);
            assert_eq!(others.count(), 2, "{image:?}");
            for info in listed.iter().filter(|info| info.damage.is_none()) {
                let n = info.number;
                same(&states[n as usize - 1], &restored(image, Some(n)));
            }
            // It is ended by the next.
            if listed.len() == 3 {
                Store::delete_backup(image, number).unwrap();
            }
            let gone = Store::delete_backup(image, number).unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::Invalid, "{gone}");
            let last = if number == 3 { 2 } else { 3 };
            for n in (1..=3).filter(|n| ![number, last].contains(n)) {
                Store::delete_backup(image, n).unwrap();
            }
            same(&states[last as usize - 1], &restored(image, None));
            let files = fs::read_dir(image.join("segments")).unwrap().count();
            let segments = Store::backups(image).unwrap()[0].segments;
            assert_eq!(files as u64, segments, "{image:?}");
        }
    }
}

#[test]
fn nothing_is_deleted_beside_a_backup_that_cannot_be_read_or_from_a_set_in_use() {
    let place = Place::new();
    let store = place.open();
    for seed in 0..2 {
        churn(&store, &mut Rng::new(30 + seed), 400);
        place.backup(&store);
    }
    let set = place.set();
    let segments = || fs::read_dir(set.join("segments")).unwrap().count();
    let count = segments();
    let reader = fs::File::open(&set).unwrap();
    reader.lock_shared().unwrap();
    let refused = Store::delete_backup(&set, 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StoreInUse, "{refused}");
    drop(reader);
    let second = set.join("backups/00000002.txt");
    let text = fs::read(&second).unwrap();
    fs::write(&second, &text[..text.len() / 2]).unwrap();
    Store::delete_backup(&set, 1).unwrap();
    assert_eq!(segments(), count, "nobody knows what the other needs");
    fs::write(&second, &text).unwrap();
    same(&dump(&store), &restored(&set, Some(2)));
    Store::delete_backup(&set, 2).unwrap();
    let none = restore(&set, None, common::memory(STORE_BYTES)).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Invalid, "{none}");
    assert!(none.to_string().contains("all were deleted"), "{none}");
}

#[test]
fn a_step_that_fails_fails_the_backup_and_nothing_else() {
    let place = Place::new();
    let store = place.open();
    churn(&store, &mut Rng::new(14), 400);
    place.backup(&store);
    let mut failed = 0;
    for n in 0.. {
        churn(&store, &mut Rng::new(100 + n), 20);
        let state = dump(&store);
        let steps = AtomicU64::new(0);
        let options = BackupOptions::new().keep(2).watch(move |_, _| {
            if steps.fetch_add(1, Ordering::Relaxed) == n {
                return Err(io::Error::from_raw_os_error(28));
            }
            Ok(())
        });
        match backup(&store, &place.set(), &options) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                assert!(error.to_string().contains("set"), "{error}");
                failed += 1;
            }
            Ok(_) => break,
        }
        store.keyspace("a").unwrap().put("alive", "yes").unwrap();
        store.sync().unwrap();
        let _ = state;
    }
    assert!(failed > 8, "{failed} steps");
    place.backup(&store);
    same(&dump(&store), &restored(&place.set(), None));
    whole(&place.set());
}

#[test]
fn a_crash_in_a_restore_leaves_no_store_or_all_of_it() {
    let place = Place::new();
    let store = place.open();
    churn(&store, &mut Rng::new(15), 1500);
    place.backup(&store);
    let state = dump(&store);
    let blank = MemoryMedia::new(STORE_BYTES, 512).unwrap();
    let media = Arc::new(RecordingMedia::new(blank));
    restore(&place.set(), None, media.clone()).unwrap();
    let last = media.event_count();
    let mut rng = Rng::new(16);
    let (mut none, mut all) = (0, 0);
    // Most of the steps lay segments; what matters comes at the end.
    let events = (0..8).map(|_| rng.below(last as u64) as usize);
    for event in events
        .chain(last.saturating_sub(12)..=last)
        .collect::<Vec<_>>()
    {
        for seed in 0..3 {
            let image = Arc::new(media.crash_image(event, seed).unwrap());
            let options = common::small(image.clone()).create_if_missing(false);
            match Store::open("", &options) {
                Ok(found) => {
                    same(&state, &dump(&found));
                    all += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotAStore, "{error}");
                    none += 1;
                    restore(&place.set(), None, image.clone()).unwrap();
                    same(&state, &state_of(image));
                }
            }
        }
    }
    assert!(
        none > 10 && all > 2,
        "{none} without a store, {all} with it"
    );
}

#[test]
fn a_restore_may_have_other_devices_and_another_size() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    let volumes: Vec<Arc<dyn Media>> = (0..3)
        .map(|_| Arc::new(MemoryMedia::new(30 << 20, 4096).unwrap()) as Arc<dyn Media>)
        .collect();
    let options = common::small(common::memory(4 << 20)).volumes(volumes);
    let store = Store::open("", &options).unwrap();
    churn(&store, &mut Rng::new(17), 1500);
    let state = dump(&store);
    backup(&store, &set, &BackupOptions::new()).unwrap();
    store.close().unwrap();
    let devices: Vec<PathBuf> = (0..2)
        .map(|n| {
            let path = dir.path().join(format!("device{n}"));
            fs::File::create(&path).unwrap().set_len(70 << 20).unwrap();
            path
        })
        .collect();
    let plain = || Options::new().background(false).create_if_missing(false);
    let cases = [
        ("same", plain(), 80 << 20),
        ("larger", plain().capacity_bytes(400 << 20), 390 << 20),
        ("striped", plain().devices(devices), 130 << 20),
    ];
    for (name, options, least_bytes) in cases {
        let to = dir.path().join(name);
        let report = Store::restore(&set, None, &to, &options, &mut |_| {}).unwrap();
        assert!(report.capacity_bytes >= least_bytes, "{name}: {report:?}");
        let check = Store::check(&to, &plain(), &mut |_| {}).unwrap();
        assert_eq!(check.problems, Vec::<String>::new(), "{name}");
        let store = Store::open(&to, &plain()).unwrap();
        same(&state, &dump(&store));
        churn(&store, &mut Rng::new(18), 300);
        store.close().unwrap();
        let error = Store::restore(&set, None, &to, &plain(), &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreExists, "{error}");
    }
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let place = Place::with_sectors(4096);
    let store = place.open();
    churn(&store, &mut Rng::new(19), 3000);
    let refused = |result: heliox::Result<()>, kind: ErrorKind, part: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    };
    let to = |set: &Path, options: &BackupOptions| backup(&store, set, options).map(|_| ());
    let new = BackupOptions::new;
    refused(to(&place.set(), &new().keep(0)), ErrorKind::Invalid, "keep");
    refused(
        to(place.dir.path().join("x").as_path(), &new().keep(0)),
        ErrorKind::Invalid,
        "keep",
    );
    fs::create_dir(place.dir.path().join("full")).unwrap();
    fs::write(place.dir.path().join("full/letter"), "dear").unwrap();
    let full = place.dir.path().join("full");
    refused(to(&full, &new()), ErrorKind::StoreExists, "letter");
    refused(
        Store::backups(&full).map(|_| ()),
        ErrorKind::NotAStore,
        "HELIOX-BACKUP",
    );
    refused(
        Store::backups(place.set()).map(|_| ()),
        ErrorKind::NotAStore,
        "no such directory",
    );
    place.backup(&store);
    // Another store; another program at the set.
    let other = Place::new();
    let stranger = other.open();
    refused(
        backup(&stranger, &place.set(), &new()).map(|_| ()),
        ErrorKind::Invalid,
        "another store",
    );
    let inner = place.set();
    let locked = new().watch(move |_, _| {
        let error = Store::backups(&inner).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreInUse);
        Ok(())
    });
    to(&place.set(), &locked).unwrap();
    // Restores.
    let media = || common::memory(STORE_BYTES) as Arc<dyn Media>;
    refused(
        restore(&place.set(), Some(9), media()),
        ErrorKind::Invalid,
        "no backup 9",
    );
    refused(
        restore(&full, None, media()),
        ErrorKind::NotAStore,
        "backup set",
    );
    let small = Options::new().capacity_bytes(65 << 20);
    let wide = Arc::new(MemoryMedia::new(200 << 20, 4096).unwrap());
    let large = Store::open("", &common::small(wide)).unwrap();
    churn(&large, &mut Rng::new(20), 40_000);
    let set = place.dir.path().join("large");
    backup(&large, &set, &new()).unwrap();
    let dir = place.dir.path().join("small");
    let error = Store::restore(&set, None, &dir, &small, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShortDevice, "{error}");
    assert!(!dir.exists(), "a refusal leaves no trace");
    store.close().unwrap();
    let closed = place.open();
    let handle = closed.clone();
    closed.close().unwrap();
    refused(
        backup(&handle, &place.set(), &new()).map(|_| ()),
        ErrorKind::Closed,
        "closed",
    );
}
