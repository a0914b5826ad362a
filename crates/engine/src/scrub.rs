//! The scrub: reads everything that is in use, slowly, and finds bit rot before a reader does.
//!
//! A step reads and verifies one piece: checksums of frames and chunks, that they are of the life
//! that the accounts say, that records parse; headers of segments; labels and superblock copies.
//! Nothing is locked meanwhile. What does not verify is read once more, and then counts only if the
//! segment (by its birth) or the checkpoint (by its number) is still the one meant: so what was
//! collected or overwritten meanwhile is no alarm. A segment without live records is passed over:
//! nothing of it is needed, and a crash may have left anything in its place.
//!
//! What is done about damage:
//! - a label or superblock copy is written anew (`root/heads.rs`);
//! - a damaged checkpoint is replaced by a new one at once;
//! - a segment of the log is evacuated (`evacuate.rs`): first, if replay would need it, a checkpoint
//!   is written; then each live record, from memory where the medium has lost it, is appended anew
//!   with the condition that its entry still holds the old location. The segment is empty then, and
//!   collection gives it back; if the device could not read it, not before the store is opened anew.
//!
//! After a failed write the scrub goes on, and only reports.

use std::time::Duration;

use heliox_format::checkpoint::{open_chunk, peek_chunk, ChunkKind, CHUNK_HEADER_BYTES};
use heliox_format::ids::{Birth, SegmentId};
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_log::segments::{Segment, SegmentTable};
use heliox_log::verify::verify_blocks;
use heliox_log::LogError;
use heliox_media::AlignedBuf;
use heliox_sync::atomic::{fence, Ordering};

use crate::checkpoint;
use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::evacuate;
use crate::events::EventKind;
use crate::findings::Mark;
use crate::health::{Finding, Place, Remedy, ScrubProgress, ScrubReport, Structure};
use crate::patrol::{
    rate, CheckpointWalk, Gap, Pass, SegmentWalk, Walk, PIECE_BYTES, WINDOW_BYTES,
};
use crate::root::Head;

/// Segments that one look at the table passes.
const LOOKS_PER_LOCK: u32 = 256;
/// Damaged places of one segment that are kept apart.
const GAPS_MAX: usize = 256;
/// How often a pass that somebody waits for takes up the checkpoint that replaced the one it read.
const CHECKPOINT_TRIES: u32 = 3;

// ---- who drives it ----

/// How long until the next piece is due; none if the scrub is off.
pub(crate) fn due_in(core: &Core) -> Option<Duration> {
    let now = core.settings.environment.elapsed();
    (core.settings.scrub_period_secs > 0).then(|| core.patrol.due_in(now))
}

/// Reads one piece if it is due, at the store's pace. True if it was.
pub(crate) fn step_if_due(core: &Core) -> Result<bool> {
    if due_in(core).is_none_or(|due| !due.is_zero()) {
        return Ok(false);
    }
    let Some(mut pass) = core.patrol.pass.try_lock() else {
        return Ok(false);
    };
    let began = core.settings.environment.elapsed();
    let stepped = background_step(core, &mut pass);
    let bytes = match stepped {
        Ok(bytes) => bytes,
        Err(error) => {
            core.patrol.pause(core.settings.environment.elapsed());
            return Err(error);
        }
    };
    let pace = rate(used_bytes(core), core.settings.scrub_period_secs);
    core.patrol.spend(began, bytes, pace);
    Ok(true)
}

/// Verifies what the background pass comes to next as a whole, due or not.
pub(crate) fn target_step(core: &Core) -> Result<bool> {
    let Some(mut pass) = core.patrol.pass.try_lock() else {
        return Ok(false);
    };
    loop {
        background_step(core, &mut pass)?;
        core.settings.environment.breathe();
        let walk = pass.as_ref().map(|p| &p.walk);
        if !matches!(walk, Some(Walk::Segment(_) | Walk::Checkpoint(_))) {
            return Ok(true);
        }
    }
}

fn background_step(core: &Core, slot: &mut Option<Pass>) -> Result<u64> {
    let pass = match slot {
        Some(pass) => pass,
        None => slot.insert(begin(core, true)?),
    };
    let bytes = step(core, pass)?;
    if matches!(pass.walk, Walk::Over) {
        if let Some(pass) = slot.take() {
            end(core, pass);
        }
    }
    Ok(bytes)
}

