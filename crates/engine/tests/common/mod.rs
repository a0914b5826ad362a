//! What the tests of the engine share: seeded choices, key families, and a model of a store.
#![allow(dead_code, unreachable_pub)] // no test uses all of it

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use heliox::{ErrorKind, KeySource, Keyspace, Media, Options, Simulation, Store};
use heliox_media::MemoryMedia;

/// Seeded choices (splitmix64): the same seed gives the same test.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Key number `i` of the families that the format must order rightly.
pub fn key(i: u64) -> Vec<u8> {
    let n = i / 8;
    let mix = Rng::new(i).next();
    match i % 8 {
        0 => mix.to_be_bytes().repeat(2),
        1 => n.to_be_bytes().to_vec(),
        2 => format!("user{:019}", mix % 10_000_000_000_000_000_000).into_bytes(),
        3 => format!(
            "https://www.example{}.org/{}/article-{}.html?id={}",
            n % 5,
            ["news", "sport", "arts"][n as usize % 3],
            n / 7,
            n
        )
        .into_bytes(),
        // Prefixes of one another, the empty key first.
        4 => vec![b'a' + (n / 40 % 3) as u8; (n % 40) as usize],
        // Runs of zero bytes.
        5 => {
            let mut zeros = vec![0; (n % 50) as usize];
            zeros.extend((n / 50 > 0).then_some((n / 50) as u8));
            zeros
        }
        6 if n % 64 == 5 => {
            let mut long = vec![b'L'; 65_535 - 2];
            long.extend((n as u16).to_be_bytes());
            long
        }
        6 => [&[0xff; 3][..], &(mix as u16).to_be_bytes()].concat(),
        _ => format!("k{n}").into_bytes(),
    }
}

/// Key number `i`, of the same families, that no other number gives.
pub fn own_key(i: u64) -> Vec<u8> {
    let mut own = key(i);
    own.truncate(200);
    own.extend((i as u32).to_be_bytes());
    own
}

/// Time that passes only when somebody waits, or as the test says.
pub struct Clock(pub Mutex<Duration>);

impl Clock {
    pub fn new() -> Arc<Clock> {
        Arc::new(Clock(Mutex::new(Duration::from_secs(1))))
    }
}

