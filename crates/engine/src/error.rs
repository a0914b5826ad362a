//! The one error type of the store: what went wrong, where, what was expected and found, and what
//! to do about it.
//!
//! Invariants: every message stands alone (it names the path, the key's length, the bound that was
//! broken, and a way out); an [`ErrorKind`] is for programs, the message for people, and only the
//! kind is stable. A broken rule of the store itself is [`ErrorKind::Internal`], never a panic.
//! Threads: an error is immutable and cheap to clone (one shared allocation), because the first
//! failure of a store is kept and handed to every later writer.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use heliox_format::error::DecodeError;
use heliox_format::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use heliox_index::{ImageError, IndexError, SourceError};
use heliox_log::LogError;
use heliox_media::{MediaError, Operation};

/// What every fallible function of the store returns.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of thing went wrong, for programs that react to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option or an argument makes no sense; the message states the bounds.
    Invalid,
    /// A key, a value, a batch or a name is longer than the store takes.
    TooLarge,
    /// There is no store at this place.
    NotAStore,
    /// There is a store at this place already, or a device carries the label of one.
    StoreExists,
    /// Another process, or another handle of this one, has the store open.
    StoreInUse,
    /// No keyspace has this name.
    UnknownKeyspace,
    /// A keyspace has this name already.
    KeyspaceExists,
    /// A device is missing, belongs to another store, or stands in the wrong place.
    WrongDevice,
    /// A device is shorter than the store that was made on it, or too short to make one.
    ShortDevice,
    /// The store was written in a format version that this program does not know.
    Version,
    /// The store is encrypted and no key was given.
    Encrypted,
    /// A key was given and the store is not encrypted.
    NotEncrypted,
    /// The store is encrypted with another key than the one given.
    WrongKey,
    /// Bytes on media are not what was written there.
    Damaged,
    /// The operating system refused a read, a write or another operation.
    Io,
    /// No space is left, in the store or on the file system under it.
    Full,
    /// The change needs more memory than the memory budget allows.
    OverBudget,
    /// The place cannot be written: read-only, or not permitted to this user.
    ReadOnly,
    /// The snapshot needs versions that are no longer kept.
    SnapshotTooOld,
    /// The store was closed.
    Closed,
    /// An earlier write or sync failed; nothing is written until the store is opened again.
    Failed,
    /// A rule of the store's own does not hold: a defect to be reported.
    Internal,
}

