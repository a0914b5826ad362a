//! Whole stores that are damaged at places an input chooses, with checksums put right so that the
//! damage is believed, and then opened, read, written, collected and checked. No state but the
//! stores to damage, which are made once. Threads: any.

use std::sync::{Arc, OnceLock};

use heliox::{Batch, Media, Options, Result, Step, Store, WriteOptions};
use heliox_format::checkpoint::{peek_chunk, CHUNK_HEADER_BYTES};
use heliox_format::checksum::{checksum, ChecksumSalt};
use heliox_format::frame::{peek_frame, FrameShape};
use heliox_format::label::{HEAD_BYTES, LABEL_BYTES, LABEL_OFFSET};
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::segment::{SegmentHeader, SegmentKind, SEGMENT_HEADER_BYTES};
use heliox_format::superblock::{Superblock, SUPERBLOCK_OFFSETS};
use heliox_media::MemoryMedia;
use heliox_sim::Clock;

use crate::input::Input;
use crate::must::Must;

const SECTOR_BYTES: usize = 512;
const SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENTS: u64 = 16;
/// Patches of one input, at most.
const PATCHES_MAX: usize = 24;
/// More entries than any of the stores has, by far.
const ENTRIES_MAX: usize = 100_000;
/// What numbers in headers may turn into: the ends of their ranges, and what lies beside.
const NUMBERS: [u64; 12] = [
    0,
    1,
    2,
    511,
    512,
    4095,
    4096,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    u64::MAX - 1,
    u64::MAX,
];

/// A structure on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    kind: Kind,
    /// Where on the volume.
    at: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Label,
    Superblock,
    Header,
    Frame,
    Chunk,
}

/// A store to damage, and what it is made of.
struct Base {
    media: MemoryMedia,
    places: Vec<Place>,
    salt: ChecksumSalt,
}

/// Opens the store that an input makes of one of three, and uses it.
///
/// # Panics
/// When a step does not end. The store itself must not panic.
pub fn volume_open(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let bases = bases();
    let base = &bases[usize::from(choice) % bases.len()];
    let mut media = base.media.clone();
    for _ in 0..PATCHES_MAX {
        if input.is_empty() {
            break;
        }
        patch(base, &mut media, &mut input);
    }
    let media = Arc::new(media);
    if choice & 0x40 != 0 {
        let copy = Arc::new((*media).clone());
        let _ = Store::check("", &options(&copy), &mut |_| {});
    }
    // What it answers is up to the bytes; that it answers is not.
    let _ = used(&media);
    let _ = Store::check("", &options(&media), &mut |_| {});
}

/// Everything that reads what lies on media, and everything that derives new bytes from it.
fn used(media: &Arc<MemoryMedia>) -> Result<()> {
    let store = Store::open("", &options(media))?;
    for name in store.keyspaces() {
        let keyspace = store.keyspace(&name)?;
        for reverse in [false, true] {
            let iter = keyspace.iter();
            let iter = if reverse { iter.reverse() } else { iter };
            let entries = iter.start()?.take(ENTRIES_MAX).count();
            assert!(entries < ENTRIES_MAX, "an iteration does not end");
        }
        for n in [0, 7, 99, 150] {
            let _ = keyspace.get(key(n));
            let _ = keyspace.get_range(key(n), 3, 2000);
        }
        let _ = keyspace.multi_get(&(0..60).map(|n| key(n * 3)).collect::<Vec<_>>());
        let snapshot = store.snapshot()?;
        let _ = keyspace.put(key(7), b"again");
        let _ = keyspace.delete(key(99));
        let _ = keyspace.take(key(8));
        let _ = keyspace.get_at(key(99), &snapshot);
        let _ = keyspace.delete_range(key(20), key(30));
    }
    for step in [
        Step::Seal,
        Step::Checkpoint,
        Step::Collect,
        Step::Sweep,
        Step::Collect,
        Step::Upkeep,
    ] {
        let _ = store.step_of(step);
    }
    let _ = store.stats();
    store.close()
}

fn options(media: &Arc<MemoryMedia>) -> Options {
    Options::new()
        .volumes(vec![Arc::clone(media) as Arc<dyn Media>])
        .segment_bytes(SEGMENT_BYTES)
        .memory_budget_bytes(16 << 20)
        .hash_seed(7)
        .simulation(Arc::new(Clock::new(3)))
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// A store that was closed, one that was not, and one with survivors of a collection.
fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let made = [made(false, true), made(false, false), made(true, false)];
        made.map(|made| made.must("a store in memory can be made"))
            .into()
    })
}

