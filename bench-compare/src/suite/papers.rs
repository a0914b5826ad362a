//! The suites that follow papers: what each ran, what it tells, and what of that differs here. All figures of
//! papers stand here and nowhere else. They are their vendors' own and nobody repeated them; of
//! what a paper measured, only the figures below are known here. Plain data, no threads.

use super::own::{GROWTH, SCANS, SPEED};
use super::quantity::Quantity;

/// The option of a part that is run only beside the raw device.
pub(crate) const RATE_OF_DEVICE: &str = "--rate-of-device";

/// The runs that follow a paper, and its figures; or runs of our own, which have none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite {
    /// On the command line.
    pub(crate) name: &'static str,
    /// Whose figures these are.
    pub(crate) source: &'static str,
    /// Hardware and sizes of the paper; of our own runs, what they are.
    pub(crate) setup: &'static str,
    /// The scale where none is given.
    pub(crate) scale: f64,
    /// What differs here beside hardware and scale.
    pub(crate) differs: &'static [&'static str],
    pub(crate) parts: &'static [Part],
    /// What of the engines is held against the paper, in order.
    pub(crate) shown: &'static [Shown],
    /// What the paper tells of engines.
    pub(crate) told: &'static [Told],
    /// What data sheets tell of its devices: as workloads and threads, operations and depths of
    /// the raw device.
    pub(crate) devices: &'static [Told],
}

/// A run on an empty store, at full scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) workloads: &'static str,
    pub(crate) threads: &'static str,
    /// Keys.
    pub(crate) num: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) memory_bytes: u64,
    /// However small the scale, memory is so many times the least; tells parts apart that differ in it alone.
    pub(crate) memory_times: u64,
    /// Further options of `run`.
    pub(crate) more: &'static [&'static str],
}

impl Suite {
    /// A part of it is held against the raw device.
    pub(crate) fn measures_overhead(&self) -> bool {
        self.parts.iter().any(Part::needs_device)
    }
}

impl Part {
    /// Without the raw device there is nothing to hold it against.
    pub(crate) fn needs_device(&self) -> bool {
        self.more.contains(&RATE_OF_DEVICE)
    }
}

/// Quantities of a workload at some numbers of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// What the paper calls it; `{keys}` stands for the number of keys of the part.
    pub(crate) label: &'static str,
    /// The place of the part that runs it, where several do.
    pub(crate) part: Option<usize>,
    pub(crate) workload: &'static str,
    /// Which of its runs in the part, from 1 on.
    pub(crate) time: usize,
    pub(crate) threads: &'static [usize],
    pub(crate) quantities: &'static [Quantity],
}

/// A figure of a paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Of what, on what.
    pub(crate) system: &'static str,
    /// As in [`Shown`].
    pub(crate) part: Option<usize>,
    pub(crate) workload: &'static str,
    pub(crate) threads: usize,
    pub(crate) quantity: Quantity,
    pub(crate) figure: f64,
}

/// Every suite.
pub(crate) const SUITES: [Suite; 8] = [HELIUM, HEROCKS, HLKVDS, SCYLLA, HSE, GROWTH, SCANS, SPEED];

/// Of papers whose runs take minutes an engine at that scale.
const THOUSANDTH: f64 = 0.001;
const GIB: u64 = 1 << 30;

const fn told(
    system: &'static str,
    workload: &'static str,
    threads: usize,
    quantity: Quantity,
    figure: f64,
) -> Told {
    Told {
        system,
        part: None,
        workload,
        threads,
        quantity,
        figure,
    }
}

/// The first run of a workload in any part.
pub(super) const fn shown(
    label: &'static str,
    workload: &'static str,
    threads: &'static [usize],
    quantities: &'static [Quantity],
) -> Shown {
    Shown {
        label,
        part: None,
        workload,
        time: 1,
        threads,
        quantities,
    }
}

const LATENCIES: &[Quantity] = &[
    Quantity::Rate,
    Quantity::P99,
    Quantity::P999,
    Quantity::P9999,
];

