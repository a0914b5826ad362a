//! Rules between the modules of a crate: layers inside the engine, no cycles anywhere, every
//! import names the module it comes from. Tests may import what they like. No threads.

use crate::config::{Layer, ENGINE_MODULES, SIDEWAYS};
use crate::source::Source;
use crate::tree::Tree;
use crate::Violation;
use std::collections::{BTreeMap, BTreeSet};

const ENGINE: &str = "crates/engine";

/// One import of a module by another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Edge {
    from: String,
    to: String,
    file: String,
    line: usize,
}

/// In the engine, a module imports only what its layer allows.
pub fn layering(tree: &Tree) -> Vec<Violation> {
    layering_with(
        tree,
        &Rules {
            modules: ENGINE_MODULES,
            sideways: SIDEWAYS,
        },
    )
}

/// The two tables that say who may import whom.
struct Rules<'a> {
    modules: &'a [(&'a str, Layer)],
    sideways: &'a [(&'a str, &'a str)],
}

impl Rules<'_> {
    fn layer(&self, module: &str) -> Option<Layer> {
        let found = self.modules.iter().find(|(name, _)| *name == module);
        found.map(|(_, layer)| *layer)
    }

    fn may_import(&self, edge: &Edge, from: Layer, to: Layer) -> bool {
        let sideways = self.sideways.iter().any(|(importer, imported)| {
            *imported == edge.to && (*importer == edge.from || *importer == "*")
        });
        let is_open = matches!(to, Layer::Data | Layer::Frame);
        to < from || (to == from && (is_open || sideways))
    }
}

fn layering_with(tree: &Tree, rules: &Rules<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let sources: Vec<&Source> = of_crate(tree, ENGINE).collect();
    for source in &sources {
        let module = source.top_module().unwrap_or("");
        if module != "lib" && !is_test_file(source) && rules.layer(module).is_none() {
            let message = format!("module `{module}` is not in ENGINE_MODULES of xtask/src/config.rs: add it with its layer");
            violations.push(Violation::new(&source.path, 0, "module-layers", message));
        }
    }
    for edge in edges(&sources) {
        if let (Some(from), Some(to)) = (rules.layer(&edge.from), rules.layer(&edge.to)) {
            if !rules.may_import(&edge, from, to) {
                let message = format!(
                    "{from:?} `{}` may not import {to:?} `{}`; a sideways edge that is meant goes into SIDEWAYS of xtask/src/config.rs",
                    edge.from, edge.to
                );
                violations.push(Violation::new(
                    &edge.file,
                    edge.line,
                    "module-layers",
                    message,
                ));
            }
        }
    }
    violations
}

/// No crate has a cycle of modules.
pub fn cycles(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for directory in crate_directories(tree) {
        let sources: Vec<&Source> = of_crate(tree, directory).collect();
        let edges = edges(&sources);
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for edge in &edges {
            imports.entry(&edge.from).or_default().insert(&edge.to);
        }
        for edge in &edges {
            if reaches(&imports, &edge.to, &edge.from) {
                let message = format!(
                    "`{}` imports `{}`, which leads back to it: a cycle",
                    edge.from, edge.to
                );
                violations.push(Violation::new(
                    &edge.file,
                    edge.line,
                    "module-cycles",
                    message,
                ));
            }
        }
    }
    violations
}

/// No glob from the root, and nothing taken from the root that it only passes on.
pub fn root_imports(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for directory in crate_directories(tree) {
        let sources: Vec<&Source> = of_crate(tree, directory).collect();
        let root = sources
            .iter()
            .find(|source| source.top_module() == Some("lib"));
        let passed_on = root.map(|root| reexported(root)).unwrap_or_default();
        let modules: BTreeSet<&str> = sources
            .iter()
            .filter_map(|source| source.top_module())
            .collect();
        for source in &sources {
            for path in source.root_paths() {
                let is_passed_on =
                    passed_on.contains(&path.name) && !modules.contains(path.name.as_str());
                if source.is_test(path.line) || path.is_macro || !(is_passed_on || path.name == "*")
                {
                    continue;
                }
                let message = format!(
                    "`crate::{}` hides where it comes from: import it from its module",
                    path.name
                );
                violations.push(Violation::new(
                    &source.path,
                    path.line,
                    "root-imports",
                    message,
                ));
            }
        }
    }
    violations
}

fn is_test_file(source: &Source) -> bool {
    source.production_lines() == 0
}

fn crate_directories(tree: &Tree) -> BTreeSet<&str> {
    tree.sources
        .iter()
        .filter_map(Source::crate_directory)
        .collect()
}

fn of_crate<'a>(tree: &'a Tree, directory: &'a str) -> impl Iterator<Item = &'a Source> {
    tree.sources
        .iter()
        .filter(move |source| source.crate_directory() == Some(directory))
}

/// All imports between the top modules of a crate, its root and tests left out.
fn edges(sources: &[&Source]) -> Vec<Edge> {
    let modules: BTreeSet<&str> = sources
        .iter()
        .filter_map(|source| source.top_module())
        .collect();
    let mut edges = Vec::new();
    for source in sources {
        let from = source.top_module().unwrap_or("");
        for path in source.root_paths() {
            let is_edge =
                from != "lib" && path.name != from && modules.contains(path.name.as_str());
            if is_edge && !source.is_test(path.line) {
                edges.push(Edge {
                    from: from.into(),
                    to: path.name,
                    file: source.path.clone(),
                    line: path.line,
                });
            }
        }
    }
    edges.sort();
    edges.dedup();
    edges
}