fn made(collected: bool, closed: bool) -> Result<Base> {
    let len_bytes = HEAD_BYTES + SEGMENTS * SEGMENT_BYTES;
    let media = MemoryMedia::new(len_bytes, SECTOR_BYTES as u32).must("a device in memory");
    let media = Arc::new(media);
    let store = Store::create("", &options(&media))?;
    fill(&store)?;
    if collected {
        for _ in 0..3 {
            store.step_of(Step::Seal)?;
            store.step_of(Step::Collect)?;
        }
        store.sync()?;
    }
    // Clones share nothing that changes: what the store does on its way out is its own.
    let unclosed = (*media).clone();
    store.close()?;
    let media = if closed { (*media).clone() } else { unclosed };
    let mut block = vec![0; BLOCK_BYTES];
    media
        .peek(SUPERBLOCK_OFFSETS[0], &mut block)
        .must("the head is there");
    let superblock = Superblock::decode(SUPERBLOCK_OFFSETS[0], &block).must("a new store's");
    let salt = superblock.salt();
    Ok(Base {
        places: places(&media, salt),
        media,
        salt,
    })
}

/// A bit of everything: overwrites, deletes, batches, values over several blocks and in chunks, an
/// expiry, a range delete, a checkpoint in between, and a tail behind it.
fn fill(store: &Store) -> Result<()> {
    let main = store.create_keyspace("main")?;
    let side = store.create_keyspace("side")?;
    for n in 0..200 {
        let len = if n % 37 == 0 { 9000 } else { 40 + n as usize };
        main.put(key(n), vec![n as u8; len])?;
    }
    side.put(key(1), vec![1; (1 << 20) + 5000])?;
    let hour = WriteOptions::new().ttl_ms(3_600_000);
    side.put_with(key(2), b"for a while", &hour)?;
    for n in (0..200).step_by(7) {
        main.delete(key(n))?;
    }
    main.delete_range(key(100), key(120))?;
    store.sync()?;
    store.checkpoint()?;
    for n in (0..200).step_by(11) {
        main.put(key(n), b"a newer value")?;
        store.sync()?;
    }
    let mut batch = Batch::new();
    for n in 0..30 {
        batch.put(&side, key(n), b"of a batch");
    }
    batch.delete(&main, key(1));
    store.write(&batch)?;
    main.delete_range(key(60), key(70))?;
    store.sync()
}

/// Finds the structures of a volume.
fn places(media: &MemoryMedia, salt: ChecksumSalt) -> Vec<Place> {
    let place = |kind, at, len| Place { kind, at, len };
    let mut places = vec![place(Kind::Label, LABEL_OFFSET, LABEL_BYTES)];
    places.extend(SUPERBLOCK_OFFSETS.map(|at| place(Kind::Superblock, at, 256)));
    for id in 0..SEGMENTS {
        let (start, mut bytes) = (id * SEGMENT_BYTES, vec![0; SEGMENT_BYTES as usize]);
        media
            .peek(HEAD_BYTES + start, &mut bytes)
            .must("within the volume");
        let Ok(header) = SegmentHeader::decode(salt, start, &bytes) else {
            continue;
        };
        let is_checkpoint = header.kind == SegmentKind::Checkpoint;
        places.push(place(
            Kind::Header,
            HEAD_BYTES + start,
            SEGMENT_HEADER_BYTES,
        ));
        let mut at = SECTOR_BYTES;
        while at < bytes.len() {
            let address = start + at as u64;
            let found = match is_checkpoint {
                true => peek_chunk(address, &bytes[at..])
                    .ok()
                    .map(|h| (Kind::Chunk, CHUNK_HEADER_BYTES + h.payload_bytes as usize)),
                false => peek_frame(FrameShape::Plain, address, &bytes[at..])
                    .ok()
                    .map(|h| (Kind::Frame, usize::from(h.frame_bytes))),
            };
            let Some((kind, len)) = found else {
                break;
            };
            places.push(place(kind, HEAD_BYTES + address, len));
            at += len.next_multiple_of(SECTOR_BYTES);
        }
    }
    places
}

