//! `heliox get`: prints one value.

use heliox_bench::DurabilityMode;

use crate::args::{KeyArgs, Shared};
use crate::escape::argument;
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::Output;

/// Prints the value, byte for byte, and a newline.
pub(crate) fn run(args: &KeyArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let key = argument(shared, "KEY", &args.key)?;
    let store = open::store(&args.dir, shared, DurabilityMode::Bounded)?;
    let value = store.keyspace(shared.keyspace())?.get(&key)?;
    store.close()?;
    let Some(value) = value else {
        return Ok(Outcome::KeyNotThere);
    };
    let mut output = Output::new();
    output.write(&value)?;
    output.write(b"\n")?;
    output.finish()?;
    Ok(Outcome::Done)
}
