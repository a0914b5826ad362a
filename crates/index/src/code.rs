//! The order-preserving key code: spends few bits on digits, hex and lower case, so that 64 bits of
//! it tell more keys apart than 64 bits of text would, and leaves few gaps between them.
//!
//! A key's code is a number in `[0, 1)`, found by nesting intervals: each byte, in the state that
//! the bytes before it led to, has an interval within that of the bytes before. Intervals of
//! whole symbols are `2^-n` wide but need not be aligned, so three digits take 10 bits (1000 of
//! 1024 places) with room between them for other bytes; the first two digits of three choose a
//! part of an interval and take no bits of their own. States (see `width_of` and `next_of`): runs
//! of digits that are certainly decimal go by threes, others by twos, text that mixes digits and
//! `a` to `f` goes by four bits.
//!
//! The code is static and monotone: `a < b` implies `code(a) <= code(b)`. It is not injective: a
//! key and the same key with zero bytes appended agree, and so do keys that agree in the first 512
//! coded bits. Equal codes are ties like any other, so the empty key and runs of zero bytes need
//! no special case. The keyspace id is coded as it stands. The code is part of the image format.
//! Pure functions; no state.

/// Words of a code; bits beyond are not kept.
const WORDS: usize = 8;
/// Bits of a code.
pub(crate) const CODE_BITS: usize = 64 * WORDS;
/// Bytes at the front that are coded as they stand.
const RAW_BYTES: usize = crate::api::KEYSPACE_BYTES;

/// After other bytes, and at the start.
const OTHER: usize = 0;
/// After one letter, which may be a byte like any other.
const LETTER: usize = 1;
/// In lower case, after a letter that is no hex digit: digits that follow are decimal.
const WORD: usize = 2;
/// In lower case, after `a` to `f` or `x`, where digits may be hex.
const HEX_WORD: usize = 3;
/// After one digit, which may be a byte like any other.
const DIGIT: usize = 4;
/// Digits that may turn out to be hex, by twos: `PAIR` at a pair's start, `PAIR + 1` within it.
const PAIR: usize = 5;
/// Three pairs without a letter are taken to be decimal from then on.
const PAIRS: usize = 3;
/// Decimal digits, by threes: at the start of three, after one, after two.
const TRIPLE: usize = PAIR + 2 * PAIRS;
/// Digits and `a` to `f` mixed.
const HEX: usize = TRIPLE + 3;
const STATES: usize = HEX + 1;

const fn is_mark(byte: u8) -> bool {
    matches!(byte, b'-' | b'.' | b'/' | b':' | b'_')
}

/// Whether the state is within a pair or a triple, and how far: its digits choose only a part.
const fn phase_of(state: usize) -> usize {
    match state {
        PAIR..TRIPLE => (state - PAIR) % 2,
        TRIPLE..HEX => state - TRIPLE,
        _ => 0,
    }
}

/// How many bits a byte takes in a state; 0 if it begins or continues a pair or a triple.
const fn width_of(state: usize, byte: u8) -> u32 {
    match (state, byte) {
        (OTHER, _) => 8,
        (LETTER, b'0'..=b'9' | b'a'..=b'z') => 6,
        (DIGIT, b'0'..=b'9') => 5,
        (DIGIT, b'a'..=b'f') => 6,
        (LETTER | DIGIT, _) => 9,
        (WORD | HEX_WORD, b'a'..=b'z') => 5,
        (WORD | HEX_WORD, b'0'..=b'9') => 7,
        (WORD | HEX_WORD, b'-' | b'.' | b'/' | b'_') => 9,
        (WORD | HEX_WORD, b'A'..=b'Z') => 11,
        // Bytes that are no text get here too, after two that look like letters.
        (WORD | HEX_WORD, _) => 12,
        (HEX, b'0'..=b'9' | b'a'..=b'e') => 4,
        (HEX, b'f') => 5,
        (HEX, b'-') => 7,
        (HEX, b'g'..=b'z') => 11,
        (HEX, _) => 15,
        (PAIR..TRIPLE, _) => match (phase_of(state), byte) {
            (0, b'0'..=b'9') => 0,
            (_, b'0'..=b'9') => 7,
            (0, b'a'..=b'f') => 6,
            (_, b'a'..=b'f') => 10,
            (0, b'g'..=b'z') => 11,
            (0, _) if is_mark(byte) => 8,
            (0, _) => 14,
            (_, b'g'..=b'z') => 15,
            (_, _) if is_mark(byte) => 13,
            _ => 20,
        },
        _ => match (phase_of(state), byte) {
            (0 | 1, b'0'..=b'9') => 0,
            (_, b'0'..=b'9') => 10,
            (phase, b'a'..=b'z') => 13 + 3 * phase as u32,
            (phase, _) if is_mark(byte) => 13 + 3 * phase as u32,
            (phase, _) => 20 + 2 * phase as u32,
        },
    }
}

