//! Keyspaces: reads and writes of keys. These are the calls that come by the million: beside the
//! engine's work they check their arguments and no more, and allocate nothing of their own.
//!
//! Threads: any.

use std::cell::RefCell;

use crate::border::{
    need, place, Array, ArrayMut, Buffer, Bytes, Out, OutHandle, Shown, ShownBytes, Slice, Text,
    User, Value,
};
use crate::error::{answer, quiet, ErrorOut};
use crate::failure::{Code, Failure, Result};
use crate::handles::{Keyspace, Snapshot, Store};
use crate::options::WriteOptions;
use crate::value::Output;

/// Finds or makes a keyspace.
fn find(
    store: Option<&Store>,
    name: Text<'_>,
    keyspace: OutHandle<'_, Keyspace>,
    error: ErrorOut<'_>,
    ask: impl FnOnce(&heliox::Store, &str) -> heliox::Result<heliox::Keyspace>,
) -> Code {
    answer(error, || {
        let place = place(keyspace, "keyspace")?;
        let store = &need(store, "store")?.store;
        *place = Some(Keyspace::new(ask(store, name.name("name")?)?, store));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_open(
    store: Option<&Store>,
    name: Text<'_>,
    keyspace: OutHandle<'_, Keyspace>,
    error: ErrorOut<'_>,
) -> Code {
    find(store, name, keyspace, error, heliox::Store::keyspace)
}

#[no_mangle]
extern "C" fn heliox_keyspace_create(
    store: Option<&Store>,
    name: Text<'_>,
    keyspace: OutHandle<'_, Keyspace>,
    error: ErrorOut<'_>,
) -> Code {
    find(store, name, keyspace, error, heliox::Store::create_keyspace)
}

#[no_mangle]
extern "C" fn heliox_keyspace_open_or_create(
    store: Option<&Store>,
    name: Text<'_>,
    keyspace: OutHandle<'_, Keyspace>,
    error: ErrorOut<'_>,
) -> Code {
    let ask = heliox::Store::keyspace_or_create;
    find(store, name, keyspace, error, ask)
}

#[no_mangle]
extern "C" fn heliox_keyspace_drop(
    store: Option<&Store>,
    name: Text<'_>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let store = &need(store, "store")?.store;
        store.drop_keyspace(name.name("name")?)?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_clone(keyspace: Option<&Keyspace>) -> Option<Box<Keyspace>> {
    quiet(None, || {
        keyspace.map(|k| Keyspace::new(k.keyspace.clone(), &k.store))
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_name(keyspace: Option<&Keyspace>) -> Shown<'_> {
    keyspace.map_or(Shown::NULL, |keyspace| Shown::of(&keyspace.name))
}

#[no_mangle]
extern "C" fn heliox_keyspace_free(keyspace: Option<Box<Keyspace>>) {
    quiet((), || drop(keyspace));
}

#[inline]
fn engine(keyspace: Option<&Keyspace>) -> Result<&heliox::Keyspace> {
    Ok(&need(keyspace, "keyspace")?.keyspace)
}

/// What a condition came to.
fn done(changed: bool) -> Code {
    match changed {
        true => Code::Ok,
        false => Code::Unchanged,
    }
}

/// Whether something was there.
#[inline]
fn found(found: bool) -> Code {
    match found {
        true => Code::Ok,
        false => Code::NotFound,
    }
}

#[no_mangle]
extern "C" fn heliox_keyspace_put(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: Bytes<'_>,
    value_len: usize,
    options: Option<&WriteOptions>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let keyspace = engine(keyspace)?;
        let key = key.get(key_len, "key")?;
        let value = value.get(value_len, "value")?;
        match options {
            None => keyspace.put(key, value)?,
            Some(options) => keyspace.put_with(key, value, &options.0)?,
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_put_ttl(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: Bytes<'_>,
    value_len: usize,
    ttl_ms: u64,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let options = heliox::WriteOptions::new().ttl_ms(ttl_ms);
        let (key, value) = (key.get(key_len, "key")?, value.get(value_len, "value")?);
        engine(keyspace)?.put_with(key, value, &options)?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_delete(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    options: Option<&WriteOptions>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let keyspace = engine(keyspace)?;
        let key = key.get(key_len, "key")?;
        match options {
            None => keyspace.delete(key)?,
            Some(options) => keyspace.delete_with(key, &options.0)?,
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_delete_range(
    keyspace: Option<&Keyspace>,
    from: Bytes<'_>,
    from_len: usize,
    to: Bytes<'_>,
    to_len: usize,
    options: Option<&WriteOptions>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let (from, to) = (from.get(from_len, "from")?, to.get(to_len, "to")?);
        let keyspace = engine(keyspace)?;
        match options {
            None => keyspace.delete_range(from, to)?,
            Some(options) => keyspace.delete_range_with(from, to, &options.0)?,
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_delete_prefix(
    keyspace: Option<&Keyspace>,
    prefix: Bytes<'_>,
    prefix_len: usize,
    options: Option<&WriteOptions>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let (keyspace, prefix) = (engine(keyspace)?, prefix.get(prefix_len, "prefix")?);
        match options {
            None => keyspace.delete_prefix(prefix)?,
            Some(options) => keyspace.delete_prefix_with(prefix, &options.0)?,
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_insert_if_absent(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: Bytes<'_>,
    value_len: usize,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let (key, value) = (key.get(key_len, "key")?, value.get(value_len, "value")?);
        Ok(done(engine(keyspace)?.insert_if_absent(key, value)?))
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_replace_if_present(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: Bytes<'_>,
    value_len: usize,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let (key, value) = (key.get(key_len, "key")?, value.get(value_len, "value")?);
        Ok(done(engine(keyspace)?.replace_if_present(key, value)?))
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_compare_and_set(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    expected: Option<&Slice<'_>>,
    next: Option<&Slice<'_>>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let key = key.get(key_len, "key")?;
        let expected = expected.map(|s| s.get("expected")).transpose()?;
        let next = next.map(|s| s.get("next")).transpose()?;
        let changed = engine(keyspace)?.update_if(key, |present| {
            (present == expected).then(|| next.map(<[u8]>::to_vec))
        })?;
        Ok(done(changed))
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_take(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: Option<&mut Value>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = need(value, "value")?;
        drop(place.take());
        let taken = engine(keyspace)?.take(key.get(key_len, "key")?)?;
        Ok(give(place, taken))
    })
}

/// Hands a value over, or that there is none.
fn give(place: &mut Value, value: Option<Vec<u8>>) -> Code {
    let is_there = value.is_some();
    if let Some(value) = value {
        place.put(value);
    }
    found(is_there)
}

/// `heliox_update` as C gives it, which may be any number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct AnyUpdate(u32);

/// `heliox_update`.
#[allow(dead_code)] // the numbers are what counts
#[repr(C)]
pub(crate) enum Updates {
    Keep = 0,
    Put = 1,
    Delete = 2,
}

/// `heliox_update_fn`.
pub(crate) type UpdateFn = extern "C" fn(
    user: User,
    value: ShownBytes<'_>,
    value_len: usize,
    output: Option<&mut Output>,
) -> AnyUpdate;

#[no_mangle]
extern "C" fn heliox_keyspace_update(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    update: Option<UpdateFn>,
    user: User,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let update = need(update, "update")?;
        let changed = engine(keyspace)?.update_if(key.get(key_len, "key")?, |present| {
            let mut output = Output::default();
            let len = present.map_or(0, <[u8]>::len);
            let chosen = update(user, ShownBytes::of(present), len, Some(&mut output));
            match chosen.0 {
                n if n == Updates::Put as u32 => Some(Some(output.0)),
                n if n == Updates::Delete as u32 => Some(None),
                _ => None,
            }
        })?;
        Ok(done(changed))
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_merge(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    operand: Bytes<'_>,
    operand_len: usize,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let operand = operand.get(operand_len, "operand")?;
        engine(keyspace)?.merge(key.get(key_len, "key")?, operand)?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_get(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: Option<&mut Value>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = need(value, "value")?;
        let mut value = place.take();
        value.clear();
        let got = read(keyspace, key, key_len, &mut value);
        place.put(value);
        got
    })
}

#[inline]
fn read(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: &mut Vec<u8>,
) -> Result<Code> {
    let key = key.get(key_len, "key")?;
    Ok(found(engine(keyspace)?.get_into(key, value)?))
}

/// What a thread keeps of the memory that it reads through.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// Where values go before they are copied to memory of the caller's.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[no_mangle]
extern "C" fn heliox_keyspace_get_into(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    buffer: Buffer<'_>,
    capacity: usize,
    value_len: Out<'_, usize>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let mut none = std::mem::MaybeUninit::uninit();
        let value_len = value_len.unwrap_or(&mut none).write(0);
        // Taken out and put back, since a thread may be on its way out.
        let mut value = SCRATCH.try_with(RefCell::take).unwrap_or_default();
        let code = read(keyspace, key, key_len, &mut value)?;
        buffer.fill(capacity, &value)?;
        *value_len = value.len();
        if value.capacity() <= SCRATCH_BYTES_MAX {
            let _ = SCRATCH.try_with(|scratch| scratch.replace(value));
        }
        Ok(code)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_get_range(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    offset: u64,
    len: u64,
    value: Option<&mut Value>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = need(value, "value")?;
        drop(place.take());
        let key = key.get(key_len, "key")?;
        let value = engine(keyspace)?.get_range(key, offset, len)?;
        Ok(give(place, value))
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_get_at(
    keyspace: Option<&Keyspace>,
    snapshot: Option<&Snapshot>,
    key: Bytes<'_>,
    key_len: usize,
    value: Option<&mut Value>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = need(value, "value")?;
        drop(place.take());
        let snapshot = &need(snapshot, "snapshot")?.snapshot;
        let value = engine(keyspace)?.get_at(key.get(key_len, "key")?, snapshot)?;
        Ok(give(place, value))
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_multi_get(
    keyspace: Option<&Keyspace>,
    count: usize,
    keys: Array<'_, Slice<'_>>,
    values: ArrayMut<'_, Value>,
    error: ErrorOut<'_>,
) -> Code {
    multi_get(count, keys, values, error, |keys| {
        Ok(engine(keyspace)?.multi_get(keys)?)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_multi_get_at(
    keyspace: Option<&Keyspace>,
    snapshot: Option<&Snapshot>,
    count: usize,
    keys: Array<'_, Slice<'_>>,
    values: ArrayMut<'_, Value>,
    error: ErrorOut<'_>,
) -> Code {
    multi_get(count, keys, values, error, |keys| {
        let snapshot = &need(snapshot, "snapshot")?.snapshot;
        Ok(engine(keyspace)?.multi_get_at(keys, snapshot)?)
    })
}

fn multi_get(
    count: usize,
    keys: Array<'_, Slice<'_>>,
    values: ArrayMut<'_, Value>,
    error: ErrorOut<'_>,
    get: impl FnOnce(&[Slice<'_>]) -> Result<Vec<Option<Vec<u8>>>>,
) -> Code {
    answer(error, || {
        let values = values.get(count, "values")?;
        values.iter_mut().for_each(|value| drop(value.take()));
        let keys = keys.get(count, "keys")?;
        for key in keys {
            key.get("keys")?;
        }
        let got = get(keys)?;
        if got.len() != count {
            return Err(Failure::Own(
                Code::Internal,
                format!("internal error: {count} keys have {} answers", got.len()),
            ));
        }
        for (place, value) in values.iter_mut().zip(got) {
            give(place, value);
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_keyspace_contains(
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        Ok(found(engine(keyspace)?.contains(key.get(key_len, "key")?)?))
    })
}

/// Bytes of a key that stands for the end of a keyspace, where only an estimate depends on it.
const END: [u8; 64] = [0xff; 64];

#[no_mangle]
extern "C" fn heliox_keyspace_approximate(
    keyspace: Option<&Keyspace>,
    from: Bytes<'_>,
    from_len: usize,
    to: Bytes<'_>,
    to_len: usize,
    count: Out<'_, u64>,
    bytes: Out<'_, u64>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let (mut no_count, mut no_bytes) = (
            std::mem::MaybeUninit::uninit(),
            std::mem::MaybeUninit::uninit(),
        );
        let count = count.unwrap_or(&mut no_count).write(0);
        let bytes = bytes.unwrap_or(&mut no_bytes).write(0);
        let from = from.get(from_len, "from")?;
        let to = match to.is_null() && to_len == 0 {
            true => &END[..],
            false => to.get(to_len, "to")?,
        };
        let about = engine(keyspace)?.approximate(from, to)?;
        *count = about.count;
        *bytes = about.bytes;
        Ok(Code::Ok)
    })
}
