//! The files of the tree, read once. Skips build output and data. No threads.

use crate::config;
use crate::source::Source;
use std::fs;
use std::path::Path;

/// A file that is not Rust: manifest, script, document.
#[derive(Clone, Debug)]
pub struct Text {
    /// Path from the root of the tree, with `/`.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// All text files of the tree.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Rust sources, lexed.
    pub sources: Vec<Source>,
    /// Everything else that is UTF-8 text.
    pub texts: Vec<Text>,
}

impl Tree {
    /// Reads the tree at `root`.
    ///
    /// # Errors
    /// When a directory or a file cannot be read.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        tree.walk(root, "")?;
        tree.mark_test_modules();
        Ok(tree)
    }

    /// A tree of given (path, contents) pairs; what the tests of the rules use.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.add(path, text);
        }
        tree.mark_test_modules();
        tree
    }

    /// The text file at `path`, if there is one.
    pub fn text(&self, path: &str) -> Option<&Text> {
        self.texts.iter().find(|text| text.path == path)
    }

    fn add(&mut self, path: &str, text: &str) {
        if path.ends_with(".rs") {
            self.sources.push(Source::new(path, text));
        } else {
            self.texts.push(Text {
                path: path.to_string(),
                text: text.to_string(),
            });
        }
    }

    fn walk(&mut self, directory: &Path, prefix: &str) -> Result<(), String> {
        let fail = |error: std::io::Error| format!("{}: {error}", directory.display());
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory).map_err(fail)? {
            entries.push(entry.map_err(fail)?);
        }
        entries.sort_by_key(|entry| entry.file_name());
        // Cargo marks its output so, wherever it was told to put it.
        if entries
            .iter()
            .any(|entry| entry.file_name() == "CACHEDIR.TAG")
        {
            return Ok(());
        }
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(fail)?;
            if kind.is_dir() && !config::SKIPPED_DIRECTORIES.contains(&name.as_str()) {
                self.walk(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() && name != "Cargo.lock" {
                let bytes = fs::read(entry.path()).map_err(fail)?;
                if let Ok(text) = String::from_utf8(bytes) {
                    self.add(&path, &text);
                }
            }
        }
        Ok(())
    }

    /// A file whose parent declares it under `#[cfg(test)]` is a test as a whole.
    fn mark_test_modules(&mut self) {
        let mut prefixes = Vec::new();
        for source in &self.sources {
            let directory = source.child_directory();
            for name in source.test_modules() {
                prefixes.push(format!("{directory}{name}.rs"));
                prefixes.push(format!("{directory}{name}/"));
            }
        }
        for source in &mut self.sources {
            if prefixes
                .iter()
                .any(|prefix| source.path.starts_with(prefix.as_str()))
            {
                source.mark_as_test();
            }
        }
    }
}