const fn helium_part(threads: &'static str) -> Part {
    Part {
        workloads: "fillrandom,overwrite,readrandom,deleterandom",
        threads,
        num: 2_000_000_000,
        key_bytes: 16,
        value_bytes: 100,
        memory_bytes: GIB,
        memory_times: 1,
        more: &[],
    }
}

/// Threads of the reads with caches of several sizes, which no other part has.
const CACHE_SWEEP: &[usize] = &[12];

/// A write cache of 1 GiB, and so many for reads.
const fn helium_read_part(read_gib: u64) -> Part {
    Part {
        workloads: "fillrandom,readrandom,readrandom",
        threads: "12",
        memory_bytes: (1 + read_gib) * GIB,
        memory_times: 1 + read_gib,
        ..helium_part("12")
    }
}

const fn cached_get(label: &'static str, part: usize) -> Shown {
    let quantities = &[
        Quantity::Rate,
        Quantity::P99,
        Quantity::P999,
        Quantity::FromMemory,
    ];
    Shown {
        part: Some(part),
        time: 2,
        ..shown(label, "readrandom", CACHE_SWEEP, quantities)
    }
}

const HELIUM: Suite = Suite {
    name: "helium",
    source: "Levyx, paper on Helium 3.0",
    setup: "Intel P4500 of 2 TB, 96 hardware threads; keys of 16 and values of 100 bytes, asynchronous \
            writes, write cache of 1 GB; its number of objects is not known here (--scale 1: 2 billion)",
    scale: THOUSANDTH,
    differs: &[
        "put is fillrandom: each key once into an empty store, and one store for each number of threads",
        "deletes draw their keys at random, so that some find nothing; the paper's draw is not known",
        "amplification is the kernel's count: of writes, while overwriting; of reads, bytes read for \
         each byte found",
        "memory is one budget for writes and reads, by each engine's own division: 1 GB x scale in the parts by threads, \
         of which the paper's reads had 1 to 4 GB besides; reads with 1 to 4 GB x scale more (12 threads, which are \
         this suite's own, the second of two runs) show what a larger cache does. Where the scale leaves less than \
         64 MiB, memory is 2 to 5 times 64 MiB, which is a larger share of the data",
        "known of the paper are latencies at 1 and 16 threads, write amplification and index, no rates",
    ],
    parts: &[
        helium_part("1"),
        helium_part("4"),
        helium_part("8"),
        helium_part("16"),
        helium_part("24"),
        helium_read_part(1),
        helium_read_part(2),
        helium_read_part(3),
        helium_read_part(4),
    ],
    shown: &[
        shown("put", "fillrandom", &[1, 4, 8, 16], LATENCIES),
        shown("put", "fillrandom", &[24], &[Quantity::Rate]),
        shown("get", "readrandom", &[1, 4, 8, 16], LATENCIES),
        shown("get", "readrandom", &[24], &[Quantity::Rate]),
        shown("delete", "deleterandom", &[1, 4, 8, 16], LATENCIES),
        shown("delete", "deleterandom", &[24], &[Quantity::Rate]),
        shown("update", "overwrite", &[16], &[Quantity::WriteAmplification]),
        shown("get", "readrandom", &[16], &[Quantity::ReadAmplification]),
        shown("put", "fillrandom", &[16], &[Quantity::IndexBytes]),
        cached_get("get, read cache of 1 GB", 5),
        cached_get("get, read cache of 2 GB", 6),
        cached_get("get, read cache of 3 GB", 7),
        cached_get("get, read cache of 4 GB", 8),
    ],
    told: &[
        told("Helium", "fillrandom", 1, Quantity::P99, 2.0),
        told("Helium", "fillrandom", 1, Quantity::P999, 4.0),
        told("Helium", "fillrandom", 1, Quantity::P9999, 9.0),
        told("Helium", "fillrandom", 16, Quantity::P99, 5.0),
        told("Helium", "fillrandom", 16, Quantity::P999, 11.0),
        told("Helium", "fillrandom", 16, Quantity::P9999, 408.0),
        told("Helium", "readrandom", 1, Quantity::P99, 1.0),
        told("Helium", "readrandom", 1, Quantity::P999, 2.0),
        told("Helium", "readrandom", 1, Quantity::P9999, 3.0),
        told("Helium", "readrandom", 16, Quantity::P99, 110.0),
        told("Helium", "readrandom", 16, Quantity::P999, 237.0),
        told("Helium", "readrandom", 16, Quantity::P9999, 403.0),
        told("Helium, lowest", "overwrite", 16, Quantity::WriteAmplification, 1.104),
        told("Helium, highest", "overwrite", 16, Quantity::WriteAmplification, 1.110),
        told("Helium", "fillrandom", 16, Quantity::IndexBytes, 12.0),
    ],
    devices: &[
        told("P4500", "randread-4k", 1, Quantity::Mean, 82.0),
        told("P4500", "randread-4k", 32, Quantity::Rate, 490e3),
        told("P4500", "randwrite-4k", 32, Quantity::Rate, 38e3),
    ],
};

