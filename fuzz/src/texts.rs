//! The text files of stores and backups. No state, no threads.

use heliox::hostile::{backup_set_text, backup_text as decode_backup, store_text as decode_store};
use heliox_format::superblock::FORMAT_VERSION;
use xxhash_rust::xxh3::xxh3_64;

/// The files `HELIOX` and `HELIOX.new`.
///
/// # Panics
/// When what was accepted is written as something else.
pub fn store_text(data: &[u8]) {
    if let Ok(again) = decode_store(data) {
        assert_eq!(decode_store(&again).ok(), Some(again));
    }
}

/// The manifest of a backup, as it is and with its checksum put right, and the file of the set.
///
/// # Panics
/// When what was accepted is written as something else.
pub fn backup_text(data: &[u8]) {
    let _ = backup_set_text(data);
    for text in [data.to_vec(), sealed(data)] {
        if let Ok(again) = decode_backup(&text) {
            assert_eq!(decode_backup(&again).ok(), Some(again));
        }
    }
}

/// The lines before the last one, or all, with their checksum behind them.
fn sealed(data: &[u8]) -> Vec<u8> {
    let end = data
        .windows(10)
        .rposition(|bytes| bytes == b"\nchecksum ")
        .map_or(data.len(), |at| at + 1);
    let mut text = data[..end].to_vec();
    let sum = xxh3_64(&text);
    text.extend_from_slice(format!("checksum {sum:016x}\n").as_bytes());
    text
}

/// Files of stores: with one volume, with several, of a restore that did not end.
pub fn store_texts() -> Vec<Vec<u8>> {
    let head = format!(
        "Heliox store: this file says where its volumes are. Edit only volume paths.\nformat {FORMAT_VERSION}\nuuid 00112233445566778899aabbccddeeff\n"
    );
    let behind = [
        "volume data\n",
        "volume /dev/one\nvolume \\x two\n",
        "volume data\nrestore\n",
    ];
    behind
        .map(|volumes| format!("{head}{volumes}").into_bytes())
        .to_vec()
}

/// Manifests of backups, small and full, and the file of a set.
pub fn backup_texts() -> Vec<Vec<u8>> {
    let head = "Heliox backup: the segment files of one state of a store. Do not edit.\nformat 1\nnumber 7\ncreated 1700000000000\nstore 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\nlast 99\nincarnation 4 3\ngeometry 4194304 16 0 512\nseed 18446744073709551615\n";
    let full = format!("{head}checkpoint 17179869184 2 9 1 50\nended 3 60\nended 4 99\nsegment 5 8 8192 00000000000000fe\nsegment 6 9 4194304 ffffffffffffffff\n");
    let set = "Heliox backup set: backups/ has one file for each backup, segments/ their data.\nformat 1\nlineage 0a0b0c0d0e0f0102\n";
    vec![
        sealed(head.as_bytes()),
        sealed(full.as_bytes()),
        set.as_bytes().to_vec(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_understood() {
        for text in store_texts() {
            let found = decode_store(&text).map_err(|error| error.to_string());
            assert_eq!(found, Ok(text));
        }
        let texts = backup_texts();
        for text in &texts[..2] {
            let found = decode_backup(text).map_err(|error| error.to_string());
            assert_eq!(found.as_ref(), Ok(text));
        }
        assert!(backup_set_text(&texts[2]).is_ok());
    }
}
