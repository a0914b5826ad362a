//! A store that is closed under running writers keeps every write that it acknowledged, and all of
//! a batch that had begun. The device holds a writer inside its write, so that the close overtakes
//! it at each of its own requests in turn. And a closed store gives its files back, whoever still has
//! a handle of it.
#![allow(clippy::unwrap_used, clippy::panic)] // a failure is the test's

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use heliox::{
    BackupOptions, Batch, Durability, ErrorKind, Keyspace, Media, Options, Result, Store,
};
use heliox_media::{Geometry, MediaError, MemoryMedia};
use heliox_sync::{Condvar, Mutex};

/// Longest that a close is given to overtake a batch, which it must not.
const OVERTAKE_MAX: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Plan {
    /// The next read waits.
    hold: bool,
    /// A read has waited or waits.
    arrived: bool,
    released: bool,
    /// The writer that was held is through.
    is_done: bool,
    /// Writes and syncs so far, and which of them lets the read go on, and waits for the writer.
    requests: usize,
    release_at: usize,
}

/// A device that holds one read until a certain write or sync.
struct Overtaking {
    inner: Arc<MemoryMedia>,
    plan: Mutex<Plan>,
    changed: Condvar,
}

impl Overtaking {
    fn change(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan.lock());
        self.changed.notify_all();
    }

    fn wait_for(&self, is_so: impl Fn(&Plan) -> bool) {
        let mut plan = self.plan.lock();
        self.changed.wait_while(&mut plan, |p| !is_so(p));
    }

    fn before_read(&self) {
        let mut is_held = false;
        self.change(|p| is_held = std::mem::take(&mut p.hold));
        if is_held {
            self.change(|p| p.arrived = true);
            self.wait_for(|p| p.released);
        }
    }

    fn before_request(&self) {
        let mut is_the_one = false;
        self.change(|p| {
            is_the_one = p.arrived && p.requests == p.release_at;
            p.released |= is_the_one;
            p.requests += usize::from(p.arrived);
        });
        if is_the_one {
            self.wait_for(|p| p.is_done);
        }
    }
}

impl Media for Overtaking {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), MediaError> {
        self.before_read();
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> std::result::Result<(), MediaError> {
        self.before_request();
        self.inner.write_at(offset, data)
    }

    fn sync(&self) -> std::result::Result<(), MediaError> {
        self.before_request();
        self.inner.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> std::result::Result<(), MediaError> {
        self.inner.discard(offset, len_bytes)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// Each overwrite reads what it overwrites: there it can be held.
fn open(media: Arc<dyn Media>) -> (Store, Keyspace) {
    let options = Options::new()
        .volumes(vec![media])
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
        .durability(Durability::None)
        .exact(true)
        .background(false);
    let store = Store::open("", &options).unwrap();
    let ks = store.keyspace_or_create("default").unwrap();
    (store, ks)
}

/// A device with a store that holds one key.
fn device(release_at: usize) -> Arc<Overtaking> {
    let inner = Arc::new(MemoryMedia::new(66 << 20, 512).unwrap());
    let (store, ks) = open(inner.clone());
    ks.put("k", "old").unwrap();
    store.close().unwrap();
    let plan = Plan {
        release_at,
        ..Plan::default()
    };
    Arc::new(Overtaking {
        inner,
        plan: Mutex::new(plan),
        changed: Condvar::new(),
    })
}

/// Lets `write` run until it is held; gives what `meanwhile` and it give.
fn held<R: Send>(
    media: &Overtaking,
    write: impl FnOnce() -> Result<()> + Send,
    meanwhile: impl FnOnce() -> R,
) -> (R, Result<()>) {
    media.change(|p| p.hold = true);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = write();
            media.change(|p| p.is_done = true);
            written
        });
        media.wait_for(|p| p.arrived);
        let done = meanwhile();
        media.change(|p| p.released = true);
        (done, writer.join().unwrap())
    })
}

