//! The scrub finds bit rot before a reader does, wherever it is; mends what has another copy; loses
//! nothing that can still be read; and raises no alarm without damage.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // these are tests

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{memory, name, small, value};
use heliox::{
    ErrorKind, EventKind, Finding, HealthState, IterOptions, Keyspace, Media, Options, Remedy,
    ScrubReport, Simulation, Step, Store, Structure,
};
use heliox_format::label::HEAD_BYTES;
use heliox_format::superblock::{Superblock, SUPERBLOCK_OFFSETS};
use heliox_media::{Geometry, IoKind, MediaError, MemoryMedia, Operation, Read};

const CAPACITY_BYTES: u64 = 66 << 20;
const SEGMENT_BYTES: u64 = 4 << 20;
const KEYS: u64 = 1500;
const VALUE_BYTES: usize = 1000;
/// What the scrub reads of a segment at a time.
const PIECE_BYTES: usize = 128 << 10;

fn held(n: u64) -> Vec<u8> {
    value(n, VALUE_BYTES)
}

/// A device on which a place can rot, and whose reads of a place can fail.
struct Rotting {
    inner: MemoryMedia,
    bad: Mutex<Option<std::ops::Range<u64>>>,
    is_gone: AtomicBool,
    /// Reads that give damaged bytes, from now on.
    wrong_reads: AtomicU64,
    /// What happens before the next read of a whole piece is answered.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Rotting {
    fn new() -> Arc<Rotting> {
        Arc::new(Rotting {
            inner: MemoryMedia::clone(&memory(CAPACITY_BYTES)),
            bad: Mutex::default(),
            is_gone: AtomicBool::new(false),
            wrong_reads: AtomicU64::new(0),
            meanwhile: Mutex::default(),
        })
    }

    fn flip(&self, at: u64) {
        let mut byte = [0];
        self.inner.peek(at, &mut byte).unwrap();
        self.inner.poke(at, &[byte[0] ^ 4]).unwrap();
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.inner.peek(at, &mut bytes).unwrap();
        bytes
    }

    /// What a crash now leaves, if everything written had reached the device.
    fn copy(&self) -> Arc<MemoryMedia> {
        let copy = memory(CAPACITY_BYTES);
        let len = self.inner.geometry().len_bytes as usize;
        copy.poke(0, &self.bytes(0, len)).unwrap();
        copy
    }

    fn fail(&self, offset: u64) -> MediaError {
        MediaError::Io {
            device: "rotting".into(),
            operation: Operation::Read,
            offset,
            len_bytes: 512,
            errno: 5,
        }
    }
}

impl Media for Rotting {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let bad = self.bad.lock().unwrap().clone().unwrap_or(0..0);
        let meets = offset < bad.end && bad.start < offset + buf.len() as u64;
        if meets || self.is_gone.load(Ordering::SeqCst) {
            return Err(self.fail(offset));
        }
        if buf.len() == PIECE_BYTES {
            let meanwhile = self.meanwhile.lock().unwrap().take();
            meanwhile.into_iter().for_each(|happens| happens());
        }
        self.inner.read_at(offset, buf)?;
        let wrong = &self.wrong_reads;
        let left = wrong.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_ok() {
            buf[buf.len() / 2] ^= 1;
        }
        Ok(())
    }
    fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
        for read in reads {
            self.read_at(read.offset, read.buf)?;
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.inner.write_at(offset, data)
    }
    fn sync(&self) -> Result<(), MediaError> {
        self.inner.sync()
    }
    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.inner.discard(offset, len_bytes)
    }
    fn describe(&self) -> String {
        "rotting".to_owned()
    }
    fn io_kind(&self) -> IoKind {
        IoKind::Memory
    }
}

fn options(media: &Arc<Rotting>) -> Options {
    small(Arc::clone(media) as Arc<dyn Media>).scrub_period_secs(0)
}

