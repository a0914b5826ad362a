//! What `tidy` holds the tree to: every table and number it uses, and nothing else.
//!
//! A rule is loosened or tightened here, in the open, with its reason beside it.
//! No state, no threads.

/// Where a module of the engine crate stands. A module may import only what stands lower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Layer {
    /// Plain data, open to all; imports only other plain data.
    Data,
    /// One thing per file. Another noun only by an edge of [`SIDEWAYS`].
    Noun,
    /// The nouns that make up an open store, put together; no flow of its own.
    Core,
    /// One flow per file. Another verb only by an edge of [`SIDEWAYS`].
    Verb,
    /// The door and the threads: may import everything; imported by nobody below.
    Frame,
}

/// The modules of the engine crate and their layers. A module that is not here fails `tidy`.
pub const ENGINE_MODULES: &[(&str, Layer)] = &[
    ("store", Layer::Frame),
    ("background", Layer::Frame),
    ("keyspace", Layer::Frame),
    ("batch", Layer::Frame),
    ("backup", Layer::Frame),
    ("hostile", Layer::Frame),
    ("write", Layer::Verb),
    ("commit", Layer::Verb),
    ("admit", Layer::Verb),
    ("room", Layer::Verb),
    ("read", Layer::Verb),
    ("scan", Layer::Verb),
    ("gather", Layer::Verb),
    ("gc", Layer::Verb),
    ("checkpoint", Layer::Verb),
    ("recover", Layer::Verb),
    ("load", Layer::Verb),
    ("installs", Layer::Verb),
    ("tail", Layer::Verb),
    ("check", Layer::Verb),
    ("sweep", Layer::Verb),
    ("scrub", Layer::Verb),
    ("evacuate", Layer::Verb),
    ("watch", Layer::Verb),
    ("reap", Layer::Verb),
    ("strangers", Layer::Verb),
    ("large", Layer::Verb),
    ("keys", Layer::Verb),
    ("multi_get", Layer::Verb),
    ("range_delete", Layer::Verb),
    ("approximate", Layer::Verb),
    ("core", Layer::Core),
    ("snapshot", Layer::Core),
    ("batches", Layer::Noun),
    ("cache", Layer::Noun),
    ("findings", Layer::Noun),
    ("keyspaces", Layer::Noun),
    ("leaves", Layer::Noun),
    ("merge", Layer::Noun),
    ("ahead", Layer::Noun),
    ("patrol", Layer::Noun),
    ("vitals", Layer::Noun),
    ("pins", Layer::Noun),
    ("ranges", Layer::Noun),
    ("tombstones", Layer::Noun),
    ("root", Layer::Noun),
    ("signals", Layer::Data),
    ("snapshots", Layer::Noun),
    ("space", Layer::Noun),
    ("canary", Layer::Data),
    ("encryption", Layer::Data),
    ("error", Layer::Data),
    ("environment", Layer::Data),
    ("events", Layer::Data),
    ("health", Layer::Data),
    ("options", Layer::Data),
    ("stats", Layer::Data),
];

/// Imports within one layer of the engine that are meant: (importer, imported). `*` is anyone.
/// Verbs reach another verb only to append or install; each other edge needs its reason here.
pub const SIDEWAYS: &[(&str, &str)] = &[
    // One append, one install, shared by put, GC, healing and replay.
    ("*", "write"),
    // One door for all that is written.
    ("*", "admit"),
    // Where collection gains nothing, sweeps may.
    ("room", "gc"),
    ("room", "sweep"),
    // A record whose chain has to end is moved as collection moves it.
    ("sweep", "gc"),
    // One get, shared by iterators and by whatever depends on the present value.
    ("*", "read"),
    // What the index cannot tell apart is counted by an iteration.
    ("approximate", "scan"),
    // Large values are read, written and dropped in one place.
    ("*", "large"),
    // Full keys for the index, wherever it may ask for them.
    ("*", "keys"),
    // Recovery collects what it replays, to install it leaf by leaf.
    ("recover", "installs"),
    // What it replays is read ahead, and taken apart for the installs.
    ("recover", "tail"),
    ("installs", "tail"),
    // A record that the image of a leaf has already is marked when it is read.
    ("tail", "load"),
    // The check reads superblock and checkpoint by the code that opening trusts.
    ("check", "recover"),
    // Opening first loads the newest checkpoint.
    ("recover", "load"),
    // A sweep finds the owners of chunks in order.
    ("sweep", "scan"),
    // Segments of the tail become free only when a checkpoint covers them.
    ("gc", "checkpoint"),
    // Collection and sweeps come upon strangers, and deal with them alike.
    ("gc", "strangers"),
    ("sweep", "strangers"),
    // Which tombstones may go, and how an entry does, is one decision of both.
    ("gc", "reap"),
    ("sweep", "reap"),
    ("reap", "strangers"),
    // A scrub mends a checkpoint by writing another, and moves records out of a damaged segment as
    // collection does.
    ("scrub", "checkpoint"),
    ("scrub", "evacuate"),
    ("evacuate", "gc"),
    // A scan lays together what it found apart, by the moves of collection.
    ("scan", "gather"),
    ("gather", "gc"),
    // Damage in the segment that the scrub is in is marked as findings are.
    ("patrol", "findings"),
    // Where too many range deletes wait for their sweep and a checkpoint, the next one sees to both.
    ("range_delete", "sweep"),
    ("range_delete", "checkpoint"),
    // A handle on a part of the open store.
    ("snapshot", "core"),
];

