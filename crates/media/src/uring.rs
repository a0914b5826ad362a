//! Batches of reads through `io_uring`: one system call submits and awaits them all. Besides, a ring
//! whose requests own their memory, for who keeps some under way all the time.
//!
//! Invariants:
//! - A batch owns its ring alone, and does not return (not even by unwinding) before the kernel has
//!   completed everything that was submitted: the kernel never writes into memory that its owner
//!   has back. An [`OwnedRing`] holds each request, memory and descriptor, until the kernel has completed it.
//! - A ring goes back to the pool only with nothing in flight; a ring that failed is dropped.
//! - Every completion's result is looked at; what the kernel left short, interrupted or undone is
//!   finished by blocking calls, which also name the error.
//!
//! Threads: any. The rings are shared by all devices of the process, made as needed, at most
//! [`RingPool::max`]; a thread that finds none reads with blocking calls. Single reads do not come
//! here at all: `pread` costs less for them (see `media_bench`), and threads that read at the same
//! time reach the device's full rate with it.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fs::File;
use std::ops::DerefMut;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use heliox_sync::Mutex;
use io_uring::{opcode, squeue, types, IoUring, Probe};

use crate::blocking::read_blocking;
use crate::buffer::AlignedBuf;
use crate::error::{MediaError, Operation};

/// Most requests of one batch in flight at one time.
const RING_ENTRIES: u32 = 64;
/// Most rings of the process; each takes some 10 KiB of the kernel's memory. As many as threads may read at a
/// time: one that finds none waits for each of its reads behind the batches of all others.
const RINGS_MAX: usize = 512;
/// Most bytes asked for by one request; the kernel cuts at 2 GiB anyway, and the rest is read after.
const REQUEST_BYTES_MAX: usize = 1 << 30;
/// A completion that has not come; no real result has this value.
const PENDING: i32 = i32::MIN;

/// One read of a batch, on any file.
pub(crate) struct Request<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) buf: &'a mut [u8],
}

/// The rings of the process.
pub(crate) struct RingPool {
    free: Mutex<Vec<IoUring>>,
    made: AtomicUsize,
    max: usize,
}

/// The shared pool, or the reason why the kernel grants no ring.
pub(crate) fn shared() -> Result<&'static RingPool, i32> {
    static POOL: OnceLock<Result<RingPool, i32>> = OnceLock::new();
    POOL.get_or_init(|| RingPool::new(RINGS_MAX))
        .as_ref()
        .map_err(|errno| *errno)
}