/// A store with one full segment of `KEYS` keys and a checkpoint.
fn filled(media: &Arc<Rotting>) -> (Store, Keyspace) {
    let store = Store::open("", &options(media)).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    for n in 0..KEYS {
        ks.put(name(n), held(n)).unwrap();
    }
    store.checkpoint().unwrap();
    store.step_of(Step::Seal).unwrap();
    store.sync().unwrap();
    (store, ks)
}

/// Opened anew, so that nothing is in memory.
fn cold(media: &Arc<Rotting>) -> (Store, Keyspace) {
    filled(media).0.close().unwrap();
    let store = Store::open("", &options(media)).unwrap();
    let ks = store.keyspace("a").unwrap();
    (store, ks)
}

fn scrub(store: &Store) -> ScrubReport {
    store.scrub(&mut |_| {}).unwrap()
}

/// Where on the volume the value of a key is.
fn place_of(media: &Rotting, n: u64) -> u64 {
    let all = media.bytes(0, CAPACITY_BYTES as usize);
    let wanted = &held(n)[..64];
    let at = memmem(&all, wanted).expect("the value is on media");
    at as u64
}

fn memmem(all: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = wanted[0];
    let mut from = 0;
    while let Some(at) = all[from..].iter().position(|b| *b == first) {
        if all[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// All keys read right but the `lost`, whose reads say that they are damaged; gives how many.
fn read_all(ks: &Keyspace) -> u64 {
    let mut lost = 0;
    for n in 0..KEYS {
        match ks.get(name(n)) {
            Ok(found) => assert_eq!(found, Some(held(n)), "key {n}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                lost += 1;
            }
        }
    }
    lost
}

fn only(report: &ScrubReport) -> &Finding {
    assert_eq!(report.finding_count, 1, "{report:#?}");
    &report.findings[0]
}

fn state(store: &Store) -> HealthState {
    store.health().state()
}

#[test]
fn a_whole_store_is_passed_without_a_word() {
    let media = Rotting::new();
    let (store, _ks) = filled(&media);
    let mut seen = Vec::new();
    let report = store.scrub(&mut |p| seen.push(p)).unwrap();
    assert_eq!(report.finding_count, 0, "{report:#?}");
    assert!(report.segments >= 2 && report.bytes > KEYS * VALUE_BYTES as u64);
    assert!(seen.windows(2).all(|p| p[0].done_bytes <= p[1].done_bytes));
    assert!(seen.iter().all(|p| p.done_bytes <= p.total_bytes));
    assert_eq!(state(&store), HealthState::Healthy);
    assert_eq!(store.last_scrub(), Some(report.clone()));
    let stats = store.stats();
    assert_eq!((stats.scrub_passes, stats.scrub_findings), (1, 0));
    assert_eq!(stats.bytes_read.scrub, report.bytes);
    let names: Vec<_> = store.events().iter().map(|e| e.kind.name()).collect();
    let scrubs = names.iter().filter(|n| n.starts_with("scrub")).count();
    assert_eq!(scrubs, 2, "{names:?}");
}

#[test]
fn a_live_record_that_rots_is_told_and_all_others_are_moved_away() {
    let media = Rotting::new();
    let (store, ks) = cold(&media);
    let rotten = place_of(&media, 700);
    media.flip(rotten);
    let report = scrub(&store);
    let finding = only(&report);
    assert_eq!(finding.structure, Structure::Records);
    let place = finding.place;
    assert!((place.offset..place.offset + place.len_bytes).contains(&rotten));
    assert!(
        place.len_bytes <= 4096 && finding.what.contains("checksum"),
        "{finding}"
    );
    assert!((1..=8).contains(&finding.live_records), "{finding}");
    // One that began before the place may be lost with it.
    let lost = finding.lost_records;
    assert!((1..=finding.live_records + 1).contains(&lost), "{finding}");
    assert_eq!(finding.remedy, Remedy::Evacuated);
    assert_eq!(
        (report.lost_records, report.moved_records),
        (lost, KEYS - lost)
    );
    assert_eq!(read_all(&ks), lost);
    assert_eq!(ks.get(name(700)).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(state(&store), HealthState::Degraded);
    // It is told once, however often it is found.
    assert_eq!(scrub(&store).finding_count, 1);
    assert_eq!(store.stats().scrub_findings, 1);
    let told = |e: &heliox::Event| matches!(e.kind, EventKind::DamageFound(_));
    assert_eq!(store.events().iter().filter(|e| told(e)).count(), 1);
    // What is written anew heals its key, and then nothing of the segment is needed.
    for n in 0..KEYS {
        if ks.get(name(n)).is_err() {
            ks.put(name(n), held(n)).unwrap();
        }
    }
    assert_eq!(state(&store), HealthState::Healthy);
    store.close().unwrap();
    let report = Store::check("", &options(&media), &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn what_is_in_memory_still_is_saved() {
    let media = Rotting::new();
    let (store, ks) = filled(&media);
    for n in [3, 700, 1400] {
        media.flip(place_of(&media, n));
    }
    let report = scrub(&store);
    assert_eq!(report.finding_count, 3, "{report:#?}");
    assert_eq!((report.lost_records, report.moved_records), (0, KEYS));
    assert!(report
        .findings
        .iter()
        .all(|f| f.remedy == Remedy::Mended && f.live_records > 0));
    assert_eq!(state(&store), HealthState::Healthy);
    store.close().unwrap();
    drop(ks);
    let store = Store::open("", &options(&media)).unwrap();
    assert_eq!(read_all(&store.keyspace("a").unwrap()), 0);
    assert_eq!(scrub(&store).finding_count, 0);
}

#[test]
fn a_dead_record_that_rots_is_told_and_costs_nothing() {
    let media = Rotting::new();
    let (store, ks) = cold(&media);
    let rotten = place_of(&media, 700);
    for n in 690..710 {
        ks.put(name(n), held(n)).unwrap();
    }
    media.flip(rotten);
    let report = scrub(&store);
    let finding = only(&report);
    assert_eq!(
        (finding.structure, finding.live_records),
        (Structure::Records, 0)
    );
    assert_eq!(finding.remedy, Remedy::Mended);
    assert_eq!(report.moved_records, KEYS - 20);
    assert_eq!(read_all(&ks), 0);
    assert_eq!(state(&store), HealthState::Healthy);
}

#[test]
fn a_segment_header_that_rots_costs_nothing_and_is_left_behind() {
    let media = Rotting::new();
    let (store, ks) = cold(&media);
    let rotten = place_of(&media, 700);
    let start = rotten - (rotten - HEAD_BYTES) % SEGMENT_BYTES;
    media.flip(start + 20);
    let report = scrub(&store);
    let finding = only(&report);
    assert_eq!(finding.structure, Structure::SegmentHeader);
    assert_eq!((finding.remedy, finding.lost_records), (Remedy::Mended, 0));
    assert_eq!(read_all(&ks), 0);
    assert_eq!(
        scrub(&store).finding_count,
        0,
        "nothing is left in the segment"
    );
}

/// Offsets in the newest checkpoint's segment: its header, the first chunk's header, its payload.
#[test]
fn a_checkpoint_that_rots_is_replaced_at_once() {
    for offset in [16, 512 + 12, 512 + 700] {
        let media = Rotting::new();
        let (store, ks) = cold(&media);
        let newest = |media: &Rotting| {
            let copies =
                SUPERBLOCK_OFFSETS.map(|at| Superblock::decode(at, &media.bytes(at, 4096)));
            let root = |s: &Superblock| s.checkpoint.unwrap().last_segment;
            copies.map(|s| root(&s.unwrap()))[0]
        };
        let before = newest(&media);
        media.flip(HEAD_BYTES + u64::from(before.0) * SEGMENT_BYTES + offset);
        let report = scrub(&store);
        let finding = only(&report);
        assert_eq!(
            finding.structure,
            Structure::Checkpoint,
            "{offset}: {finding}"
        );
        assert_eq!(finding.remedy, Remedy::Mended);
        assert_eq!(finding.place.segment, Some(before.0));
        assert_ne!(newest(&media), before);
        assert_eq!(state(&store), HealthState::Healthy);
        assert_eq!(read_all(&ks), 0);
        // A crash right after it finds all.
        let crashed = Store::open("", &small(media.copy())).unwrap();
        assert_eq!(read_all(&crashed.keyspace("a").unwrap()), 0);
        assert_eq!(scrub(&store).finding_count, 0);
    }
}

#[test]
fn labels_and_superblock_copies_that_rot_are_written_anew() {
    for (at, structure) in [
        (20, Structure::Label),
        (SUPERBLOCK_OFFSETS[0] + 30, Structure::Superblock),
        (SUPERBLOCK_OFFSETS[1] + 3000, Structure::Superblock),
    ] {
        let media = Rotting::new();
        let (store, _ks) = cold(&media);
        let label = media.bytes(0, 4096);
        media.flip(at);
        let report = scrub(&store);
        let finding = only(&report);
        assert_eq!(
            (finding.structure, finding.remedy),
            (structure, Remedy::Mended)
        );
        assert_eq!(finding.place.volume, 0);
        assert!((finding.place.offset..finding.place.offset + 4096).contains(&at));
        assert_eq!(media.bytes(0, 4096), label);
        let crashed = Store::open("", &small(media.copy())).unwrap();
        assert_eq!(crashed.warnings(), Vec::<String>::new());
        assert_eq!(scrub(&store).finding_count, 0);
        // The same place may rot again.
        media.flip(at);
        assert_eq!(scrub(&store).finding_count, 1);
        assert_eq!(store.stats().scrub_findings, 2);
    }
}

#[test]
fn a_superblock_copy_of_an_older_generation_is_a_lost_write() {
    let media = Rotting::new();
    let (store, _ks) = cold(&media);
    let older = media.bytes(SUPERBLOCK_OFFSETS[1], 4096);
    store.checkpoint().unwrap();
    media.inner.poke(SUPERBLOCK_OFFSETS[1], &older).unwrap();
    let report = scrub(&store);
    let finding = only(&report);
    assert!(finding.what.contains("generation"), "{finding}");
    assert_eq!(scrub(&store).finding_count, 0);
}

/// Replay would need the damaged records: so a checkpoint comes first, and a crash loses nothing.
#[test]
fn damage_in_what_replay_needs_is_covered_by_a_checkpoint() {
    let media = Rotting::new();
    let (store, ks) = filled(&media);
    for n in 0..200 {
        ks.put(name(n), held(n + 10_000)).unwrap();
    }
    for n in 0..200 {
        ks.delete(name(n)).unwrap();
    }
    ks.put("live", "x").unwrap();
    store.sync().unwrap();
    // What follows says that all of that was durable.
    store.step_of(Step::Seal).unwrap();
    for n in 0..200 {
        ks.put(name(n), held(n)).unwrap();
    }
    store.sync().unwrap();
    let all = media.bytes(0, CAPACITY_BYTES as usize);
    let dead = memmem(&all, &held(10_100)[..64]).unwrap() as u64;
    media.flip(dead);
    let unaware = Store::open("", &small(media.copy())).unwrap();
    assert!(
        !unaware.damage().is_empty(),
        "without a scrub a crash meets the damage"
    );
    let finding = only(&scrub(&store)).clone();
    assert_eq!((finding.live_records, finding.remedy), (0, Remedy::Mended));
    let crashed = Store::open("", &small(media.copy())).unwrap();
    assert_eq!(crashed.damage(), Vec::<String>::new());
    let ks = crashed.keyspace("a").unwrap();
    assert_eq!(read_all(&ks), 0);
    assert_eq!(ks.get("live").unwrap(), Some(b"x".to_vec()));
}

#[test]
fn what_the_device_cannot_read_is_told_and_its_segment_is_not_used_again() {
    let media = Rotting::new();
    let (store, ks) = cold(&media);
    let rotten = place_of(&media, 700) & !4095;
    *media.bad.lock().unwrap() = Some(rotten..rotten + 4096);
    let report = scrub(&store);
    let finding = only(&report);
    assert_eq!(finding.place.offset, rotten);
    assert_eq!(finding.place.len_bytes, 4096);
    assert!(finding.what.contains("errno 5"), "{finding}");
    assert!(finding.lost_records > 0 && finding.remedy == Remedy::Evacuated);
    for n in 0..KEYS {
        match ks.get(name(n)) {
            Ok(found) => assert_eq!(found, Some(held(n))),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io);
                ks.put(name(n), held(n)).unwrap();
            }
        }
    }
    assert_eq!(read_all(&ks), 0);
    // Written over and over, the store never comes back to that place.
    for round in 0..30 {
        for n in 0..KEYS {
            ks.put(name(n), held(n)).unwrap();
        }
        for _ in 0..3 {
            store.step().unwrap();
        }
        assert_eq!(state(&store), HealthState::Healthy, "round {round}");
    }
    assert!(store.stats().gc_segments > 3);
    let same = media.bytes(rotten, 4096);
    assert_ne!(
        memmem(&same, &held(700)[..64]),
        None,
        "the place was written again"
    );
}

#[test]
fn a_device_that_does_not_answer_is_no_damage() {
    let media = Rotting::new();
    let (store, ks) = cold(&media);
    media.is_gone.store(true, Ordering::SeqCst);
    let error = store.scrub(&mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(store.damage(), Vec::<String>::new());
    media.is_gone.store(false, Ordering::SeqCst);
    // Nor is one that goes while segments are read.
    let goes = || media.is_gone.store(true, Ordering::SeqCst);
    let mut steps = 0;
    let error = store.scrub(&mut |p| {
        steps += 1;
        if p.done_bytes > 2 << 20 {
            goes();
        }
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Io);
    assert!(steps > 3);
    media.is_gone.store(false, Ordering::SeqCst);
    assert_eq!(store.damage(), Vec::<String>::new());
    // A read that goes wrong once is read again.
    media.wrong_reads.store(0, Ordering::SeqCst);
    let mut pieces = 0;
    let report = store
        .scrub(&mut |_| {
            pieces += 1;
            media
                .wrong_reads
                .store(u64::from(pieces % 5 == 4), Ordering::SeqCst);
        })
        .unwrap();
    assert_eq!(report.finding_count, 0, "{report:#?}");
    assert!(report.unsteady_reads > 0);
    assert_eq!(read_all(&ks), 0);
}

#[test]
fn after_a_failed_write_the_scrub_reports_and_reads_go_on() {
    let media = Arc::new(heliox_media::FaultMedia::new(MemoryMedia::clone(&memory(
        CAPACITY_BYTES,
    ))));
    let options = small(Arc::clone(&media) as Arc<dyn Media>);
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    for n in 0..KEYS {
        ks.put(name(n), held(n)).unwrap();
    }
    store.step_of(Step::Seal).unwrap();
    store.sync().unwrap();
    media.fail_nth(Operation::Write, 0, 5);
    ks.put("x", "y").unwrap();
    assert!(store.sync().is_err());
    assert_eq!(state(&store), HealthState::Failed);
    let segment = HEAD_BYTES;
    media.flip_bits(segment + 100 * 4096 + 50, 1);
    let report = scrub(&store);
    let finding = only(&report);
    assert_eq!(finding.remedy, Remedy::None);
    assert_eq!(read_all(&ks), 0, "all of it is in memory");
    assert_eq!(state(&store), HealthState::Failed);
    assert_eq!(store.health().conditions().len(), 1);
}

/// What a reader meets first, the scrub looks at next, out of turn. `read` meets the damaged record of
/// key 700; `before` is what happens before it rots.
fn brings_the_scrub<T>(
    before: impl Fn(&Store, &Keyspace) -> T,
    read: impl Fn(&Keyspace, &T) -> Result<(), ErrorKind>,
) {
    let clock = Arc::new(Clock::default());
    let media = Rotting::new();
    let (store, ks) = filled(&media);
    // The clock's random numbers let a pass begin behind the segments of all this.
    for n in KEYS..KEYS + 12_000 {
        ks.put(name(n), held(n)).unwrap();
    }
    store.close().unwrap();
    let options = options(&media)
        .scrub_period_secs(1)
        .simulation(Arc::clone(&clock) as Arc<dyn Simulation>);
    let store = Store::open("", &options).unwrap();
    let ks = store.keyspace("a").unwrap();
    let kept = before(&store, &ks);
    media.flip(place_of(&media, 700));
    for _ in 0..2 {
        assert_eq!(read(&ks, &kept), Err(ErrorKind::Damaged));
        assert_eq!(store.damage().len(), 1, "told once: {:?}", store.damage());
    }
    while store.stats().scrub_findings == 0 {
        clock.pass(Duration::from_millis(10));
        store.step().unwrap();
        assert!(clock.elapsed() < Duration::from_secs(60));
    }
    let bytes = store.stats().bytes_read.scrub;
    assert!(bytes < SEGMENT_BYTES, "{bytes}: not out of turn");
}

/// What an iteration ends with, or meets on its way.
fn iterated(iter: IterOptions) -> Result<(), ErrorKind> {
    let mut items = iter.start().unwrap();
    items.try_for_each(|item| item.map(drop).map_err(|error| error.kind()))
}

#[test]
fn a_damaged_read_brings_the_scrub() {
    let one = |ks: &Keyspace, (): &()| ks.get(name(700)).map(drop).map_err(|e| e.kind());
    brings_the_scrub(|_, _| (), one);
    let many = |ks: &Keyspace, (): &()| {
        let keys: Vec<Vec<u8>> = (650..750).map(name).collect();
        ks.multi_get(&keys).map(drop).map_err(|e| e.kind())
    };
    brings_the_scrub(|_, _| (), many);
}

#[test]
fn a_damaged_record_in_a_scan_brings_the_scrub() {
    brings_the_scrub(|_, _| (), |ks, ()| iterated(ks.iter()));
    brings_the_scrub(
        |_, _| (),
        |ks, ()| iterated(ks.iter().reverse().keys_only()),
    );
}

#[test]
fn a_damaged_version_that_a_snapshot_reads_brings_the_scrub() {
    let overwritten = |store: &Store, ks: &Keyspace| {
        let snapshot = store.snapshot().unwrap();
        ks.put(name(700), "newer").unwrap();
        snapshot
    };
    brings_the_scrub(overwritten, |ks, snapshot| {
        ks.get_at(name(700), snapshot)
            .map(drop)
            .map_err(|e| e.kind())
    });
}

// ---- pace ----

#[derive(Default)]
struct Clock(AtomicU64);

impl Clock {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_micros() as u64, Ordering::SeqCst);
    }
}

impl Simulation for Clock {
    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst))
    }
    fn now_ms(&self) -> u64 {
        1_700_000_000_000 + self.elapsed().as_millis() as u64
    }
    fn sleep(&self, time: Duration) {
        self.pass(time);
    }
    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(3);
    }
    fn breathe(&self) {}
}

