//! The program's arguments, and the files that it imports. No processes, no files, no state but an
//! empty store and the words of the command line, made once. Threads: any.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, OnceLock};

use heliox::{Keyspace, Media, Options, Store};
use heliox_cli::hostile;
use heliox_media::MemoryMedia;
use heliox_sim::Clock;

use crate::must::Must;

/// Words that follow options: what is odd about numbers, sizes, times and texts.
const ODD: [&str; 48] = [
    "",
    "0",
    "1",
    "-1",
    "+1",
    "007",
    "4096",
    "168M",
    "1GiB",
    "10MB",
    "3T",
    "16777216T",
    "1_000",
    "_",
    "18446744073709551615",
    "18446744073709551616",
    "0x10",
    "1e9",
    "1.5",
    "1.5G",
    "NaN",
    "inf",
    "-inf",
    "1e300",
    "1e-300",
    "0.0005",
    "10s",
    "5m",
    "1h",
    "1d",
    "999999999h",
    "20M",
    "K",
    "kib",
    "\u{661}\u{662}",
    "\u{e9}",
    "\\x41",
    "\\x4",
    "\\",
    "\\xZZ",
    "--",
    "-",
    "none",
    "sync",
    "url",
    ",",
    "scan,scan",
    "=",
];
/// From this byte on a word is spelt out in the input.
const SPELT: usize = 240;

/// A command line.
pub fn arguments(data: &[u8]) {
    let words = words(data);
    if let Err(message) = hostile::arguments(&words) {
        assert!(!message.trim().is_empty(), "refused without a word");
    }
}

/// The words that an input stands for: each a byte, or spelt out behind its length.
fn words(data: &[u8]) -> Vec<OsString> {
    let vocabulary = vocabulary();
    let mut words = Vec::new();
    let mut rest = data;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let first = usize::from(*first);
        if first < SPELT {
            words.push(vocabulary[first % vocabulary.len()].clone());
            continue;
        }
        let (word, behind) = rest.split_at((first - SPELT).min(rest.len()));
        rest = behind;
        words.push(OsString::from_vec(word.to_vec()));
    }
    words
}

/// All that the program has a name for, and odd values.
fn vocabulary() -> &'static [OsString] {
    static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let named = hostile::vocabulary();
        let odd = ODD.into_iter().map(str::to_owned);
        named.into_iter().chain(odd).map(OsString::from).collect()
    })
}

/// Command lines to start from: each name of the program beside each other, and values.
pub fn command_lines() -> Vec<Vec<u8>> {
    let count = vocabulary().len() as u8;
    let mut seeds: Vec<Vec<u8>> = (0..count)
        .map(|word| vec![word, count - 1, word.wrapping_mul(7), count - 40])
        .collect();
    for text in [
        "create D --capacity 168M --device x --memory 64M",
        "put D -- -k -v",
        "get D \\x41 --escaped --keyspace k",
        "scan D --from a --to b --limit 1K --reverse",
        "import D --format csv --key id --strict f",
        "bench --dir D --workload fillseq,scan --num 1M --key-size 16 --threads 2 --duration 10s",
        "backup D S --keep 7",
        "restore S D --backup 1",
    ] {
        let spelt = text.split(' ').flat_map(|word| {
            let mut bytes = vec![(SPELT + word.len().min(15)) as u8];
            bytes.extend_from_slice(&word.as_bytes()[..word.len().min(15)]);
            bytes
        });
        seeds.push(spelt.collect());
    }
    seeds
}

/// A file to import.
///
/// # Panics
/// When more or fewer rows are stored than the file has before its first malformed line, or other
/// ones, or a row as JSON is not the row.
pub fn import(data: &[u8]) {
    let (first, file) = data.split_first().unwrap_or((&0, &[]));
    let format = ["csv", "tsv", "ndjson", "csv"][usize::from(first % 4)];
    let field = ["id", "k", "", "\u{e9}"][usize::from(first / 4 % 4)];
    let base = ["import", "DIR", "--format", format, "--key", field];
    let lenient: Vec<OsString> = base.map(OsString::from).to_vec();
    let strict: Vec<OsString> = lenient.iter().cloned().chain(["--strict".into()]).collect();

    let rows = hostile::rows(&strict, file.to_vec());
    let (store, keyspace) = empty();
    let loaded = hostile::load(&strict, file.to_vec(), keyspace.clone());
    let stored = match (&rows, loaded) {
        (Err(said), Err(again)) => return assert_eq!(*said, again),
        (Ok(_), Ok((stored, malformed))) => {
            assert_eq!(malformed, 0, "a malformed line passed --strict");
            stored
        }
        (Ok(_), Err(said)) => rows_in(&said),
        (Err(said), Ok(_)) => panic!("a file that cannot be read was imported: {said}"),
    };
    let rows = rows.unwrap_or_default();
    let expected: BTreeMap<_, _> = rows.iter().take(stored as usize).cloned().collect();
    assert!(stored as usize <= rows.len());
    assert_eq!(content(&keyspace), expected);
    drop((keyspace, store));

    if format != "ndjson" {
        rows.iter()
            .take(40)
            .for_each(|row| same_as_json(field, row));
    }
    let (_store, keyspace) = empty();
    let all = hostile::load(&lenient, file.to_vec(), keyspace.clone());
    let (all, malformed) = all.must("malformed lines are skipped");
    assert!(all >= stored && (malformed > 0 || all == rows.len() as u64));
    let found = content(&keyspace);
    assert!(expected.keys().all(|key| found.contains_key(key)));
}

