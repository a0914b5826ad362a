//! Power failures: what was acknowledged under `sync` is there, what is there is a prefix of the
//! history, and no batch is there in part, whatever a crash did to the writes not yet synced; a
//! crash during recovery changes nothing of that.
//!
//! A failure names seed, generation, event and image; `HELIOX_SEED=n` runs that seed alone,
//! `HELIOX_LONG=1` many more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may

mod common;

use std::cell::Cell;
use std::sync::Arc;

use common::{apply, dump, key, value, Change, Model, Rng, State};
use heliox::{Batch, Durability, Keyspace, Options, Store, WriteOptions};
use heliox_media::{MemoryMedia, RecordingMedia};

const BOUND_BYTES: u64 = 256 << 10;
const CAPACITY_BYTES: u64 = 66 << 20;
/// Of so many images one is verified offline too, which reads all of it.
const IMAGES_PER_CHECK: u64 = 6;

/// One generation of a store: its history between an open and a crash.
struct Generation {
    media: Arc<RecordingMedia>,
    store: Store,
    rng: Rng,
    tag: u64,
    /// The state at its beginning, which is durable, and all steps since.
    model: Model,
    /// Of each step: events before it, events when it was acknowledged, its bytes.
    spans: Vec<(usize, usize, u64)>,
    /// From this event on, so many steps are durable.
    certain: Vec<(usize, usize)>,
    only_bounded: bool,
}

thread_local! {
    /// The stores of this test are encrypted.
    static ENCRYPTED: Cell<bool> = const { Cell::new(false) };
}

fn options(media: Arc<dyn heliox::Media>) -> Options {
    let small = match ENCRYPTED.get() {
        false => common::small(media),
        true => common::small_and_encrypted(media),
    };
    small.durability(Durability::Bounded {
        ms: 60_000,
        bytes: BOUND_BYTES,
    })
}

impl Generation {
    fn open(image: MemoryMedia, state: State, seed: u64, only_bounded: bool) -> Generation {
        let media = Arc::new(RecordingMedia::new(image));
        let store = Store::open("", &options(media.clone())).unwrap();
        let model = Model {
            volatile: state.clone(),
            durable: state,
            since: Vec::new(),
        };
        let mut generation = Generation {
            media,
            store,
            rng: Rng::new(seed),
            tag: seed << 32,
            model,
            spans: Vec::new(),
            certain: Vec::new(),
            only_bounded,
        };
        generation.note_certain();
        generation
    }

