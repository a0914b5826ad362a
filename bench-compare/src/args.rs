//! The command line. Plain data, no threads.

use std::path::PathBuf;
use std::time::Duration;

use crate::raw;
use clap::{Args as ClapArgs, Parser, Subcommand};
use heliox_bench::size::{parse_count, parse_duration, parse_size};
use heliox_bench::{Config, Distribution, DurabilityMode, KeyFamily, LatencyLimit, Workload};

/// Files of the raw device are whole blocks of all sizes.
const RAW_GRAIN_BYTES: u64 = 128 << 10;

const EXAMPLES: &str = "\
Examples:
  bench-compare engines
  bench-compare run --engines heliox,rocksdb --workloads fillrandom,readrandom --num 1M --dir ./bench-data
  bench-compare run --workloads fillrandom,ycsb-a,ycsb-b,ycsb-c --value-size 1000 --duration 30 --dir ./bench-data
  bench-compare suite --list
  bench-compare cost prices.toml results.json
  bench-compare suite herocks --engines heliox,rocksdb --scale 0.01 --dir ./bench-data

Exit codes: 0 all was measured, 1 an engine failed, 2 any error, 130 interrupted.";

/// Measures Heliox beside other key-value stores: same data, same machine, one run.
#[derive(Debug, Parser)]
#[command(name = "bench-compare", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the engines that this program was built with
    Engines,
    /// Measure; each engine in a process of its own, on an empty store, once a repeat
    Run(Box<RunArgs>),
    /// Run what a paper on another store ran, or a list of our own, at a scale, and show the figures
    Suite(Box<SuiteArgs>),
    /// Show the cheapest kind of node for each pair of throughput and size of data
    Cost(CostArgs),
}

/// Show the cheapest kind of node for each pair of throughput and size of data.
#[derive(Debug, ClapArgs)]
pub(crate) struct CostArgs {
    /// What nodes cost, hold and do: a TOML file, of which docs/benchmarks.md has an example
    pub(crate) prices: PathBuf,
    /// Results of run, suite or heliox bench, in which the measured rates are
    pub(crate) results: Vec<PathBuf>,
}

/// Run what a paper on another store ran, or a list of our own, at a scale, and show the figures.
#[derive(Debug, ClapArgs)]
pub(crate) struct SuiteArgs {
    /// Which: helium (latencies by 1 to 24 threads), herocks (db_bench with 16 to 64 threads), hlkvds
    /// (values of 4 KiB, 1 to 512 threads), scylla (highest rate with p95 below 1 ms and p99 below 2 ms, by
    /// the share of the data in memory; latencies over the raw device's), hse (YCSB), growth (rates, memory, space and
    /// opening by the number of objects), scans (fresh and aged, cold and warm), speed (what Heliox is held to)
    #[arg(required_unless_present = "list")]
    pub(crate) name: Option<String>,
    /// Show what each suite runs, as command lines of run, and what its paper ran
    #[arg(long)]
    pub(crate) list: bool,
    /// An existing directory; what is made in it is removed again
    #[arg(long, required_unless_present = "list")]
    pub(crate) dir: Option<PathBuf>,
    /// What to measure [default: all that were built in]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) engines: Vec<String>,
    /// Keys and memory, as a share of the paper's: above 0, 1 at most. Memory is 64M at least
    /// [default: what takes minutes; 0.001, scylla 0.002, growth, scans and speed 0.1]
    #[arg(long, value_name = "S", value_parser = parse_scale)]
    pub(crate) scale: Option<f64>,
    /// Seconds (or 90s, 10m) after which each workload ends that is no fill
    #[arg(long, default_value = "5", value_name = "S", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// When each write is durable: none, bounded (within 100 ms) or sync (before it returns)
    #[arg(long, default_value = "bounded", value_name = "MODE")]
    pub(crate) durability: DurabilityMode,
    /// How often each part is measured; the tables show medians
    #[arg(long, default_value = "1", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// First measure the raw device, as run does, and show the paper's devices beside it
    #[arg(long)]
    pub(crate) raw_device: bool,
    /// Write the results to this file (overwritten), as a list of JSON objects
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write tables and plots to this file (overwritten), a page for a browser, as heliox report does
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok();
    scale
        .filter(|scale| *scale > 0.0 && *scale <= 1.0)
        .ok_or_else(|| format!("{text:?} is no scale: expected a number above 0, 1 at most"))
}

