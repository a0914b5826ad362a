//! A limit on all memory of an engine's process, page cache included: a control group of cgroup v2.
//!
//! Engines that keep their data in the page cache have no other bound. A group can be had where
//! cgroup v2 governs memory and this process may make groups: as root, or under a service manager
//! that delegates. Where it cannot be had, the reason is told and nothing is limited.
//!
//! Threads: none; the parent makes the group, the child enters it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";
/// For the program itself: code, histograms, buffers of keys and values.
const OWN_BYTES: u64 = 128 << 20;

/// A control group with a limit. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Limit {
    dir: PathBuf,
}

impl Limit {
    /// A group in which a process has `memory_bytes` and a little for this program.
    pub(crate) fn make(name: &str, memory_bytes: u64) -> Result<Limit, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Limit::make_below(Path::new(MOUNT), &own, name, memory_bytes)
    }

    /// The group is made beside that of this process, or beside one of those above it: a group
    /// with processes in it cannot have limited groups below it.
    fn make_below(mount: &Path, own: &str, name: &str, memory: u64) -> Result<Limit, String> {
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let own = own.ok_or("this machine has no cgroup v2")?;
        if !mount.join("cgroup.controllers").exists() {
            return Err("memory is not governed by cgroup v2 on this machine".to_owned());
        }
        let mut why = "no control group above this process governs memory".to_owned();
        for above in mount
            .join(own)
            .ancestors()
            .skip(usize::from(!own.is_empty()))
        {
            if !above.starts_with(mount) {
                break;
            }
            let governed = fs::read_to_string(above.join("cgroup.subtree_control"));
            if !governed
                .unwrap_or_default()
                .split_whitespace()
                .any(|word| word == "memory")
            {
                continue;
            }
            match Limit::make_at(above.join(name), memory) {
                Ok(limit) => return Ok(limit),
                Err(error) => why = format!("{}: {error}", above.display()),
            }
        }
        Err(why)
    }

    fn make_at(dir: PathBuf, memory_bytes: u64) -> io::Result<Limit> {
        fs::create_dir(&dir)?;
        let limit = Limit { dir };
        let bytes = memory_bytes.saturating_add(OWN_BYTES).to_string();
        fs::write(limit.dir.join("memory.max"), bytes)?;
        // Absent where the kernel has no swap.
        let _ = fs::write(limit.dir.join("memory.swap.max"), "0");
        Ok(limit)
    }

    /// Where the group is, for [`enter`].
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // A group that cannot be removed is empty and costs nothing.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Moves this process into a group.
pub(crate) fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files that looks like cgroup v2, with the given groups governing memory.
    fn tree(governing: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("cgroup.controllers"), "cpu memory").unwrap();
        for group in governing {
            fs::write(
                dir.path().join(group).join("cgroup.subtree_control"),
                "cpu memory",
            )
            .unwrap();
        }
        dir
    }

    #[test]
    fn the_nearest_group_above_that_governs_memory_takes_the_limit() {
        for (governing, expected) in [
            (vec!["", "a"], "a/x"),
            (vec![""], "x"),
            (vec!["", "a/b"], "x"),
        ] {
            let dir = tree(&governing);
            let limit = Limit::make_below(dir.path(), "1:cpu:/\n0::/a/b\n", "x", 1 << 30).unwrap();
            assert_eq!(limit.dir(), dir.path().join(expected));
            let max = fs::read_to_string(limit.dir().join("memory.max")).unwrap();
            assert_eq!(max, ((1u64 << 30) + OWN_BYTES).to_string());
            enter(limit.dir()).unwrap();
            let inside = fs::read_to_string(limit.dir().join("cgroup.procs")).unwrap();
            assert_eq!(inside, std::process::id().to_string());
        }
    }

    #[test]
    fn where_there_is_no_group_the_reason_is_told() {
        let none = tempfile::tempdir().unwrap();
        for (own, reason) in [("", "no cgroup v2"), ("0::/\n", "not governed")] {
            let error = Limit::make_below(none.path(), own, "x", 1).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let error = Limit::make_below(tree(&[]).path(), "0::/a/b", "x", 1).unwrap_err();
        assert!(error.contains("no control group above"), "{error}");
    }
}
