//! What a store says of its health, and the events that tell of it: typed, in order, and whatever
//! the listener does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // these are tests

mod common;

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{fill, memory, name, small, value};
use heliox::{
    ConditionKind, Durability, ErrorKind, Event, EventKind, Health, HealthState, Media, Step,
    Store, WriteOptions,
};
use heliox_media::{FaultMedia, MemoryMedia, Operation};

const CAPACITY_BYTES: u64 = 66 << 20;
const EIO: i32 = 5;

type Faulty = FaultMedia<MemoryMedia>;

fn faulty() -> Arc<Faulty> {
    Arc::new(FaultMedia::new(MemoryMedia::clone(&memory(CAPACITY_BYTES))))
}

fn state(store: &Store) -> HealthState {
    store.health().state()
}

/// From and to of all changes of health so far.
fn changes(events: &[Event]) -> Vec<(HealthState, HealthState)> {
    let change = |event: &Event| match event.kind {
        EventKind::HealthChanged { from, to, .. } => Some((from, to)),
        _ => None,
    };
    events.iter().filter_map(change).collect()
}

type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

fn heard() -> (Arc<Mutex<Vec<Event>>>, Listener) {
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let own = Arc::clone(&events);
    (
        events,
        Arc::new(move |e| own.lock().unwrap().push(e.clone())),
    )
}

fn fails(operation: Operation, background: bool) {
    let media = faulty();
    let (events, listener) = heard();
    let options = small(Arc::clone(&media) as Arc<dyn Media>)
        .background(background)
        .on_event(listener);
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let sync = WriteOptions::new().durability(Durability::Sync);
    for n in 0..100 {
        ks.put_with(name(n), value(n, 100), &sync).unwrap();
    }
    assert_eq!(store.health(), Health::Healthy);
    media.fail_nth(operation, 0, EIO);
    let error = ks.put_with("x", "y", &sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let Health::Failed {
        cause, since_ms, ..
    } = store.health()
    else {
        panic!("{}", store.health());
    };
    assert!(cause.contains("errno 5") && since_ms > 0, "{cause}");
    // Nothing is written any more, everything is read, and it stays so.
    for n in 0..100 {
        assert_eq!(ks.get(name(n)).unwrap(), Some(value(n, 100)));
    }
    assert_eq!(ks.put("x", "y").unwrap_err().kind(), ErrorKind::Failed);
    assert!(ks.iter().start().unwrap().filter(|i| i.is_ok()).count() >= 100);
    assert_eq!(store.stats().health, store.health());
    assert!(matches!(store.health(), Health::Failed { since_ms: s, .. } if s == since_ms));
    let handle = store.clone();
    assert!(store.close().is_err());
    assert_eq!(handle.health(), Health::Closed);
    use HealthState::{Closed, Failed, Healthy};
    let events = events.lock().unwrap();
    assert_eq!(changes(&events), [(Healthy, Failed), (Failed, Closed)]);
}

#[test]
fn a_failed_write_or_sync_is_told_and_stays() {
    for background in [false, true] {
        fails(Operation::Write, background);
        fails(Operation::Sync, background);
    }
}

#[test]
fn a_full_store_says_so_and_that_it_has_room_again() {
    let (events, listener) = heard();
    let options = small(memory(CAPACITY_BYTES)).on_event(listener);
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let end = fill(&ks, 0);
    let Health::Full { conditions } = store.health() else {
        panic!("{}", store.health());
    };
    assert!(
        matches!(conditions[0].kind, ConditionKind::Full { capacity_bytes } if capacity_bytes == 64 << 20)
    );
    assert!(store.stats().room_waits > 0);
    assert_eq!(ks.get(name(3)).unwrap(), Some(value(3, 4000)));
    for n in (0..end).filter(|n| n % 8 != 0) {
        ks.delete(name(n)).unwrap();
    }
    for _ in 0..10_000 {
        if state(&store) < HealthState::Full && ks.put("again", value(1, 4000)).is_ok() {
            break;
        }
        store.step().unwrap();
    }
    assert!(state(&store) < HealthState::Full, "{}", store.health());
    store.step().unwrap();
    let events = events.lock().unwrap();
    let changes = changes(&events);
    let full = changes.iter().position(|c| c.1 == HealthState::Full);
    assert!(full.is_some_and(|at| changes[at..].iter().any(|c| c.0 == HealthState::Full)));
    let names: Vec<_> = events.iter().map(|e| e.kind.name()).collect();
    assert!(
        names.contains(&"stall_began") && names.contains(&"checkpoint_written"),
        "{names:?}"
    );
}

#[test]
fn memory_that_runs_short_is_told_before_keys_are_refused() {
    let options = small(memory(256 << 20)).memory_budget_bytes(16 << 20);
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let mut told = None;
    for n in 0..3_000_000 {
        match ks.put(n.to_string(), "") {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OverBudget, "{error}");
                break;
            }
        }
        if n % 5000 == 0 && told.is_none() && state(&store) == HealthState::Degraded {
            told = Some(n);
        }
    }
    assert!(told.is_some(), "{}", store.health());
    let Health::Degraded { conditions } = store.health() else {
        panic!("{}", store.health());
    };
    let is_memory = |kind: &ConditionKind| matches!(kind, ConditionKind::MemoryShort { .. });
    assert!(conditions.iter().any(|c| is_memory(&c.kind)));
}

