//! Killing the real program: parent, child, and what goes between them.
//!
//! One *life* of the store is one child process: it opens the store, tells all it holds, works with
//! many threads and tells each acknowledged operation, until it is killed. The parent writes down
//! what it is told, and checks the next life's tale against it. The store is never made anew.

mod child;
mod loop_device;
mod parent;
mod wire;

pub use child::{load, LoadPlan};
pub use loop_device::LoopDevice;
pub use parent::{run, KillPlan, KillReport};

use std::path::Path;

use heliox::{Durability, Options};

/// Acknowledgements under `bounded` may be lost for so long.
pub const BOUND_MS: u64 = 50;
/// And so many bytes of them.
pub const BOUND_BYTES: u64 = 256 << 10;

/// A durability of a load, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Nothing acknowledged is lost.
    Sync,
    /// At most [`BOUND_MS`] and [`BOUND_BYTES`] are.
    Bounded,
    /// Any suffix is.
    None,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::Sync, Mode::Bounded, Mode::None];

    /// The mode of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Bounded => "bounded",
            Mode::None => "none",
        }
    }

    pub(crate) fn durability(self) -> Durability {
        match self {
            Mode::Sync => Durability::Sync,
            Mode::None => Durability::None,
            Mode::Bounded => Durability::Bounded {
                ms: BOUND_MS,
                bytes: BOUND_BYTES,
            },
        }
    }
}

/// The store under load: as small as one can be, so that collection and checkpoints never rest.
pub(crate) fn options(mode: Mode, device: Option<&Path>) -> Options {
    Options::new()
        .capacity_bytes(66 << 20)
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
        .durability(mode.durability())
        .devices(device.map(Path::to_owned).into_iter().collect())
}