const Z_SSD: &str = "HeRocks, Z-SSD";
const Z_SSD_PEER: &str = "RocksDB 5.2.1, Z-SSD";
const PM: &str = "HeRocks, PM1725a";
const PM_PEER: &str = "RocksDB 5.2.1, PM1725a";
const RATE_AND_MEAN: &[Quantity] = &[Quantity::Rate, Quantity::Mean];
const RATE_AND_P99: &[Quantity] = &[Quantity::Rate, Quantity::P99];

const fn herocks_part(
    workloads: &'static str,
    threads: &'static str,
    value_bytes: u64,
    more: &'static [&'static str],
) -> Part {
    Part {
        workloads,
        threads,
        num: 1_000_000_000,
        key_bytes: 16,
        value_bytes,
        memory_bytes: 16 * GIB,
        memory_times: 1,
        more,
    }
}

const HEROCKS: Suite = Suite {
    name: "herocks",
    source: "Levyx, papers on HeRocks beside RocksDB, by db_bench",
    setup: "64 threads: values of 100 bytes on an Intel P4500, 96 hardware threads, number of keys not \
            known here (--scale 1: 1 billion); 16 and 32 threads: 1 billion values of 400 bytes, cache of \
            16 GB, memory of 256 GB, on Samsung Z-SSD SZ985 and PM1725a",
    scale: THOUSANDTH,
    differs: &[
        "latencies told at 16 and 32 threads are taken for means, as threads divided by rate says",
        "keys grow with their index, as those of db_bench's fillseq; key size taken to be its 16 bytes",
        "the 32 and 16 threads have the memory of the paper's cache for all of the engine",
    ],
    parts: &[
        herocks_part("fillseq,readwhilewriting", "64", 100, &["--keys", "sequential"]),
        herocks_part("fillseq,readwhilewriting", "32", 400, &["--keys", "sequential"]),
        herocks_part(
            "fillseq,readrandomwriterandom",
            "16",
            400,
            &["--keys", "sequential", "--read-share", "80"],
        ),
    ],
    shown: &[
        shown("fillseq", "fillseq", &[64], RATE_AND_P99),
        shown("readwhilewriting", "readwhilewriting", &[64], RATE_AND_P99),
        shown("readwhilewriting", "readwhilewriting", &[32], RATE_AND_MEAN),
        shown(
            "readrandomwriterandom 80:20",
            "readrandomwriterandom",
            &[16],
            RATE_AND_MEAN,
        ),
    ],
    told: &[
        told("HeRocks", "fillseq", 64, Quantity::Rate, 1.1e6),
        told("RocksDB", "fillseq", 64, Quantity::Rate, 286e3),
        told("HeRocks", "fillseq", 64, Quantity::P99, 34.0),
        told("RocksDB", "fillseq", 64, Quantity::P99, 373.0),
        told("HeRocks", "readwhilewriting", 64, Quantity::Rate, 4.3e6),
        told("RocksDB", "readwhilewriting", 64, Quantity::Rate, 778e3),
        told("HeRocks", "readwhilewriting", 64, Quantity::P99, 216.0),
        told("RocksDB", "readwhilewriting", 64, Quantity::P99, 332.0),
        told(Z_SSD, "readwhilewriting", 32, Quantity::Rate, 894e3),
        told(Z_SSD_PEER, "readwhilewriting", 32, Quantity::Rate, 85e3),
        told(PM, "readwhilewriting", 32, Quantity::Rate, 350e3),
        told(PM_PEER, "readwhilewriting", 32, Quantity::Rate, 67e3),
        told(Z_SSD, "readwhilewriting", 32, Quantity::Mean, 35.8),
        told(Z_SSD_PEER, "readwhilewriting", 32, Quantity::Mean, 374.3),
        told(PM, "readwhilewriting", 32, Quantity::Mean, 91.4),
        told(PM_PEER, "readwhilewriting", 32, Quantity::Mean, 476.9),
        told(Z_SSD, "readrandomwriterandom", 16, Quantity::Rate, 652e3),
        told(Z_SSD_PEER, "readrandomwriterandom", 16, Quantity::Rate, 189e3),
        told(PM, "readrandomwriterandom", 16, Quantity::Rate, 277e3),
        told(PM_PEER, "readrandomwriterandom", 16, Quantity::Rate, 143e3),
        told(Z_SSD, "readrandomwriterandom", 16, Quantity::Mean, 28.7),
        told(Z_SSD_PEER, "readrandomwriterandom", 16, Quantity::Mean, 91.4),
        told(PM, "readrandomwriterandom", 16, Quantity::Mean, 70.3),
        told(PM_PEER, "readrandomwriterandom", 16, Quantity::Mean, 129.7),
    ],
    devices: &[
        told("Z-SSD SZ985", "randread-4k", 1, Quantity::Mean, 15.3),
        told("PM1725a", "randread-4k", 1, Quantity::Mean, 83.1),
        told("Z-SSD SZ985", "randread-4k", 32, Quantity::Rate, 808e3),
        told("PM1725a", "randread-4k", 32, Quantity::Rate, 743e3),
        told("Z-SSD SZ985", "randwrite-4k", 1, Quantity::Mean, 10.5),
        told("PM1725a", "randwrite-4k", 1, Quantity::Mean, 22.2),
        told("Z-SSD SZ985", "randwrite-4k", 32, Quantity::Rate, 151e3),
        told("PM1725a", "randwrite-4k", 32, Quantity::Rate, 140e3),
    ],
};

