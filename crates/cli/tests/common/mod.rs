//! Runs the built program on a store in a directory of its own.
#![allow(dead_code)] // Each test program uses a part of it.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory that goes away with the test, and the path of a store in it.
pub(crate) struct Place {
    pub(crate) root: tempfile::TempDir,
    pub(crate) store: PathBuf,
}

impl Place {
    /// A directory without a store.
    pub(crate) fn empty() -> Place {
        let root = tempfile::tempdir().unwrap();
        let store = root.path().join("store");
        Place { root, store }
    }

    /// A directory with an empty store.
    pub(crate) fn with_store() -> Place {
        let place = Place::empty();
        place.ok(&["create", "STORE", "--capacity", "256M"]);
        place
    }

    /// A file beside the store.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The program with these arguments; `STORE` stands for the store.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = heliox();
        for arg in args {
            let arg = arg.as_ref();
            command.arg(if arg == "STORE" {
                self.store.as_os_str()
            } else {
                arg
            });
        }
        command
    }

    /// Runs the program.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the program, which must succeed, and gives what it printed.
    pub(crate) fn ok<A: AsRef<OsStr> + std::fmt::Debug>(&self, args: &[A]) -> String {
        let output = self.run(args);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the program, which must end with `code`, and gives its message.
    pub(crate) fn fails<A: AsRef<OsStr> + std::fmt::Debug>(&self, code: i32, args: &[A]) -> String {
        let output = self.run(args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(!message.contains("panicked"), "{message}");
        message
    }

    /// Runs the program with `input` on its standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }
}

/// The built program.
pub(crate) fn heliox() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heliox"));
    command.stdin(Stdio::null());
    command
}

/// What was said on stderr.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