/// An error of the store. Cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// What kind of thing went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// An error with a message that stands alone.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::build(kind, message.into(), None)
    }

    /// An error with the one that caused it.
    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        Error::build(kind, message.into(), Some(Box::new(source)))
    }

    fn build(
        kind: ErrorKind,
        message: String,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error(Arc::new(Inner {
            kind,
            message,
            source,
        }))
    }

    /// The same error, told with the place or the step in front; the kind stays.
    #[must_use]
    pub(crate) fn context(self, place: impl fmt::Display) -> Error {
        let message = format!("{place}: {}", self.0.message);
        Error::build(self.0.kind, message, Some(Box::new(self)))
    }

    /// An option or argument out of its bounds.
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    /// A rule of our own that does not hold.
    pub(crate) fn internal(what: impl fmt::Display) -> Error {
        Error::new(
            ErrorKind::Internal,
            format!("internal error: {what}; close the store, open it again, run `check`, and report this"),
        )
    }

    /// Bytes on media that are not what was written; `what` says where, expected and found.
    pub(crate) fn damaged(what: impl fmt::Display) -> Error {
        Error::new(
            ErrorKind::Damaged,
            format!("{what}; the rest of the store stays readable: run `check` for the extent"),
        )
    }

    /// What the operating system said about a path.
    pub(crate) fn io(doing: &str, path: &Path, error: std::io::Error) -> Error {
        let kind = error.raw_os_error().map_or(ErrorKind::Io, kind_of_errno);
        let hint = hint_of(kind);
        let message = format!("{}: cannot {doing}: {error}{hint}", path.display());
        Error::with_source(kind, message, error)
    }

    /// A key longer than the store takes.
    pub(crate) fn key_too_large(len_bytes: usize) -> Error {
        Error::new(
            ErrorKind::TooLarge,
            format!("key of {len_bytes} bytes: a key has at most {KEY_BYTES_MAX}; store a hash of it, or move part of it into the value"),
        )
    }

    /// A value longer than the store takes.
    pub(crate) fn value_too_large(len_bytes: usize) -> Error {
        Error::new(
            ErrorKind::TooLarge,
            format!("value of {len_bytes} bytes: a value has at most {VALUE_BYTES_MAX}; split it over several keys"),
        )
    }

    /// No keyspace of this name.
    pub(crate) fn unknown_keyspace(name: &str) -> Error {
        Error::new(
            ErrorKind::UnknownKeyspace,
            format!("keyspace {name:?}: the store has none of this name; list the keyspaces, or create it"),
        )
    }

    /// A keyspace of this name is there already.
    pub(crate) fn keyspace_exists(name: &str) -> Error {
        Error::new(
            ErrorKind::KeyspaceExists,
            format!("keyspace {name:?}: the store has one of this name already; open it, or choose another name"),
        )
    }

    /// No store at this path.
    pub(crate) fn not_a_store(path: &Path, found: impl fmt::Display) -> Error {
        Error::new(
            ErrorKind::NotAStore,
            format!("{}: not a Heliox store: {found}; check the path, or make a store there with `create`", path.display()),
        )
    }

    /// The log has no free segment.
    pub(crate) fn full(detail: impl fmt::Display) -> Error {
        Error::new(
            ErrorKind::Full,
            format!("the store is full: {detail}; reads and deletes go on: delete data or drop a keyspace, or copy it to a store of more capacity"),
        )
    }

    /// A change that the memory budget does not allow.
    pub(crate) fn over_budget(needed_bytes: u64, limit_bytes: u64) -> Error {
        Error::new(
            ErrorKind::OverBudget,
            format!("the index needs {needed_bytes} bytes of memory and may have {limit_bytes}; nothing was changed: raise memory_budget_bytes, or delete data"),
        )
    }

    /// A snapshot whose versions are gone.
    pub(crate) fn snapshot_too_old() -> Error {
        Error::new(
            ErrorKind::SnapshotTooOld,
            "the snapshot is too old: versions that it needs were given up to keep memory within its budget, or to make room for a writer; take a new snapshot and start again",
        )
    }

    /// The store was closed.
    pub(crate) fn closed() -> Error {
        Error::new(
            ErrorKind::Closed,
            "the store is closed; open it again before using it",
        )
    }

    /// The store was opened for reading alone.
    pub(crate) fn read_only() -> Error {
        Error::new(
            ErrorKind::ReadOnly,
            "the store was opened for reading alone (read_only); open it without that to change it",
        )
    }

    /// An earlier failure after which nothing is written any more.
    pub(crate) fn failed(cause: &Error) -> Error {
        if cause.kind() == ErrorKind::Failed {
            return cause.clone();
        }
        let message = format!("the store stopped writing after an earlier failure: {cause}; reads go on: mend the cause, then close and open the store");
        Error::with_source(ErrorKind::Failed, message, cause.clone())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

fn kind_of_errno(errno: i32) -> ErrorKind {
    match errno {
        libc::ENOSPC | libc::EDQUOT => ErrorKind::Full,
        libc::EROFS | libc::EACCES | libc::EPERM => ErrorKind::ReadOnly,
        _ => ErrorKind::Io,
    }
}

fn hint_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Full => "; free space on that file system or raise the quota, then open again",
        ErrorKind::ReadOnly => "; give this user the right to read and write there, or choose another place (the file system may be mounted read-only)",
        ErrorKind::Io => "; look at the system log for the device, then open again",
        _ => "",
    }
}

fn kind_of_media(error: &MediaError) -> ErrorKind {
    match error {
        MediaError::Io {
            errno, operation, ..
        } => match kind_of_errno(*errno) {
            ErrorKind::ReadOnly if *operation != Operation::Open => ErrorKind::Io,
            _ if *operation == Operation::Open && *errno == libc::ENOENT => ErrorKind::WrongDevice,
            kind => kind,
        },
        MediaError::Failed { .. } => ErrorKind::Failed,
        MediaError::ShortDevice { .. } => ErrorKind::ShortDevice,
        MediaError::InUse { .. } => ErrorKind::StoreInUse,
        MediaError::Closed { .. } => ErrorKind::Closed,
        MediaError::Unusable { .. } => ErrorKind::WrongDevice,
        MediaError::NoMemory { .. } => ErrorKind::Io,
        _ => ErrorKind::Internal,
    }
}

