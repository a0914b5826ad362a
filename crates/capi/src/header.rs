//! Holds the crate and `include/heliox.h` together: every function, callback, struct and enum is on
//! both sides, with the same names, types and numbers in the same order.
//!
//! Both sides are read as text. What C calls a type is in [`c_type`] and [`NAMES`]; a Rust type that is in
//! neither fails the test. Since the structs are `repr(C)` on one side and C on the other, equal fields in
//! equal order are an equal layout. Tests only.

use std::collections::BTreeMap;

const HEADER: &str = include_str!("../../../include/heliox.h");
const SOURCES: [&str; 13] = [
    include_str!("backup.rs"),
    include_str!("batch.rs"),
    include_str!("border.rs"),
    include_str!("error.rs"),
    include_str!("failure.rs"),
    include_str!("handles.rs"),
    include_str!("iterator.rs"),
    include_str!("keyspace.rs"),
    include_str!("layout.rs"),
    include_str!("options.rs"),
    include_str!("report.rs"),
    include_str!("stats.rs"),
    include_str!("store.rs"),
];
const VALUE: &str = include_str!("value.rs");

/// What the header calls the types of this crate.
const NAMES: [(&str, &str); 53] = [
    ("()", "void"),
    ("bool", "bool"),
    ("u32", "uint32_t"),
    ("u64", "uint64_t"),
    ("usize", "size_t"),
    ("*const u8", "const char *"),
    ("*mut u8", "const char *"),
    ("User", "void *"),
    ("Bytes", "const void *"),
    ("Buffer", "void *"),
    ("Text", "const char *"),
    ("Shown", "const char *"),
    ("ShownBytes", "const char *"),
    ("OwnText", "char *"),
    ("Slice", "heliox_slice"),
    ("Value", "heliox_value"),
    ("Error", "heliox_error"),
    ("Code", "heliox_code"),
    ("AnyCode", "heliox_code"),
    ("List", "heliox_list"),
    ("Output", "heliox_output"),
    ("StoreOptions", "heliox_options"),
    ("WriteOptions", "heliox_write_options"),
    ("Key", "heliox_key_source"),
    ("Volume", "heliox_volume"),
    ("AnyIoMode", "heliox_io_mode"),
    ("IoModes", "heliox_io_mode"),
    ("Store", "heliox_store"),
    ("Keyspace", "heliox_keyspace"),
    ("Batch", "heliox_batch"),
    ("Snapshot", "heliox_snapshot"),
    ("Iterator", "heliox_iterator"),
    ("IteratorOptions", "heliox_iterator_options"),
    ("AnyUpdate", "heliox_update"),
    ("Updates", "heliox_update"),
    ("Health", "heliox_health"),
    ("Structure", "heliox_structure"),
    ("Remedy", "heliox_remedy"),
    ("Finding", "heliox_finding"),
    ("ConditionKind", "heliox_condition_kind"),
    ("Condition", "heliox_condition"),
    ("ScrubReport", "heliox_scrub_report"),
    ("EventKind", "heliox_event_kind"),
    ("Event", "heliox_event"),
    ("CheckReport", "heliox_check_report"),
    ("KeyChange", "heliox_key_change"),
    ("BackupReport", "heliox_backup_report"),
    ("BackupInfo", "heliox_backup_info"),
    ("RestoreReport", "heliox_restore_report"),
    ("VerifyReport", "heliox_verify_report"),
    ("BackupInfoFn", "heliox_backup_info_fn"),
    ("DestroyFn", "heliox_destroy_fn"),
    ("ProgressFn", "heliox_progress_fn"),
];

/// Callbacks whose names say all.
const CALLBACKS: [(&str, &str); 6] = [
    ("MergeFn", "heliox_merge_fn"),
    ("UpdateFn", "heliox_update_fn"),
    ("StatFn", "heliox_stat_fn"),
    ("FindingFn", "heliox_finding_fn"),
    ("ConditionFn", "heliox_condition_fn"),
    ("EventFn", "heliox_event_fn"),
];

/// What is declared: its name, and everything about it in the words of C.
type Declared = BTreeMap<String, String>;

fn c_name(rust: &str) -> String {
    let mut known = NAMES.iter().chain(&CALLBACKS);
    match known.find(|(name, _)| *name == rust) {
        Some((_, c)) => (*c).to_owned(),
        None => panic!("{rust} is in no list of the header's test"),
    }
}

/// The part of `text` between `open` and `close` at its ends.
fn within<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    text.strip_prefix(open)?.strip_suffix(close).map(str::trim)
}

fn pointer(to: &str) -> String {
    match to.ends_with('*') {
        true => format!("{to}*"),
        false => format!("{to} *"),
    }
}

