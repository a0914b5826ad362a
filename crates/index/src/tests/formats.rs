//! Leaves that go from slices to full keys and back: what random keys cost beside text, that no
//! leaf goes to and fro, and that nothing is lost on the way.

use super::*;
use crate::api::KEYSPACE_BYTES;

/// Keys of one keyspace that slices cannot tell apart.
fn text(keyspace: u32, id: u64) -> Vec<u8> {
    let path = format!(
        "https://example.org/the/same/long/path/{}/page-{:06}.html",
        id % 7,
        mix(id) % 1_000_000
    );
    [&keyspace.to_be_bytes()[..], path.as_bytes()].concat()
}

fn random(keyspace: u32, id: u64) -> Vec<u8> {
    let (front, back) = (mix(id).to_be_bytes(), mix(id + (1 << 40)).to_be_bytes());
    [&keyspace.to_be_bytes()[..], &front, &back].concat()
}

/// The keys of every leaf of full keys.
fn keyed_leaves(index: &Index) -> Vec<Vec<Vec<u8>>> {
    let mut leaves = Vec::new();
    index.for_each_leaf(&mut |leaf| {
        let entries = leaf.keyed.iter().map(|keyed| keyed.entries());
        leaves.extend(entries.map(|entries| entries.into_iter().map(|e| e.key).collect()));
    });
    leaves
}

/// Puts texts into keyspace 2 and then random keys into another one; returns bytes and key reads
/// for each of the latter.
fn cost_beside(world: &mut World, texts: u64, keyspace: u32, randoms: u64) -> (f64, f64) {
    for id in 0..texts {
        world.put(&text(2, id), false);
    }
    assert!(world.index.stats().keyed_leaves > 0);
    let before = world.index.stats();
    let used = |index: &Index| index.memory_bytes() - 512 * index.stats().free_blocks;
    let memory = used(&world.index);
    for id in 0..randoms {
        world.put(&random(keyspace, id), id % 9 == 0);
    }
    world.check();
    let reads = world.index.stats().key_reads - before.key_reads;
    let bytes = used(&world.index) - memory;
    (bytes as f64 / randoms as f64, reads as f64 / randoms as f64)
}

/// Random keys that begin in a leaf of full keys leave that format, wherever the texts are: in the
/// keyspace before, in that behind, in the same.
#[test]
fn random_keys_beside_text_cost_what_they_cost_alone() {
    for keyspace in [3, 1, 2, 0xffff] {
        let mut world = World::new(31);
        let (bytes, reads) = cost_beside(&mut world, 3000, keyspace, 30_000);
        assert!(bytes < 13.0, "keyspace {keyspace}: {bytes} bytes a key");
        assert!(reads < 0.01, "keyspace {keyspace}: {reads} reads a key");
        for id in (0..3000).step_by(7) {
            let candidates = world.index.seek_candidates(&prepared(&text(2, id)));
            assert_eq!(candidates, 1, "texts are not told apart any more");
        }
        for key in world.map.keys() {
            world.check_lookup(key);
        }
    }
}

/// Few texts amid many random keys: the leaf is cut between the keyspaces, so that neither holds
/// the other in its format.
#[test]
fn a_leaf_of_full_keys_is_cut_between_keyspaces() {
    let mut world = World::new(31);
    cost_beside(&mut world, 200, 3, 3000);
    for keys in keyed_leaves(&world.index) {
        let keyspace = |key: &Vec<u8>| key[..KEYSPACE_BYTES].to_vec();
        assert_eq!(keyspace(&keys[0]), keyspace(keys.last().unwrap()));
        assert_eq!(keys.len(), 200);
    }
}

/// Growing keys below one prefix after another: slices tell those of a prefix apart, but not those
/// that come next. Leaves would be read again at every prefix if they went back at once.
#[test]
fn leaves_do_not_go_to_and_fro() {
    let mut world = World::new(31);
    for id in 0..500 {
        world.put(&text(2, id), false);
    }
    assert!(world.index.stats().keyed_leaves > 0);
    let before = world.index.stats().key_reads;
    let (mut number, count) = (0, 40_000);
    for id in 0..count {
        number += 1 + mix(id) % 1_000_000;
        let key = format!("tenant-{:04}/orders/{number:012}", id / 1300).into_bytes();
        world.put(&[&3u32.to_be_bytes()[..], &key].concat(), false);
    }
    world.check();
    let stats = world.index.stats();
    let reads = (stats.key_reads - before) as f64 / count as f64;
    assert!(reads < 0.01, "{reads} reads a key");
    assert!(
        stats.keyed_leaves * 10 < stats.leaves * 9,
        "no leaf went back"
    );
}

/// Texts and random keys come and go in turn, in one keyspace and side by side, with fingerprints
/// that tell much, little and nothing: leaves change their format both ways, and hold what a map
/// holds.
#[test]
fn changing_leaves_keep_what_a_map_keeps() {
    for bits in [31, 4, 0] {
        let mut world = World::new(bits);
        let mut formats = Vec::new();
        for round in 0..4u64 {
            for id in round * 500..(round + 2) * 500 {
                world.put(&text(2, id), id % 5 == 0);
                world.put(&text(4, id * 3), id % 4 == 0);
            }
            formats.push(world.index.stats().keyed_leaves);
            for id in round * 2000..(round + 2) * 2000 {
                let keyspace = 2 + (id % 3) as u32;
                world.put(&random(keyspace, id / 3), id % 5 == 0);
            }
            world.check();
            for key in world.map.keys() {
                world.check_lookup(key);
            }
            world.reload();
            for id in round * 2000..round * 2000 + 1500 {
                world.remove(&random(2 + (id % 3) as u32, id / 3));
            }
            for id in round * 500..round * 500 + 400 {
                world.remove(&text(2, id));
            }
            world.check();
            let stats = world.index.stats();
            assert!(stats.keyed_leaves < stats.leaves);
        }
        assert!(formats.iter().all(|keyed| *keyed > 0), "{formats:?}");
        for key in world.map.clone().keys() {
            world.remove(key);
        }
        world.check();
    }
}
