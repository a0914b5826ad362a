//! Measures a device's random 4 KiB reads: latency at depth 1, the rate of 16 threads, and batches,
//! with blocking calls and with `io_uring`; CPU time per read beside each.
//!
//! Run: `cargo run --release -p heliox-media --example media_bench -- <file> [seconds]`. The file or
//! device is only read; it should hold written data, and be larger than the device's cache.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use heliox_media::{AlignedBuf, FileMedia, FileOptions, IoMode, Media, MediaError, Read};

const READ_BYTES: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: media_bench <file> [seconds]")?;
    let seconds: f64 = args.next().map_or(Ok(5.0), |text| text.parse())?;
    let time = Duration::from_secs_f64(seconds);
    println!(
        "{:<9} {:>7} {:>6} {:>12} {:>13} {:>12}",
        "io", "threads", "batch", "reads/s", "call us", "cpu us/read"
    );
    for mode in [IoMode::Blocking, IoMode::Auto] {
        let media = FileMedia::open(
            Path::new(&path),
            FileOptions {
                io_mode: mode,
                direct: true,
                ..FileOptions::default()
            },
        )?;
        println!("{}", media.describe());
        for (threads, batch) in [(1, 1), (16, 1), (1, 16), (1, 64), (4, 16)] {
            run(&media, threads, batch, time)?;
        }
    }
    Ok(())
}

fn run(media: &dyn Media, threads: u64, batch: usize, time: Duration) -> Result<(), MediaError> {
    let calls = AtomicU64::new(0);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|seed| (seed, &calls))
            .map(|(seed, calls)| scope.spawn(move || work(media, seed + 1, batch, time, calls)))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or(Ok(())))
    })?;
    let (elapsed, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let calls = calls.load(Ordering::Relaxed) as f64;
    let reads = calls * batch as f64;
    println!(
        "{:<9} {threads:>7} {batch:>6} {:>12.0} {:>13.1} {:>12.1}",
        format!("{:?}", media.io_kind()),
        reads / elapsed,
        elapsed * threads as f64 / calls * 1e6,
        cpu / reads * 1e6,
    );
    Ok(())
}

fn work(
    media: &dyn Media,
    seed: u64,
    batch: usize,
    time: Duration,
    calls: &AtomicU64,
) -> Result<(), MediaError> {
    let blocks = media.geometry().len_bytes / READ_BYTES as u64;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut buffers: Vec<_> = (0..batch)
        .map(|_| AlignedBuf::new(READ_BYTES))
        .collect::<Result<_, _>>()?;
    let start = Instant::now();
    while start.elapsed() < time {
        let mut place = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % blocks * READ_BYTES as u64
        };
        if let [single] = &mut buffers[..] {
            media.read_at(place(), single)?;
        } else {
            let mut reads: Vec<_> = buffers
                .iter_mut()
                .map(|buf| Read {
                    offset: place(),
                    buf,
                })
                .collect();
            media.read_many(&mut reads)?;
        }
        calls.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// User and system time of this process so far; 0 where `/proc` does not say (100 ticks a second).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|t| t.parse::<f64>().ok())
        .sum();
    ticks / 100.0
}