const CONCURRENCY: &[usize] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Of these the paper tells the ratio to its own engine alone.
const BY_RATIO: &str = "RocksDB, by its ratio";

const HLKVDS: Suite = Suite {
    name: "hlkvds",
    source: "Intel, paper on HLKVDS",
    setup: "Intel P3600; keys of 10 and values of 4,096 bytes, 1 to 512 clients; its number of objects and \
            its memory are not known here (--scale 1: 100 million, 16 GiB)",
    scale: THOUSANDTH,
    differs: &[
        "write is overwrite, so that garbage is collected meanwhile; whether the paper's were is not known",
        "all numbers of clients are on one store, the writes before the reads",
        "latencies of the paper are taken for means; those at 32 and 128 clients are less than clients \
         divided by rate",
    ],
    parts: &[Part {
        workloads: "fillrandom,overwrite,readrandom",
        threads: "1,2,4,8,16,32,64,128,256,512",
        num: 100_000_000,
        key_bytes: 10,
        value_bytes: 4096,
        memory_bytes: 16 * GIB,
        memory_times: 1,
        more: &[],
    }],
    shown: &[
        shown("write", "overwrite", CONCURRENCY, RATE_AND_MEAN),
        shown("read", "readrandom", CONCURRENCY, RATE_AND_MEAN),
    ],
    told: &[
        told("HLKVDS", "overwrite", 32, Quantity::Rate, 90e3),
        told(BY_RATIO, "overwrite", 32, Quantity::Rate, 90e3 / 1.5),
        told("HLKVDS", "overwrite", 32, Quantity::Mean, 250.0),
        told("HLKVDS", "overwrite", 512, Quantity::Rate, 413e3),
        told(BY_RATIO, "overwrite", 512, Quantity::Rate, 413e3 / 6.5),
        told("HLKVDS", "overwrite", 512, Quantity::Mean, 1200.0),
        told("HLKVDS", "readrandom", 128, Quantity::Rate, 450e3),
        told(BY_RATIO, "readrandom", 128, Quantity::Rate, 450e3 / 4.0),
        told("HLKVDS", "readrandom", 128, Quantity::Mean, 250.0),
    ],
    devices: &[
        told("P3600", "randread-4k", 32, Quantity::Rate, 450e3),
        told("P3600", "randwrite-4k", 32, Quantity::Rate, 56e3),
    ],
};

