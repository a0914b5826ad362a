//! What earlier versions wrote must stay readable. `golden/store-1.rle` is a store of format
//! version 1, stopped without a close; `golden/store-1.txt` is what it holds. `golden/store-2.rle` is the
//! same, encrypted (version 2), without what would make it big; its master key changed before its tail
//! was written, so it has two data keys and frames of two sessions. `golden/layout-1.txt` freezes the
//! bytes of each structure. A change of these files is a change of the format: it needs
//! a new version, new files beside the old ones, and code that reads both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // these are tests

mod image;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heliox::{Batch, Options, Store, WriteOptions};
use heliox_format::checkpoint::{
    encode_chunk, CheckpointMeta, ChunkHeader, ChunkKind, KeyspaceEntry, RangeEntry, SegmentEntry,
};
use heliox_format::checksum::{checksum, ChecksumSalt};
use heliox_format::frame::{seal_frame, FrameHeader};
use heliox_format::ids::{
    Birth, Incarnation, KeyspaceId, Location, MediaClass, SegmentId, SeqNo, StoreUuid,
};
use heliox_format::label::Label;
use heliox_format::record::{RecordHeader, RecordKind, Settles};
use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_format::superblock::{CheckpointRoot, Cut, Superblock};
use heliox_format::{checkpoint, frame, label, limits, record, segment, superblock};
use heliox_index::{
    Action, Entry, Index, IndexOptions, KeyRead, KeySource, PreparedKey, SourceError,
};
use heliox_media::MemoryMedia;
use image::{check_with, options, Choices, Image, BLOCK_BYTES, STORE_BYTES};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

// ---- the store ----

const LONGEST: &str = "the longest key";
const LARGE: &str = "large";
/// Master keys of the encrypted store.
const FIRST_KEY: [u8; 32] = [0x11; 32];
const SECOND_KEY: [u8; 32] = [0x22; 32];

fn encrypted(media: &Arc<MemoryMedia>, key: [u8; 32]) -> Options {
    options(media).encryption(heliox::KeySource::bytes(key))
}

/// With the tail, everything that a store can hold; `is_big`: also what takes much room where it does not
/// compress. The same on each run, but for the store's uuid, its times and what encryption draws.
fn write_checkpointed(store: &Store, is_big: bool) {
    let mut choices = Choices(1);
    let fruit = store.create_keyspace("fruit").unwrap();
    let size = store.create_keyspace("Größe").unwrap();
    let gone = store.create_keyspace("gone").unwrap();
    for i in 0..400u32 {
        let n = 5 + choices.below(30) as usize;
        fruit.put(format!("key{i:05}"), choices.bytes(n)).unwrap();
        gone.put(format!("key{i:05}"), "soon gone").unwrap();
    }
    for i in 0..200u32 {
        let url = format!("https://example.org/fruit/kinds/{}/page-{}", i % 7, i);
        size.put(url, i.to_string()).unwrap();
    }
    let odd: [&[u8]; 7] = [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0\xff",
        b"\xff\xff",
        b"a",
        b"a\0",
    ];
    for key in odd {
        fruit.put(key, [b"odd ", key].concat()).unwrap();
    }
    fruit.put("empty", "").unwrap();
    fruit.put("blocks", vec![b'b'; 9_000]).unwrap();
    if is_big {
        fruit.put(vec![b'k'; 65_535], LONGEST).unwrap();
        size.put(LARGE, vec![b'L'; (1 << 20) + 77]).unwrap();
    }
    let century = WriteOptions::new().ttl_ms(100 * 365 * 24 * 3600 * 1000);
    fruit.put_with("for a century", "kept", &century).unwrap();
    fruit
        .put_with("for a moment", "expired", &WriteOptions::new().ttl_ms(1))
        .unwrap();
    (0..400)
        .step_by(5)
        .for_each(|i| fruit.put(format!("key{i:05}"), "overwritten").unwrap());
    (0..400)
        .step_by(9)
        .for_each(|i| fruit.delete(format!("key{i:05}")).unwrap());
    store.sync().unwrap();
    store.checkpoint().unwrap();
}

