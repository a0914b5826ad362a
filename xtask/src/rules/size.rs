//! How long files and functions may be, tests left out. No threads.

use crate::config::{Waiver, FILE_LINES_MAX, FUNCTION_LINES_MAX, WAIVERS};
use crate::tree::Tree;
use crate::Violation;

/// No file has more than [`FILE_LINES_MAX`] lines.
pub fn files(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in &tree.sources {
        let lines = source.production_lines();
        if lines > FILE_LINES_MAX {
            let message =
                format!("{lines} lines without tests; {FILE_LINES_MAX} are allowed: split it");
            violations.push(Violation::new(&source.path, 0, "file-length", message));
        }
    }
    violations
}

/// No function has more than [`FUNCTION_LINES_MAX`] lines, but for the waivers, which shrink.
pub fn functions(tree: &Tree) -> Vec<Violation> {
    functions_with(tree, WAIVERS)
}

fn functions_with(tree: &Tree, waivers: &[Waiver]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut longest = vec![0; waivers.len()];
    for source in &tree.sources {
        for function in source
            .functions()
            .iter()
            .filter(|function| !source.is_test(function.line))
        {
            let waiver = waivers
                .iter()
                .position(|waiver| waiver.file == source.path && waiver.function == function.name);
            let allowed = waiver.map_or(FUNCTION_LINES_MAX, |i| {
                waivers[i].lines.max(FUNCTION_LINES_MAX)
            });
            if let Some(i) = waiver {
                longest[i] = function.lines.max(longest[i]);
            }
            if function.lines > allowed {
                let message = format!(
                    "`{}` has {} lines; {allowed} are allowed",
                    function.name, function.lines
                );
                violations.push(Violation::new(
                    &source.path,
                    function.line,
                    "function-length",
                    message,
                ));
            }
        }
    }
    for (waiver, lines) in waivers.iter().zip(longest) {
        if lines <= FUNCTION_LINES_MAX {
            let message = format!(
                "the waiver of `{}` is not needed any more: remove it",
                waiver.function
            );
            violations.push(Violation::new(waiver.file, 0, "function-length", message));
        } else if lines < waiver.lines {
            let message = format!(
                "`{}` has {lines} lines now: lower its waiver from {}",
                waiver.function, waiver.lines
            );
            violations.push(Violation::new(waiver.file, 0, "function-length", message));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    f();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let text = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            "//\n".repeat(FILE_LINES_MAX),
            "//\n".repeat(50)
        );
        assert_eq!(files(&Tree::of(&[("a.rs", &text)])), []);
        assert_eq!(
            files(&Tree::of(&[("a.rs", &format!("//\n{text}"))])).len(),
            1
        );
    }

    #[test]
    fn a_long_function_is_found() {
        assert_eq!(
            functions_with(&Tree::of(&[("a.rs", &long(FUNCTION_LINES_MAX))]), &[]),
            []
        );
        let found = functions_with(&Tree::of(&[("a.rs", &long(FUNCTION_LINES_MAX + 1))]), &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 1);
    }

    #[test]
    fn waivers_only_shrink() {
        let check = |length: usize, waived: usize| {
            let waiver = Waiver {
                file: "a.rs",
                function: "long",
                lines: waived,
            };
            functions_with(&Tree::of(&[("a.rs", &long(length))]), &[waiver]).len()
        };
        assert_eq!(check(90, 90), 0);
        assert_eq!(check(91, 90), 1, "grown");
        assert_eq!(check(89, 90), 1, "shrunk: the waiver must follow");
        assert_eq!(check(70, 90), 1, "not needed any more");
    }
}