impl Simulation for Clock {
    fn elapsed(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn now_ms(&self) -> u64 {
        self.elapsed().as_millis() as u64
    }

    fn sleep(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn breathe(&self) {}
}

/// Key number `n` where all that counts is that keys differ.
pub fn name(n: u64) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

/// A value of the given length that no other call gives.
pub fn value(tag: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(tag);
    let mut value = Vec::with_capacity(len + 8);
    while value.len() < len {
        value.extend_from_slice(&rng.next().to_le_bytes());
    }
    value.truncate(len);
    value
}

/// Puts new keys until the store is full; gives the number of the first that was refused.
pub fn fill(ks: &Keyspace, mut n: u64) -> u64 {
    loop {
        match ks.put(name(n), value(n, 4000)) {
            Ok(()) => n += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                return n;
            }
        }
    }
}

pub fn memory(bytes: u64) -> Arc<MemoryMedia> {
    Arc::new(MemoryMedia::new(bytes, 512).unwrap())
}

/// Small segments and little memory, so that everything happens all the time.
pub fn small(media: Arc<dyn Media>) -> Options {
    Options::new()
        .volumes(vec![media])
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
        .hash_seed(7)
        .background(false)
}

/// As [`small`], encrypted.
pub fn small_and_encrypted(media: Arc<dyn Media>) -> Options {
    small(media).encryption(KeySource::bytes([0x5a; 32]))
}

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;
pub type State = BTreeMap<String, Map>;

/// One change of one key or keyspace.
#[derive(Clone, Debug)]
pub enum Change {
    Create(String),
    Drop(String),
    Set(String, Vec<u8>, Option<Vec<u8>>),
}

/// A change that a crash keeps whole or not at all.
pub type Step = Vec<Change>;

pub fn apply(state: &mut State, change: &Change) {
    match change {
        Change::Create(name) => {
            state.insert(name.clone(), Map::new());
        }
        Change::Drop(name) => {
            state.remove(name);
        }
        Change::Set(name, key, value) => {
            let map = state.get_mut(name).expect("a keyspace of the model");
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
    }
}

/// Two maps: what is visible, and what must survive a crash, with the steps between them.
#[derive(Clone, Default)]
pub struct Model {
    pub volatile: State,
    pub durable: State,
    pub since: Vec<Step>,
}

impl Model {
    pub fn step(&mut self, step: Step) {
        for change in &step {
            apply(&mut self.volatile, change);
        }
        self.since.push(step);
    }

    pub fn set(&mut self, name: &str, key: &[u8], value: Option<&[u8]>) {
        self.step(vec![Change::Set(
            name.into(),
            key.to_vec(),
            value.map(<[u8]>::to_vec),
        )]);
    }

    /// Everything so far is durable.
    pub fn sync(&mut self) {
        for step in std::mem::take(&mut self.since) {
            for change in &step {
                apply(&mut self.durable, change);
            }
        }
    }

    /// Which of the states since the last sync `found` is; none if it is none of them. Gives the
    /// first keys that differ from the nearest.
    pub fn prefix_of(&self, found: &State) -> Result<usize, String> {
        let mut state = self.durable.clone();
        let mut differ = differences(&state, found);
        let mut best = (differ.len(), 0, sample(&differ));
        for (n, step) in self.since.iter().enumerate() {
            if differ.is_empty() {
                return Ok(n);
            }
            for change in step {
                apply(&mut state, change);
                if let Change::Set(name, key, _) = change {
                    let place = (name.clone(), key.clone());
                    let same = state.get(name).and_then(|m| m.get(key))
                        == found.get(name).and_then(|m| m.get(key));
                    let _ = if same {
                        differ.remove(&place)
                    } else {
                        differ.insert(place)
                    };
                } else {
                    differ = differences(&state, found);
                }
            }
            if differ.len() < best.0 {
                best = (differ.len(), n + 1, sample(&differ));
            }
        }
        if differ.is_empty() {
            return Ok(self.since.len());
        }
        Err(format!(
            "no prefix of {} steps: nearest after step {}, {} differences: {}",
            self.since.len(),
            best.1,
            best.0,
            best.2
        ))
    }

    /// After a crash that left the first `steps` steps since the last sync.
    pub fn crash(&mut self, steps: usize) {
        self.since.truncate(steps);
        self.sync();
        self.volatile = self.durable.clone();
    }
}

fn sample(differ: &BTreeSet<(String, Vec<u8>)>) -> String {
    let first: Vec<_> = differ
        .iter()
        .take(4)
        .map(|(n, k)| format!("{n}/{}", show(k)))
        .collect();
    first.join(", ")
}

/// A key for people.
pub fn show(key: &[u8]) -> String {
    let head: Vec<u8> = key.iter().copied().take(40).collect();
    format!("{:?}({})", head.escape_ascii().to_string(), key.len())
}

pub fn differences(a: &State, b: &State) -> BTreeSet<(String, Vec<u8>)> {
    let mut differ = BTreeSet::new();
    let empty = Map::new();
    for name in a.keys().chain(b.keys()) {
        if a.contains_key(name) != b.contains_key(name) {
            differ.insert((name.clone(), b"(the keyspace itself)".to_vec()));
        }
        let (x, y) = (a.get(name).unwrap_or(&empty), b.get(name).unwrap_or(&empty));
        for key in x.keys().chain(y.keys()) {
            if x.get(key) != y.get(key) {
                differ.insert((name.clone(), key.clone()));
            }
        }
    }
    differ
}

/// Everything that a store holds, by iteration.
pub fn dump(store: &Store) -> State {
    let mut state = State::new();
    for name in store.keyspaces() {
        let ks = store.keyspace(&name).unwrap();
        let mut map = Map::new();
        let mut last: Option<Vec<u8>> = None;
        for item in ks.iter().start().unwrap() {
            let (key, value) = item.unwrap();
            assert!(
                last.as_ref().is_none_or(|l| *l < key),
                "{name}: {} out of order",
                show(&key)
            );
            last = Some(key.clone());
            map.insert(key, value);
        }
        state.insert(name, map);
    }
    state
}