fn write_tail(store: &Store) {
    let fruit = store.keyspace("fruit").unwrap();
    let size = store.keyspace("Größe").unwrap();
    (0..400)
        .step_by(11)
        .for_each(|i| fruit.put(format!("key{i:05}"), "in the tail").unwrap());
    let mut batch = Batch::new();
    batch.put(&fruit, "batch 1", "both");
    batch.put(&size, "batch 2", "or none");
    batch.delete(&fruit, "key00001");
    store.write(&batch).unwrap();
    fruit.delete_range("key00100", "key00150").unwrap();
    size.delete_prefix("https://example.org/fruit/kinds/3/")
        .unwrap();
    store.drop_keyspace("gone").unwrap();
    fruit.put("key00120", "after the range delete").unwrap();
    store
        .create_keyspace("late")
        .unwrap()
        .put("k", "v")
        .unwrap();
    store.sync().unwrap();
}

fn dump(store: &Store) -> String {
    let mut text = String::new();
    for name in store.keyspaces() {
        for item in store.keyspace(&name).unwrap().iter().start().unwrap() {
            let (key, value) = item.unwrap();
            writeln!(text, "{name}\t{}\t{}", shown(&key), shown(&value)).unwrap();
        }
    }
    text
}

fn shown(bytes: &[u8]) -> String {
    if bytes.len() > 64 {
        let crc = checksum(ChecksumSalt(0), 0, bytes);
        return format!("{} bytes, CRC-32C {crc:08x}", bytes.len());
    }
    bytes.escape_ascii().to_string()
}

fn image(golden: &str) -> Image {
    let bytes = unpack(&std::fs::read(file(golden)).unwrap());
    let mut image = Image {
        blocks: Default::default(),
    };
    image.write(0, &bytes);
    image
        .blocks
        .retain(|_, block| block.iter().any(|b| *b != 0));
    image
}

/// A golden store opens, checks clean, holds what it should, and is written on.
fn is_read_checked_and_written_on(
    media: &Arc<MemoryMedia>,
    options: impl Fn(&Arc<MemoryMedia>) -> Options,
    expected: &str,
) {
    let report = check_with(&options(media));
    assert_eq!(report.problems, Vec::<String>::new());
    let store = Store::open("", &options(media)).unwrap();
    assert!(store.stats().recovery.tail_records > 40);
    assert!(
        dump(&store) == expected,
        "the store reads differently:\n{}",
        dump(&store)
    );
    store.keyspace("late").unwrap().put("l", "w").unwrap();
    store.close().unwrap();
    let store = Store::open("", &options(media)).unwrap();
    let with_one_more = dump(&store);
    let rest: String = with_one_more
        .split_inclusive('\n')
        .filter(|l| !l.starts_with("late\tl\t"))
        .collect();
    assert!(rest == expected && with_one_more.len() > rest.len());
    store.close().unwrap();
    assert_eq!(check_with(&options(media)).problem_count, 0);
}

fn expected() -> String {
    let expected = std::fs::read_to_string(file("store-1.txt")).unwrap();
    assert!(expected.lines().count() > 500, "the golden text is there");
    expected
}

#[test]
fn the_store_of_version_1_is_read_checked_and_written_on() {
    let media = image("store-1.rle").media();
    is_read_checked_and_written_on(&media, options, &expected());
}

#[test]
fn the_encrypted_store_of_version_2_is_read_checked_and_written_on() {
    let is_big = |line: &str| line.ends_with(LONGEST) || line.contains(&format!("\t{LARGE}\t"));
    let all = expected();
    let small: String = all
        .split_inclusive('\n')
        .filter(|line| !is_big(line.trim_end()))
        .collect();
    assert_eq!(small.lines().count() + 2, all.lines().count());
    let image = image("store-2.rle");
    assert_eq!(image.superblock().keys.len(), 2);
    let with_key = |media: &Arc<MemoryMedia>| encrypted(media, SECOND_KEY);
    is_read_checked_and_written_on(&image.media(), with_key, &small);
}

// ---- the layout ----

