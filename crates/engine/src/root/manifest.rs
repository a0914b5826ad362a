//! The text files of a store's directory: `HELIOX`, which makes it a store and says where its
//! volumes are, and `HELIOX.new`, which says that a store is being made or deleted.
//!
//! Invariants: `HELIOX.new` is durable before the first byte of a volume is written, and is renamed
//! to `HELIOX` after the last. So a directory with `HELIOX` is a whole store; one with only
//! `HELIOX.new` saw a creation that did not end, and the identity in it tells which volumes that
//! creation has labelled: the next one goes on with them; or, with a line more, a deletion. Threads and
//! processes: whoever makes or deletes a store holds a lock on `HELIOX.new`.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use heliox_format::ids::StoreUuid;
use heliox_format::superblock::FORMAT_VERSION;

use crate::error::{Error, ErrorKind, Result};

/// The file that makes a directory a store.
pub(super) const MANIFEST_NAME: &str = "HELIOX";
const INTENT_NAME: &str = "HELIOX.new";
const DRAFT_NAME: &str = "HELIOX.draft";
const RESTORE_LINE: &[u8] = b"restore\n";
const DESTRUCTION_LINE: &[u8] = b"destroy\n";
const TITLE: &str = "Heliox store: this file says where its volumes are. Edit only volume paths.";
/// More than 64 of the longest paths.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// What `HELIOX` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Manifest {
    pub(super) uuid: StoreUuid,
    /// In the order of the labels; relative ones start at the store's directory.
    pub(super) volumes: Vec<PathBuf>,
}

impl Manifest {
    /// Reads the manifest of a directory; none if it has none.
    pub(super) fn read(dir: &Path) -> Result<Option<Manifest>> {
        let path = dir.join(MANIFEST_NAME);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open the store's file", &path, error)),
        };
        let mut text = Vec::new();
        file.take(MANIFEST_BYTES_MAX)
            .read_to_end(&mut text)
            .map_err(|error| Error::io("read the store's file", &path, error))?;
        Manifest::decode(&path, &text).map(Some)
    }

    /// The text.
    ///
    /// # Errors
    /// A path that holds a line break, which the file cannot carry.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut text =
            format!("{TITLE}\nformat {FORMAT_VERSION}\nuuid {}\n", self.uuid).into_bytes();
        for volume in &self.volumes {
            let path = volume.as_os_str().as_bytes();
            if path.contains(&b'\n') {
                return Err(Error::invalid(format!(
                    "devices: the path {} holds a line break; give it another name or a link",
                    volume.display()
                )));
            }
            text.extend_from_slice(b"volume ");
            text.extend_from_slice(path);
            text.push(b'\n');
        }
        Ok(text)
    }

    pub(super) fn decode(path: &Path, text: &[u8]) -> Result<Manifest> {
        let bad = |line: usize, expected: &str, found: &[u8]| {
            let found: String = String::from_utf8_lossy(found).chars().take(80).collect();
            Error::new(
                ErrorKind::Damaged,
                format!("{}: line {line}: expected {expected}, found {found:?}; the data is in the volumes: restore this file from a backup, or write the line anew", path.display()),
            )
        };
        let mut lines = text.split(|&byte| byte == b'\n');
        let mut next = || lines.next().unwrap_or_default();
        let title = next();
        if !title.starts_with(b"Heliox store") {
            return Err(bad(1, "\"Heliox store\"", title));
        }
        let line = next();
        let version: u64 = line
            .strip_prefix(b"format ")
            .and_then(|v| std::str::from_utf8(v).ok()?.parse().ok())
            .ok_or_else(|| bad(2, "\"format\" and a number", line))?;
        if version != u64::from(FORMAT_VERSION) {
            return Err(Error::new(
                ErrorKind::Version,
                format!("{}: format version {FORMAT_VERSION} was expected and {version} found; open the store with a program of the version that wrote it", path.display()),
            ));
        }
        let line = next();
        let uuid = line
            .strip_prefix(b"uuid ")
            .and_then(parse_uuid)
            .ok_or_else(|| bad(3, "\"uuid\" and 32 hexadecimal digits", line))?;
        let mut volumes = Vec::new();
        for (at, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let volume = line
                .strip_prefix(b"volume ")
                .filter(|volume| !volume.is_empty())
                .ok_or_else(|| bad(at + 4, "\"volume\" and a path", line))?;
            volumes.push(PathBuf::from(OsStr::from_bytes(volume)));
        }
        if volumes.is_empty() {
            return Err(bad(4, "\"volume\" and a path", b""));
        }
        Ok(Manifest { uuid, volumes })
    }
}

