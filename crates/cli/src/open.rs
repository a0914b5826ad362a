//! Opening a store that exists.

use std::path::Path;

use heliox::{ErrorKind, Options, Store};
use heliox_bench::DurabilityMode;

use crate::args::Shared;
use crate::exit::Failure;

/// Options that open and never make a store.
pub(crate) fn options(shared: &Shared) -> Options {
    with_shared(Options::new().create_if_missing(false), shared)
}

/// The options with what every command takes.
pub(crate) fn with_shared(mut options: Options, shared: &Shared) -> Options {
    if let Some(bytes) = shared.memory {
        options = options.memory_budget_bytes(bytes);
    }
    match shared.encryption() {
        Some(key) => options.encryption(key),
        None => options,
    }
}

/// Opens the store in `dir`.
pub(crate) fn store(
    dir: &Path,
    shared: &Shared,
    durability: DurabilityMode,
) -> Result<Store, Failure> {
    let options = options(shared).durability(durability.for_heliox());
    Store::open(dir, &options).map_err(|error| no_store(dir, error))
}

/// Says how to make a store where there is none.
pub(crate) fn no_store(dir: &Path, error: heliox::Error) -> Failure {
    if error.kind() == ErrorKind::NotAStore {
        return Failure::NoStore(dir.to_owned());
    }
    Failure::Store(error)
}
