//! The simulated devices: memory that records its writes, so that every legal image of a crash can
//! be made, and that fails as a script tells it to. A store lies on one to three of them (`array`).
//!
//! # Fault model
//! What may happen, where, and what the store then owes. Everything means: all that was
//! acknowledged as durable, a prefix of history, batches whole, nothing deleted that comes back.
//!
//! | Fault | Superblock | Checkpoint | Log tail | Sealed segments |
//! |---|---|---|---|---|
//! | Crash: unsynced writes lost, kept, reordered, torn by sector, on each volume others; discarded bytes old, zero or garbage | everything | everything | everything | everything |
//! | Crash during recovery | everything | everything | everything | everything |
//! | Write or sync fails, no space, a volume gone | everything, and no success is reported until the store is opened again | the same | the same | the same |
//! | The same while the store is opened | the open fails with a device's error, or succeeds; the next one owes everything | the same | the same | the same |
//! | A read fails once | an error, or the other copy serves; nothing is lost | an error | an error | an error |
//! | Latency | everything | everything | everything | everything |
//! | Bit rot, a misdirected write, then or later | everything, with a warning (one copy) | detection: the store is not opened | detection, but for the newest flush | detection |
//! | Misdirected read, while the store is opened or later | detection | detection | detection | detection |
//! | Syncs that lie (runs of their own) | detection, but for what the lies covered | the same | the same | the same |
//!
//! Detection: never a wrong value, and no value that was lost in silence: a key that does not have
//! its acknowledged value gives an error, or the open or the offline check reports damage.
//!
//! What cannot be detected, and is not owed: frames that nothing durable says more of. Rot or a
//! misdirected write in the frames of the newest flush looks like a torn tail, which ends there: what
//! is left is history up to a flush before, whole. A device that acknowledged syncs and lost *all*
//! that was written since looks like one that was never written to: what is left is history up to the
//! last honest sync or later, whole. Losing *some* of it is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heliox::Simulation;
use heliox_media::{
    Geometry, IoKind, Media, MediaError, MemoryMedia, Operation, Read, RecordingMedia,
};
use parking_lot::Mutex;

use crate::power::Shared;

/// The simulated device's sector.
pub(crate) const SECTOR_BYTES: u32 = 512;
const EIO: i32 = 5;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
/// Requests that change something between two tidyings of the recording.
const FORGET_EVERY: u64 = 1024;

/// A fault that waits for its request. Numbers count requests of its kind from now on, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A write fails for good; so many of its sectors arrive.
    FailWrite(u64, u64),
    /// A sync fails for good.
    FailSync(u64),
    /// A write finds no space.
    NoSpace(u64),
    /// A read fails once.
    FailRead(u64),
    /// From this request of any kind on, the device is gone until the next crash.
    Gone(u64),
    /// A request of any kind takes so many microseconds.
    Latency(u64, u64),
    /// A read gives the bytes of another place, so many sectors away.
    MisdirectRead(u64, u64),
    /// A write goes to another place, so many sectors away.
    MisdirectWrite(u64, u64),
    /// From this sync on, so many say that they are done and are not.
    LieSync(u64, u64),
}

/// A fault and how many requests of its kind it lets pass still.
#[derive(Clone, Copy, Debug)]
struct Armed {
    fault: Fault,
    left: u64,
}

#[derive(Default)]
struct State {
    armed: Vec<Armed>,
    /// Bits that reads see flipped, by address, until the byte is written again.
    rot: BTreeMap<u64, u8>,
    failure: Option<MediaError>,
    lies: u64,
    changes: u64,
}

/// What a request has to do instead of what it was asked for.
enum Twist {
    None,
    Fail(i32, u64),
    Misdirect(u64),
    Lie,
}

/// A device of a simulation.
pub(crate) struct SimMedia {
    recording: RecordingMedia,
    shared: Arc<Shared>,
    name: Arc<str>,
    state: Mutex<State>,
}

impl SimMedia {
    /// A device that holds `image`, all of it durable.
    #[must_use]
    pub(crate) fn new(image: MemoryMedia, shared: Arc<Shared>) -> SimMedia {
        SimMedia {
            recording: RecordingMedia::new(image),
            shared,
            name: "simulated device".into(),
            state: Mutex::default(),
        }
    }

    /// Arms a fault.
    pub(crate) fn arm(&self, fault: Fault) {
        let (Fault::FailWrite(left, _)
        | Fault::FailSync(left)
        | Fault::NoSpace(left)
        | Fault::FailRead(left)
        | Fault::Gone(left)
        | Fault::Latency(left, _)
        | Fault::MisdirectRead(left, _)
        | Fault::MisdirectWrite(left, _)
        | Fault::LieSync(left, _)) = fault;
        self.state.lock().armed.push(Armed { fault, left });
    }