fn parse_uuid(text: &[u8]) -> Option<StoreUuid> {
    let mut uuid = [0u8; 16];
    if text.len() != 32 || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, digits) in uuid.iter_mut().zip(text.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(StoreUuid(uuid))
}

/// How a store is made, or that it is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Making {
    /// Empty.
    Creation,
    /// With the content of a backup.
    Restore,
    /// Not at all: it goes.
    Destruction,
}

impl Making {
    /// Splits what stands in the file `HELIOX.new`. A line that no manifest has keeps programs that
    /// know of no restore, or deletion, from going on with one as if it were a creation.
    pub(super) fn of(text: &[u8]) -> (Making, &[u8]) {
        for making in [Making::Restore, Making::Destruction] {
            match text.strip_suffix(making.line()) {
                // A volume's path may end with the same letters.
                Some(manifest) if manifest.ends_with(b"\n") => return (making, manifest),
                _ => {}
            }
        }
        (Making::Creation, text)
    }

    pub(super) fn line(self) -> &'static [u8] {
        match self {
            Making::Creation => b"",
            Making::Restore => RESTORE_LINE,
            Making::Destruction => DESTRUCTION_LINE,
        }
    }

    /// What stands in the file `HELIOX.new`.
    pub(super) fn text(self, manifest: &Manifest) -> Result<Vec<u8>> {
        let mut text = manifest.encode()?;
        text.extend_from_slice(self.line());
        Ok(text)
    }

    /// What to say of one that did not end.
    pub(super) fn unfinished(self) -> &'static str {
        match self {
            Making::Creation => {
                "the creation of a store there did not end; run it again, it goes on"
            }
            Making::Restore => {
                "the restore of a backup there did not end; run it again, it starts over"
            }
            Making::Destruction => {
                "the deletion of a store there did not end; run it again, or make another store there, which ends it"
            }
        }
    }
}

/// The file `HELIOX.new`, locked: one process at a time makes or deletes a store in a directory.
pub(super) struct Held {
    dir: PathBuf,
    path: PathBuf,
    file: File,
    /// What the file held when it was taken.
    found: Vec<u8>,
    is_written: bool,
}

