//! Power failures under a load of many threads: every image that the device may hold is opened and
//! verified; all of them where they are few.
//!
//! The device records what is done to it (`heliox_media::RecordingMedia`, whose rules are those of
//! any device). Between two syncs, the writes not yet synced may each be there or not. Right before
//! the later sync ends is the strictest moment of the interval: nothing in between promises more,
//! and nothing else can be on the device. At each such moment, where the writes are few, every subset
//! of them is tried, and each is also torn alone: all sets of its sectors if it has few, else each
//! beginning, each rest and each hole of one sector, with all the other writes there and with none.
//! Where the writes are many, images are drawn.
//!
//! The kernel's own recorder (device-mapper `log-writes`) would record the same at another place;
//! see [`kernel_has_log_writes`].
//!
//! Threads: those of the load while it is recorded; images are verified by one thread.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use heliox::{Options, Step, Store};
use heliox_media::{CrashChoice, MemoryMedia, Random, RecordingMedia};

use crate::failure::{Failure, Result};
use crate::kill::Mode;
use crate::now_ns;
use crate::script::{Script, Sizes, KEYSPACES};
use crate::state::{note, ThreadState};
use crate::verify::{Done, Life};
use crate::worker::Worker;

const CAPACITY_BYTES: u64 = 66 << 20;
/// With at most so many free writes, all their subsets are tried.
const FREE_WRITES_MAX: usize = 8;
/// A write of at most so many sectors is torn in every way.
const TORN_SECTORS_MAX: usize = 5;
/// Images drawn at a moment with more writes.
const DRAWN_IMAGES: u64 = 24;
/// Images of one moment, at most; beyond, an even part of them is taken.
const IMAGES_PER_MOMENT_MAX: usize = 600;
/// Moments of one recording that are tried; then the store goes on and is recorded again.
const MOMENTS_PER_RUN: usize = 6;
/// Operations of each thread in one recording.
const OPERATIONS: u64 = 200;
/// Of so many images one is verified offline as well.
const IMAGES_PER_CHECK: u64 = 40;
/// What the background does beyond what is due, while a load is recorded.
const BACKGROUND: [Step; 7] = [
    Step::Flush,
    Step::Seal,
    Step::Checkpoint,
    Step::Collect,
    Step::Sweep,
    Step::Collect,
    Step::Collect,
];
const PAUSE: Duration = Duration::from_millis(1);
/// Small values: a sync then writes few sectors.
const SIZES: Sizes = Sizes {
    most: 1500,
    large_one_in: 0,
    barrier_one_in: 40,
};

/// What to record and how much of it to try.
#[derive(Clone, Debug)]
pub struct PowerPlan {
    /// Decides what the threads do and which moments are tried.
    pub seed: u64,
    /// Images to verify, about.
    pub images: u64,
    /// Threads of the load.
    pub threads: u16,
}

/// What was tried.
#[derive(Clone, Default, Debug)]
#[allow(missing_docs)] // the names say it
pub struct PowerReport {
    pub images: u64,
    pub recordings: u64,
    pub moments: u64,
    /// Moments of which every subset of the free writes, and every tear, was tried.
    pub moments_exhausted: u64,
    pub operations: u64,
    pub offline_checks: u64,
    pub segments_collected: u64,
    pub checkpoints: u64,
    pub violations: Vec<String>,
}

impl PowerReport {
    /// As one line of JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "images": self.images,
            "recordings": self.recordings,
            "moments": self.moments,
            "moments_exhausted": self.moments_exhausted,
            "operations": self.operations,
            "offline_checks": self.offline_checks,
            "segments_collected": self.segments_collected,
            "checkpoints": self.checkpoints,
            "kernel_log_writes": kernel_has_log_writes(),
            "violations": self.violations,
        })
    }
}

/// True if this kernel has the device-mapper target `log-writes`. What it records could then be
/// replayed by the kernel's tools over a real device; nothing here depends on it.
#[must_use]
pub fn kernel_has_log_writes() -> bool {
    let targets = Command::new("dmsetup").arg("targets").output();
    targets.is_ok_and(|output| {
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("log-writes")
    })
}

/// Records and verifies until so many images were tried or a promise is broken; `progress` hears
/// how many there were so far.
///
/// # Errors
/// An error of the store while it is recorded. A broken promise is in the report.
pub fn run(plan: &PowerPlan, progress: &mut dyn FnMut(u64)) -> Result<PowerReport> {
    let mut report = PowerReport::default();
    let mut random = Random::new(plan.seed);
    let mut image = MemoryMedia::new(CAPACITY_BYTES, 512)?;
    let mut start = vec![ThreadState::default(); usize::from(plan.threads)];
    let mut life = 0;
    while report.images < plan.images && report.violations.is_empty() {
        let mode = Mode::ALL[life as usize % Mode::ALL.len()];
        let recording = record(plan, image, start, life, mode)?;
        report.recordings += 1;
        report.operations += recording
            .life
            .done
            .iter()
            .map(|done| done.len() as u64)
            .sum::<u64>();
        report.segments_collected += recording.collected;
        report.checkpoints += recording.checkpoints;
        let moments = moments(&recording.media, &mut random);
        for moment in &moments {
            try_moment(plan, &recording, *moment, &mut random, &mut report)?;
            progress(report.images);
            if report.images >= plan.images || !report.violations.is_empty() {
                return Ok(report);
            }
        }
        // The next recording goes on from a crash of this one.
        let moment = moments
            .last()
            .copied()
            .unwrap_or(recording.media.event_count());
        image = recording.media.crash_image(moment, random.next())?;
        start = open_and_read(&image, mode, plan.threads).map_err(Failure::Violation)?;
        life += 1;
    }
    Ok(report)
}