impl From<MediaError> for Error {
    fn from(error: MediaError) -> Error {
        let kind = kind_of_media(&error);
        let hint = match kind {
            _ if matches!(error, MediaError::Unusable { .. }) => {
                "; give another device, or another way of I/O"
            }
            ErrorKind::Failed => "; reads go on: mend the device, then close and open the store",
            ErrorKind::WrongDevice => "; check the path and that the device is attached",
            ErrorKind::Internal => "; reopen the store, run `check`, and report this",
            kind => hint_of(kind),
        };
        Error::with_source(kind, format!("{error}{hint}"), error)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Error {
        if error.is_version() {
            let message = format!(
                "{} at address {:#x}: format version {} was expected and {} found; open the store with a program of the version that wrote it",
                error.structure, error.address, error.expected, error.found
            );
            return Error::with_source(ErrorKind::Version, message, error);
        }
        let advice = match error.structure {
            "label" => "the store is not opened without it: restore the first 4096 bytes of the device from a backup",
            "superblock" => "restore this block of the device from a backup",
            _ => "the rest of the store stays readable: run `check` for the extent",
        };
        Error::with_source(ErrorKind::Damaged, format!("{error}; {advice}"), error)
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Error {
        match error {
            LogError::Media(error) => error.into(),
            LogError::Damaged(error) => error.into(),
            LogError::Full => Error::full("no free segment is left"),
            LogError::Ended => Error::closed(),
            LogError::Failed(_) => {
                let message =
                    format!("{error}; reads go on: mend the cause, then close and open the store");
                Error::with_source(ErrorKind::Failed, message, error)
            }
            LogError::Internal(what) => Error::internal(format_args!("log: {what}")),
            other => Error::internal(format_args!("log: {other}")),
        }
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Error {
        match error {
            IndexError::OverBudget { needed, limit } => Error::over_budget(needed, limit),
            IndexError::Source(source) => source.into(),
            IndexError::Internal(what) => Error::internal(format_args!("index: {what}")),
            other => Error::internal(format_args!("index: {other}")),
        }
    }
}

impl From<SourceError> for Error {
    /// The engine's own error, which the index carried through; else an internal one.
    fn from(error: SourceError) -> Error {
        match error.0.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::internal(format_args!("key for the index: {other}")),
        }
    }
}

impl From<Error> for SourceError {
    fn from(error: Error) -> SourceError {
        SourceError(Box::new(error))
    }
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Error {
        match error {
            ImageError::Index(error) => error.into(),
            other => Error::damaged(format_args!("checkpoint: {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn media_io(operation: Operation, errno: i32) -> MediaError {
        MediaError::Io {
            device: "/dev/x".into(),
            operation,
            offset: 0,
            len_bytes: 512,
            errno,
        }
    }

    #[test]
    fn media_errors_keep_their_meaning_and_their_source() {
        let cases = [
            (media_io(Operation::Write, libc::ENOSPC), ErrorKind::Full),
            (media_io(Operation::Write, libc::EIO), ErrorKind::Io),
            (media_io(Operation::Open, libc::EROFS), ErrorKind::ReadOnly),
            (media_io(Operation::Open, libc::EACCES), ErrorKind::ReadOnly),
            (
                media_io(Operation::Open, libc::ENOENT),
                ErrorKind::WrongDevice,
            ),
            (
                MediaError::InUse {
                    device: "/dev/x".into(),
                },
                ErrorKind::StoreInUse,
            ),
            (
                MediaError::Failed {
                    device: "/dev/x".into(),
                    cause: Box::new(media_io(Operation::Sync, libc::EIO)),
                },
                ErrorKind::Failed,
            ),
        ];
        for (media, kind) in cases {
            let error = Error::from(LogError::Media(media));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains("/dev/x"), "{error}");
            assert!(error.source().is_some_and(|s| s.is::<MediaError>()));
        }
    }

    #[test]
    fn a_version_is_told_from_damage() {
        let version = DecodeError::new("superblock", 65536, "version", 1, 9);
        assert_eq!(Error::from(version).kind(), ErrorKind::Version);
        let damage = DecodeError::new("frame", 8192, "checksum", 1, 9);
        let error = Error::from(LogError::Damaged(damage));
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("0x2000"), "{error}");
    }

    #[test]
    fn an_error_survives_the_way_through_the_index() {
        let own = Error::unknown_keyspace("stars");
        let back = Error::from(IndexError::Source(own.into()));
        assert_eq!(back.kind(), ErrorKind::UnknownKeyspace);
        assert!(back.to_string().contains("stars"));
        let foreign = SourceError("elsewhere".into());
        assert_eq!(Error::from(foreign).kind(), ErrorKind::Internal);
        let budget = Error::from(IndexError::OverBudget {
            needed: 300,
            limit: 200,
        });
        assert_eq!(budget.kind(), ErrorKind::OverBudget);
        for part in ["300", "200", "memory_budget_bytes"] {
            assert!(budget.to_string().contains(part), "{budget}");
        }
    }

    #[test]
    fn context_names_the_place_and_keeps_kind_and_source() {
        let error = Error::full("0 of 16 segments are free").context("/data/store");
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(error
            .to_string()
            .starts_with("/data/store: the store is full"));
        assert!(error.source().is_some_and(|s| s.is::<Error>()));
    }

    #[test]
    fn what_the_operating_system_says_names_path_and_step() {
        let cases = [
            (libc::EROFS, ErrorKind::ReadOnly, "read-only"),
            (libc::EPERM, ErrorKind::ReadOnly, "right to"),
            (libc::ENOSPC, ErrorKind::Full, "free space"),
            (libc::EIO, ErrorKind::Io, "system log"),
        ];
        for (errno, kind, part) in cases {
            let io = std::io::Error::from_raw_os_error(errno);
            let error = Error::io("create the directory", Path::new("/data"), io);
            assert_eq!(error.kind(), kind);
            for part in ["/data: cannot create the directory", part] {
                assert!(error.to_string().contains(part), "{error}");
            }
        }
    }

    #[test]
    fn an_earlier_failure_is_told_once() {
        let first = Error::failed(&Error::from(media_io(Operation::Sync, libc::EIO)));
        assert_eq!(first.kind(), ErrorKind::Failed);
        assert!(first.to_string().contains("errno 5"), "{first}");
        assert_eq!(Error::failed(&first).to_string(), first.to_string());
    }

    #[test]
    fn an_error_is_one_pointer_and_crosses_threads() {
        fn check<T: Send + Sync + Clone + 'static>() {}
        check::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}
