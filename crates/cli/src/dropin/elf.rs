//! What a program file says about the libraries it is linked with.
//!
//! Reads 64-bit little-endian ELF and nothing else; whatever does not fit is `None`, never an error.
//! No threads.

/// How a program finds its libraries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Linking {
    /// A dynamic linker starts it.
    pub(super) is_dynamic: bool,
    /// The libraries that it names.
    pub(super) needed: Vec<String>,
    /// It names directories that come before those of the environment.
    pub(super) has_own_path: bool,
}

const SEGMENT_DYNAMIC: u64 = 2;
const SEGMENT_INTERPRETER: u64 = 3;
const SEGMENT_LOAD: u64 = 1;
const TAG_END: u64 = 0;
const TAG_NEEDED: u64 = 1;
const TAG_STRINGS: u64 = 5;
const TAG_RPATH: u64 = 15;
const TAG_RUNPATH: u64 = 29;
const DYNAMIC_ENTRY_BYTES: usize = 16;
const SEGMENT_HEADER_BYTES: usize = 56;

/// A part of the file as it is loaded.
struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    len: u64,
}

/// What the file says; none if it is no such program.
pub(super) fn linking(file: &[u8]) -> Option<Linking> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let segments = segments(file)?;
    let mut linking = Linking {
        is_dynamic: segments.iter().any(|s| s.kind == SEGMENT_INTERPRETER),
        ..Linking::default()
    };
    let Some(dynamic) = segments.iter().find(|s| s.kind == SEGMENT_DYNAMIC) else {
        return Some(linking);
    };
    let entries = entries(file, dynamic)?;
    let value_of = |tag: u64| entries.iter().find(|(t, _)| *t == tag).map(|(_, v)| *v);
    linking.has_own_path = value_of(TAG_RPATH).is_some() && value_of(TAG_RUNPATH).is_none();
    let strings = offset_of(&segments, value_of(TAG_STRINGS)?)?;
    for (_, name) in entries.iter().filter(|(tag, _)| *tag == TAG_NEEDED) {
        linking
            .needed
            .push(text(file, strings.checked_add(*name)?)?);
    }
    Some(linking)
}

fn segments(file: &[u8]) -> Option<Vec<Segment>> {
    let at = usize::try_from(number(file, 32, 8)?).ok()?;
    let size = usize::try_from(number(file, 54, 2)?).ok()?;
    let count = usize::try_from(number(file, 56, 2)?).ok()?;
    if size < SEGMENT_HEADER_BYTES {
        return None;
    }
    let header = |i: usize| {
        let at = at.checked_add(i.checked_mul(size)?)?;
        Some(Segment {
            kind: number(file, at, 4)?,
            offset: number(file, at.checked_add(8)?, 8)?,
            address: number(file, at.checked_add(16)?, 8)?,
            len: number(file, at.checked_add(32)?, 8)?,
        })
    };
    (0..count).map(header).collect()
}

/// The pairs of tag and value of the dynamic segment.
fn entries(file: &[u8], dynamic: &Segment) -> Option<Vec<(u64, u64)>> {
    let from = usize::try_from(dynamic.offset).ok()?;
    let len = usize::try_from(dynamic.len).ok()?;
    let bytes = file.get(from..from.checked_add(len)?)?;
    let pairs = bytes
        .chunks_exact(DYNAMIC_ENTRY_BYTES)
        .map(|entry| Some((number(entry, 0, 8)?, number(entry, 8, 8)?)));
    let pairs: Option<Vec<_>> = pairs.collect();
    let mut pairs = pairs?;
    let end = pairs.iter().position(|(tag, _)| *tag == TAG_END);
    pairs.truncate(end.unwrap_or(pairs.len()));
    Some(pairs)
}

/// Where in the file an address of the loaded program is.
fn offset_of(segments: &[Segment], address: u64) -> Option<u64> {
    let holds = |s: &&Segment| {
        s.kind == SEGMENT_LOAD && address >= s.address && address - s.address < s.len
    };
    let segment = segments.iter().find(holds)?;
    segment.offset.checked_add(address - segment.address)
}

/// The text that ends with a zero byte.
fn text(file: &[u8], at: u64) -> Option<String> {
    let rest = file.get(usize::try_from(at).ok()?..)?;
    let len = rest.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(rest.get(..len)?).into_owned())
}

/// The number of so many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(len)?)?;
    Some(
        field
            .iter()
            .rev()
            .fold(0, |n, &byte| n << 8 | u64::from(byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test is a program of the kind.
    fn own() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn a_dynamic_program_names_its_libraries() {
        let found = linking(&own()).expect("an ELF file");
        assert!(found.is_dynamic, "{found:?}");
        assert!(
            found.needed.iter().any(|name| name.starts_with("libc.so")),
            "{found:?}"
        );
        assert!(!found.has_own_path);
    }

    #[test]
    fn what_is_cut_or_changed_is_no_program_and_no_panic() {
        let mut file = own();
        assert_eq!(linking(b"#!/bin/sh\n"), None);
        assert_eq!(linking(&file[..70]), None);
        for at in 0..1024 {
            for bits in [0xff, 0x80, 0x01] {
                file[at] ^= bits;
                let _ = linking(&file);
                file[at] ^= bits;
            }
        }
    }
}