/// A load that was recorded.
struct Recording {
    media: Arc<RecordingMedia>,
    life: Life,
    mode: Mode,
    collected: u64,
    checkpoints: u64,
}

fn options(media: Arc<dyn heliox::Media>, mode: Mode) -> Options {
    // In a recording time means nothing, so only the bytes of `bounded` are a promise.
    Options::new()
        .volumes(vec![media])
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
        .durability(mode.durability())
}

fn record(
    plan: &PowerPlan,
    image: MemoryMedia,
    start: Vec<ThreadState>,
    life: u32,
    mode: Mode,
) -> Result<Recording> {
    let media = Arc::new(RecordingMedia::new(image));
    let store = Store::open("", &options(media.clone(), mode)).map_err(Failure::store("open"))?;
    let script = Script {
        seed: plan.seed,
        life,
        sizes: SIZES,
    };
    let done = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (thread, state) in start.iter().enumerate() {
            let worker = Worker::new(&store, script, thread as u16, plan.threads, state.clone());
            let (worker, media) = (worker.map_err(Failure::store("keyspace"))?, &media);
            workers.push(scope.spawn(move || work(worker, media)));
        }
        // At least two rounds of them, however soon the load is done.
        let steps = BACKGROUND.iter().cycle().enumerate();
        for (n, step) in steps {
            if n >= 2 * BACKGROUND.len() && workers.iter().all(|worker| worker.is_finished()) {
                break;
            }
            store
                .step_of(*step)
                .map_err(Failure::store("a step of background work"))?;
            std::thread::sleep(PAUSE);
        }
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Vec<Done>>>| {
            let panicked = |_| Failure::Violation("a thread of the load panicked".to_owned());
            worker.join().map_err(panicked).and_then(|done| done)
        };
        workers.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let stats = store.stats();
    let (collected, checkpoints) = (stats.gc_segments, stats.checkpoints);
    // Closing is recorded too.
    store.close().map_err(Failure::store("close"))?;
    Ok(Recording {
        media,
        life: Life {
            script,
            start,
            done,
        },
        mode,
        collected,
        checkpoints,
    })
}

fn work(mut worker: Worker, media: &RecordingMedia) -> Result<Vec<Done>> {
    let mut done = Vec::new();
    for number in 0..OPERATIONS {
        let issued_ns = now_ns();
        worker.run(number)?;
        done.push(Done {
            issued_ns,
            acknowledged_ns: now_ns(),
            events_after: media.event_count() as u64,
        });
    }
    Ok(done)
}

/// The moments right before a sync ends: the last ones (of checkpoint and closing) and any others.
fn moments(media: &RecordingMedia, random: &mut Random) -> Vec<usize> {
    let mut ends: Vec<usize> = media
        .sync_points()
        .into_iter()
        .map(|after| after - 1)
        .collect();
    let mut moments = Vec::new();
    while moments.len() < MOMENTS_PER_RUN && !ends.is_empty() {
        moments.push(ends.swap_remove(random.below(ends.len() as u64) as usize));
    }
    moments
}

fn try_moment(
    plan: &PowerPlan,
    recording: &Recording,
    moment: usize,
    random: &mut Random,
    report: &mut PowerReport,
) -> Result<()> {
    let sectors = recording.media.free_sectors(moment)?;
    report.moments += 1;
    let known = recording.life.until(moment as u64);
    let check = |choice: CrashChoice<'_>, report: &mut PowerReport| -> Result<()> {
        let image = recording.media.crash_image_of(moment, choice)?;
        report.images += 1;
        let what = || {
            let held = format!(
                "seed {} recording {} ({})",
                plan.seed,
                recording.life.script.life,
                recording.mode.name()
            );
            format!(
                "{held}, event {moment}, {} free writes, {choice:?}",
                sectors.len()
            )
        };
        for words in judge(
            recording,
            &known,
            &image,
            report.images.is_multiple_of(IMAGES_PER_CHECK),
        ) {
            report.violations.push(format!("{}: {words}", what()));
        }
        if report.images.is_multiple_of(IMAGES_PER_CHECK) {
            report.offline_checks += 1;
        }
        Ok(())
    };
    if sectors.len() > FREE_WRITES_MAX {
        for _ in 0..DRAWN_IMAGES {
            check(CrashChoice::Seed(random.next()), report)?;
        }
        return Ok(());
    }
    let all = choices(&sectors);
    let step = all.len().div_ceil(IMAGES_PER_MOMENT_MAX).max(1);
    for choice in all.iter().step_by(step) {
        if report.images >= plan.images || !report.violations.is_empty() {
            return Ok(());
        }
        check(CrashChoice::Sectors(choice), report)?;
    }
    report.moments_exhausted += u64::from(step == 1);
    Ok(())
}

