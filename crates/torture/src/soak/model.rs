//! What one thread's part of the store must hold, exactly: nobody else writes its keys. A few bytes
//! a key, since there are millions. The owning thread only.

use heliox_media::Random;

use super::value::{Stamp, KEY_BYTES};

/// Keyspaces of the load that last.
pub(crate) const KEYSPACES: [&str; 2] = ["a", "b"];
/// What a record costs beside key and value, roughly.
const RECORD_BYTES: u64 = 36;

/// A key's state.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct State {
    /// Of the newest value; goes on after a delete, so that a value that comes back is known.
    version: u32,
    /// Of its value; 0 if it has none.
    bytes: u32,
    /// It may be expired from here on, in milliseconds of the run; 0 for never.
    may_expire: u32,
    /// And must be expired from here on.
    must_expire: u32,
}

/// Bytes that the model takes for a key.
pub(crate) const STATE_BYTES: u64 = size_of::<State>() as u64;

/// What a read may find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    /// No value.
    Absent,
    /// This value.
    Present(Stamp),
    /// This value, or none: it is about to expire.
    Either(Stamp),
}

impl Expected {
    /// True if a read may answer so.
    pub(crate) fn allows(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (Expected::Absent | Expected::Either(_), None) => true,
            (Expected::Present(stamp) | Expected::Either(stamp), Some(value)) => {
                Stamp::of(value) == Some(*stamp)
            }
            _ => false,
        }
    }
}

/// A thread's keys.
pub(crate) struct Part {
    thread: u16,
    /// Keyspace by keyspace.
    states: [Vec<State>; 2],
    live_bytes: u64,
}

impl Part {
    pub(crate) fn new(thread: u16, slots: u32) -> Part {
        let none = || vec![State::default(); slots as usize];
        Part {
            thread,
            states: [none(), none()],
            live_bytes: 0,
        }
    }

    pub(crate) fn slots(&self) -> u32 {
        self.states[0].len() as u32
    }

    /// What the store needs for this part, roughly.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Keys that expire are apart: nothing depends on whether they are there.
    pub(crate) fn expires(keyspace: usize, slot: u32) -> bool {
        keyspace == 1 && slot % 16 == 7
    }

    fn states(&self, keyspace: usize) -> &[State] {
        let [first, second] = &self.states;
        if keyspace == 0 {
            first
        } else {
            second
        }
    }

    /// The value that the next write of this key has.
    pub(crate) fn next(&self, keyspace: usize, slot: u32, bytes: u32) -> Stamp {
        let version = self.state(keyspace, slot).version + 1;
        self.stamp(keyspace, slot, version, bytes)
    }

    fn stamp(&self, keyspace: usize, slot: u32, version: u32, bytes: u32) -> Stamp {
        Stamp {
            thread: self.thread,
            keyspace: keyspace as u16,
            slot,
            version,
            bytes,
        }
    }

    pub(crate) fn state(&self, keyspace: usize, slot: u32) -> State {
        let state = self.states(keyspace).get(slot as usize);
        state.copied().unwrap_or_default()
    }

    /// What a read between two moments of the run may find.
    pub(crate) fn expected(&self, keyspace: usize, slot: u32, begun: u32, ended: u32) -> Expected {
        let state = self.state(keyspace, slot);
        if state.bytes == 0 || (state.must_expire != 0 && begun >= state.must_expire) {
            return Expected::Absent;
        }
        let stamp = self.stamp(keyspace, slot, state.version, state.bytes);
        if state.may_expire != 0 && ended >= state.may_expire {
            return Expected::Either(stamp);
        }
        Expected::Present(stamp)
    }

    /// A key that never expires has a value.
    pub(crate) fn has(&self, keyspace: usize, slot: u32) -> bool {
        self.state(keyspace, slot).bytes != 0
    }

    /// The key was given this value; it expires between these moments, if at all.
    pub(crate) fn wrote(&mut self, stamp: &Stamp, expiry: Option<(u32, u32)>) {
        let (may_expire, must_expire) = expiry.unwrap_or((0, 0));
        self.set(
            usize::from(stamp.keyspace),
            stamp.slot,
            State {
                version: stamp.version,
                bytes: stamp.bytes,
                may_expire,
                must_expire,
            },
        );
    }

