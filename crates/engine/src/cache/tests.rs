//! Exactness against a model, the byte bound, threads, and (ignored) the cost of a call.

use super::simulation::{Random, Zipf};
use super::{RecordCache, SHARD_BYTES_MIN};
use heliox_format::ids::{Birth, Location};
use std::collections::HashMap;
use std::time::Instant;

type Name = (u64, u32);

fn insert(cache: &RecordCache, name: Name, parts: &[&[u8]]) {
    cache.insert(Location::from_bits(name.0), Birth(name.1), parts);
}

fn get(cache: &RecordCache, name: Name) -> Option<Vec<u8>> {
    cache.get(Location::from_bits(name.0), Birth(name.1), <[u8]>::to_vec)
}

/// Checks every shard from inside, and the bound.
fn check(cache: &RecordCache) {
    for slot in &cache.slots {
        slot.0.lock().check();
    }
    assert!(cache.used_bytes() <= cache.budget_bytes());
}

/// Bytes that say whose they are and which version.
fn value(name: Name, version: u64, len: usize) -> Vec<u8> {
    let mut random = Random(name.0 ^ u64::from(name.1) << 40 ^ version << 20 ^ (len as u64) << 50);
    (0..len).map(|_| random.next() as u8).collect()
}

#[test]
fn what_is_inserted_is_read_until_it_is_removed() {
    let cache = RecordCache::new(8 << 20);
    insert(&cache, (5, 1), &[b"head", b"", b"body"]);
    insert(&cache, (6, 1), &[]);
    assert_eq!(get(&cache, (5, 1)).unwrap(), b"headbody");
    assert_eq!(get(&cache, (6, 1)).unwrap(), b"");
    cache.remove(Location::from_bits(5), Birth(1));
    assert_eq!(get(&cache, (5, 1)), None);
    let stats = cache.stats();
    assert_eq!(
        (stats.hits, stats.misses, stats.inserts, stats.records),
        (2, 1, 2, 1)
    );
}

#[test]
fn lives_of_a_segment_do_not_mix() {
    let cache = RecordCache::new(8 << 20);
    let births = [0, 1, 2, 1 << 24, 1 << 31, u32::MAX];
    for birth in births {
        insert(
            &cache,
            (Location::NONE.bits(), birth),
            &[&birth.to_le_bytes()],
        );
    }
    for birth in births {
        assert_eq!(
            get(&cache, (Location::NONE.bits(), birth)).unwrap(),
            birth.to_le_bytes()
        );
    }
    assert_eq!(get(&cache, (Location::NONE.bits(), 3)), None);
}

#[test]
fn an_equal_name_is_replaced_in_any_length() {
    let cache = RecordCache::new(8 << 20);
    for text in ["first", "other", "longer than both", ""] {
        insert(&cache, (5, 1), &[text.as_bytes()]);
        assert_eq!(get(&cache, (5, 1)).unwrap(), text.as_bytes());
        assert_eq!(cache.stats().records, 1);
    }
}

#[test]
fn a_record_too_large_is_not_taken_and_drops_what_had_its_name() {
    let cache = RecordCache::new(8 << 20);
    let shard_bytes = (8 << 20) / 64;
    insert(&cache, (5, 1), &[b"small"]);
    insert(&cache, (5, 1), &[&vec![1; shard_bytes / 16]]);
    assert_eq!(get(&cache, (5, 1)), None);
    insert(&cache, (5, 1), &[&vec![1; shard_bytes / 17]]);
    assert_eq!(get(&cache, (5, 1)).unwrap(), vec![1; shard_bytes / 17]);
    check(&cache);
}

#[test]
fn no_budget_holds_nothing() {
    for budget_bytes in [0, 1, SHARD_BYTES_MIN - 1] {
        let cache = RecordCache::new(budget_bytes);
        insert(&cache, (5, 1), &[b"x"]);
        assert_eq!(get(&cache, (5, 1)), None);
        assert_eq!(cache.used_bytes(), 0);
    }
}

#[test]
fn the_largest_budgets_are_taken_and_use_nothing_before_they_are_used() {
    for budget_bytes in [9 << 30, 1 << 40, u64::MAX] {
        let cache = RecordCache::new(budget_bytes);
        insert(&cache, (5, 1), &[b"x"]);
        assert_eq!(get(&cache, (5, 1)).unwrap(), b"x");
        assert!(cache.used_bytes() < 1 << 20);
    }
}

