//! What can go wrong in the log.

use std::fmt;

use heliox_format::error::DecodeError;
use heliox_media::MediaError;

/// An error of the log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LogError {
    /// A device failed.
    Media(MediaError),
    /// Bytes on media are not what was written there.
    Damaged(DecodeError),
    /// No free segment is left for this stream.
    Full,
    /// The log was ended: the store is being closed, or is closed.
    Ended,
    /// An earlier write or sync failed; nothing is written until the store is opened again.
    Failed(String),
    /// One of our own invariants does not hold.
    Internal(&'static str),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Media(error) => error.fmt(f),
            LogError::Damaged(error) => error.fmt(f),
            LogError::Full => f.write_str("no free segment is left"),
            LogError::Ended => f.write_str("the store is closed"),
            LogError::Failed(first) => {
                write!(
                    f,
                    "the store stopped writing after an earlier failure: {first}"
                )
            }
            LogError::Internal(what) => write!(f, "internal error in the log: {what}"),
        }
    }
}

impl std::error::Error for LogError {}

impl From<MediaError> for LogError {
    fn from(error: MediaError) -> LogError {
        match error {
            // Whoever was late when the store was closed.
            MediaError::Closed { .. } => LogError::Ended,
            error => LogError::Media(error),
        }
    }
}

impl From<DecodeError> for LogError {
    fn from(error: DecodeError) -> LogError {
        LogError::Damaged(error)
    }
}
