//! Threads that append, sync, read and give segments back, all at once.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use common::*;
use heliox_format::ids::{Location, SegmentId, SeqNo};
use heliox_log::read::ReadBuf;
use heliox_log::segments::SegmentState;
use heliox_log::{Log, LogError};
use heliox_sync::{Mutex, RwLock};

#[test]
fn one_sync_serves_everybody_who_waits() {
    let (probe, log) = small_log(PLAIN);
    *probe.in_sync.lock() = Some(Box::new(|_, _| {
        std::thread::sleep(Duration::from_millis(2));
    }));
    let (threads, each) = (8, 25);
    std::thread::scope(|scope| {
        for t in 0..threads {
            let log = &log;
            scope.spawn(move || {
                for i in 0..each {
                    let known = append_n(log, USER, t * 1000 + i, 16, 100, None).unwrap();
                    log.sync_to(known.seq).unwrap();
                    assert!(log.durable_seq() >= known.seq);
                }
            });
        }
    });
    let syncs = log.counters().syncs.load(Ordering::Relaxed);
    // Each sync serves those who came during the one before; alone they would need 200.
    assert!(syncs <= threads * each / 3, "{syncs} syncs");
    assert_eq!(log.durable_seq(), SeqNo(threads * each));
    assert_eq!((log.unsynced_bytes(), log.unwritten_bytes()), (0, 0));
}

#[test]
fn what_is_appended_during_a_flush_is_not_counted_durable() {
    let (probe, log) = small_log(PLAIN);
    let log = Arc::new(log);
    for during_sync in [false, true] {
        append_n(&log, USER, 1, 16, 100, None).unwrap();
        let inner = Arc::downgrade(&log);
        let before = log.last_seq();
        let hook: Box<dyn FnMut(u64, usize) + Send> = Box::new(move |_, _| {
            let Some(log) = inner.upgrade() else { return };
            append_n(&log, USER, 2, 16, 100, None).unwrap();
            append_n(&log, SURVIVOR, 3, 16, 100, None).unwrap();
        });
        let slot = if during_sync {
            &probe.in_sync
        } else {
            &probe.after_write
        };
        *slot.lock() = Some(hook);
        log.sync().unwrap();
        *slot.lock() = None;
        assert_eq!(log.durable_seq(), before);
        assert!(log.last_seq() > before);
        assert!(log.unsynced_bytes() > 0);
        log.sync().unwrap();
        assert_eq!(log.durable_seq(), log.last_seq());
        assert_eq!((log.unsynced_bytes(), log.unwritten_bytes()), (0, 0));
    }
}

#[test]
fn an_order_that_was_not_given_yet_is_not_waited_for() {
    let (_, log) = small_log(PLAIN);
    log.sync_to(SeqNo::MAX).unwrap();
    append_n(&log, USER, 1, 16, 100, None).unwrap();
    log.sync_to(SeqNo::MAX).unwrap();
    assert_eq!(log.durable_seq(), SeqNo(1));
    assert_eq!(log.counters().syncs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_failure_while_others_wait_for_the_gate_reaches_all_of_them() {
    let (probe, log) = small_log(PLAIN);
    let log = Arc::new(log);
    let (inside, entered) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    *probe.in_sync.lock() = Some(Box::new(move |_, _| {
        let _ = inside.send(());
        let _ = gone.lock().recv_timeout(Duration::from_secs(5));
    }));
    append_n(&log, USER, 1, 16, 100, None).unwrap();
    let spawn = |log: &Arc<Log>| {
        let log = Arc::clone(log);
        std::thread::spawn(move || log.sync())
    };
    let first = spawn(&log);
    entered.recv().unwrap();
    append_n(&log, USER, 2, 16, 100, None).unwrap();
    let second = spawn(&log);
    std::thread::sleep(Duration::from_millis(20));
    // Somebody else's failure, not the device's: the device would still say yes.
    log.fail(LogError::Internal("the test says so"));
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert!(first.join().unwrap().is_err(), "failed while it synced");
    assert!(second.join().unwrap().is_err(), "failed while it waited");
    assert_eq!(log.durable_seq(), SeqNo(0));
    assert_eq!(log.counters().syncs.load(Ordering::Relaxed), 0);
}

/// How often a reader reads at least, however fast the others are done.
const ROUNDS_MIN: u32 = 400;
/// Records that each reader reads at least, however late it comes to it.
const READS_MIN: usize = 1000;

/// Stops the others when one thread is done or has failed its test.
struct StopAll<'a>(&'a AtomicBool);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn readers_race_appends_flushes_and_syncs() {
    let (probe, log) = small_log(Shape {
        segments: 64,
        ..PLAIN
    });
    probe.write_us.store(300, Ordering::Relaxed);
    let known: RwLock<Vec<Known>> = RwLock::default();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for stream in [USER, SURVIVOR] {
            let (log, known, stop) = (&log, &known, &stop);
            scope.spawn(move || {
                let _stop = StopAll(stop);
                let mut dice = Dice(5 + stream as u64);
                for i in 0..15_000 {
                    let value_bytes = match dice.roll(200) {
                        0 => dice.roll(200_000) as usize,
                        1..=10 => 4000,
                        _ => dice.roll(300) as usize,
                    };
                    let n = (stream as u64) << 30 | i;
                    let new = append_n(log, stream, n, 16, value_bytes, None).unwrap();
                    known.write().push(new);
                }
            });
        }
        let (log, known, stop) = (&log, &known, &stop);
        scope.spawn(move || {
            let mut dice = Dice(9);
            let mut durable = SeqNo(0);
            while !stop.load(Ordering::SeqCst) {
                match dice.roll(3) {
                    0 => log.write_full_chunks().unwrap(),
                    1 => log.write_all().unwrap(),
                    _ => log.sync().unwrap(),
                }
                assert!(log.durable_seq() >= durable, "durability went back");
                durable = log.durable_seq();
            }
        });
        for t in 0..2 {
            scope.spawn(move || {
                let mut buf = ReadBuf::default();
                let mut dice = Dice(100 + t);
                let mut own = 0;
                while own < READS_MIN || !stop.load(Ordering::SeqCst) {
                    let some: Vec<Known> = {
                        let known = known.read();
                        let newest = known.len() as u64;
                        let span = newest.min(if dice.roll(2) == 0 { 40 } else { newest });
                        let any = |_| known[(newest - 1 - dice.roll(span)) as usize].clone();
                        (0..newest.min(8)).map(any).collect()
                    };
                    if dice.roll(2) == 0 {
                        some.iter().for_each(|k| assert_readable(log, &mut buf, k));
                    } else {
                        let at: Vec<Location> = some.iter().map(|k| k.at).collect();
                        log.read_many(&at, &mut buf, &mut |i, found| {
                            assert_found(&some[i], found.unwrap());
                        })
                        .unwrap();
                    }
                    own += some.len();
                }
            });
        }
    });
    log.sync().unwrap();
    assert_eq!((log.unsynced_bytes(), log.unwritten_bytes()), (0, 0));
    assert_eq!(probe.rewritten.load(Ordering::Relaxed), 0);
    let mut known = known.into_inner();
    known.sort_by_key(|k| k.seq);
    for (i, known) in known.iter().enumerate() {
        assert_eq!(known.seq, SeqNo(i as u64 + 1), "orders are consecutive");
    }
}

