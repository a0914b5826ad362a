//! Rules over words and bytes: module documents, leftovers, private names, ASCII, unwraps.
//! No threads.

use crate::config::{FORBIDDEN, FORBIDDEN_CODE, UNWRAPS_PER_1000_MAX};
use crate::tree::Tree;
use crate::Violation;
use std::collections::BTreeMap;

/// Every Rust file opens with a `//!` document.
pub fn module_docs(tree: &Tree) -> Vec<Violation> {
    let undocumented = tree
        .sources
        .iter()
        .filter(|source| !source.raw.starts_with("//! "));
    undocumented
        .map(|source| {
            Violation::new(
                &source.path,
                1,
                "module-doc",
                "open with `//!`: purpose, invariants, threads",
            )
        })
        .collect()
}

/// No leftovers, machine paths or private names anywhere, comments and documents included.
pub fn forbidden_words(tree: &Tree) -> Vec<Violation> {
    let sources = tree
        .sources
        .iter()
        .map(|source| (&source.path, &source.raw));
    let texts = tree.texts.iter().map(|text| (&text.path, &text.text));
    let mut violations = Vec::new();
    for (path, text) in sources.chain(texts) {
        for (at, line) in text.lines().enumerate() {
            for (word, reason) in FORBIDDEN
                .iter()
                .filter(|(word, _)| contains_word(line, word))
            {
                let message = format!("`{word}`: {reason}");
                violations.push(Violation::new(path, at + 1, "words", message));
            }
        }
    }
    violations
}

/// No leftovers in code.
pub fn forbidden_code(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in &tree.sources {
        for (at, line) in source.code_lines().iter().enumerate() {
            for (word, instead) in FORBIDDEN_CODE
                .iter()
                .filter(|(word, _)| line.contains(word))
            {
                let message = format!("`{word}`: {instead}");
                violations.push(Violation::new(&source.path, at + 1, "code", message));
            }
        }
    }
    violations
}

/// Everything but documents and tests is ASCII.
pub fn ascii(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut check = |path: &str, line: usize, text: &str| {
        if !text.is_ascii() {
            let message = format!("not ASCII (write an escape): {}", text.trim());
            violations.push(Violation::new(path, line, "ascii", message));
        }
    };
    for source in &tree.sources {
        let lines = source.raw.lines().enumerate();
        let production = lines.filter(|(at, _)| !source.is_test(at + 1));
        production.for_each(|(at, line)| check(&source.path, at + 1, line));
    }
    for text in tree.texts.iter().filter(|text| !text.path.ends_with(".md")) {
        let lines = text.text.lines().enumerate();
        lines.for_each(|(at, line)| check(&text.path, at + 1, line));
    }
    violations
}

/// At most [`UNWRAPS_PER_1000_MAX`] `unwrap`s and `expect`s per 1,000 production lines a crate.
pub fn unwraps(tree: &Tree) -> Vec<Violation> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for source in &tree.sources {
        let Some(directory) = source.crate_directory() else {
            continue;
        };
        let code = source.code_lines();
        let production = code
            .iter()
            .enumerate()
            .filter(|(at, _)| !source.is_test(at + 1));
        let found: usize = production
            .map(|(_, line)| line.matches(".unwrap()").count() + line.matches(".expect(").count())
            .sum();
        let count = counts.entry(directory).or_default();
        count.0 += found;
        count.1 += source.production_lines();
    }
    let mut violations = Vec::new();
    for (directory, (found, lines)) in counts {
        let allowed = (lines * UNWRAPS_PER_1000_MAX).div_ceil(1000);
        if found > allowed {
            let message = format!(
                "{found} unwraps and expects in {lines} production lines; {allowed} are allowed"
            );
            violations.push(Violation::new(directory, 0, "unwraps", message));
        }
    }
    violations
}

/// Does `word` stand in `line`, not as a part of a longer word?
fn contains_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = is_part(line[..at].chars().next_back()) && is_part(word.chars().next());
        let after =
            is_part(line[at + word.len()..].chars().next()) && is_part(word.chars().next_back());
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_module_document_is_found() {
        assert_eq!(
            module_docs(&Tree::of(&[("a.rs", "// no\n"), ("b.rs", "//! Yes.\n")])).len(),
            1
        );
    }

    #[test]
    fn leftovers_and_private_names_are_found_everywhere() {
        for (word, _) in FORBIDDEN {
            let line = format!("# see {word} here\n");
            let tree = Tree::of(&[("a.rs", &line), ("b.md", &line), ("c/run", &line)]);
            assert!(forbidden_words(&tree).len() >= 3, "{word}");
        }
        let part = format!("{}LIST x{}\n", FORBIDDEN[0].0, FORBIDDEN[0].0);
        assert_eq!(forbidden_words(&Tree::of(&[("a.rs", &part)])), []);
    }

    #[test]
    fn leftover_code_is_found_and_comments_are_not_code() {
        for (word, _) in FORBIDDEN_CODE {
            assert_eq!(
                forbidden_code(&Tree::of(&[("a.rs", &format!("x.{word}\n"))])).len(),
                1,
                "{word}"
            );
            assert_eq!(
                forbidden_code(&Tree::of(&[("a.rs", &format!("// {word}\n"))])),
                [],
                "{word}"
            );
        }
    }

    #[test]
    fn other_letters_are_found_outside_of_documents() {
        let tree = Tree::of(&[
            ("a.rs", "//! \u{b5}s\n"),
            ("b.toml", "# \u{2014}\n"),
            ("c.md", "\u{b5}s\n"),
            ("d.rs", "#[test]\nfn f() {\n    \u{b5}();\n}\n"),
        ]);
        assert_eq!(ascii(&tree).len(), 2);
    }

    #[test]
    fn too_many_unwraps_are_found_and_tests_do_not_count() {
        let check = |text: &str| unwraps(&Tree::of(&[("crates/x/src/a.rs", text)])).len();
        assert_eq!(
            check("a.unwrap();\n"),
            0,
            "one is within the first thousand lines"
        );
        assert_eq!(check("a.unwrap();\nb.expect(\"c\");\n"), 1);
        assert_eq!(
            check("#[cfg(test)]\nmod t {\na.unwrap();\nb.unwrap();\n}\n"),
            0
        );
        assert_eq!(
            check("a.unwrap_or(1);\nb.unwrap_or(2);\nc.expect_err(d);\n"),
            0
        );
    }
}
