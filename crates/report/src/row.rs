//! The rows of a file, checked. What a row does not have is left out of what is shown, so that
//! files of earlier versions are read too; fields that are not known here are passed over.
//! Plain data, no threads.

use std::fs;
use std::path::Path;

use serde::de::IgnoredAny;
use serde::Deserialize;
use serde_json::Value;

use crate::device::{self, Device, Point};
use crate::error::ReportError;

/// Figures beyond this are no measurement, and would break the scale of a plot.
const LARGEST: f64 = 1e18;
/// Longer names would break tables.
const NAME_CHARS_MAX: usize = 60;

/// A row as it stands in the file; `docs/benchmarks.md` says what the fields mean.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    engine: Option<String>,
    workload: Option<String>,
    threads: Option<u64>,
    repeat: Option<u64>,
    failed: Option<String>,
    memory_limit: Option<String>,
    key_size: Option<Value>,
    value_size: Option<Value>,
    keys: Option<Value>,
    durability: Option<Value>,
    batch: Option<Value>,
    num: Option<Value>,
    distribution: Option<Value>,
    memory_bytes: Option<Value>,
    open_loop: Option<Value>,
    writer_loop: Option<Value>,
    latency_limit: Option<Value>,
    raw_device_share: Option<f64>,
    found: Option<f64>,
    found_expected: Option<f64>,
    inserts_again: Option<f64>,
    cut_short: Option<bool>,
    ops: Option<f64>,
    seconds: Option<f64>,
    ops_per_s: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    max_us: Option<f64>,
    longest_stall_ms: Option<f64>,
    write_amplification: Option<f64>,
    kernel_read_bytes: Option<f64>,
    cpu_seconds: Option<f64>,
    close_seconds: Option<f64>,
    open_seconds: Option<f64>,
    index_bytes_per_object: Option<f64>,
    objects: Option<f64>,
    disk_bytes: Option<f64>,
    peak_rss_bytes: Option<f64>,
    ops_by_second: Option<Vec<f64>>,
    read_bytes_by_second: Option<Vec<f64>>,
    write_bytes_by_second: Option<Vec<f64>>,
    cpu_seconds_by_second: Option<Vec<f64>>,
    calls_by_latency: Option<Vec<(f64, f64)>>,
    percentiles_us: Option<Vec<(f64, f64)>>,
    mean_us: Option<f64>,
    p95_us: Option<f64>,
    block_bytes: Option<f64>,
    file_bytes: Option<f64>,
    tool: Option<String>,
    direct: Option<bool>,
    preconditioned: Option<bool>,
}

/// One workload of one engine, measured once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) engine: String,
    pub(crate) workload: String,
    pub(crate) threads: u64,
    pub(crate) repeat: Option<u64>,
    /// What it was measured under, by name, as text.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// `None` where the highest rate within a limit was looked for and none was found.
    pub(crate) ops_per_s: Option<f64>,
    /// How that was looked for.
    pub(crate) search: Option<Value>,
    /// The limit within which no rate was found.
    pub(crate) unmet: Option<String>,
    /// The rate at which operations were offered, in an open loop.
    pub(crate) offered: Option<f64>,
    /// A load was offered at a rate that it did not keep up with.
    pub(crate) behind: bool,
    /// How many reads found something, and how many should have, where these are not the same.
    pub(crate) found: Option<(f64, f64)>,
    /// Inserts that found no room and wrote again what was there.
    pub(crate) inserts_again: Option<f64>,
    /// It was interrupted.
    pub(crate) cut_short: bool,
    pub(crate) ops: Option<f64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
    pub(crate) stall_ms: Option<f64>,
    pub(crate) write_amplification: Option<f64>,
    pub(crate) kernel_read_bytes: Option<f64>,
    /// What its reads of media are of those that the device gives without an engine.
    pub(crate) raw_share: Option<f64>,
    pub(crate) cpu_seconds: Option<f64>,
    /// How long it took to close the store, of a row that opened it again.
    pub(crate) close_seconds: Option<f64>,
    pub(crate) open_seconds: Option<f64>,
    pub(crate) index_bytes_per_object: Option<f64>,
    pub(crate) objects: Option<f64>,
    pub(crate) disk_bytes: Option<f64>,
    pub(crate) peak_rss_bytes: Option<f64>,
    /// Empty in files of earlier versions.
    pub(crate) ops_by_second: Vec<f64>,
    pub(crate) read_bytes_by_second: Vec<f64>,
    pub(crate) write_bytes_by_second: Vec<f64>,
    pub(crate) cpu_seconds_by_second: Vec<f64>,
    /// (microseconds, calls) of the buckets; empty in files of earlier versions.
    pub(crate) calls_by_latency: Vec<(f64, f64)>,
    /// (percent, microseconds); empty in files of earlier versions.
    pub(crate) percentiles_us: Vec<(f64, f64)>,
}

