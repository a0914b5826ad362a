//! `heliox create`: makes a store and its first keyspace.

use heliox::{Options, Store};

use crate::args::{CreateArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::print_line;
use heliox_bench::size::show_bytes;

/// Makes the store.
pub(crate) fn run(args: &CreateArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let mut options = Options::new().devices(args.devices.clone());
    if let Some(bytes) = args.capacity {
        options = options.capacity_bytes(bytes);
    }
    options = open::with_shared(options, shared);
    let store = Store::create(&args.dir, &options)?;
    let keyspace = shared.keyspace();
    store.keyspace_or_create(keyspace)?;
    let capacity = show_bytes(store.stats().capacity_bytes);
    store.close()?;
    let dir = args.dir.display();
    print_line(&format!(
        "made {dir}: capacity {capacity}, keyspace {keyspace}"
    ))?;
    Ok(Outcome::Done)
}
