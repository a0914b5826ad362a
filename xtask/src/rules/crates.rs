//! Rules between crates, read from their manifests: who may depend on whom, third-party
//! versions pinned in one place, each explained in `docs/dependencies.md`. No threads.

use crate::config::{CRATES, OWN_WORKSPACES};
use crate::tree::{Text, Tree};
use crate::Violation;

const ROOT: &str = "Cargo.toml";
const EXPLAINED_IN: &str = "docs/dependencies.md";

/// One `key = value` line of a manifest.
struct Entry<'a> {
    section: String,
    key: &'a str,
    value: &'a str,
    line: usize,
}

/// A crate depends only on the crates that [`CRATES`] allows it.
pub fn layering(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for manifest in members(tree) {
        let entries = entries(&manifest.text);
        let name = package_name(&entries);
        let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
            let message = format!("crate `{name}` is not in CRATES of xtask/src/config.rs: add it");
            violations.push(Violation::new(&manifest.path, 1, "crate-layers", message));
            continue;
        };
        for entry in entries.iter().filter(|entry| is_dependency(entry)) {
            let ours = CRATES.iter().any(|(known, _)| *known == entry.key);
            if ours && !allowed.contains(&entry.key) {
                let message = format!("`{name}` may not depend on `{}`", entry.key);
                violations.push(Violation::new(
                    &manifest.path,
                    entry.line,
                    "crate-layers",
                    message,
                ));
            }
        }
    }
    violations
}

/// Members take third-party crates from the workspace, and the workspace pins them exactly.
pub fn pinned(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for manifest in members(tree) {
        for entry in entries(&manifest.text)
            .iter()
            .filter(|entry| is_dependency(entry))
        {
            if !entry.value.contains("workspace = true") {
                let message = format!(
                    "write `{0}.workspace = true` and pin {0} in the root Cargo.toml",
                    entry.key
                );
                violations.push(Violation::new(
                    &manifest.path,
                    entry.line,
                    "pinned",
                    message,
                ));
            }
        }
    }
    for (path, entry) in third_party(tree) {
        if !entry.value.contains("\"=") {
            let message = format!("pin `{}` exactly: \"=x.y.z\"", entry.key);
            violations.push(Violation::new(path, entry.line, "pinned", message));
        }
    }
    violations
}

/// Each third-party crate has a line in `docs/dependencies.md`, and each line a crate.
pub fn documented(tree: &Tree) -> Vec<Violation> {
    let document = tree
        .text(EXPLAINED_IN)
        .map(|text| text.text.as_str())
        .unwrap_or("");
    let mut violations = Vec::new();
    let mut used = Vec::new();
    for (path, entry) in third_party(tree) {
        used.push(entry.key);
        if !document.contains(&format!("| `{}` |", entry.key)) {
            let message = format!(
                "say in {EXPLAINED_IN} why `{}` is needed and what else was weighed",
                entry.key
            );
            violations.push(Violation::new(path, entry.line, "documented", message));
        }
    }
    for (at, line) in document.lines().enumerate() {
        let name = line
            .strip_prefix("| `")
            .and_then(|rest| rest.split('`').next());
        if let Some(name) = name.filter(|name| !used.contains(name)) {
            let message = format!("`{name}` is not a dependency any more");
            violations.push(Violation::new(EXPLAINED_IN, at + 1, "documented", message));
        }
    }
    violations
}

/// The third-party crates of the workspace, and of the crates that are workspaces of their own,
/// with the manifests that name them.
fn third_party(tree: &Tree) -> Vec<(&'static str, Entry<'_>)> {
    let manifests = [ROOT].into_iter().chain(OWN_WORKSPACES.iter().copied());
    let named = manifests.flat_map(|path| {
        let text = tree
            .text(path)
            .map_or("", |manifest| manifest.text.as_str());
        entries(text).into_iter().map(move |entry| (path, entry))
    });
    named
        .filter(|(path, entry)| match *path {
            ROOT => entry.section == "workspace.dependencies",
            _ => is_dependency(entry),
        })
        .filter(|(_, entry)| !entry.value.contains("path ="))
        .collect()
}

