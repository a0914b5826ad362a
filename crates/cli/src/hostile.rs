//! The doors through which fuzzing reaches what this program makes of its arguments and of the
//! files that it imports, without a process or a file. No part of any interface. No threads.

use std::ffi::OsString;
use std::io::{Cursor, Read};

use clap::{CommandFactory, Parser};
use heliox::Keyspace;

use crate::args::{Args, Command, ImportArgs, Shared};
use crate::escape::argument;
use crate::import::KeyAndValue;
use crate::{bench, import};

/// Understands a command line and checks what can be checked without a store.
///
/// # Errors
/// The message for the user.
pub fn arguments(words: &[OsString]) -> Result<(), String> {
    let Args { command, shared } = parse(words)?;
    let texts: Vec<(&str, &OsString)> = match &command {
        Command::Get(args) => vec![("KEY", &args.key)],
        Command::Delete(args) => vec![("KEY", &args.place.key)],
        Command::Put(args) => vec![("KEY", &args.place.key), ("VALUE", &args.value)],
        Command::Scan(args) => [&args.from, &args.to, &args.prefix]
            .into_iter()
            .flatten()
            .map(|text| ("a bound", text))
            .collect(),
        Command::Bench(args) => bench::config(args)
            .validate()
            .map(|_| Vec::new())
            .map_err(|error| error.to_string())?,
        _ => Vec::new(),
    };
    for (name, text) in texts {
        argument(&shared, name, text).map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

/// Every word that the command line has a name for: commands, options, values of a fixed set.
#[must_use]
pub fn vocabulary() -> Vec<String> {
    let mut words = std::collections::BTreeSet::new();
    let whole = Args::command();
    for command in whole.get_subcommands().chain([&whole]) {
        words.insert(command.get_name().to_owned());
        for argument in command.get_arguments() {
            words.extend(argument.get_long().map(|name| format!("--{name}")));
            words.extend(argument.get_short().map(|name| format!("-{name}")));
            let values = argument.get_possible_values();
            words.extend(values.iter().map(|value| value.get_name().to_owned()));
        }
    }
    words.into_iter().collect()
}

/// Loads `input` as `heliox import` with these arguments would; gives how many rows are stored and
/// how many lines were malformed.
///
/// # Errors
/// The message for the user.
pub fn load(words: &[OsString], input: Vec<u8>, keyspace: Keyspace) -> Result<(u64, u64), String> {
    let (args, _) = import_of(words)?;
    let loaded = import::load(&args, pieces(input), keyspace);
    loaded.map_err(|failure| failure.to_string())
}

/// The rows that `heliox import` with these arguments finds in `input` before the first malformed
/// line.
///
/// # Errors
/// The message for the user.
pub fn rows(words: &[OsString], input: Vec<u8>) -> Result<Vec<KeyAndValue>, String> {
    let (args, _) = import_of(words)?;
    import::rows(&args, pieces(input)).map_err(|failure| failure.to_string())
}

fn parse(words: &[OsString]) -> Result<Args, String> {
    let words = std::iter::once(OsString::from("heliox")).chain(words.iter().cloned());
    Args::try_parse_from(words).map_err(|error| error.render().to_string())
}

fn import_of(words: &[OsString]) -> Result<(ImportArgs, Shared), String> {
    let Args { command, shared } = parse(words)?;
    match command {
        Command::Import(args) if args.from.is_none() => Ok((args, shared)),
        other => Err(format!("no import: {other:?}")),
    }
}

/// Reads a few bytes at a time, as a pipe may: rows then lie across the ends of reads.
fn pieces(input: Vec<u8>) -> Box<dyn Read> {
    struct Pieces(Cursor<Vec<u8>>);
    impl Read for Pieces {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let some = buf.len().min(7);
            self.0.read(buf.get_mut(..some).unwrap_or_default())
        }
    }
    Box::new(Pieces(Cursor::new(input)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn arguments_are_judged_without_a_store() {
        for good in [
            "get DIR key",
            "create DIR --capacity 168M",
            "scan DIR --limit 1K",
        ] {
            assert_eq!(arguments(&words(good)), Ok(()), "{good}");
        }
        for (bad, said) in [
            ("get DIR", "KEY"),
            ("create DIR --capacity 168Q", "is no size"),
            ("put DIR --escaped \\x4 v", "the backslash"),
            ("bench --dir DIR --workload scan --threads 0", "threads"),
        ] {
            let found = arguments(&words(bad)).unwrap_err();
            assert!(found.contains(said), "{bad}: {found}");
        }
    }

    #[test]
    fn rows_end_at_the_first_malformed_line() {
        let input = b"{\"k\":1}\n{\"k\":\"two\"}\nnonsense\n{\"k\":4}\n".to_vec();
        let found = rows(&words("import DIR --format ndjson --key k"), input).unwrap();
        let keys: Vec<&[u8]> = found.iter().map(|(key, _)| &key[..]).collect();
        assert_eq!(keys, [&b"1"[..], b"two"]);
    }
}
