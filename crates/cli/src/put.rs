//! `heliox put`: writes one value.

use crate::args::{PutArgs, Shared};
use crate::escape::argument;
use crate::exit::{Failure, Outcome};
use crate::open;

/// Writes the value, durable as asked for.
pub(crate) fn run(args: &PutArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let key = argument(shared, "KEY", &args.place.key)?;
    let value = argument(shared, "VALUE", &args.value)?;
    let store = open::store(&args.place.dir, shared, args.durability.durability)?;
    store
        .keyspace_or_create(shared.keyspace())?
        .put(&key, &value)?;
    store.close()?;
    Ok(Outcome::Done)
}
