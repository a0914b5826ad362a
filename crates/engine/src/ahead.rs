//! The segment that collection will want next, read and verified while the one before is being moved.
//!
//! A victim's bytes do not change while its birth is the same, so they may be read early; what of
//! it is live is asked when it is collected. Memory: one segment read ahead, one being collected,
//! and no more when collection has nothing to do.
//!
//! Threads: one collection step at a time uses it.

use heliox_format::ids::SegmentId;
use heliox_log::scan::{SegmentRecords, SegmentScanner};
use heliox_log::segments::Segment;
use heliox_log::{Log, LogError};
use heliox_media::AlignedBuf;
use heliox_sync::Mutex;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Ahead {
    next: Mutex<Option<(SegmentId, Segment, SegmentRecords)>>,
    spare: Mutex<Option<AlignedBuf>>,
}

impl Ahead {
    /// The segment that was read ahead.
    pub(crate) fn peek(&self) -> Option<SegmentId> {
        self.next.lock().as_ref().map(|(id, ..)| *id)
    }

    /// Reads and verifies a segment, unless that was done already.
    pub(crate) fn take(
        &self,
        log: &Log,
        id: SegmentId,
        segment: &Segment,
    ) -> Result<SegmentRecords, LogError> {
        if let Some((next, read, records)) = self.next.lock().take() {
            if next == id && read.birth == segment.birth && read.used_bytes == segment.used_bytes {
                return Ok(records);
            }
            self.give_back(records);
        }
        self.load(log, id, segment)
    }

    /// Reads a segment for a [`Ahead::take`] to come; where that fails, it will fail as well.
    pub(crate) fn read(&self, log: &Log, id: SegmentId, segment: &Segment) {
        if let Ok(records) = self.load(log, id, segment) {
            *self.next.lock() = Some((id, *segment, records));
        }
    }

    fn load(
        &self,
        log: &Log,
        id: SegmentId,
        segment: &Segment,
    ) -> Result<SegmentRecords, LogError> {
        let (media, geometry) = (log.media(), log.geometry());
        let spare = self.spare.lock().take();
        let used_bytes = Some(segment.used_bytes);
        let scanner = SegmentScanner::load_into(&**media, geometry, id, used_bytes, spare)?;
        Ok(scanner.into_records())
    }

    /// Takes the memory of records back.
    pub(crate) fn give_back(&self, records: SegmentRecords) {
        *self.spare.lock() = Some(records.into_memory());
    }

    /// Gives all memory back.
    pub(crate) fn clear(&self) {
        *self.next.lock() = None;
        *self.spare.lock() = None;
    }
}