/// An engine that did not get through.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) engine: String,
    pub(crate) repeat: Option<u64>,
    pub(crate) why: String,
}

/// What one file holds.
#[derive(Clone, Debug)]
pub struct Results {
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) failures: Vec<Failed>,
    /// Measured without an engine.
    pub(crate) device: Device,
    /// What bounded the memory of the processes, as `bench-compare` tells it.
    pub(crate) memory_limit: Option<String>,
}

impl Results {
    /// Reads a file; its name without the directory is what reports call it.
    ///
    /// # Errors
    /// A file that cannot be read, and all that [`Results::parse`] refuses.
    pub fn read(path: &Path) -> Result<Results, ReportError> {
        let bytes = fs::read(path).map_err(|source| ReportError::File {
            name: path.display().to_string(),
            source,
        })?;
        let mut results = Results::parse(&path.display().to_string(), &bytes)?;
        if let Some(name) = path.file_name() {
            results.name = clean(&name.to_string_lossy());
        }
        Ok(results)
    }

    /// Takes the text of a file; `name` is what errors and reports call it.
    ///
    /// # Errors
    /// What is no JSON, no list of rows, or a list of none; a row without its engine, workload,
    /// threads or operations a second, or with a figure that cannot be.
    pub fn parse(name: &str, text: &[u8]) -> Result<Results, ReportError> {
        let raws: Vec<Raw> = serde_json::from_slice(text).map_err(|source| {
            let name = clean(name);
            if !source.is_data() {
                return ReportError::NotJson { name, source };
            }
            // What begins otherwise than results do may yet be no JSON further on.
            match serde_json::from_slice::<IgnoredAny>(text) {
                Err(source) => ReportError::NotJson { name, source },
                Ok(_) => ReportError::NotResults { name, source },
            }
        })?;
        if raws.is_empty() {
            return Err(ReportError::Empty { name: clean(name) });
        }
        let mut results = Results {
            name: clean(name),
            rows: Vec::new(),
            failures: Vec::new(),
            device: Device::default(),
            memory_limit: None,
        };
        for (place, raw) in raws.into_iter().enumerate() {
            let added = results.add(raw);
            added.map_err(|what| ReportError::Row {
                name: clean(name),
                row: place + 1,
                what,
            })?;
        }
        Ok(results)
    }