#[test]
fn a_successor_inherits_the_place_and_drops_the_old() {
    let cache = RecordCache::new(4 << 20);
    let (mut at, flood) = (1u64, value((0, 0), 0, 100));
    insert(&cache, (at, 1), &[b"hot"]);
    get(&cache, (at, 1));
    for fresh in 0..1_000_000u64 {
        insert(&cache, (1 << 30 | fresh, 1), &[&flood]);
        if fresh % 50_000 == 0 {
            let old = (Location::from_bits(at), Birth(1));
            at += 1;
            cache.insert_successor(old, Location::from_bits(at), Birth(1), &[b"hot"]);
            assert_eq!(get(&cache, (at - 1, 1)), None);
        }
    }
    // It was read once, twenty versions ago; more than the budget comes between two versions.
    assert!(get(&cache, (at, 1)).is_some());
}

/// Random calls, lengths and budgets beside a map of what was inserted last.
fn random_traffic(seed: u64, budgets: &[u64], len_max: u64, steps: u64) {
    let mut random = Random(seed);
    let cache = RecordCache::new(budgets[0]);
    let mut model: HashMap<Name, (u64, usize)> = HashMap::new();
    let mut hits = 0;
    for step in 0..steps {
        let name = (
            random.below(3000) * random.below(2).max(1),
            random.below(3) as u32,
        );
        match random.below(100) {
            0..50 => {
                if let Some(bytes) = get(&cache, name) {
                    let (version, len) = model[&name];
                    assert_eq!(bytes, value(name, version, len), "step {step}");
                    hits += 1;
                }
            }
            50..90 => {
                let shift = random.below(10);
                let len = (random.below(len_max) >> shift) as usize;
                let bytes = value(name, step, len);
                let cut = random.below(len as u64 + 1) as usize;
                insert(&cache, name, &[&bytes[..cut], &bytes[cut..]]);
                model.insert(name, (step, len));
            }
            90..95 => {
                cache.remove(Location::from_bits(name.0), Birth(name.1));
                model.remove(&name);
                assert_eq!(get(&cache, name), None);
            }
            _ => {
                let new = (random.below(3000), 7);
                let bytes = value(new, step, 40);
                let old = (Location::from_bits(name.0), Birth(name.1));
                cache.insert_successor(old, Location::from_bits(new.0), Birth(new.1), &[&bytes]);
                model.remove(&name);
                model.insert(new, (step, 40));
            }
        }
        if random.below(2000) == 0 {
            cache.set_budget_bytes(budgets[random.below(budgets.len() as u64) as usize]);
            check(&cache);
        }
        assert!(
            step % 16 != 0 || cache.used_bytes() <= cache.budget_bytes(),
            "step {step}"
        );
    }
    check(&cache);
    assert!(hits > steps / 500, "{hits} hits in {steps} steps");
}

#[test]
fn random_traffic_agrees_with_a_map_small_records() {
    random_traffic(1, &[1 << 20], 300, 200_000);
    random_traffic(2, &[64 << 10], 30, 100_000);
}

#[test]
fn random_traffic_agrees_with_a_map_records_of_all_sizes() {
    random_traffic(3, &[8 << 20], 9000, 100_000);
    random_traffic(4, &[70 << 10], 5000, 100_000);
    random_traffic(5, &[64 << 20], 70_000, 30_000);
}

#[test]
fn random_traffic_agrees_with_a_map_while_the_budget_changes() {
    let budgets = [
        4 << 20,
        5 << 20,
        20 << 20,
        300 << 20,
        1 << 20,
        100 << 10,
        64 << 10,
        0,
    ];
    random_traffic(6, &budgets, 9000, 150_000);
    random_traffic(7, &budgets[..4], 1000, 150_000);
}

#[test]
fn shrinking_keeps_what_is_hot() {
    let cache = RecordCache::new(64 << 20);
    for at in 0..400_000u64 {
        insert(&cache, (at, 1), &[&value((at, 1), 0, 100)]);
    }
    for _ in 0..3 {
        (0..400_000u64)
            .step_by(100)
            .for_each(|at| assert!(get(&cache, (at, 1)).is_some()));
    }
    cache.set_budget_bytes(16 << 20);
    assert!(cache.used_bytes() <= 16 << 20);
    check(&cache);
    let kept = (0..400_000u64)
        .step_by(100)
        .filter(|at| get(&cache, (*at, 1)).is_some())
        .count();
    assert!(kept > 3900, "{kept} of 4000");
}

/// Bytes over a record's own when the cache is full of records of `len` bytes.
fn overhead_bytes(budget_bytes: u64, len: usize) -> f64 {
    let cache = RecordCache::new(budget_bytes);
    let bytes = vec![1; len];
    for at in 0..budget_bytes / len as u64 * 5 / 4 {
        insert(&cache, (at * 3, 1), &[&bytes]);
    }
    check(&cache);
    let used_bytes = cache.used_bytes();
    let overhead = used_bytes as f64 / cache.stats().records as f64 - len as f64;
    println!("{budget_bytes} full of {len}: {used_bytes} used, {overhead:.2} over each");
    assert!(
        used_bytes * 100 > budget_bytes * 93,
        "{used_bytes} used of {budget_bytes}"
    );
    overhead
}