/// Verifies everything that is in use now, as fast as the device gives it.
pub(crate) fn run(core: &Core, progress: &mut dyn FnMut(ScrubProgress)) -> Result<ScrubReport> {
    let mut pass = begin(core, false)?;
    let mut tries = CHECKPOINT_TRIES;
    loop {
        core.check_open()?;
        let was_checkpoint = matches!(pass.walk, Walk::Checkpoint(_));
        let number = checkpoint_number(core);
        step(core, &mut pass)?;
        let is_left = was_checkpoint && matches!(pass.walk, Walk::FindSegment);
        if is_left && tries > 1 && number != checkpoint_number(core) {
            tries -= 1;
            pass.walk = Walk::FindCheckpoint;
        }
        progress(ScrubProgress {
            done_bytes: pass.report.bytes,
            total_bytes: used_bytes(core).max(pass.report.bytes),
        });
        if matches!(pass.walk, Walk::Over) {
            return Ok(end(core, pass));
        }
    }
}

fn begin(core: &Core, in_background: bool) -> Result<Pass> {
    let mut random = [0; 4];
    if in_background {
        core.settings.environment.fill_random(&mut random)?;
    }
    let first = u32::from_le_bytes(random) % core.log.geometry().segments.max(1);
    let now_ms = core.now_ms();
    core.events.emit(now_ms, EventKind::ScrubStarted);
    Ok(Pass::new(now_ms, first, in_background))
}

fn end(core: &Core, pass: Pass) -> ScrubReport {
    let mut report = pass.report;
    report.finished_ms = core.now_ms();
    core.counters.scrub_passes.add(1);
    core.patrol.set_last(report.clone());
    let kind = EventKind::ScrubFinished(report.clone());
    core.events.emit(report.finished_ms, kind);
    report
}

/// Bytes of all segments that are in use.
fn used_bytes(core: &Core) -> u64 {
    let geometry = core.log.geometry();
    let used = u64::from(geometry.segments).saturating_sub(core.log.free_segments());
    used * geometry.segment_bytes
}

// ---- one step ----

/// Does the next piece of a pass; gives the bytes read.
fn step(core: &Core, pass: &mut Pass) -> Result<u64> {
    let walk = std::mem::replace(&mut pass.walk, Walk::FindSegment);
    let before = pass.report.bytes;
    pass.walk = match walk {
        Walk::Heads => {
            verify_heads(core, pass)?;
            Walk::FindCheckpoint
        }
        Walk::FindCheckpoint => find_checkpoint(core, pass)?,
        Walk::Checkpoint(walk) => checkpoint_piece(core, pass, walk)?,
        Walk::FindSegment => find_segment(core, pass),
        Walk::Segment(walk) => segment_piece(core, pass, walk)?,
        Walk::Over => Walk::Over,
    };
    let bytes = pass.report.bytes - before;
    core.counters.scrub_bytes_read.add(bytes);
    Ok(bytes)
}

// ---- labels and superblock copies ----

fn verify_heads(core: &Core, pass: &mut Pass) -> Result<()> {
    for head in core.root.heads() {
        let found = core.root.verify_head(head)?;
        pass.report.bytes += BLOCK_BYTES as u64;
        // After a failed write nobody knows what the copies hold.
        let Some(what) = found.filter(|_| can_write(core)) else {
            continue;
        };
        let (volume, offset) = head.place();
        let place = Place {
            volume: volume as u32,
            offset,
            len_bytes: BLOCK_BYTES as u64,
            segment: None,
        };
        let structure = match head {
            Head::Label(_) => Structure::Label,
            Head::Superblock(_) => Structure::Superblock,
        };
        mend_head(core, head)?;
        let mut finding = new_finding(core, structure, place, what);
        finding.remedy = Remedy::Mended;
        let mark = Mark {
            segment: None,
            address: (volume as u64) << 32 | offset,
        };
        tell(core, pass, mark, finding);
    }
    Ok(())
}

fn mend_head(core: &Core, head: Head) -> Result<()> {
    match head {
        Head::Label(volume) => {
            let written = core.root.mend_label(volume).inspect_err(|error| {
                core.log.fail(LogError::Failed(error.to_string()));
            })?;
            core.counters.metadata_bytes_written.add(written);
        }
        Head::Superblock(copy) => {
            let mut superblock = core.superblock.lock();
            let mut next = superblock.clone();
            next.generation += 1;
            core.root.write_first(copy);
            core.write_superblock(&next)?;
            *superblock = next;
        }
    }
    Ok(())
}

