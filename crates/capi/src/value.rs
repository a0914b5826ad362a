//! Values, texts, lists and outputs: memory that crosses the border.
//!
//! Threads: each is used by one at a time.

use std::ffi::CString;

use crate::border::{c_string, ArrayMut, Bytes, OwnText, Shown, Value};
use crate::error::quiet;

#[no_mangle]
extern "C" fn heliox_value_free(value: Option<&mut Value>) {
    quiet((), || drop(value.map(Value::take)));
}

#[no_mangle]
extern "C" fn heliox_values_free(values: ArrayMut<'_, Value>, count: usize) {
    quiet((), || {
        if let Ok(values) = values.get(count, "values") {
            values.iter_mut().for_each(|value| drop(value.take()));
        }
    });
}

#[no_mangle]
extern "C" fn heliox_free(text: OwnText) {
    quiet((), || text.free());
}

/// `heliox_list`: texts in order.
pub(crate) struct List(Vec<CString>);

impl List {
    pub(crate) fn of(texts: &[String]) -> Box<List> {
        Box::new(List(texts.iter().map(|text| c_string(text)).collect()))
    }
}

#[no_mangle]
extern "C" fn heliox_list_count(list: Option<&List>) -> usize {
    list.map_or(0, |list| list.0.len())
}

#[no_mangle]
extern "C" fn heliox_list_get(list: Option<&List>, at: usize) -> Shown<'_> {
    let text = list.and_then(|list| list.0.get(at));
    text.map_or(Shown::NULL, |text| Shown::of(text))
}

#[no_mangle]
extern "C" fn heliox_list_free(list: Option<Box<List>>) {
    quiet((), || drop(list));
}

/// `heliox_output`: where a callback puts the value that it gives.
#[derive(Default)]
pub(crate) struct Output(pub(crate) Vec<u8>);

#[no_mangle]
extern "C" fn heliox_output_append(
    output: Option<&mut Output>,
    data: Bytes<'_>,
    len: usize,
) -> bool {
    quiet(false, || match (output, data.get(len, "data")) {
        (Some(output), Ok(bytes)) => {
            output.0.extend_from_slice(bytes);
            true
        }
        _ => false,
    })
}

#[no_mangle]
extern "C" fn heliox_output_clear(output: Option<&mut Output>) {
    if let Some(output) = output {
        output.0.clear();
    }
}
