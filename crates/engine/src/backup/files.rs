//! The few things that are done to the files of a backup set, each as one step with a name.
//!
//! Invariant: whatever changes a set goes through here, so that a test which watches the steps sees
//! every moment at which a crash could leave it. Threads: any.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};

/// Called before each step with its name and its path; an error makes the step fail.
pub(crate) type Watch = Arc<dyn Fn(&'static str, &Path) -> std::io::Result<()> + Send + Sync>;

/// A text of a set is not longer: a manifest of 64 TiB in the smallest segments is less.
const TEXT_BYTES_MAX: u64 = 2 << 30;

/// Does the steps.
#[derive(Clone, Default)]
pub(super) struct Files {
    watch: Option<Watch>,
}

impl Files {
    pub(super) fn new(watch: Option<Watch>) -> Files {
        Files { watch }
    }

    fn step<R>(
        &self,
        verb: &'static str,
        path: &Path,
        run: impl FnOnce() -> std::io::Result<R>,
    ) -> Result<R> {
        let watched = match &self.watch {
            None => Ok(()),
            Some(watch) => watch(verb, path),
        };
        watched
            .and_then(|()| run())
            .map_err(|error| Error::io(verb, path, error))
    }

    /// Makes a directory, durably; one that is there is left alone.
    pub(super) fn make_dir(&self, dir: &Path) -> Result<()> {
        let missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.exists()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        self.step("create the directory", dir, || std::fs::create_dir_all(dir))?;
        for parent in missing.into_iter().filter_map(Path::parent) {
            let is_here = parent.as_os_str().is_empty();
            self.sync_dir(if is_here { Path::new(".") } else { parent })?;
        }
        Ok(())
    }

    /// A new file, empty, for this user alone; what was there is gone.
    pub(super) fn create(&self, path: &Path) -> Result<File> {
        self.step("create the file", path, || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path)
        })
    }

    pub(super) fn write(&self, file: &File, path: &Path, at: u64, bytes: &[u8]) -> Result<()> {
        self.step("write", path, || file.write_all_at(bytes, at))
    }

    pub(super) fn sync(&self, file: &File, path: &Path) -> Result<()> {
        self.step("sync", path, || file.sync_all())
    }

    /// Gives a file its name, in the same directory.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.step("rename to", to, || std::fs::rename(from, to))
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.step("sync the directory", dir, || File::open(dir)?.sync_all())
    }

    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        self.step("remove", path, || std::fs::remove_file(path))
    }

    /// A whole small file: durable under its name when this returns.
    pub(super) fn write_text(&self, path: &Path, text: &[u8]) -> Result<()> {
        let new = path.with_extension("new");
        let file = self.create(&new)?;
        self.write(&file, &new, 0, text)?;
        self.sync(&file, &new)?;
        self.rename(&new, path)?;
        match path.parent() {
            Some(dir) => self.sync_dir(dir),
            None => Ok(()),
        }
    }
}

/// The whole of a small file; none if there is none.
pub(super) fn read_text(path: &Path) -> Result<Option<Vec<u8>>> {
    let failed = |error| Error::io("read", path, error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = Vec::new();
    file.take(TEXT_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(failed)?;
    Ok(Some(text))
}

/// The names in a directory, in order; none if it is missing.
pub(super) fn names_in(dir: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::io("list the directory", dir, error);
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        // Names that are no text are none of ours.
        names.extend(name.into_string().ok());
    }
    names.sort();
    Ok(names)
}