    fn add(&mut self, raw: Raw) -> Result<(), String> {
        let engine = named(raw.engine.as_deref(), "engine")?;
        if let Some(why) = &raw.failed {
            let (why, repeat) = (without_controls(why), raw.repeat);
            self.failures.push(Failed {
                engine,
                repeat,
                why,
            });
            return Ok(());
        }
        let workload = named(raw.workload.as_deref(), "workload")?;
        if let Some(limit) = &raw.memory_limit {
            self.memory_limit
                .get_or_insert_with(|| without_controls(limit));
        }
        let missing = |field: &str| format!("{engine}, {workload}: the field {field} is missing");
        let threads = raw.threads.ok_or_else(|| missing("threads"))?;
        let ops_per_s = raw.ops_per_s.ok_or_else(|| missing("ops_per_s"))?;
        check(&raw).map_err(|what| format!("{engine}, {workload}: {what}"))?;
        if engine == device::NAME {
            self.add_point(raw, workload, threads, ops_per_s);
            return Ok(());
        }
        self.rows.push(Row {
            settings: settings(&raw),
            behind: [&raw.open_loop, &raw.writer_loop]
                .into_iter()
                .any(is_behind),
            found: found(&raw, &workload),
            engine,
            workload,
            threads,
            repeat: raw.repeat,
            ops_per_s: speed(&raw),
            unmet: unmet(&raw),
            search: raw.latency_limit.clone(),
            offered: offered(&raw),
            cut_short: raw.cut_short == Some(true),
            inserts_again: raw.inserts_again.filter(|inserts| *inserts > 0.0),
            ops: raw.ops,
            seconds: raw.seconds,
            p50_us: raw.p50_us,
            p99_us: raw.p99_us,
            p999_us: raw.p999_us,
            max_us: raw.max_us,
            stall_ms: raw.longest_stall_ms,
            write_amplification: raw.write_amplification,
            kernel_read_bytes: raw.kernel_read_bytes,
            raw_share: raw.raw_device_share,
            cpu_seconds: raw.cpu_seconds,
            close_seconds: raw.close_seconds,
            open_seconds: raw.open_seconds,
            index_bytes_per_object: raw.index_bytes_per_object,
            objects: raw.objects,
            disk_bytes: raw.disk_bytes,
            peak_rss_bytes: raw.peak_rss_bytes,
            ops_by_second: raw.ops_by_second.unwrap_or_default(),
            read_bytes_by_second: raw.read_bytes_by_second.unwrap_or_default(),
            write_bytes_by_second: raw.write_bytes_by_second.unwrap_or_default(),
            cpu_seconds_by_second: raw.cpu_seconds_by_second.unwrap_or_default(),
            calls_by_latency: raw.calls_by_latency.unwrap_or_default(),
            percentiles_us: raw.percentiles_us.unwrap_or_default(),
        });
        Ok(())
    }

    /// Takes a row of the raw device, whose threads are requests under way.
    fn add_point(&mut self, raw: Raw, operation: String, depth: u64, ops_per_s: f64) {
        let device = &mut self.device;
        if let Some(tool) = raw.tool.as_deref().map(without_controls) {
            if device.tools.iter().all(|(known, _)| *known != tool) {
                device.tools.push((tool, operation.clone()));
            }
        }
        device.points.push(Point {
            operation,
            depth,
            ops_per_s,
            block_bytes: raw.block_bytes,
            mean_us: raw.mean_us,
            p95_us: raw.p95_us,
            p99_us: raw.p99_us,
        });
        device.file_bytes = raw.file_bytes.or(device.file_bytes);
        device.preconditioned |= raw.preconditioned == Some(true);
        device.cached |= raw.direct == Some(false);
    }
}

/// Refuses figures that cannot be.
fn check(raw: &Raw) -> Result<(), String> {
    let figures = [
        ("found", raw.found),
        ("found_expected", raw.found_expected),
        ("inserts_again", raw.inserts_again),
        ("ops", raw.ops),
        ("seconds", raw.seconds),
        ("ops_per_s", raw.ops_per_s),
        ("found_rate", speed(raw)),
        ("p50_us", raw.p50_us),
        ("mean_us", raw.mean_us),
        ("p95_us", raw.p95_us),
        ("p99_us", raw.p99_us),
        ("p999_us", raw.p999_us),
        ("max_us", raw.max_us),
        ("longest_stall_ms", raw.longest_stall_ms),
        ("write_amplification", raw.write_amplification),
        ("kernel_read_bytes", raw.kernel_read_bytes),
        ("raw_device_share", raw.raw_device_share),
        ("cpu_seconds", raw.cpu_seconds),
        ("close_seconds", raw.close_seconds),
        ("open_seconds", raw.open_seconds),
        ("index_bytes_per_object", raw.index_bytes_per_object),
        ("objects", raw.objects),
        ("disk_bytes", raw.disk_bytes),
        ("peak_rss_bytes", raw.peak_rss_bytes),
        ("offered_ops_per_s", offered(raw)),
        ("block_bytes", raw.block_bytes),
        ("file_bytes", raw.file_bytes),
    ];
    for (name, figure) in figures {
        if let Some(figure) = figure.filter(|figure| !(0.0..=LARGEST).contains(figure)) {
            return Err(format!("{name} is {figure}: expected 0 to {LARGEST:e}"));
        }
    }
    check_series(raw)?;
    for (percent, micros) in raw.percentiles_us.iter().flatten() {
        if !(0.0..100.0).contains(percent) || !(0.0..=LARGEST).contains(micros) {
            return Err(format!(
                "percentiles_us holds [{percent}, {micros}]: expected a percentage below 100 and \
                 microseconds from 0 to {LARGEST:e}"
            ));
        }
    }
    Ok(())
}

