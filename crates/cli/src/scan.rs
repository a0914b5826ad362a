//! `heliox scan`: prints entries in key order, one a line, as they are read.

use heliox::Keyspace;
use heliox_bench::DurabilityMode;

use crate::args::{ScanArgs, Shared};
use crate::escape::{argument, escape};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::Output;

/// Prints the entries.
pub(crate) fn run(args: &ScanArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let bound = |name, text: &Option<std::ffi::OsString>| match text {
        Some(text) => argument(shared, name, text).map(Some),
        None => Ok(None),
    };
    let bounds = Bounds {
        from: bound("--from", &args.from)?,
        to: bound("--to", &args.to)?,
        prefix: bound("--prefix", &args.prefix)?,
    };
    let store = open::store(&args.dir, shared, DurabilityMode::Bounded)?;
    print(&store.keyspace(shared.keyspace())?, &bounds, args)?;
    store.close()?;
    Ok(Outcome::Done)
}

struct Bounds {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

fn print(keyspace: &Keyspace, bounds: &Bounds, args: &ScanArgs) -> Result<(), Failure> {
    let mut entries = keyspace.iter();
    if let Some(from) = &bounds.from {
        entries = entries.from(from);
    }
    if let Some(to) = &bounds.to {
        entries = entries.to(to);
    }
    if let Some(prefix) = &bounds.prefix {
        entries = entries.prefix(prefix);
    }
    if args.reverse {
        entries = entries.reverse();
    }
    if args.keys_only {
        entries = entries.keys_only();
    }
    let limit = usize::try_from(args.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut output = Output::new();
    let mut line = Vec::new();
    for entry in entries.start()?.take(limit) {
        let (key, value) = entry?;
        line.clear();
        escape(&key, &mut line);
        if !args.keys_only {
            line.push(b'\t');
            escape(&value, &mut line);
        }
        line.push(b'\n');
        output.write(&line)?;
    }
    output.finish()
}