const ROWS: u64 = 300_000_000;
const ROW_BYTES: u64 = 64 + 1024;
const MANY: usize = 64;
/// Tells the reads that are held against the raw device from those within a limit.
pub(super) const OVERHEAD_THREADS: &str = "48";

/// Memory for a share of the data.
const fn scylla_part(
    workloads: &'static str,
    threads: &'static str,
    memory_permille: u64,
    more: &'static [&'static str],
) -> Part {
    Part {
        workloads,
        threads,
        num: ROWS,
        key_bytes: 64,
        value_bytes: ROW_BYTES - 64,
        memory_bytes: ROWS / 1000 * ROW_BYTES * memory_permille,
        memory_times: 1,
        more,
    }
}

/// Of the rows, in thousandths, those in the middle of the Gaussian that have 25, 50 and 75 % of the
/// requests: within 0.3186, 0.6745 and 1.1503 standard deviations, of which there are 6. And more than
/// all.
const SHARES: [u64; 4] = [106, 225, 383, 1500];

const fn within_limit(memory_permille: u64) -> Part {
    let workloads = "fillrandom,readrandom,readrandomwriterandom";
    let more = &[
        "--distribution",
        "gaussian",
        "--latency-limit",
        "p95=1ms,p99=2ms",
        "--warm-up",
        "60s",
        "--read-share",
        "75",
    ];
    scylla_part(workloads, "64", memory_permille, more)
}

const fn reads(label: &'static str, part: usize) -> Shown {
    of_part(label, part, "readrandom")
}

const fn mixed(label: &'static str, part: usize) -> Shown {
    of_part(label, part, "readrandomwriterandom")
}

const fn of_part(label: &'static str, part: usize, workload: &'static str) -> Shown {
    Shown {
        part: Some(part),
        ..shown(
            label,
            workload,
            &[MANY],
            &[Quantity::Rate, Quantity::ToMemory, Quantity::FromMemory],
        )
    }
}

const fn told_of_part(
    part: usize,
    workload: &'static str,
    quantity: Quantity,
    figure: f64,
) -> Told {
    Told {
        part: Some(part),
        ..told("Scylla, Z-SSD", workload, MANY, quantity, figure)
    }
}

