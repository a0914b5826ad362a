//! Measures the device without fio: by one thread and an `io_uring`, with as many requests under way as the
//! depth says. Where the kernel grants none (an old one, a container that forbids it), and for syncs, by a thread
//! for each request with one blocking call at a time.
//!
//! Threads: those of a point live inside [`Own::point`], and share the file and the next place.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heliox_bench::Latency;
use heliox_media::{AlignedBuf, FileMedia, FileOptions, FileRing, Media, MediaError};

use super::{Pattern, Point, Setup};

pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;

/// What measures, in reports.
const BY_RING: &str = "io_uring, submitted and reaped by one thread";
const BY_THREADS: &str = "a thread with blocking calls for each request";
pub(super) const BY_SYNCS: &str = "one thread, which writes and calls fdatasync";
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
            fill(&mut block, &mut random);
            let left = setup.file_bytes - offset;
            let length = usize::try_from(left).unwrap_or(FILL_BYTES).min(FILL_BYTES);
            media.write_at(offset, block.get(..length).unwrap_or_default())?;
            offset += length as u64;
        }
    }
    media.sync()?;
    Ok(media)
}

/// Measures a file without fio.
pub(super) struct Own<'m> {
    media: &'m FileMedia,
    /// Where requests go, with when they began; none where a thread makes each.
    ring: Option<FileRing<'m, Instant>>,
    /// Of the requests, so that no point draws the places of another, which the device may hold in its cache.
    seeds: Random,
    /// How it measures, in reports.
    pub(super) tool: String,
}

impl<'m> Own<'m> {
    /// By a ring, if the kernel grants one.
    pub(super) fn new(media: &'m FileMedia) -> Own<'m> {
        Own::with(media, FileRing::new(media))
    }

    fn with(media: &'m FileMedia, granted: Result<FileRing<'m, Instant>, MediaError>) -> Own<'m> {
        let (ring, tool) = match granted {
            Ok(ring) => (Some(ring), BY_RING.to_owned()),
            Err(MediaError::Unusable { reason, .. }) => {
                (None, format!("{BY_THREADS}, since {reason}"))
            }
            Err(error) => (None, format!("{BY_THREADS}, since {error}")),
        };
        Own {
            media,
            ring,
            seeds: Random(2),
            tool,
        }
    }

    /// A pattern with `depth` requests under way. Syncs are always made by a thread: on a ring they would
    /// not wait for the write before them.
    pub(super) fn point(
        &mut self,
        pattern: Pattern,
        depth: usize,
        time: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Point, Error> {
        let blocks: Result<Vec<AlignedBuf>, Error> = (0..depth).map(|_| noise(pattern)).collect();
        let blocks = blocks?;
        let next = AtomicU64::new(0);
        let mut requests = || Requests {
            pattern,
            blocks: self.media.geometry().len_bytes / pattern.block_bytes() as u64,
            random: Random(self.seeds.next()),
            next: &next,
        };
        let until = Until {
            start: Instant::now(),
            time,
            interrupted,
        };
        let latency = match self.ring.as_mut().filter(|_| !pattern.syncs()) {
            Some(ring) => by_ring(ring, requests(), blocks, &until)?,
            None => {
                let each = blocks.into_iter().map(|block| (block, requests()));
                by_threads(self.media, each.collect(), &until)?
            }
        };
        Ok(Point {
            pattern,
            depth,
            ops: latency.calls(),
            seconds: until.start.elapsed().as_secs_f64(),
            mean_us: latency.mean_us(),
            p95_us: latency.percentile_us(95.0),
            p99_us: latency.percentile_us(99.0),
        })
    }
}

/// When a point is over.
struct Until<'i> {
    start: Instant,
    time: Duration,
    interrupted: &'i AtomicBool,
}

impl Until<'_> {
    fn is_over(&self) -> bool {
        self.start.elapsed() >= self.time || self.interrupted.load(Ordering::Relaxed)
    }
}

/// As many requests under way as there are blocks. Each that is complete is followed by another until the time is over; then the rest is awaited. The
/// latency is from just before a request's submission until this thread has it back.
fn by_ring(
    ring: &mut FileRing<'_, Instant>,
    mut requests: Requests<'_>,
    blocks: Vec<AlignedBuf>,
    until: &Until<'_>,
) -> Result<Latency, Error> {
    let mut latency = Latency::new()?;
    let mut begin = |mut block: AlignedBuf, ring: &mut FileRing<'_, Instant>| {
        let offset = requests.next(&mut block);
        match requests.pattern.reads() {
            true => ring.read(offset, block, Instant::now()),
            false => ring.write(offset, block, Instant::now()),
        }
    };
    for block in blocks {
        begin(block, ring)?;
    }
    while let Some((begun, block)) = ring.wait()? {
        latency.record(begun.elapsed());
        if !until.is_over() {
            begin(block, ring)?;
        }
    }
    Ok(latency)
}

