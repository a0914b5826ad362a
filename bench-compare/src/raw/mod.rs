//! The raw device: what it gives without an engine, in a file beside the stores, in the same run.
//!
//! Random 4 KiB and sequential 128 KiB, read and written past the page cache, with 1 to 32 requests
//! under way: by `fio` and `io_uring` where fio is installed, else by an `io_uring` of this program, or, where
//! the kernel grants none, by as many threads as requests. Rows say which. Of these nothing is synced; besides,
//! 4 KiB writes one after the other, each followed by an fdatasync, always by a thread of this program,
//! since fio tells the latency of a write without that of its sync.
//!
//! Threads: those of a point live inside [`measure`].

mod fio;
mod own;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{json, Map, Value};

use own::Own;

/// The engine of its rows.
pub(crate) const NAME: &str = "raw-device";
/// Requests under way at the same time.
pub(crate) const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The smallest file that is measured in.
pub(crate) const FILE_BYTES_MIN: u64 = 4 << 20;
/// What random reads ask for.
const PAGE_BYTES: u64 = 4096;

/// What is asked of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pattern {
    RandomRead,
    RandomWrite,
    SequentialRead,
    SequentialWrite,
    DurableWrite,
}

impl Pattern {
    /// Reads first, so that they are not read from what was just written.
    pub(crate) const ALL: [Pattern; 5] = [
        Pattern::RandomRead,
        Pattern::SequentialRead,
        Pattern::RandomWrite,
        Pattern::SequentialWrite,
        Pattern::DurableWrite,
    ];

    /// How many requests are under way: syncs one at a time, as a log makes them.
    pub(crate) const fn depths(self) -> &'static [usize] {
        match self {
            Pattern::DurableWrite => &[1],
            _ => &DEPTHS,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Pattern::RandomRead => "randread-4k",
            Pattern::RandomWrite => "randwrite-4k",
            Pattern::SequentialRead => "seqread-128k",
            Pattern::SequentialWrite => "seqwrite-128k",
            Pattern::DurableWrite => "syncwrite-4k",
        }
    }

    const fn block_bytes(self) -> usize {
        match self {
            Pattern::RandomRead | Pattern::RandomWrite | Pattern::DurableWrite => {
                PAGE_BYTES as usize
            }
            Pattern::SequentialRead | Pattern::SequentialWrite => 128 << 10,
        }
    }

    const fn reads(self) -> bool {
        matches!(self, Pattern::RandomRead | Pattern::SequentialRead)
    }

    const fn syncs(self) -> bool {
        matches!(self, Pattern::DurableWrite)
    }

    const fn is_random(self) -> bool {
        matches!(self, Pattern::RandomRead | Pattern::RandomWrite)
    }
}

/// A pattern at a depth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    pub(crate) pattern: Pattern,
    pub(crate) depth: usize,
    pub(crate) ops: u64,
    pub(crate) seconds: f64,
    pub(crate) mean_us: f64,
    pub(crate) p95_us: f64,
    pub(crate) p99_us: f64,
}

impl Point {
    pub(crate) fn ops_per_s(&self) -> f64 {
        match self.seconds {
            seconds if seconds > 0.0 => self.ops as f64 / seconds,
            _ => 0.0,
        }
    }
}

/// All that was measured of the device.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Raw {
    /// What measured it, but for the syncs.
    pub(crate) tool: String,
    pub(crate) file_bytes: u64,
    /// The file was written over twice before.
    pub(crate) preconditioned: bool,
    /// Past the page cache; if the file system refuses that, this is not the device.
    pub(crate) direct: bool,
    pub(crate) points: Vec<Point>,
}

/// How the device is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) file_bytes: u64,
    pub(crate) precondition: bool,
    /// Of one point.
    pub(crate) time: Duration,
}

/// Measures in a file in `dir`, which it makes and removes; `told` is told what is next. Ends early,
/// with what was measured, when `interrupted`.
pub(crate) fn measure(
    dir: &Path,
    setup: &Setup,
    interrupted: &AtomicBool,
    told: impl FnMut(&str),
) -> Result<Raw, String> {
    measure_by(fio::version(), dir, setup, interrupted, told)
}

/// Measures by fio, if it is there.
fn measure_by(
    mut fio: Option<String>,
    dir: &Path,
    setup: &Setup,
    interrupted: &AtomicBool,
    mut told: impl FnMut(&str),
) -> Result<Raw, String> {
    let path = dir.join(NAME);
    let failed = |error| format!("raw device: {}: {error}", path.display());
    told("writing the file");
    let media = own::make_file(&path, setup, interrupted).map_err(failed)?;
    let mut own = Own::new(&media);
    let mut raw = Raw {
        tool: own.tool.clone(),
        file_bytes: setup.file_bytes,
        preconditioned: setup.precondition,
        direct: media.direct(),
        points: Vec::new(),
    };
    for pattern in Pattern::ALL {
        for &depth in pattern.depths() {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            told(&format!("{}, depth {depth}", pattern.name()));
            if let Some(version) = fio.as_ref().filter(|_| !pattern.syncs()) {
                match fio::point(&path, pattern, depth, setup) {
                    Ok(point) => {
                        raw.tool = version.clone();
                        raw.points.push(point);
                        continue;
                    }
                    // What began with one tool is not mixed with another's.
                    Err(error) if !raw.points.is_empty() => return Err(error),
                    Err(error) => raw.tool = format!("{}, since {error}", own.tool),
                }
                fio = None;
            }
            let point = own.point(pattern, depth, setup.time, interrupted);
            raw.points.push(point.map_err(failed)?);
        }
    }
    drop(own);
    drop(media);
    std::fs::remove_file(&path).map_err(|error| failed(error.into()))?;
    Ok(raw)
}