    /// The key has no value any more.
    pub(crate) fn deleted(&mut self, keyspace: usize, slot: u32) {
        let version = self.state(keyspace, slot).version;
        let state = State {
            version,
            ..State::default()
        };
        self.set(keyspace, slot, state);
    }

    fn set(&mut self, keyspace: usize, slot: u32, state: State) {
        let [first, second] = &mut self.states;
        let states = if keyspace == 0 { first } else { second };
        if let Some(place) = states.get_mut(slot as usize) {
            self.live_bytes -= cost(place);
            self.live_bytes += cost(&state);
            *place = state;
        }
    }

    /// Makes the model wrong about one key: whoever reads it must complain.
    pub(crate) fn falsify(&mut self) {
        let slots = self.slots();
        if let Some(slot) = (0..slots).find(|slot| self.has(0, *slot)) {
            let bytes = self.state(0, slot).bytes;
            let stamp = self.next(0, slot, bytes);
            self.wrote(&stamp, None);
        }
    }
}

fn cost(state: &State) -> u64 {
    match state.bytes {
        0 => 0,
        bytes => u64::from(bytes) + KEY_BYTES + RECORD_BYTES,
    }
}

/// Ranks by Zipf's law (exponent 0.99), as in Gray et al., "Quickly generating billion-record
/// synthetic databases"; scattered, so that what is hot does not stand together.
pub(crate) struct Zipf {
    slots: u32,
    zeta: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipf {
    pub(crate) fn new(slots: u32) -> Zipf {
        let zeta: f64 = (1..=slots).map(|n| f64::from(n).powf(-THETA)).sum();
        let two = 1.0 + 0.5_f64.powf(THETA);
        let eta = (1.0 - (2.0 / f64::from(slots)).powf(1.0 - THETA)) / (1.0 - two / zeta);
        Zipf { slots, zeta, eta }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        let unit = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let at = unit * self.zeta;
        let rank = if at < 1.0 {
            0
        } else if at < 1.0 + 0.5_f64.powf(THETA) {
            1
        } else {
            let share = (self.eta * (unit - 1.0) + 1.0).powf(1.0 / (1.0 - THETA));
            (f64::from(self.slots) * share) as u64
        };
        (rank.wrapping_mul(0x9e37_79b1) % u64::from(self.slots)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_comes_back_is_not_expected() {
        let mut part = Part::new(2, 32);
        let first = part.next(0, 5, 100);
        part.wrote(&first, None);
        assert_eq!(part.expected(0, 5, 9, 9), Expected::Present(first));
        let used = part.live_bytes();
        let second = part.next(0, 5, 100);
        assert_ne!(first, second);
        part.wrote(&second, None);
        assert_eq!(part.live_bytes(), used);
        let expected = part.expected(0, 5, 9, 9);
        assert!(expected.allows(Some(&second.value())));
        assert!(!expected.allows(Some(&first.value())) && !expected.allows(None));
        part.deleted(0, 5);
        assert_eq!((part.live_bytes(), part.has(0, 5)), (0, false));
        assert!(part.next(0, 5, 100).version > second.version);
    }

    #[test]
    fn what_is_about_to_expire_may_be_there_or_not() {
        let mut part = Part::new(0, 32);
        let stamp = part.next(1, 7, 50);
        part.wrote(&stamp, Some((1000, 1010)));
        assert_eq!(part.expected(1, 7, 990, 999), Expected::Present(stamp));
        assert_eq!(part.expected(1, 7, 990, 1000), Expected::Either(stamp));
        assert_eq!(part.expected(1, 7, 1009, 1020), Expected::Either(stamp));
        assert_eq!(part.expected(1, 7, 1010, 1020), Expected::Absent);
    }

    #[test]
    fn few_keys_are_drawn_often() {
        let (zipf, mut random) = (Zipf::new(10_000), Random::new(1));
        let mut counts = vec![0_u32; 10_000];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hottest: u32 = counts[..100].iter().sum();
        assert!((40_000..70_000).contains(&hottest), "{hottest}");
        assert!(counts[5_000..].iter().sum::<u32>() > 1_000);
    }
}
