//! A device that fails, damages, counts and delays on demand, around any other device.
//!
//! Invariants: it keeps the contract of [`Media`], sticky failure included, whatever the inner
//! device is. A failed write reaches the inner device in its first sectors only (none by default);
//! a failed sync does not reach it at all, so on a
//! [`RecordingMedia`](crate::RecordingMedia) inside nothing becomes certain by it.
//!
//! Threads: any. "The n-th" is counted in the order in which calls arrive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heliox_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use heliox_sync::Mutex;

use crate::error::{MediaError, Operation};
use crate::sticky::Sticky;
use crate::{check_request, Geometry, IoKind, Media, Read};

/// What a device has been asked for so far; failed requests are counted too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct IoCounts {
    /// Single reads and reads within batches.
    pub reads: u64,
    /// Calls that read: a batch is one.
    pub read_calls: u64,
    /// Bytes asked for by reads.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes given to writes.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Discards.
    pub discards: u64,
}

/// A device around another one.
pub struct FaultMedia<M> {
    inner: M,
    name: Arc<str>,
    sticky: Sticky,
    plan: Mutex<Plan>,
    /// False while the plan asks for nothing: then requests do not wait for one another.
    planned: AtomicBool,
    /// Sectors of a failed write that reach the inner device.
    failed_write_sectors: AtomicU64,
    counters: Counters,
}

#[derive(Default)]
struct Plan {
    /// Per operation: number of the request -> errno.
    failures: Vec<(Operation, u64, i32)>,
    /// Address of a byte -> bits that reads see flipped.
    flips: BTreeMap<u64, u8>,
    latencies: Vec<(Operation, Duration)>,
}

#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    read_calls: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
    discards: AtomicU64,
}

impl<M: Media> FaultMedia<M> {
    /// A device that does as `inner` does, until told otherwise.
    pub fn new(inner: M) -> FaultMedia<M> {
        let name: Arc<str> = inner.describe().into();
        FaultMedia {
            sticky: Sticky::new(Arc::clone(&name)),
            inner,
            name,
            plan: Mutex::default(),
            planned: AtomicBool::new(false),
            failed_write_sectors: AtomicU64::new(0),
            counters: Counters::default(),
        }
    }

    /// The device inside.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// Makes one read, write, sync or discard fail with this errno: the `nth` from now, 0 being the
    /// next. May be called several times.
    pub fn fail_nth(&self, operation: Operation, nth: u64, errno: i32) {
        let number = self.counter(operation).load(Ordering::SeqCst) + nth;
        self.change(|plan| plan.failures.push((operation, number, errno)));
    }

    /// How many sectors of a write that fails reach the device all the same. Default 0.
    pub fn set_failed_write_sectors(&self, sectors: u64) {
        self.failed_write_sectors.store(sectors, Ordering::SeqCst);
    }

    /// Reads see the byte at `offset` with these bits flipped, until it is written again.
    pub fn flip_bits(&self, offset: u64, bits: u8) {
        self.change(|plan| *plan.flips.entry(offset).or_default() ^= bits);
    }

    /// Every such request takes this much longer; a batch of reads once.
    pub fn set_latency(&self, operation: Operation, latency: Duration) {
        self.change(|plan| {
            plan.latencies.retain(|(o, _)| *o != operation);
            plan.latencies.push((operation, latency));
        });
    }

