//! Rules over the C and C++ of the drop-ins: heads, lengths of files and functions. No threads.
//!
//! A function is what begins at a line that holds `(` and ends with `{`, and ends at the next line
//! that begins with `}` below its first letter; the way this source is laid out.

use crate::config::{FILE_LINES_MAX, FUNCTION_LINES_MAX};
use crate::tree::{Text, Tree};
use crate::Violation;

const DIRECTORIES: [&str; 3] = ["dropin/", "herocks/", "heleveldb/"];
const ENDINGS: &[&str] = &[".cc", ".h", ".c"];

fn sources(tree: &Tree) -> impl Iterator<Item = &Text> {
    let native = |path: &str| ENDINGS.iter().any(|ending| path.ends_with(ending));
    let is_ours = |path: &str| {
        DIRECTORIES
            .iter()
            .any(|directory| path.starts_with(directory))
    };
    let texts = tree.texts.iter();
    texts.filter(move |text| is_ours(&text.path) && native(&text.path))
}

/// Every file opens with what it is.
pub fn heads(tree: &Tree) -> Vec<Violation> {
    let bare = sources(tree).filter(|s| !s.text.starts_with("// ") && !s.text.starts_with("/*\n"));
    let told = |text: &Text| {
        Violation::new(
            &text.path,
            1,
            "native-head",
            "open with a comment: purpose, threads",
        )
    };
    bare.map(told).collect()
}

/// Files and functions are as long as Rust's may be.
pub fn lengths(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in sources(tree) {
        let lines: Vec<&str> = source.text.lines().collect();
        if lines.len() > FILE_LINES_MAX {
            let message = format!(
                "{} lines; {FILE_LINES_MAX} are allowed: split it",
                lines.len()
            );
            violations.push(Violation::new(&source.path, 0, "native-length", message));
        }
        for (at, length) in functions(&lines) {
            if length > FUNCTION_LINES_MAX {
                let message =
                    format!("a function of {length} lines; {FUNCTION_LINES_MAX} are allowed");
                violations.push(Violation::new(
                    &source.path,
                    at + 1,
                    "native-length",
                    message,
                ));
            }
        }
    }
    violations
}

/// Where functions begin, and their lengths. Declarations over several lines count from the last.
fn functions<'t>(lines: &'t [&'t str]) -> impl Iterator<Item = (usize, usize)> + 't {
    let begins =
        |line: &str| line.contains('(') && line.ends_with('{') && !line.contains("namespace");
    let starts = lines
        .iter()
        .enumerate()
        .filter(move |(_, line)| begins(line));
    starts.filter_map(|(at, line)| {
        let indent = line.len() - line.trim_start().len();
        let ends = |other: &&str| {
            other.len() - other.trim_start().len() == indent && other.trim_start().starts_with('}')
        };
        let length = lines.get(at..)?.iter().position(ends)?;
        Some((at, length + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_head_is_found() {
        let tree = Tree::of(&[
            ("herocks/src/a.cc", "#include <x>\n"),
            ("herocks/src/b.cc", "// What it is.\n"),
            ("heleveldb/src/c.h", "#pragma once\n"),
            ("include/heliox.h", "#ifndef X\n"),
        ]);
        let found = heads(&tree);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].file, "herocks/src/a.cc");
    }

    #[test]
    fn long_files_and_functions_are_found() {
        let function =
            |lines: usize| format!("// f\nint f() {{\n{}}}\n", "  x();\n".repeat(lines - 2));
        let check = |text: &str| lengths(&Tree::of(&[("herocks/src/a.cc", text)])).len();
        assert_eq!(check(&function(FUNCTION_LINES_MAX)), 0);
        assert_eq!(check(&function(FUNCTION_LINES_MAX + 1)), 1);
        assert_eq!(check(&"//\n".repeat(FILE_LINES_MAX)), 0);
        assert_eq!(check(&"//\n".repeat(FILE_LINES_MAX + 1)), 1);
    }
}
