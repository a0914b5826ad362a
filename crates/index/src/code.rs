//! The order-preserving key code: spends few bits on digits and lower case, so that 64 bits of it
//! tell more keys apart than 64 bits of text would.
//!
//! The code is static and depends on the class of the previous byte alone. It is monotone: `a < b`
//! implies `code(a) <= code(b)`. It is not injective: a key and the same key with zero bytes
//! appended agree, and so do keys that agree in the first 512 coded bits. Equal codes are ties
//! like any other, so the empty key and runs of zero bytes need no special case. The keyspace id
//! is coded as it stands. Pure functions; no state.

/// Words of a code; bits beyond are not kept.
const WORDS: usize = 8;
/// Bits of a code.
pub(crate) const CODE_BITS: usize = 64 * WORDS;
/// Bytes at the front that are coded as they stand.
const RAW_BYTES: usize = crate::key::KEYSPACE_BYTES;

const OTHER: usize = 0;
const DIGIT: usize = 1;
const LOWER: usize = 2;

const fn class_of(byte: u8) -> usize {
    match byte {
        b'0'..=b'9' => DIGIT,
        b'a'..=b'z' => LOWER,
        _ => OTHER,
    }
}

/// How many bits a byte takes after a byte of the given class.
const fn width_of(context: usize, byte: u8) -> u32 {
    match (context, class_of(byte)) {
        (DIGIT, DIGIT) => 4,
        (DIGIT, LOWER) => 8,
        (DIGIT, _) => 10,
        (LOWER, LOWER) => 5,
        (LOWER, DIGIT) => 8,
        (LOWER, _) if matches!(byte, b'-' | b'.' | b'/' | b'_') => 9,
        (LOWER, _) => 11,
        _ => 8,
    }
}

/// The code of one byte: left-aligned in 16 bits, and its width.
#[derive(Clone, Copy)]
struct Symbol {
    bits: u16,
    width: u8,
}

const fn symbols() -> [[Symbol; 256]; 3] {
    let mut table = [[Symbol { bits: 0, width: 0 }; 256]; 3];
    let mut context = 0;
    while context < 3 {
        let mut next = 0u32;
        let mut byte = 0;
        while byte < 256 {
            let width = width_of(context, byte as u8);
            let step = 1u32 << (16 - width);
            let bits = next.next_multiple_of(step);
            table[context][byte] = Symbol {
                bits: bits as u16,
                width: width as u8,
            };
            next = bits + step;
            byte += 1;
        }
        // The code space must suffice, or order would be lost.
        assert!(next <= 1 << 16);
        context += 1;
    }
    table
}

static SYMBOLS: [[Symbol; 256]; 3] = symbols();

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
        for &byte in head {
            writer.push(u16::from(byte) << 8, 8);
        }
        let mut context = OTHER;
        for &byte in tail {
            let symbol = SYMBOLS[context][usize::from(byte)];
            writer.push(symbol.bits, u32::from(symbol.width));
            if writer.word >= WORDS {
                break;
            }
            context = class_of(byte);
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
    let mut writer = Writer::new();
    let (mut at, mut context) = (0, OTHER);
    loop {
        let table = if raw.len() < RAW_BYTES {
            &SYMBOLS[OTHER]
        } else {
            &SYMBOLS[context]
        };
        let window = |code: &Coded| (code.bits(at) >> 48) as u16;
        let count = table.partition_point(|symbol| symbol.bits <= window(upto));
        let last = count.checked_sub(1)?;
        let with = |byte: usize| {
            let mut longer = writer.clone();
            longer.push(table[byte].bits, u32::from(table[byte].width));
            longer
        };
        let next = with(last);
        let coded = next.clone().finish();
        if at + usize::from(table[last].width) > CODE_BITS || coded > *upto {
            return None;
        }
        if coded > *below {
            let above = table.partition_point(|symbol| symbol.bits <= window(below));
            let round = (above..last).max_by_key(|byte| table[*byte].bits.trailing_zeros());
            let round = round
                .filter(|byte| with(*byte).finish() > *below)
                .unwrap_or(last);
            let rounder = table[round].bits.trailing_zeros() > table[last].bits.trailing_zeros();
            raw.push(if rounder { round } else { last } as u8);
            return Some(raw);
        }
        at += usize::from(table[last].width);
        raw.push(last as u8);
        writer = next;
        if raw.len() > RAW_BYTES {
            context = class_of(last as u8);
        }
    }
}

/// Packs symbols into words; what does not fit is dropped.
#[derive(Clone)]
struct Writer {
    words: [u64; WORDS],
    pending: u64,
    used: u32,
    word: usize,
}

impl Writer {
    fn new() -> Writer {
        Writer {
            words: [0; WORDS],
            pending: 0,
            used: 0,
            word: 0,
        }
    }

    /// Appends the top `width` bits of `bits`; the others must be zero.
    #[inline(always)]
    fn push(&mut self, bits: u16, width: u32) {
        let wide = u64::from(bits) << 48;
        self.pending |= wide >> self.used;
        self.used += width;
        if self.used >= 64 {
            if let Some(word) = self.words.get_mut(self.word) {
                *word = self.pending;
            }
            self.word += 1;
            self.used -= 64;
            let kept = width - self.used;
            self.pending = wide << kept;
        }
    }

    #[inline]
    fn finish(mut self) -> Coded {
        if let Some(word) = self.words.get_mut(self.word) {
            *word = self.pending;
        }
        Coded(self.words)
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
        prop::collection::vec(byte, 0..90)
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

    #[test]
    fn distinct_codes_are_normally_separated() {
        let code = |key: &[u8]| Coded::of_internal(key);
        let sep = separator(
            &code(b"\0\0\0\x01user1234567"),
            &code(b"\0\0\0\x01user1299"),
        );
        assert_eq!(sep.as_deref(), Some(&b"\0\0\0\x01user127"[..]));
        assert!(separator(&code(b"\0\0\0\x01a"), &code(b"\0\0\0\x01a\0\0")).is_none());
    }
}
