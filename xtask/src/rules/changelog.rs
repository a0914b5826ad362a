//! The form of `CHANGELOG.md`: releases from new to old, each with known sections of whole
//! sentences; the version of the workspace is either released there or still to come. No threads.

use crate::tree::Tree;
use crate::Violation;

const PATH: &str = "CHANGELOG.md";
const UNRELEASED: &str = "Unreleased";
const SECTIONS: &[&str] = &["Added", "Changed", "Fixed", "Removed", "Format"];

/// `CHANGELOG.md` has its form and knows the version of the workspace.
pub fn form(tree: &Tree) -> Vec<Violation> {
    let Some(changelog) = tree.text(PATH) else {
        return vec![Violation::new(PATH, 0, "changelog", "is missing")];
    };
    let mut violations = Vec::new();
    let mut releases: Vec<&str> = Vec::new();
    let mut broken = |line: usize, message: String| {
        violations.push(Violation::new(PATH, line, "changelog", message))
    };
    if changelog.text.lines().next() != Some("# Changelog") {
        broken(1, "open with `# Changelog`".into());
    }
    let lines: Vec<&str> = changelog.text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(section) = line.strip_prefix("### ") {
            if !SECTIONS.contains(&section) {
                broken(
                    at + 1,
                    format!(
                        "unknown section `{section}`; known are {}",
                        SECTIONS.join(", ")
                    ),
                );
            }
        } else if let Some(release) = line.strip_prefix("## ") {
            if !is_release(release) || (release == UNRELEASED && !releases.is_empty()) {
                broken(
                    at + 1,
                    format!(
                        "`{release}` is neither `{UNRELEASED}` (first) nor `x.y.z - yyyy-mm-dd`"
                    ),
                );
            }
            releases.push(release);
        } else if line.starts_with("- ") && !sentence_ends(&lines[at..]) {
            broken(
                at + 1,
                "an entry is a sentence and ends with a full stop".into(),
            );
        }
    }
    let version = workspace_version(tree);
    let is_known =
        |release: &&str| **release == *UNRELEASED || release.starts_with(&format!("{version} "));
    if !releases.iter().any(is_known) {
        broken(
            1,
            format!("knows neither version {version} nor `## {UNRELEASED}`"),
        );
    }
    violations
}

fn workspace_version(tree: &Tree) -> String {
    let root = tree
        .text("Cargo.toml")
        .map(|root| root.text.as_str())
        .unwrap_or("");
    let package = root.split("[workspace.package]").nth(1).unwrap_or("");
    let version = package
        .lines()
        .find_map(|line| line.strip_prefix("version = \""));
    version.unwrap_or("?").trim_end_matches('"').to_string()
}

fn is_release(text: &str) -> bool {
    let pattern = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_ascii_digit() { '9' } else { c })
            .collect()
    };
    let Some((version, date)) = text.split_once(" - ") else {
        return text == UNRELEASED;
    };
    let numbers: Vec<&str> = version.split('.').collect();
    let is_number =
        |number: &&str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    numbers.len() == 3 && numbers.iter().all(is_number) && pattern(date) == "9999-99-99"
}

/// Does the entry that starts with the first of these lines end with a full stop?
fn sentence_ends(lines: &[&str]) -> bool {
    let rest = lines[1..].iter().take_while(|line| line.starts_with("  "));
    rest.last().unwrap_or(&lines[0]).trim_end().ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: (&str, &str) = ("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n");

    fn check(text: &str) -> usize {
        form(&Tree::of(&[ROOT, (PATH, text)])).len()
    }

    #[test]
    fn a_good_changelog_passes() {
        let good = "# Changelog\n\n## Unreleased\n\n### Added\n\n- One thing that\n  goes on.\n\n## 1.2.2 - 2026-01-31\n\n### Format\n\n- Two.\n";
        assert_eq!(check(good), 0);
        assert_eq!(check("# Changelog\n\n## 1.2.3 - 2026-01-31\n"), 0);
    }

    #[test]
    fn each_fault_is_found() {
        assert_eq!(form(&Tree::of(&[ROOT])).len(), 1, "missing");
        assert_eq!(check("# News\n\n## Unreleased\n"), 1, "title");
        assert_eq!(
            check("# Changelog\n\n## Unreleased\n\n### Stuff\n"),
            1,
            "section"
        );
        assert_eq!(
            check("# Changelog\n\n## Unreleased\n\n### Added\n\n- no stop\n"),
            1,
            "stop"
        );
        assert_eq!(
            check("# Changelog\n\n## Unreleased\n\n## v1.2 - today\n"),
            1,
            "release"
        );
        assert_eq!(
            check("# Changelog\n\n## 1.2.2 - 2026-01-31\n"),
            1,
            "version"
        );
        assert_eq!(
            check("# Changelog\n\n## 1.2.3 - 2026-01-31\n\n## Unreleased\n"),
            1,
            "order"
        );
    }
}
