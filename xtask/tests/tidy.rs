//! Every rule of `xtask::rules` holds for this tree.
#![forbid(unsafe_code)]

use std::path::Path;

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let violations = xtask::tidy(&root).expect("the tree can be read");
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

#[test]
fn the_rules_see_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tree = xtask::tree::Tree::read(&root).expect("the tree can be read");
    assert!(tree
        .sources
        .iter()
        .any(|source| source.path == "xtask/src/config.rs"));
    assert!(tree
        .sources
        .iter()
        .any(|source| source.crate_directory() == Some("crates/engine")));
    assert!(tree.text("Cargo.toml").is_some());
}
