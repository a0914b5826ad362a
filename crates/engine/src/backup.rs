//! Backups: sets of segment files that several backups of one store share, made beside running
//! readers and writers, verified without a restore, and restored to stores of their own.
//!
//! `copy.rs` says what a backup is and why it is consistent, `set.rs` what is in a set and why it
//! is whole at every moment, `restore.rs` how a store comes out of it.

mod copy;
mod files;
mod image;
mod manifest;
mod restore;
mod set;
mod verify;

use std::fmt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::store::Store;
use files::{Files, Watch};
use manifest::Manifest;
use set::Set;

/// The text that the manifest of the same meaning is written as. What a restore derives from it is
/// derived.
pub(crate) fn rewritten(text: &[u8]) -> Result<Vec<u8>> {
    let manifest = Manifest::decode(Path::new("a backup"), text)?;
    let made = manifest.restored(manifest.superblock.uuid, 1, manifest.segments_needed());
    let _ = (made.encode(0), manifest.bytes());
    Ok(manifest.encode())
}

/// The salt in the text of the file that makes a directory a set.
pub(crate) fn lineage(text: &[u8]) -> Result<u64> {
    set::lineage_in(Path::new("a set"), text).map(|salt| salt.0)
}

/// How a backup is made.
#[derive(Clone, Default)]
pub struct BackupOptions {
    keep: Option<u64>,
    watch: Option<Watch>,
}

impl BackupOptions {
    /// The defaults: all earlier backups of the set stay.
    #[must_use]
    pub fn new() -> BackupOptions {
        BackupOptions::default()
    }

    /// Once the backup is durable, removes all but the newest so many of the set, this one
    /// included, and the segment files that only those needed. At least 1.
    #[must_use]
    pub fn keep(mut self, backups: u64) -> BackupOptions {
        self.keep = Some(backups);
        self
    }

    /// Calls `watch` before each change of the set's files, with its name and path; its errors make
    /// the change fail. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn watch(
        mut self,
        watch: impl Fn(&'static str, &Path) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> BackupOptions {
        self.watch = Some(std::sync::Arc::new(watch));
        self
    }
}

impl fmt::Debug for BackupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupOptions")
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

/// How far a backup, a restore or a verification is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackupProgress {
    /// Bytes done so far; those that needed no copy count.
    pub done_bytes: u64,
    /// Bytes that will have been done at the end.
    pub total_bytes: u64,
}

/// What a backup did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupReport {
    /// The backup's number in its set, from 1.
    pub number: u64,
    /// Segments that it consists of.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the segments, those that were not in the set before.
    pub copied_segments: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Of the copied bytes, those that share the store's blocks on a file system with reflinks.
    pub shared_bytes: u64,
    /// Older backups that were removed.
    pub removed: u64,
}

/// A backup of a set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number in the set.
    pub number: u64,
    /// When it was begun, in milliseconds since 1970.
    pub created_ms: u64,
    /// Segments that it consists of.
    pub segments: u64,
    /// Their bytes; backups of a set share most of them.
    pub bytes: u64,
    /// Why it cannot be used, if it cannot: then the figures are 0.
    pub damage: Option<String>,
}

/// What a restore did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The number of the backup that was restored.
    pub number: u64,
    /// When that backup was begun, in milliseconds since 1970.
    pub created_ms: u64,
    /// Segments that were restored.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What the new store takes on media at most.
    pub capacity_bytes: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Backups that were verified.
    pub backups: u64,
    /// Segment files that were read, each once.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records in the backups, dead ones included.
    pub records: u64,
    /// The first hundred problems in words: what, where, expected and found. Empty: all is well.
    pub problems: Vec<String>,
    /// How many problems there are.
    pub problem_count: u64,
}