fn hex(text: &mut String, what: &str, bytes: &[u8]) {
    let used = bytes
        .iter()
        .rposition(|b| *b != 0)
        .map_or(0, |last| last + 1);
    writeln!(text, "{what}: {} bytes", bytes.len()).unwrap();
    for (n, line) in bytes[..used].chunks(32).enumerate() {
        let line: String = line.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(text, "  {:04x} {line}", n * 32).unwrap();
    }
}

fn layout() -> String {
    let mut text = String::new();
    let sizes = [
        ("block", limits::BLOCK_BYTES as u64),
        ("volume head", label::HEAD_BYTES),
        ("label", label::LABEL_BYTES as u64),
        ("label offset", label::LABEL_OFFSET),
        (
            "superblock copy 0 offset",
            superblock::SUPERBLOCK_OFFSETS[0],
        ),
        (
            "superblock copy 1 offset",
            superblock::SUPERBLOCK_OFFSETS[1],
        ),
        ("superblock cuts at most", superblock::CUTS_MAX as u64),
        ("format version", u64::from(superblock::FORMAT_VERSION)),
        ("segment header", segment::SEGMENT_HEADER_BYTES as u64),
        ("frame header", frame::FRAME_HEADER_BYTES as u64),
        ("frame version", u64::from(frame::FRAME_VERSION)),
        (
            "record header at most",
            record::RECORD_HEADER_BYTES_MAX as u64,
        ),
        ("location bits", u64::from(Location::BITS)),
        ("value in one record at most", limits::CHUNK_BYTES as u64),
        (
            "checkpoint chunk header",
            checkpoint::CHUNK_HEADER_BYTES as u64,
        ),
        (
            "checkpoint chunk payload at most",
            checkpoint::CHUNK_PAYLOAD_BYTES_MAX as u64,
        ),
        ("stripe", heliox_media::STRIPE_BYTES),
    ];
    for (what, bytes) in sizes {
        writeln!(text, "{what}: {bytes}").unwrap();
    }
    put_roots(&mut text);
    put_log(&mut text);
    put_checkpoint(&mut text);
    put_leaf(&mut text);
    text
}

fn put_roots(text: &mut String) {
    let uuid = StoreUuid(*b"0123456789abcdef");
    let label = Label {
        uuid,
        volume: 1,
        volumes: 3,
        class: MediaClass(0),
        volume_bytes: 0x1122_3344_5566,
        stripe_bytes: 256 << 10,
        created_ms: 0x0123_4567_89ab,
    };
    hex(text, "label", &label.encode());
    let superblock = Superblock {
        uuid,
        generation: 0x0102_0304_0506_0708,
        incarnation: Incarnation(0x1122_3344),
        clean: true,
        unit_shift: 2,
        segment_bytes: 16 << 20,
        segments: 0x12345,
        sector_bytes: 4096,
        hash_seed: 0xfeed_f00d_dead_beef,
        checkpoint: Some(CheckpointRoot {
            number: 0x21,
            last_segment: SegmentId(0x22),
            birth: Birth(0x23),
            segments: 0x24,
            cut: SeqNo(0x25),
        }),
        cuts: vec![Cut {
            incarnation: Incarnation(0x31),
            last: SeqNo(0x32),
        }],
        keys: Vec::new(),
    };
    hex(text, "superblock", &superblock.encode(64 << 10));
}

fn put_log(text: &mut String) {
    let salt = ChecksumSalt(0x0807_0605_0403_0201);
    let header = SegmentHeader {
        kind: SegmentKind::Checkpoint,
        class: MediaClass(0),
        birth: Birth(0x41),
        incarnation: Incarnation(0x42),
        first_seq: SeqNo(0x43),
        previous: Some(SegmentId(0x44)),
        checkpoint: 0x45,
    };
    hex(text, "segment header", &header.encode(salt, 16 << 20, 512));
    let mut bytes = vec![0u8; 512];
    let header = FrameHeader {
        frame_bytes: 512,
        used_bytes: 0x123,
        first_record: 0x25,
        birth: Birth(0x51),
        incarnation: Incarnation(0x52),
        first_seq: SeqNo(0x5354_5556_5758),
        durable_seq: SeqNo(0x6162_6364_6566),
    };
    seal_frame(salt, 4096, &header, &mut bytes);
    hex(text, "frame", &bytes);
    for (what, header) in record_headers() {
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        hex(text, what, &bytes);
    }
}