// ---- the checkpoint ----

fn checkpoint_number(core: &Core) -> Option<u64> {
    core.superblock.lock().checkpoint.map(|root| root.number)
}

/// Follows the newest checkpoint's chain of headers, from its last segment backwards.
fn find_checkpoint(core: &Core, pass: &mut Pass) -> Result<Walk> {
    let Some(root) = core.superblock.lock().checkpoint else {
        return Ok(Walk::FindSegment);
    };
    let geometry = *core.log.geometry();
    let mut sector = AlignedBuf::for_read(geometry.sector_bytes)?;
    let mut chain = Vec::new();
    let mut next = Some(root.last_segment);
    while let Some(id) = next.filter(|_| chain.len() < root.segments as usize) {
        let start = geometry.start(id);
        let birth = core.log.views().birth(id);
        let mut header = Err(String::new());
        for _ in 0..2 {
            if id.0 >= geometry.segments || header.is_ok() {
                break;
            }
            header = match core.log.media().read_at(start, &mut sector) {
                Ok(()) => header_of(core, root.number, start, &sector),
                Err(error) => {
                    core.root.probe()?;
                    Err(error.to_string())
                }
            };
            pass.report.bytes += sector.len() as u64;
        }
        match header {
            Ok(header) => {
                chain.push((id, birth));
                next = header.previous;
            }
            Err(what) => return replace_checkpoint(core, pass, root.number, start, what),
        }
    }
    chain.reverse();
    Ok(Walk::Checkpoint(CheckpointWalk {
        number: root.number,
        chain,
        at: 0,
        offset: geometry.sector_bytes as u64,
        chunk: 0,
    }))
}

fn header_of(
    core: &Core,
    number: u64,
    start: u64,
    bytes: &[u8],
) -> std::result::Result<SegmentHeader, String> {
    let header = SegmentHeader::decode(core.log.geometry().salt, start, bytes);
    let header = header.map_err(|error| error.to_string())?;
    if header.kind == SegmentKind::Checkpoint && header.checkpoint == number {
        return Ok(header);
    }
    Err(format!(
        "the header of checkpoint {number} expected, found {:?} of number {}",
        header.kind, header.checkpoint
    ))
}

/// Verifies the chunks in one window.
fn checkpoint_piece(core: &Core, pass: &mut Pass, walk: CheckpointWalk) -> Result<Walk> {
    let Some((id, _)) = walk.chain.get(walk.at).copied() else {
        return Ok(Walk::FindSegment);
    };
    let geometry = *core.log.geometry();
    let address = geometry.start(id) + walk.offset;
    let len = (WINDOW_BYTES as u64).min(geometry.segment_bytes - walk.offset) as usize;
    let is_whole = address + len as u64 == geometry.end(id);
    let mut buffer = pass.take_buffer()?;
    let mut passed = Passed::Trouble(address, String::new());
    let mut next = walk.clone();
    for attempt in 0..2 {
        next = walk.clone();
        let window = buffer.get_mut(..len).unwrap_or_default();
        passed = match core.log.media().read_at(address, window) {
            Ok(()) => pass_chunks(core, &mut next, address, window, is_whole),
            Err(error) => {
                core.root.probe()?;
                Passed::Trouble(address, error.to_string())
            }
        };
        pass.report.bytes += len as u64;
        if !matches!(passed, Passed::Trouble(..)) {
            pass.report.unsteady_reads += attempt;
            break;
        }
        // A segment that had no room for the next chunk.
        if follows_in_next(core, &next)? {
            next.at += 1;
            next.offset = geometry.sector_bytes as u64;
            passed = Passed::More;
            break;
        }
    }
    pass.give_back(buffer);
    match passed {
        Passed::Trouble(address, what) => {
            replace_checkpoint(core, pass, walk.number, address, what)
        }
        // What was read counts only of the checkpoint that is still the newest.
        Passed::More if checkpoint_number(core) == Some(walk.number) => Ok(Walk::Checkpoint(next)),
        Passed::More => Ok(Walk::FindSegment),
        Passed::End => {
            pass.report.segments += walk.chain.len() as u64;
            Ok(Walk::FindSegment)
        }
    }
}

