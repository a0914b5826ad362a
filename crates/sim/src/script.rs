//! A run as data: how the store is set up, and everything that happens to it.
//!
//! Invariants: an event names no state, so any part of a script is a script; what `Debug` prints is
//! Rust that makes the same script again. Threads: plain data.

use std::fmt::Write;

use heliox::Step;

use crate::media::Fault;

/// How the store of a run is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Of keys, hashes, times and identities.
    pub seed: u64,
    /// Different keys per keyspace.
    pub keys: u32,
    /// Families of keys, a bit each.
    pub families: u8,
    /// Bytes of all devices together, in MiB.
    pub device_mib: u64,
    /// How many devices there are.
    pub volumes: u8,
    /// The store's memory budget in MiB.
    pub memory_mib: u64,
    /// Bits of a fingerprint: 31, or few of them, so that strangers are common.
    pub fingerprint_bits: u32,
    /// Every displaced key is verified.
    pub exact: bool,
    /// The bounds of `Bounded`.
    pub bound_ms: u64,
    /// The bounds of `Bounded`.
    pub bound_bytes: u64,
}

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// When it is durable.
    Synced,
    /// At once, within the setup's bounds.
    Bounded,
    /// At once.
    Volatile,
}

/// A part of the device that rots by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// One of the two superblock copies.
    Superblock,
    /// A segment of the newest checkpoint.
    Checkpoint,
    /// The newest segments of the log.
    Tail,
    /// Older segments of the log.
    Sealed,
}

/// One thing that happens. Fields are keyspace, key number, length and so on, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // each is the store's operation of the same name
pub enum Event {
    Put(u8, u32, u32, Ack),
    /// With a time to live in milliseconds.
    PutFor(u8, u32, u32, u64),
    Delete(u8, u32, Ack),
    Insert(u8, u32, u32),
    Replace(u8, u32, u32),
    Take(u8, u32),
    Update(u8, u32, u64),
    Merge(u8, u32, u64),
    /// So many members from a seed, values of at most so many bytes.
    Batch(u64, u8, u32, Ack),
    DeleteRange(u8, u32, u32),
    /// All keys that share so many first bytes with this one.
    DeletePrefix(u8, u32, u8),
    Get(u8, u32),
    GetPart(u8, u32, u32, u32),
    MultiGet(u8, u32, u8),
    /// From one key to another; bits: bounded below, bounded above, reverse, keys only.
    Scan(u8, u32, u32, u8),
    TakeSnapshot,
    /// A key as a snapshot sees it.
    ReadSnapshot(u8, u8, u32),
    /// A whole keyspace as a snapshot sees it.
    ScanSnapshot(u8, u8),
    DropSnapshot(u8),
    CreateSpace(u8),
    DropSpace(u8),
    SyncNow,
    FlushNow,
    CheckpointNow,
    /// Close in order, check the whole store offline, open.
    Reopen,
    /// Compares everything with the model.
    Compare,
    /// A step of background work.
    Run(Step),
    /// The next event happens in this pause of the step before.
    InPause(u32),
    /// So many microseconds pass.
    Tick(u64),
    /// A fault of one volume.
    Arm(u8, Fault),
    /// A fault of one volume that begins to count with the next open.
    ArmOpen(u8, Fault),
    /// Flips bits somewhere in a zone.
    Rot(Zone, u64),
    /// The power goes: after so many requests that change something, leaving the image of a seed;
    /// again, if not 0, after so many of the recovery, leaving the image of another.
    Crash(u64, u64, u64, u64),
}

impl Event {
    /// True if bytes may be damaged behind the store's back, beyond what it can mend.
    pub(crate) fn damages(&self) -> bool {
        use Fault::{LieSync, MisdirectRead, MisdirectWrite};
        match self {
            Event::Rot(zone, _) => *zone != Zone::Superblock,
            Event::Arm(_, fault) | Event::ArmOpen(_, fault) => {
                matches!(fault, MisdirectRead(..) | MisdirectWrite(..) | LieSync(..))
            }
            _ => false,
        }
    }
}

/// The script as a test that can be pasted.
#[must_use]
pub fn as_test(setup: &Setup, events: &[Event], violation: &str) -> String {
    let mut text = String::new();
    for line in violation.lines().take(6) {
        let _ = writeln!(text, "// {line}");
    }
    let _ = writeln!(text, "#[test]\nfn seed_{}() {{", setup.seed);
    let _ = writeln!(text, "    #[allow(unused_imports)]");
    let _ = writeln!(text, "    use heliox::Step::*;");
    let _ = writeln!(text, "    #[allow(unused_imports)]");
    let _ = writeln!(
        text,
        "    use heliox_sim::{{Ack::*, Event::*, Fault::*, Zone::*}};"
    );
    let _ = writeln!(text, "    let setup = heliox_sim::{setup:?};");
    let _ = writeln!(text, "    let events = [");
    for event in events {
        let _ = writeln!(text, "        {event:?},");
    }
    let _ = writeln!(text, "    ];");
    let _ = writeln!(
        text,
        "    let report = heliox_sim::replay(&setup, &events);"
    );
    let _ = writeln!(text, "    assert_eq!(report.violation, None);\n}}");
    text
}