impl Held {
    /// Takes the file, which is made if it is missing.
    ///
    /// # Errors
    /// [`ErrorKind::StoreInUse`] if another process has it.
    pub(super) fn take(dir: &Path) -> Result<Held> {
        let path = dir.join(INTENT_NAME);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| Error::io("create a file", &path, error))?;
        let is_held = |error: &TryLockError| matches!(error, TryLockError::WouldBlock);
        match heliox_media::patiently(|| file.try_lock(), is_held) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(busy(dir));
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path, error)),
        }
        // Between its opening and the lock the file may have become the manifest, or have gone.
        if !heliox_media::is_same_file(&file, &path) {
            return Err(busy(dir));
        }
        let mut found = Vec::new();
        (&mut file)
            .take(MANIFEST_BYTES_MAX)
            .read_to_end(&mut found)
            .map_err(|error| Error::io("read", &path, error))?;
        Ok(Held {
            dir: dir.to_owned(),
            path,
            file,
            found,
            is_written: false,
        })
    }

    /// What was left in it unfinished.
    pub(super) fn left(&self) -> Option<(Making, Manifest)> {
        // Text that does not decode was not durable, so no volume was touched yet.
        let (making, decoded) = Making::of(&self.found);
        let manifest = Manifest::decode(&self.path, decoded).ok()?;
        Some((making, manifest))
    }

    /// Says durably what is about to be done.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<()> {
        let failed = |error| Error::io("write", &self.path, error);
        // From here on, whatever is in the file must stay for the next one to see.
        self.is_written = true;
        if self.found != text {
            self.file.set_len(0).map_err(failed)?;
            self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
            self.file.write_all(text).map_err(failed)?;
        }
        self.file.sync_all().map_err(failed)?;
        sync_dir(&self.dir)
    }

    /// Says durably that there is nothing, and goes on holding the file.
    fn empty(&mut self) -> Result<()> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.sync_all())
            .map_err(|error| Error::io("write", &self.path, error))?;
        self.found.clear();
        sync_dir(&self.dir)
    }

    /// Removes the file that makes the directory a store, durably.
    pub(super) fn remove_manifest(&self) -> Result<()> {
        remove_if_there(&self.dir.join(MANIFEST_NAME), "delete")?;
        sync_dir(&self.dir)
    }

    /// Ends a deletion: afterwards nothing tells of a store any more.
    pub(super) fn remove(&self) -> Result<()> {
        for path in [&self.dir.join(DRAFT_NAME), &self.path] {
            remove_if_there(path, "delete")?;
        }
        sync_dir(&self.dir)
    }

    /// Gives the file back; leaves no trace if there was none and nothing was said in it.
    pub(super) fn withdraw(&self) {
        if !self.is_written && self.left().is_none() {
            // What was tried has failed already; its error is the one to report.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The right to make a store in a directory, held by one process at a time.
pub(super) struct Intent {
    held: Held,
    /// What a creation or restore that did not end was about to make, or a deletion to delete.
    earlier: Option<(Making, Manifest)>,
}

impl Intent {
    /// What was begun in this directory and did not end.
    pub(super) fn left_in(dir: &Path) -> Option<Making> {
        let text = std::fs::read(dir.join(INTENT_NAME)).ok()?;
        Some(Making::of(&text).0)
    }

    /// Takes the right.
    ///
    /// # Errors
    /// [`ErrorKind::StoreInUse`] if somebody makes a store there now, [`ErrorKind::StoreExists`] if
    /// there is one.
    pub(super) fn take(dir: &Path) -> Result<Intent> {
        refuse_existing(dir)?;
        let held = Held::take(dir);
        refuse_existing(dir)?;
        let held = held?;
        let earlier = held.left();
        Ok(Intent { held, earlier })
    }

    /// The identity that an unfinished creation has already put on volumes.
    pub(super) fn earlier_uuid(&self) -> Option<StoreUuid> {
        self.earlier.as_ref().map(|(_, earlier)| earlier.uuid)
    }

    /// True if an unfinished creation was about to make this volume.
    pub(super) fn earlier_names(&self, volume: &Path) -> bool {
        let mut earlier = self.earlier.iter().flat_map(|(_, m)| &m.volumes);
        earlier.any(|other| other == volume)
    }

    /// The store that a deletion which did not end was about to delete.
    pub(super) fn left_to_delete(&self) -> Option<&Manifest> {
        let (making, manifest) = self.earlier.as_ref()?;
        (*making == Making::Destruction).then_some(manifest)
    }

    /// Takes what was left unfinished as ended, durably: nothing of it is there any more.
    pub(super) fn forget(&mut self) -> Result<()> {
        remove_if_there(&self.held.dir.join(DRAFT_NAME), "delete")?;
        self.held.empty()?;
        self.earlier = None;
        Ok(())
    }

    /// Refuses to go on with what was left unfinished in this way: its volumes hold something else
    /// than this program is about to make.
    pub(super) fn refuse(&self, making: Making) -> Result<()> {
        match &self.earlier {
            Some((earlier, _)) if *earlier == making => {
                let what = earlier.unfinished();
                let message = format!("{what}; or remove the directory");
                Err(Error::new(ErrorKind::StoreExists, message))
            }
            _ => Ok(()),
        }
    }

    /// Says durably what is about to be made. Volumes may be written afterwards.
    pub(super) fn announce(&mut self, making: Making, manifest: &Manifest) -> Result<()> {
        let text = making.text(manifest)?;
        if self.held.found != text {
            // A process that ends here must not leave files of which nothing tells what they are.
            self.remove_earlier_files()?;
        }
        self.held.write(&text)
    }

    /// Removes the files in this directory that an unfinished creation or restore has made.
    fn remove_earlier_files(&self) -> Result<()> {
        let volumes = self.earlier.iter().flat_map(|(_, m)| &m.volumes);
        let is_here = |volume: &&PathBuf| volume.file_name() == Some(volume.as_os_str());
        for volume in volumes.filter(is_here) {
            let path = self.held.dir.join(volume);
            remove_if_there(&path, "remove what was left unfinished")?;
        }
        sync_dir(&self.held.dir)
    }

    /// Makes the directory a store.
    pub(super) fn commit(&self) -> Result<()> {
        let path = self.held.dir.join(MANIFEST_NAME);
        std::fs::rename(&self.held.path, &path).map_err(|e| Error::io("create", &path, e))?;
        sync_dir(&self.held.dir)
    }

    /// Makes the directory a store, after a restore: what was announced has a line more than the
    /// manifest, and stays until that is there.
    pub(super) fn commit_restored(&self, manifest: &Manifest) -> Result<()> {
        let text = manifest.encode()?;
        let (draft, path) = (
            self.held.dir.join(DRAFT_NAME),
            self.held.dir.join(MANIFEST_NAME),
        );
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&draft)?;
            file.write_all(&text)?;
            file.sync_all()
        };
        write().map_err(|error| Error::io("write", &draft, error))?;
        std::fs::rename(&draft, &path).map_err(|e| Error::io("create", &path, e))?;
        sync_dir(&self.held.dir)?;
        // A store by now; what is left of the announcement is only untidy.
        let _ = std::fs::remove_file(&self.held.path);
        Ok(())
    }

    /// Gives the right back; leaves no trace if nothing was announced.
    pub(super) fn withdraw(self) {
        self.held.withdraw();
    }
}

