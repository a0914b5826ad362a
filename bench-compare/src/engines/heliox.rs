//! Heliox, as a program would embed it.
//!
//! - Memory: one budget for everything, which is the memory given.
//! - Room: twice the data and 512 MiB, or what `--full` says, so that overwriting makes garbage
//!   collection work.
//! - Durability: none, bounded (100 ms and 8 MiB) and sync are its own modes.
//! - Scrub in the background: at the default pace. No encryption. It has no compression.

use heliox_bench::{Engine, EngineError, HelioxEngine, HelioxSetup};

use super::Setup;

/// What the store has besides twice the data, in bytes.
const ROOM_BYTES: u64 = 512 << 20;

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let capacity_bytes = match setup.full_percent {
        Some(percent) => setup.data_bytes.saturating_mul(100) / percent.max(1),
        None => setup.data_bytes.saturating_mul(2) + ROOM_BYTES,
    };
    let engine = HelioxEngine::open(&HelioxSetup {
        dir: setup.dir.clone(),
        keyspace: "bench".to_owned(),
        durability: setup.durability,
        memory_bytes: Some(setup.memory_bytes),
        capacity_bytes: Some(capacity_bytes),
        encryption: None,
        scrub_period: None,
    })?;
    Ok(Box::new(engine))
}
