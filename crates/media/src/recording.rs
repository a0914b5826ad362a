//! A device that remembers its writes and syncs, and builds every image that a crash could leave.
//!
//! # What an image may hold
//! A crash at event `e` happens after the first `e` events. The rules, all of them from the contract
//! of [`Media`]:
//! 1. **Synced is certain.** A write is certain if it was recorded before a sync began that had
//!    ended (recorded as an event) before `e`. A sync that began and did not end makes nothing
//!    certain; nor does it for writes that were recorded while it ran.
//! 2. **Unsynced is free.** Every other write may be there or not, alone or with others, whatever
//!    their order was: in each sector that it touched, an image holds either the newest certain
//!    bytes or those of *any one* of the free writes to that sector (an older one too: then the
//!    newer is the lost one).
//! 3. **Sectors are atomic.** A free write may be there in some of its sectors and not in others
//!    (torn), but each sector is wholly one version.
//! 4. **The past is gone.** A version that a certain write has replaced never comes back.
//! 5. **Nothing else changes.** Sectors that nobody wrote keep the bytes they had.
//! 6. **A discard is never certain.** Until something is written there again, discarded sectors hold
//!    old bytes, zeros or garbage. For discards before the last completed sync, and for the live
//!    device, which of them is a fixed function of place and event, so that images agree with what
//!    reads saw; for later ones the image's choice decides whether the discard happened.
//!
//! An image is an ordinary [`MemoryMedia`]; wrap it again to crash during recovery.
//!
//! # Threads
//! Any. The order of events is the order in which calls got the lock; a write is recorded and
//! visible in one step. Images may be made while others write.

use std::sync::Arc;

use heliox_sync::Mutex;

use crate::error::MediaError;
use crate::memory::MemoryMedia;
use crate::random::Random;
use crate::{Geometry, IoKind, Media, Read};

/// Grain of the effects of a discard.
const DISCARD_GRAIN_BYTES: u64 = 64 << 10;

/// Which of the free writes an image holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CrashChoice<'a> {
    /// None.
    NothingUnsynced,
    /// All, in their order: the device just lost power after finishing.
    EverythingUnsynced,
    /// The free events (see [`RecordingMedia::free_events`]) whose flag is set, whole and in their
    /// order; missing flags are unset.
    Whole(&'a [bool]),
    /// Of each free event, the sectors whose flag is set, in the events' order; missing flags are
    /// unset. A discard happens if its first flag is set. Together these are all legal images.
    Sectors(&'a [Vec<bool>]),
    /// Drawn at random: lost, kept, reordered and torn in many mixtures. The seeds 0 and 1 are
    /// [`CrashChoice::NothingUnsynced`] and [`CrashChoice::EverythingUnsynced`].
    Seed(u64),
}

/// A device in memory that records what is done to it.
pub struct RecordingMedia {
    live: MemoryMedia,
    log: Mutex<Log>,
}

#[derive(Clone)]
enum Event {
    Write { offset: u64, data: Arc<[u8]> },
    Discard { offset: u64, len_bytes: u64 },
    SyncBegin,
    SyncEnd,
}

struct Log {
    /// The device before event number `first`.
    base: MemoryMedia,
    /// Events forgotten so far: the number of `events[0]`.
    first: usize,
    events: Vec<Event>,
    /// For each event: all writes numbered below this are certain once it has happened.
    certain: Vec<usize>,
    /// The base with all certain events before a number applied; saves work between images.
    cached: (usize, MemoryMedia),
}

impl RecordingMedia {
    /// Records from here on; what `media` holds now is certain.
    #[must_use]
    pub fn new(media: MemoryMedia) -> RecordingMedia {
        let log = Log {
            base: media.clone(),
            first: 0,
            events: Vec::new(),
            certain: Vec::new(),
            cached: (0, media.clone()),
        };
        RecordingMedia {
            live: media,
            log: Mutex::new(log),
        }
    }

    /// How many events there were: writes, discards, beginnings and ends of syncs. A crash is
    /// possible at every number from [`RecordingMedia::first_event`] to this one.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.log.lock().count()
    }

    /// The lowest number that a crash can still be asked for at.
    #[must_use]
    pub fn first_event(&self) -> usize {
        self.log.lock().first
    }

    /// The numbers at which a crash comes right after a sync ended.
    #[must_use]
    pub fn sync_points(&self) -> Vec<usize> {
        let log = self.log.lock();
        let ends = log
            .events
            .iter()
            .enumerate()
            .filter(|(_, e)| matches!(e, Event::SyncEnd));
        ends.map(|(n, _)| log.first + n + 1).collect()
    }

    /// How many writes and discards are free in a crash at this event: the length of a full
    /// [`CrashChoice::Whole`].
    ///
    /// # Errors
    /// [`MediaError::Internal`] if there is no such event (any more).
    pub fn free_events(&self, at_event: usize) -> Result<usize, MediaError> {
        Ok(self.log.lock().free(at_event)?.len())
    }

    /// How many sectors each of the free events is of, 1 for a discard: the lengths of a full
    /// [`CrashChoice::Sectors`].
    ///
    /// # Errors
    /// [`MediaError::Internal`] if there is no such event (any more).
    pub fn free_sectors(&self, at_event: usize) -> Result<Vec<usize>, MediaError> {
        let sector_bytes = self.geometry().sector_bytes as usize;
        let free = self.log.lock().free(at_event)?;
        let sectors = |(_, event): &(usize, Event)| match event {
            Event::Write { data, .. } => data.len().div_ceil(sector_bytes),
            _ => 1,
        };
        Ok(free.iter().map(sectors).collect())
    }

    /// The device as a crash at this event could leave it; the same arguments give the same image.
    ///
    /// # Errors
    /// [`MediaError::Internal`] if there is no such event (any more).
    pub fn crash_image(&self, at_event: usize, rng_seed: u64) -> Result<MemoryMedia, MediaError> {
        self.crash_image_of(at_event, CrashChoice::Seed(rng_seed))
    }

    /// As [`RecordingMedia::crash_image`], with any choice.
    ///
    /// # Errors
    /// [`MediaError::Internal`] if there is no such event (any more).
    pub fn crash_image_of(
        &self,
        at_event: usize,
        choice: CrashChoice<'_>,
    ) -> Result<MemoryMedia, MediaError> {
        let (image, free) = {
            let mut log = self.log.lock();
            let free = log.free(at_event)?;
            (log.certain_image(at_event)?, free)
        };
        match choice {
            CrashChoice::NothingUnsynced | CrashChoice::Seed(0) => {}
            CrashChoice::EverythingUnsynced | CrashChoice::Seed(1) => {
                free.iter()
                    .try_for_each(|(number, event)| apply(&image, *number, event))?;
            }
            CrashChoice::Whole(kept) => {
                let kept = free.iter().zip(kept).filter(|(_, &kept)| kept);
                kept.map(|(event, _)| event)
                    .try_for_each(|(n, event)| apply(&image, *n, event))?;
            }
            CrashChoice::Sectors(kept) => {
                for ((number, event), kept) in free.iter().zip(kept) {
                    keep_sectors(&image, *number, event, kept)?;
                }
            }
            CrashChoice::Seed(seed) => draw(&image, free, &mut Random::new(seed))?,
        }
        Ok(image)
    }

    /// The device as it is now, unsynced writes included: what a process crash leaves.
    #[must_use]
    pub fn live_image(&self) -> MemoryMedia {
        let _still = self.log.lock();
        self.live.clone()
    }

    /// Frees the memory of all events that are certain now; no crash can be asked for before them
    /// any more. Numbers stay as they are.
    ///
    /// # Errors
    /// [`MediaError::Internal`] if the record is broken.
    pub fn forget_synced(&self) -> Result<(), MediaError> {
        let mut log = self.log.lock();
        let count = log.count();
        let image = log.certain_image(count)?;
        let certain = log.certain_before(count);
        log.base = image;
        let gone = certain - log.first;
        log.events.drain(..gone);
        log.certain.drain(..gone);
        log.first = certain;
        Ok(())
    }
}

