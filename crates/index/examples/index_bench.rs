//! Measures the index: bytes per object, candidates per seek, and millions of operations a second.
//!
//! `index_bench [random|user|seq|url|hex|uuid|decimal] [objects] [threads] [urls]`. Keys are made of their number, so
//! that the source of keys costs no memory. Key making is left out of no figure. With `urls`, so many
//! of them are put into the keyspace before first; figures are of what comes after.

use std::time::Instant;

use heliox_format::ids::{KeyspaceId, Location};
use heliox_index::{
    Action, Direction, Entry, Index, IndexError, IndexOptions, KeyRead, KeySource, Next,
    PreparedKey, ScanBatch, ScanFrom, SourceError,
};

const SEED: u64 = 99;
const KEYSPACE: KeyspaceId = KeyspaceId(1);
/// Numbers from here on are those of URLs in the keyspace before.
const URLS: u64 = 1 << 38;
const BATCH: u64 = 16;

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Copy)]
enum Family {
    Random,
    User,
    Sequential,
    Url,
    Hex,
    Uuid,
    Decimal,
}

/// A key in a buffer of its own.
struct Key {
    keyspace: KeyspaceId,
    bytes: [u8; 96],
    len: usize,
}

impl Family {
    fn key(self, id: u64) -> Key {
        let is_beside = id & URLS != 0;
        let mut key = Key {
            keyspace: KeyspaceId(KEYSPACE.0 - u32::from(is_beside)),
            bytes: [0; 96],
            len: 16,
        };
        match if is_beside { Family::Url } else { self } {
            Family::Random => {
                key.bytes[..8].copy_from_slice(&mix(2 * id + 1).to_be_bytes());
                key.bytes[8..16].copy_from_slice(&mix(2 * id + (1 << 60)).to_be_bytes());
            }
            Family::User => key.text("user", mix(id) >> 1),
            Family::Hex => key.copy(&format!("{:016x}", mix(id))),
            Family::Uuid => {
                let (a, b) = (mix(id), mix(id ^ 1 << 50));
                key.copy(&format!(
                    "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                    a >> 32,
                    a >> 16 & 0xffff,
                    a & 0xfff,
                    b >> 48 & 0xfff,
                    b & 0xffff_ffff_ffff
                ));
            }
            // A permutation of the first numbers, so that ids are dense and come in no order.
            Family::Decimal => key.copy(&format!(
                "{:012}",
                id.wrapping_mul(0x9e37_79b1) & 0xffff_ffff
            )),
            Family::Sequential => key.bytes[..8].copy_from_slice(&id.to_be_bytes()),
            Family::Url => {
                key.copy(&format!(
                    "https://www.site{:05}.com/articles{}/{:x}",
                    mix(id) % 20_000,
                    mix(id) >> 32 & 31,
                    mix(id ^ 77) >> 24
                ));
            }
        }
        key
    }
}

impl Key {
    fn copy(&mut self, text: &str) {
        self.len = text.len();
        self.bytes[..self.len].copy_from_slice(text.as_bytes());
    }

    fn text(&mut self, front: &str, mut number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        while number > 0 || at == digits.len() {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.len = front.len() + digits.len() - at;
        self.bytes[..front.len()].copy_from_slice(front.as_bytes());
        self.bytes[front.len()..self.len].copy_from_slice(&digits[at..]);
    }

    fn prepared(&self) -> PreparedKey<'_> {
        PreparedKey::new(SEED, self.keyspace, &self.bytes[..self.len])
    }

    fn internal(&self) -> Vec<u8> {
        [&self.keyspace.0.to_be_bytes()[..], &self.bytes[..self.len]].concat()
    }
}

impl KeySource for Family {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        *out = self.key(location.bits()).internal();
        Ok(KeyRead::Found)
    }
}

fn insert(index: &Index, family: Family, ids: impl Iterator<Item = u64>) -> Result<(), IndexError> {
    for id in ids {
        let entry = Entry {
            location: Location::from_bits(id),
            tombstone: false,
        };
        index.update(
            &family.key(id).prepared(),
            &family,
            |matches| match matches.first() {
                Some(held) => (
                    Action::Replace {
                        old: held.location,
                        new: entry,
                    },
                    (),
                ),
                None => (Action::Insert(entry), ()),
            },
        )?;
    }
    Ok(())
}

fn rate(count: u64, started: Instant) -> f64 {
    count as f64 / started.elapsed().as_secs_f64() / 1e6
}

fn look_up(index: &Index, family: Family, ids: impl Iterator<Item = u64>) -> u64 {
    ids.map(|id| index.lookup(&family.key(id).prepared()).len() as u64)
        .sum()
}

fn look_up_many(index: &Index, family: Family, ids: &mut dyn Iterator<Item = u64>) -> u64 {
    let (mut found, mut out) = (0, Vec::new());
    loop {
        let keys: Vec<Key> = ids.take(BATCH as usize).map(|id| family.key(id)).collect();
        if keys.is_empty() {
            return found;
        }
        let prepared: Vec<_> = keys.iter().map(Key::prepared).collect();
        index.lookup_many(&prepared, &mut out);
        found += out.iter().map(|matches| matches.len() as u64).sum::<u64>();
    }
}

