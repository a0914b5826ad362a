//! Codes, and why a function failed.
//!
//! Invariants: a code's number never changes; each kind of the engine's errors has one. Plain data.

use std::any::Any;

use heliox::ErrorKind;

/// What the functions of this crate give each other.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// `heliox_code`; the header says what each means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) enum Code {
    Ok = 0,
    NotFound = 1,
    Unchanged = 2,
    Invalid = 16,
    TooLarge = 17,
    NotAStore = 18,
    StoreExists = 19,
    StoreInUse = 20,
    UnknownKeyspace = 21,
    KeyspaceExists = 22,
    WrongDevice = 23,
    ShortDevice = 24,
    Version = 25,
    Encrypted = 26,
    NotEncrypted = 27,
    WrongKey = 28,
    Damaged = 29,
    Io = 30,
    Full = 31,
    OverBudget = 32,
    ReadOnly = 33,
    SnapshotTooOld = 34,
    Closed = 35,
    Failed = 36,
    Internal = 37,
}

impl Code {
    fn of(kind: ErrorKind) -> Code {
        match kind {
            ErrorKind::Invalid => Code::Invalid,
            ErrorKind::TooLarge => Code::TooLarge,
            ErrorKind::NotAStore => Code::NotAStore,
            ErrorKind::StoreExists => Code::StoreExists,
            ErrorKind::StoreInUse => Code::StoreInUse,
            ErrorKind::UnknownKeyspace => Code::UnknownKeyspace,
            ErrorKind::KeyspaceExists => Code::KeyspaceExists,
            ErrorKind::WrongDevice => Code::WrongDevice,
            ErrorKind::ShortDevice => Code::ShortDevice,
            ErrorKind::Version => Code::Version,
            ErrorKind::Encrypted => Code::Encrypted,
            ErrorKind::NotEncrypted => Code::NotEncrypted,
            ErrorKind::WrongKey => Code::WrongKey,
            ErrorKind::Damaged => Code::Damaged,
            ErrorKind::Io => Code::Io,
            ErrorKind::Full => Code::Full,
            ErrorKind::OverBudget => Code::OverBudget,
            ErrorKind::ReadOnly => Code::ReadOnly,
            ErrorKind::SnapshotTooOld => Code::SnapshotTooOld,
            ErrorKind::Closed => Code::Closed,
            ErrorKind::Failed => Code::Failed,
            ErrorKind::Internal => Code::Internal,
            // One that the engine has and the header does not: a test of the header finds it.
            _ => Code::Internal,
        }
    }
}

/// Why a function failed, before anybody asks for its text.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The engine's error.
    Engine(heliox::Error),
    /// Our own.
    Own(Code, String),
}

impl From<heliox::Error> for Failure {
    #[inline]
    fn from(error: heliox::Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Failure {
    #[cold]
    pub(crate) fn invalid(text: impl Into<String>) -> Failure {
        Failure::Own(Code::Invalid, text.into())
    }

    #[cold]
    pub(crate) fn null(what: &str) -> Failure {
        Failure::invalid(format!("{what}: NULL was given, where something must be"))
    }

    #[cold]
    pub(crate) fn panic(panic: &(dyn Any + Send)) -> Failure {
        let words = panic.downcast_ref::<&str>().copied();
        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Failure::Own(
            Code::Internal,
            format!(
                "internal error: the library panicked: {}; close the store, open it again, run `check`, and report this",
                words.unwrap_or("without words")
            ),
        )
    }

    /// The code, and the text for people.
    #[cold]
    pub(crate) fn told(&self) -> (Code, String) {
        match self {
            Failure::Engine(error) => (Code::of(error.kind()), error.to_string()),
            Failure::Own(code, text) => (*code, text.clone()),
        }
    }
}
