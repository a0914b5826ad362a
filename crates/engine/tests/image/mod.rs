//! Stores as images that a test can damage and open again and again, and what is in them.
#![allow(dead_code, unreachable_pub)] // no test uses all of it
#![allow(clippy::unwrap_used)] // these are tests

use std::collections::BTreeMap;
use std::sync::Arc;

use heliox::{Batch, CheckReport, Media, Options, Store};
use heliox_format::checksum::ChecksumSalt;
use heliox_format::ids::SegmentId;
use heliox_format::label::HEAD_BYTES;
use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_format::superblock::{Superblock, SUPERBLOCK_OFFSETS};
use heliox_media::MemoryMedia;

pub const SEGMENT_BYTES: u64 = 4 << 20;
pub const BLOCK_BYTES: usize = 4096;
/// The smallest store: a head and 16 segments.
pub const STORE_BYTES: u64 = HEAD_BYTES + 16 * SEGMENT_BYTES;

/// Seeded choices (splitmix64).
#[derive(Clone)]
pub struct Choices(pub u64);

impl Choices {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// The blocks of a volume that are not zero.
#[derive(Clone)]
pub struct Image {
    pub blocks: BTreeMap<u64, Vec<u8>>,
}

impl Image {
    pub fn of(media: &MemoryMedia) -> Image {
        let mut blocks = BTreeMap::new();
        let mut block = vec![0; BLOCK_BYTES];
        for at in (0..STORE_BYTES).step_by(BLOCK_BYTES) {
            media.peek(at, &mut block).unwrap();
            if block.iter().any(|b| *b != 0) {
                blocks.insert(at, block.clone());
            }
        }
        Image { blocks }
    }

    /// A volume with this content.
    pub fn media(&self) -> Arc<MemoryMedia> {
        let media = MemoryMedia::new(STORE_BYTES, 512).unwrap();
        for (at, block) in &self.blocks {
            media.poke(*at, block).unwrap();
        }
        Arc::new(media)
    }

    pub fn flip(&mut self, at: u64, bit: u8) {
        let block = at - at % BLOCK_BYTES as u64;
        let bytes = self
            .blocks
            .entry(block)
            .or_insert_with(|| vec![0; BLOCK_BYTES]);
        bytes[(at - block) as usize] ^= 1 << bit;
    }

    pub fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let zeros = vec![0; BLOCK_BYTES];
        let byte = |at: u64| {
            let block = at - at % BLOCK_BYTES as u64;
            self.blocks.get(&block).unwrap_or(&zeros)[(at - block) as usize]
        };
        (at..at + len as u64).map(byte).collect()
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let at = at + i as u64;
            let block = at - at % BLOCK_BYTES as u64;
            let target = self
                .blocks
                .entry(block)
                .or_insert_with(|| vec![0; BLOCK_BYTES]);
            target[(at - block) as usize] = *byte;
        }
    }

    pub fn superblock(&self) -> Superblock {
        let decode = |at: &u64| Superblock::decode(*at, &self.bytes(*at, BLOCK_BYTES)).ok();
        SUPERBLOCK_OFFSETS
            .iter()
            .filter_map(decode)
            .max_by_key(|s| s.generation)
            .unwrap()
    }

    /// The header of a segment, if it has one.
    pub fn segment(&self, id: SegmentId) -> Option<SegmentHeader> {
        let salt: ChecksumSalt = self.superblock().salt();
        let start = u64::from(id.0) * SEGMENT_BYTES;
        SegmentHeader::decode(salt, start, &self.bytes(HEAD_BYTES + start, 512)).ok()
    }

    /// Where on the volume the first segment of this kind starts; of a checkpoint, the newest one.
    pub fn start_of(&self, kind: SegmentKind) -> u64 {
        let newest = self.superblock().checkpoint.map_or(0, |c| c.number);
        let wanted = |id: &u32| {
            let header = self.segment(SegmentId(*id));
            header.is_some_and(|h| {
                h.kind == kind && (kind != SegmentKind::Checkpoint || h.checkpoint == newest)
            })
        };
        let id = (0..16u32).find(wanted).unwrap();
        HEAD_BYTES + u64::from(id) * SEGMENT_BYTES
    }
}

