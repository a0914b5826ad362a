//! Iterators that step in both directions.
//!
//! The engine's iterator goes one way. A seek starts one from the key, at the snapshot of this one; so does
//! a change of direction. At one snapshot the two directions show the same entries.
//!
//! Invariant: where `at` is true, `key` and `value` are an entry; pointers into them hold until the next
//! step. Threads: each is used by one at a time.

use heliox::{ErrorKind, IterOptions};

use crate::border::{need, place, Bytes, Grown, Out, OutHandle, ShownBytes, Slice};
use crate::error::{answer, caught, quiet, ErrorOut};
use crate::failure::{Code, Failure, Result};
use crate::handles::{Keyspace, Snapshot};
use crate::layout::IteratorOptions;

/// `heliox_iterator`.
pub(crate) struct Iterator {
    store: heliox::Store,
    /// Bounds, manner and snapshot, for the next seek.
    options: IterOptions,
    /// Where it goes on; none where it stands nowhere.
    steps: Option<heliox::Iter>,
    backward: bool,
    at: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    failure: Option<Failure>,
}

impl Iterator {
    fn new(keyspace: &Keyspace, wanted: Option<IteratorOptions<'_>>) -> Result<Iterator> {
        let mut options = keyspace.keyspace.iter();
        let mut snapshot = None;
        if let Some(wanted) = wanted {
            options = options.from(wanted.from.get("from")?);
            if !wanted.to.is_null() {
                options = options.to(wanted.to.get("to")?);
            }
            let prefix = wanted.prefix.get("prefix")?;
            if !prefix.is_empty() {
                options = options.prefix(prefix);
            }
            if wanted.limit > 0 {
                options = options.limit(usize::try_from(wanted.limit).unwrap_or(usize::MAX));
            }
            if wanted.keys_only {
                options = options.keys_only();
            }
            snapshot = wanted.snapshot;
        }
        let options = match snapshot {
            Some(snapshot) => options.at(&snapshot.snapshot),
            None => {
                // Asks nothing, and tells if the keyspace was dropped.
                keyspace.keyspace.multi_get::<&[u8]>(&[])?;
                options.at(&keyspace.store.snapshot()?)
            }
        };
        Ok(Iterator {
            store: keyspace.store.clone(),
            options,
            steps: None,
            backward: false,
            at: false,
            key: Vec::new(),
            value: Vec::new(),
            failure: None,
        })
    }

    fn stand_nowhere(&mut self) {
        self.steps = None;
        self.at = false;
        self.failure = None;
    }

    fn refresh(&mut self, snapshot: Option<&Snapshot>) -> Result<()> {
        self.stand_nowhere();
        let options = self.options.clone();
        self.options = match snapshot {
            Some(snapshot) => options.at(&snapshot.snapshot),
            None => options.at(&self.store.snapshot()?),
        };
        Ok(())
    }

    /// Goes to the first entry in the direction, of those that `narrow` leaves.
    fn seek(&mut self, backward: bool, narrow: impl FnOnce(IterOptions) -> IterOptions) -> bool {
        self.stand_nowhere();
        self.backward = backward;
        let options = narrow(self.options.clone());
        let options = match backward {
            true => options.reverse(),
            false => options,
        };
        match options.start() {
            Ok(steps) => {
                self.steps = Some(steps);
                self.step()
            }
            Err(error) => self.fail(error.into()),
        }
    }

    fn fail(&mut self, failure: Failure) -> bool {
        self.stand_nowhere();
        self.failure = Some(failure);
        false
    }

    /// Goes on in the direction.
    #[inline]
    fn step(&mut self) -> bool {
        self.at = false;
        let Some(steps) = &mut self.steps else {
            return false;
        };
        match steps.next() {
            Some(Ok((key, value))) => {
                (self.key, self.value) = (key, value);
                self.failure = None;
                self.at = true;
            }
            Some(Err(error)) => {
                if error.kind() != ErrorKind::Damaged {
                    self.steps = None;
                }
                self.failure = Some(error.into());
            }
            None => self.stand_nowhere(),
        }
        self.at
    }

    /// Goes on in a direction, which may be another than before.
    #[inline]
    fn go(&mut self, backward: bool) -> bool {
        if self.backward == backward {
            return self.step();
        }
        if !self.at {
            // Nowhere, or at a record without a key, from which only the way on is known.
            return self.at;
        }
        let mut key = std::mem::take(&mut self.key);
        match backward {
            true => self.seek(true, |options| options.to(&key)),
            false => {
                key.push(0);
                self.seek(false, |options| options.from(&key))
            }
        }
    }
}

/// One thread may make it and another use it.
const _: () = {
    const fn handed_over<T: Send>() {}
    handed_over::<Iterator>();
    handed_over::<Failure>();
};

