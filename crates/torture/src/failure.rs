//! Why a run ended early: one error type for the whole crate, made to be read. Plain data.

use thiserror::Error;

/// What every fallible function here returns.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a run ended early.
#[derive(Debug, Error)]
pub enum Failure {
    /// The store broke a promise: what, where, and how to see it again.
    #[error("VIOLATION: {0}")]
    Violation(String),
    /// The store gave an error that nothing explains.
    #[error("{0}: {1}")]
    Store(&'static str, heliox::Error),
    /// A device in memory refused.
    #[error("device: {0}")]
    Media(#[from] heliox_media::MediaError),
    /// The system refused.
    #[error("{0}: {1}")]
    System(String, std::io::Error),
    /// An argument makes no sense, or a process of ours did not do as told.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// For `map_err`: what was being done when the store refused.
    pub(crate) fn store(doing: &'static str) -> impl Fn(heliox::Error) -> Failure {
        move |error| Failure::Store(doing, error)
    }

    /// For `map_err`: what was being done when the system refused.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let doing = doing.into();
        move |error| Failure::System(doing, error)
    }
}
