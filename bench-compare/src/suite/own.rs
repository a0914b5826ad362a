//! Suites that follow no paper: how a store grows, how it scans, and what Heliox's own goals are measured
//! by. Plain data, no threads.

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
        memory_times: 1,
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
        memory_times: 1,
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

/// Beyond memory.
const ROWS: u64 = 10 * MILLION;
const ROW_BYTES: u64 = 424;

/// A store of small objects in memory.
const fn cached_part(
    workloads: &'static str,
    threads: &'static str,
    more: &'static [&'static str],
) -> Part {
    Part {
        workloads,
        threads,
        num: 40 * MILLION,
        key_bytes: 16,
        value_bytes: 100,
        memory_bytes: 40 * MILLION * 116 * 4,
        memory_times: 1,
        more,
    }
}

/// A store of rows, of which a share fits in memory.
const fn row_part(
    workloads: &'static str,
    threads: &'static str,
    percent: u64,
    more: &'static [&'static str],
) -> Part {
    Part {
        workloads,
        threads,
        num: ROWS,
        key_bytes: 24,
        value_bytes: 400,
        memory_bytes: ROWS * ROW_BYTES * percent / 100,
        memory_times: 1,
        more,
    }
}

/// A slow store has not read all within a fixed time.
const WARMED_UP: &[&str] = &["--warm-up", "60s"];

const RATE: &[Quantity] = &[Quantity::Rate, Quantity::ProcessorTime];
const WRITTEN: &[Quantity] = &[Quantity::Rate, Quantity::WriteAmplification];
const SUSTAINED: &[Quantity] = &[
    Quantity::Rate,
    Quantity::WriteAmplification,
    Quantity::LongestStall,
];
const TAIL: &[Quantity] = &[Quantity::P99, Quantity::P999, Quantity::P9999];
const OF_DEVICE: &[Quantity] = &[Quantity::Rate, Quantity::ShareOfDevice, Quantity::ReadP999];
const YCSB: &[Quantity] = &[Quantity::Rate, Quantity::ShareOfDevice];

const fn ycsb(label: &'static str, workload: &'static str, time: usize) -> Shown {
    of_part(2, time, shown(label, workload, &[16], YCSB))
}

/// What Heliox is held to.
pub(super) const SPEED: Suite = Suite {
    name: "speed",
    source: "no paper: what Heliox is to be good at, beside other engines",
    setup: "in memory, 40 million objects of 16 and 100 bytes: loads by single puts and by batches of 100, reads, \
            misses, latencies of one thread. Beyond memory, 10 million rows of 24 and 400 bytes: YCSB with memory for \
            a quarter of them and 16 threads (E twice, since scans lay together what they read); overwriting a store \
            that is 70 % full and reading beside a writer of 20,000 rows a second, with memory for a tenth. Durable \
            puts of 1, 8 and 64 threads",
    scale: TENTH,
    differs: &[
        "what is sustained takes longer than 5 seconds to show: give --duration 10m for the last figures",
        "shares of the device need --raw-device; puts that are durable one by one are held against its syncwrite-4k",
    ],
    parts: &[
        cached_part("fillrandom,readrandom,multireadrandom,readmissing,overwrite", "2", WARMED_UP),
        cached_part("fillbatch", "2", &["--batch", "100"]),
        row_part(
            "fillrandom,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-f,ycsb-e,ycsb-e",
            "16",
            25,
            &[],
        ),
        row_part("fillrandom,overwrite", "2", 10, &["--full", "70"]),
        row_part(
            "fillrandom,readwhilewriting",
            "16",
            10,
            &["--writer-rate", "20K"],
        ),
        row_part("fillrandom,readrandom", "1", 10, &[]),
        cached_part("fillrandom,overwrite,readrandom", "1", WARMED_UP),
        Part {
            num: MILLION,
            ..cached_part(
                "fillbatch,overwrite",
                "1,8,64",
                &["--batch", "1000", "--durability", "sync"],
            )
        },
    ],
    shown: &[
        of_part(0, 1, shown("load by single puts", "fillrandom", &[2], RATE)),
        of_part(1, 1, shown("load by batches of 100", "fillbatch", &[2], RATE)),
        of_part(0, 1, shown("cached get", "readrandom", &[2], RATE)),
        of_part(0, 1, shown("cached multi_get of 64", "multireadrandom", &[2], RATE)),
        of_part(0, 1, shown("get of a missing key", "readmissing", &[2], RATE)),
        of_part(0, 1, shown("overwrite in memory", "overwrite", &[2], RATE)),
        of_part(6, 1, shown("put, one thread", "overwrite", &[1], TAIL)),
        of_part(6, 1, shown("cached get, one thread", "readrandom", &[1], TAIL)),
        of_part(2, 1, shown("load beyond memory", "fillrandom", &[16], WRITTEN)),
        ycsb("YCSB A", "ycsb-a", 1),
        ycsb("YCSB B", "ycsb-b", 1),
        ycsb("YCSB C", "ycsb-c", 1),
        ycsb("YCSB D", "ycsb-d", 1),
        ycsb("YCSB F", "ycsb-f", 1),
        ycsb("YCSB E", "ycsb-e", 1),
        ycsb("YCSB E, again", "ycsb-e", 2),
        of_part(3, 1, shown("overwrite at 70 %", "overwrite", &[2], SUSTAINED)),
        of_part(4, 1, shown("read beside a writer", "readwhilewriting", &[16], OF_DEVICE)),
        of_part(5, 1, shown("get beyond memory, one thread", "readrandom", &[1], OF_DEVICE)),
        of_part(7, 1, shown("durable put", "overwrite", &[1, 8, 64], RATE)),
    ],
    told: &[],
    devices: &[],
};
