//! Options of stores and of writes, key sources, volumes, and the callbacks that options carry.
//!
//! Threads: options are used by one at a time; key sources and volumes by any number.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heliox::{Durability, IoMode, KeySource, Media, MergeOperator, Options};
use heliox_media::MemoryMedia;

use crate::border::{need, place, Bytes, DestroyFn, Kept, OutHandle, ShownBytes, Text, User};
use crate::error::{answer, quiet, ErrorOut};
use crate::failure::{Code, Failure, Result};
use crate::report::{EventFn, EventShown};
use crate::value::Output;

/// Bytes of a key that encrypts a store.
const KEY_BYTES: usize = 32;
/// The sector of a volume in memory.
const MEMORY_SECTOR_BYTES: u32 = 512;

/// `heliox_options`.
#[derive(Clone, Default)]
pub(crate) struct StoreOptions {
    options: Options,
    devices: Vec<PathBuf>,
    volumes: Vec<Arc<dyn Media>>,
}

impl StoreOptions {
    /// The engine's options; the defaults for none.
    pub(crate) fn of(options: Option<&StoreOptions>) -> Options {
        options.map_or_else(Options::new, |o| o.options.clone())
    }

    /// True if the store is in memory, so that it has no path.
    pub(crate) fn in_memory(options: Option<&StoreOptions>) -> bool {
        options.is_some_and(|o| !o.volumes.is_empty())
    }
}

/// The path; a store in memory needs none.
pub(crate) fn path_of<'a>(path: Text<'a>, options: Option<&StoreOptions>) -> Result<&'a Path> {
    match path.is_null() && StoreOptions::in_memory(options) {
        true => Ok(Path::new("")),
        false => path.path("path"),
    }
}

