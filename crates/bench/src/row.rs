//! The figures of one workload, computed from what the threads, the engine and the kernel counted.
//! Plain data, no threads.

use std::time::Duration;

use crate::config::{Config, DurabilityMode, Step};
use crate::counters::{ByCause, Counters};
use crate::draw::Distribution;
use crate::engine::Engine;
use crate::error::BenchError;
use crate::family::KeyFamily;
use crate::latency::Latency;
use crate::open_loop::OpenLoop;
use crate::search::LimitSearch;
use crate::summary::CallSummary;
use crate::system::ProcessUsage;
use crate::tally::Tally;
use crate::usage::Used;
use crate::warm_up::WarmedUp;
use crate::workload::Workload;

/// What engine and kernel had counted at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    counters: Counters,
    usage: ProcessUsage,
}

impl Reading {
    /// Reads both now.
    pub(crate) fn take<E: Engine + ?Sized>(engine: &E) -> Result<Reading, BenchError> {
        let failed = |source| BenchError::Engine {
            workload: "reading the counters".to_owned(),
            source,
        };
        Ok(Reading {
            counters: engine.counters().map_err(failed)?,
            usage: ProcessUsage::read()?,
        })
    }

    /// Of what was read elsewhere.
    pub(crate) fn of(counters: Counters, usage: ProcessUsage) -> Reading {
        Reading { counters, usage }
    }
}

/// Everything measured around one workload.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The threads asked for.
    pub(crate) front: Tally,
    /// The further writer of `readwhilewriting`.
    pub(crate) background: Tally,
    pub(crate) elapsed: Duration,
    /// The longest gap of the control loop, where one ran.
    pub(crate) control: Option<Duration>,
    /// What the process used, second by second.
    pub(crate) used: Vec<Used>,
    /// How the load went that was offered at a rate, to the threads and to the further writer.
    pub(crate) open_loop: Option<OpenLoop>,
    pub(crate) writer_loop: Option<OpenLoop>,
    pub(crate) settled: Duration,
    pub(crate) before: Reading,
    pub(crate) after: Reading,
}

impl Measured {
    fn longest_stall_ms(&self) -> Option<f64> {
        let Measured {
            front, background, ..
        } = self;
        let wrote = front.writes.calls() + background.writes.calls() > 0;
        // A thread that waits for what is next due does not stall.
        let waited =
            self.writer_loop.is_some() || self.open_loop.is_some() && front.writes.calls() > 0;
        let stall = front.longest_stall.max(background.longest_stall);
        (wrote && !waited).then_some(stall.as_secs_f64() * 1e3)
    }
}

/// How long it took to end the use of a store and to begin it again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reopened {
    /// Closing it; `None`: it was not closed, its process was killed.
    pub close_seconds: Option<f64>,
    /// Opening it, until the first read was answered.
    pub open_seconds: f64,
}

