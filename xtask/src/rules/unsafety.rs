//! `unsafe` stands in named files only, and each use argues for itself. No threads.

use crate::config::UNSAFE_FILES;
use crate::source::Source;
use crate::tree::Tree;
use crate::Violation;

/// `unsafe` and `allow(unsafe_code)` stand only in [`UNSAFE_FILES`].
pub fn confined(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree
        .sources
        .iter()
        .filter(|source| !UNSAFE_FILES.contains(&source.path.as_str()))
    {
        for (line, _) in unsafe_words(source) {
            let message =
                "unsafe outside of the files that UNSAFE_FILES of xtask/src/config.rs allows";
            violations.push(Violation::new(&source.path, line, "unsafe-files", message));
        }
    }
    for file in UNSAFE_FILES {
        let source = tree.sources.iter().find(|source| source.path == *file);
        if source.is_some_and(|source| unsafe_words(source).is_empty()) {
            let message =
                "has no unsafe any more: take it out of UNSAFE_FILES of xtask/src/config.rs";
            violations.push(Violation::new(file, 0, "unsafe-files", message));
        }
    }
    violations
}

/// Each `unsafe` block and implementation has a `SAFETY:` comment above it (of its statement),
/// each `unsafe fn` a `# Safety` section or such a comment.
pub fn argued(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in &tree.sources {
        for (line, next) in unsafe_words(source) {
            let wanted = match next.as_str() {
                "extern" => continue, // a type or a block of declarations
                "fn" => "# Safety",
                _ => "SAFETY:",
            };
            let above = comment_above(source, line);
            if !above.contains(wanted) && !above.contains("SAFETY:") {
                let message = format!(
                    "unsafe without `{wanted}` above it: which written invariant makes it sound?"
                );
                violations.push(Violation::new(&source.path, line, "unsafe-argued", message));
            }
        }
    }
    violations
}

/// Line of each `unsafe` in the code, and the word that follows it (empty before a block).
fn unsafe_words(source: &Source) -> Vec<(usize, String)> {
    let words = source.words();
    let uses = words.iter().filter(|(_, word)| *word == "unsafe");
    uses.map(|(at, _)| {
        (
            source.line_of(*at),
            source.word_after(at + "unsafe".len()).0,
        )
    })
    .collect()
}

/// The comments on the line and directly above the statement that it belongs to.
fn comment_above(source: &Source, line: usize) -> String {
    let raw: Vec<&str> = source.raw.lines().collect();
    let code = source.code_lines();
    let mut comment = raw[line - 1].to_string();
    let mut at = line - 1;
    while at > 0 {
        let text = raw[at - 1].trim();
        let above = code[at - 1].trim();
        let is_comment = above.is_empty() && text.starts_with("//");
        let is_attribute = above.starts_with("#[");
        let ends_statement = above.ends_with([';', '}', '{']) || text.is_empty();
        if !is_comment && !is_attribute && ends_statement {
            break;
        }
        if is_comment {
            comment.push_str(text);
        }
        at -= 1;
    }
    comment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_in_another_file_is_found() {
        let tree = Tree::of(&[(
            "crates/x/src/a.rs",
            "fn f() {\n  // SAFETY: none\n  unsafe { g() }\n}\n",
        )]);
        assert_eq!(confined(&tree).len(), 1);
        assert_eq!(
            confined(&Tree::of(&[(
                "crates/x/src/a.rs",
                "// unsafe\n\"unsafe\"\n"
            )])),
            []
        );
    }

    #[test]
    fn a_file_that_lost_its_unsafe_is_found() {
        let tree = Tree::of(&[(UNSAFE_FILES[0], "fn f() {}\n")]);
        assert_eq!(confined(&tree).len(), 1);
    }

    #[test]
    fn unsafe_without_an_argument_is_found() {
        let check = |text: &str| argued(&Tree::of(&[("a.rs", text)])).len();
        assert_eq!(check("fn f() {\n  unsafe { g() }\n}\n"), 1);
        assert_eq!(
            check("// SAFETY: of something else\nlet a = 1;\nunsafe { g() }\n"),
            1
        );
        assert_eq!(check("unsafe impl Send for X {}\n"), 1);
        assert_eq!(check("/// Text.\npub unsafe fn f() {}\n"), 1);
        assert_eq!(
            check("// SAFETY: p is valid\n#[inline]\nlet a =\n    unsafe { *p };\n"),
            0
        );
        assert_eq!(
            check("/// # Safety\n/// p is valid\npub unsafe fn f() {}\n"),
            0
        );
    }
}