/// Measure. An option that is given again counts as given last.
#[derive(Debug, ClapArgs)]
#[command(args_override_self = true)]
pub(crate) struct RunArgs {
    /// What to measure [default: all that were built in]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) engines: Vec<String>,
    /// What to run, in order: fillseq, fillrandom (each key once: filluniquerandom is the same; what db_bench
    /// calls fillrandom is overwrite on an empty store), fillbatch, overwrite, mergerandom, readrandom, multireadrandom, readmissing, readwhilewriting, readrandomwriterandom, seekrandom, scan,
    /// readseq, deleterandom, reopen, reopen-killed, ycsb-a to ycsb-f. Begin with a fill
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', required = true)]
    pub(crate) workloads: Vec<Workload>,
    /// An existing directory; what is made in it is removed again
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// How many keys there are, and operations of a workload, over all threads (20M: 20 million)
    #[arg(long, default_value = "1M", value_name = "N", value_parser = parse_count)]
    pub(crate) num: u64,
    /// The size of every key [default: 16; ycsb: 24; url: 64]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) key_size: Option<u64>,
    /// The size of every value
    #[arg(long, default_value = "100", value_name = "BYTES", value_parser = parse_size)]
    pub(crate) value_size: u64,
    /// What the keys look like: random, sequential, ycsb or url [default: ycsb where one of its
    /// workloads is run, else random]
    #[arg(long, value_name = "FAMILY")]
    pub(crate) keys: Option<KeyFamily>,
    /// How workloads draw keys: uniform, zipfian, latest, hotspot or gaussian [default: uniform, and
    /// in those of YCSB its own]
    #[arg(long, value_name = "NAME")]
    pub(crate) distribution: Option<Distribution>,
    /// Threads of a workload, which is run once for each of these counts, on the same store; a fill
    /// once, with the most. readwhilewriting has its one writer on top
    #[arg(long, default_value = "1", value_name = "T,...", value_delimiter = ',')]
    pub(crate) threads: Vec<usize>,
    /// Memory of each engine
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = parse_size)]
    pub(crate) memory: u64,
    /// How full the data makes a store whose size is fixed, as Heliox's, in percent [default: twice the
    /// data and 512M]
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..=95))]
    pub(crate) full: Option<u64>,
    /// When each write is durable: none, bounded (within 100 ms) or sync (before it returns)
    #[arg(long, default_value = "bounded", value_name = "MODE")]
    pub(crate) durability: DurabilityMode,
    /// Seconds (or 90s, 10m) after which each workload ends that is no fill
    #[arg(long, value_name = "S", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Offer so many operations a second (50K: 50,000), over all threads, to every workload that is
    /// no fill; latencies count from when an operation was due, also while it waits for a thread
    #[arg(long, value_name = "OPS", value_parser = parse_count)]
    pub(crate) rate: Option<u64>,
    /// The same for the writer of readwhilewriting [default: it writes as fast as it can]
    #[arg(long, value_name = "OPS", value_parser = parse_count)]
    pub(crate) writer_rate: Option<u64>,
    /// Look for the highest rate at which these latencies hold, as in p95=1ms,p99=2ms (p50 to
    /// p99.999, max), for every workload that is no fill; each trial lasts --duration [default: 5 s]
    #[arg(long, value_name = "P=T,...", conflicts_with = "rate")]
    pub(crate) latency_limit: Option<LatencyLimit>,
    /// Before each workload that is no fill, run it unmeasured until what it reads from the device for
    /// each operation no longer falls, so long at most
    #[arg(long, value_name = "S", value_parser = parse_duration)]
    pub(crate) warm_up: Option<Duration>,
    /// Entries that one operation of scan reads
    #[arg(long, default_value = "100", value_name = "N")]
    pub(crate) scan_length: usize,
    /// Keys of one call of multireadrandom and fillbatch
    #[arg(long, default_value = "64", value_name = "N")]
    pub(crate) batch: usize,
    /// Reads among the operations of readrandomwriterandom, in percent
    #[arg(long, default_value = "90", value_name = "P")]
    pub(crate) read_share: f64,
    /// Draws keys, values and orders
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) seed: u64,
    /// How often all of it is measured; the tables show medians
    #[arg(long, default_value = "1", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// First measure the raw device in a file beside the stores, by fio if it is installed, else by an
    /// io_uring of this program: random 4 KiB and sequential 128 KiB, reads and writes, with 1 to 32
    /// requests under way
    #[arg(long)]
    pub(crate) raw_device: bool,
    /// Write that file over twice before
    #[arg(long, requires = "raw_device")]
    pub(crate) precondition: bool,
    /// Offer the n-th workload that is no fill what the device had with 1, 2, 4, 8, 16 and 32 random
    /// reads under way; where an engine does not keep up with it, the nearest lower rate that it keeps
    /// up with
    #[arg(long, requires = "raw_device", conflicts_with_all = ["rate", "latency_limit"])]
    pub(crate) rate_of_device: bool,
    /// The size of that file [default: that of the data, 1G at least]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "raw_device")]
    pub(crate) raw_size: Option<u64>,
    /// Seconds for each of the 25 figures of the raw device
    #[arg(long, value_name = "S", value_parser = parse_duration, default_value = "2")]
    pub(crate) raw_time: Duration,
    /// Write the results to this file (overwritten), as a list of JSON objects
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write tables and plots to this file (overwritten), a page for a browser, as heliox report does
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Measures this engine in this process: how the program calls itself
    #[arg(long, hide = true, value_name = "ENGINE", requires = "child_dir")]
    pub(crate) child: Option<String>,
    /// The empty directory of that engine
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) child_dir: Option<PathBuf>,
    /// The step at which it goes on, on a store whose process was killed in the one before
    #[arg(long, hide = true, value_name = "PLACE", requires = "child_count")]
    pub(crate) child_from: Option<usize>,
    /// How many keys that store has
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) child_count: Option<u64>,
    /// The rates of the workloads that are no fill
    #[arg(long, hide = true, value_name = "OPS,...", value_delimiter = ',')]
    pub(crate) child_rates: Vec<u64>,
    /// The control group to enter
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) child_group: Option<PathBuf>,
}