/// The figures of one workload. Bytes and reads of media are those of this workload alone.
#[derive(Clone, Debug)]
pub struct Row {
    /// The engine.
    pub engine: String,
    /// The workload.
    pub workload: Workload,
    /// Threads asked for; `readwhilewriting` has its writer on top.
    pub threads: usize,
    /// Operations of these threads; a batched call counts once for each key.
    pub ops: u64,
    /// From the start to the end of the last operation.
    pub seconds: f64,
    /// Operations a second.
    pub ops_per_s: f64,
    /// All calls of the threads asked for.
    pub calls: CallSummary,
    /// How the load went that was offered at a rate; `None` in a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// The same for the writer of `readwhilewriting`.
    pub writer_loop: Option<OpenLoop>,
    /// How the rate was looked for; `None` if it was not. The row is then of the trial at the rate
    /// that was found, or if none was, of the last one.
    pub search: Option<LimitSearch>,
    /// It was interrupted: all figures are of what was done until then, and not of all that was asked for.
    pub cut_short: bool,
    /// How the workload was run before it was measured, so that caches hold what they are going to;
    /// `None` if it was not.
    pub warm_up: Option<WarmedUp>,
    /// Longest time in which no thread completed a write; `None` if nothing was written, or only
    /// at a rate.
    pub longest_stall_ms: Option<f64>,
    /// Longest time between two rounds of the control loop; `None` if none ran.
    pub control_stall_ms: Option<f64>,
    /// The size of a key, in bytes.
    pub key_size: usize,
    /// The size of a value, in bytes.
    pub value_size: usize,
    /// What the keys look like.
    pub keys: KeyFamily,
    /// How keys were drawn, where that was asked for; a fill draws none.
    pub distribution: Option<Distribution>,
    /// How many keys the run has.
    pub num: u64,
    /// How durable each write was.
    pub durability: DurabilityMode,
    /// The memory budget.
    pub memory_bytes: u64,
    /// What the store may occupy.
    pub capacity_bytes: u64,
    /// Live objects afterwards.
    pub objects: u64,
    /// Bytes of keys and values that the workload wrote.
    pub user_bytes: u64,
    /// Bytes written to media, by cause.
    pub written: ByCause,
    /// Bytes read from media.
    pub media_bytes_read: u64,
    /// Bytes written to media for each user byte; `None` if nothing was written.
    pub write_amplification: Option<f64>,
    /// Reads of media for which an operation waited, for each operation.
    pub media_reads_per_op: f64,
    /// The share of the reading operations that did not wait for media; `None` without reads.
    pub memory_share: Option<f64>,
    /// All memory of the index for each object; `None` without objects.
    pub index_bytes_per_object: Option<f64>,
    /// What the store occupies.
    pub disk_bytes: u64,
    /// Resident memory of the process.
    pub rss_bytes: u64,
    /// The most that it ever was.
    pub peak_rss_bytes: u64,
    /// Bytes that the kernel says this process sent to storage.
    pub kernel_write_bytes: u64,
    /// The same for each user byte, whatever the engine counts; `None` if nothing was written.
    pub kernel_write_amplification: Option<f64>,
    /// Bytes that the kernel says this process fetched from storage.
    pub kernel_read_bytes: u64,
    /// Processor time of all threads, settling included.
    pub cpu_seconds: f64,
    /// The same for each operation, in microseconds; `None` without operations.
    pub cpu_us_per_op: Option<f64>,
    /// Time to make everything durable afterwards; not part of `seconds`.
    pub settle_seconds: f64,
    /// Reading calls alone, the background writer's aside.
    pub reads: CallSummary,
    /// Writing calls alone, the background writer's included.
    pub writes: CallSummary,
    /// Reading operations that found something.
    pub found: u64,
    /// Reading operations.
    pub read_ops: u64,
    /// Inserts for which the store had no room, so that they wrote again what was inserted before: see
    /// [`crate::Bench::inserting_at_most`].
    pub inserts_again: u64,
    /// Entries returned by reads and scans.
    pub entries_read: u64,
    /// Keys of one call.
    pub batch: usize,
    /// Draws keys, values and orders.
    pub seed: u64,
    /// The latencies of all calls of the threads asked for, as (percent, microseconds), see [`Latency::percentiles_us`].
    pub percentiles_us: Vec<(f64, f64)>,
    /// How many of these calls took how long: up to so many microseconds, and longer than the one before.
    pub calls_by_latency: Vec<(f64, u64)>,
    /// Operations completed in each second; the last one is as long as `seconds` leaves.
    pub ops_by_second: Vec<u64>,
    /// What the process used in each of these seconds.
    pub used_by_second: Vec<Used>,
    /// Of a workload that opens the store again, how long that took.
    pub reopened: Option<Reopened>,
}

impl Row {
    /// Computes the figures.
    pub(crate) fn new(
        engine: &str,
        step: Step,
        config: &Config,
        measured: &Measured,
    ) -> Result<Row, BenchError> {
        let (front, background) = (&measured.front, &measured.background);
        let (now, then) = (&measured.after.counters, &measured.before.counters);
        let (usage, earlier) = (&measured.after.usage, &measured.before.usage);
        let all_calls = merged(&front.reads, &front.writes)?;
        let ops = front.read_ops + front.write_ops;
        let user_bytes = front.user_bytes + background.user_bytes;
        let written = now.written.since(&then.written);
        let cpu_seconds = usage.cpu_seconds - earlier.cpu_seconds;
        let kernel_written = usage.write_bytes.saturating_sub(earlier.write_bytes);
        Ok(Row {
            engine: engine.to_owned(),
            workload: step.workload,
            threads: step.threads,
            ops,
            seconds: measured.elapsed.as_secs_f64(),
            ops_per_s: rate(ops, measured.elapsed.as_secs_f64()),
            calls: CallSummary::of(&all_calls),
            open_loop: measured.open_loop,
            writer_loop: measured.writer_loop,
            search: None,
            cut_short: false,
            warm_up: None,
            longest_stall_ms: measured.longest_stall_ms(),
            control_stall_ms: measured.control.map(|gap| gap.as_secs_f64() * 1e3),
            key_size: config.key_bytes,
            value_size: config.value_bytes,
            keys: config.keys,
            distribution: config.distribution.filter(|_| step.workload.draws()),
            num: config.num,
            durability: config.durability,
            memory_bytes: now.memory_bytes,
            capacity_bytes: now.capacity_bytes,
            objects: now.objects,
            user_bytes,
            written,
            media_bytes_read: now.read.since(&then.read).total(),
            write_amplification: per(written.total(), user_bytes),
            media_reads_per_op: per(now.reads_since(then), ops).unwrap_or(0.0),
            memory_share: share_from_memory(now.reads_since(then), front.read_ops),
            index_bytes_per_object: per(now.index_bytes, now.objects),
            disk_bytes: now.disk_bytes,
            rss_bytes: usage.rss_bytes,
            peak_rss_bytes: usage.peak_rss_bytes,
            kernel_write_bytes: kernel_written,
            kernel_write_amplification: per(kernel_written, user_bytes),
            kernel_read_bytes: usage.read_bytes.saturating_sub(earlier.read_bytes),
            cpu_seconds,
            cpu_us_per_op: (ops > 0).then(|| cpu_seconds * 1e6 / ops as f64),
            settle_seconds: measured.settled.as_secs_f64(),
            reads: CallSummary::of(&front.reads),
            writes: CallSummary::of(&merged(&front.writes, &background.writes)?),
            found: front.found,
            read_ops: front.read_ops,
            inserts_again: front.inserts_again,
            entries_read: front.seen.entries,
            batch: config.keys_per_call(step.workload),
            seed: config.seed,
            percentiles_us: all_calls.percentiles_us(),
            calls_by_latency: all_calls.buckets(),
            ops_by_second: front.series.ops_by_second(),
            used_by_second: measured.used.clone(),
            reopened: None,
        })
    }