/// A thread for each of `each`, with one request at a time.
fn by_threads(
    media: &FileMedia,
    each: Vec<(AlignedBuf, Requests<'_>)>,
    until: &Until<'_>,
) -> Result<Latency, Error> {
    let work = |mut block: AlignedBuf, mut requests: Requests<'_>| {
        let pattern = requests.pattern;
        let mut latency = Latency::new()?;
        // One request at least, so that there is a latency.
        loop {
            let offset = requests.next(&mut block);
            let begun = Instant::now();
            match pattern.reads() {
                true => media.read_at(offset, &mut block)?,
                false => media.write_at(offset, &block)?,
            }
            if pattern.syncs() {
                media.sync()?;
            }
            latency.record(begun.elapsed());
            if until.is_over() {
                return Ok(latency);
            }
        }
    };
    let joined: Vec<Result<Latency, Error>> = thread::scope(|scope| {
        let work = &work;
        let spawn = |(block, requests)| scope.spawn(move || work(block, requests));
        let threads: Vec<_> = each.into_iter().map(spawn).collect();
        let joined = threads.into_iter().map(|thread| {
            let panicked = |_| Err("a thread that measures the device panicked".into());
            thread.join().unwrap_or_else(panicked)
        });
        joined.collect()
    });
    let mut all = Latency::new()?;
    for latency in joined {
        all.merge(&latency?)?;
    }
    Ok(all)
}

/// The requests of a pattern, one after the other.
struct Requests<'n> {
    pattern: Pattern,
    blocks: u64,
    random: Random,
    /// The next block of those in order.
    next: &'n AtomicU64,
}

impl Requests<'_> {
    /// Where the next goes. What it writes is made unlike all others: a device may store equal blocks once.
    fn next(&mut self, block: &mut AlignedBuf) -> u64 {
        let drawn = self.random.next();
        if !self.pattern.reads() {
            for sector in block.chunks_exact_mut(512) {
                sector[..8].copy_from_slice(&drawn.to_le_bytes());
            }
        }
        let number = match self.pattern.is_random() {
            true => drawn,
            false => self.next.fetch_add(1, Ordering::Relaxed),
        };
        number % self.blocks.max(1) * self.pattern.block_bytes() as u64
    }
}

/// A block that cannot be compressed.
fn noise(pattern: Pattern) -> Result<AlignedBuf, Error> {
    let mut block = AlignedBuf::new(pattern.block_bytes())?;
    fill(&mut block, &mut Random(1));
    Ok(block)
}

fn fill(block: &mut AlignedBuf, random: &mut Random) {
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_le_bytes());
    }
}