#[test]
fn events_come_in_order_and_each_once() {
    let (events, listener) = heard();
    let options = small(memory(CAPACITY_BYTES))
        .background(true)
        .on_event(listener);
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    for n in 0..50 {
        ks.put(name(n), "x").unwrap();
        store.checkpoint().unwrap();
        store.scrub(&mut |_| {}).unwrap();
    }
    let recent = store.events();
    assert_eq!(recent.len(), 64);
    store.close().unwrap();
    let events = events.lock().unwrap();
    let numbers: Vec<u64> = events.iter().map(|e| e.number).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert!(events.windows(2).all(|e| e[0].at_ms <= e[1].at_ms));
    let count = |name| events.iter().filter(|e| e.kind.name() == name).count();
    assert!(count("checkpoint_written") >= 50);
    assert_eq!((count("scrub_started"), count("scrub_finished")), (50, 50));
    let first = recent[0].number as usize - 1;
    assert_eq!(events[first..first + 64], recent);
    let last = &events.last().unwrap().kind;
    assert!(matches!(
        last,
        EventKind::HealthChanged {
            to: HealthState::Closed,
            ..
        }
    ));
}

/// A listener that panics, blocks, or calls the store: the store goes on as if nobody listened.
#[test]
fn no_listener_spoils_the_store() {
    let (open_gate, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let own = Arc::<Mutex<Option<Store>>>::default();
    let seen = Arc::clone(&own);
    let listener = move |event: &Event| {
        if let Some(store) = &*seen.lock().unwrap() {
            assert_ne!(store.health().state(), HealthState::Failed);
        }
        if event.number == 2 {
            let _ = gate.lock().unwrap().recv();
        }
        panic!("planted");
    };
    let options = small(memory(CAPACITY_BYTES))
        .background(true)
        .on_event(Arc::new(listener));
    let store = Store::open("", &options).unwrap();
    *own.lock().unwrap() = Some(store.clone());
    let ks = store.create_keyspace("a").unwrap();
    for n in 0..1500 {
        ks.put(name(n), "x").unwrap();
        store.scrub(&mut |_| {}).unwrap();
    }
    store.checkpoint().unwrap();
    assert_eq!(state(&store), HealthState::Healthy);
    *own.lock().unwrap() = None;
    store.close().unwrap();
    drop(open_gate);
    std::thread::sleep(Duration::from_millis(1));
}

#[test]
fn damage_found_when_opened_is_a_condition() {
    let media = faulty();
    let options = small(Arc::clone(&media) as Arc<dyn Media>);
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    for n in 0..3000 {
        ks.put(name(n), value(n, 500)).unwrap();
    }
    store.sync().unwrap();
    ks.put("last", "word").unwrap();
    store.step_of(Step::Flush).unwrap();
    store.sync().unwrap();
    let copy = memory(CAPACITY_BYTES);
    let mut all = vec![0; CAPACITY_BYTES as usize];
    media.inner().peek(0, &mut all).unwrap();
    all[(1 << 20) + 200 * 4096 + 77] ^= 1;
    copy.poke(0, &all).unwrap();
    let store = Store::open("", &small(copy)).unwrap();
    let Health::Degraded { conditions } = store.health() else {
        panic!("{}", store.health());
    };
    assert!(
        matches!(&conditions[0].kind, ConditionKind::DamageAtOpen { what } if what.contains("were durable"))
    );
}
