//! `heliox import --from` and `heliox export --to`: stores of LevelDB and RocksDB, both ways.
//!
//! Those stores are read and written by programs over the engines' own libraries (`make migrate`),
//! started here and spoken to over pipes. What was moved is read back and compared before it counts.

mod export;
mod frames;
mod helper;
mod herocks;
mod import;
mod place;

pub(crate) use export::run as export;
pub(crate) use import::run as import;

use crate::args::Engine;

/// The keyspace that tells of an import that did not end; its keys are the keyspaces it fills.
const MARKER: &str = ".import";

/// A column family, and where it is in Heliox. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Family {
    /// As the other engine names it.
    name: Vec<u8>,
    /// The keyspace.
    space: String,
    /// Whether its keys are in the order of RocksDB's reverse bytewise comparator.
    reversed: bool,
}

impl Family {
    /// The name as text.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// The name of its order.
    fn comparator(&self) -> &'static [u8] {
        if self.reversed {
            herocks::REVERSED
        } else {
            herocks::BYTEWISE
        }
    }
}
