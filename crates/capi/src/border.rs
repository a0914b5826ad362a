//! What crosses the border: arguments as C gives them, places for results, memory that C holds.
//!
//! Handles cross as `Option<&T>`, `Option<&mut T>` and `Option<Box<T>>`, whose layout is that of a
//! pointer that may be null. The types here stand for the pointers that Rust has no such type for.
//! None of them can be made in Rust: only a caller in C gives one, and vouches for it by the rules at
//! the head of `heliox.h`. That is what all `unsafe` in this crate leans on, and why it stands here.
//!
//! Invariant: a null is told by its name, never followed. Threads: none of its own.

use std::ffi::{c_char, c_void, CStr, CString, OsStr};
use std::marker::PhantomData;
use std::mem::{size_of, ManuallyDrop, MaybeUninit};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;

use crate::failure::{Failure, Result};

/// A place for a result, which nobody has written yet.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;
/// A place for a handle.
pub(crate) type OutHandle<'a, T> = Out<'a, Option<Box<T>>>;

/// The handle, or an error that names what is null.
#[inline]
pub(crate) fn need<T>(handle: Option<T>, what: &'static str) -> Result<T> {
    match handle {
        Some(handle) => Ok(handle),
        None => Err(Failure::null(what)),
    }
}

/// The place for a handle, emptied, so that it is null if the function fails.
#[inline]
pub(crate) fn place<'a, T>(
    out: OutHandle<'a, T>,
    what: &'static str,
) -> Result<&'a mut Option<Box<T>>> {
    Ok(need(out, what)?.write(None))
}

/// A pointer to bytes, whose number is the next argument.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Bytes<'a>(*const c_void, PhantomData<&'a [u8]>);

impl<'a> Bytes<'a> {
    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The `len` bytes; a null pointer is none of them.
    #[inline]
    pub(crate) fn get(self, len: usize, what: &'static str) -> Result<&'a [u8]> {
        bytes_at(self.0.cast(), len, what)
    }
}

#[inline]
fn bytes_at<'a>(data: *const u8, len: usize, what: &'static str) -> Result<&'a [u8]> {
    if data.is_null() {
        return match len {
            0 => Ok(&[]),
            _ => Err(Failure::null(what)),
        };
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::invalid(format!(
            "{what}: {len} bytes are more than memory has; is the length negative?"
        )));
    }
    // SAFETY: by the header, a pointer that is not null points to as many bytes as are given with it,
    // which stay as they are until the function returns.
    Ok(unsafe { slice::from_raw_parts(data, len) })
}

/// Bytes of the caller's: `heliox_slice`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Slice<'a> {
    data: *const u8,
    len: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Slice<'a> {
    /// Bytes of ours, for the caller to look at.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Slice<'a> {
        Slice {
            data: bytes.as_ptr(),
            len: bytes.len(),
            bytes: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn is_null(&self) -> bool {
        self.data.is_null()
    }

    #[inline]
    pub(crate) fn get(&self, what: &'static str) -> Result<&'a [u8]> {
        bytes_at(self.data, self.len, what)
    }
}

impl AsRef<[u8]> for Slice<'_> {
    /// No bytes for one that [`Slice::get`] refuses.
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.get("").unwrap_or_default()
    }
}

/// Text that ends with a zero byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    fn c_str(self, what: &'static str) -> Result<&'a CStr> {
        if self.0.is_null() {
            return Err(Failure::null(what));
        }
        // SAFETY: by the header, text ends with a zero byte and stays as it is until the function
        // returns.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// A name: UTF-8.
    pub(crate) fn name(self, what: &'static str) -> Result<&'a str> {
        self.c_str(what)?
            .to_str()
            .map_err(|_| Failure::invalid(format!("{what}: it is not UTF-8; names are")))
    }

    /// A path: any bytes.
    pub(crate) fn path(self, what: &'static str) -> Result<&'a Path> {
        let bytes = self.c_str(what)?.to_bytes();
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }
}

/// Memory of the caller's to write bytes to.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Buffer<'a>(*mut c_void, PhantomData<&'a mut [u8]>);

impl Buffer<'_> {
    /// Copies as much of the bytes as the buffer holds.
    pub(crate) fn fill(self, capacity: usize, bytes: &[u8]) -> Result<()> {
        let len = bytes.len().min(capacity);
        if len == 0 {
            return Ok(());
        }
        if self.0.is_null() {
            return Err(Failure::null("buffer"));
        }
        // SAFETY: by the header, a buffer has room for the capacity that is given with it, which nobody
        // else uses until the function returns; `bytes` are ours, so the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast(), len) };
        Ok(())
    }
}

