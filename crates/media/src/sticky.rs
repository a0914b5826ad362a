//! The first failure of a device, kept for good.
//!
//! Invariant: once [`Sticky::fail`] has returned, [`Sticky::check`] never again says yes, and it
//! always gives the same cause. Threads: any; the check is one relaxed-cost atomic load.
//!
//! Why: after a failed `fdatasync` the kernel may have dropped the dirty pages and reports success
//! next time; a store that retried would acknowledge lost writes.

use std::sync::Arc;

use heliox_sync::atomic::{AtomicBool, Ordering};
use heliox_sync::Mutex;

use crate::error::MediaError;

/// Remembers the first failed write or sync of one device.
#[derive(Debug)]
pub(crate) struct Sticky {
    device: Arc<str>,
    failed: AtomicBool,
    cause: Mutex<Option<MediaError>>,
}

impl Sticky {
    pub(crate) fn new(device: Arc<str>) -> Sticky {
        Sticky {
            device,
            failed: AtomicBool::new(false),
            cause: Mutex::new(None),
        }
    }

    /// [`MediaError::Failed`] if anything failed before.
    pub(crate) fn check(&self) -> Result<(), MediaError> {
        if self.failed.load(Ordering::SeqCst) {
            return Err(self.failed_error());
        }
        Ok(())
    }

    /// Notes a failure and gives it back; only the first one is kept.
    pub(crate) fn fail(&self, error: MediaError) -> MediaError {
        let mut cause = self.cause.lock();
        if cause.is_none() {
            *cause = Some(match error.clone() {
                MediaError::Failed { cause, .. } => *cause,
                other => other,
            });
        }
        self.failed.store(true, Ordering::SeqCst);
        error
    }

    /// Runs a write or sync: refused if anything failed before; and if anything failed meanwhile,
    /// not reported as done.
    pub(crate) fn guard(
        &self,
        run: impl FnOnce() -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        self.check()?;
        run().map_err(|error| self.fail(error))?;
        self.check()
    }

    /// The first failure, if there was one.
    pub(crate) fn cause(&self) -> Option<MediaError> {
        self.cause.lock().clone()
    }

    fn failed_error(&self) -> MediaError {
        match self.cause() {
            Some(cause) => MediaError::Failed {
                device: Arc::clone(&self.device),
                cause: Box::new(cause),
            },
            None => MediaError::Internal {
                device: Arc::clone(&self.device),
                what: "failed without a cause",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(errno: i32) -> MediaError {
        MediaError::Io {
            device: "d".into(),
            operation: crate::error::Operation::Sync,
            offset: 0,
            len_bytes: 0,
            errno,
        }
    }

    #[test]
    fn the_first_failure_stays() {
        let sticky = Sticky::new("d".into());
        assert_eq!(sticky.guard(|| Ok(())), Ok(()));
        assert_eq!(sticky.guard(|| Err(io(5))), Err(io(5)));
        assert_eq!(
            sticky.guard(|| Err(io(28))).map_err(|e| e.errno()),
            Err(Some(5))
        );
        assert!(sticky.guard(|| Ok(())).is_err_and(|e| e.is_failed()));
        // Another request that was under way fails later.
        sticky.fail(io(28));
        assert_eq!(sticky.cause(), Some(io(5)));
    }

    #[test]
    fn a_failure_meanwhile_spoils_a_success() {
        let sticky = Sticky::new("d".into());
        let result = sticky.guard(|| {
            sticky.fail(io(5));
            Ok(())
        });
        assert!(result.is_err_and(|e| e.is_failed()));
    }
}
