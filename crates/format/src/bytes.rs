//! Reading and writing of integers and lengths: the primitives of every codec in this crate.
//!
//! A [`Reader`] never reads past its end: it answers `None`, and the codec turns that into an
//! error that names the structure.

/// A position in borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        if n > self.rest.len() {
            return None;
        }
        let (head, rest) = self.rest.split_at(n);
        self.rest = rest;
        Some(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An unsigned integer of `n` bytes, `n` at most 8.
    pub fn uint(&mut self, n: usize) -> Option<u64> {
        let mut wide = [0u8; 8];
        wide.get_mut(..n)?.copy_from_slice(self.take(n)?);
        Some(u64::from_le_bytes(wide))
    }

    /// An unsigned LEB128 integer; `None` also for one that does not fit 64 bits.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A varint length and that many bytes.
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }
}

/// Appends integers to a vector.
pub trait WriteBytes {
    /// Appends raw bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends an unsigned LEB128 integer (1 to 10 bytes).
    #[inline(always)]
    fn put_varint(&mut self, mut value: u64) {
        if value < 0x80 {
            return self.put(&[value as u8]);
        }
        let (mut bytes, mut len) = ([0; 10], 1);
        for byte in &mut bytes {
            *byte = value as u8 | 0x80;
            value >>= 7;
            if value == 0 {
                *byte &= 0x7f;
                break;
            }
            len += 1;
        }
        self.put(bytes.get(..len).unwrap_or_default());
    }

    /// Appends the low `n` bytes of `value`, `n` at most 8.
    #[inline(always)]
    fn put_uint(&mut self, value: u64, n: usize) {
        self.put(&value.to_le_bytes()[..n.min(8)]);
    }

    /// Appends four bytes.
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends eight bytes.
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a varint length and the bytes.
    fn put_prefixed(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.put(bytes);
    }
}

impl WriteBytes for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Up to `N` bytes on the stack.
#[derive(Clone, Copy, Debug)]
pub struct StackBytes<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for StackBytes<N> {
    fn default() -> StackBytes<N> {
        StackBytes {
            bytes: [0; N],
            len: 0,
        }
    }
}

impl<const N: usize> std::ops::Deref for StackBytes<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl<const N: usize> WriteBytes for StackBytes<N> {
    /// Appends bytes for which there must be room.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        let place = self.bytes.get_mut(self.len..self.len + bytes.len());
        debug_assert!(place.is_some(), "more bytes than the stack was given");
        if let Some(place) = place {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}

/// How many bytes a varint of this value takes.
#[must_use]
pub fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                out.put_varint(value);
                assert_eq!(out.len(), varint_bytes(value));
                assert_eq!(Reader::new(&out).varint(), Some(value));
            }
        }
    }

    #[test]
    fn a_varint_beyond_64_bits_or_cut_short_is_refused() {
        assert_eq!(Reader::new(&[0xff; 9]).varint(), None);
        assert_eq!(Reader::new(&[0xff; 10]).varint(), None);
        let mut two_to_64 = [0x80u8; 10];
        two_to_64[9] = 2;
        assert_eq!(Reader::new(&two_to_64).varint(), None);
    }

    #[test]
    fn a_reader_never_passes_its_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.u16(), Some(0x0201));
        assert_eq!(reader.uint(2), None);
        assert_eq!(reader.u8(), Some(3));
        assert_eq!(reader.u8(), None);
    }
}
