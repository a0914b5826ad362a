//! Hit rates on made-up traces: the cache itself beside models of the policies it was chosen over.
//! `cargo test --release -p heliox cache::simulation -- --ignored --nocapture` prints the table of
//! the cache's module head.

use super::RecordCache;
use heliox_format::ids::{Birth, Location};
use std::collections::{HashMap, HashSet, VecDeque};

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Zipfian ranks by the method of YCSB, theta 0.99.
pub(super) struct Zipf {
    keys: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    pub(super) fn new(keys: u64) -> Zipf {
        let zeta: f64 = (1..=keys)
            .map(|rank| (rank as f64).powf(-Zipf::THETA))
            .sum();
        let two = 1.0 + 0.5f64.powf(Zipf::THETA);
        let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - Zipf::THETA)) / (1.0 - two / zeta);
        Zipf {
            keys: keys as f64,
            zeta,
            eta,
        }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        let u = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        if u * self.zeta < 1.0 {
            return 0;
        }
        if u * self.zeta < 1.0 + 0.5f64.powf(Zipf::THETA) {
            return 1;
        }
        let base = self.eta * u - self.eta + 1.0;
        ((self.keys * base.powf(1.0 / (1.0 - Zipf::THETA))) as u64).min(self.keys as u64 - 1)
    }
}

trait Policy {
    fn hit(&mut self, location: u64) -> bool;
    fn put(&mut self, location: u64);
    fn succeed(&mut self, old: u64, location: u64);
}

const VALUE: [u8; 100] = [7; 100];

struct Real(RecordCache);

impl Policy for Real {
    fn hit(&mut self, location: u64) -> bool {
        self.0
            .get(Location::from_bits(location), Birth(1), |_| ())
            .is_some()
    }
    fn put(&mut self, location: u64) {
        self.0
            .insert(Location::from_bits(location), Birth(1), &[&VALUE]);
    }
    fn succeed(&mut self, old: u64, location: u64) {
        let old = (Location::from_bits(old), Birth(1));
        self.0
            .insert_successor(old, Location::from_bits(location), Birth(1), &[&VALUE]);
    }
}

/// S3-FIFO of `room` records, or with no small queue plain FIFO with reinsertion.
struct Model {
    room: usize,
    small_room: usize,
    ghost_room: usize,
    heat_max: u8,
    inherits: bool,
    heat: HashMap<u64, u8>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    ghosts: HashSet<u64>,
    ghost_queue: VecDeque<u64>,
}

impl Model {
    fn new(room: usize, small: f64, ghosts: f64, heat_max: u8, inherits: bool) -> Model {
        Model {
            room,
            small_room: (room as f64 * small) as usize,
            ghost_room: (room as f64 * ghosts) as usize,
            heat_max,
            inherits,
            heat: HashMap::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: HashSet::new(),
            ghost_queue: VecDeque::new(),
        }
    }

    fn evict(&mut self) {
        while self.small.len() + self.main.len() >= self.room {
            let from_small = self.small.len() > self.small_room || self.main.is_empty();
            let queue = if from_small {
                &mut self.small
            } else {
                &mut self.main
            };
            let oldest = queue.pop_front().unwrap();
            match self.heat.get_mut(&oldest) {
                None => {}
                Some(heat) if *heat > 0 => {
                    *heat = if from_small { 0 } else { *heat - 1 };
                    self.main.push_back(oldest);
                }
                Some(_) => {
                    self.heat.remove(&oldest);
                    if from_small && self.ghosts.insert(oldest) {
                        self.ghost_queue.push_back(oldest);
                    }
                }
            }
        }
        while self.ghost_queue.len() > self.ghost_room {
            let oldest = self.ghost_queue.pop_front().unwrap();
            self.ghosts.remove(&oldest);
        }
    }

    fn put_with(&mut self, location: u64, known: Option<u8>) {
        self.evict();
        let known = known.or_else(|| self.ghosts.remove(&location).then_some(0));
        self.heat.insert(location, known.unwrap_or(0));
        if known.is_some() || self.small_room == 0 {
            self.main.push_back(location);
        } else {
            self.small.push_back(location);
        }
    }
}

