//! Draws a script from a seed, swarm-wise: each run has its own options, its own mixture of
//! operations (many of them none of some kinds), its own faults.
//!
//! Threads: plain data.

use heliox::Step;
use heliox_media::Random;

use crate::keys::FINGERPRINT_BITS;
use crate::media::Fault;
use crate::script::{Ack, Event, Setup, Zone};

/// Keyspaces of a run, at most.
const SPACES: u64 = 3;
/// Weights that a kind of event may get; none is as likely as any.
const WEIGHTS: [u64; 5] = [0, 1, 3, 10, 30];

/// Which faults a run has, beside crashes and latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    None,
    Errors,
    Damage,
    Lies,
}

/// One batch in so many meets a crash, and so does one background step in so many.
const CRASH_IN_BATCHES: u64 = 100;
const CRASH_IN_STEPS: u64 = 20;

struct Swarm {
    random: Random,
    setup: Setup,
    trouble: Trouble,
    kinds: Vec<(Kind, u64)>,
    value_bytes: u64,
    /// Events between two crashes, as a mean.
    crash_every: u64,
    seal_every: u64,
    /// One key in so many belongs to the few that are used most.
    hot: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Put,
    PutFor,
    Delete,
    Conditional,
    Take,
    Update,
    Batch,
    DeleteRange,
    Get,
    MultiGet,
    Scan,
    Snapshot,
    ReadSnapshot,
    ScanSnapshot,
    Spaces,
    Durability,
    Checkpoint,
    Step,
    Tick,
    Reopen,
    Compare,
}

/// Kinds, and one in how many of them is let through: what costs much happens seldom.
const KINDS: [(Kind, u64); 21] = [
    (Kind::Put, 1),
    (Kind::PutFor, 4),
    (Kind::Delete, 2),
    (Kind::Conditional, 2),
    (Kind::Take, 3),
    (Kind::Update, 2),
    (Kind::Batch, 4),
    (Kind::DeleteRange, 60),
    (Kind::Get, 1),
    (Kind::MultiGet, 10),
    (Kind::Scan, 40),
    (Kind::Snapshot, 100),
    (Kind::ReadSnapshot, 2),
    (Kind::ScanSnapshot, 200),
    (Kind::Spaces, 1000),
    (Kind::Durability, 40),
    (Kind::Checkpoint, 400),
    (Kind::Step, 30),
    (Kind::Tick, 20),
    (Kind::Reopen, 4000),
    (Kind::Compare, 2000),
];

/// The script of a seed, with about so many events.
#[must_use]
pub fn generate(seed: u64, events: usize) -> (Setup, Vec<Event>) {
    let mut swarm = Swarm::new(seed);
    let setup = swarm.setup;
    let mut script = Vec::new();
    swarm.faults_of_open(false, &mut script);
    script.extend((0..SPACES as u8).map(Event::CreateSpace));
    while script.len() < events {
        let late = script.len() * 3 > events * 2;
        swarm.next(late, &mut script);
    }
    (setup, script)
}

