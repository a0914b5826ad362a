//! What a directory occupies, and what the machine has left. No state, no threads.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of the blocks that the files below a directory occupy; files that vanish meanwhile are
/// not counted.
pub(crate) fn occupied_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => occupied_bytes(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

/// Bytes that are free in the file system of a directory.
pub(crate) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes of memory that programs can still have; `None` if the kernel does not say.
pub(crate) fn available_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_in_all_directories_and_holes_are_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("below/file"), vec![1; 100_000]).unwrap();
        let hole = fs::File::create(dir.path().join("hole")).unwrap();
        hole.set_len(1 << 30).unwrap();
        let occupied = occupied_bytes(dir.path());
        assert!((100_000..200_000).contains(&occupied), "{occupied}");
        assert_eq!(occupied_bytes(&dir.path().join("none")), 0);
    }

    #[test]
    fn this_machine_has_room_and_memory() {
        assert!(free_bytes(Path::new(".")).unwrap() > 0);
        assert!(available_memory_bytes().unwrap() > 1 << 20);
    }
}