    /// Forgets all faults that wait, or go on.
    pub(crate) fn disarm(&self) {
        self.state.lock().armed.clear();
    }

    /// Flips bits of the byte at `offset`.
    pub(crate) fn rot(&self, offset: u64, bits: u8) {
        *self.state.lock().rot.entry(offset).or_default() ^= bits;
    }

    /// The device as a crash now could leave it, faults that wait forgotten, rot kept.
    ///
    /// # Errors
    /// Never, unless the recording is broken.
    pub(crate) fn crashed(&self, seed: u64, shared: &Arc<Shared>) -> Result<SimMedia, MediaError> {
        let at_event = self.recording.event_count();
        let image = self.recording.crash_image(at_event, seed)?;
        Ok(self.successor(image, shared))
    }

    /// A copy of what the device holds now, rot included.
    #[must_use]
    pub(crate) fn copy(&self, shared: &Arc<Shared>) -> SimMedia {
        self.successor(self.recording.live_image(), shared)
    }

    fn successor(&self, image: MemoryMedia, shared: &Arc<Shared>) -> SimMedia {
        let mut next = SimMedia::new(image, Arc::clone(shared));
        next.state.get_mut().rot = self.state.lock().rot.clone();
        next
    }

    /// Reads without faults, rot or rules: to find the zones of the store.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub(crate) fn peek(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MediaError> {
        self.recording.live_image().peek(offset, bytes)
    }

    fn error(&self, operation: Operation, offset: u64, len: usize, errno: i32) -> MediaError {
        MediaError::Io {
            device: Arc::clone(&self.name),
            operation,
            offset,
            len_bytes: len as u64,
            errno,
        }
    }

    /// Counts a request, and finds what must become of it.
    fn enter(&self, operation: Operation) -> Twist {
        if self.shared.is_off() {
            return Twist::Fail(EIO, 0);
        }
        let mut state = self.state.lock();
        let mut twist = Twist::None;
        let mut n = 0;
        while n < state.armed.len() {
            let Some(armed) = state.armed.get_mut(n) else {
                break;
            };
            if !concerns(armed.fault, operation) {
                n += 1;
                continue;
            }
            if armed.left > 0 {
                armed.left -= 1;
                n += 1;
                continue;
            }
            let fault = armed.fault;
            if !matches!(fault, Fault::Gone(_)) {
                state.armed.swap_remove(n);
            } else {
                n += 1;
            }
            if !matches!(fault, Fault::Gone(_)) || state.failure.is_none() {
                self.shared.note_fired();
            }
            twist = self.fire(&mut state, fault, operation, twist);
        }
        if operation == Operation::Sync && state.lies > 0 {
            state.lies -= 1;
            self.shared.note_lie();
            return Twist::Lie;
        }
        twist
    }

    fn fire(&self, state: &mut State, fault: Fault, operation: Operation, twist: Twist) -> Twist {
        match fault {
            Fault::FailWrite(_, sectors) => Twist::Fail(EIO, sectors),
            Fault::FailSync(_) | Fault::FailRead(_) => Twist::Fail(EIO, 0),
            Fault::NoSpace(_) => Twist::Fail(ENOSPC, 0),
            Fault::Gone(_) => {
                if state.failure.is_none() {
                    self.shared.note_down();
                    state.failure = Some(self.error(operation, 0, 0, ENODEV));
                }
                Twist::Fail(ENODEV, 0)
            }
            Fault::Latency(_, micros) => {
                self.shared.clock.sleep(Duration::from_micros(micros));
                twist
            }
            Fault::MisdirectRead(_, sectors) | Fault::MisdirectWrite(_, sectors) => {
                self.shared.note_damage();
                Twist::Misdirect(sectors)
            }
            Fault::LieSync(_, count) => {
                state.lies += count;
                twist
            }
        }
    }

    /// Counts a request that changes something; true if the power goes with it.
    fn count_change(&self, what: u64, offset: u64, data: &[u8]) -> bool {
        let is_last = self.shared.count_change(what, offset, data);
        if let Some(is_last) = is_last {
            self.state.lock().changes += 1;
            return is_last;
        }
        false
    }

    fn check_sticky(&self) -> Result<(), MediaError> {
        let failure = self.state.lock().failure.clone();
        match failure {
            None => Ok(()),
            Some(cause) => {
                self.shared.note_reported();
                Err(MediaError::Failed {
                    device: Arc::clone(&self.name),
                    cause: Box::new(cause),
                })
            }
        }
    }

    fn stick(&self, error: MediaError) -> MediaError {
        self.shared.note_reported();
        self.shared.note_down();
        self.state.lock().failure.get_or_insert(error.clone());
        error
    }

    /// Another place for a request of this length, so many sectors away, around the device's end.
    fn elsewhere(&self, offset: u64, len: usize, sectors: u64) -> u64 {
        let room = self.geometry().len_bytes - len as u64;
        let sector = u64::from(SECTOR_BYTES);
        (offset + sectors * sector) % (room / sector).max(1).saturating_mul(sector)
    }

    fn see_rot(&self, offset: u64, bytes: &mut [u8]) {
        let state = self.state.lock();
        if state.rot.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        for (at, bits) in state.rot.range(offset..end) {
            if let Some(byte) = bytes.get_mut((at - offset) as usize) {
                *byte ^= bits;
            }
        }
    }

    fn forget_rot(&self, offset: u64, len: usize) {
        let mut state = self.state.lock();
        if !state.rot.is_empty() {
            let written = offset..offset + len as u64;
            state.rot.retain(|at, _| !written.contains(at));
        }
    }

    fn tidy(&self) -> Result<(), MediaError> {
        if self.state.lock().changes.is_multiple_of(FORGET_EVERY) {
            self.recording.forget_synced()?;
        }
        Ok(())
    }
}

