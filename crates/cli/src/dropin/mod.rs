//! `heliox herocks` and `heliox heleveldb`: run a program that uses RocksDB or LevelDB, unchanged, on Heliox.
//!
//! The program is told by the environment where to find the library: in the directory of the drop-in
//! (`make herocks`, `make heleveldb`), whose library has that name. What cannot work is refused before it
//! runs: a program that has the library built into it, or is linked with another version or with the other
//! library. One thread; the program takes the place of this one.

mod elf;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::Command;

use crate::args::{DropInArgs, Shared};
use crate::exit::{Failure, Outcome};

/// What stands in for a library.
pub(crate) struct DropIn {
    /// The command, which is also the directory of the libraries.
    name: &'static str,
    /// What it stands in for.
    stands_for: &'static str,
    /// The library's name without its version.
    stem: &'static str,
    library: &'static str,
    preloaded: &'static str,
    /// Where the libraries are, if not beside this program.
    dir_variable: &'static str,
    /// Words that only a program with the stood-in library built into it holds.
    built_in: &'static [u8],
}

pub(crate) static HEROCKS: DropIn = DropIn {
    name: "herocks",
    stands_for: "RocksDB",
    stem: "librocksdb.so",
    library: "librocksdb.so.7.8",
    preloaded: "preload/libherocks.so",
    dir_variable: "HELIOX_HEROCKS_DIR",
    built_in: b"Recovered from manifest file:",
};

pub(crate) static HELEVELDB: DropIn = DropIn {
    name: "heleveldb",
    stands_for: "LevelDB",
    stem: "libleveldb.so",
    library: "libleveldb.so.1d",
    preloaded: "preload/libheleveldb.so",
    dir_variable: "HELIOX_HELEVELDB_DIR",
    built_in: b"no meta-nextfile entry in descriptor",
};

impl DropIn {
    fn other(&self) -> &'static DropIn {
        if self.name == HEROCKS.name {
            &HELEVELDB
        } else {
            &HEROCKS
        }
    }

    fn failure(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Argument(format!("{}: {why}", self.name))
    }
}

/// Runs the program; returns only if that fails.
pub(crate) fn run(kind: &DropIn, args: &DropInArgs, shared: &Shared) -> Result<Outcome, Failure> {
    if shared.keyspace.is_some() || shared.escaped {
        return Err(
            kind.failure("--keyspace and --escaped say nothing to a program: leave them out")
        );
    }
    let libraries = libraries(kind)?;
    let program = find_program(kind, &args.program)?;
    let file = fs::read(&program).map_err(|error| Failure::file("read", &program, error))?;
    let own_path = check_program(kind, &program, &file)?;
    let mut command = Command::new(&program);
    command.arg0(&args.program).args(&args.arguments);
    // The program's own directories come before the environment's, but not before this.
    let (variable, value) = if args.preload || own_path {
        ("LD_PRELOAD", libraries.join(kind.preloaded))
    } else {
        ("LD_LIBRARY_PATH", libraries.clone())
    };
    command.env(variable, in_front(value.as_os_str(), env::var_os(variable)));
    let settings = [
        ("HELIOX_MEMORY", shared.memory),
        ("HELIOX_CAPACITY", args.capacity),
        ("HELIOX_DURABILITY", args.durability_ms),
    ];
    for (variable, value) in settings {
        if let Some(value) = value {
            command.env(variable, value.to_string());
        }
    }
    set_key(&mut command, shared)?;
    Err(Failure::file("run", &program, command.exec()))
}

/// Says where the store's key is; the program may change its directory before it opens one.
fn set_key(command: &mut Command, shared: &Shared) -> Result<(), Failure> {
    const FILE: &str = "HELIOX_KEY_FILE";
    const COMMAND: &str = "HELIOX_KEY_COMMAND";
    if let Some(path) = &shared.key_file {
        let whole = path::absolute(path).map_err(|error| Failure::file("find", path, error))?;
        command.env(FILE, whole).env_remove(COMMAND);
    }
    if let Some(key_command) = &shared.key_command {
        command.env(COMMAND, key_command).env_remove(FILE);
    }
    Ok(())
}

/// The directory of the drop-in.
fn libraries(kind: &DropIn) -> Result<PathBuf, Failure> {
    let said = env::var_os(kind.dir_variable).filter(|dir| !dir.is_empty());
    let tried: Vec<PathBuf> = match said {
        Some(dir) => vec![PathBuf::from(dir)],
        None => beside_this_program(kind.name),
    };
    let whole =
        |dir: &&PathBuf| dir.join(kind.library).is_file() && dir.join(kind.preloaded).is_file();
    if let Some(dir) = tried.iter().find(whole) {
        return fs::canonicalize(dir).map_err(|error| Failure::file("read", dir, error));
    }
    let tried: Vec<String> = tried.iter().map(|dir| dir.display().to_string()).collect();
    Err(kind.failure(format!(
        "{} and {} of Heliox are not in {}: build them with `make {}`, and say where they are by {}",
        kind.library,
        kind.preloaded,
        tried.join(" nor in "),
        kind.name,
        kind.dir_variable
    )))
}

fn beside_this_program(name: &str) -> Vec<PathBuf> {
    let exe = env::current_exe().and_then(fs::canonicalize);
    let dir = exe.ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let dir = dir.unwrap_or_default();
    ["", "..", "../lib"]
        .map(|place| dir.join(place).join(name))
        .to_vec()
}

/// The file of the program, as a shell would find it.
fn find_program(kind: &DropIn, name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let is_program = |file: &PathBuf| {
        let found = fs::metadata(file);
        found.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let found = env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(is_program);
    found.ok_or_else(|| {
        let name = Path::new(name).display();
        kind.failure(format!("no program {name} on the PATH"))
    })
}

/// True if the program looks for libraries in directories of its own first. Scripts, and programs
/// that load the library while they run, cannot be told from others and are taken.
fn check_program(kind: &DropIn, program: &Path, file: &[u8]) -> Result<bool, Failure> {
    let refused = |why: String| {
        let program = program.display();
        kind.failure(format!("{program} cannot run on Heliox: {why}"))
    };
    let Some(linking) = elf::linking(file) else {
        return Ok(false);
    };
    if !linking.is_dynamic {
        return Err(refused(
            "it is statically linked, so no library can be put in a place of its own".to_owned(),
        ));
    }
    let needs = |stem: &str| linking.needed.iter().find(|name| name.starts_with(stem));
    let other = kind.other();
    if let Some(name) = needs(kind.stem) {
        if name != kind.library {
            let stands_for = kind.library;
            let why = format!("it needs {name}, and this library stands for {stands_for}");
            return Err(refused(why));
        }
    } else if holds(file, kind.built_in) {
        return Err(refused(format!(
            "{} is built into it; link it with {} instead",
            kind.stands_for, kind.stem
        )));
    } else if let Some(name) = needs(other.stem) {
        return Err(refused(format!(
            "it needs {name}, and not {}: use `heliox {}`",
            kind.stem, other.name
        )));
    }
    Ok(linking.has_own_path)
}

fn holds(file: &[u8], words: &[u8]) -> bool {
    file.windows(words.len()).any(|window| window == words)
}

/// A path in front of others, if there are any.
fn in_front(path: &OsStr, others: Option<OsString>) -> OsString {
    let mut all = path.to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}