    /// A remark on a result that is probably not what was meant: keys that should be there and are
    /// not, or the other way round; a load that was too much.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let remarks = [
            self.remark_on_found(),
            self.remark_on_rate(),
            self.remark_on_inserts(),
        ];
        let remarks: Vec<String> = remarks.into_iter().flatten().collect();
        (!remarks.is_empty()).then(|| remarks.join("\n"))
    }

    fn remark_on_rate(&self) -> Option<String> {
        if let Some(search) = self
            .search
            .as_ref()
            .filter(|search| search.found_rate.is_none())
        {
            let lowest = search.trials.last()?;
            return Some(format!(
                "{}: no rate was found at which {} holds; the lowest that was tried is {} operations \
                 a second ({}), where p50 was {:.0} us, p99 {:.0} us and the maximum {:.0} us; below, \
                 a trial has too few operations to tell: give a longer --duration or a higher limit",
                self.workload,
                search.limit,
                lowest.rate,
                lowest.verdict(),
                lowest.calls.p50_us,
                lowest.calls.p99_us,
                lowest.calls.max_us
            ));
        }
        let both = [("", &self.open_loop), (", its writer", &self.writer_loop)];
        let (whose, load) = both.iter().find_map(|(whose, load)| {
            let behind = load.filter(|load| !load.keeps_up);
            behind.map(|load| (whose, load))
        })?;
        Some(format!(
            "{}{whose}: {:.0} operations a second were offered and {:.0} achieved: the engine does \
             not keep up, and latencies grow for as long as it is measured; give a lower rate",
            self.workload, load.offered_ops_per_s, load.achieved_ops_per_s
        ))
    }

    fn remark_on_inserts(&self) -> Option<String> {
        (self.inserts_again > 0).then(|| {
            format!(
                "{}: there was no room for {} of its inserts, which wrote again what was inserted before; \
                 give more --num or less --duration",
                self.workload, self.inserts_again
            )
        })
    }

    /// How many reads should find something in a store of all keys; of what reads everything, how many
    /// entries there should be at least. `None` where nothing was to be read.
    #[must_use]
    pub fn found_expected(&self) -> Option<u64> {
        match self.workload {
            Workload::ReadSeq => Some(self.num.saturating_mul(self.threads as u64)),
            _ if self.read_ops == 0 => None,
            workload if workload.expects_found() => Some(self.read_ops),
            _ => Some(0),
        }
    }

    fn remark_on_found(&self) -> Option<String> {
        let expected = self.found_expected()?;
        // Others may have added keys to a store that is read as a whole.
        let more = self.workload == Workload::ReadSeq && self.found > expected;
        if self.found == expected || more {
            return None;
        }
        Some(format!(
            "{}: found {} of {} keys where {expected} were expected: they were deleted before, or never \
             written; fill the store first, with the same --num, --keys, --key-size and --seed",
            self.workload,
            self.found,
            self.read_ops.max(expected)
        ))
    }
}

fn merged(one: &Latency, other: &Latency) -> Result<Latency, BenchError> {
    let mut both = one.clone();
    both.merge(other)?;
    Ok(both)
}

fn rate(ops: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        ops as f64 / seconds
    } else {
        0.0
    }
}

/// The share of the operations that read which did not wait for media.
fn share_from_memory(waits: u64, read_ops: u64) -> Option<f64> {
    per(waits, read_ops).map(|waited| (1.0 - waited).max(0.0))
}

fn per(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}
