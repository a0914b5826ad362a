//! Errors as C sees them, and the two guards through which every function runs.
//!
//! Invariant: nothing unwinds out of [`answer`] and [`quiet`]. Threads: none of its own.

use std::ffi::{CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::border::{c_string, OutHandle, Shown};
use crate::failure::{Code, Failure, Result};

/// `HELIOX_ABI_VERSION`.
pub(crate) const ABI_VERSION: u32 = 1;

/// Names by number; what stands between is none.
const NAMES: [(u32, &CStr); 25] = [
    (0, c"OK"),
    (1, c"NOT_FOUND"),
    (2, c"UNCHANGED"),
    (16, c"INVALID"),
    (17, c"TOO_LARGE"),
    (18, c"NOT_A_STORE"),
    (19, c"STORE_EXISTS"),
    (20, c"STORE_IN_USE"),
    (21, c"UNKNOWN_KEYSPACE"),
    (22, c"KEYSPACE_EXISTS"),
    (23, c"WRONG_DEVICE"),
    (24, c"SHORT_DEVICE"),
    (25, c"VERSION"),
    (26, c"ENCRYPTED"),
    (27, c"NOT_ENCRYPTED"),
    (28, c"WRONG_KEY"),
    (29, c"DAMAGED"),
    (30, c"IO"),
    (31, c"FULL"),
    (32, c"OVER_BUDGET"),
    (33, c"READ_ONLY"),
    (34, c"SNAPSHOT_TOO_OLD"),
    (35, c"CLOSED"),
    (36, c"FAILED"),
    (37, c"INTERNAL"),
];

/// `heliox_error`.
pub(crate) struct Error {
    code: Code,
    text: CString,
}

/// A place for an error; may be missing.
pub(crate) type ErrorOut<'a> = OutHandle<'a, Error>;

/// Runs a function's work and turns what comes of it into a code and perhaps an error.
#[inline]
pub(crate) fn answer(error: ErrorOut<'_>, work: impl FnOnce() -> Result<Code>) -> Code {
    match caught(work).and_then(|answered| answered) {
        Ok(code) => {
            if let Some(error) = error {
                error.write(None);
            }
            code
        }
        Err(failure) => hand_over(&failure, error),
    }
}

/// What the work gives; a panic is a failure.
#[inline]
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Failure::panic(panic.as_ref()))
}

/// The same for a function that gives no code: `otherwise` if the work panics.
#[inline]
pub(crate) fn quiet<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    caught(work).unwrap_or(otherwise)
}

/// The code; and the error, into the place for it.
#[cold]
fn hand_over(failure: &Failure, place: ErrorOut<'_>) -> Code {
    let (code, text) = failure.told();
    if let Some(place) = place {
        let text = c_string(&text);
        place.write(Some(Box::new(Error { code, text })));
    }
    code
}

#[no_mangle]
extern "C" fn heliox_error_code(error: Option<&Error>) -> Code {
    error.map_or(Code::Ok, |error| error.code)
}

#[no_mangle]
extern "C" fn heliox_error_text(error: Option<&Error>) -> Shown<'_> {
    error.map_or(Shown::of(c""), |error| Shown::of(&error.text))
}

#[no_mangle]
extern "C" fn heliox_error_free(error: Option<Box<Error>>) {
    quiet((), || drop(error));
}

/// A code as C gives it, which may be any number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct AnyCode(u32);

#[no_mangle]
extern "C" fn heliox_code_name(code: AnyCode) -> Shown<'static> {
    let found = NAMES.iter().find(|(number, _)| *number == code.0);
    Shown::of(found.map_or(c"UNKNOWN", |(_, name)| name))
}

#[no_mangle]
extern "C" fn heliox_abi_version() -> u32 {
    ABI_VERSION
}

#[no_mangle]
extern "C" fn heliox_version() -> Shown<'static> {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    let text = CStr::from_bytes_until_nul(VERSION.as_bytes());
    Shown::of(text.unwrap_or(c""))
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;

    #[test]
    fn a_panic_is_an_internal_error_and_goes_no_further() {
        assert_eq!(answer(None, || panic!("planted")), Code::Internal);
        let words = "words";
        let mut place = MaybeUninit::uninit();
        assert_eq!(
            answer(Some(&mut place), || Ok(Code::NotFound)),
            Code::NotFound
        );
        assert_eq!(quiet(7, || panic!("planted")), 7);
        let failure = caught::<()>(|| panic!("planted {words}")).unwrap_err();
        let (code, text) = failure.told();
        assert_eq!(code, Code::Internal);
        assert!(text.contains("planted words"), "{text}");
    }

    /// The engine's kinds as its source has them, since a match on them needs not be complete.
    #[test]
    fn each_kind_of_error_has_a_code_and_a_name_of_its_own() {
        let engine = include_str!("../../engine/src/error.rs");
        let (_, kinds) = engine.split_once("pub enum ErrorKind {").unwrap();
        let (kinds, _) = kinds.split_once('}').unwrap();
        let lines = kinds.lines().map(str::trim);
        let kinds: Vec<&str> = lines.filter_map(|line| line.strip_suffix(',')).collect();
        let codes = include_str!("failure.rs");
        for kind in &kinds {
            let mapped = format!("ErrorKind::{kind} => Code::{kind},");
            assert!(codes.contains(&mapped), "{kind} has no code");
        }
        // And what is no failure.
        assert_eq!(NAMES.len(), kinds.len() + 3);
        let number = |at: usize| NAMES[at].0;
        assert!((1..NAMES.len()).all(|at| number(at - 1) < number(at)));
        assert_eq!(number(3), Code::Invalid as u32);
        assert_eq!(number(NAMES.len() - 1), Code::Internal as u32);
    }
}
