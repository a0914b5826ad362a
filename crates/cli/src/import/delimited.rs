//! Rows separated by commas or tabs, with the names of the columns in the first line.
//!
//! Fields of CSV may be quoted and hold line breaks; fields of TSV are taken as they stand. The
//! value is an object of strings, in the order of the columns.

use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use super::lines::{Lines, Tap};
use super::source::{Malformed, Row, RowSource, SourceError, Step};

const BUFFER_BYTES: usize = 256 << 10;

/// Reads delimited rows.
pub(super) struct Delimited<R> {
    reader: csv::Reader<Tap<R>>,
    lines: Rc<RefCell<Lines>>,
    /// The names of the columns as JSON, each with its colon.
    names: Vec<Vec<u8>>,
    key_column: usize,
    record: ByteRecord,
}

impl<R: Read> Delimited<R> {
    /// Rows separated by commas from `input`, with the key in the column `key_field`.
    ///
    /// # Errors
    /// The first line cannot be read or has no such column, or has a name twice.
    pub(super) fn csv(input: R, key_field: &str) -> Result<Delimited<R>, SourceError> {
        Delimited::new(input, key_field, b',', true)
    }

    /// Rows separated by tabs from `input`, with the key in the column `key_field`.
    ///
    /// # Errors
    /// The first line cannot be read or has no such column, or has a name twice.
    pub(super) fn tsv(input: R, key_field: &str) -> Result<Delimited<R>, SourceError> {
        Delimited::new(input, key_field, b'\t', false)
    }

    fn new(input: R, key: &str, delimiter: u8, quoting: bool) -> Result<Self, SourceError> {
        let (input, lines) = Tap::new(input);
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .quoting(quoting)
            .flexible(true)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(input);
        let names = match reader.headers() {
            Ok(names) => names.iter().map(str::to_owned).collect::<Vec<_>>(),
            Err(error) => return Err(header_error(error)),
        };
        let key_column = key_column(&names, key).map_err(SourceError::Header)?;
        let names = names.iter().map(|name| json_name(name)).collect();
        Ok(Delimited {
            reader,
            lines,
            names,
            key_column,
            record: ByteRecord::new(),
        })
    }

    fn row(&self, row: &mut Row) -> Result<(), String> {
        let (found, expected) = (self.record.len(), self.names.len());
        if found != expected {
            return Err(format!(
                "{found} fields where the first line has {expected}"
            ));
        }
        let key = self.record.get(self.key_column).unwrap_or_default();
        if key.is_empty() {
            return Err("the key field is empty".to_owned());
        }
        row.key.clear();
        row.key.extend_from_slice(key);
        row.value.clear();
        row.value.push(b'{');
        for (place, (name, field)) in self.names.iter().zip(&self.record).enumerate() {
            if place > 0 {
                row.value.push(b',');
            }
            let text = std::str::from_utf8(field)
                .map_err(|_| format!("field {} is no UTF-8", place + 1))?;
            row.value.extend_from_slice(name);
            push_json(text, &mut row.value);
        }
        row.value.push(b'}');
        Ok(())
    }
}

impl<R: Read> RowSource for Delimited<R> {
    fn next(&mut self, row: &mut Row) -> Result<Step, SourceError> {
        match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => return Ok(Step::End),
            Ok(true) => {}
            Err(error) => return unreadable(error),
        }
        let offset = self.record.position().map_or(0, csv::Position::byte);
        row.line = self.lines.borrow_mut().line_of_row(offset);
        Ok(match self.row(row) {
            Ok(()) => Step::Row,
            Err(reason) => Step::Malformed(Malformed {
                line: row.line,
                reason,
            }),
        })
    }
}

fn unreadable(error: csv::Error) -> Result<Step, SourceError> {
    let line = error.position().map_or(0, csv::Position::line);
    let reason = error.to_string();
    match error.into_kind() {
        ErrorKind::Io(source) => Err(SourceError::Read(source)),
        _ => Ok(Step::Malformed(Malformed { line, reason })),
    }
}

fn header_error(error: csv::Error) -> SourceError {
    let reason = format!("line 1: {error}");
    match error.into_kind() {
        ErrorKind::Io(source) => SourceError::Read(source),
        _ => SourceError::Header(reason),
    }
}

fn key_column(names: &[String], key: &str) -> Result<usize, String> {
    if names.is_empty() {
        return Err("there is no first line with the names of the columns".to_owned());
    }
    for (place, name) in names.iter().enumerate() {
        if names.iter().take(place).any(|other| other == name) {
            return Err(format!("line 1: the column {name:?} occurs twice"));
        }
    }
    let place = names.iter().position(|name| name == key);
    place.ok_or_else(|| {
        format!(
            "line 1: there is no column {key:?}; the columns are {}",
            names.join(", ")
        )
    })
}

fn json_name(name: &str) -> Vec<u8> {
    let mut json = Vec::new();
    push_json(name, &mut json);
    json.push(b':');
    json
}

fn push_json(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read, as text: `line key value` or `line !reason`.
    fn read(mut source: Delimited<&[u8]>) -> Vec<String> {
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
    fn rows_become_objects_in_the_order_of_the_columns() {
        let input = b"\xef\xbb\xbfz,id,a\r\n1,x,\"two\nlines, \"\"quoted\"\"\"\r\n2,y,\xc3\xa9\r\n";
        assert_eq!(
            read(Delimited::csv(&input[..], "id").unwrap()),
            [
                r#"2 x {"z":"1","id":"x","a":"two\nlines, \"quoted\""}"#,
                r#"4 y {"z":"2","id":"y","a":"é"}"#,
            ]
        );
    }

    #[test]
    fn tabs_separate_and_quotes_are_plain_characters() {
        let input = b"id\tsays\n1\t\"open\n2\tshut\"\n";
        assert_eq!(
            read(Delimited::tsv(&input[..], "id").unwrap()),
            [r#"1 "open"#, r#"2 shut""#].map(|says| {
                let (id, says) = says.split_once(' ').unwrap();
                let says = says.replace('"', "\\\"");
                let line = id.parse::<u32>().unwrap() + 1;
                format!("{line} {id} {{\"id\":\"{id}\",\"says\":\"{says}\"}}")
            })
        );
    }

    #[test]
    fn malformed_rows_are_named_and_reading_goes_on() {
        let input = b"id,x\r\n1,a\n2\n3,c,d\n,e\r\n5,\xff\r\n\r\n\n6\n7,f\n";
        let found = read(Delimited::csv(&input[..], "id").unwrap());
        assert_eq!(found[1], "3 !1 fields where the first line has 2");
        assert_eq!(found[2], "4 !3 fields where the first line has 2");
        assert_eq!(found[3], "5 !the key field is empty");
        assert_eq!(found[4], "6 !field 2 is no UTF-8");
        assert_eq!(found[5], "9 !1 fields where the first line has 2");
        assert!(found[6].starts_with("10 7 "), "{found:?}");
    }

    #[test]
    fn a_useless_first_line_is_refused() {
        for (input, reason) in [
            ("", "no first line"),
            ("a,b\n", "no column"),
            ("id,a,a\n", "twice"),
        ] {
            match Delimited::csv(input.as_bytes(), "id") {
                Err(SourceError::Header(found)) => assert!(found.contains(reason), "{found}"),
                _ => panic!("{input:?} was accepted"),
            }
        }
    }
}