const SCYLLA: Suite = Suite {
    name: "scylla",
    source: "Samsung and ScyllaDB, paper on Scylla 2.0 on Z-SSD",
    setup: "3 nodes with 2 Samsung Z-SSD, replication 3, consistency ONE, keys of 64 bytes and rows of 1 KB, \
            chosen by a Gaussian; highest rates with p95 below 1 ms, with 25, 50, 75 and 100 % of the requests \
            from memory; its number of rows is not known here (--scale 1: 300 million)",
    // At which the least of its memories is enough.
    scale: 0.002,
    differs: &[
        "one process without a network, instead of a cluster: compare rates with each other, not with the paper's",
        "rates are held to p99 below 2 ms as well as to p95 below 1 ms",
        "the standard deviation of the paper's Gaussian is not known here: it is taken to be a sixth of the rows, \
         the default of cassandra-stress, with the mean in the middle",
        "memory is for as many rows from the middle as have 25, 50 and 75 % of the requests (10.6, 22.5 and 38.3 % of \
         the data), and for 150 %; index and buffers take their part of it. Before the trials the workload is run \
         unmeasured until its reads of the device no longer become fewer, for a minute at most: share from memory \
         says what came of it, of the trial that counts, where an engine tells",
        "what is over the device (with --raw-device alone) is of reads drawn evenly, with memory for 10.6 % of \
         the data and 48 threads, that fall due at the rates that the raw device had at each depth, or at the nearest \
         that is kept up with; the paper's p95 is 6 to 7.1 times that of its device, its depths are not known here",
    ],
    parts: &[
        scylla_part(
            "fillrandom,readrandom,readrandom,readrandom,readrandom,readrandom,readrandom",
            OVERHEAD_THREADS,
            SHARES[0],
            &["--warm-up", "60s", RATE_OF_DEVICE],
        ),
        within_limit(SHARES[0]),
        within_limit(SHARES[1]),
        within_limit(SHARES[2]),
        within_limit(SHARES[3]),
    ],
    shown: &[
        reads("reads, 25 % in memory", 1),
        reads("reads, 50 % in memory", 2),
        reads("reads, 75 % in memory", 3),
        reads("reads, all in memory", 4),
        mixed("75:25, 25 % in memory", 1),
        mixed("75:25, 50 % in memory", 2),
        mixed("75:25, 75 % in memory", 3),
        mixed("75:25, all in memory", 4),
    ],
    told: &[
        told_of_part(1, "readrandom", Quantity::FromMemory, 0.25),
        told_of_part(2, "readrandom", Quantity::FromMemory, 0.50),
        told_of_part(3, "readrandom", Quantity::FromMemory, 0.75),
        told_of_part(4, "readrandom", Quantity::Rate, 570e3),
        told_of_part(1, "readrandom", Quantity::ToMemory, 1.0 - 0.58),
        told_of_part(2, "readrandom", Quantity::ToMemory, 1.0 - 0.44),
        told_of_part(3, "readrandom", Quantity::ToMemory, 1.0 - 0.23),
        told_of_part(1, "readrandomwriterandom", Quantity::ToMemory, 1.0 - 0.46),
        told_of_part(2, "readrandomwriterandom", Quantity::ToMemory, 1.0 - 0.40),
        told_of_part(3, "readrandomwriterandom", Quantity::ToMemory, 1.0 - 0.29),
    ],
    devices: &[
        told("Z-SSD SZ985", "randread-4k", 1, Quantity::Mean, 15.3),
        told("Z-SSD SZ985", "randread-4k", 32, Quantity::Rate, 808e3),
        told("Z-SSD SZ985", "randwrite-4k", 1, Quantity::Mean, 10.5),
        told("Z-SSD SZ985", "randwrite-4k", 32, Quantity::Rate, 151e3),
    ],
};

const CLIENTS: &[usize] = &[96];
const OF_YCSB: &[Quantity] = &[
    Quantity::Rate,
    Quantity::ReadP999,
    Quantity::WriteP999,
    Quantity::WrittenPerOp,
    Quantity::RateToPeer,
    Quantity::ReadP999ToPeer,
    Quantity::WriteP999ToPeer,
    Quantity::WrittenToPeer,
];
const READS_OF_YCSB: &[Quantity] = &[
    Quantity::Rate,
    Quantity::ReadP999,
    Quantity::RateToPeer,
    Quantity::ReadP999ToPeer,
];
/// The best of A to F, of which it does not tell one by one.
const HSE_BEST: &str = "HSE 1.7, best of A-F";

const fn best(workload: &'static str, quantity: Quantity, figure: f64) -> Told {
    told(HSE_BEST, workload, 96, quantity, figure)
}
const HSE_NAME: &str = "HSE 1.7, 4x 9300";
const HSE_PEER: &str = "RocksDB 6.6.4, 4x 9300";