fn record_headers() -> Vec<(&'static str, RecordHeader)> {
    let new = |kind| RecordHeader::new(kind, KeyspaceId(1), &[0; 16], &[0; 100]);
    let put = new(RecordKind::Put);
    let displaced = Some(Location::from_bits(0x12_3456_789a));
    let link = Some(Location::from_bits(0xab_cdef_0123));
    vec![
        ("record put", put),
        ("record overwrite", RecordHeader { displaced, ..put }),
        (
            "record with expiry",
            RecordHeader {
                expiry_ms: Some(0x0102_0304_0506),
                ..put
            },
        ),
        (
            "record with gap",
            RecordHeader {
                seq_gap: 300,
                ..put
            },
        ),
        (
            "record of a batch",
            RecordHeader {
                batch_offset: Some(5),
                ..put
            },
        ),
        (
            "record with a value in chunks",
            RecordHeader {
                chunked: true,
                ..put
            },
        ),
        (
            "record tombstone",
            RecordHeader {
                displaced,
                ..new(RecordKind::Tombstone)
            },
        ),
        (
            "record moved",
            RecordHeader {
                displaced,
                link,
                version_delta: Some(0x1234),
                ..put
            },
        ),
        (
            "record that settles another",
            RecordHeader {
                settles: Some(Settles {
                    location: Location::from_bits(0xab_cdef_0123),
                    difference: 0x0102_0304_0506_0708,
                }),
                ..put
            },
        ),
        (
            "record retained tombstone",
            RecordHeader {
                link,
                version_delta: Some(9),
                retained_tombstone: true,
                ..new(RecordKind::Retained)
            },
        ),
        (
            "record commit",
            RecordHeader {
                batch_offset: Some(9),
                ..new(RecordKind::Commit)
            },
        ),
        ("record range delete", new(RecordKind::RangeDelete)),
        ("record keyspace", new(RecordKind::Keyspace)),
    ]
}

fn put_checkpoint(text: &mut String) {
    let header = ChunkHeader {
        kind: ChunkKind::Leaves,
        checkpoint: 0x71,
        number: 0x72,
        payload_bytes: 5,
    };
    let salt = ChecksumSalt(0x0807_0605_0403_0201);
    hex(
        text,
        "checkpoint chunk",
        &encode_chunk(salt, 512, &header, b"leafs", 512),
    );
    let meta = CheckpointMeta {
        cut: SeqNo(0x81),
        incarnation: Incarnation(0x82),
        next_birth: Birth(0x83),
        next_keyspace: 0x84,
        user_bytes: 0x85,
        segments: vec![SegmentEntry {
            id: SegmentId(0x1000),
            kind: SegmentKind::Survivor,
            birth: Birth(0x11),
            first_seq: SeqNo(0x12),
            last_seq: SeqNo(0x13),
            used_bytes: 0x1400,
            packed_bytes: 0x1400,
            records: 0x15,
            displaced: 0x16,
            displaced_sum: 0x17,
            appended_sum: 0x18,
            voided: true,
            sealed: true,
            heads: true,
        }],
        ranges: vec![
            RangeEntry {
                seq: SeqNo(0x91),
                keyspace: KeyspaceId(2),
                from: b"from".to_vec(),
                to: Some(b"to".to_vec()),
            },
            RangeEntry {
                seq: SeqNo(0x92),
                keyspace: KeyspaceId(2),
                from: Vec::new(),
                to: None,
            },
        ],
        keyspaces: vec![KeyspaceEntry {
            id: KeyspaceId(1),
            name: "fruit".to_owned(),
        }],
        settled: vec![Location::from_bits(0x99)],
    };
    let mut bytes = Vec::new();
    meta.encode(&mut bytes);
    hex(text, "checkpoint meta", &bytes);
}

struct NoKeys;

impl KeySource for NoKeys {
    fn read_key(&self, _: Location, _: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        Ok(KeyRead::Stale)
    }
}

