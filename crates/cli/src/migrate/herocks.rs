//! How HeRocks lays RocksDB's families, keys and values into a store (`herocks/src/codec.h` and
//! `catalog.h`): read for an export, and written by an import that keyspaces alone cannot hold.
//! No threads.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use heliox::{Batch, Store};

use crate::exit::Failure;

use super::Family;

/// Keys in the order of their bytes.
pub(super) const BYTEWISE: &[u8] = b"leveldb.BytewiseComparator";
/// Keys in the reverse order.
pub(super) const REVERSED: &[u8] = b"rocksdb.ReverseBytewiseComparator";
/// The keyspace with the catalog of the families.
pub(super) const CATALOG: &str = ".herocks";
/// The family that every database has.
pub(super) const DEFAULT: &[u8] = b"default";

const FAMILY_PREFIX: &[u8] = b"family/";
const FORMAT: &[u8] = b"1";
const MARK_BYTES: usize = 16;
const SPACE_BYTES_MAX: usize = 200;
const PLAIN: u8 = 0;

/// What the catalog of a store says.
pub(super) struct Catalog {
    /// Envelopes begin with it.
    mark: Vec<u8>,
    /// The families.
    pub(super) families: Vec<Family>,
}

impl Catalog {
    /// The catalog of the store, if it has one.
    pub(super) fn read(store: &Store) -> Result<Option<Catalog>, Failure> {
        if !store.keyspaces().iter().any(|name| name == CATALOG) {
            return Ok(None);
        }
        let damaged = || {
            Failure::Argument(format!(
                "the keyspace {CATALOG} is not of a kind known here"
            ))
        };
        let space = store.keyspace(CATALOG)?;
        if space.get(b"format")?.as_deref() != Some(FORMAT) {
            return Err(damaged());
        }
        let mark = space.get(b"mark")?.ok_or_else(damaged)?;
        let mut families = Vec::new();
        for entry in space.iter().prefix(FAMILY_PREFIX).start()? {
            let (_, record) = entry?;
            families.push(family(&record).ok_or_else(damaged)?);
        }
        Ok(Some(Catalog { mark, families }))
    }

    /// The value that the program sees; `None` if operands of merges wait for their operator.
    pub(super) fn value<'v>(&self, stored: &'v [u8]) -> Option<&'v [u8]> {
        match stored.strip_prefix(&self.mark[..]) {
            None | Some([]) => Some(stored),
            Some([PLAIN, value @ ..]) => Some(value),
            Some(_) => None,
        }
    }
}

fn family(record: &[u8]) -> Option<Family> {
    let mut rest = record;
    take_number(&mut rest)?;
    let name = take_bytes(&mut rest)?.to_vec();
    let space = String::from_utf8(take_bytes(&mut rest)?.to_vec()).ok()?;
    let comparator = take_bytes(&mut rest)?;
    Some(Family {
        name,
        space,
        reversed: comparator == REVERSED,
    })
}

/// Whether the families need a catalog; else HeRocks takes each keyspace for one.
pub(super) fn needs_catalog(families: &[Family]) -> bool {
    let differs = |family: &Family| family.reversed || family.name != family.space.as_bytes();
    families.iter().any(differs)
}

/// The keyspace for family number `id`, as HeRocks would name it.
pub(super) fn space_of(name: &[u8], id: usize) -> String {
    let plain = |byte: &u8| (b' '..=b'~').contains(byte);
    match std::str::from_utf8(name) {
        Ok(text)
            if !name.is_empty()
                && name.len() <= SPACE_BYTES_MAX
                && name.first() != Some(&b'.')
                && name.iter().all(plain) =>
        {
            text.to_owned()
        }
        _ => format!("family-{id}"),
    }
}

/// Writes the catalog of a store that has none.
pub(super) fn write_catalog(store: &Store, families: &[Family]) -> Result<(), Failure> {
    let space = store.keyspace_or_create(CATALOG)?;
    let random = Path::new("/dev/urandom");
    let mut bytes = [0; 2 * MARK_BYTES];
    let read = File::open(random).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::file("read", random, error))?;
    let (mark, identity) = bytes.split_at(MARK_BYTES);
    let identity: String = identity.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut batch = Batch::new();
    let mut next_id: u32 = 1;
    for family in families {
        let mut id = 0;
        if family.name != DEFAULT {
            id = next_id;
            next_id += 1;
        }
        let mut record = Vec::new();
        put_number(&mut record, u64::from(id));
        for part in [
            &family.name[..],
            family.space.as_bytes(),
            family.comparator(),
        ] {
            put_number(&mut record, part.len() as u64);
            record.extend_from_slice(part);
        }
        let key = [FAMILY_PREFIX, format!("{id:08x}").as_bytes()].concat();
        batch.put(&space, key, record);
    }
    batch.put(&space, "format", FORMAT);
    batch.put(&space, "mark", mark);
    batch.put(&space, "identity", identity);
    batch.put(&space, "next-id", next_id.to_string());
    batch.put(&space, "sequence", "0");
    store.write(&batch)?;
    Ok(())
}

/// The key as a family in reverse order has it: inverted bytes, a 0xFF of them followed by 0x00, and
/// the whole by 0xFF 0xFF.
pub(super) fn encode_reversed(key: &[u8], stored: &mut Vec<u8>) {
    stored.clear();
    for byte in key {
        stored.push(!byte);
        if *byte == 0 {
            stored.push(0);
        }
    }
    stored.extend_from_slice(&[0xFF, 0xFF]);
}

/// The inverse of [`encode_reversed`].
pub(super) fn decode_reversed(stored: &[u8], key: &mut Vec<u8>) {
    key.clear();
    let mut rest = stored.iter();
    while let Some(byte) = rest.next() {
        if *byte == 0xFF && rest.next() != Some(&0) {
            return;
        }
        key.push(!byte);
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_bytes<'r>(rest: &mut &'r [u8]) -> Option<&'r [u8]> {
    let len = usize::try_from(take_number(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reversed_keys_come_back_and_sort_backwards() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0\x01", b"a", b"a\0", b"\xFF\xFF"];
        let encoded = keys.map(|key| {
            let (mut stored, mut back) = (Vec::new(), Vec::new());
            encode_reversed(key, &mut stored);
            decode_reversed(&stored, &mut back);
            assert_eq!(back, key);
            stored
        });
        for pair in encoded.windows(2) {
            assert!(pair[0] > pair[1], "{pair:?}");
        }
    }

    #[test]
    fn envelopes_are_opened_and_waiting_operands_are_told() {
        let catalog = Catalog {
            mark: b"mark".to_vec(),
            families: Vec::new(),
        };
        for (stored, value) in [
            (&b"value"[..], Some(&b"value"[..])),
            (b"mark", Some(b"mark")),
            (b"mark\0markvalue", Some(b"markvalue")),
            (b"mark\x01operands", None),
        ] {
            assert_eq!(catalog.value(stored), value, "{stored:?}");
        }
    }

    #[test]
    fn names_that_no_keyspace_has_get_one() {
        assert_eq!(space_of(b"films", 3), "films");
        for name in [&b""[..], b".import", b"\xFF", &[b'x'; 201]] {
            assert_eq!(space_of(name, 3), "family-3");
        }
    }
}