/// Changes options by one of the engine's setters.
fn set(options: Option<&mut StoreOptions>, change: impl FnOnce(Options) -> Options) -> Code {
    answer(None, || {
        let options = need(options, "options")?;
        options.options = change(mem::take(&mut options.options));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_options_create() -> Option<Box<StoreOptions>> {
    quiet(None, || Some(Box::default()))
}

#[no_mangle]
extern "C" fn heliox_options_clone(options: Option<&StoreOptions>) -> Option<Box<StoreOptions>> {
    quiet(None, || options.map(|options| Box::new(options.clone())))
}

#[no_mangle]
extern "C" fn heliox_options_free(options: Option<Box<StoreOptions>>) {
    quiet((), || drop(options));
}

#[no_mangle]
extern "C" fn heliox_options_set_create_if_missing(
    options: Option<&mut StoreOptions>,
    create: bool,
) -> Code {
    set(options, |o| o.create_if_missing(create))
}

#[no_mangle]
extern "C" fn heliox_options_set_read_only(
    options: Option<&mut StoreOptions>,
    read_only: bool,
) -> Code {
    set(options, |o| o.read_only(read_only))
}

#[no_mangle]
extern "C" fn heliox_options_set_durability_sync(options: Option<&mut StoreOptions>) -> Code {
    set(options, |o| o.durability(Durability::Sync))
}

#[no_mangle]
extern "C" fn heliox_options_set_durability_bounded(
    options: Option<&mut StoreOptions>,
    ms: u64,
    bytes: u64,
) -> Code {
    set(options, |o| o.durability(Durability::Bounded { ms, bytes }))
}

#[no_mangle]
extern "C" fn heliox_options_set_durability_none(options: Option<&mut StoreOptions>) -> Code {
    set(options, |o| o.durability(Durability::None))
}

#[no_mangle]
extern "C" fn heliox_options_add_device(
    options: Option<&mut StoreOptions>,
    path: Text<'_>,
) -> Code {
    answer(None, || {
        let options = need(options, "options")?;
        options.devices.push(path.path("path")?.to_owned());
        let devices = options.devices.clone();
        options.options = mem::take(&mut options.options).devices(devices);
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_options_add_volume(
    options: Option<&mut StoreOptions>,
    volume: Option<&Volume>,
) -> Code {
    answer(None, || {
        let options = need(options, "options")?;
        options.volumes.push(need(volume, "volume")?.0.clone());
        let volumes = options.volumes.clone();
        options.options = mem::take(&mut options.options).volumes(volumes);
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_options_set_capacity_bytes(
    options: Option<&mut StoreOptions>,
    bytes: u64,
) -> Code {
    set(options, |o| o.capacity_bytes(bytes))
}

#[no_mangle]
extern "C" fn heliox_options_set_exact(options: Option<&mut StoreOptions>, exact: bool) -> Code {
    set(options, |o| o.exact(exact))
}

#[no_mangle]
extern "C" fn heliox_options_set_encryption(
    options: Option<&mut StoreOptions>,
    key: Option<&Key>,
) -> Code {
    answer(None, || {
        let key = need(key, "key")?.0.clone();
        Ok(set(options, |o| o.encryption(key)))
    })
}

/// `heliox_merge_fn`.
pub(crate) type MergeFn = extern "C" fn(
    user: User,
    key: ShownBytes<'_>,
    key_len: usize,
    base: ShownBytes<'_>,
    base_len: usize,
    operand: ShownBytes<'_>,
    operand_len: usize,
    output: Option<&mut Output>,
) -> bool;

struct Merge {
    name: String,
    merge: MergeFn,
    kept: Kept,
}

impl MergeOperator for Merge {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let mut output = Output::default();
        let taken = (self.merge)(
            self.kept.user(),
            ShownBytes::of(Some(key)),
            key.len(),
            ShownBytes::of(base),
            base.map_or(0, <[u8]>::len),
            ShownBytes::of(Some(operand)),
            operand.len(),
            Some(&mut output),
        );
        taken.then_some(output.0)
    }
}

#[no_mangle]
extern "C" fn heliox_options_set_merge_operator(
    options: Option<&mut StoreOptions>,
    name: Text<'_>,
    merge: Option<MergeFn>,
    user: User,
    destroy: Option<DestroyFn>,
) -> Code {
    answer(None, || {
        let options = need(options, "options")?;
        let operator = Merge {
            name: name.name("name")?.to_owned(),
            merge: need(merge, "merge")?,
            kept: Kept::new(user, destroy),
        };
        options.options = mem::take(&mut options.options).merge_operator(Arc::new(operator));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_options_set_event_listener(
    options: Option<&mut StoreOptions>,
    listener: Option<EventFn>,
    user: User,
    destroy: Option<DestroyFn>,
) -> Code {
    answer(None, || {
        let options = need(options, "options")?;
        let listener = need(listener, "listener")?;
        let kept = Kept::new(user, destroy);
        options.options = mem::take(&mut options.options).on_event(Arc::new(move |event| {
            EventShown::of(event).give(listener, kept.user());
        }));
        Ok(Code::Ok)
    })
}

/// `heliox_io_mode` as C gives it, which may be any number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct AnyIoMode(u32);

/// `heliox_io_mode`.
#[allow(dead_code)] // the numbers are what counts
#[repr(C)]
pub(crate) enum IoModes {
    Auto = 0,
    Uring = 1,
    Blocking = 2,
}

impl AnyIoMode {
    fn mode(self) -> Result<IoMode> {
        match self.0 {
            n if n == IoModes::Auto as u32 => Ok(IoMode::Auto),
            n if n == IoModes::Uring as u32 => Ok(IoMode::Uring),
            n if n == IoModes::Blocking as u32 => Ok(IoMode::Blocking),
            other => Err(Failure::invalid(format!(
                "io_mode: {other} is none of them"
            ))),
        }
    }
}

#[no_mangle]
extern "C" fn heliox_options_set_memory_budget_bytes(
    options: Option<&mut StoreOptions>,
    bytes: u64,
) -> Code {
    set(options, |o| o.memory_budget_bytes(bytes))
}

#[no_mangle]
extern "C" fn heliox_options_set_segment_bytes(
    options: Option<&mut StoreOptions>,
    bytes: u64,
) -> Code {
    set(options, |o| o.segment_bytes(bytes))
}

#[no_mangle]
extern "C" fn heliox_options_set_scrub_period_secs(
    options: Option<&mut StoreOptions>,
    secs: u64,
) -> Code {
    set(options, |o| o.scrub_period_secs(secs))
}

#[no_mangle]
extern "C" fn heliox_options_set_io_mode(
    options: Option<&mut StoreOptions>,
    mode: AnyIoMode,
) -> Code {
    answer(None, || {
        let mode = mode.mode()?;
        Ok(set(options, |o| o.io(mode)))
    })
}

/// `heliox_key_source`.
pub(crate) struct Key(pub(crate) KeySource);

#[no_mangle]
extern "C" fn heliox_key_source_file(path: Text<'_>) -> Option<Box<Key>> {
    quiet(None, || {
        let path = path.path("path").ok()?;
        Some(Box::new(Key(KeySource::file(path))))
    })
}

#[no_mangle]
extern "C" fn heliox_key_source_command(command: Text<'_>) -> Option<Box<Key>> {
    quiet(None, || {
        let command = command.name("command").ok()?;
        Some(Box::new(Key(KeySource::command(command))))
    })
}

#[no_mangle]
extern "C" fn heliox_key_source_bytes(key: Bytes<'_>) -> Option<Box<Key>> {
    quiet(None, || {
        let bytes = key.get(KEY_BYTES, "key").ok()?;
        let key = <[u8; KEY_BYTES]>::try_from(bytes).ok()?;
        Some(Box::new(Key(KeySource::bytes(key))))
    })
}

#[no_mangle]
extern "C" fn heliox_key_source_free(key: Option<Box<Key>>) {
    quiet((), || drop(key));
}

/// `heliox_volume`.
pub(crate) struct Volume(Arc<dyn Media>);

#[no_mangle]
extern "C" fn heliox_volume_create_memory(
    bytes: u64,
    volume: OutHandle<'_, Volume>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let volume = place(volume, "volume")?;
        let media = MemoryMedia::new(bytes, MEMORY_SECTOR_BYTES).map_err(heliox::Error::from)?;
        *volume = Some(Box::new(Volume(Arc::new(media))));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_volume_free(volume: Option<Box<Volume>>) {
    quiet((), || drop(volume));
}

/// `heliox_write_options`.
#[derive(Default)]
pub(crate) struct WriteOptions(pub(crate) heliox::WriteOptions);

fn set_write(
    options: Option<&mut WriteOptions>,
    change: impl FnOnce(heliox::WriteOptions) -> heliox::WriteOptions,
) -> Code {
    answer(None, || {
        let options = need(options, "options")?;
        options.0 = change(options.0);
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_write_options_create() -> Option<Box<WriteOptions>> {
    quiet(None, || Some(Box::default()))
}

#[no_mangle]
extern "C" fn heliox_write_options_free(options: Option<Box<WriteOptions>>) {
    quiet((), || drop(options));
}

#[no_mangle]
extern "C" fn heliox_write_options_set_durability_sync(options: Option<&mut WriteOptions>) -> Code {
    set_write(options, |o| o.durability(Durability::Sync))
}

#[no_mangle]
extern "C" fn heliox_write_options_set_durability_bounded(
    options: Option<&mut WriteOptions>,
    ms: u64,
    bytes: u64,
) -> Code {
    set_write(options, |o| o.durability(Durability::Bounded { ms, bytes }))
}

#[no_mangle]
extern "C" fn heliox_write_options_set_durability_none(options: Option<&mut WriteOptions>) -> Code {
    set_write(options, |o| o.durability(Durability::None))
}

#[no_mangle]
extern "C" fn heliox_write_options_set_ttl_ms(
    options: Option<&mut WriteOptions>,
    ttl_ms: u64,
) -> Code {
    set_write(options, |o| o.ttl_ms(ttl_ms))
}

#[no_mangle]
extern "C" fn heliox_write_options_clear(options: Option<&mut WriteOptions>) -> Code {
    set_write(options, |_| heliox::WriteOptions::new())
}

/// What the header says of threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn handed_over<T: Send>() {}
    shared::<Key>();
    shared::<Volume>();
    handed_over::<StoreOptions>();
    handed_over::<WriteOptions>();
    handed_over::<crate::handles::Batch>();
};