/// Several things of the caller's, in a row.
#[repr(transparent)]
pub(crate) struct Array<'a, T>(*const T, PhantomData<&'a [T]>);

impl<'a, T> Array<'a, T> {
    pub(crate) fn get(self, count: usize, what: &'static str) -> Result<&'a [T]> {
        if count == 0 {
            return Ok(&[]);
        }
        check_array::<T>(self.0.is_null(), count, what)?;
        // SAFETY: by the header, so many of them stand at the pointer, and stay as they are until the
        // function returns.
        Ok(unsafe { slice::from_raw_parts(self.0, count) })
    }
}

/// Several things of the caller's, in a row, that the function changes.
#[repr(transparent)]
pub(crate) struct ArrayMut<'a, T>(*mut T, PhantomData<&'a mut [T]>);

impl<'a, T> ArrayMut<'a, T> {
    pub(crate) fn get(self, count: usize, what: &'static str) -> Result<&'a mut [T]> {
        if count == 0 {
            return Ok(&mut []);
        }
        check_array::<T>(self.0.is_null(), count, what)?;
        // SAFETY: as for `Array`; and nobody else uses them until the function returns.
        Ok(unsafe { slice::from_raw_parts_mut(self.0, count) })
    }
}

fn check_array<T>(is_null: bool, count: usize, what: &'static str) -> Result<()> {
    if is_null {
        return Err(Failure::null(what));
    }
    let bytes = count.checked_mul(size_of::<T>());
    match bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "{what}: {count} of them are more than memory has; is the count negative?"
        ))),
    }
}

/// A value that C holds: `heliox_value`. The parts of a `Vec<u8>`, or nothing if `data` is null.
#[repr(C)]
pub(crate) struct Value {
    data: *mut u8,
    len: usize,
    capacity: usize,
}

impl Value {
    /// Takes the memory out, to be used again.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let data = std::mem::replace(&mut self.data, ptr::null_mut());
        let len = std::mem::take(&mut self.len);
        let capacity = std::mem::take(&mut self.capacity);
        if data.is_null() {
            return Vec::new();
        }
        // SAFETY: what is not null was put here by `put`, by the header nobody else changes it or keeps
        // another copy in use, and it was taken out just now, so it has this one owner.
        unsafe { Vec::from_raw_parts(data, len, capacity) }
    }

    /// Hands memory over; what was there must have been taken out, or it leaks.
    #[inline]
    pub(crate) fn put(&mut self, bytes: Vec<u8>) {
        let mut bytes = ManuallyDrop::new(bytes);
        *self = Value {
            data: bytes.as_mut_ptr(),
            len: bytes.len(),
            capacity: bytes.capacity(),
        };
    }
}

/// A struct of the header that may grow: it begins with its size.
///
/// # Safety
/// SAFETY: whoever implements it makes sure that the type is `repr(C)`, begins with a `usize`, and has all
/// zero bytes for a value.
pub(crate) unsafe trait Growing {}