fn put_leaf(text: &mut String) {
    let index = Index::new(IndexOptions {
        seed: 7,
        ..IndexOptions::default()
    })
    .unwrap();
    for (n, key) in ["apple", "banana", "cherry 17", "https://example.org/x"]
        .iter()
        .enumerate()
    {
        let prepared = PreparedKey::new(7, KeyspaceId(1), key.as_bytes());
        let entry = Entry {
            location: Location::from_bits(1000 + n as u64),
            tombstone: n == 2,
        };
        index
            .update(&prepared, &NoKeys, |_| (Action::Insert(entry), ()))
            .unwrap();
    }
    let (mut cursor, mut bytes) = (index.image_start(), Vec::new());
    index
        .image_next(&mut cursor, &mut bytes, &mut || SeqNo(1))
        .unwrap();
    hex(text, "leaf image", &bytes);
}

#[test]
fn the_bytes_of_each_structure_are_frozen() {
    let expected = std::fs::read_to_string(file("layout-1.txt")).unwrap();
    let now = layout();
    assert!(expected.contains("leaf image: "));
    assert!(
        now == expected,
        "the layout is no longer that of version 1:\n{now}"
    );
}

// ---- making them ----

/// Writes the files anew: only for a new version of the format, or before the first release.
#[test]
#[ignore = "writes the golden files; see the head of this file"]
fn make_the_golden_files() {
    let media = Arc::new(MemoryMedia::new(STORE_BYTES, 512).unwrap());
    let store = Store::create("", &options(&media)).unwrap();
    write_checkpointed(&store, true);
    write_tail(&store);
    std::thread::sleep(std::time::Duration::from_millis(5));
    std::fs::write(file("store-1.txt"), dump(&store)).unwrap();
    write_image("store-1.rle", &media);
    std::fs::write(file("layout-1.txt"), layout()).unwrap();
}

/// As [`make_the_golden_files`], the encrypted one.
#[test]
#[ignore = "writes the golden files; see the head of this file"]
fn make_the_encrypted_golden_file() {
    let media = Arc::new(MemoryMedia::new(STORE_BYTES, 512).unwrap());
    let first = encrypted(&media, FIRST_KEY);
    let store = Store::create("", &first).unwrap();
    write_checkpointed(&store, false);
    store.close().unwrap();
    Store::change_key("", &first, &heliox::KeySource::bytes(SECOND_KEY)).unwrap();
    let store = Store::open("", &encrypted(&media, SECOND_KEY)).unwrap();
    write_tail(&store);
    write_image("store-2.rle", &media);
}

/// What media hold now, as a file.
fn write_image(name: &str, media: &MemoryMedia) {
    let image = Image::of(media);
    let mut bytes = vec![0; STORE_BYTES as usize];
    for (at, block) in &image.blocks {
        bytes[*at as usize..*at as usize + BLOCK_BYTES].copy_from_slice(block);
    }
    let packed = pack(&bytes);
    assert!(unpack(&packed) == bytes);
    assert!(packed.len() < 200 << 10, "{} bytes", packed.len());
    std::fs::write(file(name), packed).unwrap();
}

/// Runs of one byte as 1, length (4), byte; anything else as 0, length (4), bytes.
fn pack(bytes: &[u8]) -> Vec<u8> {
    const RUN_MIN: usize = 12;
    let (mut out, mut at, mut literal) = (Vec::new(), 0, 0);
    let put_literal = |out: &mut Vec<u8>, from: usize, to: usize| {
        if from < to {
            out.push(0);
            out.extend_from_slice(&((to - from) as u32).to_le_bytes());
            out.extend_from_slice(&bytes[from..to]);
        }
    };
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|b| **b == bytes[at]).count();
        if run >= RUN_MIN {
            put_literal(&mut out, literal, at);
            out.push(1);
            out.extend_from_slice(&(run as u32).to_le_bytes());
            out.push(bytes[at]);
            literal = at + run;
        }
        at += run;
    }
    put_literal(&mut out, literal, bytes.len());
    out
}

fn unpack(mut packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [op, a, b, c, d, rest @ ..] = packed {
        let len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        let taken = if *op == 1 { 1 } else { len };
        match op {
            1 => out.resize(out.len() + len, rest[0]),
            _ => out.extend_from_slice(&rest[..len]),
        }
        packed = &rest[taken..];
    }
    out
}
