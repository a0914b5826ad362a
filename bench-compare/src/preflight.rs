//! What a run needs, checked before it starts. No state, no threads.

use std::fs::OpenOptions;
use std::path::Path;

use heliox_bench::size::show_bytes;

use crate::args::RunArgs;
use crate::child;
use crate::disk;
use crate::engines::{self, Kind, BUILT_IN};
use crate::raw::FILE_BYTES_MIN;

/// Stores of all designs stay within three times their data and this, in bytes; one engine is
/// measured at a time.
const ROOM_BYTES: u64 = 1 << 30;
/// What is left free beside the file of the raw device, in bytes.
const RAW_ROOM_BYTES: u64 = 64 << 20;
/// What a process has besides the engine's memory, in bytes.
const PROCESS_BYTES: u64 = 256 << 20;

/// Checks everything that can be known, and gives the engines.
///
/// # Errors
/// The first thing that is missing: what is needed, what is there, what helps.
pub(crate) fn check(args: &RunArgs) -> Result<Vec<Kind>, String> {
    let kinds: Vec<Kind> = if args.engines.is_empty() {
        BUILT_IN.to_vec()
    } else {
        let named = args.engines.iter().map(|name| engines::find(name));
        named.collect::<Result<_, _>>()?
    };
    args.config()
        .validate()
        .map_err(|error| error.to_string())?;
    if !args.dir.is_dir() {
        return Err(format!("--dir {} is no directory", args.dir.display()));
    }
    let free = disk::free_bytes(&args.dir)
        .map_err(|error| format!("free space of {}: {error}", args.dir.display()))?;
    enough_room(args.data_bytes(), free)?;
    if let Some(raw) = args.raw_setup() {
        enough_room_for_raw(raw.file_bytes, free)?;
    }
    if let Some(available) = disk::available_memory_bytes() {
        enough_memory(args.memory, available)?;
    }
    if let Some(path) = &args.json {
        writable(path)?;
    }
    named_once(&kinds)?;
    heliox_opens(args, &kinds)?;
    Ok(kinds)
}

fn named_once(kinds: &[Kind]) -> Result<(), String> {
    for (place, kind) in kinds.iter().enumerate() {
        if kinds
            .iter()
            .skip(place + 1)
            .any(|other| other.name == kind.name)
        {
            let name = kind.name;
            return Err(format!(
                "--engines names {name} twice: --repeat measures it again"
            ));
        }
    }
    Ok(())
}

/// Makes and removes an empty store as the run would, since Heliox alone has a least memory and size:
/// better now than after the device and other engines were measured.
fn heliox_opens(args: &RunArgs, kinds: &[Kind]) -> Result<(), String> {
    let Some(kind) = kinds.iter().find(|kind| kind.name == child::OURS) else {
        return Ok(());
    };
    let dir = args
        .dir
        .join(format!("bench-compare-{}-check", std::process::id()));
    let failed = |error| format!("cannot make {}: {error}", dir.display());
    std::fs::create_dir(&dir).map_err(failed)?;
    let setup = child::setup(args, &args.config(), &dir);
    let opened = (kind.open)(&setup).and_then(|engine| engine.close());
    // What is left is seen by its name.
    let _ = std::fs::remove_dir_all(&dir);
    opened.map_err(|error| {
        format!(
            "heliox cannot be opened like this: {error}; give more --memory, more data (--num, --value-size) \
             or a smaller --full"
        )
    })
}

fn enough_room(data: u64, free: u64) -> Result<(), String> {
    let needed = data.saturating_mul(3).saturating_add(ROOM_BYTES);
    if free >= needed {
        return Ok(());
    }
    Err(format!(
        "not enough space: {} of data need up to {} while an engine is measured, and {} are free; \
         give a smaller --num or --value-size, or another --dir",
        show_bytes(data),
        show_bytes(needed),
        show_bytes(free)
    ))
}

fn enough_room_for_raw(file: u64, free: u64) -> Result<(), String> {
    if file < FILE_BYTES_MIN {
        return Err(format!(
            "--raw-size is {}: expected {} at least, and more than the device caches",
            show_bytes(file),
            show_bytes(FILE_BYTES_MIN)
        ));
    }
    if free >= file.saturating_add(RAW_ROOM_BYTES) {
        return Ok(());
    }
    Err(format!(
        "not enough space for the raw device: a file of {}, and {} are free; give a smaller --raw-size, \
         or another --dir",
        show_bytes(file),
        show_bytes(free)
    ))
}

fn enough_memory(memory: u64, available: u64) -> Result<(), String> {
    let needed = memory.saturating_add(PROCESS_BYTES);
    if available >= needed {
        return Ok(());
    }
    Err(format!(
        "not enough memory: {} for the engine and {} besides are needed, and {} are available; give a \
         smaller --memory",
        show_bytes(memory),
        show_bytes(PROCESS_BYTES),
        show_bytes(available)
    ))
}

/// Makes the file, and the directory it is to be in.
fn writable(path: &Path) -> Result<(), String> {
    let failed = |error| format!("cannot write {}: {error}", path.display());
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map(|_| ()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_is_needed() {
        assert_eq!(enough_room(1 << 30, 4 << 30), Ok(()));
        let error = enough_room(1 << 30, (4 << 30) - 1).unwrap_err();
        assert!(
            error.contains("4.00 GiB") && error.contains("--num"),
            "{error}"
        );
        assert_eq!(enough_room_for_raw(1 << 30, 2 << 30), Ok(()));
        let error = enough_room_for_raw(1 << 30, 1 << 30).unwrap_err();
        assert!(error.contains("--raw-size") && error.contains("1.00 GiB"));
        let error = enough_room_for_raw(1 << 20, 1 << 30).unwrap_err();
        assert!(error.contains("4.00 MiB at least"), "{error}");
        assert_eq!(enough_memory(1 << 30, 5 << 28), Ok(()));
        let error = enough_memory(1 << 30, (5 << 28) - 1).unwrap_err();
        assert!(
            error.contains("1.00 GiB for the engine and 256.00 MiB besides")
                && error.contains("--memory"),
            "{error}"
        );
    }

    #[test]
    fn an_engine_that_is_not_built_in_is_named_with_those_that_are() {
        let error = engines::find("oracle").unwrap_err();
        assert!(
            error.contains("oracle") && error.contains("heliox"),
            "{error}"
        );
    }
}