/// Bytes read in so many seconds from opening, looked at every so many milliseconds.
fn paced(period_secs: u64, seconds: u64, every_ms: u64) -> u64 {
    let clock = Arc::new(Clock::default());
    let media = Rotting::new();
    filled(&media).0.close().unwrap();
    let options = options(&media)
        .scrub_period_secs(period_secs)
        .simulation(Arc::clone(&clock) as Arc<dyn Simulation>);
    let store = Store::open("", &options).unwrap();
    for _ in 0..seconds * 1000 / every_ms {
        clock.pass(Duration::from_millis(every_ms));
        store.step().unwrap();
    }
    store.stats().bytes_read.scrub
}

#[test]
fn the_scrub_keeps_its_pace_by_the_clock() {
    const RATE_MIN: u64 = 64 << 10;
    const PIECE: u64 = 1 << 20;
    assert_eq!(paced(0, 100, 100), 0, "off");
    assert_eq!(paced(1, 4, 1), 0, "not yet");
    let slow = paced(604_800, 205, 100);
    assert!(
        (RATE_MIN * 180..RATE_MIN * 200 + PIECE).contains(&slow),
        "{slow}"
    );
    // Two segments of 4 MiB are in use.
    let period = paced(8, 25, 2);
    assert!((20 << 20..(20 << 20) + PIECE).contains(&period), "{period}");
    // Looked at rarely, it makes up for nothing.
    assert!(paced(8, 25, 1000) <= 20 * PIECE);
}

