//! A block device made of a file, where the system grants one: needs root and `/dev/loop-control`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};

/// A loop device; given back when it is dropped.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Makes a device of so many bytes over the file, which is made anew.
    ///
    /// # Errors
    /// In words why there is none: no right, no loop devices, no `losetup`.
    pub fn make(file: &Path, bytes: u64) -> Result<LoopDevice> {
        let made = std::fs::File::create(file).and_then(|made| made.set_len(bytes));
        made.map_err(Failure::system(file.display().to_string()))?;
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(file)
            .output()
            .map_err(Failure::system("losetup"))?;
        let words = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || !words.starts_with("/dev/") {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::Other(format!("no loop device: {why}")));
        }
        Ok(LoopDevice { path: words.into() })
    }

    /// Where the device is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // What remains is a device that nobody uses; there is nobody left to tell.
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .output();
    }
}
