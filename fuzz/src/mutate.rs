//! Pseudo-random inputs from seeds: what the driver without libFuzzer feeds the targets.
//!
//! The same seed gives the same inputs everywhere. No threads.

const NUMBERS: [u8; 8] = [0, 1, 0x7f, 0x80, 0xfe, 0xff, 0x10, 0x40];

/// A small pseudo-random generator (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; zero is as good a seed as any other.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() >> 16) as usize % limit.max(1)
    }
}

/// An input: one of the seeds, mutated, or now and then bytes from nowhere.
pub fn input(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    if seeds.is_empty() || random.below(20) == 0 {
        let len = random.below(600);
        return (0..len).map(|_| random.bits() as u8).collect();
    }
    let mut data = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        mutate(random, &mut data, seeds);
    }
    data
}

/// Headers are where decoders decide: at the start, and at the start of a sector.
fn place(random: &mut Random, len: usize) -> usize {
    let near = random.below(len.min(96));
    match random.below(5) {
        0 => random.below(len),
        1 | 2 => (random.below(len.div_ceil(512)) * 512 + near) % len,
        _ => near,
    }
}

fn mutate(random: &mut Random, data: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    if data.is_empty() {
        data.push(random.bits() as u8);
        return;
    }
    let at = place(random, data.len());
    match random.below(8) {
        0 => data[at] ^= 1 << random.below(8),
        1 => data[at] = random.bits() as u8,
        2 => data[at] = NUMBERS[random.below(NUMBERS.len())],
        3 => data.truncate(random.below(data.len())),
        4 => {
            let end = (at + 1 + random.below(8)).min(data.len());
            data[at..end].fill(NUMBERS[random.below(NUMBERS.len())]);
        }
        5 => {
            let end = (at + random.below(16)).min(data.len());
            data.drain(at..end);
        }
        6 => data.insert(at, random.bits() as u8),
        _ => {
            let other = &seeds[random.below(seeds.len())];
            data.truncate(at);
            data.extend_from_slice(&other[at.min(other.len())..]);
        }
    }
}
