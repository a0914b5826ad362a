//! The rules. Each takes the tree and gives violations; none knows another. No threads.

pub mod changelog;
pub mod crates;
pub mod modules;
pub mod size;
pub mod text;
pub mod unsafety;

use crate::tree::Tree;
use crate::Violation;

/// Every rule over the whole tree.
pub fn all(tree: &Tree) -> Vec<Violation> {
    let rules = [
        crates::layering,
        crates::pinned,
        crates::documented,
        modules::layering,
        modules::cycles,
        modules::root_imports,
        unsafety::confined,
        unsafety::argued,
        size::files,
        size::functions,
        text::module_docs,
        text::forbidden_words,
        text::forbidden_code,
        text::ascii,
        text::unwraps,
        changelog::form,
    ];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}