/// The number in `(--strict; N rows before it are stored)`.
fn rows_in(said: &str) -> u64 {
    let behind = said.split("(--strict; ").last().unwrap_or_default();
    let digits = behind.split(' ').next().unwrap_or_default();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no number of rows: {said}"))
}

/// What is stored of a row is a JSON object with the key in its field.
fn same_as_json(field: &str, row: &(Vec<u8>, Vec<u8>)) {
    let words = ["import", "DIR", "--format", "ndjson", "--key", field].map(OsString::from);
    let again = hostile::rows(&words, row.1.clone());
    assert_eq!(again.as_deref(), Ok(&[row.clone()][..]));
}

/// A store without entries.
fn empty() -> (Store, Keyspace) {
    static MEDIA: OnceLock<MemoryMedia> = OnceLock::new();
    let media = MEDIA.get_or_init(|| {
        let media = MemoryMedia::new(66 << 20, 512).must("a device in memory");
        let media = Arc::new(media);
        let store = Store::create("", &options(&media)).must("a store in memory");
        store.create_keyspace("default").must("a keyspace");
        store.close().must("the store closes");
        (*media).clone()
    });
    let store = Store::open("", &options(&Arc::new(media.clone()))).must("the store opens");
    let keyspace = store.keyspace("default").must("the keyspace is there");
    (store, keyspace)
}

fn options(media: &Arc<MemoryMedia>) -> Options {
    Options::new()
        .volumes(vec![Arc::clone(media) as Arc<dyn Media>])
        .segment_bytes(4 << 20)
        .memory_budget_bytes(16 << 20)
        .hash_seed(7)
        .simulation(Arc::new(Clock::new(3)))
}

fn content(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entries = keyspace.iter().start().must("an iteration begins");
    entries
        .map(|entry| entry.must("an entry can be read"))
        .collect()
}

/// Files of each format, whole and with malformed lines.
pub fn files() -> Vec<Vec<u8>> {
    let csv = "id,name,note\n1,one,\"a \"\"b\"\"\"\n2,two,\"two\nlines\"\r\n,no key,\n3,short\n1,again,x\n";
    let tsv = "id\tk\t\u{e9}\n1\tone\t\"x\n2\ttwo\tb\\n\n2\tthree\t\n\n";
    let json = "{\"id\":1,\"k\":\"a\"}\n\n{\"k\":true,\"id\":\"x\\u0041\"}\r\nnonsense\n{\"id\":null}\n{\"id\":{}}\n{\"k\":1,\"k\":2.50}\n";
    let mut seeds = Vec::new();
    for field in 0..4 {
        for (format, text) in [csv, tsv, json].iter().enumerate() {
            let mut seed = vec![field * 4 + format as u8];
            seed.extend_from_slice(text.as_bytes());
            seeds.push(seed);
        }
    }
    seeds.push(b"\x00\xef\xbb\xbfid\n1\n".to_vec());
    seeds.push(b"\x02\xef\xbb\xbf{\"id\":1}".to_vec());
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_program_has_a_byte() {
        let words = vocabulary();
        assert!(words.len() < SPELT, "{}", words.len());
        for name in ["create", "--capacity", "--strict", "csv", "168M"] {
            assert!(words.iter().any(|word| word == name), "{name}");
        }
    }

    #[test]
    fn words_are_bytes_or_spelt_out() {
        let at = vocabulary().iter().position(|word| word == "get").unwrap() as u8;
        assert_eq!(
            words(&[at, 242, b'a', 0xff, 245, b'z']),
            [
                OsString::from("get"),
                OsString::from_vec(vec![b'a', 0xff]),
                OsString::from("z"),
            ]
        );
    }
}
