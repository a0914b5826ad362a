//! Stores and snapshots: opening, closing, batches, durability, words about the store.
//!
//! Invariant: freeing the handle of a store closes it, whatever other handles there are. Threads: any.

use crate::border::{need, place, Out, OutHandle, OwnText, Text};
use crate::error::{answer, quiet, ErrorOut};
use crate::failure::Code;
use crate::handles::{Batch, Snapshot, Store};
use crate::options::{path_of, StoreOptions, WriteOptions};
use crate::value::List;

#[no_mangle]
extern "C" fn heliox_store_open(
    path: Text<'_>,
    options: Option<&StoreOptions>,
    store: OutHandle<'_, Store>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = place(store, "store")?;
        let path = path_of(path, options)?;
        let store = heliox::Store::open(path, &StoreOptions::of(options))?;
        *place = Some(Box::new(Store { store }));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_create(
    path: Text<'_>,
    options: Option<&StoreOptions>,
    store: OutHandle<'_, Store>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = place(store, "store")?;
        let path = path_of(path, options)?;
        let store = heliox::Store::create(path, &StoreOptions::of(options))?;
        *place = Some(Box::new(Store { store }));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_destroy(path: Text<'_>, error: ErrorOut<'_>) -> Code {
    answer(error, || {
        heliox::Store::destroy(path.path("path")?)?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_close(store: Option<&Store>, error: ErrorOut<'_>) -> Code {
    answer(error, || {
        need(store, "store")?.store.clone().close()?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_free(store: Option<Box<Store>>) {
    quiet((), || {
        if let Some(store) = store {
            // Who wants to know calls `heliox_store_close` first.
            let _ = store.store.close();
        }
    });
}

#[no_mangle]
extern "C" fn heliox_store_write(
    store: Option<&Store>,
    batch: Option<&Batch>,
    options: Option<&WriteOptions>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let store = &need(store, "store")?.store;
        let batch = &need(batch, "batch")?.0;
        match options {
            None => store.write(batch)?,
            Some(options) => store.write_with(batch, &options.0)?,
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_snapshot(
    store: Option<&Store>,
    snapshot: OutHandle<'_, Snapshot>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = place(snapshot, "snapshot")?;
        let snapshot = need(store, "store")?.store.snapshot()?;
        *place = Some(Box::new(Snapshot { snapshot }));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_snapshot_free(snapshot: Option<Box<Snapshot>>) {
    quiet((), || drop(snapshot));
}

/// Does something to a store that gives nothing but success.
fn run(
    store: Option<&Store>,
    error: ErrorOut<'_>,
    work: impl FnOnce(&heliox::Store) -> heliox::Result<()>,
) -> Code {
    answer(error, || {
        work(&need(store, "store")?.store)?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_flush(store: Option<&Store>, error: ErrorOut<'_>) -> Code {
    run(store, error, heliox::Store::flush)
}

#[no_mangle]
extern "C" fn heliox_store_sync(store: Option<&Store>, error: ErrorOut<'_>) -> Code {
    run(store, error, heliox::Store::sync)
}

#[no_mangle]
extern "C" fn heliox_store_checkpoint(store: Option<&Store>, error: ErrorOut<'_>) -> Code {
    run(store, error, heliox::Store::checkpoint)
}

#[no_mangle]
extern "C" fn heliox_store_describe(
    store: Option<&Store>,
    text: Out<'_, OwnText>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = need(text, "text")?.write(OwnText::NULL);
        *place = OwnText::new(&need(store, "store")?.store.describe());
        Ok(Code::Ok)
    })
}

/// A list of what a store tells.
fn list(
    store: Option<&Store>,
    list: OutHandle<'_, List>,
    error: ErrorOut<'_>,
    ask: impl FnOnce(&heliox::Store) -> Vec<String>,
) -> Code {
    answer(error, || {
        let place = place(list, "list")?;
        *place = Some(List::of(&ask(&need(store, "store")?.store)));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_warnings(
    store: Option<&Store>,
    list: OutHandle<'_, List>,
    error: ErrorOut<'_>,
) -> Code {
    self::list(store, list, error, heliox::Store::warnings)
}

#[no_mangle]
extern "C" fn heliox_store_damage(
    store: Option<&Store>,
    list: OutHandle<'_, List>,
    error: ErrorOut<'_>,
) -> Code {
    self::list(store, list, error, heliox::Store::damage)
}

#[no_mangle]
extern "C" fn heliox_store_keyspaces(
    store: Option<&Store>,
    list: OutHandle<'_, List>,
    error: ErrorOut<'_>,
) -> Code {
    self::list(store, list, error, heliox::Store::keyspaces)
}
