//! How much room there is: on the file system under a directory, and in memory.
//!
//! No state. Every answer is a look at the moment. Memory follows the machine and all control
//! groups above this process (v2 and v1), so that a store in a container does not plan with the
//! memory of its host.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{MediaError, Operation};
use crate::sys;

/// Space of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Size of the file system.
    pub total_bytes: u64,
    /// What an unprivileged process may still take.
    pub free_bytes: u64,
}

/// Space of the file system that holds a file or directory.
///
/// # Errors
/// [`MediaError::Io`] if the path cannot be looked at.
pub fn file_system_space(path: &Path) -> Result<Space, MediaError> {
    let (block_bytes, blocks, free_blocks) = sys::file_system(path).map_err(|error| {
        let device: Arc<str> = path.to_string_lossy().into();
        MediaError::from_io(&device, Operation::Open, 0, 0, &error)
    })?;
    Ok(Space {
        total_bytes: block_bytes * blocks,
        free_bytes: block_bytes * free_blocks,
    })
}

/// Memory that this process may use at most: the machine's, or the tightest limit of its control
/// groups if that is less. `None` only where `/proc` says nothing.
#[must_use]
pub fn memory_limit_bytes() -> Option<u64> {
    let machine = read_to_string("/proc/meminfo")
        .ok()
        .as_deref()
        .and_then(total_of_meminfo);
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = group_files(Path::new("/sys/fs/cgroup"), &groups)
        .into_iter()
        .filter_map(|file| limit_of(&read_to_string(file).ok()?));
    machine.into_iter().chain(limits).min()
}

fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The number in a limit file; none for "max". The v1 way to say "no limit" is a number beyond any
/// machine, which the minimum drops.
fn limit_of(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// All files that may hold a limit: those of the process's own groups and of every group above.
/// `groups` is `/proc/self/cgroup`: lines of `number:controllers:path`.
fn group_files(root: &Path, groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (base, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            list if list.split(',').any(|c| c == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // In a container the path may be the host's and missing here; the mount's root is then the
        // own group, and it is always among the ancestors.
        let relative = Path::new(path.trim_start_matches('/'));
        files.extend(
            relative
                .ancestors()
                .map(|group| base.join(group).join(file)),
        );
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_and_the_machine_answer() {
        let space = file_system_space(&std::env::temp_dir()).unwrap();
        assert!(space.free_bytes <= space.total_bytes && space.total_bytes > 0);
        assert!(file_system_space(Path::new("/no/such/place")).is_err());
        assert!(memory_limit_bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn meminfo_and_limit_files_are_read() {
        assert_eq!(
            total_of_meminfo("MemFree: 1 kB\nMemTotal:       24 kB\n"),
            Some(24 << 10)
        );
        assert_eq!(limit_of("1048576\n"), Some(1 << 20));
        assert_eq!(limit_of("max\n"), None);
    }

    #[test]
    fn both_kinds_of_groups_are_searched_up_to_the_root() {
        let root = Path::new("/cg");
        let v2 = group_files(root, "0::/a/b\n");
        let expect = ["/cg/a/b/memory.max", "/cg/a/memory.max", "/cg/memory.max"];
        assert_eq!(v2, expect.map(PathBuf::from));
        let v1 = group_files(root, "5:cpu:/x\n4:hugetlb,memory:/y\n");
        let expect = [
            "/cg/memory/y/memory.limit_in_bytes",
            "/cg/memory/memory.limit_in_bytes",
        ];
        assert_eq!(v1, expect.map(PathBuf::from));
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("a/b")).unwrap();
        std::fs::write(root.path().join("a/b/memory.max"), "max").unwrap();
        std::fs::write(root.path().join("a/memory.max"), "4096").unwrap();
        let least = group_files(root.path(), "0::/a/b")
            .into_iter()
            .filter_map(|file| limit_of(&read_to_string(file).ok()?))
            .min();
        assert_eq!(least, Some(4096));
    }
}