/// Gives sealed segments back as soon as they are durable, while readers hold locations into them.
fn recycle(log: &Log, probe: &Probe) {
    let durable = log.durable_seq();
    for id in (0..log.geometry().segments).map(SegmentId) {
        let segment = log.segment(id);
        if segment.state == SegmentState::Sealed && segment.last_seq <= durable {
            log.retire(id);
            probe.forget(id);
            log.release(id);
        }
    }
}

#[test]
fn stale_locations_are_gone_or_true_while_segments_are_used_again() {
    let (probe, log) = small_log(Shape {
        segments: 6,
        ..PLAIN
    });
    // Locations of all lives; most are stale, and many of them point into the middle of records.
    let known: RwLock<Vec<Known>> = RwLock::default();
    let stop = AtomicBool::new(false);
    let (gone, there) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (log, known, stop, probe) = (&log, &known, &stop, &probe);
        scope.spawn(move || {
            let _stop = StopAll(stop);
            let mut dice = Dice(3);
            for n in 0..40_000 {
                let stream = if dice.roll(4) == 0 { SURVIVOR } else { USER };
                let value_bytes = match dice.roll(30) {
                    0 => dice.roll(40_000) as usize,
                    _ => dice.roll(2000) as usize,
                };
                let new = loop {
                    match append_n(log, stream, n, 16, value_bytes, None) {
                        Err(LogError::Full) => {
                            log.sync().unwrap();
                            recycle(log, probe);
                        }
                        other => break other.unwrap(),
                    }
                };
                known.write().push(new);
                match dice.roll(500) {
                    0 => log.sync().unwrap(),
                    1..=5 => log.write_full_chunks().unwrap(),
                    6 => recycle(log, probe),
                    _ => {}
                }
            }
        });
        for t in 0..2 {
            let (gone, there) = (&gone, &there);
            scope.spawn(move || {
                let mut buf = ReadBuf::default();
                let mut dice = Dice(100 + t);
                let mut rounds = 0;
                while rounds < ROUNDS_MIN || !stop.load(Ordering::SeqCst) {
                    rounds += 1;
                    let some: Vec<Known> = {
                        let known = known.read();
                        let newest = known.len() as u64;
                        let any = |_| {
                            let span = newest.min(if dice.roll(2) == 0 { 200 } else { newest });
                            known[(newest - 1 - dice.roll(span)) as usize].clone()
                        };
                        (0..newest.min(8)).map(any).collect()
                    };
                    let at: Vec<Location> = some.iter().map(|k| k.at).collect();
                    let births: Vec<_> = at
                        .iter()
                        .map(|l| log.views().birth(log.geometry().segment_at(*l).unwrap()))
                        .collect();
                    let result = log.read_many(&at, &mut buf, &mut |i, found| {
                        let known = &some[i];
                        let segment = log.geometry().segment_at(known.at).unwrap();
                        match found.unwrap() {
                            // Of the life it says it is of, and then it is the known one.
                            Some(found) if found.birth == known.birth => {
                                there.fetch_add(1, Ordering::Relaxed);
                                assert!(is_same(known, &found.record));
                            }
                            Some(found) => {
                                assert!(found.birth >= births[i], "of a life that was over");
                                assert!(found.record.seq > known.seq);
                            }
                            None => {
                                gone.fetch_add(1, Ordering::Relaxed);
                                let now = log.views().birth(segment);
                                assert_ne!(now, known.birth, "a living record is gone");
                            }
                        }
                    });
                    result.unwrap();
                }
            });
        }
    });
    let (gone, there) = (gone.into_inner(), there.into_inner());
    assert!(gone > 100 && there > 100, "{gone} gone, {there} there");
    assert_eq!(probe.rewritten.load(Ordering::Relaxed), 0);
}