    /// Everything so far survives any crash from now on.
    fn note_certain(&mut self) {
        self.certain
            .push((self.media.event_count(), self.model.since.len()));
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let before = self.media.event_count();
            let (step, is_synced) = self.operation();
            let size = |c: &Change| match c {
                Change::Set(_, key, value) => {
                    (key.len() + value.as_ref().map_or(0, Vec::len)) as u64
                }
                Change::Create(_) | Change::Drop(_) => 0,
            };
            let bytes = step.iter().map(size).sum();
            self.model.step(step);
            self.spans.push((before, self.media.event_count(), bytes));
            if is_synced {
                self.note_certain();
            }
            if self.rng.one_in(3) {
                self.store.step().unwrap();
            }
        }
    }

    fn keyspace(&mut self) -> (String, Keyspace) {
        let name = ["a", "b"][self.rng.below(2) as usize];
        (name.into(), self.store.keyspace_or_create(name).unwrap())
    }

    fn value(&mut self) -> Vec<u8> {
        self.tag += 1;
        let len = match self.rng.below(200) {
            0 => (1 << 20) + self.rng.below(200_000),
            1..=9 => self.rng.below(60_000),
            _ => self.rng.below(3000),
        };
        value(self.tag, len as usize)
    }

    /// Does something; gives its effect and whether everything so far is durable then.
    fn operation(&mut self) -> (Vec<Change>, bool) {
        let missing = ["a", "b"]
            .into_iter()
            .find(|n| !self.model.volatile.contains_key(*n));
        if let Some(name) = missing {
            self.store.create_keyspace(name).unwrap();
            return (vec![Change::Create(name.into())], false);
        }
        let (name, ks) = self.keyspace();
        let key = key(self.rng.below(1500));
        let durability = match self.rng.below(10) {
            0 => Durability::Sync,
            1..=4 if !self.only_bounded => Durability::None,
            _ => Durability::Bounded {
                ms: 60_000,
                bytes: BOUND_BYTES,
            },
        };
        let options = WriteOptions::new().durability(durability);
        let is_synced = durability == Durability::Sync;
        let set = |key: Vec<u8>, value: Option<Vec<u8>>| Change::Set(name.clone(), key, value);
        match self.rng.below(100) {
            0..=49 => {
                let value = self.value();
                ks.put_with(&key, &value, &options).unwrap();
                (vec![set(key, Some(value))], is_synced)
            }
            50..=69 => {
                ks.delete_with(&key, &options).unwrap();
                (vec![set(key, None)], is_synced)
            }
            70..=84 => self.batch(&options, is_synced),
            85..=88 => {
                let tag = self.rng.next().to_le_bytes().to_vec();
                ks.update(&key, |_| Some(tag.clone())).unwrap();
                (vec![set(key, Some(tag))], false)
            }
            89 => {
                let mut prefix = key;
                prefix.truncate(9);
                ks.delete_prefix(&prefix).unwrap();
                let gone = self.model.volatile[&name]
                    .keys()
                    .filter(|k| k.starts_with(&prefix));
                (gone.map(|k| set(k.clone(), None)).collect(), false)
            }
            90 if self.rng.one_in(10) => {
                self.store.drop_keyspace(&name).unwrap();
                (vec![Change::Drop(name)], false)
            }
            90..=92 => {
                ks.take(&key).unwrap();
                (vec![set(key, None)], false)
            }
            93..=94 => {
                self.store.sync().unwrap();
                (Vec::new(), true)
            }
            95 if self.rng.one_in(3) => {
                self.store.checkpoint().unwrap();
                (Vec::new(), true)
            }
            95..=96 => {
                self.store.flush().unwrap();
                (Vec::new(), false)
            }
            _ => {
                // Found or not, a read changes nothing.
                assert_eq!(
                    ks.get(&key).unwrap().as_ref(),
                    self.model.volatile[&name].get(&key)
                );
                (Vec::new(), false)
            }
        }
    }

    fn batch(&mut self, options: &WriteOptions, is_synced: bool) -> (Vec<Change>, bool) {
        let mut batch = Batch::new();
        let mut changes = Vec::new();
        let first = self.rng.below(1500);
        for i in 0..2 + self.rng.below(20) {
            let (name, ks) = self.keyspace();
            let key = key((first + i * 7) % 1500);
            let value = (!self.rng.one_in(5)).then(|| self.value());
            match &value {
                Some(value) => batch.put(&ks, &key, value),
                None => batch.delete(&ks, &key),
            }
            changes.push(Change::Set(name, key, value));
        }
        self.store.write_with(&batch, options).unwrap();
        (changes, is_synced)
    }

    /// Reopens an image of a crash at `event` and compares; gives the state and the image again.
    fn check(&self, event: usize, seed: u64, what: &str) -> State {
        let image = self.media.crash_image(event, seed).unwrap();
        let store = Store::open("", &options(Arc::new(image.clone())));
        let store = store.unwrap_or_else(|e| panic!("{what}: open: {e}"));
        let found = dump(&store);
        let damage = store.damage();
        assert!(damage.is_empty(), "{what}: {damage:?}");
        let certain = self
            .certain
            .iter()
            .rev()
            .find(|(at, _)| *at <= event)
            .map_or(0, |c| c.1);
        let possible = self
            .spans
            .iter()
            .take_while(|(before, _, _)| *before <= event)
            .count();
        let mut model = Model {
            durable: self.model.durable.clone(),
            ..Model::default()
        };
        let steps = &self.model.since;
        for change in steps[..certain].iter().flatten() {
            apply(&mut model.durable, change);
        }
        model.since = steps[certain..possible].to_vec();
        let kept = certain
            + model
                .prefix_of(&found)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
        if self.only_bounded {
            let acknowledged = self.spans.iter().take_while(|(_, end, _)| *end <= event);
            let lost: u64 = acknowledged.skip(kept).map(|(_, _, bytes)| bytes).sum();
            assert!(lost <= BOUND_BYTES, "{what}: {lost} bytes lost");
        }
        if (event as u64 ^ seed).is_multiple_of(IMAGES_PER_CHECK) {
            drop(store);
            check_offline(&self.media.crash_image(event, seed).unwrap(), what);
        }
        found
    }
}

