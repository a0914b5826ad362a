//! One Rust source: its text, the same text without comments and literals, and which lines
//! are tests.
//!
//! Invariants: `code` has exactly the bytes of `raw`, with those of comments, strings and
//! characters turned into spaces (newlines stay), so offsets and lines agree. This is a lexer,
//! not a parser: it knows words and brackets, which is all the rules need. No threads.

/// One Rust source file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path from the root of the tree, with `/`.
    pub path: String,
    /// The text as it is.
    pub raw: String,
    code: Vec<u8>,
    test: Vec<bool>,
    line_starts: Vec<usize>,
}

/// A function with its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub lines: usize,
}

/// What stands right after `crate::` somewhere, or after `super::` where that is the root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootPath {
    /// The first name after the root; `*` for a glob.
    pub name: String,
    /// Line, from 1.
    pub line: usize,
    /// A macro call, which has no other path.
    pub is_macro: bool,
}

impl Source {
    /// Lexes `raw`, the contents of `path`.
    pub fn new(path: &str, raw: &str) -> Source {
        let code = blank(raw.as_bytes());
        let mut line_starts = vec![0];
        line_starts.extend(
            raw.bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(i, _)| i + 1),
        );
        let mut source = Source {
            path: path.to_string(),
            raw: raw.to_string(),
            test: vec![is_test_path(path); line_starts.len()],
            code,
            line_starts,
        };
        source.mark_test_items();
        source
    }

    /// The lines without comments and literals.
    pub fn code_lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.code);
        text.split('\n').map(str::to_string).collect()
    }

    /// Is this line (from 1) part of a test?
    pub fn is_test(&self, line: usize) -> bool {
        self.test.get(line - 1).copied().unwrap_or(false)
    }

    /// Makes the whole file a test.
    pub fn mark_as_test(&mut self) {
        self.test.fill(true);
    }

    /// How many lines are not tests.
    pub fn production_lines(&self) -> usize {
        let lines = self.raw.lines().count();
        (1..=lines).filter(|line| !self.is_test(*line)).count()
    }

    /// The crate's directory below `crates/`, if the file is in the `src` of one.
    pub fn crate_directory(&self) -> Option<&str> {
        let (directory, _) = self.path.split_once("/src/")?;
        Some(directory)
    }

    /// The module at the top of its crate that this file belongs to; `lib` for the root itself.
    pub fn top_module(&self) -> Option<&str> {
        let (_, inside) = self.path.split_once("/src/")?;
        let first = inside.split('/').next()?;
        Some(first.strip_suffix(".rs").unwrap_or(first))
    }

    /// Where the modules that this file declares lie, with a closing `/`.
    pub fn child_directory(&self) -> String {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        for root in ["/lib", "/main", "/mod"] {
            if let Some(directory) = stem.strip_suffix(root) {
                return format!("{directory}/");
            }
        }
        format!("{stem}/")
    }

    /// Names of the modules declared (`mod name;`) in lines that are tests.
    pub fn test_modules(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (at, word) in self.words() {
            if word == "mod" && self.is_test(self.line_of(at)) {
                let (name, end) = self.word_after(at + 3);
                if self.next_byte(end) == Some(b';') {
                    names.push(name);
                }
            }
        }
        names
    }

    /// All functions with a body, nested ones too.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (at, word) in self.words() {
            if word != "fn" {
                continue;
            }
            let (name, end) = self.word_after(at + 2);
            if name.is_empty() {
                continue; // the type `fn(..)`
            }
            if let Some(close) = self.item_body(end).map(|open| self.closing(open)) {
                let line = self.line_of(at);
                functions.push(Function {
                    name,
                    line,
                    lines: self.line_of(close) - line + 1,
                });
            }
        }
        functions
    }

    /// Every name reached from the root of the crate, in use declarations and in paths.
    pub fn root_paths(&self) -> Vec<RootPath> {
        let mut paths = Vec::new();
        for (at, word) in self.words() {
            let from_root = word == "crate" || (word == "super" && self.super_is_root(at));
            let end = at + word.len();
            let is_macro_path = at > 0 && self.code.get(at - 1) == Some(&b'$');
            if from_root && !is_macro_path && self.code.get(end..end + 2) == Some(b"::") {
                self.first_names(end + 2, &mut paths);
            }
        }
        paths
    }

    /// Offsets and texts of all words of the code.
    pub fn words(&self) -> Vec<(usize, &str)> {
        let mut words = Vec::new();
        let mut at = 0;
        while at < self.code.len() {
            let start = at;
            while at < self.code.len() && is_word(self.code[at]) {
                at += 1;
            }
            if at > start {
                words.push((
                    start,
                    std::str::from_utf8(&self.code[start..at]).unwrap_or(""),
                ));
            } else {
                at += 1;
            }
        }
        words
    }

    /// Line (from 1) of a byte offset.
    pub fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The next byte of code at or after `at` that is not a space.
    pub fn next_byte(&self, at: usize) -> Option<u8> {
        self.code[at..]
            .iter()
            .copied()
            .find(|byte| !byte.is_ascii_whitespace())
    }

    /// The word at or after `at` when only spaces stand between, and its end.
    pub fn word_after(&self, at: usize) -> (String, usize) {
        let mut start = at;
        while start < self.code.len() && self.code[start].is_ascii_whitespace() {
            start += 1;
        }
        let mut end = start;
        while end < self.code.len() && is_word(self.code[end]) {
            end += 1;
        }
        (
            String::from_utf8_lossy(&self.code[start..end]).into_owned(),
            end,
        )
    }

    /// In a file directly below `src`, outside of inline modules, `super` is the root.
    fn super_is_root(&self, at: usize) -> bool {
        let Some((_, inside)) = self.path.split_once("/src/") else {
            return false;
        };
        let is_top = !inside.contains('/') && !matches!(inside, "lib.rs" | "main.rs");
        is_top && !self.in_inline_module(at)
    }

    fn in_inline_module(&self, at: usize) -> bool {
        self.words()
            .into_iter()
            .filter(|(_, word)| *word == "mod")
            .any(|(start, _)| {
                let (_, end) = self.word_after(start + 3);
                let open = self.item_body(end);
                open.is_some_and(|open| open < at && at < self.closing(open))
            })
    }

    /// Collects the names that begin a path at `at`: one, or those of a group.
    fn first_names(&self, at: usize, paths: &mut Vec<RootPath>) {
        if self.next_byte(at) != Some(b'{') {
            let (mut name, end) = self.word_after(at);
            if name.is_empty() && self.next_byte(at) == Some(b'*') {
                name.push('*');
            }
            let is_macro = self.code.get(end) == Some(&b'!');
            paths.push(RootPath {
                name,
                line: self.line_of(at),
                is_macro,
            });
            return;
        }
        let open = at
            + self.code[at..]
                .iter()
                .position(|byte| *byte == b'{')
                .unwrap_or(0);
        let close = self.closing(open);
        let (mut depth, mut begins) = (0, true);
        for i in open..close {
            match self.code[i] {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b',' if depth == 1 => begins = true,
                byte if begins && depth == 1 && (is_word(byte) || byte == b'*') => {
                    begins = false;
                    self.first_names(i, paths);
                }
                _ => {}
            }
        }
    }

    fn mark_test_items(&mut self) {
        for at in 0..self.code.len() {
            let is_test = attribute(&self.code[at..]).is_some_and(|a| is_test_attribute(&a));
            if is_test {
                let first = self.line_of(at);
                let end = self.item_body(at).map(|open| self.closing(open));
                let last = self.line_of(end.unwrap_or_else(|| self.statement_end(at)));
                self.test[first - 1..last].fill(true);
            }
        }
    }

    /// Offset of the `{` that opens the body of the item at `at`; none when `;` ends it first.
    fn item_body(&self, at: usize) -> Option<usize> {
        let mut depth = 0i32;
        for (i, byte) in self.code.iter().enumerate().skip(at) {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth -= 1,
                b'{' if depth == 0 => return Some(i),
                b';' if depth == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Offset of the `;` that ends the statement at `at`.
    pub fn statement_end(&self, at: usize) -> usize {
        let rest = self.code[at..].iter().position(|byte| *byte == b';');
        rest.map_or(self.code.len(), |length| at + length)
    }

    /// Offset of the brace that closes the one at `open`; the end when there is none.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0i32;
        for (i, byte) in self.code.iter().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return i;
            }
        }
        self.code.len()
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_test_path(path: &str) -> bool {
    let in_directory =
        |name: &str| path.starts_with(&format!("{name}/")) || path.contains(&format!("/{name}/"));
    in_directory("tests") || in_directory("benches") || in_directory("examples")
}