/// # Backups
impl Store {
    /// Backs the store up into the set in the directory `set`, which is made if it is missing: a
    /// state of one moment during the call, with everything that was written before the call
    /// began. Readers and writers go on. Only segments that the set does not hold yet are copied.
    ///
    /// Each call ends the segments that are appended to, so it may leave up to two of them partly
    /// empty until garbage collection. Segments not copied yet are not reused: if writers fill the
    /// store faster than `set` takes them, they wait for it as they do for collection, and get `Full`
    /// after half a minute.
    ///
    /// # Errors
    /// `StoreExists` if the directory holds something else, `Invalid` if it holds backups of
    /// another store, `StoreInUse` if another backup, restore or verification uses it, `Closed`,
    /// and what the file system refuses. The backups in the set stay whole; the next backup goes
    /// on with what this one copied.
    pub fn backup(
        &self,
        set: impl AsRef<Path>,
        options: &BackupOptions,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<BackupReport> {
        if options.keep == Some(0) {
            return Err(Error::invalid(
                "keep: 0 given; at least 1, the new backup itself, is kept",
            ));
        }
        copy::run(self.core(), set.as_ref(), options, progress)
    }

    /// The backups of a set, oldest first. Reads their manifests only.
    ///
    /// # Errors
    /// `NotAStore` if there is no set, `StoreInUse` if a backup is being added now, `Io`.
    pub fn backups(set: impl AsRef<Path>) -> Result<Vec<BackupInfo>> {
        let listed = Set::open(set.as_ref())?.list()?;
        let info = |(number, manifest): set::Listed| match manifest {
            Ok(manifest) => BackupInfo {
                number,
                created_ms: manifest.created_ms,
                segments: manifest.segments.len() as u64,
                bytes: manifest.bytes(),
                damage: None,
            },
            Err(error) => BackupInfo {
                number,
                created_ms: 0,
                segments: 0,
                bytes: 0,
                damage: Some(error.to_string()),
            },
        };
        Ok(listed.into_iter().map(info).collect())
    }

    /// Deletes one backup of a set, also one that is damaged, and the files that only it needed: the others
    /// stay whole, also if this does not end. Then the backup is there, whole, or it is not, and files
    /// that nobody needs may be left; the next deletion or backup takes them away. While another backup's
    /// manifest cannot be read, all files stay. The number is given again if it was the newest.
    ///
    /// # Errors
    /// `NotAStore` if there is no set, `Invalid` if it has no such backup, `StoreInUse` if a backup,
    /// restore or verification uses it, and what the file system refuses.
    pub fn delete_backup(set: impl AsRef<Path>, number: u64) -> Result<()> {
        Store::delete_backup_with(set, number, &BackupOptions::new())
    }

    /// As [`Store::delete_backup`], watched. For tests.
    ///
    /// # Errors
    /// As [`Store::delete_backup`].
    #[doc(hidden)]
    pub fn delete_backup_with(
        set: impl AsRef<Path>,
        number: u64,
        options: &BackupOptions,
    ) -> Result<()> {
        let files = Files::new(options.watch.clone());
        Set::open_alone(set.as_ref(), files)?.delete(number)
    }

    /// Makes a store in `dir` out of a backup of the set, the newest if `number` is none, and
    /// verifies every file that it copies. The store has an id of its own; segment size and sector
    /// are those of the original, the capacity too unless `options` say otherwise. It may have any
    /// number of devices. Its first open recovers it as after a crash.
    ///
    /// # Errors
    /// `NotAStore` if there is no set, `Invalid` if it has no such backup, `StoreExists` if there
    /// is a store in `dir` or on a device, `ShortDevice` if the capacity is too small, `Damaged`
    /// if a file of the backup is missing or changed. Then there is no store in `dir`; a restore
    /// into it starts over.
    pub fn restore(
        set: impl AsRef<Path>,
        number: Option<u64>,
        dir: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<RestoreReport> {
        restore::run(set.as_ref(), number, dir.as_ref(), options, progress)
    }

    /// Verifies a backup of the set, or all: each file against its checksum, then the store that
    /// the backup makes, recovered in memory and checked as [`Store::check`] does. Writes nothing;
    /// damage is in the report, never an error. Reads everything twice, and needs the memory of an
    /// open store.
    ///
    /// # Errors
    /// `NotAStore` if there is no set, `Invalid` if it has no such backup, `Damaged` if the
    /// manifest of the backup asked for cannot be read, `StoreInUse`.
    pub fn verify_backup(
        set: impl AsRef<Path>,
        number: Option<u64>,
        options: &Options,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<VerifyReport> {
        verify::run(set.as_ref(), number, options, progress)
    }
}
