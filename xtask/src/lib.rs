//! Tasks over the source tree. `tidy` checks what the compiler and clippy do not: layering,
//! sizes, words, the changelog.
//!
//! Every rule is a function from sources to [`Violation`]s, with a test that shows it a small
//! snippet that breaks it; `tests/tidy.rs` runs all of them over this tree. No threads.
#![forbid(unsafe_code)]

pub mod config;
pub mod rules;
pub mod source;
pub mod tree;

use std::fmt;
use std::path::Path;

/// One broken rule at one place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Violation {
    /// File, from the root of the tree.
    pub file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl Violation {
    /// A violation of `rule` at `file`:`line`.
    pub fn new(file: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Violation {
            file: file.to_string(),
            line,
            rule,
            message: message.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: [{}] {}",
            self.file, self.line, self.rule, self.message
        )
    }
}

/// Checks the tree at `root` against every rule, in order of file and line.
///
/// # Errors
/// When the tree cannot be read.
pub fn tidy(root: &Path) -> Result<Vec<Violation>, String> {
    let tree = tree::Tree::read(root)?;
    let mut violations = rules::all(&tree);
    violations.sort();
    violations.dedup();
    Ok(violations)
}
