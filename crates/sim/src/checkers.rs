//! Checkers that know nothing of how the store works: everything it shows, by iteration; its own
//! offline check, index against log and accounts against a scan.
//!
//! Threads: the caller's.

use std::collections::BTreeMap;

use heliox::{Error, ErrorKind, Options, Store};

use crate::keys::{Key, Value};
use crate::model::{show, Found, Found1};

/// The name of a keyspace by number.
#[must_use]
pub(crate) fn space_name(space: u8) -> String {
    format!("s{space}")
}

fn space_of(name: &str) -> Result<u8, String> {
    let number = name.strip_prefix('s').and_then(|n| n.parse().ok());
    number.ok_or_else(|| format!("a keyspace {name:?} that nobody made"))
}

/// What a value says it is.
///
/// # Errors
/// In words, if no write of its key can have given it.
pub(crate) fn recognise(space: u8, key: &[u8], bytes: &[u8]) -> Result<Value, String> {
    Value::parse(space, key, bytes).ok_or_else(|| {
        format!(
            "a value of {} bytes that no write of {space}/{} gave",
            bytes.len(),
            show(key)
        )
    })
}

/// Everything that a store holds. `tolerant`: damaged records are passed over, and counted.
///
/// # Errors
/// In words: keys out of order, values that nobody wrote, errors.
pub(crate) fn dump(store: &Store, tolerant: bool) -> Result<(Found, u64), String> {
    let failed = |what: &str, e: &Error| format!("{what} while everything is read: {e}");
    let (mut found, mut errors) = (Found::new(), 0);
    for name in store.keyspaces() {
        let space = space_of(&name)?;
        let keyspace = store.keyspace(&name).map_err(|e| failed("keyspace", &e))?;
        let items = keyspace.iter().start().map_err(|e| failed("iter", &e))?;
        let mut map: BTreeMap<Key, Found1> = BTreeMap::new();
        for item in items {
            let (key, bytes) = match item {
                Ok(item) => item,
                Err(error) if tolerant && is_detection(&error) => {
                    errors += 1;
                    continue;
                }
                Err(error) => return Err(failed("next", &error)),
            };
            if map
                .last_key_value()
                .is_some_and(|(last, _)| **last >= key[..])
            {
                return Err(format!("{space}/{} is out of order", show(&key)));
            }
            let value = recognise(space, &key, &bytes)?;
            map.insert(key.into(), Found1 { value });
        }
        found.insert(space, map);
    }
    Ok((found, errors))
}

/// True for the errors by which damage may show.
#[must_use]
pub(crate) fn is_detection(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Damaged | ErrorKind::Io | ErrorKind::Failed | ErrorKind::Internal
    )
}

/// The store's own offline check. `expected`: words of findings that are none.
///
/// # Errors
/// What it found, in words.
pub(crate) fn check_offline(options: &Options, expected: &[&str]) -> Result<(), String> {
    let report = Store::check("", options, &mut |_| {}).map_err(|e| format!("check: {e}"))?;
    let is_expected = |problem: &&String| expected.iter().any(|words| problem.contains(words));
    let problems = report.problems.iter().filter(|p| !is_expected(p));
    let problems: Vec<&String> = problems.collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the offline check found {} problems: {:?}",
        report.problem_count,
        problems.iter().take(5).collect::<Vec<_>>()
    ))
}
