//! Batches. Threads: each is used by one at a time.

use crate::border::{need, Bytes};
use crate::error::{answer, quiet, ErrorOut};
use crate::failure::Code;
use crate::handles::{Batch, Keyspace};

#[no_mangle]
extern "C" fn heliox_batch_create() -> Option<Box<Batch>> {
    quiet(None, || Some(Box::default()))
}

#[no_mangle]
extern "C" fn heliox_batch_clone(batch: Option<&Batch>) -> Option<Box<Batch>> {
    quiet(None, || batch.map(|batch| Box::new(batch.clone())))
}

#[no_mangle]
extern "C" fn heliox_batch_free(batch: Option<Box<Batch>>) {
    quiet((), || drop(batch));
}

#[no_mangle]
extern "C" fn heliox_batch_put(
    batch: Option<&mut Batch>,
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: Bytes<'_>,
    value_len: usize,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let batch = need(batch, "batch")?;
        let keyspace = need(keyspace, "keyspace")?;
        let key = key.get(key_len, "key")?;
        let value = value.get(value_len, "value")?;
        batch.0.put(&keyspace.keyspace, key, value);
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_batch_put_ttl(
    batch: Option<&mut Batch>,
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    value: Bytes<'_>,
    value_len: usize,
    ttl_ms: u64,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let batch = need(batch, "batch")?;
        let keyspace = need(keyspace, "keyspace")?;
        let key = key.get(key_len, "key")?;
        let value = value.get(value_len, "value")?;
        batch.0.put_ttl(&keyspace.keyspace, key, value, ttl_ms);
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_batch_delete(
    batch: Option<&mut Batch>,
    keyspace: Option<&Keyspace>,
    key: Bytes<'_>,
    key_len: usize,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let batch = need(batch, "batch")?;
        let keyspace = need(keyspace, "keyspace")?;
        batch.0.delete(&keyspace.keyspace, key.get(key_len, "key")?);
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_batch_count(batch: Option<&Batch>) -> usize {
    batch.map_or(0, |batch| batch.0.len())
}

#[no_mangle]
extern "C" fn heliox_batch_clear(batch: Option<&mut Batch>) {
    if let Some(batch) = batch {
        batch.0.clear();
    }
}