/// What became of a window.
enum Passed {
    /// Its chunks are whole; others follow.
    More,
    /// The checkpoint's end is in it.
    End,
    /// At this address something else lies, in words.
    Trouble(u64, String),
}

/// Passes the whole chunks of a window, which goes to its segment's end if `is_whole`.
fn pass_chunks(
    core: &Core,
    walk: &mut CheckpointWalk,
    address: u64,
    window: &[u8],
    is_whole: bool,
) -> Passed {
    let geometry = core.log.geometry();
    let mut at = 0;
    loop {
        let here = window.get(at..).unwrap_or_default();
        let place = address + at as u64;
        let what = match open_chunk(geometry.salt, place, here) {
            Ok((chunk, payload))
                if chunk.checkpoint == walk.number && chunk.number == walk.chunk =>
            {
                let bytes = CHUNK_HEADER_BYTES + payload.len();
                at += bytes.next_multiple_of(geometry.sector_bytes);
                walk.offset += bytes.next_multiple_of(geometry.sector_bytes) as u64;
                walk.chunk += 1;
                if chunk.kind == ChunkKind::End {
                    return Passed::End;
                }
                continue;
            }
            Ok((chunk, _)) => format!(
                "chunk {} of checkpoint {} expected, found {} of {}",
                walk.chunk, walk.number, chunk.number, chunk.checkpoint
            ),
            Err(error) => error.to_string(),
        };
        // The next window begins with a chunk that this one cuts.
        let peeked = peek_chunk(place, here);
        let is_cut = here.len() < CHUNK_HEADER_BYTES
            || peeked.is_ok_and(|c| CHUNK_HEADER_BYTES + c.payload_bytes as usize > here.len());
        if at > 0 && is_cut && !is_whole {
            return Passed::More;
        }
        return Passed::Trouble(place, what);
    }
}

/// True if the chunk that is looked for says to be the first of the next segment.
fn follows_in_next(core: &Core, walk: &CheckpointWalk) -> Result<bool> {
    let Some((id, _)) = walk.chain.get(walk.at + 1) else {
        return Ok(false);
    };
    let geometry = core.log.geometry();
    let address = geometry.start(*id) + geometry.sector_bytes as u64;
    let mut sector = AlignedBuf::for_read(geometry.sector_bytes)?;
    if core.log.media().read_at(address, &mut sector).is_err() {
        return Ok(false);
    }
    let first = peek_chunk(address, &sector);
    Ok(first.is_ok_and(|c| c.checkpoint == walk.number && c.number == walk.chunk))
}

/// A part of the newest checkpoint is damaged: a new one takes its place at once.
fn replace_checkpoint(
    core: &Core,
    pass: &mut Pass,
    number: u64,
    address: u64,
    what: String,
) -> Result<Walk> {
    if checkpoint_number(core) != Some(number) {
        return Ok(Walk::FindSegment);
    }
    let id = core.log.geometry().segment_of(address);
    let mark = Mark {
        segment: Some((id, core.log.views().birth(id))),
        address,
    };
    let place = place_of(core, address, BLOCK_BYTES as u64);
    let mut finding = new_finding(core, Structure::Checkpoint, place, what);
    if can_write(core) {
        write_checkpoint(core)?;
        if checkpoint_number(core) != Some(number) {
            finding.remedy = Remedy::Mended;
        }
    }
    tell(core, pass, mark, finding);
    Ok(Walk::FindSegment)
}

/// Writes a checkpoint, unless there is no room for it now.
fn write_checkpoint(core: &Core) -> Result<()> {
    match checkpoint::run(core, checkpoint::Pace::Gentle, false) {
        Err(error) if error.kind() == ErrorKind::Full => Ok(()),
        other => other,
    }
}

// ---- segments of the log ----

/// The next segment of the log that holds live records, out of turn if somebody suspects it.
fn find_segment(core: &Core, pass: &mut Pass) -> Walk {
    let suspect = pass.takes_suspects.then(|| core.patrol.next_suspect());
    if let Some((id, birth)) = suspect.flatten() {
        let segment = core.log.segment(id);
        if segment.birth == birth && is_wanted(&segment) {
            return Walk::Segment(walk_of(core, id, &segment));
        }
    }
    let count = core.log.geometry().segments;
    let look = |table: &SegmentTable| {
        for _ in 0..LOOKS_PER_LOCK {
            if pass.looked_at >= count {
                return Some(None);
            }
            let id = SegmentId(pass.next);
            pass.next = (pass.next + 1) % count;
            pass.looked_at += 1;
            let segment = *table.get(id);
            if is_wanted(&segment) {
                return Some(Some((id, segment)));
            }
        }
        None
    };
    match core.log.with_table(look) {
        None => Walk::FindSegment,
        Some(None) => Walk::Over,
        Some(Some((id, segment))) => Walk::Segment(walk_of(core, id, &segment)),
    }
}