/// The state after a byte.
const fn next_of(state: usize, byte: u8) -> usize {
    const LAST: usize = TRIPLE + 2;
    match (state, byte) {
        (HEX, b'0'..=b'9' | b'a'..=b'f' | b'-') => HEX,
        (WORD | LAST, b'0'..=b'9') => TRIPLE,
        (DIGIT | HEX_WORD, b'0'..=b'9') => PAIR,
        (OTHER | LETTER, b'0'..=b'9') => DIGIT,
        (OTHER, b'a'..=b'z') => LETTER,
        (_, b'0'..=b'9') => state + 1,
        (LETTER..=HEX_WORD, b'a'..=b'f') | (_, b'x') => HEX_WORD,
        (_, b'a'..=b'f') => HEX,
        (_, b'g'..=b'z') => WORD,
        _ => OTHER,
    }
}

/// One byte in one state.
#[derive(Clone, Copy)]
struct Symbol {
    /// Where its interval starts within the state's, in units of `2^-32`.
    start: u32,
    /// The bits that the position advances by.
    width: u8,
    next: u8,
}

const fn symbols() -> [[Symbol; 256]; STATES] {
    let none = Symbol {
        start: 0,
        width: 0,
        next: 0,
    };
    let mut table = [[none; 256]; STATES];
    let mut sizes = [0u64; STATES];
    // Phases take the size of what follows them, so the last states come first.
    let mut left = STATES;
    while left > 0 {
        left -= 1;
        let (mut end, mut byte) = (0u64, 0);
        while byte < 256 {
            let width = width_of(left, byte as u8);
            let next = next_of(left, byte as u8);
            table[left][byte] = Symbol {
                start: end as u32,
                width: width as u8,
                next: next as u8,
            };
            end += match width {
                0 => sizes[next],
                _ => 1 << (32 - width),
            };
            byte += 1;
        }
        // The room must suffice, or order would be lost.
        assert!(end <= 1 << 32);
        sizes[left] = end;
    }
    table
}

static SYMBOLS: [[Symbol; 256]; STATES] = symbols();

/// The code of a key, cut at [`CODE_BITS`] and padded with zero bits. Compares in key order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Coded([u64; WORDS]);

impl Coded {
    #[cfg(test)]
    pub(crate) const ZERO: Coded = Coded([0; WORDS]);

    /// The code of the internal key `head ++ tail`, of which `head` is coded as it stands.
    #[inline]
    pub(crate) fn of(head: &[u8], tail: &[u8]) -> Coded {
        let mut writer = Writer::new();
        match head.try_into() {
            Ok(whole) => writer.push(u32::from_be_bytes(whole), 32),
            Err(_) => head
                .iter()
                .for_each(|byte| writer.push(u32::from(*byte) << 24, 8)),
        }
        let mut state = OTHER;
        for &byte in tail {
            let symbol = SYMBOLS[state][usize::from(byte)];
            writer.push(symbol.start, u32::from(symbol.width));
            if writer.halves >= 2 * WORDS {
                break;
            }
            state = usize::from(symbol.next);
        }
        writer.finish()
    }

    /// The code of an internal key or of a fence, which may be shorter than a keyspace id.
    pub(crate) fn of_internal(key: &[u8]) -> Coded {
        let (head, tail) = key.split_at(key.len().min(RAW_BYTES));
        Coded::of(head, tail)
    }

