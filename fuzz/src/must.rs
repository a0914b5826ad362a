//! What cannot fail, said so: a target that fails there is wrong itself. No state, no threads.

use std::fmt::Debug;

/// The value, or a panic that names what was thought to be certain.
pub(crate) trait Must<T> {
    /// The value.
    ///
    /// # Panics
    /// If there is none.
    fn must(self, what: &str) -> T;
}

impl<T, E: Debug> Must<T> for Result<T, E> {
    fn must(self, what: &str) -> T {
        self.unwrap_or_else(|error| panic!("{what}: {error:?}"))
    }
}
