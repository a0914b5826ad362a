//! The program that knows the other engine: how it is found, started, and heard. One thread.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::exit::Failure;

use super::frames::{self, Frame};
use super::Engine;

/// Where the programs are, if not beside this one.
const DIR_VARIABLE: &str = "HELIOX_MIGRATE_DIR";
const BUFFER_BYTES: usize = 1 << 20;

/// A program that reads a store, or writes one. It ends with this.
pub(super) struct Helper {
    name: String,
    child: Child,
    output: BufReader<ChildStdout>,
    /// What it is told; gone when it was told everything.
    input: Option<BufWriter<ChildStdin>>,
    /// Told to the user.
    notes: Vec<String>,
    /// What it said last.
    pub(super) frame: Frame,
}

impl Helper {
    /// Starts it with the verb `read` or `write`, and hears its first word.
    pub(super) fn start(engine: Engine, verb: &str, path: &Path) -> Result<Helper, Failure> {
        let name = format!("heliox-migrate-{}", engine.word());
        let program = find(&name, engine)?;
        let refused = |error| Failure::file("start", &program, error);
        let mut child = Command::new(&program)
            .arg(verb)
            .arg(path)
            // What runs on Heliox in the place of the other engine would not be the other engine.
            .env_remove("LD_PRELOAD")
            .env_remove("LD_LIBRARY_PATH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(refused)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(refused(io::Error::other("it has no pipes")));
        };
        let mut helper = Helper {
            name,
            child,
            output: BufReader::with_capacity(BUFFER_BYTES, stdout),
            input: Some(BufWriter::with_capacity(BUFFER_BYTES, stdin)),
            notes: Vec::new(),
            frame: Frame::default(),
        };
        helper.receive()?;
        if helper.frame.kind != frames::HELLO || helper.frame.first != frames::PROTOCOL {
            return Err(Failure::Argument(format!(
                "{} is not of this version of heliox: build it again (`make migrate`)",
                program.display()
            )));
        }
        Ok(helper)
    }

    /// Reads its next frame; notes are kept, and an error of its own is the failure.
    pub(super) fn receive(&mut self) -> Result<(), Failure> {
        loop {
            if let Err(error) = self.frame.receive(&mut self.output) {
                return Err(self.silent(&error));
            }
            let text = || String::from_utf8_lossy(&self.frame.first).into_owned();
            match self.frame.kind {
                frames::NOTE => self.notes.push(text()),
                frames::ERROR => return Err(Failure::Argument(text())),
                _ => return Ok(()),
            }
        }
    }

    /// Sends a frame. If it is gone, the failure is what it said last.
    pub(super) fn send(&mut self, kind: u8, first: &[u8], second: &[u8]) -> Result<(), Failure> {
        self.tell(|input| frames::send(input, kind, first, second))
    }

    /// Does what `say` does with its input.
    pub(super) fn tell(
        &mut self,
        say: impl FnOnce(&mut BufWriter<ChildStdin>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let Some(input) = &mut self.input else {
            return Err(Failure::Argument(format!("{} was told all", self.name)));
        };
        match say(input) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => match self.receive() {
                Err(failure) => Err(failure),
                Ok(()) => Err(self.silent(&error)),
            },
            Err(error) => Err(self.silent(&error)),
        }
    }

    /// Tells it that there is no more.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        self.send(frames::END, b"", b"")?;
        self.tell(|input| input.flush())?;
        self.input = None;
        Ok(())
    }

    /// What it wants the user to know, once.
    pub(super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Why nothing more is heard.
    fn silent(&mut self, error: &io::Error) -> Failure {
        self.input = None;
        let how = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Failure::Argument(format!(
            "{} ended without a word ({how}; {error})",
            self.name
        ))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It ended, or nobody hears it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(name: &str, engine: Engine) -> Result<PathBuf, Failure> {
    let tried = match env::var_os(DIR_VARIABLE) {
        Some(dir) => vec![PathBuf::from(dir)],
        None => beside_this_program(),
    };
    let mut programs = tried.iter().map(|dir| dir.join(name));
    if let Some(program) = programs.find(|program| program.is_file()) {
        return Ok(program);
    }
    let tried: Vec<OsString> = tried.into_iter().map(PathBuf::into_os_string).collect();
    let tried = tried.join(" nor in ".as_ref());
    Err(Failure::Argument(format!(
        "{name}, which reads and writes stores of {engine}, is not in {}: build it with `make migrate`, \
         and say where it is by {DIR_VARIABLE}",
        tried.display()
    )))
}

fn beside_this_program() -> Vec<PathBuf> {
    let exe = env::current_exe().and_then(fs::canonicalize);
    let dir = exe.ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let dir = dir.unwrap_or_default();
    ["", "../migrate", "../lib/heliox"]
        .map(|place| dir.join(place))
        .to_vec()
}
