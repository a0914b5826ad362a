//! The raw device, which `bench-compare run --raw-device` measured without an engine: a table of its
//! own, so that it is not taken for an engine. Plain data, no threads.

use heliox_bench::size::show_bytes;

/// The engine that its rows name.
pub(crate) const NAME: &str = "raw-device";

/// An operation with a number of requests under way, measured once.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) operation: String,
    pub(crate) depth: u64,
    pub(crate) ops_per_s: f64,
    pub(crate) block_bytes: Option<f64>,
    pub(crate) mean_us: Option<f64>,
    pub(crate) p95_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

/// The device as one file tells of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device {
    pub(crate) points: Vec<Point>,
    /// What measured it, each with the first operation that it measured.
    pub(crate) tools: Vec<(String, String)>,
    pub(crate) file_bytes: Option<f64>,
    /// The file was written over before.
    pub(crate) preconditioned: bool,
    /// Direct I/O was refused, so that the page cache was measured.
    pub(crate) cached: bool,
}

impl Device {
    /// How it was measured, and what is wrong with that.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.points.is_empty() {
            return notes;
        }
        let mut parts = Vec::new();
        let from = |(n, (tool, operation)): (usize, &(String, String))| match n {
            0 => format!("by {tool}"),
            _ => format!("{operation} by {tool}"),
        };
        parts.extend(self.tools.iter().enumerate().map(from));
        let file = self.file_bytes.map(|bytes| show_bytes(bytes as u64));
        parts.extend(file.map(|bytes| format!("in a file of {bytes}")));
        if self.preconditioned {
            parts.push("written over twice before".to_owned());
        }
        if !parts.is_empty() {
            notes.push(format!("raw device: {}", parts.join("; ")));
        }
        if self.cached {
            notes.push(
                "NOT THE RAW DEVICE but the page cache: the file system refuses direct I/O"
                    .to_owned(),
            );
        }
        notes
    }
}
