//! Measures the device without fio: a thread a request, each with one blocking request at a time.
//!
//! Threads: those of a point live inside [`point`], and share the file and the next place.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heliox_bench::Latency;
use heliox_media::{AlignedBuf, FileMedia, FileOptions, Media};

use super::{Pattern, Point, Setup};

pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;

/// What measures, in reports.
pub(super) const TOOL: &str = "a thread with blocking direct I/O for each request";
/// One request of those that write the whole file.
const FILL_BYTES: usize = 1 << 20;

/// Makes the file and writes all of it, three times over where it is to be preconditioned.
pub(super) fn make_file(
    path: &Path,
    setup: &Setup,
    interrupted: &AtomicBool,
) -> Result<FileMedia, Error> {
    let media = FileMedia::create(path, setup.file_bytes, FileOptions::default())?;
    let mut block = AlignedBuf::new(FILL_BYTES)?;
    let mut random = Random(1);
    for _ in 0..if setup.precondition { 3 } else { 1 } {
        let mut offset = 0;
        while offset < setup.file_bytes && !interrupted.load(Ordering::Relaxed) {
            // A device may store equal or empty blocks without writing them.
            for word in block.chunks_exact_mut(8) {
                word.copy_from_slice(&random.next().to_le_bytes());
            }
            let left = setup.file_bytes - offset;
            let length = usize::try_from(left).unwrap_or(FILL_BYTES).min(FILL_BYTES);
            media.write_at(offset, block.get(..length).unwrap_or_default())?;
            offset += length as u64;
        }
    }
    media.sync()?;
    Ok(media)
}

/// A pattern with `depth` requests under way.
pub(super) fn point(
    media: &FileMedia,
    pattern: Pattern,
    depth: usize,
    time: Duration,
    interrupted: &AtomicBool,
) -> Result<Point, Error> {
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let work = |seed| {
        let mut worker = Worker::new(media, pattern, seed, &next)?;
        // One request at least, so that there is a latency.
        loop {
            worker.request()?;
            if start.elapsed() >= time || interrupted.load(Ordering::Relaxed) {
                return Ok(worker);
            }
        }
    };
    let workers: Vec<Result<Worker<'_>, Error>> = thread::scope(|scope| {
        let work = &work;
        let seeds = 1..=depth as u64;
        let threads: Vec<_> = seeds.map(|seed| scope.spawn(move || work(seed))).collect();
        let joined = threads.into_iter().map(|thread| {
            let panicked = |_| Err("a thread that measures the device panicked".into());
            thread.join().unwrap_or_else(panicked)
        });
        joined.collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let (mut latency, mut sum) = (Latency::new()?, Duration::ZERO);
    for worker in workers {
        let worker = worker?;
        latency.merge(&worker.latency)?;
        sum += worker.sum;
    }
    Ok(Point {
        pattern,
        depth,
        ops: latency.calls(),
        seconds,
        mean_us: sum.as_secs_f64() * 1e6 / latency.calls().max(1) as f64,
        p95_us: latency.percentile_us(95.0),
        p99_us: latency.percentile_us(99.0),
    })
}

/// One request at a time.
struct Worker<'m> {
    media: &'m FileMedia,
    pattern: Pattern,
    block: AlignedBuf,
    blocks: u64,
    random: Random,
    /// The next block of those in order.
    next: &'m AtomicU64,
    latency: Latency,
    sum: Duration,
}

impl<'m> Worker<'m> {
    fn new(
        media: &'m FileMedia,
        pattern: Pattern,
        seed: u64,
        next: &'m AtomicU64,
    ) -> Result<Worker<'m>, Error> {
        let mut random = Random(seed);
        let mut block = AlignedBuf::new(pattern.block_bytes())?;
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        Ok(Worker {
            media,
            pattern,
            block,
            blocks: media.geometry().len_bytes / pattern.block_bytes() as u64,
            random,
            next,
            latency: Latency::new()?,
            sum: Duration::ZERO,
        })
    }

    fn request(&mut self) -> Result<(), Error> {
        let number = if self.pattern.is_random() {
            self.random.next()
        } else {
            self.next.fetch_add(1, Ordering::Relaxed)
        };
        let offset = number % self.blocks.max(1) * self.pattern.block_bytes() as u64;
        let begin = Instant::now();
        if self.pattern.reads() {
            self.media.read_at(offset, &mut self.block)?;
        } else {
            self.media.write_at(offset, &self.block)?;
        }
        if self.pattern.syncs() {
            self.media.sync()?;
        }
        let latency = begin.elapsed();
        self.latency.record(latency);
        self.sum += latency;
        Ok(())
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}
