//! Scripts of the simulation out of bytes: every input is one, and a small change of an input is a
//! small change of its script, so that coverage can lead to the longer ones. No state, no threads.

use heliox::Step;
use heliox_sim::{as_test, generate, replay, Ack, Event, Fault, Setup, Zone};

use crate::input::Input;

/// Events of a script, at most: enough to fill a segment, few enough to run hundreds a second.
const EVENTS_MAX: usize = 400;
/// Lengths of values: around what fits a frame, a block, a page; the last ones go into chunks.
const LENGTHS: [u32; 16] = [
    0,
    1,
    8,
    60,
    100,
    455,
    1000,
    3000,
    4000,
    4090,
    8000,
    16_000,
    70_000,
    300_000,
    (1 << 20) + 1,
    (1 << 20) + 200_000,
];
/// Devices below this have no room for values in chunks.
const CHUNKED_MIB: u64 = 100;
const CHUNKED: usize = 14;
const TIMES_MS: [u64; 4] = [1, 5, 50, 3_600_000];
const TICKS_US: [u64; 8] = [1, 50, 1000, 8000, 60_000, 300_000, 1_100_000, 5_000_000];
const STEPS: [Step; 6] = [
    Step::Collect,
    Step::Checkpoint,
    Step::Sweep,
    Step::Seal,
    Step::Upkeep,
    Step::Flush,
];
const ZONES: [Zone; 4] = [Zone::Superblock, Zone::Checkpoint, Zone::Tail, Zone::Sealed];

/// Runs the script of an input against the model of the simulation.
///
/// # Panics
/// When a promise is broken, with the script as a test.
pub fn store_ops(data: &[u8]) {
    let (setup, events) = script(data);
    let report = replay(&setup, &events);
    if let Some(violation) = report.violation {
        let end = (report.events + 1).min(events.len());
        panic!("{}", as_test(&setup, &events[..end], &violation));
    }
}

/// The script that an input stands for.
pub fn script(data: &[u8]) -> (Setup, Vec<Event>) {
    let mut input = Input::new(data);
    let setup = setup(&mut input);
    let mut events: Vec<Event> = vec![Event::CreateSpace(0), Event::CreateSpace(1)];
    while !input.is_empty() && events.len() < EVENTS_MAX {
        let event = event(&mut input, &setup);
        events.push(event);
    }
    (setup, events)
}

impl Input<'_> {
    fn below(&mut self, limit: u8) -> u64 {
        u64::from(self.byte() % limit)
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }

    fn ack(&mut self) -> Ack {
        self.of(&[Ack::Bounded, Ack::Synced, Ack::Volatile])
    }

    /// A keyspace and a key; both in the first byte, where there are few keys.
    fn place(&mut self, setup: &Setup) -> (u8, u32) {
        let byte = self.byte();
        let (space, low) = (byte >> 7, u32::from(byte & 0x7f));
        match setup.keys {
            0..=128 => (space, low),
            _ => (space, low << 8 | u32::from(self.byte())),
        }
    }

    fn len(&mut self, setup: &Setup) -> u32 {
        // With weak fingerprints chunks are lost to one another, which is told and nobody's fault.
        let has_room = setup.fingerprint_bits == 31 && setup.device_mib > CHUNKED_MIB;
        let byte = usize::from(self.byte());
        let lengths = if has_room {
            &LENGTHS[..]
        } else {
            &LENGTHS[..CHUNKED]
        };
        // The rest of the byte makes lengths differ that begin alike.
        lengths[byte % lengths.len()] + (byte / lengths.len()) as u32
    }
}

/// Options as a seed draws them, and over them what an input should be able to choose directly.
fn setup(input: &mut Input<'_>) -> Setup {
    let (mut setup, _) = generate(input.byte().into(), 0);
    setup.keys = input.of(&[12, 60, 128, 1500]);
    setup.families = input.byte().max(1);
    setup.device_mib = input.of(&[66, 66, 66, 120]);
    setup.memory_mib = input.of(&[16, 24, 64]);
    setup.fingerprint_bits = input.of(&[31, 31, 31, 31, 2, 6]);
    setup.exact = setup.fingerprint_bits < 31 && input.byte().is_multiple_of(2);
    setup.bound_ms = input.of(&[1000, 20, 2]);
    setup.bound_bytes = input.of(&[1 << 20, 4096, 64 << 10]);
    setup
}

