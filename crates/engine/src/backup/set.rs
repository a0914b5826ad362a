//! A backup set: a directory with the segment files that several backups share, and one manifest
//! for each backup.
//!
//! Invariants: a file under a final name is whole and durable and never changes; a manifest gets
//! its name only when all files that it names are durable under theirs, and goes before any of
//! them does. So at every moment each manifest in the set is a whole backup, and what no manifest
//! names is left over from a backup that did not end. The directory itself is locked: whoever
//! changes the set is alone, readers may be many.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use heliox_format::checksum::ChecksumSalt;
use heliox_format::ids::Birth;

use super::files::{names_in, read_text, Files};
use super::manifest::{check_version, Manifest, Stored, VERSION};
use crate::error::{Error, ErrorKind, Result};

/// The file that makes a directory a backup set.
const SET_NAME: &str = "HELIOX-BACKUP";
const SET_NEW_NAME: &str = "HELIOX-BACKUP.new";
const TITLE: &str =
    "Heliox backup set: backups/ has one file for each backup, segments/ their data.";
const UNFINISHED: &str = ".new";

/// An open backup set. Dropping it unlocks it.
pub(super) struct Set {
    dir: PathBuf,
    files: Files,
    /// Holds the lock.
    _locked: File,
}

/// A backup of the set: its number and its manifest, or why that cannot be used.
pub(super) type Listed = (u64, Result<Manifest>);

impl Set {
    /// Opens the set in `dir` to add to it; makes one if the directory is empty or missing.
    pub(super) fn open_or_create(dir: &Path, salt: ChecksumSalt, files: Files) -> Result<Set> {
        files.make_dir(dir)?;
        let set = Set {
            _locked: lock(dir, true)?,
            dir: dir.to_owned(),
            files,
        };
        match set.lineage()? {
            None => set.begin(salt)?,
            Some(found) if found == salt => {}
            Some(found) => {
                return Err(Error::invalid(format!(
                    "{}: the backups there are of another store (its id begins with {}, this one's with {}); give each store a directory of its own",
                    dir.display(),
                    hex(found),
                    hex(salt)
                )));
            }
        }
        set.files.make_dir(&set.segments_dir())?;
        set.files.make_dir(&set.backups_dir())?;
        Ok(set)
    }

    /// Opens the set in `dir` to read it.
    pub(super) fn open(dir: &Path) -> Result<Set> {
        Set::open_existing(dir, false, Files::default())
    }

    /// Opens the set in `dir` to delete from it.
    pub(super) fn open_alone(dir: &Path, files: Files) -> Result<Set> {
        Set::open_existing(dir, true, files)
    }

    fn open_existing(dir: &Path, alone: bool, files: Files) -> Result<Set> {
        let no_set = |found: &str| {
            Error::new(
                ErrorKind::NotAStore,
                format!("{}: not a Heliox backup set: {found}; check the path, or make one with `backup`", dir.display()),
            )
        };
        if !dir.is_dir() {
            return Err(no_set("there is no such directory"));
        }
        let set = Set {
            _locked: lock(dir, alone)?,
            dir: dir.to_owned(),
            files,
        };
        match set.lineage()? {
            Some(_) => Ok(set),
            None => Err(no_set(&format!("the directory holds no file {SET_NAME}"))),
        }
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn segments_dir(&self) -> PathBuf {
        self.dir.join("segments")
    }

    fn backups_dir(&self) -> PathBuf {
        self.dir.join("backups")
    }

    fn manifest_path(&self, number: u64) -> PathBuf {
        self.backups_dir().join(format!("{number:08}.txt"))
    }

    /// The file of a segment.
    pub(super) fn path_of(&self, stored: &Stored) -> PathBuf {
        self.segments_dir().join(stored.file_name())
    }

    /// Which store the set is of, by what its checksums are salted with; none for no set.
    fn lineage(&self) -> Result<Option<ChecksumSalt>> {
        let path = self.dir.join(SET_NAME);
        let Some(text) = read_text(&path)? else {
            return Ok(None);
        };
        lineage_in(&path, &text).map(Some)
    }

    /// Makes an empty directory a set.
    fn begin(&self, salt: ChecksumSalt) -> Result<()> {
        let names = names_in(&self.dir)?;
        let foreign = names
            .iter()
            .find(|name| !matches!(name.as_str(), SET_NEW_NAME | "lost+found"));
        if let Some(name) = foreign {
            return Err(Error::new(
                ErrorKind::StoreExists,
                format!("{}: the directory is not empty (it holds {name}) and no backup set; choose another directory, or empty this one", self.dir.display()),
            ));
        }
        let text = format!("{TITLE}\nformat {VERSION}\nlineage {}\n", hex(salt));
        let path = self.dir.join(SET_NAME);
        self.files.write_text(&path, text.as_bytes())
    }

    /// All backups, oldest first.
    pub(super) fn list(&self) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for name in names_in(&self.backups_dir())? {
            let number = name.strip_suffix(".txt").and_then(|n| n.parse().ok());
            let Some(number) = number else {
                continue;
            };
            listed.push((number, self.manifest(number)));
        }
        listed.sort_by_key(|(number, _)| *number);
        Ok(listed)
    }