impl Swarm {
    fn new(seed: u64) -> Swarm {
        let mut random = Random::new(seed);
        let has_strangers = random.below(10) == 0;
        let setup = Setup {
            seed,
            keys: pick(&mut random, &[12, 60, 300, 1500, 4000]) as u32,
            families: (1 << random.below(8) | random.next() & random.next() & 0xff) as u8,
            device_mib: pick(&mut random, &[66, 66, 80, 120]),
            volumes: pick(&mut random, &[1, 1, 2, 3]) as u8,
            memory_mib: pick(&mut random, &[16, 24, 64]),
            fingerprint_bits: if has_strangers {
                // Many of them, or few.
                2 + random.below(13) as u32
            } else {
                FINGERPRINT_BITS
            },
            exact: random.below(if has_strangers { 2 } else { 8 }) == 0,
            bound_ms: pick(&mut random, &[2, 20, 100, 1000]),
            bound_bytes: pick(&mut random, &[4096, 64 << 10, 1 << 20, 8 << 20]),
        };
        let trouble = match random.below(10) {
            0..=4 => Trouble::None,
            5..=7 => Trouble::Errors,
            8 => Trouble::Damage,
            _ => Trouble::Lies,
        };
        let weigh = |random: &mut Random, kind: Kind, seldom: u64| {
            let weight = pick(random, &WEIGHTS).max(u64::from(kind == Kind::Put));
            (kind, weight * 12_000 / seldom)
        };
        let kinds = KINDS.map(|(kind, seldom)| weigh(&mut random, kind, seldom));
        Swarm {
            kinds: kinds.to_vec(),
            value_bytes: pick(&mut random, &[100, 100, 100, 1000, 6000]),
            crash_every: pick(&mut random, &[800, 4000, 10_000]),
            seal_every: pick(&mut random, &[100, 500, 2000, 100_000]),
            hot: pick(&mut random, &[1, 2, 10]),
            random,
            setup,
            trouble,
        }
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn next(&mut self, late: bool, script: &mut Vec<Event>) {
        if self.one_in(self.crash_every) {
            self.faults_of_open(late, script);
            let crash = self.crash();
            script.push(crash);
        }
        if self.one_in(self.seal_every) {
            script.push(Event::Run(Step::Seal));
        }
        if self.one_in(self.crash_every) {
            let fault = self.fault(late);
            script.extend(fault);
            // Before a checkpoint makes it old news.
            if matches!(fault, Some(Event::Rot(Zone::Tail, _))) && self.one_in(2) {
                let crash = self.crash();
                script.push(crash);
            }
        }
        let total: u64 = self.kinds.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.random.below(total);
        let kinds = self.kinds.iter();
        let hit = kinds.copied().find(|(_, weight)| {
            let is_hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_hit
        });
        let kind = hit.map_or(Kind::Put, |(kind, _)| kind);
        if kind == Kind::Step {
            self.step(script);
        } else if let Some(event) = self.operation(kind) {
            if kind == Kind::Batch && self.one_in(CRASH_IN_BATCHES) {
                // While the batch is written, so that it is torn.
                let after = 1 + self.random.below(3);
                let image = self.random.next();
                script.push(Event::Crash(after, image, 0, 0));
            }
            if kind == Kind::Reopen {
                self.faults_of_open(late, script);
            }
            script.push(event);
        }
    }

    fn space(&mut self) -> u8 {
        self.random.below(SPACES) as u8
    }

    fn key(&mut self) -> u32 {
        let keys = u64::from(self.setup.keys);
        let hot = self.hot;
        let among = if self.one_in(hot) {
            keys
        } else {
            keys.div_ceil(16)
        };
        self.random.below(among) as u32
    }

    fn len(&mut self) -> u32 {
        let most = self.value_bytes;
        (match self.random.below(2000) {
            0..=39 => self.random.below(9),
            40..=59 => self.random.below(8 * most),
            // In chunks.
            // With weak fingerprints a chunk may be hidden, and its value cannot be read then.
            60 if self.setup.device_mib > 100
                && self.setup.fingerprint_bits == FINGERPRINT_BITS =>
            {
                (1 << 20) + self.random.below(200_000)
            }
            _ => most / 2 + self.random.below(most),
        }) as u32
    }

    fn ack(&mut self) -> Ack {
        match self.random.below(12) {
            0 => Ack::Synced,
            1..=4 => Ack::Volatile,
            _ => Ack::Bounded,
        }
    }

    /// An operation; none where a kind is left out in this run.
    fn operation(&mut self, kind: Kind) -> Option<Event> {
        let (space, key) = (self.space(), self.key());
        Some(match kind {
            Kind::Put => Event::Put(space, key, self.len(), self.ack()),
            Kind::PutFor => {
                let ttl = pick(&mut self.random, &[1, 5, 50, 3_600_000]);
                Event::PutFor(space, key, self.len(), ttl)
            }
            Kind::Delete => Event::Delete(space, key, self.ack()),
            Kind::Conditional if self.one_in(2) => Event::Insert(space, key, self.len()),
            Kind::Conditional => Event::Replace(space, key, self.len()),
            Kind::Take => Event::Take(space, key),
            Kind::Update if self.one_in(2) => Event::Merge(space, key, self.random.next()),
            Kind::Update => Event::Update(space, key, self.random.next()),
            Kind::Batch => {
                // Now and then over several frames, and over several writes.
                let (members, len) = match self.random.below(8) {
                    0 => (60, 4000),
                    _ => (16, self.len()),
                };
                let members = 1 + self.random.below(members) as u8;
                Event::Batch(self.random.next(), members, len, self.ack())
            }
            Kind::DeleteRange if self.one_in(2) => Event::DeleteRange(space, key, self.key()),
            Kind::DeleteRange => Event::DeletePrefix(space, key, self.random.below(14) as u8),
            Kind::Get if self.one_in(6) => {
                let (offset, len) = (self.random.below(300), self.random.below(300));
                Event::GetPart(space, key, offset as u32, len as u32)
            }
            Kind::Get => Event::Get(space, key),
            Kind::MultiGet => Event::MultiGet(space, key, self.random.below(30) as u8),
            Kind::Scan => Event::Scan(space, key, self.key(), self.random.below(16) as u8),
            Kind::Snapshot if self.one_in(3) => Event::DropSnapshot(self.random.next() as u8),
            Kind::Snapshot => Event::TakeSnapshot,
            Kind::ReadSnapshot => Event::ReadSnapshot(self.random.next() as u8, space, key),
            Kind::ScanSnapshot => Event::ScanSnapshot(self.random.next() as u8, space),
            Kind::Spaces if self.one_in(2) => Event::DropSpace(space),
            Kind::Spaces => Event::CreateSpace(space),
            Kind::Durability if self.one_in(2) => Event::SyncNow,
            Kind::Durability => Event::FlushNow,
            Kind::Checkpoint => Event::CheckpointNow,
            Kind::Tick => Event::Tick(pick(&mut self.random, &[50, 1000, 8000, 60_000])),
            Kind::Reopen => Event::Reopen,
            Kind::Compare => Event::Compare,
            _ => return None,
        })
    }

    /// A background step, often with operations in its pauses.
    fn step(&mut self, script: &mut Vec<Event>) {
        let step = match self.random.below(14) {
            0..=4 => Step::Collect,
            5..=7 => Step::Sweep,
            8..=9 => Step::Checkpoint,
            10..=11 => Step::Scrub,
            _ => Step::Upkeep,
        };
        if self.one_in(CRASH_IN_STEPS) {
            // In the middle of it, or right after.
            let is_within = self.one_in(2);
            let after = u64::from(is_within) + self.random.below(7);
            let image = match self.one_in(2) {
                true => 0,
                false => self.random.next(),
            };
            let crash = Event::Crash(after, image, 0, 0);
            script.extend(match is_within {
                true => [crash, Event::Run(step)],
                false => [Event::Run(step), crash],
            });
            return;
        }
        script.push(Event::Run(step));
        let between = match self.random.below(3) {
            0 => 0,
            _ => self.random.below(12),
        };
        let mut pause = 0;
        for _ in 0..between {
            pause += self.random.below(8) as u32;
            let kind = pick_of(&mut self.random, &BETWEEN);
            if let Some(event) = self.operation(kind) {
                script.extend([Event::InPause(pause), event]);
            }
        }
    }

    fn crash(&mut self) -> Event {
        let after = match self.random.below(3) {
            0 => 0,
            _ => 1 + self.random.below(40),
        };
        // The seeds 0 and 1 keep nothing and everything of what was not synced.
        let image = match self.random.below(4) {
            0 => self.random.below(2),
            _ => self.random.next(),
        };
        let again = match self.random.below(3) {
            0 => 1 + self.random.below(12),
            _ => 0,
        };
        Event::Crash(after, image, again, self.random.next())
    }

    fn fault(&mut self, late: bool) -> Option<Event> {
        let n = self.random.below(60);
        let sectors = 1 + self.random.below(64);
        let pick = self.random.next();
        let roll = self.random.below(12);
        let volume = self.random.below(3) as u8;
        let arm = |fault| Event::Arm(volume, fault);
        Some(match (self.trouble, roll) {
            (_, 0) => Event::Rot(Zone::Superblock, pick),
            (_, 1..=2) => arm(Fault::Latency(n, 1 + pick % 300_000)),
            (Trouble::Errors, 3..=4) => arm(Fault::FailWrite(n, sectors % 8)),
            (Trouble::Errors, 5..=6) => arm(Fault::FailSync(n)),
            (Trouble::Errors, 7) => arm(Fault::NoSpace(n)),
            (Trouble::Errors, 8) => arm(Fault::Gone(n)),
            (Trouble::Errors, _) => arm(Fault::FailRead(n)),
            (Trouble::Damage, 3..=4) if late => Event::Rot(Zone::Sealed, pick),
            (Trouble::Damage, 5) if late => Event::Rot(Zone::Tail, pick),
            (Trouble::Damage, 6) if late => Event::Rot(Zone::Checkpoint, pick),
            (Trouble::Damage, 7..=8) if late => arm(Fault::MisdirectRead(n, sectors)),
            (Trouble::Damage, 9..=10) if late => arm(Fault::MisdirectWrite(n, sectors)),
            (Trouble::Lies, 3..=8) if late => arm(Fault::LieSync(n % 8, 1 + pick % 3)),
            _ => return None,
        })
    }

    /// Faults that meet the next open, now and then.
    fn faults_of_open(&mut self, late: bool, script: &mut Vec<Event>) {
        let is_due = match self.trouble {
            Trouble::Errors => true,
            Trouble::Damage => late,
            Trouble::None | Trouble::Lies => false,
        };
        if !is_due || self.one_in(2) {
            return;
        }
        for _ in 0..1 + self.random.below(2) {
            // A request of an open: some write, many read.
            let (few, many) = (self.random.below(4), self.random.below(80));
            let sectors = 1 + self.random.below(64);
            let volume = self.random.below(3) as u8;
            let is_damage = self.trouble == Trouble::Damage;
            let fault = match self.random.below(8) {
                0..=3 if is_damage => Fault::MisdirectRead(many, sectors),
                4..=5 if is_damage => Fault::MisdirectWrite(few, sectors),
                0 => Fault::FailWrite(few, sectors % 8),
                1 => Fault::FailSync(few),
                2 => Fault::NoSpace(few),
                3 => Fault::Gone(many),
                4 => Fault::Latency(many, sectors * 1000),
                _ => Fault::FailRead(many),
            };
            script.push(Event::ArmOpen(volume, fault));
        }
    }
}

/// What comes between the parts of a background step.
const BETWEEN: [Kind; 12] = [
    Kind::Put,
    Kind::Put,
    Kind::Delete,
    Kind::Delete,
    Kind::Batch,
    Kind::Update,
    Kind::PutFor,
    Kind::DeleteRange,
    Kind::Get,
    Kind::Snapshot,
    Kind::ReadSnapshot,
    Kind::Scan,
];

fn pick(random: &mut Random, from: &[u64]) -> u64 {
    let n = random.below(from.len() as u64) as usize;
    from.get(n).copied().unwrap_or_default()
}

fn pick_of(random: &mut Random, from: &[Kind]) -> Kind {
    let n = random.below(from.len() as u64) as usize;
    from.get(n).copied().unwrap_or(Kind::Put)
}
