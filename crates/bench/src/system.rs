//! What the kernel says about this process, and what it is to forget. No state, no threads.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{fadvise, Advice};
use rustix::time::{clock_gettime, ClockId};

use crate::error::BenchError;

/// A reading of the kernel's account of this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessUsage {
    /// Bytes that this process caused to be sent to storage.
    pub(crate) write_bytes: u64,
    /// Bytes that this process caused to be fetched from storage.
    pub(crate) read_bytes: u64,
    /// Processor time of all threads, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Resident memory, in bytes.
    pub(crate) rss_bytes: u64,
    /// The most that it ever was, in bytes.
    pub(crate) peak_rss_bytes: u64,
}

impl ProcessUsage {
    /// Reads the account now.
    pub(crate) fn read() -> Result<ProcessUsage, BenchError> {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let (io, status) = (read("/proc/self/io")?, read("/proc/self/status")?);
        Ok(ProcessUsage {
            write_bytes: field(&io, "write_bytes:"),
            read_bytes: field(&io, "read_bytes:"),
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            rss_bytes: field(&status, "VmRSS:") * 1024,
            peak_rss_bytes: field(&status, "VmHWM:") * 1024,
        })
    }
}

/// Writes the files below a directory to media and empties the page cache of them, where nobody has
/// them mapped; what is held in memory (tmpfs) stays.
///
/// # Errors
/// A directory or file that cannot be read.
pub fn forget_pages(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget_pages(&entry.path())?;
        } else if kind.is_file() {
            let file = File::open(entry.path())?;
            file.sync_data()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<String, BenchError> {
    std::fs::read_to_string(path).map_err(|source| BenchError::System {
        path: Path::new(path).to_owned(),
        source,
    })
}

/// The first number behind `name` at the start of a line; 0 if the kernel does not say.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "wchar: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
        assert_eq!(field(text, "write_bytes:"), 4096);
        assert_eq!(field(text, "absent:"), 0);
    }

    #[test]
    fn this_process_uses_memory_and_time() {
        let before = ProcessUsage::read().unwrap();
        assert!(before.rss_bytes > 100_000 && before.peak_rss_bytes >= before.rss_bytes);
        let mut sum = 0u64;
        while ProcessUsage::read().unwrap().cpu_seconds < before.cpu_seconds + 0.01 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }
}