/// What C calls a type of Rust's.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = within(rust, "Option<&mut ", ">") {
        return pointer(&c_type(inner));
    }
    if let Some(inner) = within(rust, "Option<&", ">") {
        return pointer(&format!("const {}", c_type(inner)));
    }
    if let Some(inner) = within(rust, "Option<Box<", ">>") {
        return pointer(&c_type(inner));
    }
    if let Some(inner) = within(rust, "Option<", ">") {
        // A callback that may be missing.
        return c_type(inner);
    }
    if rust == "ErrorOut" {
        return "heliox_error **".to_owned();
    }
    if let Some(inner) = within(rust, "OutHandle<", ">") {
        return pointer(&pointer(&c_type(inner)));
    }
    if let Some(inner) = within(rust, "Out<", ">").or_else(|| within(rust, "ArrayMut<", ">")) {
        return pointer(&c_type(inner));
    }
    if let Some(inner) = within(rust, "Array<", ">") {
        return pointer(&format!("const {}", c_type(inner)));
    }
    if let Some(inner) = within(rust, "Grown<", ">") {
        let is_read = inner == "IteratorOptions";
        let to = c_type(inner);
        return pointer(&if is_read { format!("const {to}") } else { to });
    }
    c_name(rust)
}

/// Rust without lifetimes, comments and attributes of fields.
fn plain_rust(text: &str) -> String {
    let mut plain: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let is_noise = line.starts_with("#[") && line != "#[no_mangle]";
        if !line.is_empty() && !is_noise {
            plain.push(line);
        }
    }
    let mut text = plain.join(" ");
    for lifetime in ["'_", "'a", "'static"] {
        for form in [
            format!("<{lifetime}>"),
            format!("<{lifetime}, "),
            format!("&{lifetime} "),
        ] {
            let instead = match form.chars().last() {
                Some('>') => "",
                _ if form.starts_with('&') => "&",
                _ => "<",
            };
            text = text.replace(&form, instead);
        }
    }
    text
}

/// Commas that stand in no brackets.
fn split_arguments(text: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in text.chars() {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(letter);
    }
    parts.retain(|part| !part.trim().is_empty());
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// `name: Type` as C has it.
fn c_field(rust: &str) -> String {
    let (name, rust) = rust.split_once(':').expect(rust);
    format!("{} {}", c_type(rust), name.trim())
}

fn c_signature(arguments: &str, result: &str) -> String {
    let arguments: Vec<String> = split_arguments(arguments)
        .iter()
        .map(|a| c_field(a))
        .collect();
    let result = result.trim().strip_prefix("->").unwrap_or("()");
    squeeze(&format!("{} ({})", c_type(result), arguments.join(", ")))
}

/// The text after each `mark`, up to what ends it.
fn after<'t>(text: &'t str, mark: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(mark)
        .map(move |(at, _)| &text[at + mark.len()..])
}

/// Splits at the bracket that closes the first one.
fn bracket(text: &str) -> (&str, &str, &str) {
    let open = text.find('(').expect(text);
    let mut depth = 0;
    for (at, letter) in text[open..].char_indices() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return (
                &text[..open],
                &text[open + 1..open + at],
                &text[open + at + 1..],
            );
        }
    }
    panic!("no end of {text}")
}

/// One form for both sides: no space before brackets and stars, one elsewhere.
fn squeeze(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (from, to) in [
        (" *", "*"),
        ("* ", "*"),
        ("( ", "("),
        (" )", ")"),
        (" (", "("),
    ] {
        while text.contains(from) {
            text = text.replace(from, to);
        }
    }
    text
}

fn of_rust() -> Declared {
    let mut declared = Declared::new();
    for source in SOURCES.iter().chain([&VALUE]) {
        let text = plain_rust(source);
        for function in after(&text, "#[no_mangle] extern \"C\" fn ") {
            let (name, arguments, rest) = bracket(function);
            let result = rest.split('{').next().unwrap();
            let signature = c_signature(arguments, result);
            declared.insert(name.trim().to_owned(), signature);
        }
        for callback in after(&text, "pub(crate) type ") {
            let (name, what) = callback.split_once('=').unwrap();
            let what = what.trim();
            if let Some(what) = what.strip_prefix("extern \"C\" fn") {
                let (_, arguments, rest) = bracket(what);
                let signature = c_signature(arguments, rest.split(';').next().unwrap());
                declared.insert(c_name(name.trim()), signature);
            }
        }
        of_rust_data(&text, &mut declared);
    }
    declared
}

