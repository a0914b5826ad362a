//! `heliox destroy`: deletes a store.

use heliox::Store;

use crate::args::DestroyArgs;
use crate::exit::{Failure, Outcome};
use crate::open;

/// Deletes the store, if the command line says that this is meant.
pub(crate) fn run(args: &DestroyArgs) -> Result<Outcome, Failure> {
    let dir = &args.dir;
    if !args.yes {
        return Err(Failure::Argument(format!(
            "nothing was deleted: say --yes to delete the store in {} with all that is in it",
            dir.display()
        )));
    }
    Store::destroy(dir).map_err(|error| open::no_store(dir, error))?;
    Ok(Outcome::Done)
}