impl Log {
    fn count(&self) -> usize {
        self.first + self.events.len()
    }

    fn record(&mut self, event: Event, certain: usize) {
        self.certain
            .push(self.certain_before(self.count()).max(certain));
        self.events.push(event);
    }

    /// All writes numbered below the answer are certain in a crash at this event.
    fn certain_before(&self, at_event: usize) -> usize {
        let last = at_event
            .checked_sub(self.first + 1)
            .and_then(|n| self.certain.get(n));
        last.copied().unwrap_or(0).max(self.first)
    }

    fn slice(&self, from: usize, to: usize) -> Result<Vec<(usize, Event)>, MediaError> {
        let range = from.checked_sub(self.first).zip(to.checked_sub(self.first));
        let events = range
            .and_then(|(from, to)| self.events.get(from..to))
            .ok_or_else(no_such)?;
        Ok(events
            .iter()
            .cloned()
            .enumerate()
            .map(|(n, event)| (from + n, event))
            .collect())
    }

    /// Numbered writes and discards that are free in a crash at this event.
    fn free(&self, at_event: usize) -> Result<Vec<(usize, Event)>, MediaError> {
        if at_event < self.first {
            return Err(no_such());
        }
        let mut free = self.slice(self.certain_before(at_event), at_event)?;
        free.retain(|(_, e)| matches!(e, Event::Write { .. } | Event::Discard { .. }));
        Ok(free)
    }

    /// The device with the certain events only.
    fn certain_image(&mut self, at_event: usize) -> Result<MemoryMedia, MediaError> {
        let certain = self.certain_before(at_event);
        let (from, image) = match &self.cached {
            (number, image) if *number <= certain && *number >= self.first => {
                (*number, image.clone())
            }
            _ => (self.first, self.base.clone()),
        };
        for (number, event) in self.slice(from, certain)? {
            apply(&image, number, &event)?;
        }
        if certain >= self.cached.0 {
            self.cached = (certain, image.clone());
        }
        Ok(image)
    }
}

