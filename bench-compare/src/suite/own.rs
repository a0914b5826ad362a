//! Suites that follow no paper: how a store grows, and how it scans. Plain data, no threads.

use super::papers::{shown, Part, Shown, Suite};
use super::quantity::Quantity;

const MILLION: u64 = 1_000_000;
/// Where nothing is said of the device, a thousandth would be too small to tell.
const TENTH: f64 = 0.1;

/// More memory than data, so that what was read before is read from memory.
const fn ample(num: u64, object_bytes: u64) -> u64 {
    num * object_bytes * 3 / 2
}

const fn growth_part(millions: u64) -> Part {
    let num = millions * MILLION;
    Part {
        workloads: "fillrandom,readrandom,readrandom,reopen,reopen-killed",
        threads: "4",
        num,
        key_bytes: 16,
        value_bytes: 100,
        memory_bytes: ample(num, 116),
        more: &[],
    }
}

const fn of_part(part: usize, time: usize, shown: Shown) -> Shown {
    Shown {
        part: Some(part),
        time,
        ..shown
    }
}

const FILLED: &[Quantity] = &[
    Quantity::Rate,
    Quantity::SpacePerObject,
    Quantity::IndexBytes,
];
const CACHED: &[Quantity] = &[Quantity::Rate, Quantity::MemoryPerObject];
const OPENED: &[Quantity] = &[Quantity::OpenSeconds];

const fn fill(part: usize) -> Shown {
    of_part(
        part,
        1,
        shown("{keys} objects: fill", "fillrandom", &[4], FILLED),
    )
}

const fn cached(part: usize) -> Shown {
    of_part(
        part,
        2,
        shown("{keys} objects: cached get", "readrandom", &[4], CACHED),
    )
}

const fn reopen(part: usize) -> Shown {
    of_part(
        part,
        1,
        shown("{keys} objects: closed", "reopen", &[1], OPENED),
    )
}

const fn reopen_killed(part: usize) -> Shown {
    of_part(
        part,
        1,
        shown("{keys} objects: killed", "reopen-killed", &[1], OPENED),
    )
}

/// What grows with the number of objects.
pub(super) const GROWTH: Suite = Suite {
    name: "growth",
    source: "no paper: 1, 2, 5, 10, 20 and 50 million objects of 16 and 100 bytes",
    setup: "a store for each number of objects, with memory for 150 % of its data: filled, read at random twice, of \
            which the second counts (cached get), closed and opened, killed and opened",
    scale: TENTH,
    differs: &[
        "memory is the most that the process had, its cache of all data included; index is what Heliox tells",
        "opening is until the first read is answered, with an empty page cache; what is killed was at rest",
    ],
    parts: &[
        growth_part(1),
        growth_part(2),
        growth_part(5),
        growth_part(10),
        growth_part(20),
        growth_part(50),
    ],
    shown: &[
        fill(0),
        fill(1),
        fill(2),
        fill(3),
        fill(4),
        fill(5),
        cached(0),
        cached(1),
        cached(2),
        cached(3),
        cached(4),
        cached(5),
        reopen(0),
        reopen(1),
        reopen(2),
        reopen(3),
        reopen(4),
        reopen(5),
        reopen_killed(0),
        reopen_killed(1),
        reopen_killed(2),
        reopen_killed(3),
        reopen_killed(4),
        reopen_killed(5),
    ],
    told: &[],
    devices: &[],
};

const ENTRIES: &[Quantity] = &[Quantity::EntryRate];
const SHORT: &[Quantity] = &[Quantity::Rate, Quantity::P99];

const fn full_scan(label: &'static str, time: usize) -> Shown {
    Shown {
        time,
        ..shown(label, "readseq", &[1], ENTRIES)
    }
}

const fn short_scans(label: &'static str, time: usize) -> Shown {
    Shown {
        time,
        ..shown(label, "scan", &[1], SHORT)
    }
}

/// Scans of a store in the order of its writes, and in none.
pub(super) const SCANS: Suite = Suite {
    name: "scans",
    source: "no paper: 10 million objects of 16 and 400 bytes, read in key order",
    setup: "fresh: filled in key order; aged: every key overwritten once, in random order; cold: right after the store \
            was closed and opened with an empty page cache; warm: the same once more, with memory for 150 % of the data",
    scale: TENTH,
    differs: &[
        "a full scan reads all entries once, short scans 100 entries from a random key each, for --duration: cold \
         ones warm up meanwhile",
    ],
    parts: &[Part {
        workloads: "fillseq,reopen,readseq,readseq,reopen,scan,scan,\
                    fillrandom,reopen,readseq,readseq,reopen,scan,scan",
        threads: "1",
        num: 10 * MILLION,
        key_bytes: 16,
        value_bytes: 400,
        memory_bytes: ample(10 * MILLION, 416),
        more: &["--keys", "sequential"],
    }],
    shown: &[
        full_scan("full scan, fresh, cold", 1),
        full_scan("full scan, fresh, warm", 2),
        full_scan("full scan, aged, cold", 3),
        full_scan("full scan, aged, warm", 4),
        short_scans("short scans, fresh, cold", 1),
        short_scans("short scans, fresh, warm", 2),
        short_scans("short scans, aged, cold", 3),
        short_scans("short scans, aged, warm", 4),
    ],
    told: &[],
    devices: &[],
};
