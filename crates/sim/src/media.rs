//! The simulated device: memory that records its writes, so that every legal image of a crash can
//! be made, and that fails as a script tells it to.
//!
//! # Fault model
//! What may happen, and what the store then owes:
//!
//! | Fault | Where | Owed |
//! |---|---|---|
//! | Crash: unsynced writes lost, kept, reordered, torn by sector; discarded bytes old, zero or garbage | everywhere | everything: all that was acknowledged as durable, a prefix of history, batches whole |
//! | Write or sync fails, no space, device gone | everywhere | as above, and no success is reported afterwards until the store is opened again |
//! | Read fails once | everywhere | an error; nothing is lost |
//! | Latency | everywhere | everything |
//! | Bit rot in one superblock copy | superblock | everything, with a warning: the other copy serves |
//! | Bit rot in a checkpoint, a sealed segment, the tail of the log | there | never a wrong value: an error, or reported damage, or an older state of the key |
//! | Misdirected read or write | everywhere | the same: detection |
//! | Sync that lies | everywhere | the same, in a run of its own: what was acknowledged may be lost, but not turn into something else |
//!
//! The tail of the log is a zone of its own: a torn write and rot look alike there unless a later
//! frame says that the bytes had been durable, so rot in the newest frames may cut the tail silently.
//!
//! Threads: any, but the order of requests is part of a run, so a run uses one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heliox::Simulation;
use heliox_media::{
    Geometry, IoKind, Media, MediaError, MemoryMedia, Operation, Read, RecordingMedia,
};
use parking_lot::Mutex;

use crate::clock::Clock;

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
    /// Requests that change something before the power goes.
    power_left: Option<u64>,
    is_off: bool,
    /// When the store was first told that something failed for good, or the power went.
    down_at: Option<Duration>,
    is_reported: bool,
    failure: Option<MediaError>,
    lies: u64,
    fired: u64,
    is_tainted: bool,
    has_lied: bool,
    changes: u64,
    digest: u64,
}

/// What a request has to do instead of what it was asked for.
enum Twist {
    None,
    Fail(i32, u64),
    Misdirect(u64),
    Lie,
}

/// A device of a simulation.
pub struct SimMedia {
    recording: RecordingMedia,
    clock: Arc<Clock>,
    name: Arc<str>,
    state: Mutex<State>,
}

impl SimMedia {
    /// A device that holds `image`, all of it durable.
    #[must_use]
    pub fn new(image: MemoryMedia, clock: Arc<Clock>) -> SimMedia {
        SimMedia {
            recording: RecordingMedia::new(image),
            clock,
            name: "simulated device".into(),
            state: Mutex::default(),
        }
    }

    /// Arms a fault.
    pub fn arm(&self, fault: Fault) {
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

    /// Flips bits of the byte at `offset`.
    pub fn rot(&self, offset: u64, bits: u8, taints: bool) {
        let mut state = self.state.lock();
        *state.rot.entry(offset).or_default() ^= bits;
        state.fired += 1;
        state.is_tainted |= taints;
    }

    /// The power goes at the `after`-th request from now that changes something; 0 is at once.
    pub fn power_off(&self, after: u64) {
        let mut state = self.state.lock();
        state.power_left = Some(after);
        if after == 0 {
            self.go_off(&mut state);
        }
    }

    /// True if the power is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state.lock().is_off
    }