fn reaches(imports: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let mut open = vec![from];
    let mut seen = BTreeSet::new();
    while let Some(module) = open.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            open.extend(imports.get(module).into_iter().flatten().copied());
        }
    }
    false
}

/// All names in the `pub use` declarations of the root.
fn reexported(root: &Source) -> BTreeSet<String> {
    let words = root.words();
    let mut names = BTreeSet::new();
    for (i, (at, word)) in words.iter().enumerate() {
        if *word == "use" && i > 0 && words[i - 1].1 == "pub" {
            let end = root.statement_end(*at);
            let inside = words[i + 1..].iter().take_while(|(at, _)| *at < end);
            names.extend(inside.map(|(_, word)| word.to_string()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layering(tree: &Tree) -> Vec<Violation> {
        let modules = [
            ("store", Layer::Frame),
            ("gc", Layer::Verb),
            ("scan", Layer::Verb),
            ("write", Layer::Verb),
            ("core", Layer::Core),
            ("cache", Layer::Noun),
            ("snapshot", Layer::Noun),
            ("error", Layer::Data),
        ];
        let sideways = [("*", "write")];
        layering_with(
            tree,
            &Rules {
                modules: &modules,
                sideways: &sideways,
            },
        )
    }

    fn engine(files: &[(&str, &str)]) -> Tree {
        let paths: Vec<(String, &str)> = files
            .iter()
            .map(|(p, t)| (format!("{ENGINE}/src/{p}"), *t))
            .collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        Tree::of(&files)
    }

    #[test]
    fn a_noun_that_imports_a_verb_is_found() {
        let tree = engine(&[
            ("cache.rs", "use crate::gc::Step;\n"),
            ("gc.rs", "use crate::snapshot::S;\n"),
            ("snapshot.rs", "//\n"),
        ]);
        let found = layering(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0]
            .message
            .contains("Noun `cache` may not import Verb `gc`"));
    }

    #[test]
    fn sideways_imports_need_an_edge() {
        let tree = engine(&[
            ("gc.rs", "use crate::{write, scan};\n"),
            ("write.rs", "//\n"),
            ("scan/mod.rs", "//\n"),
        ]);
        let found = layering(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("`scan`"));
    }

    #[test]
    fn nobody_below_imports_the_frame_and_tests_may() {
        let bad = engine(&[
            ("gc.rs", "use super::store::Store;\n"),
            ("store.rs", "//\n"),
        ]);
        assert_eq!(layering(&bad).len(), 1);
        let test = engine(&[
            (
                "gc.rs",
                "//\n#[cfg(test)]\nmod tests { use crate::store::Store; }\n",
            ),
            ("store.rs", "//\n"),
        ]);
        assert_eq!(layering(&test), []);
    }

    #[test]
    fn the_core_joins_nouns_and_data_is_open_to_all() {
        let good = engine(&[
            ("core.rs", "use crate::{cache, error};\n"),
            ("cache.rs", "use crate::error;\n"),
            ("gc.rs", "use crate::core;\n"),
            ("error.rs", "//\n"),
        ]);
        assert_eq!(layering(&good), []);
        let bad = engine(&[("cache.rs", "use crate::core;\n"), ("core.rs", "//\n")]);
        assert_eq!(layering(&bad).len(), 1);
        let data = engine(&[("error.rs", "use crate::cache;\n"), ("cache.rs", "//\n")]);
        assert_eq!(layering(&data).len(), 1);
    }

    #[test]
    fn an_unknown_module_is_found() {
        let found = layering(&engine(&[("surprise.rs", "fn f() {}\n")]));
        assert!(found[0].message.contains("add it with its layer"));
    }

    #[test]
    fn a_cycle_is_found_whatever_its_length() {
        let files = [
            ("crates/x/src/a.rs", "use crate::b::B;\n"),
            ("crates/x/src/b/mod.rs", "fn f() { crate::c::g(); }\n"),
            ("crates/x/src/c.rs", "use super::{d, a};\n"),
            ("crates/x/src/d.rs", "//\n"),
        ];
        assert_eq!(cycles(&Tree::of(&files)).len(), 3);
        assert_eq!(cycles(&Tree::of(&files[..2])), []);
    }

    #[test]
    fn imports_through_the_root_are_found() {
        let files = [
            (
                "crates/x/src/lib.rs",
                "mod a;\npub use a::{A, B};\npub struct Own;\n",
            ),
            ("crates/x/src/a.rs", "use crate::Own;\n"),
            ("crates/x/src/b.rs", "use crate::A;\n"),
            ("crates/x/src/c.rs", "use crate::*;\n"),
        ];
        let found = root_imports(&Tree::of(&files));
        let places: Vec<&str> = found
            .iter()
            .map(|violation| violation.file.as_str())
            .collect();
        assert_eq!(places, ["crates/x/src/b.rs", "crates/x/src/c.rs"]);
    }
}