fn is_wanted(segment: &Segment) -> bool {
    segment.is_sealed_log() && segment.live() > 0
}

fn walk_of(core: &Core, id: SegmentId, segment: &Segment) -> SegmentWalk {
    // What waits in memory to be written is not on media yet.
    let written = core.log.views().written_bytes(id);
    let start = core.log.geometry().start(id);
    SegmentWalk {
        id,
        birth: segment.birth,
        at: start,
        end: start + segment.used_bytes.min(written),
        gaps: Vec::new(),
    }
}

/// True if the segment still lives the life meant, and something of it is needed.
fn is_alive(core: &Core, id: SegmentId, birth: Birth) -> bool {
    // What was read before must not be taken for newer than this.
    fence(Ordering::Acquire);
    core.log.views().birth(id) == birth && is_wanted(&core.log.segment(id))
}

fn segment_piece(core: &Core, pass: &mut Pass, mut walk: SegmentWalk) -> Result<Walk> {
    if walk.at < walk.end && is_alive(core, walk.id, walk.birth) {
        let left = (walk.end - walk.at).next_multiple_of(BLOCK_BYTES as u64);
        let len = left.min(PIECE_BYTES as u64) as usize;
        let mut buffer = pass.take_buffer()?;
        let found = read_piece(core, pass, &walk, buffer.get_mut(..len).unwrap_or_default());
        pass.give_back(buffer);
        let found = found?;
        if !found.is_empty() && !is_alive(core, walk.id, walk.birth) {
            return Ok(Walk::FindSegment);
        }
        found
            .into_iter()
            .for_each(|gap| add_gap(&mut walk.gaps, gap));
        walk.at += len as u64;
        if walk.at < walk.end {
            return Ok(Walk::Segment(walk));
        }
    }
    pass.report.segments += 1;
    if !walk.gaps.is_empty() && is_alive(core, walk.id, walk.birth) {
        handle(core, pass, walk)?;
    }
    Ok(Walk::FindSegment)
}

/// Reads and verifies a piece; twice, if the first time something is wrong.
fn read_piece(
    core: &Core,
    pass: &mut Pass,
    walk: &SegmentWalk,
    bytes: &mut [u8],
) -> Result<Vec<Gap>> {
    let media = core.log.media();
    pass.report.bytes += bytes.len() as u64;
    if media.read_at(walk.at, bytes).is_ok() && gaps_in(core, walk, walk.at, bytes).is_empty() {
        return Ok(Vec::new());
    }
    // Block by block, so that only what cannot be read counts as that.
    let mut gaps = Vec::new();
    for (n, block) in bytes.chunks_mut(BLOCK_BYTES).enumerate() {
        let address = walk.at + (n * BLOCK_BYTES) as u64;
        match media.read_at(address, block) {
            Ok(()) => gaps.extend(gaps_in(core, walk, address, block)),
            Err(error) => {
                // A device that does not answer at all is no damage.
                core.root.probe()?;
                gaps.push(Gap {
                    from: address,
                    to: address + block.len() as u64,
                    structure: Structure::Records,
                    what: error.to_string(),
                    is_hard: true,
                });
            }
        }
    }
    pass.report.bytes += bytes.len() as u64;
    pass.report.unsteady_reads += u64::from(gaps.is_empty());
    Ok(gaps)
}

fn gaps_in(core: &Core, walk: &SegmentWalk, address: u64, bytes: &[u8]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let geometry = core.log.geometry();
    verify_blocks(
        geometry,
        walk.birth,
        address,
        bytes,
        walk.end,
        &mut |found| {
            gaps.push(Gap {
                from: found.from,
                to: found.to,
                structure: match found.is_header {
                    true => Structure::SegmentHeader,
                    false => Structure::Records,
                },
                what: found.error.to_string(),
                is_hard: false,
            });
        },
    );
    gaps
}