// ---- no false alarms ----

/// Between the scrub's look at the accounts and the answer of its read, the segment is emptied, given
/// back and written anew.
#[test]
fn a_segment_that_is_collected_while_it_is_read_is_no_alarm() {
    let media = Rotting::new();
    let (store, ks) = filled(&media);
    let (own_store, own_ks) = (store.clone(), ks.clone());
    let own_media = Arc::clone(&media);
    let before = place_of(&media, 0);
    let begins = media.bytes(before, 64);
    *media.meanwhile.lock().unwrap() = Some(Box::new(move || {
        for round in 0..200 {
            for n in 0..KEYS {
                own_ks.put(name(n), held(n + 10_000 * (round + 1))).unwrap();
            }
            own_store.step_of(Step::Seal).unwrap();
            own_store.checkpoint().unwrap();
            own_store.step_of(Step::Collect).unwrap();
            own_store.sync().unwrap();
            if own_media.bytes(before, 64) != begins {
                return;
            }
        }
        panic!("the place was not used again");
    }));
    let report = scrub(&store);
    assert!(
        media.meanwhile.lock().unwrap().is_none(),
        "nothing happened"
    );
    assert_eq!(report.finding_count, 0, "{report:#?}");
    assert_eq!(store.stats().scrub_findings, 0);
    assert_eq!(
        ks.iter().start().unwrap().filter(|i| i.is_ok()).count() as u64,
        KEYS
    );
}