/// Runs a step; a panic in it is the iterator's error.
#[inline]
fn guarded(iterator: Option<&mut Iterator>, work: impl FnOnce(&mut Iterator) -> bool) -> bool {
    let Some(iterator) = iterator else {
        return false;
    };
    match caught(|| work(&mut *iterator)) {
        Ok(stands) => stands,
        Err(failure) => iterator.fail(failure),
    }
}

#[no_mangle]
extern "C" fn heliox_iterator_create(
    keyspace: Option<&Keyspace>,
    options: Grown<'_, IteratorOptions<'_>>,
    iterator: OutHandle<'_, Iterator>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let place = place(iterator, "iterator")?;
        let keyspace = need(keyspace, "keyspace")?;
        let options = options.read("options")?;
        *place = Some(Box::new(Iterator::new(keyspace, options)?));
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_iterator_free(iterator: Option<Box<Iterator>>) {
    quiet((), || drop(iterator));
}

#[no_mangle]
extern "C" fn heliox_iterator_seek_to_first(iterator: Option<&mut Iterator>) -> bool {
    guarded(iterator, |iterator| iterator.seek(false, |options| options))
}

#[no_mangle]
extern "C" fn heliox_iterator_seek_to_last(iterator: Option<&mut Iterator>) -> bool {
    guarded(iterator, |iterator| iterator.seek(true, |options| options))
}

#[no_mangle]
extern "C" fn heliox_iterator_seek(
    iterator: Option<&mut Iterator>,
    key: Bytes<'_>,
    key_len: usize,
) -> bool {
    guarded(iterator, |iterator| match key.get(key_len, "key") {
        Ok(key) => iterator.seek(false, |options| options.from(key)),
        Err(failure) => iterator.fail(failure),
    })
}

#[no_mangle]
extern "C" fn heliox_iterator_seek_for_prev(
    iterator: Option<&mut Iterator>,
    key: Bytes<'_>,
    key_len: usize,
) -> bool {
    guarded(iterator, |iterator| match key.get(key_len, "key") {
        // The first key after it is the bound.
        Ok(key) => iterator.seek(true, |options| options.to([key, &[0]].concat())),
        Err(failure) => iterator.fail(failure),
    })
}

#[no_mangle]
extern "C" fn heliox_iterator_next(iterator: Option<&mut Iterator>) -> bool {
    guarded(iterator, |iterator| iterator.go(false))
}

#[no_mangle]
extern "C" fn heliox_iterator_prev(iterator: Option<&mut Iterator>) -> bool {
    guarded(iterator, |iterator| iterator.go(true))
}

#[no_mangle]
extern "C" fn heliox_iterator_valid(iterator: Option<&Iterator>) -> bool {
    iterator.is_some_and(|iterator| iterator.at)
}

/// Shows a part of the entry.
fn show<'a>(part: Option<&'a [u8]>, len: Out<'_, usize>) -> ShownBytes<'a> {
    if let Some(len) = len {
        len.write(part.map_or(0, <[u8]>::len));
    }
    ShownBytes::of(part)
}

#[no_mangle]
extern "C" fn heliox_iterator_key<'a>(
    iterator: Option<&'a Iterator>,
    len: Out<'_, usize>,
) -> ShownBytes<'a> {
    let iterator = iterator.filter(|iterator| iterator.at);
    show(iterator.map(|iterator| &iterator.key[..]), len)
}

#[no_mangle]
extern "C" fn heliox_iterator_value<'a>(
    iterator: Option<&'a Iterator>,
    len: Out<'_, usize>,
) -> ShownBytes<'a> {
    let iterator = iterator.filter(|iterator| iterator.at);
    show(iterator.map(|iterator| &iterator.value[..]), len)
}

#[no_mangle]
extern "C" fn heliox_iterator_entry<'a>(
    iterator: Option<&'a Iterator>,
    key: Out<'_, Slice<'a>>,
    value: Out<'_, Slice<'a>>,
) -> bool {
    let Some(iterator) = iterator.filter(|iterator| iterator.at) else {
        return false;
    };
    if let Some(place) = key {
        place.write(Slice::of(&iterator.key));
    }
    if let Some(place) = value {
        place.write(Slice::of(&iterator.value));
    }
    true
}

#[no_mangle]
extern "C" fn heliox_iterator_error(iterator: Option<&Iterator>, error: ErrorOut<'_>) -> Code {
    answer(error, || match &need(iterator, "iterator")?.failure {
        None => Ok(Code::Ok),
        Some(failure) => Err(failure.clone()),
    })
}

#[no_mangle]
extern "C" fn heliox_iterator_refresh(
    iterator: Option<&mut Iterator>,
    snapshot: Option<&Snapshot>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        need(iterator, "iterator")?.refresh(snapshot)?;
        Ok(Code::Ok)
    })
}
