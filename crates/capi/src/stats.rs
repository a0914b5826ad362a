//! Figures by name, one by one and as JSON. Threads: any.

use std::fmt::Write;

use heliox::StatValue;

use crate::border::{c_string, need, Out, OwnText, Shown, Text, User};
use crate::error::{answer, ErrorOut};
use crate::failure::Code;
use crate::handles::Store;

/// `heliox_stat_fn`.
pub(crate) type StatFn = extern "C" fn(user: User, name: Shown<'_>, value: u64, text: Shown<'_>);

#[no_mangle]
extern "C" fn heliox_store_stats(
    store: Option<&Store>,
    visit: Option<StatFn>,
    user: User,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let visit = need(visit, "visit")?;
        for (name, value) in need(store, "store")?.store.stats().entries() {
            let name = c_string(name);
            match value.as_u64() {
                Some(number) => visit(user, Shown::of(&name), number, Shown::NULL),
                None => {
                    let text = c_string(&value.to_string());
                    visit(user, Shown::of(&name), 0, Shown::of(&text));
                }
            }
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_stat(
    store: Option<&Store>,
    name: Text<'_>,
    value: Out<'_, u64>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = need(value, "value")?.write(0);
        let name = name.name("name")?;
        let entries = need(store, "store")?.store.stats().entries();
        let found = entries.iter().find(|(known, _)| *known == name);
        match found.and_then(|(_, value)| value.as_u64()) {
            Some(number) => *place = number,
            None => return Ok(Code::NotFound),
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_stats_json(
    store: Option<&Store>,
    json: Out<'_, OwnText>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = need(json, "json")?.write(OwnText::NULL);
        let entries = need(store, "store")?.store.stats().entries();
        *place = OwnText::new(&to_json(&entries));
        Ok(Code::Ok)
    })
}

fn to_json(entries: &[(&str, StatValue)]) -> String {
    let mut json = String::from("{");
    for (n, (name, value)) in entries.iter().enumerate() {
        json.push_str(if n == 0 { "" } else { "," });
        push_string(&mut json, name);
        json.push(':');
        match value.as_u64() {
            Some(number) => json.push_str(&number.to_string()),
            None => push_string(&mut json, &value.to_string()),
        }
    }
    json.push('}');
    json
}

fn push_string(json: &mut String, text: &str) {
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            letter if u32::from(letter) < 0x20 => {
                // Writing to a string cannot fail.
                let _ = write!(json, "\\u{:04x}", u32::from(letter));
            }
            letter => json.push(letter),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_escaped() {
        let entries = [
            ("objects", StatValue::Count(7)),
            ("health", StatValue::Text("a \"b\" \\ \n c".to_owned())),
        ];
        assert_eq!(
            to_json(&entries),
            r#"{"objects":7,"health":"a \"b\" \\ \u000a c"}"#
        );
        assert_eq!(to_json(&[]), "{}");
    }
}