#[test]
fn a_write_that_the_close_overtakes_is_there_or_refused() {
    let mut release_at = 0;
    loop {
        let media = device(release_at);
        let (store, ks) = open(media.clone());
        // More than a clean store has, so that the close writes a checkpoint.
        ks.put("other", "value").unwrap();
        let close = || store.clone().close();
        let (closed, written) = held(&media, || ks.put("k", "new"), close);
        closed.unwrap();
        let requests = media.plan.lock().requests;
        drop((store, ks));
        let (store, ks) = open(media.inner.clone());
        assert_eq!(store.stats().recovery.tail_records, 0, "closed in order");
        let found = ks.get("k").unwrap().unwrap();
        match written {
            Ok(()) => assert_eq!(found, b"new", "acknowledged at request {release_at}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                assert_eq!(found, b"old", "refused at request {release_at}");
            }
        }
        if release_at > requests {
            break;
        }
        release_at += 1;
    }
    assert!(release_at > 6, "a checkpoint takes more requests");
}

#[test]
fn a_close_waits_for_a_batch_that_has_begun() {
    let media = device(usize::MAX);
    let (store, ks) = open(media.clone());
    let mut batch = Batch::new();
    batch.put(&ks, "a", "new");
    batch.put(&ks, "k", "new");
    let write = || store.write(&batch);
    let ((closing, has_waited), written) = held(&media, write, || {
        let store = store.clone();
        let closing = thread::spawn(move || store.close());
        let mut plan = media.plan.lock();
        let is_waiting = |p: &mut Plan| p.requests == 0;
        let so_long = media
            .changed
            .wait_while_for(&mut plan, is_waiting, OVERTAKE_MAX);
        (closing, so_long.timed_out())
    });
    assert!(has_waited, "the close went on without the batch");
    written.unwrap();
    closing.join().unwrap().unwrap();
    drop((store, ks));
    let (_store, ks) = open(media.inner.clone());
    for key in ["a", "k"] {
        assert_eq!(ks.get(key).unwrap().as_deref(), Some(&b"new"[..]), "{key}");
    }
}

const VALUE_BYTES: usize = 4 << 10;

fn of_files(devices: &[PathBuf]) -> Options {
    Options::new()
        .devices(devices.to_vec())
        .create_if_missing(true)
        .capacity_bytes(96 << 20)
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
        .durability(Durability::None)
}

/// The store's own file, and three files that were given as devices.
fn places(dir: &Path) -> [(PathBuf, Options); 2] {
    let devices = [0, 1, 2].map(|n| dir.join(format!("device{n}")));
    for device in &devices {
        File::create(device).unwrap().set_len(34 << 20).unwrap();
    }
    let (one, many) = (dir.join("one"), dir.join("many"));
    [(one, of_files(&[])), (many, of_files(&devices))]
}