/// Every subset of the writes, and every tear of one of them beside all and beside none of the others.
fn choices(sectors: &[usize]) -> Vec<Vec<Vec<bool>>> {
    let mut all = Vec::new();
    for subset in 0..1_u32 << sectors.len() {
        let whole = sectors
            .iter()
            .enumerate()
            .map(|(n, sectors)| vec![subset >> n & 1 == 1; *sectors]);
        all.push(whole.collect());
    }
    for (torn, count) in sectors.iter().enumerate() {
        for tear in tears(*count) {
            for others in [false, true] {
                let mut choice: Vec<Vec<bool>> = sectors
                    .iter()
                    .map(|sectors| vec![others; *sectors])
                    .collect();
                if let Some(place) = choice.get_mut(torn) {
                    place.clone_from(&tear);
                }
                all.push(choice);
            }
        }
    }
    all
}

/// The ways in which a write of so many sectors is tried torn.
fn tears(count: usize) -> Vec<Vec<bool>> {
    if count <= TORN_SECTORS_MAX {
        let kept = |set: u32| (0..count).map(|n| set >> n & 1 == 1).collect();
        return (1..(1_u32 << count).saturating_sub(1)).map(kept).collect();
    }
    let cuts = (1..count).flat_map(|cut| {
        let beginning = (0..count).map(|n| n < cut).collect();
        let rest = (0..count).map(|n| n >= cut).collect();
        [beginning, rest]
    });
    let holes = (0..count).map(|hole| (0..count).map(|n| n != hole).collect());
    cuts.chain(holes).collect()
}

/// Opens an image and gives what is wrong with it, in words.
fn judge(recording: &Recording, known: &Life, image: &MemoryMedia, offline: bool) -> Vec<String> {
    let mode = recording.mode;
    if offline {
        let options = options(Arc::new(image.clone()), mode);
        match Store::check("", &options, &mut |_| {}) {
            Ok(report) if report.problems.is_empty() => {}
            Ok(report) => return report.problems,
            // Without a label there is nothing to check: a store that was being made.
            Err(error)
                if error.kind() == heliox::ErrorKind::NotAStore
                    && known.done.iter().all(Vec::is_empty) => {}
            Err(error) => return vec![format!("offline check: {error}")],
        }
    }
    let found = match open_and_read(image, mode, known.start.len() as u16) {
        Ok(found) => found,
        Err(words) => return vec![words],
    };
    let bounds = known.bounds(|action| action.is_barrier(false), |_| mode == Mode::Sync);
    let outcome = known.verify(&found, &bounds);
    let mut violations = outcome.violations;
    if mode == Mode::Bounded && outcome.lost_bytes > crate::kill::BOUND_BYTES {
        violations.push(format!(
            "{} bytes of acknowledged writes are lost",
            outcome.lost_bytes
        ));
    }
    violations
}

/// What an image's store holds, in terms of the model. The image is left as it is.
fn open_and_read(
    image: &MemoryMedia,
    mode: Mode,
    threads: u16,
) -> std::result::Result<Vec<ThreadState>, String> {
    let options = options(Arc::new(image.clone()), mode).background(false);
    let store = Store::open("", &options).map_err(|error| format!("open: {error}"))?;
    let damage = store.damage();
    if !damage.is_empty() {
        return Err(format!("damage: {damage:?}"));
    }
    let mut states = vec![ThreadState::default(); usize::from(threads)];
    for (number, name) in KEYSPACES.iter().enumerate() {
        let Ok(keyspace) = store.keyspace(name) else {
            continue;
        };
        let items = keyspace.iter().start().map_err(|error| error.to_string())?;
        for item in items {
            let (key, value) = item.map_err(|error| error.to_string())?;
            note(&mut states, number as u8, &key, &value)?;
        }
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_subsets_and_all_tears_are_tried() {
        let all = choices(&[1, 2]);
        // Four subsets; two tears of the second write, beside the first and alone.
        assert_eq!(all.len(), 4 + 2 * 2);
        let mut distinct = all.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 8, "these are all images of three sectors");
        assert_eq!(tears(1), Vec::<Vec<bool>>::new());
        assert_eq!(tears(3).len(), 6);
        // Eight cuts of either kind and nine holes; the first and the last hole are cuts as well.
        assert_eq!(tears(9).len(), 8 * 2 + 9);
    }
}
