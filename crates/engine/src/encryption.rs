//! Where the key of an encrypted store comes from: a file, a command, or the program itself.
//!
//! Invariants: a key is read once, when options are checked; no message tells any of it, nor the
//! command, which may hold it; what was read is wiped. Plain data.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use heliox_format::sealed::KEY_BYTES;
use heliox_log::cipher::MasterKey;
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// More than a key in any form takes; what is longer is not read to its end.
const SOURCE_BYTES_MAX: u64 = 4096;
/// What is told of a command's words at most.
const WORDS_MAX: usize = 400;
/// How to make a key.
const FORMS: &str = "a key is 32 random bytes, or 64 hexadecimal digits and perhaps a line end (`openssl rand -hex 32` makes one)";

/// Where a store's key comes from. It encrypts the keys that the data is encrypted with, so it can be
/// changed without writing the data anew ([`crate::Store::rotate_key`]). Losing it loses the store.
#[derive(Clone)]
pub struct KeySource(Source);

#[derive(Clone)]
enum Source {
    File(PathBuf),
    Command(String),
    Ready(Arc<MasterKey>),
}

impl KeySource {
    /// A file with 32 bytes, or with 64 hexadecimal digits and perhaps a line end. Who may read it
    /// is up to its permissions.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> KeySource {
        KeySource(Source::File(path.into()))
    }

    /// A command for `sh -c` that writes what such a file holds to its standard output. It runs
    /// whenever a store is opened, made, checked or restored with these options, which wait for
    /// its end; it gets no input, and must end with exit code 0.
    #[must_use]
    pub fn command(command: impl Into<String>) -> KeySource {
        KeySource(Source::Command(command.into()))
    }

    /// The key itself.
    #[must_use]
    pub fn bytes(key: [u8; KEY_BYTES]) -> KeySource {
        KeySource::ready(Arc::new(MasterKey::new(Zeroizing::new(key))))
    }

    /// A key that was read already.
    pub(crate) fn ready(key: Arc<MasterKey>) -> KeySource {
        KeySource(Source::Ready(key))
    }

    /// Reads the key.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] if the file cannot be read, the command fails, or what they
    /// hold is no key.
    pub(crate) fn read(&self) -> Result<Arc<MasterKey>> {
        let (bytes, place) = match &self.0 {
            Source::File(path) => (read_file(path)?, path.display().to_string()),
            Source::Command(command) => (run(command)?, "the key command".to_owned()),
            Source::Ready(key) => return Ok(Arc::clone(key)),
        };
        let key = parse(&bytes).map_err(|found| {
            Error::invalid(format!("encryption key: {place} gives {found}; {FORMS}"))
        })?;
        Ok(Arc::new(MasterKey::new(key)))
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::File(path) => write!(f, "the file {}", path.display()),
            Source::Command(_) => f.write_str("a command"),
            Source::Ready(_) => f.write_str("the program"),
        }
    }
}

fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    // Room for all of it, so that growing leaves no copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(SOURCE_BYTES_MAX as usize + 1));
    let read =
        File::open(path).and_then(|file| file.take(SOURCE_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Error::invalid(format!(
            "encryption key: {} cannot be read: {error}; give a file that this user may read",
            path.display()
        ))),
    }
}

fn run(command: &str) -> Result<Zeroizing<Vec<u8>>> {
    let failed = |what: String| {
        Error::invalid(format!("encryption key: the key command {what}; it must write the key to its standard output and end with exit code 0"))
    };
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    let output = shell
        .output()
        .map_err(|error| failed(format!("cannot be run: {error}")))?;
    let key = Zeroizing::new(output.stdout);
    if output.status.success() {
        return Ok(key);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.trim().chars().take(WORDS_MAX).collect();
    let said = match words.is_empty() {
        true => "it said nothing".to_owned(),
        false => format!("it said: {words}"),
    };
    Err(failed(format!("ended with {}, {said}", output.status)))
}

/// The key, or what was found in its place.
fn parse(bytes: &[u8]) -> std::result::Result<Zeroizing<[u8; KEY_BYTES]>, String> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_hex = !line.is_empty() && line.iter().all(u8::is_ascii_hexdigit);
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    if is_hex && line.len() == 2 * KEY_BYTES {
        for (byte, pair) in key.iter_mut().zip(line.chunks_exact(2)) {
            *byte = pair
                .iter()
                .fold(0, |value, digit| value << 4 | digit_of(*digit));
        }
        return Ok(key);
    }
    if is_hex {
        // 32 of them would pass for bytes, and be half a key.
        return Err(format!("{} hexadecimal digits", line.len()));
    }
    let raw = [bytes, line].into_iter().find(|raw| raw.len() == KEY_BYTES);
    match raw {
        Some(raw) => key.copy_from_slice(raw),
        None => return Err(format!("{} bytes", bytes.len())),
    }
    Ok(key)
}

fn digit_of(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20).wrapping_sub(b'a') + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_32_bytes_or_64_digits() {
        let digits = "00ff".to_owned() + &"a5".repeat(30);
        let expected = parse(digits.as_bytes()).unwrap();
        assert_eq!((expected[0], expected[1], expected[31]), (0, 255, 0xa5));
        for form in [digits.clone() + "\n", digits.to_uppercase() + "\r\n"] {
            assert_eq!(parse(form.as_bytes()).unwrap(), expected);
        }
        let mut raw = vec![7; 32];
        assert_eq!(*parse(&raw).unwrap(), [7; 32]);
        raw[31] = b'\n';
        assert_eq!(
            parse(&raw).unwrap()[31],
            b'\n',
            "32 bytes are all of the key"
        );
        raw.push(b'\n');
        assert_eq!(parse(&raw).unwrap()[31], b'\n');
        let found = |bytes: &[u8]| parse(bytes).unwrap_err();
        assert_eq!(found(b""), "0 bytes");
        assert_eq!(found(&[7; 31]), "31 bytes");
        assert_eq!(found(&[7; 34]), "34 bytes");
        assert_eq!(found(&[b'a'; 32]), "32 hexadecimal digits");
        assert_eq!(found("a".repeat(63).as_bytes()), "63 hexadecimal digits");
        assert_eq!(found(("g".repeat(64) + "\n").as_bytes()), "65 bytes");
    }
}