    /// What was asked for so far.
    pub fn counts(&self) -> IoCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        IoCounts {
            reads: load(&self.counters.reads),
            read_calls: load(&self.counters.read_calls),
            read_bytes: load(&self.counters.read_bytes),
            writes: load(&self.counters.writes),
            written_bytes: load(&self.counters.written_bytes),
            syncs: load(&self.counters.syncs),
            discards: load(&self.counters.discards),
        }
    }

    fn change(&self, f: impl FnOnce(&mut Plan)) {
        f(&mut self.plan.lock());
        self.planned.store(true, Ordering::SeqCst);
    }

    fn counter(&self, operation: Operation) -> &AtomicU64 {
        match operation {
            Operation::Write => &self.counters.writes,
            Operation::Sync => &self.counters.syncs,
            Operation::Discard => &self.counters.discards,
            Operation::Open | Operation::Read => &self.counters.reads,
        }
    }

    /// Counts a request and fails it if the plan says so.
    fn enter(&self, operation: Operation, offset: u64, len: usize) -> Result<(), MediaError> {
        let number = self.counter(operation).fetch_add(1, Ordering::SeqCst);
        if !self.planned.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut plan = self.plan.lock();
        let hit = plan
            .failures
            .iter()
            .position(|(o, n, _)| (*o, *n) == (operation, number));
        match hit.map(|index| plan.failures.swap_remove(index)) {
            Some((_, _, errno)) => Err(MediaError::Io {
                device: Arc::clone(&self.name),
                operation,
                offset,
                len_bytes: len as u64,
                errno,
            }),
            None => Ok(()),
        }
    }

    fn delay(&self, operation: Operation) {
        if self.planned.load(Ordering::SeqCst) {
            let found = self
                .plan
                .lock()
                .latencies
                .iter()
                .find(|(o, _)| *o == operation)
                .copied();
            if let Some((_, latency)) = found {
                std::thread::sleep(latency);
            }
        }
    }

    fn enter_read(&self, offset: u64, len: usize) -> Result<(), MediaError> {
        self.counters
            .read_bytes
            .fetch_add(len as u64, Ordering::SeqCst);
        self.enter(Operation::Read, offset, len)
    }

    fn flip(&self, offset: u64, buf: &mut [u8]) {
        if self.planned.load(Ordering::SeqCst) {
            for (at, bits) in self
                .plan
                .lock()
                .flips
                .range(offset..offset + buf.len() as u64)
            {
                buf[(at - offset) as usize] ^= bits;
            }
        }
    }

    fn write_with_faults(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.counters
            .written_bytes
            .fetch_add(data.len() as u64, Ordering::SeqCst);
        if let Err(error) = self.enter(Operation::Write, offset, data.len()) {
            let sectors = self.failed_write_sectors.load(Ordering::SeqCst);
            let bytes = sectors.saturating_mul(u64::from(self.geometry().sector_bytes));
            let part = &data[..data.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
            self.inner.write_at(offset, part)?;
            return Err(error);
        }
        self.inner.write_at(offset, data)?;
        if self.planned.load(Ordering::SeqCst) {
            let written = offset..offset + data.len() as u64;
            self.plan.lock().flips.retain(|at, _| !written.contains(at));
        }
        Ok(())
    }
}