/// Damages one place, and mostly makes its checksum fit.
fn patch(base: &Base, media: &mut MemoryMedia, input: &mut Input<'_>) {
    let places = &base.places;
    // Heads, headers and checkpoints are few and decide most.
    let place = match input.byte() {
        0..=95 => {
            let few = places.iter().filter(|p| p.kind != Kind::Frame);
            let few: Vec<&Place> = few.collect();
            *few[below(input, few.len())]
        }
        _ => places[below(input, places.len())],
    };
    let mut bytes = vec![0; place.len];
    media.peek(place.at, &mut bytes).must("a place is there");
    let kind = input.byte();
    let offset = match kind & 0x40 {
        0 => below(input, place.len.min(96)),
        _ => below(input, place.len),
    };
    match kind % 8 {
        0 | 1 => bytes[offset] ^= input.byte(),
        2 | 3 => bytes[offset] = input.byte(),
        4 => overlay(&mut bytes, offset, &number(input).to_le_bytes()[..2]),
        5 => overlay(&mut bytes, offset, &number(input).to_le_bytes()[..4]),
        6 => overlay(&mut bytes, offset, &number(input).to_le_bytes()),
        _ => {
            let other = places[below(input, places.len())];
            let mut from = vec![0; other.len];
            media.peek(other.at, &mut from).must("a place is there");
            overlay(&mut bytes, 0, &from);
        }
    }
    media.poke(place.at, &bytes).must("a place is there");
    if kind & 0x80 == 0 {
        seal(base.salt, media, place);
    }
}

/// A number below `limit`, of two bytes; 0 when that is 0.
fn below(input: &mut Input<'_>, limit: usize) -> usize {
    let number = usize::from(input.byte()) << 8 | usize::from(input.byte());
    number % limit.max(1)
}

fn number(input: &mut Input<'_>) -> u64 {
    NUMBERS[usize::from(input.byte()) % NUMBERS.len()]
}

fn overlay(bytes: &mut [u8], offset: usize, with: &[u8]) {
    let over = bytes.iter_mut().skip(offset);
    over.zip(with).for_each(|(to, from)| *to = *from);
}

/// Puts the checksum of a structure right, by the length that it now says it has.
fn seal(salt: ChecksumSalt, media: &MemoryMedia, place: Place) {
    let flat = place.at.wrapping_sub(HEAD_BYTES);
    let mut bytes = vec![0; (1 << 20).min(SEGMENT_BYTES as usize)];
    let room = media.geometry().len_bytes - place.at;
    bytes.truncate(room.min(bytes.len() as u64) as usize);
    media.peek(place.at, &mut bytes).must("a place is there");
    let (salt, address, field, from, whole) = match place.kind {
        Kind::Label => (ChecksumSalt(0), 0, 8, 12, LABEL_BYTES),
        Kind::Superblock => (ChecksumSalt(0), place.at, 8, 12, BLOCK_BYTES),
        Kind::Header => (salt, flat, 0, 4, SEGMENT_HEADER_BYTES),
        Kind::Frame => match peek_frame(FrameShape::Plain, flat, &bytes) {
            Ok(header) => (salt, flat, 0, 4, usize::from(header.frame_bytes)),
            Err(_) => return,
        },
        Kind::Chunk => {
            let mut len = [0; 4];
            len.copy_from_slice(&bytes[20..24]);
            let whole = CHUNK_HEADER_BYTES.saturating_add(u32::from_le_bytes(len) as usize);
            (salt, flat, 0, 4, whole)
        }
    };
    if let Some(covered) = bytes.get(from..whole) {
        let crc = checksum(salt, address, covered);
        media
            .poke(place.at + field, &crc.to_le_bytes())
            .must("a place is there");
    }
}

/// Inputs that change one thing in each kind of place, and one that changes nothing.
pub fn patches() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0], vec![1], vec![0x42]];
    let mut random = crate::mutate::Random::new(5);
    for n in 0..40 {
        let len = 6 + 7 * (n % 4);
        let mut seed: Vec<u8> = (0..len).map(|_| random.bits() as u8).collect();
        seed[0] = n as u8;
        seeds.push(seed);
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stores_have_every_kind_of_place_and_open_as_they_are() {
        for base in bases() {
            for kind in [
                Kind::Label,
                Kind::Superblock,
                Kind::Header,
                Kind::Frame,
                Kind::Chunk,
            ] {
                let count = base.places.iter().filter(|p| p.kind == kind).count();
                assert!(count > 0, "no {kind:?}");
            }
            used(&Arc::new(base.media.clone())).unwrap();
        }
    }

    /// Else no input would get past the checksums.
    #[test]
    fn sealing_puts_every_checksum_right() {
        let base = &bases()[0];
        for place in &base.places {
            let field = match place.kind {
                Kind::Label | Kind::Superblock => 8,
                _ => 0,
            };
            let media = base.media.clone();
            let mut before = vec![0; place.len];
            media.peek(place.at, &mut before).unwrap();
            media
                .poke(place.at + field, &[!before[field as usize]])
                .unwrap();
            seal(base.salt, &media, *place);
            let mut after = vec![0; place.len];
            media.peek(place.at, &mut after).unwrap();
            assert_eq!(before, after, "{place:?}");
        }
    }
}
