//! `heliox delete`: deletes one key.

use crate::args::{DeleteArgs, Shared};
use crate::escape::argument;
use crate::exit::{Failure, Outcome};
use crate::open;

/// Deletes the key, durable as asked for, and says if it was not there.
///
/// Asking first is safe: one process has a store, and this one has one thread.
pub(crate) fn run(args: &DeleteArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let key = argument(shared, "KEY", &args.place.key)?;
    let store = open::store(&args.place.dir, shared, args.durability.durability)?;
    let keyspace = store.keyspace(shared.keyspace())?;
    let found = keyspace.contains(&key)?;
    if found {
        keyspace.delete(&key)?;
    }
    store.close()?;
    Ok(if found {
        Outcome::Done
    } else {
        Outcome::KeyNotThere
    })
}