/// Neighbours are one gap; and the last of too many takes the rest.
fn add_gap(gaps: &mut Vec<Gap>, gap: Gap) {
    let is_crowded = gaps.len() >= GAPS_MAX;
    match gaps.last_mut() {
        Some(last)
            if is_crowded
                || last.to == gap.from
                    && last.structure == gap.structure
                    && last.is_hard == gap.is_hard =>
        {
            last.to = gap.to;
            last.is_hard |= gap.is_hard;
        }
        _ => gaps.push(gap),
    }
}

/// Tells of a segment's damage, and moves out of it what can be saved.
fn handle(core: &Core, pass: &mut Pass, walk: SegmentWalk) -> Result<()> {
    let mut findings: Vec<Finding> = Vec::with_capacity(walk.gaps.len());
    for gap in &walk.gaps {
        let place = place_of(core, gap.from, gap.to - gap.from);
        findings.push(new_finding(core, gap.structure, place, gap.what.clone()));
    }
    let geometry = core.log.geometry();
    core.index.for_each_entry(&mut |entry| {
        let address = geometry.address(entry.location);
        let gap = walk.gaps.partition_point(|gap| gap.to <= address);
        if walk.gaps.get(gap).is_some_and(|gap| gap.from <= address) {
            if let Some(finding) = findings.get_mut(gap) {
                finding.live_records += 1;
            }
        }
    });
    let saved = match can_write(core) {
        true => save(core, pass, &walk, &mut findings),
        false => Ok(()),
    };
    for (gap, finding) in walk.gaps.iter().zip(findings) {
        tell(core, pass, walk.mark(gap), finding);
    }
    saved
}

fn save(core: &Core, pass: &mut Pass, walk: &SegmentWalk, findings: &mut [Finding]) -> Result<()> {
    // What is damaged may be what replay needs to know.
    if core.log.segment(walk.id).last_seq > core.checkpointed() {
        write_checkpoint(core)?;
    }
    if walk
        .gaps
        .iter()
        .any(|gap| gap.structure == Structure::Records)
    {
        core.findings.quarantine(walk.birth);
    }
    if walk.gaps.iter().any(|gap| gap.is_hard) {
        core.findings.keep_out(walk.birth);
    }
    let evacuated = evacuate::run(core, walk.id, walk.birth)?;
    pass.report.moved_records += evacuated.moved;
    pass.report.lost_records += evacuated.lost.len() as u64;
    core.counters.scrub_moved_records.add(evacuated.moved);
    let geometry = core.log.geometry();
    for location in &evacuated.lost {
        // A record that is lost begins in a damaged place, or goes on in the next one.
        let address = geometry.address(*location);
        let gap = walk.gaps.partition_point(|gap| gap.to <= address);
        if let Some(finding) = findings.get_mut(gap.min(walk.gaps.len() - 1)) {
            finding.lost_records += 1;
        }
    }
    for finding in findings {
        finding.remedy = match finding.lost_records {
            _ if !evacuated.is_done => Remedy::None,
            0 => Remedy::Mended,
            _ => Remedy::Evacuated,
        };
    }
    Ok(())
}

// ---- telling ----

fn can_write(core: &Core) -> bool {
    core.log.failure().is_none() && core.check_open().is_ok()
}

fn place_of(core: &Core, address: u64, len_bytes: u64) -> Place {
    let (volume, offset) = core.root.place_of(address);
    Place {
        volume: volume as u32,
        offset,
        len_bytes,
        segment: Some(core.log.geometry().segment_of(address).0),
    }
}

fn new_finding(core: &Core, structure: Structure, place: Place, what: String) -> Finding {
    Finding {
        structure,
        place,
        what,
        found_ms: core.now_ms(),
        live_records: 0,
        lost_records: 0,
        remedy: Remedy::None,
    }
}

/// Notes a finding; what is new is an event.
fn tell(core: &Core, pass: &mut Pass, mark: Mark, finding: Finding) {
    if core.findings.note(mark, &finding) {
        core.counters.scrub_findings.add(1);
        core.counters.damage_found.add(1);
        core.counters.scrub_lost_records.add(finding.lost_records);
        let kind = EventKind::DamageFound(finding.clone());
        core.events.emit(finding.found_ms, kind);
    }
    pass.report.add(finding);
}