const HSE: Suite = Suite {
    name: "hse",
    source: "Micron, material on HSE 1.7 beside RocksDB, by YCSB 0.17",
    setup: "2 billion values of 1,000 bytes, 96 threads, 2 Xeon E5-2690v4, memory of 256 GB, on 4 Micron 9300; the \
            bytes written on 4 Micron 5210 QLC",
    scale: THOUSANDTH,
    differs: &[
        "what HSE tells of staging (a fast device before QLC: load 4 times as fast, A 2.3, F 2.1 times) is not \
         measured: this store has no media classes yet",
        "of A to F it tells ratios to RocksDB alone: up to 6 times the rate, p99.9 of reads 42 % less and of \
         writes 91 % less, 64 % fewer bytes read and 85 % fewer written: these stand on each line of A to F, beside \
         our ratios to the RocksDB of the same run",
        "write amplification is computed from 7,260 GB written for 2,000 GB of values",
        "the load is fillrandom, workloads end by time, and a record has one field of 1,000 bytes; memory is all of \
         the paper's machine",
    ],
    parts: &[Part {
        workloads: "fillrandom,ycsb-a,ycsb-b,ycsb-c,ycsb-f,ycsb-d,ycsb-e",
        threads: "96",
        num: 2_000_000_000,
        key_bytes: 24,
        value_bytes: 1000,
        memory_bytes: 256 * GIB,
        memory_times: 1,
        more: &[],
    }],
    shown: &[
        shown(
            "load",
            "fillrandom",
            CLIENTS,
            &[Quantity::Rate, Quantity::WriteP999, Quantity::WriteAmplification],
        ),
        shown("A", "ycsb-a", CLIENTS, OF_YCSB),
        shown("B", "ycsb-b", CLIENTS, OF_YCSB),
        shown("C", "ycsb-c", CLIENTS, READS_OF_YCSB),
        shown("D", "ycsb-d", CLIENTS, OF_YCSB),
        shown("E", "ycsb-e", CLIENTS, OF_YCSB),
        shown("F", "ycsb-f", CLIENTS, OF_YCSB),
    ],
    told: &[
        told(HSE_NAME, "fillrandom", 96, Quantity::Rate, 986_009.0),
        told(HSE_PEER, "fillrandom", 96, Quantity::Rate, 122_899.0),
        told(HSE_NAME, "fillrandom", 96, Quantity::WriteP999, 1600.0),
        told(HSE_PEER, "fillrandom", 96, Quantity::WriteP999, 19_500.0),
        told("HSE 1.7, 4x 5210", "fillrandom", 96, Quantity::WriteAmplification, 3.63),
        best("ycsb-a", Quantity::RateToPeer, 6.0),
        best("ycsb-a", Quantity::ReadP999ToPeer, 0.58),
        best("ycsb-a", Quantity::WriteP999ToPeer, 0.09),
        best("ycsb-a", Quantity::WrittenToPeer, 0.15),
        best("ycsb-b", Quantity::RateToPeer, 6.0),
        best("ycsb-b", Quantity::ReadP999ToPeer, 0.58),
        best("ycsb-b", Quantity::WriteP999ToPeer, 0.09),
        best("ycsb-b", Quantity::WrittenToPeer, 0.15),
        best("ycsb-c", Quantity::RateToPeer, 6.0),
        best("ycsb-c", Quantity::ReadP999ToPeer, 0.58),
        best("ycsb-d", Quantity::RateToPeer, 6.0),
        best("ycsb-d", Quantity::ReadP999ToPeer, 0.58),
        best("ycsb-d", Quantity::WriteP999ToPeer, 0.09),
        best("ycsb-d", Quantity::WrittenToPeer, 0.15),
        best("ycsb-e", Quantity::RateToPeer, 6.0),
        best("ycsb-e", Quantity::ReadP999ToPeer, 0.58),
        best("ycsb-e", Quantity::WriteP999ToPeer, 0.09),
        best("ycsb-e", Quantity::WrittenToPeer, 0.15),
        best("ycsb-f", Quantity::RateToPeer, 6.0),
        best("ycsb-f", Quantity::ReadP999ToPeer, 0.58),
        best("ycsb-f", Quantity::WriteP999ToPeer, 0.09),
        best("ycsb-f", Quantity::WrittenToPeer, 0.15),
    ],
    devices: &[],
};