impl<M: Media> Media for FaultMedia<M> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.counters.read_calls.fetch_add(1, Ordering::SeqCst);
        self.delay(Operation::Read);
        self.enter_read(offset, buf.len())?;
        self.inner.read_at(offset, buf)?;
        self.flip(offset, buf);
        Ok(())
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
        self.counters.read_calls.fetch_add(1, Ordering::SeqCst);
        self.delay(Operation::Read);
        for read in reads.iter() {
            self.enter_read(read.offset, read.buf.len())?;
        }
        self.inner.read_many(reads)?;
        reads
            .iter_mut()
            .for_each(|read| self.flip(read.offset, read.buf));
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let address = data.as_ptr() as usize;
        check_request(
            &self.name,
            &self.geometry(),
            offset,
            data.len() as u64,
            address,
        )?;
        self.delay(Operation::Write);
        self.sticky.guard(|| self.write_with_faults(offset, data))
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.delay(Operation::Sync);
        self.sticky.guard(|| {
            self.enter(Operation::Sync, 0, 0)?;
            self.inner.sync()
        })
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.delay(Operation::Discard);
        self.enter(Operation::Discard, offset, len_bytes as usize)?;
        self.inner.discard(offset, len_bytes)
    }

    fn prepare(&self, offset: u64, len_bytes: u64) -> Result<u64, MediaError> {
        self.inner.prepare(offset, len_bytes)
    }

    fn describe(&self) -> String {
        format!("{} with faults", self.name)
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.inner.allocated_bytes()
    }

    fn failure(&self) -> Option<MediaError> {
        self.sticky.cause().or_else(|| self.inner.failure())
    }

    fn io_kind(&self) -> IoKind {
        self.inner.io_kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuf, MemoryMedia};

    fn device() -> (FaultMedia<MemoryMedia>, AlignedBuf) {
        let media = FaultMedia::new(MemoryMedia::new(1 << 20, 512).unwrap());
        let mut block = AlignedBuf::new(4096).unwrap();
        block.fill(7);
        (media, block)
    }

    #[test]
    fn the_nth_request_fails_and_reads_are_not_sticky() {
        let (media, mut block) = device();
        media.read_at(0, &mut block).unwrap();
        media.fail_nth(Operation::Read, 1, libc::EIO);
        media.read_at(0, &mut block).unwrap();
        assert_eq!(
            media.read_at(4096, &mut block).unwrap_err().errno(),
            Some(libc::EIO)
        );
        media.read_at(0, &mut block).unwrap();
        media.write_at(0, &block).unwrap();
        media.sync().unwrap();
    }

    #[test]
    fn after_a_failed_sync_nothing_succeeds_but_reads() {
        let (media, mut block) = device();
        media.fail_nth(Operation::Sync, 1, libc::EIO);
        media.sync().unwrap();
        assert!(matches!(media.sync(), Err(MediaError::Io { .. })));
        let cause = media.failure().unwrap();
        for result in [media.sync(), media.write_at(0, &block)] {
            let Err(MediaError::Failed { cause: found, .. }) = result else {
                panic!("{result:?}")
            };
            assert_eq!(*found, cause);
        }
        media.read_at(0, &mut block).unwrap();
        assert!(
            block.iter().all(|&b| b == 0),
            "a refused write reached the device"
        );
    }

    #[test]
    fn a_failed_write_may_leave_its_first_sectors() {
        let (media, block) = device();
        media.fail_nth(Operation::Write, 0, libc::ENOSPC);
        media.set_failed_write_sectors(2);
        assert_eq!(
            media.write_at(0, &block).unwrap_err().errno(),
            Some(libc::ENOSPC)
        );
        let mut out = AlignedBuf::new(4096).unwrap();
        media.read_at(0, &mut out).unwrap();
        assert_eq!(out.iter().filter(|&&b| b == 7).count(), 1024);
    }

    #[test]
    fn refused_arguments_are_no_failure_of_the_device() {
        let (media, block) = device();
        assert!(media.write_at(100, &block).is_err());
        assert!(media.write_at(1 << 20, &block).is_err());
        assert!(media.failure().is_none());
        media.write_at(0, &block).unwrap();
    }

    #[test]
    fn flipped_bits_stay_until_the_byte_is_written() {
        let (media, block) = device();
        media.write_at(0, &block).unwrap();
        media.flip_bits(4000, 0b11);
        let mut out = AlignedBuf::new(4096).unwrap();
        let mut reads = [Read {
            offset: 0,
            buf: &mut out,
        }];
        media.read_many(&mut reads).unwrap();
        assert_eq!((out[3999], out[4000]), (7, 4));
        media.write_at(0, &block).unwrap();
        media.read_at(0, &mut out).unwrap();
        assert_eq!(out[4000], 7);
    }

    #[test]
    fn requests_are_counted_and_delayed() {
        let (media, mut block) = device();
        media.set_latency(Operation::Write, Duration::from_millis(20));
        let start = std::time::Instant::now();
        media.write_at(0, &block).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(20));
        let (a, b) = block.split_at_mut(2048);
        let mut reads = [
            Read { offset: 0, buf: a },
            Read {
                offset: 8192,
                buf: b,
            },
        ];
        media.read_many(&mut reads).unwrap();
        let counts = media.counts();
        assert_eq!(
            (counts.reads, counts.read_calls, counts.read_bytes),
            (2, 1, 4096)
        );
        assert_eq!(
            (counts.writes, counts.written_bytes, counts.syncs),
            (1, 4096, 0)
        );
    }
}
