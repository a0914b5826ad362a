//! What a run is watched by: figures of the process, of the store and of the directory, as a row
//! of a table. Plain data, read by one thread.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use heliox::Stats;

use crate::failure::{Failure, Result};

macro_rules! sample {
    ($($field:ident),* $(,)?) => {
        /// A moment of a run. Sizes in bytes, times in milliseconds.
        #[derive(Clone, Copy, Default, Debug)]
        #[allow(missing_docs)] // the names say it
        pub struct Sample { $(pub $field: u64),* }

        impl Sample {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            fn row(&self) -> Vec<String> {
                vec![$(self.$field.to_string()),*]
            }
        }
    };
}

sample! {
    at_ms,
    rss_bytes,
    fds,
    threads,
    kernel_workers,
    operations,
    longest_gap_ms,
    objects,
    index_bytes,
    cache_bytes,
    tail_bytes,
    live_bytes,
    capacity_bytes,
    disk_bytes,
    segments_free,
    segments_total,
    user_bytes_written,
    media_bytes_written,
    media_bytes_read,
    gc_segments,
    store_checkpoints,
    throttle_ms,
    damage_found,
    strangers_found,
    store_files_bytes,
    backup_files_bytes,
    backup_files,
}

impl Sample {
    /// The figures of this process and of the directories.
    pub(crate) fn of_system(store: &Path, backups: &Path) -> Result<Sample> {
        let (store_files_bytes, _) = usage(store);
        let (backup_files_bytes, backup_files) = usage(backups);
        let (threads, kernel_workers) = threads()?;
        Ok(Sample {
            rss_bytes: status_bytes("VmRSS:")?,
            // The list is read through one of its own.
            fds: entries("/proc/self/fd")?.saturating_sub(1),
            threads,
            kernel_workers,
            store_files_bytes,
            backup_files_bytes,
            backup_files,
            ..Sample::default()
        })
    }

    /// Adds the figures of the store.
    pub(crate) fn with_store(self, stats: &Stats) -> Sample {
        Sample {
            objects: stats.objects,
            index_bytes: stats.index_bytes,
            cache_bytes: stats.cache_bytes,
            tail_bytes: stats.tail_bytes,
            live_bytes: stats.live_bytes,
            capacity_bytes: stats.capacity_bytes,
            disk_bytes: stats.disk_bytes,
            segments_free: stats.segments_free,
            segments_total: stats.segments_total,
            user_bytes_written: stats.user_bytes_written,
            media_bytes_written: stats.bytes_written.total(),
            media_bytes_read: stats.bytes_read.total(),
            gc_segments: stats.gc_segments,
            store_checkpoints: stats.checkpoints,
            throttle_ms: stats.throttle_ms,
            damage_found: stats.damage_found,
            strangers_found: stats.strangers_found,
            ..self
        }
    }

    /// What index, cache and tail say that they hold.
    #[must_use]
    pub fn store_memory_bytes(&self) -> u64 {
        self.index_bytes + self.cache_bytes + self.tail_bytes
    }
}

/// Writes a time series as lines of comma-separated numbers.
pub(crate) struct Series {
    file: std::fs::File,
    path: String,
}

impl Series {
    pub(crate) fn create(path: &Path) -> Result<Series> {
        let name = path.display().to_string();
        let file = std::fs::File::create(path).map_err(Failure::system(name.clone()))?;
        let mut series = Series { file, path: name };
        series.line(&Sample::NAMES.join(","))?;
        Ok(series)
    }

    pub(crate) fn add(&mut self, sample: &Sample) -> Result<()> {
        self.line(&sample.row().join(","))
    }

    fn line(&mut self, line: &str) -> Result<()> {
        writeln!(self.file, "{line}").map_err(Failure::system(self.path.clone()))
    }
}

/// Peak of the resident memory, from the start of the process.
pub(crate) fn peak_rss_bytes() -> Result<u64> {
    status_bytes("VmHWM:")
}

/// A figure that the system states of this process in KiB.
fn status_bytes(name: &str) -> Result<u64> {
    let path = "/proc/self/status";
    let text = std::fs::read_to_string(path).map_err(Failure::system(path))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let odd = || Failure::Other(format!("{path}: it has no {name}"));
    Ok(kib.ok_or_else(odd)? * 1024)
}

/// Threads of this process, and those that the kernel adds for requests in flight.
fn threads() -> Result<(u64, u64)> {
    let dir = "/proc/self/task";
    let listed = std::fs::read_dir(dir).map_err(Failure::system(dir))?;
    let (mut own, mut kernel) = (0, 0);
    for task in listed.flatten() {
        // One that has ended meanwhile has no name.
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with("iou-") {
            kernel += 1;
        } else {
            own += 1;
        }
    }
    Ok((own, kernel))
}

fn entries(dir: &str) -> Result<u64> {
    let listed = std::fs::read_dir(dir).map_err(Failure::system(dir))?;
    Ok(listed.count() as u64)
}

/// Bytes on disk and files under a directory; what goes away meanwhile is not counted.
fn usage(dir: &Path) -> (u64, u64) {
    let Ok(listed) = std::fs::read_dir(dir) else {
        return (0, 0);
    };
    listed
        .flatten()
        .fold((0, 0), |(bytes, files), entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => {
                let (more, inside) = usage(&entry.path());
                (bytes + more, files + inside)
            }
            Ok(meta) => (bytes + meta.blocks() * 512, files + 1),
            Err(_) => (bytes, files),
        })
}