fn concerns(fault: Fault, operation: Operation) -> bool {
    match fault {
        Fault::FailWrite(..) | Fault::NoSpace(_) | Fault::MisdirectWrite(..) => {
            operation == Operation::Write
        }
        Fault::FailSync(_) | Fault::LieSync(..) => operation == Operation::Sync,
        Fault::FailRead(_) | Fault::MisdirectRead(..) => operation == Operation::Read,
        Fault::Gone(_) | Fault::Latency(..) => true,
    }
}

impl Media for SimMedia {
    fn geometry(&self) -> Geometry {
        self.recording.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        match self.enter(Operation::Read) {
            Twist::Fail(errno, _) => Err(self.error(Operation::Read, offset, buf.len(), errno)),
            Twist::Misdirect(sectors) => {
                let there = self.elsewhere(offset, buf.len(), sectors);
                self.recording.read_at(there, buf)
            }
            Twist::None | Twist::Lie => {
                self.recording.read_at(offset, buf)?;
                self.see_rot(offset, buf);
                Ok(())
            }
        }
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
        reads
            .iter_mut()
            .try_for_each(|read| self.read_at(read.offset, read.buf))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.check_sticky()?;
        let is_last = self.count_change(1, offset, data);
        let twist = self.enter(Operation::Write);
        match twist {
            // The write under way when the power goes may arrive, whole or torn.
            Twist::Fail(..) if is_last => {
                self.recording.write_at(offset, data)?;
                Err(self.stick(self.error(Operation::Write, offset, data.len(), EIO)))
            }
            Twist::Fail(errno, sectors) => {
                let bytes = (sectors * u64::from(SECTOR_BYTES)) as usize;
                let part = data.get(..bytes).unwrap_or(data);
                if !self.shared.is_off() {
                    self.recording.write_at(offset, part)?;
                }
                Err(self.stick(self.error(Operation::Write, offset, data.len(), errno)))
            }
            Twist::Misdirect(sectors) => {
                let there = self.elsewhere(offset, data.len(), sectors);
                self.forget_rot(there, data.len());
                self.recording.write_at(there, data)
            }
            Twist::None | Twist::Lie => {
                self.forget_rot(offset, data.len());
                self.recording.write_at(offset, data)?;
                self.tidy()
            }
        }
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.check_sticky()?;
        self.count_change(2, 0, &[]);
        match self.enter(Operation::Sync) {
            Twist::Fail(errno, _) => Err(self.stick(self.error(Operation::Sync, 0, 0, errno))),
            Twist::Lie => Ok(()),
            Twist::None | Twist::Misdirect(_) => self.recording.sync(),
        }
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.count_change(3, offset, &len_bytes.to_le_bytes());
        match self.enter(Operation::Discard) {
            Twist::Fail(errno, _) => {
                Err(self.error(Operation::Discard, offset, len_bytes as usize, errno))
            }
            _ => {
                self.forget_rot(offset, len_bytes as usize);
                self.recording.discard(offset, len_bytes)
            }
        }
    }

    fn describe(&self) -> String {
        self.name.to_string()
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.recording.allocated_bytes()
    }

    fn failure(&self) -> Option<MediaError> {
        self.state.lock().failure.clone()
    }

    fn io_kind(&self) -> IoKind {
        IoKind::Memory
    }
}