    /// True if a write or sync has failed, or the device is off or gone: nothing may be
    /// acknowledged.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let state = self.state.lock();
        state.is_off || state.failure.is_some()
    }

    /// True if the store was told that a write or sync failed.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.state.lock().is_reported
    }

    /// When the device failed for good, on the clock between events.
    #[must_use]
    pub fn down_at(&self) -> Option<Duration> {
        self.state.lock().down_at
    }

    /// Says when the device before this one went down.
    pub fn note_down_at(&self, down_at: Option<Duration>) {
        self.state.lock().down_at = down_at;
    }

    /// True if bytes were damaged behind the store's back: only detection is owed.
    #[must_use]
    pub fn is_tainted(&self) -> bool {
        self.state.lock().is_tainted
    }

    /// True if a sync has lied.
    #[must_use]
    pub fn has_lied(&self) -> bool {
        self.state.lock().has_lied
    }

    /// Faults that took effect.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.state.lock().fired
    }

    /// A digest of all requests that changed something, in order: two runs are the same if these
    /// agree.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.state.lock().digest
    }

    /// The device as a crash now could leave it, faults that wait forgotten, rot kept.
    ///
    /// # Errors
    /// Never, unless the recording is broken.
    pub fn crashed(&self, image_seed: u64) -> Result<SimMedia, MediaError> {
        let image = self
            .recording
            .crash_image(self.recording.event_count(), image_seed)?;
        let next = SimMedia::new(image, Arc::clone(&self.clock));
        let state = self.state.lock();
        let mut new = next.state.lock();
        new.rot = state.rot.clone();
        new.is_tainted = state.is_tainted;
        new.has_lied = state.has_lied;
        new.fired = state.fired;
        new.digest = state.digest ^ image_seed;
        drop(new);
        Ok(next)
    }

    /// A copy of what the device holds now, rot included, for a check of the whole store.
    ///
    /// # Errors
    /// Never, unless the recording is broken.
    pub fn copy(&self) -> Result<SimMedia, MediaError> {
        let next = SimMedia::new(self.recording.live_image(), Arc::clone(&self.clock));
        let state = self.state.lock();
        let mut new = next.state.lock();
        new.rot = state.rot.clone();
        new.is_tainted = state.is_tainted;
        new.has_lied = state.has_lied;
        new.fired = state.fired;
        new.digest = state.digest;
        drop(new);
        drop(state);
        Ok(next)
    }

    /// Reads without faults, rot or rules: to find the zones of the store.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn peek(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MediaError> {
        self.recording.live_image().peek(offset, bytes)
    }

    fn go_off(&self, state: &mut State) {
        state.is_off = true;
        state.down_at.get_or_insert(self.clock.ticked());
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
        let mut state = self.state.lock();
        if state.is_off {
            return Twist::Fail(EIO, 0);
        }
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
                state.fired += 1;
            }
            twist = self.fire(&mut state, fault, operation, twist);
        }
        if operation == Operation::Sync && state.lies > 0 {
            state.lies -= 1;
            state.has_lied = true;
            state.is_tainted = true;
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
                    state.down_at.get_or_insert(self.clock.ticked());
                    state.failure = Some(self.error(operation, 0, 0, ENODEV));
                }
                Twist::Fail(ENODEV, 0)
            }
            Fault::Latency(_, micros) => {
                self.clock.sleep(Duration::from_micros(micros));
                twist
            }
            Fault::MisdirectRead(_, sectors) | Fault::MisdirectWrite(_, sectors) => {
                state.is_tainted = true;
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
        let mut state = self.state.lock();
        if state.is_off {
            return false;
        }
        state.changes += 1;
        state.digest = digest(state.digest, &what.to_le_bytes());
        state.digest = digest(state.digest, &offset.to_le_bytes());
        state.digest = digest(state.digest, data);
        let Some(left) = state.power_left.as_mut() else {
            return false;
        };
        *left = left.saturating_sub(1);
        let is_last = *left == 0;
        if is_last {
            self.go_off(&mut state);
        }
        is_last
    }

    fn check_sticky(&self) -> Result<(), MediaError> {
        let mut state = self.state.lock();
        match &state.failure {
            None => Ok(()),
            Some(cause) => {
                let cause = cause.clone();
                state.is_reported = true;
                Err(MediaError::Failed {
                    device: Arc::clone(&self.name),
                    cause: Box::new(cause),
                })
            }
        }
    }

    fn stick(&self, error: MediaError) -> MediaError {
        let mut state = self.state.lock();
        state.is_reported = true;
        state.down_at.get_or_insert(self.clock.ticked());
        state.failure.get_or_insert(error.clone());
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

fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let mut sum = seed;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        if let Some(head) = word.get_mut(..chunk.len()) {
            head.copy_from_slice(chunk);
        }
        sum = (sum ^ u64::from_le_bytes(word))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
    sum
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
                if !self.is_off() {
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