#[test]
fn beside_overwrites_collection_and_checkpoints_nothing_is_reported() {
    let media = memory(CAPACITY_BYTES);
    let options = small(media).background(true).scrub_period_secs(1);
    let store = Store::open("", &options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let stop = AtomicBool::new(false);
    let (mut segments, mut passes) = (0, 0);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (ks, stop) = (&ks, &stop);
            scope.spawn(move || {
                let mut rng = common::Rng::new(thread);
                while !stop.load(Ordering::SeqCst) {
                    let n = rng.below(4000);
                    match n % 16 {
                        0 => ks.delete(name(n)).unwrap(),
                        _ => ks.put(name(n), value(n, 3000)).unwrap(),
                    }
                }
            });
        }
        while store.stats().gc_segments < 30 || passes < 20 {
            let report = scrub(&store);
            if report.finding_count > 0 {
                stop.store(true, Ordering::SeqCst);
                panic!("{report:#?}");
            }
            segments += report.segments;
            passes += 1;
            if passes % 5 == 0 {
                store.checkpoint().unwrap();
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(
        segments > 2 * passes,
        "{segments} segments in {passes} passes"
    );
    assert_eq!(store.damage(), Vec::<String>::new());
    assert_eq!(store.stats().scrub_findings, 0);
    store.close().unwrap();
}