impl RingPool {
    /// A pool of at most `max` rings; one is made at once to see whether the kernel grants it.
    fn new(max: usize) -> Result<RingPool, i32> {
        let ring = make_ring()?;
        let mut probe = Probe::new();
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(|e| errno_of(&e))?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(libc::EOPNOTSUPP);
        }
        Ok(RingPool {
            free: Mutex::new(vec![ring]),
            made: AtomicUsize::new(1),
            max,
        })
    }

    /// Reads everything with one ring; `None` if no ring is free, and nothing was done then.
    pub(crate) fn read(&self, requests: &mut [Request<'_>]) -> Option<Result<(), MediaError>> {
        let mut ring = self.take()?;
        let mut results = vec![PENDING; requests.len()];
        match run(&mut ring, requests, &mut results) {
            Ok(()) => self.free.lock().push(ring),
            Err(_) => {
                // Nothing is in flight (see `Batch::drop`), but the ring may hold entries that were
                // never submitted: not to be used again.
                drop(ring);
                self.made.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Some(finish(requests, &results))
    }

    fn take(&self) -> Option<IoUring> {
        if let Some(ring) = self.free.lock().pop() {
            return Some(ring);
        }
        let more = |made| (made < self.max).then_some(made + 1);
        self.made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        let ring = make_ring();
        if ring.is_err() {
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
        ring.ok()
    }
}

fn make_ring() -> Result<IoUring, i32> {
    // Completions are collected when the thread waits, without interrupting it; Linux 5.19.
    let cooperative = IoUring::builder().setup_coop_taskrun().build(RING_ENTRIES);
    cooperative
        .or_else(|_| IoUring::new(RING_ENTRIES))
        .map_err(|error| errno_of(&error))
}

fn errno_of(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Submits all requests and waits for all; `results` gets what the kernel answered to each. On an
/// error some stay [`PENDING`].
fn run(
    ring: &mut IoUring,
    requests: &mut [Request<'_>],
    results: &mut [i32],
) -> std::io::Result<()> {
    let mut batch = Batch {
        ring,
        outstanding: 0,
    };
    let mut next = 0;
    while next < requests.len() || batch.outstanding > 0 {
        while next < requests.len() {
            let request = &mut requests[next];
            let (at, len) = (request.buf.as_mut_ptr(), request.buf.len());
            let entry = read_entry(&request.file, request.offset, at, len);
            // SAFETY: file and buffer stay valid until `batch` has reaped the completion or is gone: the
            // requests are borrowed for longer than it lives. Nobody touches the buffer meanwhile, as
            // this function holds its unique borrow.
            if !unsafe { batch.push(entry, next) } {
                break;
            }
            next += 1;
        }
        // With more to submit, refill the ring while half of it is still busy.
        let more = next < requests.len();
        let awaited = if more {
            batch.outstanding.div_ceil(2)
        } else {
            batch.outstanding
        };
        batch.submit_and_wait(awaited)?;
        batch.reap(|index, result| {
            if let Some(answer) = results.get_mut(index) {
                *answer = result;
            }
        });
    }
    Ok(())
}

fn read_entry(file: &File, offset: u64, at: *mut u8, len: usize) -> squeue::Entry {
    let len = len.min(REQUEST_BYTES_MAX) as u32;
    let read = opcode::Read::new(types::Fd(file.as_raw_fd()), at, len);
    read.offset(offset).build()
}

fn write_entry(file: &File, offset: u64, at: *const u8, len: usize) -> squeue::Entry {
    let len = len.min(REQUEST_BYTES_MAX) as u32;
    let write = opcode::Write::new(types::Fd(file.as_raw_fd()), at, len);
    write.offset(offset).build()
}

/// Requests in flight on a ring. Dropping it waits for them.
struct Batch<R: DerefMut<Target = IoUring>> {
    ring: R,
    /// Pushed and not yet completed.
    outstanding: usize,
}

impl<R: DerefMut<Target = IoUring>> Batch<R> {
    /// Queues one request; false if the ring is full.
    ///
    /// # Safety
    /// The descriptor and the memory that the entry names stay valid, and nobody else touches the memory,
    /// until the completion was reaped or `self` was dropped.
    unsafe fn push(&mut self, entry: squeue::Entry, index: usize) -> bool {
        if self.outstanding >= RING_ENTRIES as usize {
            return false;
        }
        let entry = entry.user_data(index as u64);
        // SAFETY: the caller vouches for it up to the completion or our drop, and `drop` waits for the
        // completions of all that was submitted.
        let pushed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        self.outstanding += usize::from(pushed);
        pushed
    }

    fn submit_and_wait(&mut self, awaited: usize) -> std::io::Result<()> {
        match self.ring.submit_and_wait(awaited) {
            Ok(_) => Ok(()),
            // Interrupted, or the kernel is short of something for a moment: the caller reaps what
            // there is and comes again.
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => Ok(()),
                Some(libc::EAGAIN | libc::EBUSY) => {
                    std::thread::yield_now();
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    /// Gives the index and the kernel's answer of each that is complete.
    fn reap(&mut self, mut answered: impl FnMut(usize, i32)) {
        for completion in self.ring.completion() {
            self.outstanding -= 1;
            answered(completion.user_data() as usize, completion.result());
        }
    }
}

impl<R: DerefMut<Target = IoUring>> Drop for Batch<R> {
    /// Waits until the kernel is done with all buffers. Normally there is nothing to wait for; after
    /// a failed submission no further entry is submitted, so what still sits in the queue is never
    /// touched by the kernel.
    fn drop(&mut self) {
        loop {
            self.reap(|_, _| ());
            let unsubmitted = self.ring.submission().len();
            if self.outstanding <= unsubmitted {
                return;
            }
            // Any system call lets the kernel post this thread's completions.
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Turns the kernel's answers into one result; short and undone reads are finished here.
fn finish(requests: &mut [Request<'_>], results: &[i32]) -> Result<(), MediaError> {
    for (request, &result) in requests.iter_mut().zip(results) {
        let done = done_bytes(result).map_err(|errno| MediaError::Io {
            device: Arc::clone(request.name),
            operation: Operation::Read,
            offset: request.offset,
            len_bytes: request.buf.len() as u64,
            errno,
        })?;
        if let Some(rest) = request.buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            read_blocking(
                request.name,
                &request.file,
                request.offset + done as u64,
                rest,
            )?;
        }
    }
    Ok(())
}

/// How far a request came by the kernel's answer, none of it if it is to be made again; else the error.
pub(crate) fn done_bytes(result: i32) -> Result<usize, i32> {
    let again = [PENDING, -libc::EINTR, -libc::EAGAIN].contains(&result);
    match usize::try_from(result) {
        Ok(done) => Ok(done),
        Err(_) if again => Ok(0),
        Err(_) => Err(-result),
    }
}

/// A request that owns its memory, with what its caller wants back with it.
pub(crate) struct Owned<T> {
    pub(crate) file: Arc<File>,
    pub(crate) is_write: bool,
    pub(crate) offset: u64,
    pub(crate) buf: AlignedBuf,
    pub(crate) token: T,
}

/// A ring outside of the pool whose requests are complete in any order.
pub(crate) struct OwnedRing<T> {
    /// Before `slots`, and so dropped before them: it waits until the kernel is done with what they own.
    batch: Batch<Box<IoUring>>,
    /// The requests in flight; the index is what the kernel knows them by.
    slots: Vec<Option<Owned<T>>>,
    /// Complete and not yet asked for, with the kernel's answers.
    done: VecDeque<(Owned<T>, i32)>,
}

impl<T> OwnedRing<T> {
    /// The ring, or the errno with which the kernel refuses it.
    pub(crate) fn new() -> Result<OwnedRing<T>, i32> {
        shared()?;
        Ok(OwnedRing {
            batch: Batch {
                ring: Box::new(make_ring()?),
                outstanding: 0,
            },
            slots: (0..RING_ENTRIES).map(|_| None).collect(),
            done: VecDeque::new(),
        })
    }

    /// Submits a request, after waiting for another if the ring is full. At once: gathered until the next
    /// wait, the device would meanwhile have fewer under way. What the kernel does not take yet, it gets then.
    pub(crate) fn start(&mut self, request: Owned<T>) -> std::io::Result<()> {
        let index = loop {
            match self.slots.iter().position(Option::is_none) {
                Some(index) => break index,
                None => self.progress()?,
            }
        };
        let request = self.slots[index].insert(request);
        let (file, offset, len) = (&request.file, request.offset, request.buf.len());
        let entry = match request.is_write {
            true => write_entry(file, offset, request.buf.as_ptr(), len),
            false => read_entry(file, offset, request.buf.as_mut_ptr(), len),
        };
        // SAFETY: the slot holds file and memory, which does not move with it, and nobody takes it before
        // its completion was reaped (`progress`) or the batch was dropped: fields are dropped in order.
        let pushed = unsafe { self.batch.push(entry, index) };
        assert!(pushed, "a ring has room for as many as there are slots");
        self.batch.submit_and_wait(0)
    }

    /// The next that is complete, with the kernel's answer; `None` if nothing is under way.
    pub(crate) fn wait(&mut self) -> std::io::Result<Option<(Owned<T>, i32)>> {
        while self.done.is_empty() && self.batch.outstanding > 0 {
            self.progress()?;
        }
        Ok(self.done.pop_front())
    }

    /// Waits for a completion, and takes all there are.
    fn progress(&mut self) -> std::io::Result<()> {
        self.batch.submit_and_wait(1)?;
        let (slots, done) = (&mut self.slots, &mut self.done);
        self.batch.reap(|index, result| {
            let request = slots.get_mut(index).and_then(Option::take);
            done.extend(request.map(|request| (request, result)));
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    const BLOCK: usize = 4096;

    fn numbered_file(blocks: usize) -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        for n in 0..blocks {
            file.write_all(&[n as u8; BLOCK]).unwrap();
        }
        Arc::new(file)
    }

    fn pool(max: usize) -> Option<RingPool> {
        let pool = RingPool::new(max);
        if let Err(errno) = &pool {
            println!("skipped: the kernel grants no io_uring (errno {errno})");
        }
        pool.ok()
    }

    fn read_all(
        pool: &RingPool,
        file: &Arc<File>,
        buffers: &mut [Vec<u8>],
    ) -> Option<Result<(), MediaError>> {
        let name: Arc<str> = "f".into();
        let mut requests: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, buf)| Request {
                name: &name,
                file: Arc::clone(file),
                offset: (n * BLOCK) as u64,
                buf,
            })
            .collect();
        pool.read(&mut requests)
    }

    #[test]
    fn a_batch_larger_than_the_ring_is_read_whole() {
        let Some(pool) = pool(1) else { return };
        let file = numbered_file(200);
        let mut buffers = vec![vec![0xff; BLOCK]; 200];
        read_all(&pool, &file, &mut buffers).unwrap().unwrap();
        for (n, buffer) in buffers.iter().enumerate() {
            assert!(buffer.iter().all(|&b| b == n as u8), "block {n}");
        }
        assert_eq!(pool.free.lock().len(), 1);
    }

    #[test]
    fn the_end_of_the_file_and_bad_descriptors_are_typed_errors() {
        let Some(pool) = pool(1) else { return };
        let file = numbered_file(3);
        let error = read_all(&pool, &file, &mut vec![vec![0; BLOCK]; 4])
            .unwrap()
            .unwrap_err();
        assert!(
            matches!(error, MediaError::ShortDevice { offset: 12288, .. }),
            "{error}"
        );
        let directory = Arc::new(File::open("/").unwrap());
        let error = read_all(&pool, &directory, &mut vec![vec![0; BLOCK]; 2])
            .unwrap()
            .unwrap_err();
        assert_eq!(error.errno(), Some(libc::EISDIR));
    }

    #[test]
    fn a_read_cut_short_is_continued() {
        let name: Arc<str> = "f".into();
        let file = numbered_file(2);
        let mut buf = vec![0; 2 * BLOCK];
        buf[..1000].fill(9);
        let mut requests = [Request {
            name: &name,
            file: Arc::clone(&file),
            offset: 0,
            buf: &mut buf,
        }];
        finish(&mut requests, &[1000]).unwrap();
        assert_eq!((buf[999], buf[1000], buf[4096]), (9, 0, 1));
    }

    #[test]
    fn every_request_gets_its_own_answer_from_the_kernel() {
        let Some(pool) = pool(1) else { return };
        let name: Arc<str> = "f".into();
        let file = numbered_file(100);
        let mut buffers = vec![vec![0; BLOCK]; 100];
        let place = |n: usize| (n * BLOCK + n) as u64;
        let mut requests: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, buf)| Request {
                name: &name,
                file: Arc::clone(&file),
                offset: place(n),
                buf,
            })
            .collect();
        let mut results = vec![PENDING; 100];
        run(&mut pool.take().unwrap(), &mut requests, &mut results).unwrap();
        let expected: Vec<_> = (0..100)
            .map(|n| (100 * BLOCK - place(n) as usize).min(BLOCK) as i32)
            .collect();
        assert_eq!(results, expected);
    }

    #[test]
    fn the_pool_is_bounded() {
        let Some(pool) = pool(2) else { return };
        let (a, b) = (pool.take(), pool.take());
        assert!(a.is_some() && b.is_some() && pool.take().is_none());
    }

    /// Large and past the page cache, so that the read takes milliseconds after its submission.
    #[test]
    fn a_dropped_batch_waits_for_the_kernel() {
        let Some(pool) = pool(1) else { return };
        let (dir, len) = (tempfile::tempdir().unwrap(), 8 << 20);
        let path = dir.path().join("f");
        std::fs::write(&path, vec![63; len]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let direct = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&path);
        let file = Arc::new(direct.or_else(|_| File::open(&path)).unwrap());
        let mut buf = AlignedBuf::new(len).unwrap();
        let mut ring = pool.take().unwrap();
        let mut batch = Batch {
            ring: &mut ring,
            outstanding: 0,
        };
        let entry = read_entry(&file, 0, buf.as_mut_ptr(), len);
        // SAFETY: file and buffer outlive the batch.
        assert!(unsafe { batch.push(entry, 0) });
        batch.submit_and_wait(0).unwrap();
        drop(batch);
        assert_eq!(buf[len - 1], 63, "dropped before the read was complete");
    }

    #[test]
    fn what_was_never_submitted_does_not_hold_up_a_drop() {
        let Some(pool) = pool(1) else { return };
        let file = numbered_file(1);
        let mut buf = vec![0xffu8; BLOCK];
        let mut ring = pool.take().unwrap();
        let mut batch = Batch {
            ring: &mut ring,
            outstanding: 0,
        };
        let entry = read_entry(&file, 0, buf.as_mut_ptr(), BLOCK);
        // SAFETY: file and buffer outlive the batch.
        assert!(unsafe { batch.push(entry, 0) });
        drop(batch);
        drop(ring);
        assert_eq!(buf[0], 0xff);
    }
}