/// A struct of the caller's, of whatever length its header gave it; null stands for none.
#[repr(transparent)]
pub(crate) struct Grown<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<T: Growing> Grown<'_, T> {
    /// Bytes of it that both sides know; none for a null.
    fn known(&self, what: &'static str) -> Result<Option<(usize, usize)>> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: by the header, what is not null begins with its size, in memory that is the caller's.
        let given = unsafe { self.0.cast::<usize>().read() };
        if given < size_of::<usize>() {
            return Err(Failure::invalid(format!(
                "{what}: struct_size is {given}; set it to sizeof the struct"
            )));
        }
        Ok(Some((given, given.min(size_of::<T>()))))
    }

    /// Refuses one that cannot be filled, before anything is done for it.
    pub(crate) fn check(&self, what: &'static str) -> Result<()> {
        self.known(what).map(|_| ())
    }

    /// Writes as much of the value as the caller knows; its `struct_size` stays.
    pub(crate) fn fill(&self, value: &T, what: &'static str) -> Result<()> {
        let Some((given, known)) = self.known(what)? else {
            return Ok(());
        };
        let from: *const T = value;
        // SAFETY: `known` bytes are within both; the caller's are its own until the function returns,
        // so they do not overlap with ours. Padding is copied, never read. The size is put back.
        unsafe {
            ptr::copy_nonoverlapping(
                from.cast::<MaybeUninit<u8>>(),
                self.0.cast::<MaybeUninit<u8>>(),
                known,
            );
            self.0.cast::<usize>().write(given);
        }
        Ok(())
    }

    /// A copy of it, in which what the caller does not know is zero; none for a null.
    pub(crate) fn read(&self, what: &'static str) -> Result<Option<T>> {
        let Some((_, known)) = self.known(what)? else {
            return Ok(None);
        };
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: `known` bytes are within both; `T` may be all zero, and the rest is what the caller
        // put there by the header, which says of each field what it may be.
        unsafe {
            ptr::copy_nonoverlapping(
                self.0.cast::<MaybeUninit<u8>>(),
                value.as_mut_ptr().cast::<MaybeUninit<u8>>(),
                known,
            );
            Ok(Some(value.assume_init()))
        }
    }
}

/// Text that C holds until it gives it to `heliox_free`.
#[repr(transparent)]
pub(crate) struct OwnText(*mut c_char);

impl OwnText {
    /// What has zero bytes in it ends before them.
    pub(crate) fn new(text: &str) -> OwnText {
        OwnText(c_string(text).into_raw())
    }

    pub(crate) const NULL: OwnText = OwnText(ptr::null_mut());

    pub(crate) fn free(self) {
        if !self.0.is_null() {
            // SAFETY: by the header, it came from `new` and is freed once.
            drop(unsafe { CString::from_raw(self.0) });
        }
    }
}

/// Text of ours that C looks at.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Shown<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Shown<'a> {
    pub(crate) const NULL: Shown<'static> = Shown(ptr::null(), PhantomData);

    pub(crate) fn of(text: &'a CStr) -> Shown<'a> {
        Shown(text.as_ptr(), PhantomData)
    }
}

/// Bytes of ours that C looks at.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct ShownBytes<'a>(*const u8, PhantomData<&'a [u8]>);

impl<'a> ShownBytes<'a> {
    /// Null for none. Else it is not, even for no bytes.
    #[inline]
    pub(crate) fn of(bytes: Option<&'a [u8]>) -> ShownBytes<'a> {
        ShownBytes(bytes.map_or(ptr::null(), <[u8]>::as_ptr), PhantomData)
    }
}

/// The text up to its first zero byte.
pub(crate) fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// What the program gave along with a callback; for the callback only.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct User(*mut c_void);

/// Ends the use of a [`User`].
pub(crate) type DestroyFn = extern "C" fn(user: User);

/// A [`User`] that the library keeps until nothing can call its callback any more.
pub(crate) struct Kept {
    user: User,
    destroy: Option<DestroyFn>,
}

// SAFETY: the library only hands it to the callback that came with it, which by the header may be called
// by any thread, several at once.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl Kept {
    pub(crate) fn new(user: User, destroy: Option<DestroyFn>) -> Kept {
        Kept { user, destroy }
    }

    pub(crate) fn user(&self) -> User {
        self.user
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            destroy(self.user);
        }
    }
}
