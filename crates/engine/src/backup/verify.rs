//! Proving a backup without restoring it: every file against its checksum, then the whole store
//! that it makes, recovered and checked in memory as `Store::check` does.
//!
//! Writes nothing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::copy::PIECE_BYTES;
use super::image::Image;
use super::manifest::{Manifest, Stored};
use super::set::Set;
use super::{BackupProgress, VerifyReport};
use crate::check;
use crate::encryption::KeySource;
use crate::error::{Error, Result};
use crate::options::Options;

/// Problems that are told in words; further ones are counted.
const PROBLEMS_MAX: usize = 100;

/// Verifies one backup of the set, or all.
pub(super) fn run(
    dir: &Path,
    number: Option<u64>,
    options: &Options,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<VerifyReport> {
    let settings = options.validate()?;
    // A command gives its key once, not for each backup.
    let options = &match settings.master_key {
        Some(key) => options.clone().encryption(KeySource::ready(key)),
        None => options.clone(),
    };
    let set = Set::open(dir)?;
    let listed = match number {
        Some(number) => vec![(number, Ok(set.manifest(number)?))],
        None => set.list()?,
    };
    let mut verify = Verify {
        set: &set,
        report: VerifyReport::default(),
        verified: BTreeSet::new(),
        done_bytes: 0,
        total_bytes: total_bytes(&listed),
        progress: RefCell::new(progress),
    };
    for (number, manifest) in &listed {
        verify.report.backups += 1;
        match manifest {
            Ok(manifest) => verify.backup(*number, manifest, options)?,
            Err(error) => verify.problem(error.to_string()),
        }
    }
    Ok(verify.report)
}

/// Each file once, and each backup as a store.
fn total_bytes(listed: &[super::set::Listed]) -> u64 {
    let manifests = || listed.iter().filter_map(|(_, m)| m.as_ref().ok());
    let files: BTreeSet<&Stored> = manifests().flat_map(|m| &m.segments).collect();
    let as_files: u64 = files.iter().map(|s| s.bytes).sum();
    as_files + manifests().map(Manifest::bytes).sum::<u64>()
}

struct Verify<'a> {
    set: &'a Set,
    report: VerifyReport,
    /// Files that were read already.
    verified: BTreeSet<Stored>,
    done_bytes: u64,
    total_bytes: u64,
    progress: RefCell<&'a mut dyn FnMut(BackupProgress)>,
}

impl Verify<'_> {
    fn problem(&mut self, what: impl Into<String>) {
        self.report.problem_count += 1;
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(what.into());
        }
    }

    fn tell(&self, more_bytes: u64) {
        let total_bytes = self.total_bytes;
        (self.progress.borrow_mut())(BackupProgress {
            done_bytes: (self.done_bytes + more_bytes).min(total_bytes),
            total_bytes,
        });
    }

    fn backup(&mut self, number: u64, manifest: &Manifest, options: &Options) -> Result<()> {
        for stored in &manifest.segments {
            if self.verified.insert(*stored) {
                self.report.files += 1;
                if let Some(what) = self.file(stored)? {
                    let path = self.set.path_of(stored);
                    self.problem(format!(
                        "{}: {what}; backup {number} needs it for segment {}: remove the file and back up again, which copies it anew if the store still has it",
                        path.display(),
                        stored.id.0
                    ));
                }
                self.done_bytes += stored.bytes;
                self.tell(0);
            }
        }
        self.as_store(number, manifest, options)
    }

    /// What is wrong with a file.
    fn file(&mut self, stored: &Stored) -> Result<Option<String>> {
        let path = self.set.path_of(stored);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Some("the file is missing".to_owned()));
            }
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        let (mut sum, mut bytes) = (Xxh3::new(), 0);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = match file.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                // A disk that cannot give its bytes back is what a verification is there to find.
                Err(error) => return Ok(Some(format!("cannot be read at byte {bytes}: {error}"))),
            };
            sum.update(piece.get(..read).unwrap_or_default());
            bytes += read as u64;
        }
        self.report.bytes += bytes;
        Ok(if bytes != stored.bytes {
            Some(format!("{} bytes expected, found {bytes}", stored.bytes))
        } else if sum.digest() != stored.checksum {
            let (want, have) = (stored.checksum, sum.digest());
            Some(format!("checksum {want:016x} expected, found {have:016x}"))
        } else {
            None
        })
    }

    /// Recovers and checks the store that the backup makes.
    fn as_store(&mut self, number: u64, manifest: &Manifest, options: &Options) -> Result<()> {
        let image = Image::new(self.set, manifest);
        let options = options
            .clone()
            .devices(Vec::new())
            .volumes(vec![Arc::new(image)]);
        let checked = check::run(Path::new(""), &options, &mut |progress| {
            self.tell(progress.done_bytes);
        })?;
        self.done_bytes += manifest.bytes();
        self.report.records += checked.records;
        for problem in &checked.problems {
            self.problem(format!("backup {number}: {problem}"));
        }
        let listed = checked.problems.len() as u64;
        self.report.problem_count += checked.problem_count.saturating_sub(listed);
        Ok(())
    }
}