    /// The manifest of one backup.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if there is none of this number, [`ErrorKind::Damaged`].
    pub(super) fn manifest(&self, number: u64) -> Result<Manifest> {
        let path = self.manifest_path(number);
        let text = read_text(&path)?.ok_or_else(|| self.no_backup(number))?;
        let manifest = Manifest::decode(&path, &text)?;
        if manifest.number != number {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "{}: the file is of backup {}; give it its name back",
                    path.display(),
                    manifest.number
                ),
            ));
        }
        Ok(manifest)
    }

    /// The newest backup, or the one asked for.
    pub(super) fn choose(&self, number: Option<u64>) -> Result<Manifest> {
        let newest = || Ok::<_, Error>(self.list()?.last().map(|(number, _)| *number));
        let number = match number {
            Some(number) => number,
            None => newest()?.ok_or_else(|| {
                Error::invalid(format!(
                    "{}: the set holds no backup: none has ended there, or all were deleted; make one with `backup`",
                    self.dir.display()
                ))
            })?,
        };
        self.manifest(number)
    }

    /// The segment files that are there, by birth.
    pub(super) fn stored(&self) -> Result<BTreeMap<Birth, Vec<(u64, u64)>>> {
        let mut found: BTreeMap<Birth, Vec<(u64, u64)>> = BTreeMap::new();
        let dir = self.segments_dir();
        for name in names_in(&dir)? {
            let Some((birth, checksum)) = parse_segment_name(&name) else {
                continue;
            };
            let path = dir.join(&name);
            let metadata = std::fs::metadata(&path).map_err(|e| Error::io("look at", &path, e))?;
            let files = found.entry(birth).or_default();
            files.push((checksum, metadata.len()));
        }
        Ok(found)
    }

    /// Adds a backup; its segment files are there. It is durable when this returns.
    pub(super) fn add(&self, manifest: &Manifest) -> Result<()> {
        self.files.sync_dir(&self.segments_dir())?;
        let path = self.manifest_path(manifest.number);
        self.files.write_text(&path, &manifest.encode())
    }

    /// Removes all but the newest `keep` backups. Gives how many went.
    pub(super) fn keep(&self, keep: u64) -> Result<u64> {
        let numbers: Vec<u64> = self.list()?.iter().map(|(number, _)| *number).collect();
        let surplus = numbers.len().saturating_sub(keep as usize);
        for number in numbers.iter().take(surplus) {
            self.files.remove(&self.manifest_path(*number))?;
        }
        if surplus > 0 {
            self.files.sync_dir(&self.backups_dir())?;
        }
        Ok(surplus as u64)
    }

    /// Removes one backup, readable or not, and the segment files that only it needed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if there is none of this number.
    pub(super) fn delete(&self, number: u64) -> Result<()> {
        let path = self.manifest_path(number);
        if !path.exists() {
            return Err(self.no_backup(number));
        }
        self.files.remove(&path)?;
        self.files.sync_dir(&self.backups_dir())?;
        self.remove_unneeded()
    }

    fn no_backup(&self, number: u64) -> Error {
        Error::invalid(format!(
            "{}: there is no backup {number}; list the backups that there are",
            self.dir.display()
        ))
    }

    /// Removes what backups that did not end have left half-written.
    pub(super) fn remove_unfinished(&self) -> Result<()> {
        for dir in [self.segments_dir(), self.backups_dir()] {
            for name in names_in(&dir)? {
                if name.ends_with(UNFINISHED) {
                    self.files.remove(&dir.join(name))?;
                }
            }
        }
        Ok(())
    }

    /// Removes segment files that no backup names. Nothing goes while a manifest cannot be read.
    pub(super) fn remove_unneeded(&self) -> Result<()> {
        let mut needed = BTreeSet::new();
        for (_, manifest) in self.list()? {
            match manifest {
                Ok(manifest) => needed.extend(manifest.segments.iter().map(Stored::file_name)),
                Err(_) => return Ok(()),
            }
        }
        let dir = self.segments_dir();
        for name in names_in(&dir)? {
            if parse_segment_name(&name).is_some() && !needed.contains(&name) {
                self.files.remove(&dir.join(name))?;
            }
        }
        Ok(())
    }
}

/// The salt as the store's id shows it.
fn hex(salt: ChecksumSalt) -> String {
    format!("{:016x}", salt.0.swap_bytes())
}

fn parse_segment_name(name: &str) -> Option<(Birth, u64)> {
    let (birth, checksum) = name.strip_suffix(".seg")?.split_once('-')?;
    if birth.len() != 8 || checksum.len() != 16 {
        return None;
    }
    let birth = u32::from_str_radix(birth, 16).ok()?;
    Some((Birth(birth), u64::from_str_radix(checksum, 16).ok()?))
}

/// The salt that the file which makes a directory a set names.
pub(super) fn lineage_in(path: &Path, text: &[u8]) -> Result<ChecksumSalt> {
    let text = String::from_utf8_lossy(text);
    check_version(path, &text, VERSION)?;
    let line = text.lines().nth(2).unwrap_or_default();
    let salt = line
        .strip_prefix("lineage ")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match salt {
        Some(salt) if text.starts_with("Heliox backup set") => Ok(ChecksumSalt(salt.swap_bytes())),
        _ => Err(Error::new(
            ErrorKind::Damaged,
            format!("{}: the file does not say what it should; its third line is \"lineage\" and the first 16 digits of the store's id, which every file in backups/ has in its line \"store\": write it anew", path.display()),
        )),
    }
}

/// Locks a directory, alone or with other readers.
fn lock(dir: &Path, alone: bool) -> Result<File> {
    let failed = |error| Error::io("open the directory", dir, error);
    let file = File::open(dir).map_err(failed)?;
    let locked = if alone {
        file.try_lock()
    } else {
        file.try_lock_shared()
    };
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::StoreInUse,
            format!("{}: another backup, restore or verification uses the set; wait for it, then try again", dir.display()),
        )),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", dir, error)),
    }
}