/// SplitMix64.
#[derive(Clone, Copy)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const FILE_BYTES: u64 = 4 << 20;

    fn file(dir: &Path) -> FileMedia {
        let setup = Setup {
            file_bytes: FILE_BYTES,
            precondition: false,
            time: Duration::ZERO,
        };
        make_file(&dir.join("f"), &setup, &AtomicBool::new(false)).unwrap()
    }

    fn refused(device: &str) -> MediaError {
        MediaError::Unusable {
            device: device.into(),
            reason: "the kernel is a test".to_owned(),
        }
    }

    /// By a ring, if the kernel grants one, and by threads.
    fn both_ways(media: &FileMedia) -> Vec<Own<'_>> {
        let (ring, mut threads) = (Own::new(media), Own::with(media, Err(refused("f"))));
        // What both write differs, though the places may be the same.
        threads.seeds = Random(3);
        if ring.ring.is_none() {
            println!("not by a ring: {}", ring.tool);
        }
        assert!(threads.ring.is_none());
        vec![ring, threads]
    }

    /// As many requests as the depth: one of each thread, the first ones of the ring.
    fn once(own: &mut Own<'_>, pattern: Pattern, depth: usize) -> Result<Point, Error> {
        own.point(pattern, depth, Duration::ZERO, &AtomicBool::new(false))
    }

    /// Where the next point's first requests go, so many as the depth.
    fn places(own: &Own<'_>, pattern: Pattern, depth: usize) -> BTreeSet<u64> {
        let mut seeds = own.seeds;
        let blocks = FILE_BYTES / pattern.block_bytes() as u64;
        let mut one = Random(seeds.next());
        let place = |n: usize| {
            if n > 0 && own.ring.is_none() {
                one = Random(seeds.next());
            }
            let drawn = one.next();
            let number = if pattern.is_random() { drawn } else { n as u64 };
            number % blocks * pattern.block_bytes() as u64
        };
        (0..depth).map(place).collect()
    }

    #[test]
    fn a_pattern_writes_its_places_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let media = file(dir.path());
        let mut before = std::fs::read(dir.path().join("f")).unwrap();
        for mut own in both_ways(&media) {
            for pattern in Pattern::ALL {
                for &depth in pattern.depths() {
                    let mut expected = places(&own, pattern, depth);
                    let point = once(&mut own, pattern, depth).unwrap();
                    assert_eq!((point.depth, point.ops), (depth, depth as u64));
                    let after = std::fs::read(dir.path().join("f")).unwrap();
                    let bytes = pattern.block_bytes();
                    let pairs = before.chunks(bytes).zip(after.chunks(bytes));
                    let changed: BTreeSet<u64> = pairs
                        .enumerate()
                        .filter(|(_, (before, after))| before != after)
                        .map(|(n, _)| (n * bytes) as u64)
                        .collect();
                    if pattern.reads() {
                        expected.clear();
                    }
                    assert_eq!(changed, expected, "{pattern:?} {depth} {}", own.tool);
                    before = after;
                }
            }
        }
    }

    /// What is read is known by what cannot be: a file that ends after the last place is read, one that ends
    /// before it is not.
    #[test]
    fn a_pattern_reads_its_places() {
        for way in 0..2 {
            for pattern in [Pattern::RandomRead, Pattern::SequentialRead] {
                let dir = tempfile::tempdir().unwrap();
                let media = file(dir.path());
                let mut own = both_ways(&media).swap_remove(way);
                let cut = std::fs::File::options()
                    .write(true)
                    .open(dir.path().join("f"))
                    .unwrap();
                let last = places(&own, pattern, 8).pop_last().unwrap();
                let seeds = own.seeds;
                cut.set_len(last + pattern.block_bytes() as u64).unwrap();
                once(&mut own, pattern, 8).unwrap();
                own.seeds = seeds;
                cut.set_len(last).unwrap();
                let error = once(&mut own, pattern, 8).unwrap_err().to_string();
                assert!(error.contains(&format!(" at {last} ")), "{error}");
            }
        }
    }

    /// By Little's law the latencies of all requests, laid end to end, are as many times the point's time as
    /// requests were under way.
    #[test]
    fn as_many_requests_are_under_way_as_the_depth_says() {
        let dir = tempfile::tempdir().unwrap();
        let media = file(dir.path());
        let time = Duration::from_millis(100);
        for mut own in both_ways(&media) {
            for depth in [1, 8, 32] {
                let never = AtomicBool::new(false);
                let point = own.point(Pattern::RandomRead, depth, time, &never);
                let point = point.unwrap();
                let under_way = point.ops as f64 * point.mean_us / 1e6 / point.seconds;
                let share = under_way / depth as f64;
                assert!(share < 1.01, "more than under way: {point:?}");
                // Threads wait for a processor too; the ring's are under way all the time.
                assert!(own.ring.is_none() || share > 0.5, "{share}: {point:?}");
                assert!(point.seconds >= 0.1 && point.p95_us <= point.p99_us);
                assert!(point.mean_us < point.seconds * 1e6, "{point:?}");
            }
        }
    }

    #[test]
    fn without_a_ring_threads_measure_and_reports_say_why() {
        let dir = tempfile::tempdir().unwrap();
        let media = file(dir.path());
        let mut own = Own::with(&media, Err(refused("f")));
        let why = "a thread with blocking calls for each request, since the kernel is a test";
        assert_eq!(own.tool, why);
        let point = once(&mut own, Pattern::SequentialWrite, 4).unwrap();
        assert_eq!((point.depth, point.ops), (4, 4));
        assert!(point.mean_us > 0.0);
        if FileRing::<()>::new(&media).is_ok() {
            assert_eq!(Own::new(&media).tool, BY_RING);
        }
    }
}
