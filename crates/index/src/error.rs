//! What can go wrong in the index, as types.
//!
//! No error leaves the index half changed: an operation that fails has changed nothing that a
//! reader could tell (room may have been made).

use std::fmt;

/// Why a key could not be read back; wraps whatever the engine's own read returned.
#[derive(Debug)]
pub struct SourceError(pub Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key could not be read for the index: {}", self.0)
    }
}

impl std::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.0.as_ref())
    }
}

/// Why an operation of the index failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum IndexError {
    /// The change needs more memory than the limit allows. Nothing was changed.
    OverBudget {
        /// The memory that the index would have had, in bytes.
        needed: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A split had to read a key and the read failed. Nothing was changed.
    Source(SourceError),
    /// An invariant of the index itself does not hold: a defect to be reported.
    Internal(&'static str),
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::OverBudget { needed, limit } => {
                write!(
                    f,
                    "the index would need {needed} bytes and may have {limit}"
                )
            }
            IndexError::Source(error) => error.fmt(f),
            IndexError::Internal(what) => write!(f, "the index is inconsistent: {what}"),
        }
    }
}

impl std::error::Error for IndexError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            IndexError::Source(error) => Some(error),
            _ => None,
        }
    }
}

impl From<SourceError> for IndexError {
    fn from(error: SourceError) -> IndexError {
        IndexError::Source(error)
    }
}

/// Why an image of the index was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes end within a leaf.
    Truncated,
    /// The bytes are not those of a leaf that an index could have written.
    Damaged(&'static str),
    /// The image is whole, and loading it failed.
    Index(IndexError),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Truncated => f.write_str("an index image ends early"),
            ImageError::Damaged(what) => write!(f, "an index image is damaged: {what}"),
            ImageError::Index(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ImageError::Index(error) => Some(error),
            _ => None,
        }
    }
}

impl From<IndexError> for ImageError {
    fn from(error: IndexError) -> ImageError {
        ImageError::Index(error)
    }
}