    /// The words, big-endian: compares as bytes like the code itself.
    pub(crate) fn to_bytes(self) -> [u8; 8 * WORDS] {
        let mut bytes = [0; 8 * WORDS];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *to = word.to_be_bytes();
        }
        bytes
    }

    /// What `to_bytes` was made of.
    pub(crate) fn from_bytes(bytes: &[u8; 8 * WORDS]) -> Coded {
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_be_bytes(*from);
        }
        Coded(words)
    }

    /// The 64 bits from `offset` on.
    #[inline]
    pub(crate) fn bits(&self, offset: usize) -> u64 {
        let (word, shift) = (offset / 64, offset % 64);
        let high = self.0.get(word).copied().unwrap_or(0);
        if shift == 0 {
            return high;
        }
        let low = self.0.get(word + 1).copied().unwrap_or(0);
        high << shift | low >> (64 - shift)
    }

    /// How many leading bits two codes share.
    pub(crate) fn common_bits(&self, other: &Coded) -> usize {
        for (at, (a, b)) in self.0.iter().zip(&other.0).enumerate() {
            if a != b {
                return at * 64 + (a ^ b).leading_zeros() as usize;
            }
        }
        CODE_BITS
    }

    /// The first `len` bits, then zeros.
    pub(crate) fn truncated(&self, len: usize) -> Coded {
        let mut cut = *self;
        for (at, word) in cut.0.iter_mut().enumerate() {
            let start = at * 64;
            if len <= start {
                *word = 0;
            } else if len < start + 64 {
                *word &= u64::MAX << (start + 64 - len);
            }
        }
        cut
    }

    /// The first `offset` bits, then the 64 bits of `window`, then `fill` (all zeros or all ones).
    pub(crate) fn with_window(&self, offset: usize, window: u64, fill: u64) -> Coded {
        let mut cut = self.truncated(offset);
        let (word, shift) = (offset / 64, offset % 64);
        if let Some(high) = cut.0.get_mut(word) {
            *high |= window >> shift;
        }
        if shift > 0 {
            if let Some(low) = cut.0.get_mut(word + 1) {
                *low = window << (64 - shift) | fill >> shift;
            }
        }
        for later in cut.0.iter_mut().skip(word + 1 + usize::from(shift > 0)) {
            *later = fill;
        }
        cut
    }
}

/// A short raw key whose code lies above `below` and not above `upto`, if one is found.
///
/// Every key whose code is at most `below` is smaller than it, and every key whose code is at
/// least `upto` is not: the result never ends in a zero byte, so among the keys of equal code it
/// is the smallest. Its last byte is the roundest that will do, because leaves between round
/// separators waste few cells.
pub(crate) fn separator(below: &Coded, upto: &Coded) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    let (mut writer, mut state) = (Writer::new(), OTHER);
    if below >= upto {
        return None;
    }
    while writer.position() + 32 <= CODE_BITS {
        let table = &SYMBOLS[state];
        let with = |symbol: &Symbol| writer.clone().with(symbol).finish();
        let last = table
            .partition_point(|symbol| with(symbol) <= *upto)
            .checked_sub(1)?;
        if with(&table[last]) > *below {
            let first = table.partition_point(|symbol| with(symbol) <= *below);
            let round = (first..=last).rev().max_by_key(|byte| roundness(*byte));
            raw.push(round.unwrap_or(last) as u8);
            return Some(raw);
        }
        raw.push(last as u8);
        writer = writer.with(&table[last]);
        if raw.len() > RAW_BYTES {
            state = usize::from(table[last].next);
        }
    }
    None
}

fn roundness(byte: usize) -> u32 {
    match byte as u8 {
        b'5' => 64,
        digit @ b'0'..=b'9' => 32 + (digit - b'0').trailing_zeros(),
        _ => byte.trailing_zeros(),
    }
}

/// Adds nested intervals up; what does not fit is dropped.
#[derive(Clone)]
struct Writer {
    words: [u32; 2 * WORDS],
    /// The halves of words at `halves` and after it.
    pending: u64,
    used: u32,
    halves: usize,
}

impl Writer {
    fn new() -> Writer {
        Writer {
            words: [0; 2 * WORDS],
            pending: 0,
            used: 0,
            halves: 0,
        }
    }

    /// Adds `start`, in units of `2^-32` of the place reached, and moves on by `width` bits, which
    /// are 32 at most.
    #[inline(always)]
    fn push(&mut self, start: u32, width: u32) {
        let (sum, carry) = self
            .pending
            .overflowing_add(u64::from(start) << (32 - self.used));
        self.pending = sum;
        if carry {
            self.carry();
        }
        self.used += width;
        if self.used >= 32 {
            if let Some(half) = self.words.get_mut(self.halves) {
                *half = (self.pending >> 32) as u32;
            }
            self.pending <<= 32;
            self.halves += 1;
            self.used -= 32;
        }
    }

    /// An interval that is not aligned may reach over a border.
    #[cold]
    fn carry(&mut self) {
        for half in self.words[..self.halves.min(2 * WORDS)].iter_mut().rev() {
            *half = half.wrapping_add(1);
            if *half != 0 {
                return;
            }
        }
    }

