//! Indexes for the target `index_image`: small ones whose images are its seeds, and a walk that
//! asks a loaded one everything. No threads.

use heliox_format::ids::{KeyspaceId, Location, SeqNo};
use heliox_index::{
    Action, Direction, Entry, Index, IndexOptions, KeyRead, KeySource, Next, PreparedKey,
    ScanBatch, ScanFrom, SourceError,
};

const SEED: u64 = 0;

/// The keys of an index by their Location, which is their place in the list.
struct Keys(Vec<Vec<u8>>);

impl KeySource for Keys {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        let key = usize::try_from(location.bits())
            .ok()
            .and_then(|at| self.0.get(at));
        let Some(key) = key else {
            return Ok(KeyRead::Stale);
        };
        out.clear();
        out.extend_from_slice(&1u32.to_be_bytes());
        out.extend_from_slice(key);
        Ok(KeyRead::Found)
    }
}

/// Images of indexes of several key families, some of one leaf, some of many.
pub fn index_images() -> Vec<Vec<u8>> {
    let numbers = |n: u64| {
        (0..n)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec())
            .collect()
    };
    let users = (0..500)
        .map(|i| format!("user{i:019}").into_bytes())
        .collect();
    let urls = (0..3000)
        .map(|i| format!("https://example.org/a/long/path/{}/{i}", i % 7).into_bytes())
        .collect();
    let zeros = (0..40).map(|i| vec![0; i]).collect();
    [
        numbers(0),
        numbers(1),
        numbers(50),
        numbers(4000),
        users,
        urls,
        zeros,
    ]
    .into_iter()
    .filter_map(image_of)
    .collect()
}

fn image_of(keys: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let index = Index::new(IndexOptions {
        seed: SEED,
        ..IndexOptions::default()
    })
    .ok()?;
    let keys = Keys(keys);
    for (at, key) in keys.0.iter().enumerate() {
        let entry = Entry {
            location: Location::from_bits(at as u64),
            tombstone: at % 5 == 0,
        };
        let key = PreparedKey::new(SEED, KeyspaceId(1), key);
        index
            .update(&key, &keys, |_| (Action::Insert(entry), ()))
            .ok()?;
    }
    let mut image = Vec::new();
    let mut cursor = index.image_start();
    while index
        .image_next(&mut cursor, &mut image, &mut || SeqNo(1))
        .ok()?
        .is_some()
    {}
    Some(image)
}

/// Looks up, scans both ways and makes images of an index of so many entries.
///
/// # Panics
/// When a scan does not end.
pub fn walk(index: &Index, entries: u64) {
    for key in [&b""[..], b"user0", &[0; 40]] {
        let _ = index.lookup(&PreparedKey::new(SEED, KeyspaceId(1), key));
    }
    for (direction, start) in [
        (Direction::Forward, ScanFrom::Start),
        (Direction::Backward, ScanFrom::End),
    ] {
        walk_leaves(index, direction, start, entries);
    }
    let mut image = Vec::new();
    let mut cursor = index.image_start();
    while let Ok(Some(_)) = index.image_next(&mut cursor, &mut image, &mut || SeqNo(1)) {}
}

/// Walks leaf by leaf: a loaded image has no records behind it to read the keys from.
fn walk_leaves(index: &Index, direction: Direction, start: ScanFrom<'_>, entries: u64) {
    let mut batch = ScanBatch::default();
    index.scan(start, direction, usize::MAX, &mut batch);
    for _ in 0..entries + 10_000 {
        let Next::Leaf(fence) = &batch.next else {
            return;
        };
        let fence = fence.clone();
        index.scan(ScanFrom::At(&fence), direction, usize::MAX, &mut batch);
    }
    panic!("a scan does not end");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_load_whole() {
        let counts: Vec<u64> = index_images()
            .iter()
            .map(|image| {
                let mut loader = Index::loader(IndexOptions::default());
                let mut rest = &image[..];
                while !rest.is_empty() {
                    loader.push(&mut rest).unwrap();
                }
                loader.finish().unwrap().stats().entries
            })
            .collect();
        assert_eq!(counts, [0, 1, 50, 4000, 500, 3000, 40]);
    }
}