#[test]
fn a_record_costs_no_more_than_twenty_four_bytes() {
    // Lengths as they come are padded by half a byte on average.
    let mean = (100..102)
        .map(|len| overhead_bytes(256 << 20, len))
        .sum::<f64>()
        / 2.0;
    // 24, and the chunk that stands half full, which counts more the smaller the shards.
    assert!(mean < 24.4, "{mean}");
    assert!(overhead_bytes(32 << 20, 100) < 28.0);
    assert!(overhead_bytes(4 << 20, 100) < 38.0);
}

#[test]
fn threads_read_only_whole_records_while_the_budget_changes() {
    let cache = RecordCache::new(4 << 20);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = Random(thread);
                let mut hits = 0;
                for step in 0..150_000u64 {
                    let name = (random.below(20_000), 1);
                    if let Some(bytes) = get(cache, name) {
                        let version = u64::from(bytes[0]);
                        assert_eq!(bytes[1..], value(name, version, bytes.len() - 1));
                        hits += 1;
                    } else {
                        let version = step & 0xff;
                        let bytes = value(name, version, random.below(400) as usize);
                        insert(cache, name, &[&[version as u8], &bytes]);
                    }
                }
                assert!(hits > 1000);
            });
        }
        scope.spawn(|| {
            for round in 0..100 {
                cache.set_budget_bytes([4 << 20, 3 << 20, 8 << 20, 6 << 20][round % 4]);
                assert!(cache.used_bytes() <= cache.budget_bytes());
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
    });
    check(&cache);
}

fn nanoseconds_each(count: u64, mut call: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..count).for_each(&mut call);
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Gets of `threads` at once over the names below `names`, copying the value: ns per get.
fn time_gets(cache: &RecordCache, threads: u64, draws: &[u32]) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut copy = [0u8; 100];
                let from = thread as usize * draws.len() / threads as usize;
                for at in draws[from..].iter().chain(&draws[..from]) {
                    let at = Location::from_bits(u64::from(*at));
                    cache.get(at, Birth(1), |bytes| copy.copy_from_slice(bytes));
                    std::hint::black_box(&copy);
                }
            });
        }
    });
    start.elapsed().as_nanos() as f64 / draws.len() as f64
}

fn cost_of_gets(records: u64) {
    let cache = RecordCache::new(1 << 30);
    (0..records).for_each(|at| insert(&cache, (at, 1), &[&[3u8; 100]]));
    let mut random = Random(1);
    let uniform: Vec<u32> = (0..4_000_000)
        .map(|_| random.below(records) as u32)
        .collect();
    let zipf = Zipf::new(records);
    let skewed: Vec<u32> = (0..4_000_000)
        .map(|_| (zipf.draw(&mut random).wrapping_mul(0x9e37_79b9) % records) as u32)
        .collect();
    for (name, draws) in [("uniform", &uniform), ("zipfian", &skewed)] {
        for threads in [1, 2] {
            let each = time_gets(&cache, threads, draws);
            println!("get, {records} records {name}, {threads} threads  {each:6.1} ns");
        }
    }
}

#[test]
#[ignore = "micro benchmark; prints nanoseconds per call, takes 1 GiB"]
fn cost_of_calls() {
    for records in [100_000, 4_000_000] {
        cost_of_gets(records);
    }
    let cache = RecordCache::new(1 << 30);
    let bytes = [3u8; 100];
    let fill = nanoseconds_each(4_000_000, |at| insert(&cache, (at, 1), &[&bytes]));
    println!(
        "insert, room left      {fill:6.1} ns, {} MiB",
        cache.used_bytes() >> 20
    );
    let miss = nanoseconds_each(2_000_000, |at| {
        cache.get(Location::from_bits(1 << 33 | at), Birth(1), <[u8]>::len);
    });
    println!("get, missing           {miss:6.1} ns");
    cache.set_budget_bytes(128 << 20);
    for (name, read) in [("cold", false), ("half read", true)] {
        let mut worst = 0;
        let each = nanoseconds_each(2_000_000, |at| {
            let start = Instant::now();
            insert(&cache, (1 << 34 | u64::from(read) << 32 | at, 1), &[&bytes]);
            worst = worst.max(start.elapsed().as_nanos());
            if read && at % 2 == 0 {
                cache.get(
                    Location::from_bits(1 << 34 | 1 << 32 | at),
                    Birth(1),
                    <[u8]>::len,
                );
            }
        });
        println!(
            "insert, full, {name:9} {each:6.1} ns, clock included; longest {} us",
            worst / 1000
        );
    }
}
