//! A control loop: what the machine and the disk alone do to a thread while a workload runs.
//!
//! One thread reads the clock, writes one block to a file beside the store and waits until it is
//! on media, again and again. The longest time between two rounds bounds from below what any
//! program here could have kept to: a stall of the workload that is not much longer than it says
//! nothing about the engine.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;

const BLOCK_BYTES: usize = 4096;
/// The file is written round and round within these bytes.
const FILE_BYTES: u64 = 16 << 20;
/// Between two rounds, so that the control takes little from what it measures beside.
const PAUSE: Duration = Duration::from_millis(1);

/// The file of a control loop. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    file: File,
    path: std::path::PathBuf,
}

impl Control {
    /// Makes the file in `dir`.
    pub(crate) fn new(dir: &Path) -> Result<Control, BenchError> {
        let path = dir.join("bench-control");
        let failed = |error: std::io::Error| {
            BenchError::Internal(format!(
                "the control file {}: {error}; --control needs a directory it can write to",
                path.display()
            ))
        };
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        let file = options.open(&path).map_err(failed)?;
        file.set_len(FILE_BYTES).map_err(failed)?;
        Ok(Control { file, path })
    }

    /// Rounds until told to stop; gives the longest time between two, the pause left out.
    pub(crate) fn run(&self, stop: &AtomicBool) -> Result<Duration, BenchError> {
        let block = [0u8; BLOCK_BYTES];
        let (mut longest, mut offset) = (Duration::ZERO, 0);
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let written = self.file.write_all_at(&block, offset);
            let durable = written.and_then(|()| self.file.sync_data());
            durable.map_err(|error| {
                BenchError::Internal(format!("the control file {}: {error}", self.path.display()))
            })?;
            thread::sleep(PAUSE);
            longest = longest.max(begun.elapsed().saturating_sub(PAUSE));
            offset = (offset + BLOCK_BYTES as u64) % FILE_BYTES;
        }
        Ok(longest)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It holds nothing worth an error.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_measures_until_it_is_stopped_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let control = Control::new(dir.path()).unwrap();
        let stop = AtomicBool::new(false);
        let longest = thread::scope(|scope| {
            let running = scope.spawn(|| control.run(&stop));
            thread::sleep(Duration::from_millis(30));
            stop.store(true, Ordering::Relaxed);
            running.join().unwrap().unwrap()
        });
        assert!(longest > Duration::ZERO && longest < Duration::from_secs(30));
        drop(control);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_refused() {
        let error = Control::new(Path::new("/proc/none")).unwrap_err();
        assert!(error.to_string().contains("--control"), "{error}");
    }
}
