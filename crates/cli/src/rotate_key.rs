//! `heliox rotate-key`: gives an encrypted store another key.

use heliox::{KeySource, Store};

use crate::args::{RotateKeyArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::print_line;

/// Changes the key of a store that nobody has open.
pub(crate) fn run(args: &RotateKeyArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let new = match (&args.new.new_key_file, &args.new.new_key_command) {
        (Some(path), _) => KeySource::file(path),
        (None, Some(command)) => KeySource::command(command),
        // Asked for by the command line; told again in case it is not.
        (None, None) => return Err(Failure::Argument("no new key is given".to_owned())),
    };
    let changed = Store::change_key(&args.dir, &open::options(shared), &new);
    let changed = changed.map_err(|error| open::no_store(&args.dir, error))?;
    let dir = args.dir.display();
    let later = match changed.added {
        true => "what is written from now on gets a new data key",
        false => "no new data key: 16 are in use",
    };
    print_line(&format!(
        "{dir}: the new key opens it; data keys: {}; {later}",
        changed.data_keys
    ))?;
    Ok(Outcome::Done)
}
