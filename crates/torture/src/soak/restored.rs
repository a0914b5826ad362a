//! A process of its own that restores the newest backup of a run, checks it offline, opens it and
//! reads every value. One thread.

use std::path::Path;

use heliox::{Options, Store};

use super::model::KEYSPACES;
use super::value::{parse_key, Stamp};
use crate::failure::{Failure, Result};

const MEMORY_BYTES: u64 = 64 << 20;

/// Restores the newest backup of the run in `dir`, and verifies what it holds; then it is removed.
///
/// # Errors
/// What is wrong with it.
pub fn restore_and_verify(dir: &Path) -> Result<()> {
    let place = dir.join("restored");
    let removed = || Failure::system(place.display().to_string());
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(removed())?;
    }
    let options = Options::new()
        .create_if_missing(false)
        .memory_budget_bytes(MEMORY_BYTES);
    let set = dir.join("backups");
    Store::restore(set, None, &place, &options, &mut |_| {}).map_err(Failure::store("restore"))?;
    check(&place, &options)?;
    let store = Store::open(&place, &options).map_err(Failure::store("open"))?;
    for (number, name) in KEYSPACES.iter().enumerate() {
        read_all(&store, number, name)?;
    }
    store.close().map_err(Failure::store("close"))?;
    check(&place, &options)?;
    std::fs::remove_dir_all(&place).map_err(removed())
}

/// Verifies a store that nobody has open.
pub(crate) fn check(place: &Path, options: &Options) -> Result<u64> {
    let report = Store::check(place, options, &mut |_| {}).map_err(Failure::store("check"))?;
    match report.problems.first() {
        None => Ok(report.records),
        Some(first) => Err(Failure::Violation(format!(
            "the check of {} found {} problems: {first}",
            place.display(),
            report.problem_count
        ))),
    }
}

fn read_all(store: &Store, number: usize, name: &str) -> Result<()> {
    let keyspace = store.keyspace(name).map_err(Failure::store("keyspace"))?;
    for item in keyspace.iter().start().map_err(Failure::store("a scan"))? {
        let (key, value) = item.map_err(Failure::store("a scan"))?;
        let told = Stamp::of(&value).map(|s| (usize::from(s.keyspace), s.thread, s.slot));
        let place = parse_key(&key).map(|(thread, slot)| (number, thread, slot));
        if place.is_none() || told != place {
            return Err(Failure::Violation(format!(
                "key {} of the restored keyspace {name} has the value of {told:?}",
                String::from_utf8_lossy(&key)
            )));
        }
    }
    Ok(())
}