/// The text of the attribute that `code` starts with, without spaces.
fn attribute(code: &[u8]) -> Option<String> {
    if !code.starts_with(b"#[") {
        return None;
    }
    let mut depth = 0i32;
    let mut text = String::new();
    for byte in code.iter().skip(1) {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            text.push(char::from(*byte));
        }
        if depth == 0 {
            break;
        }
    }
    Some(text)
}

fn is_test_attribute(attribute: &str) -> bool {
    let positive = attribute.replace("not(test)", "");
    attribute == "[test]"
        || (attribute.starts_with("[cfg(")
            && ["(test", ",test", "(loom", ",loom", "(shuttle", ",shuttle"]
                .iter()
                .any(|word| positive.contains(word)))
}

/// Turns comments, strings and characters into spaces.
fn blank(raw: &[u8]) -> Vec<u8> {
    let mut code = raw.to_vec();
    let mut at = 0;
    while at < raw.len() {
        let end = match raw[at] {
            b'/' if raw.get(at + 1) == Some(&b'/') => line_end(raw, at),
            b'/' if raw.get(at + 1) == Some(&b'*') => block_comment_end(raw, at),
            b'"' => string_end(raw, at),
            b'r' | b'b' | b'c' if at == 0 || !is_word(raw[at - 1]) => prefixed_end(raw, at),
            b'\'' => character_end(raw, at),
            _ => at,
        };
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    code
}

fn line_end(raw: &[u8], at: usize) -> usize {
    raw[at..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(raw.len(), |length| at + length)
}

fn block_comment_end(raw: &[u8], at: usize) -> usize {
    let (mut depth, mut i) = (0i32, at);
    while i < raw.len() {
        match raw.get(i..i + 2) {
            Some(b"/*") => depth += 1,
            Some(b"*/") => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    raw.len()
}

fn string_end(raw: &[u8], open: usize) -> usize {
    let mut i = open + 1;
    while i < raw.len() {
        match raw[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    raw.len()
}

/// End of `r"..."`, `r#"..."#`, `b"..."`, `br"..."`, `b'x'`; `at` when it is another word.
fn prefixed_end(raw: &[u8], at: usize) -> usize {
    let mut i = at;
    let mut is_raw = false;
    while i < raw.len() && matches!(raw[i], b'r' | b'b' | b'c') && i - at < 2 {
        is_raw |= raw[i] == b'r';
        i += 1;
    }
    let hashes = raw[i..].iter().take_while(|byte| **byte == b'#').count();
    match raw.get(i + hashes) {
        Some(b'"') if is_raw => raw_string_end(raw, i + hashes + 1, hashes),
        Some(b'"') if hashes == 0 => string_end(raw, i),
        Some(b'\'') if hashes == 0 && !is_raw => character_end(raw, i),
        _ => at,
    }
}

fn raw_string_end(raw: &[u8], start: usize, hashes: usize) -> usize {
    for i in start..raw.len() {
        let tail = &raw[i + 1..];
        if raw[i] == b'"' && tail.iter().take_while(|byte| **byte == b'#').count() >= hashes {
            return i + 1 + hashes;
        }
    }
    raw.len()
}

/// End of a character; `at` when the quote begins a lifetime.
fn character_end(raw: &[u8], at: usize) -> usize {
    if raw.get(at + 1) == Some(&b'\\') {
        let rest = raw.get(at + 3..).unwrap_or(&[]);
        return rest
            .iter()
            .position(|byte| *byte == b'\'')
            .map_or(raw.len(), |n| at + 3 + n + 1);
    }
    let text = String::from_utf8_lossy(raw.get(at + 1..raw.len().min(at + 6)).unwrap_or(&[]));
    let width = text.chars().next().map_or(0, char::len_utf8);
    if raw.get(at + 1 + width) == Some(&b'\'') {
        at + 2 + width
    } else {
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(raw: &str) -> String {
        Source::new("a.rs", raw).code_lines().join("\n")
    }

    #[test]
    fn comments_and_literals_are_blank() {
        let kept = |raw: &str| {
            assert_eq!(code(raw).len(), raw.len());
            code(raw).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept("a // b\nc"), "a c");
        assert_eq!(kept("a /* b /* c */ d */ e"), "a e");
        assert_eq!(kept(r#"f("{ \" {") g"#), "f( ) g");
        assert_eq!(kept("r#\"a \" {\"# b"), "b");
        assert_eq!(kept("b'{' '\\'' 'x' '\\u{7b}' b\"{\" z"), "z");
        assert_eq!(kept("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(kept("bar(\"x\")"), "bar( )");
    }

    #[test]
    fn tests_are_told_from_production() {
        let source = Source::new(
            "a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n",
        );
        let lines: Vec<bool> = (1..=6).map(|line| source.is_test(line)).collect();
        assert_eq!(lines, [false, true, true, true, true, false]);
        assert_eq!(source.production_lines(), 2);
        assert!(!Source::new("a.rs", "#[cfg(not(test))]\nfn a() {}\n").is_test(2));
        assert!(Source::new("crates/a/tests/x.rs", "fn a() {}\n").is_test(1));
    }

    #[test]
    fn functions_have_names_and_lengths() {
        let source = Source::new(
            "a.rs",
            "fn a(x: [u8; 3]) -> u8 {\n  1\n}\ntrait T {\n  fn b();\n}\ntype F = fn(u8);\n",
        );
        assert_eq!(
            source.functions(),
            [Function {
                name: "a".into(),
                line: 1,
                lines: 3
            }]
        );
    }

    #[test]
    fn paths_from_the_root_are_found() {
        let raw = "use crate::{gc::{Step, Run}, write, scan::*};\nuse crate::*;\nfn f() { crate::read::get(); crate::m!(); }\n// crate::no\n";
        let source = Source::new("crates/a/src/b.rs", raw);
        let names: Vec<String> = source
            .root_paths()
            .into_iter()
            .filter(|p| !p.is_macro)
            .map(|p| p.name)
            .collect();
        assert_eq!(names, ["gc", "write", "scan", "*", "read"]);
    }

    #[test]
    fn super_at_the_top_is_the_root() {
        let top = Source::new("crates/a/src/b.rs", "use super::gc;\n");
        assert_eq!(top.root_paths().len(), 1);
        let nested = Source::new("crates/a/src/b/c.rs", "use super::gc;\n");
        assert_eq!(nested.root_paths().len(), 0);
    }

    #[test]
    fn modules_know_their_place() {
        let source = Source::new("crates/a/src/b/c.rs", "#[cfg(test)]\nmod d;\n");
        assert_eq!(source.top_module(), Some("b"));
        assert_eq!(source.child_directory(), "crates/a/src/b/c/");
        assert_eq!(source.test_modules(), ["d"]);
        assert_eq!(
            Source::new("crates/a/src/lib.rs", "").top_module(),
            Some("lib")
        );
    }
}