fn members(tree: &Tree) -> impl Iterator<Item = &Text> {
    let is_member = |path: &str| path.starts_with("crates/") || path == "xtask/Cargo.toml";
    tree.texts
        .iter()
        .filter(move |text| text.path.ends_with("/Cargo.toml") && is_member(&text.path))
}

fn is_dependency(entry: &Entry<'_>) -> bool {
    entry.section.ends_with("dependencies")
}

fn package_name<'a>(entries: &[Entry<'a>]) -> &'a str {
    let name = entries
        .iter()
        .find(|entry| entry.section == "package" && entry.key == "name");
    name.map(|entry| entry.value.trim_matches('"'))
        .unwrap_or("")
}

/// The lines of a manifest. `[dependencies.x]` becomes an entry `x` of `dependencies`, and
/// `x.workspace = true` an entry `x` with the value `workspace = true`.
fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut section = String::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or(line).trim();
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = header.to_string();
            if let Some((table, key)) = header.rsplit_once("dependencies.") {
                section = format!("{table}dependencies");
                entries.push(Entry {
                    section: section.clone(),
                    key,
                    value: "",
                    line: at + 1,
                });
                section.push_str("-table");
            }
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let (key, value) = (key.trim(), value.trim());
            let (key, value) = key
                .strip_suffix(".workspace")
                .map_or((key, value), |key| (key, "workspace = true"));
            entries.push(Entry {
                section: section.clone(),
                key,
                value,
                line: at + 1,
            });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}")
    }

    #[test]
    fn an_upward_dependency_is_found() {
        let good = manifest(
            "heliox-log",
            "[dependencies]\nheliox-format.workspace = true\n",
        );
        assert_eq!(layering(&Tree::of(&[("crates/log/Cargo.toml", &good)])), []);
        for section in [
            "dependencies",
            "dev-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let bad = manifest(
                "heliox-log",
                &format!("[{section}]\nheliox.workspace = true\n"),
            );
            assert_eq!(
                layering(&Tree::of(&[("crates/log/Cargo.toml", &bad)])).len(),
                1,
                "{section}"
            );
        }
        let table = manifest(
            "heliox-log",
            "[dependencies.heliox-index]\nworkspace = true\n",
        );
        assert_eq!(
            layering(&Tree::of(&[("crates/log/Cargo.toml", &table)])).len(),
            1
        );
    }

    #[test]
    fn an_unknown_crate_is_found() {
        let tree = Tree::of(&[("crates/new/Cargo.toml", &manifest("heliox-new", ""))]);
        assert!(layering(&tree)[0].message.contains("add it"));
    }

    #[test]
    fn an_unpinned_version_is_found() {
        let member = manifest("heliox-log", "[dependencies]\nrand = \"0.9\"\n");
        assert_eq!(
            pinned(&Tree::of(&[("crates/log/Cargo.toml", &member)])).len(),
            1
        );
        let root = "[workspace.dependencies]\na = \"=1.0.0\"\nb = { version = \"2\" }\nc = { path = \"x\" }\n";
        assert_eq!(pinned(&Tree::of(&[("Cargo.toml", root)])).len(), 1);
    }

    #[test]
    fn an_unexplained_dependency_is_found() {
        let root = ("Cargo.toml", "[workspace.dependencies]\na = \"=1.0.0\"\n");
        assert_eq!(documented(&Tree::of(&[root])).len(), 1);
        assert_eq!(
            documented(&Tree::of(&[
                root,
                (EXPLAINED_IN, "| `a` | why | what else |\n")
            ])),
            []
        );
        assert_eq!(
            documented(&Tree::of(&[(
                EXPLAINED_IN,
                "| `gone` | why | what else |\n"
            )]))
            .len(),
            1
        );
    }

    #[test]
    fn workspaces_of_their_own_are_held_to_the_same() {
        for path in OWN_WORKSPACES {
            let text = "[dependencies]\na = \"1\"\nb = { path = \"x\" }\n";
            let tree = Tree::of(&[(*path, text)]);
            assert_eq!((pinned(&tree).len(), documented(&tree).len()), (1, 1));
            assert_eq!(pinned(&tree)[0].file, *path);
        }
    }
}