impl Policy for Model {
    fn hit(&mut self, location: u64) -> bool {
        let heat_max = self.heat_max;
        self.heat
            .get_mut(&location)
            .map(|heat| *heat = heat_max.min(*heat + 1))
            .is_some()
    }
    fn put(&mut self, location: u64) {
        self.put_with(location, None);
    }
    fn succeed(&mut self, old: u64, location: u64) {
        let known = self.heat.remove(&old);
        let known = known.or_else(|| self.ghosts.remove(&old).then_some(0));
        self.put_with(location, known.filter(|_| self.inherits));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Trace {
    Reads,
    Scans,
    Updates,
    ColdWrites,
    Shifts,
}

/// Per cent of zipfian reads that hit, after a warm-up of a third of the trace.
fn hit_percent(policy: &mut dyn Policy, zipf: &Zipf, trace: Trace) -> f64 {
    let mut random = Random(7);
    let keys = zipf.keys as u64;
    let operations = keys * 8;
    let mut locations: Vec<u64> = (0..keys).collect();
    let (mut fresh, mut hits, mut reads, mut scan_left) = (keys, 0u64, 0u64, 0);
    for operation in 0..operations {
        let mut rank = zipf.draw(&mut random);
        if trace == Trace::Shifts {
            rank += operation / (operations / 6) * 30_011;
        }
        let key = (rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % keys;
        let coin = random.below(2) == 0;
        if trace == Trace::Scans {
            scan_left = if operation % (operations / 8) == 0 {
                keys
            } else {
                scan_left
            };
            if scan_left > 0 {
                scan_left -= 1;
                let location = locations[scan_left as usize];
                if !policy.hit(location) {
                    policy.put(location);
                }
            }
        }
        if trace == Trace::ColdWrites && coin {
            policy.put(fresh);
            fresh += 1;
            continue;
        }
        if trace == Trace::Updates && coin {
            policy.succeed(locations[key as usize], fresh);
            locations[key as usize] = fresh;
            fresh += 1;
            continue;
        }
        let hit = policy.hit(locations[key as usize]);
        if !hit {
            policy.put(locations[key as usize]);
        }
        if operation > operations / 3 {
            reads += 1;
            hits += u64::from(hit);
        }
    }
    100.0 * hits as f64 / reads as f64
}

fn policies(room: usize) -> Vec<(&'static str, Box<dyn Policy>)> {
    let real = RecordCache::new(room as u64 * 119 + (20 << 10));
    vec![
        (
            "FIFO, reinsertion",
            Box::new(Model::new(room, 0.0, 0.0, 1, false)),
        ),
        (
            "S3-FIFO, no ghosts",
            Box::new(Model::new(room, 0.1, 0.0, 3, true)),
        ),
        (
            "S3-FIFO, no heirs",
            Box::new(Model::new(room, 0.1, 0.5, 3, false)),
        ),
        ("S3-FIFO", Box::new(Model::new(room, 0.1, 0.5, 3, true))),
        ("this cache", Box::new(Real(real))),
    ]
}

#[test]
#[ignore = "prints the figures of the module head; some minutes"]
fn hit_rates_by_policy() {
    let keys = 800_000;
    let zipf = Zipf::new(keys);
    let traces = [
        Trace::Reads,
        Trace::Scans,
        Trace::Updates,
        Trace::ColdWrites,
        Trace::Shifts,
    ];
    for percent in [2, 10, 30] {
        println!("{percent} % fit: reads, with scans, half updates, half cold writes, shifting");
        let room = (keys * percent / 100) as usize;
        for index in 0..policies(room).len() {
            let name = policies(room)[index].0;
            print!("  {name:20}");
            for trace in traces {
                let mut policy = policies(room).swap_remove(index).1;
                print!(" {:5.1}", hit_percent(policy.as_mut(), &zipf, trace));
            }
            println!();
        }
    }
}

#[test]
fn the_hot_set_outlives_a_scan_and_a_burst_of_cold_writes() {
    let keys = 200_000;
    let room = keys as usize / 10;
    let zipf = Zipf::new(keys);
    for trace in [Trace::Scans, Trace::ColdWrites] {
        let mut plain = Model::new(room, 0.0, 0.0, 1, false);
        let plain = hit_percent(&mut plain, &zipf, trace);
        let mut real = Real(RecordCache::new(room as u64 * 119 + (20 << 10)));
        let real = hit_percent(&mut real, &zipf, trace);
        assert!(
            real > plain + 4.0,
            "this cache {real}, plain FIFO with reinsertion {plain}"
        );
    }
}