impl RunArgs {
    /// What to run, for any engine.
    pub(crate) fn config(&self) -> Config {
        let narrow = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let ycsb = self.workloads.iter().any(|workload| workload.is_ycsb());
        let keys = self.keys.unwrap_or(if ycsb {
            KeyFamily::Ycsb
        } else {
            KeyFamily::Random
        });
        Config {
            workloads: self.workloads.clone(),
            num: self.num,
            key_bytes: self.key_size.map_or(keys.default_size_bytes(), narrow),
            value_bytes: narrow(self.value_size),
            keys,
            distribution: self.distribution,
            threads: self.threads.clone(),
            duration: self.duration,
            rate: self.rate,
            writer_rate: self.writer_rate,
            latency_limit: self.latency_limit.clone(),
            durability: self.durability,
            read_share_percent: self.read_share,
            scan_entries: self.scan_length,
            batch_keys: 1,
            multi_keys: self.batch,
            seed: self.seed,
            control_dir: None,
        }
    }

    /// The file in which the raw device is measured, if it is.
    pub(crate) fn raw_setup(&self) -> Option<raw::Setup> {
        let bytes = self.raw_size.unwrap_or(self.data_bytes().max(1 << 30));
        self.raw_device.then_some(raw::Setup {
            file_bytes: bytes.saturating_sub(bytes % RAW_GRAIN_BYTES),
            precondition: self.precondition,
            time: self.raw_time,
        })
    }

    /// Bytes of keys and values that a store is going to hold at most.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.bytes_of(self.num.saturating_add(self.keys_added()))
    }

    /// The same of so many keys.
    pub(crate) fn bytes_of(&self, keys: u64) -> u64 {
        let config = self.config();
        keys.saturating_mul((config.key_bytes + config.value_bytes) as u64)
    }

    /// The most keys that one workload adds. One in twenty operations inserts; where a time ends them,
    /// nobody knows how many there are, so that some may find no room.
    pub(crate) fn inserts_max(&self) -> u64 {
        let timed = self.duration.is_some() || self.latency_limit.is_some();
        (self.num / if timed { 2 } else { 10 }).max(self.num.min(1000))
    }

    /// The most that all of them add, in all numbers of threads.
    pub(crate) fn keys_added(&self) -> u64 {
        let steps = self.config().steps();
        let inserting = steps.iter().filter(|step| step.workload.inserts());
        (inserting.count() as u64).saturating_mul(self.inserts_max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_scale_is_a_share_of_the_paper() {
        assert_eq!(parse_scale("0.25"), Ok(0.25));
        assert_eq!(parse_scale("1"), Ok(1.0));
        for wrong in ["0", "-1", "1.5", "NaN", "all"] {
            let error = parse_scale(wrong).unwrap_err();
            assert!(
                error.contains(wrong) && error.contains("above 0"),
                "{error}"
            );
        }
    }

    #[test]
    fn workloads_of_ycsb_have_its_keys() {
        let parse = |workloads: &str| {
            let line = [
                "bench-compare",
                "run",
                "--dir",
                ".",
                "--workloads",
                workloads,
            ];
            match Args::try_parse_from(line).unwrap().command {
                Command::Run(run) => run.config(),
                _ => unreachable!(),
            }
        };
        assert_eq!(parse("fillrandom,ycsb-a").keys, KeyFamily::Ycsb);
        assert_eq!(parse("fillrandom,ycsb-a").key_bytes, 24);
        assert_eq!(parse("fillrandom,readrandom").keys, KeyFamily::Random);
    }
}