#[track_caller]
fn closed<T>(result: Result<T>) {
    match result {
        Ok(_) => panic!("not refused"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
    }
}

#[test]
fn a_closed_store_opens_again_whatever_handles_are_left() {
    let dir = tempfile::tempdir().unwrap();
    for (place, options) in places(dir.path()) {
        let store = Store::open(&place, &options).unwrap();
        let ks = store.keyspace_or_create("default").unwrap();
        for n in 0..100u32 {
            ks.put(n.to_be_bytes(), [7; VALUE_BYTES]).unwrap();
        }
        let snapshot = store.snapshot().unwrap();
        let mut iter = ks.iter().start().unwrap();
        iter.next().unwrap().unwrap();
        let mut batch = Batch::new();
        batch.put(&ks, "late", "batch");
        store.clone().close().unwrap();

        let next = Store::open(&place, &options).unwrap();
        assert_eq!(next.stats().recovery.tail_records, 0, "closed in order");
        let again = next.keyspace("default").unwrap();
        again.put(0u32.to_be_bytes(), "new").unwrap();
        closed(ks.get(0u32.to_be_bytes()));
        closed(ks.multi_get(&[1u32.to_be_bytes()]));
        closed(ks.get_at(0u32.to_be_bytes(), &snapshot));
        closed(ks.put("late", "put"));
        closed(ks.delete_range("", "z"));
        closed(iter.next().unwrap());
        closed(ks.iter().start());
        closed(store.write(&batch));
        closed(store.snapshot());
        closed(store.sync());
        closed(store.flush());
        closed(store.checkpoint());
        closed(store.step());
        closed(store.scrub(&mut |_| {}));
        closed(store.backup(dir.path().join("set"), &BackupOptions::new(), &mut |_| {}));
        let stats = store.stats();
        assert_eq!(stats.health.state().to_string(), "closed");
        assert_eq!((stats.cache_bytes, stats.disk_bytes), (0, 0));
        assert!(next.sync().is_ok() && !store.describe().is_empty());
        store.clone().close().unwrap();
        // The old handles end later than the new store, and take nothing from it.
        let third = Store::open(&place, &options).err().map(|e| e.kind());
        assert_eq!(
            third,
            Some(ErrorKind::StoreInUse),
            "the lock is the second's"
        );
        next.close().unwrap();
        drop((store, ks, snapshot, iter, batch));
        let store = Store::open(&place, &options).unwrap();
        let ks = store.keyspace("default").unwrap();
        assert_eq!(ks.get(0u32.to_be_bytes()).unwrap().unwrap(), b"new");
        assert_eq!(ks.get("late").unwrap(), None);
        assert_eq!(ks.iter().start().unwrap().count(), 100);
    }
}

/// Does one thing after the other until it is refused.
fn until_closed(begun: &AtomicU64, mut act: impl FnMut(u32) -> Result<()>) {
    for n in 0.. {
        match act(n) {
            Ok(()) => drop(begun.fetch_add(1, Ordering::SeqCst)),
            Err(error) => return assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
        }
    }
}

#[test]
fn what_is_under_way_when_the_store_is_closed_is_refused_and_the_next_store_is_whole() {
    const KEYS: u32 = 4000;
    let dir = tempfile::tempdir().unwrap();
    for (place, options) in places(dir.path()) {
        let store = Store::open(&place, &options).unwrap();
        let ks = store.keyspace_or_create("default").unwrap();
        let value = |n: u32| [n as u8; VALUE_BYTES];
        for n in 0..KEYS {
            ks.put(n.to_be_bytes(), value(n)).unwrap();
        }
        let set = dir.path().join("set").join(place.file_name().unwrap());
        let begun = [(); 5].map(|()| AtomicU64::new(0));
        let (store, ks, begun, set) = (&store, &ks, &begun, &set);
        thread::scope(|scope| {
            let key = |n: u32| (n.wrapping_mul(2_654_435_761) % KEYS).to_be_bytes();
            scope.spawn(move || until_closed(&begun[0], |n| ks.get(key(n)).map(drop)));
            scope.spawn(move || {
                let keys = |n| [0, 1, 2, 3, 4, 5].map(|i| key(n * 6 + i));
                until_closed(&begun[1], |n| ks.multi_get(&keys(n)).map(drop));
            });
            scope.spawn(move || {
                let all = |_| ks.iter().start()?.try_for_each(|item| item.map(drop));
                until_closed(&begun[2], all);
            });
            scope.spawn(move || {
                until_closed(&begun[3], |n| {
                    ks.put(
                        key(n),
                        [(n.wrapping_mul(2_654_435_761) % KEYS) as u8; VALUE_BYTES],
                    )?;
                    match n % 50 {
                        0 => store.sync(),
                        25 => store.checkpoint(),
                        _ => Ok(()),
                    }
                });
            });
            scope.spawn(move || {
                let options = BackupOptions::new().keep(1);
                let add = |_| store.backup(set, &options, &mut |_| {}).map(drop);
                until_closed(&begun[4], add);
            });
            let is_idle = |count: &AtomicU64| count.load(Ordering::SeqCst) < 2;
            while begun.iter().any(is_idle) {
                thread::yield_now();
            }
            store.clone().close().unwrap();
            // They may be in the middle of something still.
            let next = Store::open(&place, &options).unwrap();
            let ks = next.keyspace("default").unwrap();
            for n in 0..KEYS {
                assert_eq!(ks.get(n.to_be_bytes()).unwrap().unwrap(), value(n), "{n}");
            }
            next.close().unwrap();
        });
        let report = Store::check(&place, &options, &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// A listener may do what it likes, on whichever thread it is called.
#[test]
fn a_listener_may_close_the_store() {
    for background in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let own: Arc<Mutex<Option<Store>>> = Arc::default();
        let listened = Arc::clone(&own);
        let listener = move |_: &heliox::Event| {
            let store = listened.lock().clone();
            store.map_or(Ok(()), Store::close).unwrap();
        };
        let options = of_files(&[])
            .background(background)
            .on_event(Arc::new(listener));
        let store = Store::open(dir.path(), &options).unwrap();
        *own.lock() = Some(store.clone());
        store.keyspace_or_create("default").unwrap();
        store.close().unwrap();
        Store::open(dir.path(), &of_files(&[])).unwrap();
        own.lock().take();
    }
}