fn no_such() -> MediaError {
    MediaError::Internal {
        device: "recording".into(),
        what: "no such event, or it was forgotten",
    }
}

/// Lets one event happen whole.
fn apply(image: &MemoryMedia, number: usize, event: &Event) -> Result<(), MediaError> {
    match event {
        Event::Write { offset, data } => image.poke(*offset, data),
        Event::Discard { offset, len_bytes } => discard(image, number, *offset, *len_bytes),
        Event::SyncBegin | Event::SyncEnd => Ok(()),
    }
}

/// Discards: mostly zeros, now and then old bytes or garbage, as a function of place and event.
fn discard(
    image: &MemoryMedia,
    number: usize,
    offset: u64,
    len_bytes: u64,
) -> Result<(), MediaError> {
    let end = offset + len_bytes;
    let mut at = offset;
    while at < end {
        let next = (at / DISCARD_GRAIN_BYTES + 1) * DISCARD_GRAIN_BYTES;
        let len = next.min(end) - at;
        let mut random = Random::new((number as u64) << 32 ^ at);
        match random.below(8) {
            0 | 1 => {}
            2 => {
                let garbage: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
                image.poke(at, &garbage)?;
            }
            _ => image.discard(at, len)?,
        }
        at += len;
    }
    Ok(())
}

/// Applies a random legal part of the free events.
fn draw(
    image: &MemoryMedia,
    mut free: Vec<(usize, Event)>,
    random: &mut Random,
) -> Result<(), MediaError> {
    // Each mixture finds other mistakes: a clean cut, a cut within a write, holes, general disorder.
    let mixture = random.below(4);
    if mixture <= 1 {
        free.truncate(random.below(free.len() as u64 + 1) as usize);
    }
    if mixture == 3 {
        shuffle(&mut free, random);
    }
    let keep_of_16 = 1 + random.below(15);
    let last = free.len().saturating_sub(1);
    for (n, (number, event)) in free.iter().enumerate() {
        let torn = (mixture == 1 && n == last) || (mixture == 3 && random.below(2) == 0);
        let kept = mixture <= 1 || random.below(16) < keep_of_16;
        match event {
            _ if !kept => {}
            Event::Write { offset, data } if torn => tear(image, *offset, data, random)?,
            whole => apply(image, *number, whole)?,
        }
    }
    Ok(())
}

/// Applies some sectors of a write: a random part of them, or all but the first, or a prefix.
fn tear(
    image: &MemoryMedia,
    offset: u64,
    data: &[u8],
    random: &mut Random,
) -> Result<(), MediaError> {
    let sector_bytes = image.geometry().sector_bytes as usize;
    let sectors = data.len().div_ceil(sector_bytes) as u64;
    let shape = random.below(3);
    let cut = random.below(sectors + 1);
    for (n, sector) in data.chunks(sector_bytes).enumerate() {
        let kept = match shape {
            0 => (n as u64) < cut,
            1 => (n as u64) >= cut.min(1),
            _ => random.below(2) == 0,
        };
        if kept {
            image.poke(offset + (n * sector_bytes) as u64, sector)?;
        }
    }
    Ok(())
}

/// Lets an event happen in the sectors whose flag is set.
fn keep_sectors(
    image: &MemoryMedia,
    number: usize,
    event: &Event,
    kept: &[bool],
) -> Result<(), MediaError> {
    let Event::Write { offset, data } = event else {
        return match kept.first() {
            Some(true) => apply(image, number, event),
            _ => Ok(()),
        };
    };
    let sector_bytes = image.geometry().sector_bytes as usize;
    let sectors = data.chunks(sector_bytes).zip(kept).enumerate();
    for (n, (sector, _)) in sectors.filter(|(_, (_, kept))| **kept) {
        image.poke(offset + (n * sector_bytes) as u64, sector)?;
    }
    Ok(())
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for n in (1..items.len()).rev() {
        items.swap(n, random.below(n as u64 + 1) as usize);
    }
}

impl Media for RecordingMedia {
    fn geometry(&self) -> Geometry {
        self.live.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.live.read_at(offset, buf)
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
        self.live.read_many(reads)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let copy: Arc<[u8]> = data.into();
        let mut log = self.log.lock();
        self.live.write_at(offset, data)?;
        log.record(Event::Write { offset, data: copy }, 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), MediaError> {
        let begin = {
            let mut log = self.log.lock();
            log.record(Event::SyncBegin, 0);
            log.count() - 1
        };
        self.live.sync()?;
        self.log.lock().record(Event::SyncEnd, begin);
        Ok(())
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        let mut log = self.log.lock();
        self.live.check_discard(offset, len_bytes)?;
        discard(&self.live, log.count(), offset, len_bytes)?;
        log.record(Event::Discard { offset, len_bytes }, 0);
        Ok(())
    }

    fn describe(&self) -> String {
        format!("recording of {}", self.live.describe())
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.live.allocated_bytes()
    }

    fn io_kind(&self) -> IoKind {
        IoKind::Memory
    }
}
