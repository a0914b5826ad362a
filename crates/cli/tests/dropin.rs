//! `heliox herocks` and `heliox heleveldb`: the environment that a program is given, and what is refused before
//! it runs. The real libraries are tried by scripts/herocks-test and heleveldb-test; here empty files stand
//! for them.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const NAMES: [&str; 4] = [
    "librocksdb.so.7.8",
    "preload/libherocks.so",
    "libleveldb.so.1d",
    "preload/libheleveldb.so",
];

/// A directory that looks like those of `make herocks` and `make heleveldb`.
fn libraries() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("preload")).unwrap();
    for name in NAMES {
        fs::write(dir.path().join(name), b"").unwrap();
    }
    dir
}

fn run(libraries: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heliox"));
    command.args(args);
    command.env("HELIOX_HEROCKS_DIR", libraries);
    command.env("HELIOX_HELEVELDB_DIR", libraries);
    command.env("LD_LIBRARY_PATH", "/others");
    command.output().unwrap()
}

fn herocks(libraries: &Path, args: &[&str]) -> Output {
    run(libraries, &[&["herocks"], args].concat())
}

fn refused(libraries: &Path, args: &[&str], word: &str) {
    refused_by("herocks", libraries, args, word);
}

fn refused_by(command: &str, libraries: &Path, args: &[&str], word: &str) {
    let output = run(libraries, &[&[command], args].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(message.contains(word), "{args:?}: {message}");
}

#[test]
fn a_program_is_given_the_library_path_and_the_settings() {
    let dir = libraries();
    let show = "echo $LD_LIBRARY_PATH $HELIOX_MEMORY $HELIOX_CAPACITY $HELIOX_DURABILITY $1";
    let settings = [
        "--memory",
        "64M",
        "--capacity",
        "1G",
        "--durability-ms",
        "0",
    ];
    let program = ["sh", "-c", show, "sh", "--its-own"];
    let output = herocks(dir.path(), &[&settings[..], &program[..]].concat());
    let real = dir.path().canonicalize().unwrap();
    let wanted = format!(
        "{}:/others 67108864 1073741824 0 --its-own\n",
        real.display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_program_is_told_where_the_key_is() {
    let dir = libraries();
    let show = "echo $HELIOX_KEY_FILE $HELIOX_KEY_COMMAND";
    let said = |args: &[&str]| {
        let output = run(dir.path(), &[args, &["sh", "-c", show]].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let here = std::env::current_dir().unwrap();
    let whole = format!("{}\n", here.join("a.key").display());
    for command in ["herocks", "heleveldb"] {
        assert_eq!(said(&[command, "--key-file", "a.key"]), whole);
        let asked = said(&[command, "--key-command", "cat a.key"]);
        assert_eq!(asked, "cat a.key\n");
    }
}

#[test]
fn what_says_nothing_to_a_program_is_refused() {
    let dir = libraries();
    refused(dir.path(), &["--keyspace", "k", "sh"], "--keyspace");
    refused(dir.path(), &["--escaped", "sh"], "--escaped");
    refused(dir.path(), &["--durability-ms", "3600001", "sh"], "3600000");
}

/// The parts of a program that the C compiler makes: linked with libraries of these names, holding `words`.
fn program(dir: &Path, name: &str, needed: &[&str], words: &str) -> Option<String> {
    let source = dir.join("main.c");
    fs::write(
        &source,
        format!("const char *words = \"{words}\"; int main(void) {{ return 0; }}"),
    )
    .unwrap();
    let out = dir.join(name);
    let mut cc = Command::new("cc");
    cc.arg(&source)
        .arg("-o")
        .arg(&out)
        .arg("-Wl,--no-as-needed");
    for library in needed {
        let path = dir.join(library);
        let mut make = Command::new("cc");
        make.args(["-shared", "-x", "c", "/dev/null", "-o"])
            .arg(&path);
        make.arg(format!("-Wl,-soname,{library}"));
        if !make.status().ok()?.success() {
            return None;
        }
        cc.arg(path);
    }
    let made = cc.status().ok()?.success();
    made.then(|| out.to_str().unwrap().to_owned())
}

#[test]
fn what_a_program_is_made_of_decides() {
    let dir = libraries();
    let work = tempfile::tempdir().unwrap();
    let rocks = "Recovered from manifest file:%s";
    let level = "no meta-nextfile entry in descriptor";
    let make = |name: &str, needed: &[&str], words: &str| program(work.path(), name, needed, words);
    let Some(plain) = make("plain", &[], "") else {
        return; // No C compiler: scripts/herocks-test has one.
    };
    for command in ["herocks", "heleveldb"] {
        let output = run(dir.path(), &[command, &plain]);
        assert_eq!(output.status.code(), Some(0));
    }
    let built = make("built-rocks", &[], rocks).unwrap();
    refused_by("herocks", dir.path(), &[&built], "RocksDB is built into it");
    let built = make("built-level", &[], level).unwrap();
    refused_by(
        "heleveldb",
        dir.path(),
        &[&built],
        "LevelDB is built into it",
    );
    let other = make("other", &["librocksdb.so.8.1"], "").unwrap();
    refused_by("herocks", dir.path(), &[&other], "librocksdb.so.8.1");
    let rocks_linked = make("rocks", &["librocksdb.so.7.8"], "").unwrap();
    refused_by("heleveldb", dir.path(), &[&rocks_linked], "heliox herocks");
    let level_linked = make("level", &["libleveldb.so.1d"], "").unwrap();
    refused_by("herocks", dir.path(), &[&level_linked], "heliox heleveldb");
    let older = make("older", &["libleveldb.so.1"], "").unwrap();
    refused_by("heleveldb", dir.path(), &[&older], "libleveldb.so.1,");
}

#[test]
fn the_program_decides_the_exit_code() {
    let dir = libraries();
    let output = herocks(dir.path(), &["sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn what_cannot_run_is_refused() {
    let dir = libraries();
    let empty = tempfile::tempdir().unwrap();
    refused(empty.path(), &["sh"], "make herocks");
    refused(dir.path(), &["no-such-program"], "no-such-program");
    refused(dir.path(), &["./no-such-program"], "./no-such-program");

    // The head of a program without a dynamic linker.
    let program = empty.path().join("static");
    let mut file = b"\x7fELF\x02\x01".to_vec();
    file.resize(64, 0);
    file[54] = 56;
    fs::write(&program, &file).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    refused(
        dir.path(),
        &[program.to_str().unwrap()],
        "statically linked",
    );
}
