//! One JSON object a line. The value is the line as it stands, so nothing of it is lost.
//!
//! Blank lines are passed over. A line is never held beyond [`LINE_BYTES_MAX`].

use std::io::{self, BufRead, BufReader, Read};

use super::json_key::key_of;
use super::source::{Malformed, Row, RowSource, SourceError, Step};

/// Longest line taken, in bytes: the largest value of a store and room for spaces around it.
const LINE_BYTES_MAX: usize = 257 << 20;
const BUFFER_BYTES: usize = 256 << 10;
/// What some programs write in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads rows of JSON.
pub(super) struct Ndjson<R> {
    input: BufReader<R>,
    key_field: String,
    line: u64,
    line_bytes_max: usize,
}

impl<R: Read> Ndjson<R> {
    /// Rows from `input`, with the key in `key_field`.
    pub(super) fn new(input: R, key_field: &str) -> Ndjson<R> {
        Ndjson {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            key_field: key_field.to_owned(),
            line: 0,
            line_bytes_max: LINE_BYTES_MAX,
        }
    }

    /// Reads a line without its end into `out`: `None` at the end of the input, false if it is too
    /// long (and was passed over).
    fn read_line(&mut self, out: &mut Vec<u8>) -> io::Result<Option<bool>> {
        out.clear();
        let mut limited = (&mut self.input).take(self.line_bytes_max as u64 + 1);
        if limited.read_until(b'\n', out)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        if out.last() == Some(&b'\n') {
            out.pop();
        } else if out.len() > self.line_bytes_max {
            out.clear();
            self.input.skip_until(b'\n')?;
            return Ok(Some(false));
        }
        Ok(Some(true))
    }

    fn row(&self, row: &mut Row) -> Result<(), String> {
        let text = std::str::from_utf8(&row.value)
            .map_err(|error| format!("no UTF-8 from byte {} on", error.valid_up_to() + 1))?;
        let text = text.trim();
        row.key = key_of(text, &self.key_field)?.into_bytes();
        if text.len() < row.value.len() {
            row.value = text.as_bytes().to_vec();
        }
        Ok(())
    }
}

impl<R: Read> RowSource for Ndjson<R> {
    fn next(&mut self, row: &mut Row) -> Result<Step, SourceError> {
        loop {
            let whole = self.read_line(&mut row.value).map_err(SourceError::Read)?;
            let Some(whole) = whole else {
                return Ok(Step::End);
            };
            let line = self.line;
            if !whole {
                let reason = format!("longer than {} bytes", self.line_bytes_max);
                return Ok(Step::Malformed(Malformed { line, reason }));
            }
            if line == 1 && row.value.starts_with(BYTE_ORDER_MARK) {
                row.value.drain(..BYTE_ORDER_MARK.len());
            }
            if row.value.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            row.line = line;
            return Ok(match self.row(row) {
                Ok(()) => Step::Row,
                Err(reason) => Step::Malformed(Malformed { line, reason }),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read, as text: `line key value` or `line !reason`.
    fn read(mut source: Ndjson<&[u8]>) -> Vec<String> {
        let mut row = Row::default();
        let mut found = Vec::new();
        loop {
            match source.next(&mut row).unwrap() {
                Step::End => return found,
                Step::Malformed(Malformed { line, reason }) => {
                    found.push(format!("{line} !{reason}"));
                }
                Step::Row => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    found.push(format!(
                        "{} {} {}",
                        row.line,
                        text(&row.key),
                        text(&row.value)
                    ));
                }
            }
        }
    }

    #[test]
    fn lines_are_rows_and_blank_ones_are_passed_over() {
        let input =
            b"\xef\xbb\xbf{\"k\":\"a\"}\r\n\n  {\"k\":2, \"x\": 1.50}  \n\t\n{\"k\":\"end\"}";
        assert_eq!(
            read(Ndjson::new(&input[..], "k")),
            [
                "1 a {\"k\":\"a\"}",
                "3 2 {\"k\":2, \"x\": 1.50}",
                "5 end {\"k\":\"end\"}"
            ]
        );
    }

    #[test]
    fn malformed_lines_are_named_and_reading_goes_on() {
        let input = b"{\"k\":1}\nnonsense\n{\"k\":\"\xff\"}\n{\"j\":1}\n{\"k\":2}\n";
        let found = read(Ndjson::new(&input[..], "k"));
        assert_eq!(found.len(), 5);
        assert!(found[1].starts_with("2 !expected"), "{found:?}");
        assert_eq!(found[2], "3 !no UTF-8 from byte 7 on");
        assert!(found[3].starts_with("4 !there is no field"), "{found:?}");
        assert!(found[4].starts_with("5 2 "), "{found:?}");
    }

    #[test]
    fn an_endless_line_is_passed_over_and_the_next_is_read() {
        let input = format!("{{\"k\":1}}\n{}\n{{\"k\":2}}\n", "x".repeat(500));
        let mut source = Ndjson::new(input.as_bytes(), "k");
        source.line_bytes_max = 100;
        let found = read(source);
        assert_eq!(found[1], "2 !longer than 100 bytes");
        assert!(found[2].starts_with("3 2 "), "{found:?}");
    }
}