/// Which of our crates each crate may depend on. A crate that is not here fails `tidy`.
pub const CRATES: &[(&str, &[&str])] = &[
    ("heliox-sync", &[]),
    ("heliox-format", &[]),
    ("heliox-media", &["heliox-format", "heliox-sync"]),
    (
        "heliox-log",
        &["heliox-format", "heliox-media", "heliox-sync"],
    ),
    ("heliox-index", &["heliox-format", "heliox-sync"]),
    (
        "heliox",
        &[
            "heliox-format",
            "heliox-media",
            "heliox-log",
            "heliox-index",
            "heliox-sync",
        ],
    ),
    // A store in memory for programs that are not written in Rust.
    ("heliox-capi", &["heliox", "heliox-media"]),
    ("heliox-bench", &["heliox"]),
    ("heliox-report", &["heliox-bench"]),
    // Its keys are chosen by their hashes.
    (
        "heliox-sim",
        &["heliox", "heliox-media", "heliox-format", "heliox-index"],
    ),
    (
        "heliox-torture",
        &["heliox", "heliox-media", "heliox-format", "heliox-sync"],
    ),
    // Offline tools of the command line read the log and its formats directly.
    (
        "heliox-cli",
        &[
            "heliox",
            "heliox-bench",
            "heliox-report",
            "heliox-log",
            "heliox-format",
        ],
    ),
    ("xtask", &[]),
];

/// Manifests of crates that are workspaces of their own, so that what they depend on is no
/// dependency of Heliox.
pub const OWN_WORKSPACES: &[&str] = &["fuzz/Cargo.toml", "bench-compare/Cargo.toml"];

/// Files in which `unsafe` may stand; SAFETY.md argues for each.
pub const UNSAFE_FILES: &[&str] = &[
    "crates/media/src/buffer.rs",
    "crates/media/src/mapping.rs",
    "crates/media/src/region.rs",
    "crates/media/src/sys.rs",
    "crates/media/src/uring.rs",
    "crates/index/src/blocks.rs",
    "crates/index/src/simd.rs",
    "crates/index/src/sync.rs",
    "crates/capi/src/border.rs",
    "crates/capi/src/layout.rs",
    "bench-compare/src/engines/lmdb.rs",
];

/// Lines a file may have, inline tests left out.
pub const FILE_LINES_MAX: usize = 800;

/// Lines a function may have, signature and braces included.
pub const FUNCTION_LINES_MAX: usize = 70;

/// A function that is longer than [`FUNCTION_LINES_MAX`], and may not grow.
#[derive(Clone, Copy, Debug)]
pub struct Waiver {
    /// File, from the root of the tree.
    pub file: &'static str,
    /// Name of the function.
    pub function: &'static str,
    /// Its length; a shorter function must lower it, so the number only shrinks.
    pub lines: usize,
}

/// The functions that are too long. This list may only shrink.
pub const WAIVERS: &[Waiver] = &[];

/// `unwrap` and `expect` per 1,000 production lines of a crate (rounded up).
pub const UNWRAPS_PER_1000_MAX: usize = 2;

/// Words that no source, script or document may contain, and why. Written in pieces, so that
/// this file passes its own rule.
pub const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "unfinished work belongs in an issue"),
    (concat!("FIX", "ME"), "unfinished work belongs in an issue"),
    (concat!("X", "XX"), "unfinished work belongs in an issue"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/tmp/", "target-"), "a path of one machine"),
    (concat!("/tmp/", "contract"), "a path of one machine"),
    (concat!("/tmp/", "engine-api"), "a path of one machine"),
    (concat!("fa", "rm-"), "a private name"),
    (
        concat!("sub", "agent"),
        "the tree speaks of the product alone",
    ),
    (
        concat!("the ", "lead"),
        "the tree speaks of the product alone",
    ),
    (
        concat!("this ", "session"),
        "the tree speaks of the product alone",
    ),
    (
        concat!("a session ", "of the project"),
        "the tree speaks of the product alone",
    ),
    (
        concat!("engine-", "api.md"),
        "a file that is not in the tree",
    ),
    (concat!("style", ".md"), "a file that is not in the tree"),
    (concat!("design", ".md"), "a file that is not in the tree"),
];

/// Code that no production source may contain, and what to write instead.
pub const FORBIDDEN_CODE: &[(&str, &str)] = &[
    (concat!("db", "g!"), "remove it"),
    (concat!("to", "do!("), "finish it or leave it out"),
    (concat!("unimpl", "emented!("), "return a typed error"),
    (
        concat!("to_ne", "_bytes"),
        "formats are little-endian: to_le_bytes",
    ),
    (
        concat!("from_ne", "_bytes"),
        "formats are little-endian: from_le_bytes",
    ),
];

/// Directories that are not part of the source.
pub const SKIPPED_DIRECTORIES: &[&str] = &[
    "target",
    ".git",
    "heliox-data",
    "bench-results",
    "corpus",
    "artifacts",
    "golden",
];
