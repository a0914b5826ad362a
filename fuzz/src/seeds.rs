//! Valid encodings of each structure, for the targets to start from. No threads.

use crate::targets::{ADDRESS, SALT};
use heliox_format::checkpoint::{
    encode_chunk, CheckpointMeta, ChunkHeader, ChunkKind, KeyspaceEntry, RangeEntry, SegmentEntry,
};
use heliox_format::frame::{seal_frame, FrameHeader, FRAME_HEADER_BYTES};
use heliox_format::ids::{
    Birth, Incarnation, KeyspaceId, Location, MediaClass, SegmentId, SeqNo, StoreUuid,
};
use heliox_format::label::Label;
use heliox_format::record::{RecordHeader, RecordKind, Settles};
use heliox_format::sealed::KeySlot;
use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_format::superblock::{CheckpointRoot, Cut, Superblock};

const KINDS: [RecordKind; 6] = [
    RecordKind::Put,
    RecordKind::Tombstone,
    RecordKind::Retained,
    RecordKind::Commit,
    RecordKind::RangeDelete,
    RecordKind::Keyspace,
];

/// Records: each kind, plain and with every field, and all of them in a row.
pub fn records() -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    for kind in KINDS {
        let plain = RecordHeader::new(kind, KeyspaceId(1), b"key", b"value");
        let mut full = plain;
        full.seq_gap = 300;
        full.batch_offset = Some(2);
        full.displaced = Some(Location::from_bits(77));
        full.link = Some(Location::from_bits(1 << 39));
        full.expiry_ms = Some(1_800_000_000_000);
        full.version_delta = Some(1 << 33);
        full.chunked = true;
        full.retained_tombstone = kind == RecordKind::Retained;
        full.settles = Some(Settles {
            location: Location::from_bits(78),
            difference: 1 << 60,
        });
        for header in [plain, full] {
            let mut out = Vec::new();
            header.encode(&mut out);
            out.extend_from_slice(b"keyvalue");
            records.push(out);
        }
    }
    records.push(records.concat());
    records
}

/// Frames of several sizes, with records in them.
pub fn frames() -> Vec<Vec<u8>> {
    let payload = records().concat();
    [512, 1024, 4096]
        .map(|frame_bytes: u16| frame(frame_bytes, &payload))
        .to_vec()
}

fn frame(frame_bytes: u16, payload: &[u8]) -> Vec<u8> {
    let used = payload.len().min(frame_bytes as usize - FRAME_HEADER_BYTES);
    let mut frame = vec![0; frame_bytes as usize];
    frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + used].copy_from_slice(&payload[..used]);
    let header = FrameHeader {
        frame_bytes,
        used_bytes: (FRAME_HEADER_BYTES + used) as u16,
        first_record: FRAME_HEADER_BYTES as u16,
        birth: Birth(7),
        incarnation: Incarnation(2),
        first_seq: SeqNo(99),
        durable_seq: SeqNo(42),
    };
    seal_frame(SALT, ADDRESS, &header, &mut frame);
    frame
}

/// A new store's superblock, one with a checkpoint and cuts, and one with a data key.
pub fn superblocks() -> Vec<Vec<u8>> {
    let new = Superblock {
        uuid: StoreUuid([7; 16]),
        generation: 1,
        incarnation: Incarnation(1),
        clean: true,
        unit_shift: 6,
        segment_bytes: 8 << 20,
        segments: 128,
        sector_bytes: 512,
        hash_seed: 42,
        checkpoint: None,
        cuts: Vec::new(),
        keys: Vec::new(),
    };
    let checkpoint = CheckpointRoot {
        number: 3,
        last_segment: SegmentId(5),
        birth: Birth(9),
        segments: 2,
        cut: SeqNo(1000),
    };
    let mut used = Superblock {
        clean: false,
        checkpoint: Some(checkpoint),
        ..new.clone()
    };
    used.cuts = (0..3)
        .map(|i| Cut {
            incarnation: Incarnation(i),
            last: SeqNo(100 * u64::from(i)),
        })
        .collect();
    let encrypted = Superblock {
        keys: vec![KeySlot {
            id: 1,
            first_birth: Birth(0),
            nonce: [3; 24],
            wrapped: [4; 32],
            tag: [5; 16],
        }],
        ..used.clone()
    };
    [new, used, encrypted].map(|s| s.encode(ADDRESS)).to_vec()
}

/// A label.
pub fn labels() -> Vec<Vec<u8>> {
    let label = Label {
        uuid: StoreUuid([9; 16]),
        volume: 1,
        volumes: 3,
        class: MediaClass(0),
        volume_bytes: 1 << 40,
        stripe_bytes: 256 << 10,
        created_ms: 1_700_000_000_000,
    };
    vec![label.encode()]
}

/// Segment headers of each kind.
pub fn segment_headers() -> Vec<Vec<u8>> {
    let header = |kind, previous| SegmentHeader {
        kind,
        class: MediaClass(0),
        birth: Birth(77),
        incarnation: Incarnation(3),
        first_seq: SeqNo(1 << 40),
        previous,
        checkpoint: 12,
    };
    let headers = [
        header(SegmentKind::User, None),
        header(SegmentKind::Survivor, None),
        header(SegmentKind::Checkpoint, Some(SegmentId(9))),
    ];
    headers
        .map(|header| header.encode(SALT, ADDRESS, 512))
        .to_vec()
}

/// Checkpoint chunks of each kind.
pub fn checkpoint_chunks() -> Vec<Vec<u8>> {
    let chunk = |kind, payload: &[u8]| {
        let header = ChunkHeader {
            kind,
            checkpoint: 3,
            number: 1,
            payload_bytes: payload.len() as u32,
        };
        encode_chunk(SALT, ADDRESS, &header, payload, 512)
    };
    let meta = checkpoint_metas().concat();
    vec![
        chunk(ChunkKind::Meta, &meta),
        chunk(ChunkKind::Leaves, &[5; 700]),
        chunk(ChunkKind::End, &[]),
    ]
}

/// An empty checkpoint meta and a full one.
pub fn checkpoint_metas() -> Vec<Vec<u8>> {
    let segment = |id| SegmentEntry {
        id: SegmentId(id),
        kind: SegmentKind::Survivor,
        birth: Birth(id + 2),
        first_seq: SeqNo(1),
        last_seq: SeqNo(9),
        used_bytes: 12_345,
        packed_bytes: 345 * u64::from(id % 3),
        records: 4,
        displaced: 3,
        displaced_sum: u64::MAX,
        appended_sum: 7,
        voided: id % 2 == 0,
        sealed: id % 3 == 0,
        heads: id % 5 == 0,
    };
    let range = |seq, to| RangeEntry {
        seq: SeqNo(seq),
        keyspace: KeyspaceId(1),
        from: b"a".to_vec(),
        to,
    };
    let full = CheckpointMeta {
        cut: SeqNo(10),
        incarnation: Incarnation(1),
        next_birth: Birth(4),
        next_keyspace: 9,
        user_bytes: 1 << 50,
        segments: (0..9).map(segment).collect(),
        ranges: vec![range(5, None), range(6, Some(b"b".to_vec()))],
        keyspaces: vec![KeyspaceEntry {
            id: KeyspaceId(1),
            name: "default".into(),
        }],
        settled: vec![Location::from_bits(77)],
    };
    let encode = |meta: CheckpointMeta| {
        let mut out = Vec::new();
        meta.encode(&mut out);
        out
    };
    vec![encode(CheckpointMeta::default()), encode(full)]
}