fn main() -> Result<(), IndexError> {
    let mut arguments = std::env::args().skip(1);
    let family = match arguments.next().as_deref() {
        Some("user") => Family::User,
        Some("seq") => Family::Sequential,
        Some("url") => Family::Url,
        Some("hex") => Family::Hex,
        Some("uuid") => Family::Uuid,
        Some("decimal") => Family::Decimal,
        _ => Family::Random,
    };
    let count: u64 = arguments
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(20_000_000);
    let threads: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let urls: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let index = Index::new(IndexOptions {
        seed: SEED,
        ..IndexOptions::default()
    })?;
    insert(&index, family, URLS..URLS + urls)?;
    let before = index.stats();

    let started = Instant::now();
    let failed = std::thread::scope(|scope| {
        let spawn = |thread| {
            let index = &index;
            scope.spawn(move || insert(index, family, (thread..count).step_by(threads as usize)))
        };
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().ok()?.err())
            .next()
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let inserts = rate(count, started);

    let probes = (count / 4).min(4_000_000);
    let existing = |salt: u64| (0..probes).map(move |n| mix(n + salt) % count);
    let candidates: usize = existing(1)
        .map(|id| index.seek_candidates(&family.key(id).prepared()))
        .sum();
    let started = Instant::now();
    let hits = look_up(&index, family, existing(2));
    let lookups = rate(probes, started);
    let started = Instant::now();
    let many_hits = look_up_many(&index, family, &mut existing(3));
    let many = rate(probes, started);
    let started = Instant::now();
    let false_hits = look_up(&index, family, existing(4).map(|id| id + (1 << 40)));
    let misses = rate(probes, started);
    let started = Instant::now();
    insert(&index, family, existing(5))?;
    let overwrites = rate(probes, started);

    let stats = index.stats();
    println!(
        "objects {} leaves {} keyed {} blocks {} free {}",
        stats.entries, stats.leaves, stats.keyed_leaves, stats.blocks, stats.free_blocks
    );
    println!(
        "bytes per object {:.3}",
        (stats.memory_bytes - before.memory_bytes) as f64 / count as f64
    );
    println!(
        "candidates per seek {:.3}, tied {:.1} %",
        candidates as f64 / probes as f64,
        100.0 * stats.tied_entries as f64 / stats.entries as f64
    );
    println!(
        "key reads per insert {:.4}, splits {}",
        (stats.key_reads - before.key_reads) as f64 / count as f64,
        stats.splits - before.splits
    );
    println!("M/s: insert {inserts:.2} ({threads} threads), lookup {lookups:.2}, lookup_many({BATCH}) {many:.2}, miss {misses:.2}, overwrite {overwrites:.2}");
    println!("hits {hits} and {many_hits} of {probes}, false hits {false_hits}");
    scans(&index, family, count);
    image(&index, count)
}

/// Seeks for eight entries, then a scan of everything in batches of 256, of the index alone.
fn scans(index: &Index, family: Family, count: u64) {
    let mut batch = ScanBatch::default();
    for direction in [Direction::Forward, Direction::Backward] {
        let (seeks, started) = ((count / 4).min(1_000_000), Instant::now());
        let mut entries = 0;
        for number in 0..seeks {
            let internal = family.key(mix(number + 6) % count).internal();
            index.scan(ScanFrom::At(&internal), direction, 8, &mut batch);
            entries += batch.entries.len();
        }
        let seeks_rate = rate(seeks, started);
        let (started, mut all) = (Instant::now(), 0);
        let mut at = None::<Vec<u8>>;
        loop {
            let from = match (&at, direction) {
                (None, Direction::Forward) => ScanFrom::Start,
                (None, Direction::Backward) => ScanFrom::End,
                (Some(key), _) => ScanFrom::At(key),
            };
            index.scan(from, direction, 256, &mut batch);
            all += batch.entries.len() as u64;
            match (std::mem::take(&mut batch.next), batch.entries.last()) {
                (Next::Leaf(fence), _) => at = Some(fence),
                (Next::More, Some(last)) => {
                    let mut internal = Vec::new();
                    let read = family.read_key(last.entry.location, &mut internal);
                    at = read.ok().map(|_| internal);
                }
                _ => break,
            }
        }
        println!(
            "{direction:?}: {seeks_rate:.3} M seeks/s for 8 ({:.1} entries each), full scan of {all} entries at {:.1} M/s",
            entries as f64 / seeks as f64,
            rate(all, started)
        );
    }
}

fn image(index: &Index, count: u64) -> Result<(), IndexError> {
    let started = Instant::now();
    let (mut cursor, mut image) = (index.image_start(), Vec::new());
    while index
        .image_next(&mut cursor, &mut image, &mut Default::default)?
        .is_some()
    {}
    let written = rate(count, started);
    let started = Instant::now();
    let mut loader = Index::loader(IndexOptions {
        seed: SEED,
        ..IndexOptions::default()
    });
    let mut rest = image.as_slice();
    while !rest.is_empty() {
        if loader.push(&mut rest).is_err() {
            return Err(IndexError::Internal("an image does not load"));
        }
    }
    let loaded = loader.finish().map(|index| index.memory_bytes());
    println!("image: {:.2} bytes per object, written at {written:.1} M/s, loaded at {:.1} M/s, then {loaded:?} bytes", image.len() as f64 / count as f64, rate(count, started));
    Ok(())
}