impl Raw {
    /// A row for each point, with the names that rows of engines have.
    pub(crate) fn rows(&self) -> Vec<Map<String, Value>> {
        let rows = self.points.iter().map(|point| {
            let row = json!({
                "engine": NAME,
                "workload": point.pattern.name(),
                "threads": point.depth,
                "ops": point.ops,
                "seconds": point.seconds,
                "ops_per_s": point.ops_per_s(),
                "mean_us": point.mean_us,
                "p95_us": point.p95_us,
                "p99_us": point.p99_us,
                "block_bytes": point.pattern.block_bytes(),
                "file_bytes": self.file_bytes,
                "direct": self.direct,
                "preconditioned": self.preconditioned,
                "tool": if point.pattern.syncs() { own::BY_SYNCS } else { &self.tool },
                "repeat": 1,
            });
            match row {
                Value::Object(fields) => fields,
                _ => Map::new(),
            }
        });
        rows.collect()
    }

    /// Random reads, by the number that was under way.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &Point> {
        let points = self.points.iter();
        points.filter(|point| point.pattern == Pattern::RandomRead)
    }

    /// How many of them a second, in that order.
    pub(crate) fn read_rates(&self) -> impl Iterator<Item = u64> + '_ {
        self.reads().map(|point| point.ops_per_s() as u64)
    }

    /// Random reads a second with so many under way: between two depths that were measured, on the
    /// line between them; beyond the last, the last.
    pub(crate) fn reads_per_s(&self, depth: usize) -> Option<f64> {
        let mut below: Option<&Point> = None;
        for point in self.reads() {
            if point.depth == depth {
                return Some(point.ops_per_s());
            }
            if point.depth > depth {
                let below = below?;
                let way = (depth - below.depth) as f64 / (point.depth - below.depth) as f64;
                let (from, to) = (below.ops_per_s(), point.ops_per_s());
                return Some(from + (to - from) * way);
            }
            below = Some(point);
        }
        below.map(Point::ops_per_s)
    }

    /// The share that a row's reads of media are of what the device gives at a depth of its threads.
    /// `None` if nothing was read, and of an engine that does not count its reads: the kernel counts the
    /// bytes that a process fetched, not its requests.
    pub(crate) fn share(&self, row: &Map<String, Value>) -> Option<f64> {
        let figure = |name: &str| row.get(name).and_then(Value::as_f64);
        let reads_per_s = figure("media_reads_per_op")? * figure("ops_per_s")?;
        let depth = row.get("threads")?.as_u64()?;
        let raw = self.reads_per_s(usize::try_from(depth).ok()?)?;
        (reads_per_s > 0.0 && raw > 0.0).then(|| reads_per_s / raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(points: &[(usize, u64)]) -> Raw {
        let point = |(depth, ops): &(usize, u64)| Point {
            pattern: Pattern::RandomRead,
            depth: *depth,
            ops: *ops,
            seconds: 2.0,
            mean_us: 1.0,
            p95_us: 2.0,
            p99_us: 3.0,
        };
        Raw {
            tool: "a test".to_owned(),
            file_bytes: FILE_BYTES_MIN,
            preconditioned: false,
            direct: true,
            points: points.iter().map(point).collect(),
        }
    }

    fn row(fields: Value) -> Map<String, Value> {
        fields.as_object().cloned().unwrap()
    }

    #[test]
    fn the_share_is_of_the_device_at_the_depth_of_the_threads() {
        let raw = raw(&[(1, 20_000), (2, 40_000), (4, 60_000)]);
        for (depth, rate) in [(1, 10e3), (2, 20e3), (3, 25e3), (4, 30e3), (512, 30e3)] {
            assert_eq!(raw.reads_per_s(depth), Some(rate));
        }
        let told = json!({ "threads": 4, "ops_per_s": 50e3, "media_reads_per_op": 0.3 });
        assert_eq!(raw.share(&row(told)), Some(0.5));
        let untold = json!({
            "threads": 1, "ops_per_s": 9.0, "media_reads_per_op": null, "seconds": 2.0,
            "kernel_read_bytes": 4096 * 5000
        });
        assert_eq!(raw.share(&row(untold)), None);
        let cached = json!({ "threads": 1, "ops_per_s": 9.0, "media_reads_per_op": 0.0 });
        assert_eq!(raw.share(&row(cached)), None);
    }

    #[test]
    fn rows_have_every_point() {
        let rows = raw(&[(1, 20_000), (32, 40_000)]).rows();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1]["engine"], "raw-device");
        assert_eq!(
            (&rows[1]["threads"], &rows[1]["ops_per_s"]),
            (&32.into(), &20e3.into())
        );
    }

    #[test]
    fn a_file_is_measured_at_all_depths_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup {
            file_bytes: FILE_BYTES_MIN,
            precondition: true,
            time: Duration::from_millis(5),
        };
        let mut told = Vec::new();
        let tell = |what: &str| told.push(what.to_owned());
        let raw = measure_by(None, dir.path(), &setup, &AtomicBool::new(false), tell).unwrap();
        assert_eq!(raw.points.len(), 4 * DEPTHS.len() + 1);
        let synced = raw.points.last().unwrap();
        assert_eq!((synced.pattern.name(), synced.depth), ("syncwrite-4k", 1));
        for point in &raw.points {
            assert!(point.ops > 0 && point.mean_us > 0.0, "{point:?}");
            assert!(point.p95_us <= point.p99_us, "{point:?}");
        }
        assert_eq!(told.len(), 1 + raw.points.len());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let ended = measure_by(None, dir.path(), &setup, &AtomicBool::new(true), |_| {}).unwrap();
        assert!(ended.points.is_empty());
    }
}
