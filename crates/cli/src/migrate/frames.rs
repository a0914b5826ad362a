//! The records of a pipe, as `heleveldb/migrate/stream.h` describes them. No threads.

use std::io::{self, Read, Write};

/// What the other side says first.
pub(super) const PROTOCOL: &[u8] = b"heliox-migrate 1";
/// The protocol.
pub(super) const HELLO: u8 = b'V';
/// About how many bytes will come.
pub(super) const TOTAL: u8 = b'T';
/// Something to tell the user.
pub(super) const NOTE: u8 = b'N';
/// A column family that will come: name, comparator.
pub(super) const LISTED: u8 = b'L';
/// The records that follow are of this column family: name, comparator.
pub(super) const FAMILY: u8 = b'F';
/// Key and value.
pub(super) const RECORD: u8 = b'R';
/// The [`Sum`] of the family that ends here.
pub(super) const SUM: u8 = b'S';
/// All is well.
pub(super) const END: u8 = b'Z';
/// What went wrong.
pub(super) const ERROR: u8 = b'X';

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// One frame; its memory is used again.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// One of the constants.
    pub(super) kind: u8,
    /// The first part.
    pub(super) first: Vec<u8>,
    /// The second part.
    pub(super) second: Vec<u8>,
}

impl Frame {
    /// Reads the next frame; `UnexpectedEof` if there is none, or a part of one.
    pub(super) fn receive(&mut self, input: &mut impl Read) -> io::Result<()> {
        let (mut kind, mut first, mut second) = ([0], [0; 4], [0; 4]);
        input.read_exact(&mut kind)?;
        input.read_exact(&mut first)?;
        input.read_exact(&mut second)?;
        [self.kind] = kind;
        part(input, u32::from_le_bytes(first), &mut self.first)?;
        part(input, u32::from_le_bytes(second), &mut self.second)
    }

    /// The first part as a number.
    pub(super) fn number(&self) -> u64 {
        number(&self.first)
    }

    /// Both parts as a sum.
    pub(super) fn sum(&self) -> Sum {
        Sum {
            count: number(&self.first),
            hash: number(&self.second),
        }
    }
}

fn part(input: &mut impl Read, len: u32, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.clear();
    // Grows with what comes, not with what is announced.
    let read = input.take(u64::from(len)).read_to_end(bytes)?;
    if read < len as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Writes a frame.
pub(super) fn send(
    output: &mut impl Write,
    kind: u8,
    first: &[u8],
    second: &[u8],
) -> io::Result<()> {
    let len = |part: &[u8]| u32::try_from(part.len()).map_err(io::Error::other);
    output.write_all(&[kind])?;
    output.write_all(&len(first)?.to_le_bytes())?;
    output.write_all(&len(second)?.to_le_bytes())?;
    output.write_all(first)?;
    output.write_all(second)
}

/// Writes the sum of a family.
pub(super) fn send_sum(output: &mut impl Write, sum: Sum) -> io::Result<()> {
    let (count, hash) = (sum.count.to_le_bytes(), sum.hash.to_le_bytes());
    send(output, SUM, &count, &hash)
}

/// How many records there are, and a checksum over keys and values that does not depend on their
/// order. The other side computes the same.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    /// Records.
    pub(super) count: u64,
    /// The checksum.
    pub(super) hash: u64,
}

impl Sum {
    /// Counts a record in.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        let mixed = hashed(hashed(0, key), value);
        self.count += 1;
        self.hash = self.hash.wrapping_add(mixed ^ (mixed >> 32));
    }
}

fn mixed(hash: u64, word: u64) -> u64 {
    (hash ^ word).rotate_left(29).wrapping_mul(FACTOR)
}

fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    let start = mixed(hash, bytes.len() as u64);
    bytes
        .chunks(8)
        .fold(start, |hash, word| mixed(hash, number(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_cut_off_are_told_from_whole_ones() {
        let mut whole = Vec::new();
        send(&mut whole, RECORD, b"key", b"").unwrap();
        let mut frame = Frame::default();
        for len in 0..whole.len() {
            let found = frame.receive(&mut &whole[..len]).unwrap_err();
            assert_eq!(found.kind(), io::ErrorKind::UnexpectedEof, "{len}");
        }
        frame.receive(&mut &whole[..]).unwrap();
        assert_eq!(
            (frame.kind, &frame.first[..], &frame.second[..]),
            (RECORD, &b"key"[..], &b""[..])
        );
    }

    #[test]
    fn a_sum_tells_records_apart_and_forgets_their_order() {
        let sum = |records: &[(&str, &str)]| {
            let mut sum = Sum::default();
            for (key, value) in records {
                sum.add(key.as_bytes(), value.as_bytes());
            }
            sum
        };
        let one = sum(&[("a", "1"), ("b", "2")]);
        assert_eq!(one, sum(&[("b", "2"), ("a", "1")]));
        for other in [
            sum(&[("a", "2"), ("b", "1")]),
            sum(&[("a1", ""), ("b", "2")]),
            sum(&[("a", "1\0"), ("b", "2")]),
            sum(&[("a", "1")]),
        ] {
            assert_ne!(one, other);
        }
    }
}