/// One event; those that matter most have several bytes that stand for them.
fn event(input: &mut Input<'_>, setup: &Setup) -> Event {
    let kind = input.byte();
    match kind % 64 {
        0..=9 => {
            let (space, key) = input.place(setup);
            Event::Put(space, key, input.len(setup), input.ack())
        }
        10..=12 => {
            let (space, key) = input.place(setup);
            Event::Delete(space, key, input.ack())
        }
        13..=14 => {
            let (space, key) = input.place(setup);
            Event::PutFor(space, key, input.len(setup), input.of(&TIMES_MS))
        }
        15..=23 => conditional(kind % 64, input, setup),
        24..=27 => {
            let (seed, members) = (input.byte().into(), 1 + input.byte() % 60);
            let len = LENGTHS[usize::from(input.byte() % 10)];
            Event::Batch(seed, members, len, input.ack())
        }
        28 => {
            let (space, from) = input.place(setup);
            Event::DeleteRange(space, from, input.place(setup).1)
        }
        29 => {
            let (space, key) = input.place(setup);
            Event::DeletePrefix(space, key, input.byte() % 14)
        }
        30..=37 => read(kind % 64, input, setup),
        38 => Event::CreateSpace(input.byte() % 2),
        39 => Event::DropSpace(input.byte() % 2),
        40 => Event::SyncNow,
        41 => Event::FlushNow,
        42 => Event::CheckpointNow,
        43 => Event::Reopen,
        44 => Event::Compare,
        45..=51 => Event::Run(input.of(&STEPS)),
        52 => Event::Tick(input.of(&TICKS_US)),
        53..=55 => Event::InPause(input.byte().into()),
        56..=57 => {
            let (after, image) = (input.below(64), input.byte().into());
            let again = input.below(32);
            Event::Crash(after, image, again.saturating_sub(16), image)
        }
        58..=60 => Event::Arm(kind / 64, fault(input)),
        61 => Event::ArmOpen(kind / 64, fault(input)),
        62 => Event::Rot(input.of(&ZONES), input.byte().into()),
        _ => Event::Run(Step::Collect),
    }
}

fn conditional(kind: u8, input: &mut Input<'_>, setup: &Setup) -> Event {
    let (space, key) = input.place(setup);
    match kind {
        15..=16 => Event::Insert(space, key, input.len(setup)),
        17..=18 => Event::Replace(space, key, input.len(setup)),
        19 => Event::Take(space, key),
        20..=21 => Event::Update(space, key, input.byte().into()),
        _ => Event::Merge(space, key, input.byte().into()),
    }
}

fn read(kind: u8, input: &mut Input<'_>, setup: &Setup) -> Event {
    let (space, key) = input.place(setup);
    match kind {
        30 => Event::Get(space, key),
        31 => Event::GetPart(space, key, input.byte().into(), input.byte().into()),
        32 => Event::MultiGet(space, key, input.byte() % 40),
        33 => Event::Scan(space, key, input.place(setup).1, input.byte() % 16),
        34 => Event::TakeSnapshot,
        35 => Event::ReadSnapshot(input.byte() % 8, space, key),
        36 => Event::ScanSnapshot(input.byte() % 8, space),
        _ => Event::DropSnapshot(input.byte() % 8),
    }
}

/// A countdown of the device's requests, and what happens at its end.
fn fault(input: &mut Input<'_>) -> Fault {
    let kind = input.byte() % 16;
    let after = input.byte().into();
    match kind {
        0..=2 => Fault::FailWrite(after, input.below(64)),
        3..=5 => Fault::FailSync(after),
        6..=8 => Fault::FailRead(after),
        9 => Fault::NoSpace(after),
        10 => Fault::Gone(after),
        11..=12 => Fault::Latency(after, u64::from(input.byte()) * 1000),
        13 => Fault::MisdirectRead(after, 1 + input.below(64)),
        14 => Fault::MisdirectWrite(after, 1 + input.below(64)),
        _ => Fault::LieSync(after, 1 + input.below(3)),
    }
}

/// Scripts to start from: nothing, and bytes of each kind of event in a row.
pub fn scripts() -> Vec<Vec<u8>> {
    let mut random = crate::mutate::Random::new(1);
    let lengths = [0, 9, 60, 60, 200, 200, 600, 600, 1200];
    lengths
        .map(|len| (0..len).map(|_| random.bits() as u8).collect())
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a part of the store would be out of every input's reach.
    #[test]
    fn bytes_reach_every_kind_of_event() {
        let mut random = crate::mutate::Random::new(7);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let data: Vec<u8> = (0..600).map(|_| random.bits() as u8).collect();
            for event in script(&data).1 {
                let name = format!("{event:?}");
                let end = name.find(['(', ' ']).unwrap_or(name.len());
                seen.insert(name[..end].to_owned());
            }
        }
        assert_eq!(seen.len(), 33, "{seen:?}");
    }

    #[test]
    fn one_more_byte_leaves_the_events_before_it_alone() {
        let data: Vec<u8> = (0..=255).collect();
        let (setup, events) = script(&data);
        let (same, fewer) = script(&data[..200]);
        assert_eq!(setup, same);
        assert_eq!(events[..fewer.len() - 1], fewer[..fewer.len() - 1]);
        assert!(fewer.len() < events.len());
    }
}