/// Refuses lists of figures that cannot be.
fn check_series(raw: &Raw) -> Result<(), String> {
    let calls = raw.calls_by_latency.iter().flatten();
    let calls: Vec<f64> = calls
        .flat_map(|(micros, calls)| [*micros, *calls])
        .collect();
    for (name, series) in [
        ("ops_by_second", &raw.ops_by_second),
        ("read_bytes_by_second", &raw.read_bytes_by_second),
        ("write_bytes_by_second", &raw.write_bytes_by_second),
        ("cpu_seconds_by_second", &raw.cpu_seconds_by_second),
        ("calls_by_latency", &Some(calls)),
    ] {
        let impossible = |figure: &&f64| !(0.0..=LARGEST).contains(*figure);
        if let Some(figure) = series.iter().flatten().find(impossible) {
            return Err(format!("{name} holds {figure}: expected 0 to {LARGEST:e}"));
        }
    }
    Ok(())
}

/// A field of an open loop.
fn of_loop(load: &Option<Value>, field: &str) -> Option<Value> {
    load.as_ref()?.get(field).cloned()
}

/// Operations a second; where the highest rate within a limit was looked for, that.
fn speed(raw: &Raw) -> Option<f64> {
    match &raw.latency_limit {
        Some(search) => search.get("found_rate")?.as_f64(),
        None => raw.ops_per_s,
    }
}

/// The limit within which no rate was found.
fn unmet(raw: &Raw) -> Option<String> {
    let none = raw.latency_limit.is_some() && speed(raw).is_none();
    let limit = of_loop(&raw.latency_limit, "limit").filter(|_| none)?;
    Some(clean(limit.as_str().unwrap_or_default()))
}

/// Operations a second that were offered, unless that rate was looked for.
fn offered(raw: &Raw) -> Option<f64> {
    if raw.latency_limit.is_some() {
        return None;
    }
    of_loop(&raw.open_loop, "offered_ops_per_s")?.as_f64()
}

/// What was found, and what should have been, where they differ. A store that is read as a whole may
/// have more than the keys of the run.
fn found(raw: &Raw, workload: &str) -> Option<(f64, f64)> {
    let (found, expected) = raw.found.zip(raw.found_expected)?;
    let more = workload == "readseq" && found > expected;
    (found != expected && !more).then_some((found, expected))
}

/// An open loop that did not keep up, by its own word.
fn is_behind(load: &Option<Value>) -> bool {
    let keeps_up = load.as_ref().and_then(|load| load.get("keeps_up"));
    keeps_up == Some(&Value::Bool(false))
}

fn settings(raw: &Raw) -> Vec<(&'static str, String)> {
    let limit = of_loop(&raw.latency_limit, "limit");
    let rate = of_loop(&raw.open_loop, "rate").filter(|_| limit.is_none());
    let writer_rate = of_loop(&raw.writer_loop, "rate");
    let fields = [
        ("key_size", &raw.key_size),
        ("value_size", &raw.value_size),
        ("keys", &raw.keys),
        ("durability", &raw.durability),
        ("memory_bytes", &raw.memory_bytes),
        ("batch", &raw.batch),
        ("num", &raw.num),
        ("distribution", &raw.distribution),
        ("rate", &rate),
        ("latency_limit", &limit),
        ("writer_rate", &writer_rate),
    ];
    let told = fields.into_iter().filter_map(|(name, value)| {
        let text = match value.as_ref()? {
            Value::Null => return None,
            Value::String(text) => clean(text),
            other => clean(&other.to_string()),
        };
        Some((name, text))
    });
    told.collect()
}

fn named(name: Option<&str>, field: &str) -> Result<String, String> {
    match name.map(clean) {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err(format!("the field {field} is missing")),
    }
}

/// A name that cannot upset a terminal.
pub(crate) fn clean(name: &str) -> String {
    let line = without_controls(name).replace('\n', " ");
    line.chars().take(NAME_CHARS_MAX).collect()
}

/// Lines may break, nothing else.
fn without_controls(text: &str) -> String {
    let replace = |char: char| match char {
        '\n' => char,
        char if char.is_control() => char::REPLACEMENT_CHARACTER,
        char => char,
    };
    text.chars().map(replace).collect()
}