pub fn options(media: &Arc<MemoryMedia>) -> Options {
    Options::new()
        .volumes(vec![Arc::clone(media) as Arc<dyn Media>])
        .segment_bytes(SEGMENT_BYTES)
        .capacity_bytes(STORE_BYTES)
        .memory_budget_bytes(16 << 20)
        .background(false)
        .hash_seed(7)
}

pub fn check(image: &Image) -> CheckReport {
    check_with(&options(&image.media()))
}

pub fn check_with(options: &Options) -> CheckReport {
    let mut last = 0;
    let report = Store::check("", options, &mut |progress| {
        assert!(progress.done_bytes >= last && progress.done_bytes <= progress.total_bytes);
        last = progress.done_bytes;
    });
    report.unwrap()
}

/// What a store holds: for each key its present value and all that it ever had.
#[derive(Clone, Default)]
pub struct Content {
    pub now: BTreeMap<(String, Vec<u8>), Option<Vec<u8>>>,
    pub ever: BTreeMap<(String, Vec<u8>), Vec<Vec<u8>>>,
}

impl Content {
    pub fn set(&mut self, keyspace: &str, key: &[u8], value: Option<&[u8]>) {
        let id = (keyspace.to_owned(), key.to_vec());
        if let Some(value) = value {
            self.ever
                .entry(id.clone())
                .or_default()
                .push(value.to_vec());
        }
        self.now.insert(id, value.map(<[u8]>::to_vec));
    }
}

/// Writes a bit of everything: two keyspaces, overwrites, deletes, a batch, a range delete, values
/// over several blocks and in chunks, a checkpoint in between and a tail that was synced piece by
/// piece, so that later frames tell which orders were durable.
pub fn fill(store: &Store, content: &mut Content, large: bool) {
    let mut choices = Choices(11);
    let main = store.create_keyspace("main").unwrap();
    let side = store.create_keyspace("side").unwrap();
    for i in 0..900u32 {
        let key = format!("key{i:06}");
        let n = 20 + choices.below(200) as usize;
        let value = choices.bytes(if i % 97 == 0 { 9000 } else { n });
        main.put(&key, &value).unwrap();
        content.set("main", key.as_bytes(), Some(&value));
    }
    if large {
        let value = choices.bytes((1 << 20) + 5000);
        side.put("large", &value).unwrap();
        content.set("side", b"large", Some(&value));
    }
    store.sync().unwrap();
    for i in (0..900u32).step_by(7) {
        let key = format!("key{i:06}");
        main.delete(&key).unwrap();
        content.set("main", key.as_bytes(), None);
    }
    main.delete_range("key000100", "key000120").unwrap();
    for i in 100..120 {
        content.set("main", format!("key{i:06}").as_bytes(), None);
    }
    store.checkpoint().unwrap();
    for i in (0..900u32).step_by(11) {
        let key = format!("key{i:06}");
        let value = choices.bytes(150);
        main.put(&key, &value).unwrap();
        content.set("main", key.as_bytes(), Some(&value));
        if i % 5 == 0 {
            store.sync().unwrap();
        }
    }
    let mut batch = Batch::new();
    for i in 0..40u32 {
        let (key, value) = (format!("b{i}"), choices.bytes(60));
        batch.put(&side, &key, &value);
        content.set("side", key.as_bytes(), Some(&value));
    }
    batch.delete(&main, "key000001");
    content.set("main", b"key000001", None);
    store.write(&batch).unwrap();
    store.sync().unwrap();
    // The last frame: nothing after it tells that it was durable.
    side.put("last", "word").unwrap();
    store.sync().unwrap();
}

/// A closed store with its content.
pub fn closed(large: bool) -> (Image, Content) {
    let media = Arc::new(MemoryMedia::new(STORE_BYTES, 512).unwrap());
    let mut content = Content::default();
    let store = Store::create("", &options(&media)).unwrap();
    fill(&store, &mut content, large);
    content.set("side", b"last", Some(b"word"));
    store.close().unwrap();
    (Image::of(&media), content)
}

/// The same store, not closed: what media hold when the machine stops after the last sync.
pub fn crashed(large: bool) -> (Image, Content) {
    let media = Arc::new(MemoryMedia::new(STORE_BYTES, 512).unwrap());
    let mut content = Content::default();
    let store = Store::create("", &options(&media)).unwrap();
    fill(&store, &mut content, large);
    let image = Image::of(&media);
    drop(store);
    (image, content)
}
