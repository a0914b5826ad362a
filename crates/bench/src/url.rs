//! Web addresses of an exact length, for the family of hierarchical keys.
//!
//! Few hosts have many pages and many hosts have few; a host has sections, a section has topics, a
//! page has a slug. Invariant: the last [`ID_DIGITS`] bytes spell the id, so two ids never share
//! an address. No state, no threads.

use crate::mix::{below, mix2};

/// Base-36 digits that hold any number of 64 bits.
const ID_DIGITS: usize = 13;
const TOP_LEVELS: [&str; 6] = ["com", "org", "net", "de", "co.uk", "io"];
const WORDS: [&str; 32] = [
    "alpine",
    "river",
    "garden",
    "market",
    "travel",
    "music",
    "kitchen",
    "history",
    "weather",
    "engine",
    "letters",
    "harbour",
    "science",
    "museum",
    "cinema",
    "sports",
    "village",
    "forest",
    "library",
    "bridge",
    "news",
    "health",
    "market-day",
    "photo",
    "archive",
    "school",
    "theatre",
    "railway",
    "island",
    "winter",
    "summer",
    "coffee",
];

/// Puts the address of the page `page` (a hash) with the unique `id` into `out`, in exactly
/// `size_bytes` bytes; the caller guarantees room for the id.
pub(crate) fn write(page: u64, id: u64, size_bytes: usize, out: &mut Vec<u8>) {
    let path_bytes = size_bytes.saturating_sub(ID_DIGITS);
    write_site(page, out);
    let mut step = 0;
    while out.len() < path_bytes {
        out.push(b'-');
        out.extend_from_slice(word(mix2(page, step)));
        step += 1;
    }
    out.truncate(path_bytes);
    write_base36(id, out);
}

/// Scheme, host, section and topic, which many pages share, and the start of the page's own slug.
fn write_site(page: u64, out: &mut Vec<u8>) {
    // The cube of a uniform number: host 0 gets 4 % of all pages, most of 16,384 hosts very few.
    let uniform = below(mix2(page, 1 << 32), 1 << 20);
    let host = (uniform * uniform * uniform) >> 46;
    let topic = below(mix2(page, 2 << 32), 40);
    let section = mix2(host, topic % 8);
    let top_level = TOP_LEVELS
        .get((host % 6) as usize)
        .copied()
        .unwrap_or("com");
    out.extend_from_slice(b"https://www.");
    out.extend_from_slice(word(mix2(host, 3)));
    out.extend_from_slice(word(mix2(host, 4)));
    out.extend_from_slice(format!("{host}.{top_level}/").as_bytes());
    out.extend_from_slice(word(section));
    out.extend_from_slice(format!("/{}/", 1985 + topic).as_bytes());
    out.extend_from_slice(word(mix2(page, 5 << 32)));
}

fn word(hash: u64) -> &'static [u8] {
    let place = below(hash, WORDS.len() as u64) as usize;
    WORDS.get(place).copied().unwrap_or("page").as_bytes()
}

fn write_base36(id: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + ID_DIGITS, b'0');
    let mut rest = id;
    for digit in out.iter_mut().skip(start).rev() {
        let value = (rest % 36) as u8;
        *digit = if value < 10 {
            b'0' + value
        } else {
            b'a' + value - 10
        };
        rest /= 36;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_next_to_each_other_have_addresses_of_their_own() {
        let address = |id| {
            let mut out = Vec::new();
            write(7, id, 64, &mut out);
            String::from_utf8(out).unwrap()
        };
        let ids = (0..3000).chain(u64::MAX - 3000..=u64::MAX);
        let addresses: HashSet<String> = ids.map(address).collect();
        assert_eq!(addresses.len(), 6001);
        assert!(address(35).ends_with("000000000000z"), "{}", address(35));
        assert!(
            address(u64::MAX).ends_with("3w5e11264sgsf"),
            "{}",
            address(u64::MAX)
        );
    }
}
