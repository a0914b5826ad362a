//! The rules. Each takes the tree and gives violations; none knows another. No threads.

pub mod changelog;
pub mod crates;
pub mod modules;
pub mod native;
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
        native::heads,
        native::lengths,
        text::module_docs,
        text::forbidden_words,
        text::forbidden_code,
        text::ascii,
        text::unwraps,
        changelog::form,
    ];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_tree_that_breaks_everything_is_told_so_by_every_rule() {
        let long = format!("{}fn f() {{\n{}}}\n", "//\n".repeat(800), "//\n".repeat(70));
        let manifest = "[package]\nname = \"heliox-log\"\n[dependencies]\nheliox-cli = \"1\"\n";
        let code = format!("{}\u{b5}", crate::config::FORBIDDEN_CODE[0].0);
        let word = crate::config::FORBIDDEN[0].0;
        let tree = Tree::of(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\nunexplained = \"1\"\n",
            ),
            ("crates/log/Cargo.toml", manifest),
            (
                "crates/engine/src/surprise.rs",
                "use crate::*;\nunsafe { a.unwrap().unwrap() }\n",
            ),
            ("crates/log/src/a.rs", "use crate::b;\n"),
            ("crates/log/src/b.rs", "use crate::a;\n"),
            ("crates/log/src/c.rs", &long),
            ("crates/log/src/d.rs", &code),
            ("crates/log/src/e.rs", word),
            ("herocks/src/a.cc", &long),
        ]);
        let told: BTreeSet<&str> = all(&tree).iter().map(|violation| violation.rule).collect();
        let rules = [
            "crate-layers",
            "pinned",
            "documented",
            "module-layers",
            "module-cycles",
            "root-imports",
            "unsafe-files",
            "unsafe-argued",
            "file-length",
            "function-length",
            "module-doc",
            "native-head",
            "native-length",
            "words",
            "code",
            "ascii",
            "unwraps",
            "changelog",
        ];
        assert_eq!(told, BTreeSet::from(rules));
    }
}