/// A crash is no damage: counts and sums are those of a scan, and the index those of the log.
fn check_offline(image: &MemoryMedia, what: &str) {
    let options = options(Arc::new(image.clone()));
    let report = Store::check("", &options, &mut |_| {}).unwrap();
    assert!(report.entries > 0, "{what}: nothing was checked");
    assert_eq!(report.problems, Vec::<String>::new(), "{what}");
}

/// A store that is as full as collection lets it become.
fn filled(seed: u64) -> (MemoryMedia, State) {
    let media = common::memory(CAPACITY_BYTES);
    let store = Store::open("", &options(media.clone())).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    store.create_keyspace("b").unwrap();
    let mut rng = Rng::new(seed);
    for n in 0..14_000 {
        ks.put(
            key(rng.below(1500)),
            value(seed ^ n, rng.below(5000) as usize),
        )
        .unwrap();
    }
    let state = dump(&store);
    store.close().unwrap();
    (MemoryMedia::clone(&media), state)
}

fn torture(seed: u64, generations: usize, images: usize, only_bounded: bool) -> usize {
    // Each second seed of both tests.
    ENCRYPTED.set(seed.is_multiple_of(2));
    let (mut image, mut state) = filled(seed);
    let mut rng = Rng::new(seed ^ 0xc4a5);
    let (mut done, mut collected) = (0, 0);
    for generation in 0..generations {
        let seed_of = |n: usize| seed << 16 | (generation as u64) << 8 | n as u64;
        let mut run = Generation::open(image, state, seed_of(0), only_bounded);
        run.run(400);
        let (first, last) = (run.media.first_event(), run.media.event_count());
        let points = run.media.sync_points();
        let mut next = (0, 0);
        for n in 0..images {
            // Right after a sync, right before one ends, or anywhere.
            let event = match n % 3 {
                0 => points[rng.below(points.len() as u64) as usize],
                1 => points[rng.below(points.len() as u64) as usize] - 1,
                _ => first + rng.below((last - first) as u64 + 1) as usize,
            };
            let image_seed = if n % 8 == 0 {
                n as u64 / 8 % 2
            } else {
                rng.next()
            };
            let what = format!(
                "HELIOX_SEED={seed} generation {generation} event {event} of {last} image {image_seed}"
            );
            let found = run.check(event, image_seed, &what);
            crash_in_recovery(&run, event, image_seed, &found, &what, &mut rng);
            next = (event, image_seed);
            done += 2;
        }
        collected += run.store.stats().gc_segments;
        image = run.media.crash_image(next.0, next.1).unwrap();
        state = run.check(
            next.0,
            next.1,
            "the image that the next generation starts from",
        );
    }
    assert!(collected > 0, "collection never ran");
    done
}

/// Crashes while the image's store recovers, and while it goes on a little: what it had recovered
/// is there.
fn crash_in_recovery(
    run: &Generation,
    event: usize,
    seed: u64,
    found: &State,
    what: &str,
    rng: &mut Rng,
) {
    let image = run.media.crash_image(event, seed).unwrap();
    let mut second = Generation::open(image, found.clone(), rng.next() >> 40, false);
    second.certain = vec![(0, 0)];
    second.run(12);
    let last = second.media.event_count();
    let at = if rng.one_in(2) {
        rng.below(12) as usize
    } else {
        rng.below(last as u64 + 1) as usize
    };
    let (at, image_seed) = (at.min(last), rng.next());
    second.check(
        at,
        image_seed,
        &format!("{what}, then event {at} of {last} image {image_seed}"),
    );
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let only = std::env::var("HELIOX_SEED")
        .ok()
        .and_then(|s| s.parse::<u64>().ok());
    let many = if std::env::var_os("HELIOX_LONG").is_some() {
        count * 30
    } else {
        count
    };
    only.map_or(1..many + 1, |seed| seed..seed + 1)
}

#[test]
fn every_image_is_a_prefix_with_everything_that_was_synced() {
    let images: usize = seeds(2).map(|seed| torture(seed, 3, 16, false)).sum();
    eprintln!("{images} images");
}

#[test]
fn bounded_durability_loses_no_more_than_its_bytes() {
    let images: usize = seeds(1).map(|seed| torture(seed + 1000, 2, 16, true)).sum();
    eprintln!("{images} images");
}