    fn with(mut self, symbol: &Symbol) -> Writer {
        self.push(symbol.start, u32::from(symbol.width));
        self
    }

    fn position(&self) -> usize {
        32 * self.halves + self.used as usize
    }

    #[inline]
    fn finish(mut self) -> Coded {
        let halves = [(self.pending >> 32) as u32, self.pending as u32];
        for (at, last) in halves.into_iter().enumerate() {
            if let Some(half) = self.words.get_mut(self.halves + at) {
                *half = last;
            }
        }
        let mut words = [0; WORDS];
        for (word, [high, low]) in words.iter_mut().zip(self.words.as_chunks::<2>().0) {
            *word = u64::from(*high) << 32 | u64::from(*low);
        }
        Coded(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            Just(0u8),
            Just(1),
            Just(255),
            b'0'..=b'9',
            b'a'..=b'z',
            Just(b'/'),
            Just(b'-'),
            any::<u8>()
        ];
        let run = prop_oneof![
            prop::collection::vec(byte, 0..4),
            "[0-9]{1,12}".prop_map(String::into_bytes),
            "[0-9a-f]{1,8}".prop_map(String::into_bytes),
            "[a-z]{1,5}".prop_map(String::into_bytes),
        ];
        prop::collection::vec(run, 0..12).prop_map(|runs| runs.concat())
    }

    proptest! {
        #[test]
        fn the_code_keeps_order(a in key(), b in key(), at in 0usize..90) {
            let mut c = a.clone();
            c.truncate(at);
            c.extend_from_slice(&b);
            for (x, y) in [(&a, &b), (&a, &c), (&b, &c)] {
                if x < y {
                    prop_assert!(Coded::of_internal(x) <= Coded::of_internal(y));
                }
            }
        }

        #[test]
        fn a_separator_separates(a in key(), b in key(), at in 0usize..90, probe in key()) {
            let mut c = a.clone();
            c.truncate(at);
            c.extend_from_slice(&b);
            let (low, high) = if a < c { (a, c) } else { (c, a) };
            let (below, upto) = (Coded::of_internal(&low), Coded::of_internal(&high));
            if let Some(sep) = separator(&below, &upto) {
                prop_assert!(low < sep && sep <= high, "{low:?} {sep:?} {high:?}");
                let code = Coded::of_internal(&probe);
                prop_assert!(code > below || probe < sep);
                prop_assert!(code < upto || probe >= sep);
            }
        }

        #[test]
        fn windows_are_read_and_written_alike(a in key(), offset in 0usize..448, window: u64) {
            let code = Coded::of_internal(&a).with_window(offset, window, u64::MAX);
            prop_assert_eq!(code.bits(offset), window);
            prop_assert_eq!(code.truncated(offset), Coded::of_internal(&a).truncated(offset));
            prop_assert!(offset + 64 >= CODE_BITS || code.bits(offset + 1) & 1 == 1);
        }
    }

    /// Every state, every pair of bytes: order is kept whatever follows.
    #[test]
    fn neighbours_keep_order_in_every_state() {
        let fronts = [
            "",
            "q",
            "q1",
            "q12",
            "q123",
            "a",
            "1",
            "12",
            "123",
            "1234",
            "12345",
            "123456",
            "1234567",
            "12345678",
            "123456789",
            "1a",
            "1a-",
            "x",
            "x9",
            "z-",
        ];
        for front in fronts {
            for byte in 0..255u8 {
                let key = |byte: u8, back: &[u8]| {
                    [b"\0\0\0\x01", front.as_bytes(), &[byte], back].concat()
                };
                for back in [&[255; 12][..], b"zzzzzz", b"999999", b"9f9f9f", b""] {
                    let (low, high) = (key(byte, back), key(byte + 1, b""));
                    assert!(
                        Coded::of_internal(&low) < Coded::of_internal(&high),
                        "{low:?} {high:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn distinct_codes_are_normally_separated() {
        let code = |key: &[u8]| Coded::of_internal(key);
        let sep = separator(
            &code(b"\0\0\0\x01user1234567"),
            &code(b"\0\0\0\x01user1299"),
        );
        assert_eq!(sep.as_deref(), Some(&b"\0\0\0\x01user125"[..]));
        assert!(separator(&code(b"\0\0\0\x01a"), &code(b"\0\0\0\x01a\0\0")).is_none());
    }
}
