//! Finds one field of a JSON object while the whole object is checked, without building it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The text of the field `name` of the object in `json`: a string's characters, or a number or
/// truth value as written. Of a repeated field the last one counts.
///
/// # Errors
/// The text is no JSON object, or the field is missing or holds nothing that could be a key.
pub(super) fn key_of(json: &str, name: &str) -> Result<String, String> {
    let mut parser = serde_json::Deserializer::from_str(json);
    let raw = FieldOf(name)
        .deserialize(&mut parser)
        .map_err(|error| plain(&error))?;
    parser.end().map_err(|error| plain(&error))?;
    let raw = raw
        .ok_or_else(|| format!("there is no field {name:?}"))?
        .get();
    match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw).map_err(|error| plain(&error)),
        Some(b'{') => Err(format!("the field {name:?} is an object")),
        Some(b'[') => Err(format!("the field {name:?} is a list")),
        Some(b'n') => Err(format!("the field {name:?} is null")),
        _ => Ok(raw.to_owned()),
    }
}

/// The parser sees one line at a time: its line number would mislead.
fn plain(error: &serde_json::Error) -> String {
    error
        .to_string()
        .replace(" at line 1 column ", " at column ")
}

struct FieldOf<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for FieldOf<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldOf<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = fields.next_key_seed(NameIs(self.0))? {
            if is_it {
                found = Some(fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct NameIs<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for NameIs<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<bool, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for NameIs<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_from_strings_numbers_and_truth_values() {
        for (json, key) in [
            (r#"{"id":"a\u00e9\n","x":[1,{"id":"no"}]}"#, "a\u{e9}\n"),
            (
                r#"{"x":null,"id":12345678901234567890123.50}"#,
                "12345678901234567890123.50",
            ),
            (r#"{"id":true}"#, "true"),
            (r#"{"id":""}"#, ""),
            (r#"{"id":1,"id":2}"#, "2"),
            (r#" { "\u0069d" : -0 } "#, "-0"),
        ] {
            assert_eq!(key_of(json, "id").as_deref(), Ok(key), "{json}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
        for (json, reason) in [
            (r#"{"x":1}"#, "no field"),
            (r#"{"id":null}"#, "is null"),
            (r#"{"id":{}}"#, "is an object"),
            (r#"{"id":[]}"#, "is a list"),
            (r#"[1]"#, "expected a JSON object"),
            (r#""id""#, "expected a JSON object"),
            (r#"{"id":1"#, "EOF"),
            (r#"{"id":1} x"#, "trailing characters at column 10"),
            (r#"{"id":1,"x":tru}"#, "column"),
            ("", "EOF"),
        ] {
            let found = key_of(json, "id").unwrap_err();
            assert!(found.contains(reason), "{json}: {found}");
            assert!(!found.contains("line 1"), "{found}");
        }
    }
}
