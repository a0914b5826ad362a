//! Measures the device by fio, where it is installed. No state, no threads.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Pattern, Point, Setup};

/// What fio calls itself, as in `fio-3.33`; `None` if it is not installed.
pub(super) fn version() -> Option<String> {
    let output = Command::new("fio").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && text.starts_with("fio-")).then_some(text)
}

/// A pattern with `depth` requests under way, by `io_uring`.
pub(super) fn point(
    path: &Path,
    pattern: Pattern,
    depth: usize,
    setup: &Setup,
) -> Result<Point, String> {
    let mut command = Command::new("fio");
    command.args(options(pattern, depth, setup));
    command.arg(format!("--filename={}", path.display()));
    command.stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("fio: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let read = parse(&text, pattern, depth);
    read.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let why = errors
            .lines()
            .chain(text.lines())
            .find(|line| !line.trim().is_empty());
        format!(
            "fio failed ({}): {}",
            output.status,
            why.unwrap_or("it printed nothing")
        )
    })
}

fn options(pattern: Pattern, depth: usize, setup: &Setup) -> Vec<String> {
    let kind = match pattern {
        Pattern::RandomRead => "randread",
        Pattern::RandomWrite => "randwrite",
        Pattern::SequentialRead => "read",
        Pattern::SequentialWrite | Pattern::DurableWrite => "write",
    };
    let fixed = [
        "--name=raw",
        "--ioengine=io_uring",
        "--direct=1",
        "--time_based",
        "--norandommap",
        "--randrepeat=0",
        "--allow_file_create=0",
        // Of the whole latency, submission included, as engines are timed.
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        "--output-format=json",
    ];
    let mut options: Vec<String> = fixed.map(str::to_owned).to_vec();
    options.push(format!("--rw={kind}"));
    options.push(format!("--bs={}", pattern.block_bytes()));
    options.push(format!("--iodepth={depth}"));
    options.push(format!("--size={}", setup.file_bytes));
    options.push(format!("--runtime={}ms", setup.time.as_millis().max(1)));
    options
}

/// What fio printed, warnings before its JSON passed over; `None` if it measured nothing.
fn parse(text: &str, pattern: Pattern, depth: usize) -> Option<Point> {
    let json: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let job = json.get("jobs")?.get(0)?;
    if job.get("error").and_then(Value::as_u64) != Some(0) {
        return None;
    }
    let side = job.get(if pattern.reads() { "read" } else { "write" })?;
    let ops = side.get("total_ios")?.as_u64().filter(|ops| *ops > 0)?;
    let percentile_us = |percent: &str| {
        let nanos = side.get("lat_ns")?.get("percentile")?.get(percent)?;
        Some(nanos.as_f64()? / 1e3)
    };
    Some(Point {
        pattern,
        depth,
        ops,
        seconds: side.get("runtime")?.as_f64()? / 1e3,
        mean_us: side.get("lat_ns")?.get("mean")?.as_f64()? / 1e3,
        p95_us: percentile_us("95.000000")?,
        p99_us: percentile_us("99.000000")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What fio 3.33 prints, shortened.
    const PRINTED: &str = r#"fio: a warning about something
{
  "fio version" : "fio-3.33",
  "jobs" : [ {
    "jobname" : "raw", "error" : 0,
    "read" : {
      "iops" : 12345.6, "runtime" : 1001, "total_ios" : 12358,
      "clat_ns" : { "mean" : 80000.0 },
      "lat_ns" : { "min" : 9000, "max" : 800000, "mean" : 80500.25, "stddev" : 1.0, "N" : 12358,
        "percentile" : { "90.000000" : 90000, "95.000000" : 120320, "99.000000" : 240640 } }
    },
    "write" : { "total_ios" : 0, "runtime" : 0, "lat_ns" : { "mean" : 0.0 },
      "clat_ns" : { "mean" : 0.0 } }
  } ]
}"#;

    #[test]
    fn what_fio_prints_is_read() {
        let point = parse(PRINTED, Pattern::RandomRead, 8).unwrap();
        assert_eq!((point.depth, point.ops, point.seconds), (8, 12358, 1.001));
        assert_eq!(
            (point.mean_us, point.p95_us, point.p99_us),
            (80.50025, 120.32, 240.64)
        );
        // Nothing was written, so there is nothing to tell of it.
        assert_eq!(parse(PRINTED, Pattern::RandomWrite, 8), None);
        let failed = PRINTED.replace("\"error\" : 0", "\"error\" : 5");
        assert_eq!(parse(&failed, Pattern::RandomRead, 8), None);
        assert_eq!(
            parse("fio: command not understood", Pattern::RandomRead, 8),
            None
        );
    }

    #[test]
    fn fio_is_asked_for_direct_io_at_the_depth() {
        let setup = Setup {
            file_bytes: 1 << 30,
            precondition: false,
            time: Duration::from_secs(2),
        };
        let line = options(Pattern::SequentialWrite, 16, &setup).join(" ");
        for option in [
            "--rw=write",
            "--bs=131072",
            "--iodepth=16",
            "--size=1073741824",
            "--runtime=2000ms",
            "--direct=1",
            "--lat_percentiles=1",
            "--output-format=json",
        ] {
            assert!(line.contains(option), "{option}: {line}");
        }
    }
}
