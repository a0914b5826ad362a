//! What an unfinished checkpoint leaves behind is nobody's.

use std::sync::Arc;

use heliox_format::checkpoint::open_chunk;
use heliox_media::{Media, MemoryMedia, RecordingMedia};

use super::*;
use crate::keyspace::Keyspace;
use crate::store::Store;
use crate::tests;

fn open(media: Arc<dyn Media>) -> (Store, Keyspace) {
    tests::open(&tests::options(media).memory_budget_bytes(64 << 20))
}

/// Puts long keys that only their ends tell apart: the index holds them in full.
fn put_keys(ks: &Keyspace, numbers: std::ops::Range<usize>) {
    for n in numbers {
        ks.put(format!("{}{n:08}", "x".repeat(200)), "").unwrap();
    }
}

fn root_of(core: &Core) -> CheckpointRoot {
    core.superblock.lock().checkpoint.unwrap()
}

/// Which checkpoints the chunks of a segment are of, as far as one follows the other.
fn chunks_in(core: &Core, id: SegmentId) -> Vec<u64> {
    let geometry = *core.log.geometry();
    let mut memory = AlignedBuf::for_read(geometry.segment_bytes as usize).unwrap();
    let start = geometry.start(id);
    core.log.media().read_at(start, &mut memory).unwrap();
    let (mut at, mut found) = (geometry.sector_bytes, Vec::new());
    while let Ok((header, payload)) = open_chunk(geometry.salt, start + at as u64, &memory[at..]) {
        found.push(header.checkpoint);
        at += (CHUNK_HEADER_BYTES + payload.len()).next_multiple_of(geometry.sector_bytes);
    }
    found
}

/// Power fails after a checkpoint's chunks and before the superblock. The next attempt gets the same
/// segment, its chunks the same places, but for the last, which has grown: it goes on in another
/// segment, and behind the last chunk of the first one lie those that the attempt before wrote there.
#[test]
fn chunks_of_an_unfinished_checkpoint_are_not_taken_for_those_of_the_next() {
    const KEYS: usize = 18_200;
    const MORE: usize = 3000;
    let memory = tests::memory(128);
    let (store, ks) = open(memory.clone());
    put_keys(&ks, 0..KEYS);
    store.close().unwrap();
    drop(ks);

    let media = Arc::new(RecordingMedia::new(MemoryMedia::clone(&memory)));
    let (store, ks) = open(media.clone());
    // Stands for a segment that comes free before the crash: the next run's records go there.
    store.core().log.open_checkpoint_segment().unwrap();
    let named = root_of(store.core());
    store.checkpoint().unwrap();
    let unfinished = root_of(store.core());
    assert_eq!(unfinished.segments, 1, "change the number of keys");
    // The last two syncs are those of the superblock's copies.
    let points = media.sync_points();
    let crash = media.crash_image(points[points.len() - 3], 0).unwrap();
    std::mem::forget((store, ks));

    let memory = Arc::new(crash);
    let (store, ks) = open(memory.clone());
    assert_eq!(root_of(store.core()), named, "the attempt was finished");
    put_keys(&ks, KEYS..KEYS + MORE);
    close(store.core()).unwrap();
    assert_eq!(root_of(store.core()).segments, 2);
    let chunks = chunks_in(store.core(), unfinished.last_segment);
    assert_eq!(chunks.first(), Some(&root_of(store.core()).number));
    assert_eq!(chunks.last(), Some(&unfinished.number), "none is left over");
    std::mem::forget((store, ks));

    let (store, ks) = open(memory);
    let found = ks.iter().keys_only().start().unwrap().count();
    assert_eq!(found, KEYS + MORE);
    assert!(store.damage().is_empty(), "{:?}", store.damage());
}
