//! Bytes as one line of printable text, and back.
//!
//! Printable UTF-8 stands for itself; every other byte, and the backslash, is written `\xNN`.
//! Invariants: the text has no control character (so neither tab nor newline); [`unescape`] gives
//! back exactly the bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::args::Shared;
use crate::exit::Failure;

/// Appends the text of `bytes` to `out`.
pub(crate) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut encoded = [0; 4];
            let encoded = character.encode_utf8(&mut encoded).as_bytes();
            if is_printable(character) {
                out.extend_from_slice(encoded);
            } else {
                encoded.iter().for_each(|byte| escape_byte(*byte, out));
            }
        }
        chunk
            .invalid()
            .iter()
            .for_each(|byte| escape_byte(*byte, out));
    }
}

fn escape_byte(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'?');
    out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
}

/// Whether a character stands for itself: as the standard library judges it for debug output, with
/// quotes allowed and combining marks in their place.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~') && character != '\\';
    }
    let mut text = [b'a'; 5];
    let (_, room) = text.split_at_mut(1);
    let end = 1 + character.encode_utf8(room).len();
    let text = std::str::from_utf8(text.get(..end).unwrap_or_default()).unwrap_or_default();
    text.escape_debug().nth(1) == Some(character)
}

/// The bytes that a text stands for: the inverse of [`escape`]; other characters stand for
/// themselves.
///
/// # Errors
/// A backslash that is not followed by `x` and two hexadecimal digits.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'\\' {
            bytes.push(*first);
            rest = behind;
            continue;
        }
        let byte = match behind {
            [b'x', high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        let place = text.len() - rest.len();
        let message =
            || format!("the backslash at byte {place} is not followed by x and two digits");
        bytes.push(byte.ok_or_else(message)?);
        rest = behind.get(3..).unwrap_or_default();
    }
    Ok(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// The bytes of an argument: as given, or unescaped if `--escaped` asks for it.
pub(crate) fn argument(shared: &Shared, name: &str, text: &OsStr) -> Result<Vec<u8>, Failure> {
    if !shared.escaped {
        return Ok(text.as_bytes().to_vec());
    }
    unescape(text.as_bytes()).map_err(|reason| Failure::Argument(format!("{name}: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        escape(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_stays_and_the_rest_is_escaped() {
        assert_eq!(
            escaped("Grüße, 'x' \"y\" 日本".as_bytes()),
            "Grüße, 'x' \"y\" 日本"
        );
        assert_eq!(
            escaped(b"a\tb\nc\\d\0\x7f"),
            "a\\x09b\\x0ac\\x5cd\\x00\\x7f"
        );
        assert_eq!(escaped(b"\xff\xc3"), "\\xff\\xc3");
        assert_eq!(escaped("\u{202e}\u{85}\u{2028}".as_bytes()), {
            "\\xe2\\x80\\xae\\xc2\\x85\\xe2\\x80\\xa8"
        });
        assert_eq!(escaped("e\u{301}".as_bytes()), "e\u{301}");
        assert_eq!(escaped(b""), "");
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["\\", "\\x", "\\x1", "\\n", "\\xg0", "a\\x4"] {
            assert!(unescape(text.as_bytes()).is_err(), "{text}");
        }
        assert!(unescape(b"ab\\q").unwrap_err().contains("byte 2"));
        assert_eq!(unescape(b"\\x41\\x5c\\xFF!").unwrap(), b"A\\\xff!");
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = escaped(&bytes);
            prop_assert!(!text.chars().any(char::is_control));
            prop_assert_eq!(unescape(text.as_bytes()).unwrap(), bytes);
        }

        #[test]
        fn text_comes_back(text in any::<String>()) {
            let line = escaped(text.as_bytes());
            prop_assert!(!line.chars().any(char::is_control));
            prop_assert_eq!(unescape(line.as_bytes()).unwrap(), text.into_bytes());
        }
    }
}
