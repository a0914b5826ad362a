//! A store that is closed under running writers keeps every write that it acknowledged, and all of
//! a batch that had begun. The device holds a writer inside its write, so that the close overtakes
//! it at each of its own requests in turn.
#![allow(clippy::unwrap_used, clippy::panic)] // a failure is the test's

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use heliox::{Batch, Durability, ErrorKind, Keyspace, Media, Options, Result, Store};
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