fn of_rust_data(text: &str, declared: &mut Declared) {
    for (kind, mark) in [
        ("struct", "pub(crate) struct "),
        ("enum", "pub(crate) enum "),
    ] {
        for data in after(text, mark) {
            let Some((name, rest)) = data.split_once('{') else {
                continue;
            };
            let (name, body) = (name.trim(), rest.split('}').next().unwrap());
            let is_of_header = |(rust, _): &&(&str, &str)| *rust == name;
            let Some((_, c)) = NAMES.iter().find(is_of_header) else {
                continue;
            };
            // Opaque ones have neither size nor numbers to compare.
            let is_plain = body.contains("struct_size") || body.contains(" = ");
            if !is_plain && !["Slice", "Value"].contains(&name) {
                continue;
            }
            let parts = split_arguments(&body.replace("pub(crate) ", ""));
            let parts = parts.iter().filter(|p| !p.contains("PhantomData"));
            let parts: Vec<String> = match kind {
                "enum" => parts.map(|part| number_of(c, part)).collect(),
                _ => parts.map(|part| squeeze(&c_field(part))).collect(),
            };
            declared.insert(format!("{kind} {c}"), parts.join(", "));
        }
    }
}

/// `NotFound = 1` of `heliox_code` as `HELIOX_NOT_FOUND = 1`; other enums have their name between.
fn number_of(c: &str, part: &str) -> String {
    let (name, number) = part.split_once('=').expect(part);
    let mut words = match c {
        "heliox_code" => "HELIOX".to_owned(),
        _ => c.to_uppercase().replace("_KIND", ""),
    };
    for letter in name.trim().chars() {
        if letter.is_uppercase() {
            words.push('_');
        }
        words.push(letter.to_ascii_uppercase());
    }
    format!("{words} = {}", number.trim())
}

fn of_header() -> Declared {
    let mut text = String::new();
    let mut rest = HEADER;
    while let Some((before, comment)) = rest.split_once("/*") {
        text.push_str(before);
        rest = comment.split_once("*/").unwrap().1;
    }
    text.push_str(rest);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text = squeeze(&lines.collect::<Vec<_>>().join(" "));
    let mut declared = Declared::new();
    for function in after(&text, "HELIOX_API ") {
        let (front, arguments, _) = bracket(function);
        let at = front.find("heliox_abi").or(front.rfind("heliox_")).unwrap();
        let result = &front[..at];
        let arguments = arguments.replace("void*", "\u{1}").replace("void", "");
        let arguments = arguments.replace('\u{1}', "void*");
        let signature = squeeze(&format!("{result}({arguments})"));
        declared.insert(front[at..].trim().to_owned(), signature);
    }
    for callback in after(&text, "typedef ") {
        let callback = callback.split(';').next().unwrap();
        if let Some((result, rest)) = callback.split_once("(*") {
            let (name, arguments) = rest.split_once(")(").unwrap();
            let arguments = arguments.strip_suffix(')').unwrap();
            let signature = squeeze(&format!("{result}({arguments})"));
            declared.insert(name.to_owned(), signature);
        }
    }
    for kind in ["struct", "enum"] {
        for data in after(&text, &format!("{kind} ")) {
            let Some((name, body)) = data.split_once('{') else {
                continue;
            };
            if !name
                .trim()
                .chars()
                .all(|l| l.is_ascii_lowercase() || l == '_')
            {
                continue;
            }
            let body = body.split('}').next().unwrap().trim();
            let parts = match kind {
                "struct" => body.split(';').map(squeeze).collect::<Vec<_>>(),
                _ => body.split(',').map(squeeze).collect(),
            };
            let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
            declared.insert(format!("{kind} {}", name.trim()), parts.join(", "));
        }
    }
    declared
}

#[test]
fn the_header_declares_what_the_library_has_and_nothing_else() {
    let (rust, header) = (of_rust(), of_header());
    let mut wrong = Vec::new();
    for (name, there) in &rust {
        match header.get(name) {
            None => wrong.push(format!("{name}: the header lacks it")),
            Some(here) if here != there => {
                wrong.push(format!("{name}\n  library: {there}\n  header:  {here}"));
            }
            Some(_) => {}
        }
    }
    for name in header.keys().filter(|name| !rust.contains_key(*name)) {
        wrong.push(format!("{name}: the library lacks it"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Both were read, and as a whole.
    let functions = HEADER.matches("HELIOX_API ").count();
    let data = |kind: &str| rust.keys().filter(|name| name.starts_with(kind)).count();
    let callbacks = rust.keys().filter(|name| name.ends_with("_fn")).count();
    assert_eq!(
        rust.len(),
        functions + data("struct ") + data("enum ") + callbacks
    );
    assert_eq!(callbacks, HEADER.matches("(*heliox_").count());
    assert_eq!(data("enum "), HEADER.matches("typedef enum ").count());
    let structs = HEADER
        .lines()
        .filter(|l| l.contains("struct heliox_") && l.ends_with('{'));
    assert_eq!(data("struct "), structs.count());
}

#[test]
fn the_number_of_the_interface_is_one_everywhere() {
    let stated = after(HEADER, "#define HELIOX_ABI_VERSION ").next().unwrap();
    let stated = stated.lines().next().unwrap();
    assert_eq!(stated, crate::error::ABI_VERSION.to_string());
    let build = include_str!("../build.rs");
    assert!(build.contains(&format!("libheliox.so.{stated}\"")));
}
