//! Which line of the input a byte is on.
//!
//! The parser counts lines of its own, but is off by one behind a carriage return and at blank
//! lines. Here the bytes that it has read ahead are kept (no more than its buffer and one row) and
//! newlines are counted up to where a row begins. One thread.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

/// Bytes that were counted are dropped when there are this many.
const COMPACT_BYTES: usize = 1 << 20;

/// A reader that shows what passes through it to a [`Lines`].
pub(super) struct Tap<R> {
    input: R,
    lines: Rc<RefCell<Lines>>,
}

impl<R: Read> Tap<R> {
    /// A reader of `input`, and the lines of what it reads.
    pub(super) fn new(input: R) -> (Tap<R>, Rc<RefCell<Lines>>) {
        let lines = Rc::new(RefCell::new(Lines::default()));
        (
            Tap {
                input,
                lines: Rc::clone(&lines),
            },
            lines,
        )
    }
}

impl<R: Read> Read for Tap<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buf)?;
        let seen = buf.get(..count).unwrap_or_default();
        self.lines.borrow_mut().window.extend_from_slice(seen);
        Ok(count)
    }
}

/// Counts lines up to where rows begin.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Bytes that were read; those before `counted` are done with.
    window: Vec<u8>,
    counted: usize,
    /// The offset in the input of the first byte of the window.
    base: u64,
    /// Newlines before `counted`.
    newlines: u64,
}

impl Lines {
    /// The number, from 1, of the line on which the row begins that the parser says starts at
    /// `offset`: line ends in front of it are passed over. Offsets must not decrease.
    pub(super) fn line_of_row(&mut self, offset: u64) -> u64 {
        let start = usize::try_from(offset.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let row = self.window.get(start..).unwrap_or_default();
        let ends = row
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        let end = start
            .saturating_add(ends)
            .min(self.window.len())
            .max(self.counted);
        let passed = self.window.get(self.counted..end).unwrap_or_default();
        self.newlines += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.counted = end;
        if self.counted >= COMPACT_BYTES {
            self.window.drain(..self.counted);
            self.base += self.counted as u64;
            self.counted = 0;
        }
        self.newlines + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_behind_all_line_ends() {
        let (mut tap, lines) = Tap::new(&b"id\r\n1\r\n\n\r\n2\n3"[..]);
        io::copy(&mut tap, &mut io::sink()).unwrap();
        let mut lines = lines.borrow_mut();
        // The parser stops behind a carriage return: rows start at the newline after it.
        assert_eq!(
            [0, 3, 6, 12].map(|offset| lines.line_of_row(offset)),
            [1, 2, 5, 6]
        );
    }

    #[test]
    fn counting_goes_on_when_old_bytes_are_dropped() {
        let input = "0123456\n".repeat(COMPACT_BYTES / 2);
        let (mut tap, lines) = Tap::new(input.as_bytes());
        io::copy(&mut tap, &mut io::sink()).unwrap();
        let mut lines = lines.borrow_mut();
        for row in 0..COMPACT_BYTES as u64 / 2 {
            assert_eq!(lines.line_of_row(row * 8), row + 1);
        }
        assert!(lines.window.len() < input.len());
    }
}
