//! What a directory holds, as far as its names of files tell. Reads only.

use std::fs;
use std::path::Path;

use crate::exit::Failure;

use super::Engine;

/// Refuses a source that is no store of the engine's.
pub(super) fn check_source(engine: Engine, path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| Failure::file("read", path, error))?;
    let refused = if !metadata.is_dir() {
        format!("{shown} is a file: name the directory of the store")
    } else if is_heliox(path) {
        format!("{shown} is a store of Heliox already (`heliox backup` and `restore` copy one)")
    } else {
        match of(path) {
            None => format!("{shown} is no store of {engine}: it has no file CURRENT"),
            Some(found) if found != engine => {
                format!("{shown} is a store of {found}: say --from {}", found.word())
            }
            Some(_) => return Ok(()),
        }
    };
    Err(Failure::Argument(refused))
}

/// Refuses to make a store of Heliox where another one is.
pub(super) fn check_target(path: &Path) -> Result<(), Failure> {
    match of(path) {
        Some(engine) if !is_heliox(path) => Err(Failure::Argument(format!(
            "{} is a store of {engine}: import into another directory",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Refuses a place for an export where something is already.
pub(super) fn check_new(path: &Path) -> Result<(), Failure> {
    let partial = partial(path);
    if fs::symlink_metadata(&partial).is_ok() {
        return Err(Failure::Argument(format!(
            "{partial} is a part of an export that did not end, or that goes on: if none does, \
             remove it (rm -r {partial}) and export again",
            partial = partial.display()
        )));
    }
    if fs::symlink_metadata(path).is_ok() {
        return Err(Failure::Argument(format!(
            "{} exists already: export to a new directory",
            path.display()
        )));
    }
    Ok(())
}

/// Where an export is until it is whole.
pub(super) fn partial(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

fn is_heliox(path: &Path) -> bool {
    path.join("HELIOX").exists()
}

/// RocksDB writes its options and its identity beside what LevelDB writes too.
fn of(path: &Path) -> Option<Engine> {
    if !path.join("CURRENT").exists() {
        return None;
    }
    let names = fs::read_dir(path).into_iter().flatten().flatten();
    let rocksdb = |name: &[u8]| name == b"IDENTITY" || name.starts_with(b"OPTIONS-");
    let found = names
        .map(|entry| entry.file_name())
        .any(|name| rocksdb(name.as_encoded_bytes()));
    Some(if found {
        Engine::Rocksdb
    } else {
        Engine::Leveldb
    })
}