/// Removes a file, unless it has gone already.
fn remove_if_there(path: &Path, what: &str) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(what, path, error))
        }
        _ => Ok(()),
    }
}

/// What whoever comes meanwhile is told.
pub(super) fn busy(dir: &Path) -> Error {
    Error::new(
        ErrorKind::StoreInUse,
        format!(
            "{}: another process is making or deleting a store there; wait for it",
            dir.display()
        ),
    )
}

fn refuse_existing(dir: &Path) -> Result<()> {
    if !dir.join(MANIFEST_NAME).exists() {
        return refuse_foreign(dir);
    }
    let identity = match Manifest::read(dir) {
        Ok(Some(manifest)) => format!("store {}", manifest.uuid),
        _ => "a store whose HELIOX file does not decode".to_owned(),
    };
    Err(Error::new(
        ErrorKind::StoreExists,
        format!("{}: {identity} is there already; open it, choose another directory, or remove this one if its data is not needed", dir.display()),
    ))
}

/// Refuses the directory of another engine's store: its programs would find a store of ours there.
fn refuse_foreign(dir: &Path) -> Result<()> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    let any = |begin: &[u8]| {
        let mut all = names.iter().map(|name| name.as_encoded_bytes());
        all.any(|name| name.starts_with(begin))
    };
    if !any(b"MANIFEST-") {
        return Ok(());
    }
    // RocksDB writes its identity and its options beside what LevelDB writes too.
    let (engine, word) = match any(b"IDENTITY") || any(b"OPTIONS-") {
        true => ("RocksDB", "rocksdb"),
        false => ("LevelDB", "leveldb"),
    };
    let dir = dir.display();
    Err(Error::new(
        ErrorKind::StoreExists,
        format!("{dir} holds a store of {engine}, which is left alone; choose another directory, or import it there: heliox import DIR --from {word} {dir}"),
    ))
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| Error::io("sync the directory", dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        Manifest {
            uuid: StoreUuid([0xa7; 16]),
            volumes: vec!["data".into(), "/dev/a b".into()],
        }
    }

    #[test]
    fn a_manifest_round_trips_and_bad_lines_are_named() {
        let text = sample().encode().unwrap();
        let decode = |text: &[u8]| Manifest::decode(Path::new("/s/HELIOX"), text);
        assert_eq!(decode(&text).unwrap(), sample());
        let text = String::from_utf8(text).unwrap();
        let cases = [
            ("Heliox store", "Helios store", ErrorKind::Damaged, "line 1"),
            ("format 1", "format 2", ErrorKind::Version, "2 found"),
            ("format 1", "format x", ErrorKind::Damaged, "line 2"),
            ("uuid a7", "uuid g7", ErrorKind::Damaged, "line 3"),
            ("uuid a7", "uuid a", ErrorKind::Damaged, "line 3"),
            ("volume /dev", "volum /dev", ErrorKind::Damaged, "line 5"),
        ];
        for (from, to, kind, part) in cases {
            let error = decode(text.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
            assert!(error.to_string().contains("/s/HELIOX"), "{error}");
        }
        for len in 0..text.len() - "data\nvolume /dev/a b\n".len() {
            assert!(decode(&text.as_bytes()[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn a_path_with_a_line_break_is_refused() {
        let mut manifest = sample();
        manifest.volumes.push("/dev/x\nvolume y".into());
        let error = manifest.encode().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    /// The kernel lets go of a killed process's files late.
    #[test]
    fn the_right_is_waited_for_a_moment() {
        let dir = tempfile::tempdir().unwrap();
        let mut held = Intent::take(dir.path()).unwrap();
        held.announce(Making::Creation, &sample()).unwrap();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            drop(held);
        });
        let intent = Intent::take(dir.path()).unwrap();
        assert_eq!(intent.earlier_uuid(), Some(sample().uuid));
        holder.join().unwrap();
    }

    /// A process that ends while it announces must leave no file of which nothing tells whose it is.
    #[test]
    fn an_announcement_is_not_rewritten_while_files_depend_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut intent = Intent::take(dir.path()).unwrap();
        intent.announce(Making::Restore, &sample()).unwrap();
        drop(intent);
        std::fs::write(&data, "half").unwrap();

        let mut again = Intent::take(dir.path()).unwrap();
        let long_ago = std::time::UNIX_EPOCH;
        again.held.file.set_modified(long_ago).unwrap();
        again.announce(Making::Restore, &sample()).unwrap();
        let modified = again.held.file.metadata().unwrap().modified().unwrap();
        assert_eq!(modified, long_ago, "it was written anew");
        assert!(data.exists());
        drop(again);

        let mut other = Intent::take(dir.path()).unwrap();
        let mut manifest = sample();
        manifest.uuid.0[0] ^= 1;
        other.announce(Making::Restore, &manifest).unwrap();
        assert!(!data.exists(), "it belongs to what was announced before");
    }

    #[test]
    fn the_right_to_create_is_exclusive_and_leaves_no_trace_unused() {
        let dir = tempfile::tempdir().unwrap();
        let intent = Intent::take(dir.path()).unwrap();
        let error = Intent::take(dir.path()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreInUse);
        intent.withdraw();
        assert_eq!(Intent::left_in(dir.path()), None);

        let mut intent = Intent::take(dir.path()).unwrap();
        intent.announce(Making::Creation, &sample()).unwrap();
        intent.withdraw();
        let intent = Intent::take(dir.path()).unwrap();
        assert_eq!(intent.earlier_uuid(), Some(sample().uuid));
        assert!(intent.earlier_names(Path::new("data")));
        assert!(Manifest::read(dir.path()).unwrap().is_none());
        intent.commit().unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), Some(sample()));
        let error = Intent::take(dir.path()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreExists);
        assert!(error.to_string().contains("a7a7"), "{error}");
    }
}
