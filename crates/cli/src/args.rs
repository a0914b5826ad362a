//! The command line. Plain data; its doc comments are the help that users read.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use heliox::KeySource;
use heliox_bench::{Distribution, DurabilityMode, KeyFamily, LatencyLimit, Workload};

use heliox_bench::size::{parse_count, parse_duration, parse_period, parse_size};

const EXAMPLES: &str = "\
Examples:
  heliox create ./data                      make a store in the directory ./data
  heliox put ./data fruit apple             write a value
  heliox get ./data fruit                   read it back
  heliox scan ./data --prefix fr --limit 10 list keys and values in key order
  heliox import ./data --format csv --key id people.csv
  heliox import ./data --from rocksdb ./db  a store of RocksDB or LevelDB (and heliox export back)
  heliox stat ./data                        what the store holds and costs
  heliox check ./data                       verify every byte
  heliox scrub ./data                       verify what is in use, and mend what can be mended
  heliox backup ./data ./backups --keep 7   add a backup of it to a set, keep the last seven
  heliox verify ./backups                   prove the backups of the set
  heliox restore ./backups ./data2          make a store out of the newest one
  heliox destroy ./data2 --yes              delete that store
  heliox create ./secret --key-file ./key   make an encrypted store; every command then takes the key
  heliox rotate-key ./secret --key-file ./key --new-key-file ./key2
  heliox bench --dir ./bench --workload fillrandom,readrandom --num 1M --json now.json
  heliox report now.json --html now.html    tables, and a page of plots
  heliox herocks db_bench --db=./bench      a program made for RocksDB, on Heliox
  heliox report before.json now.json        what changed, and whether it exceeds the spread

A key or a value that begins with a dash stands behind `--`: heliox put ./data -- -k -v
Sizes take suffixes: K, M, G, T (or KiB, MiB, ...) are powers of 1024; KB, MB, ... of 1000.
Exit codes: 0 done, 1 not there (get, delete) or damage found (check, scrub,
verify), 2 any error.";

/// An ordered key-value store for flash.
#[derive(Debug, Parser)]
#[command(name = "heliox", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// What every command takes.
#[derive(Debug, ClapArgs)]
pub(crate) struct Shared {
    /// The keyspace [default: `default`; for bench: `bench`]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
    /// Memory that the store may use [default: a quarter of what there is]
    #[arg(long, global = true, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// The key of an encrypted store: 32 bytes, or 64 hexadecimal digits; create and bench make one
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) key_file: Option<PathBuf>,
    /// A command for `sh -c` that prints that key
    #[arg(long, global = true, value_name = "CMD", conflicts_with = "key_file")]
    pub(crate) key_command: Option<String>,
    /// Keys, values and bounds on the command line are written as scan prints them (\xNN)
    #[arg(long, global = true)]
    pub(crate) escaped: bool,
}

impl Shared {
    /// The keyspace asked for, or the one that commands use when none is.
    pub(crate) fn keyspace(&self) -> &str {
        self.keyspace.as_deref().unwrap_or("default")
    }

    /// The first that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--keyspace", self.keyspace.is_some()),
            ("--memory", self.memory.is_some()),
            ("--key-file", self.key_file.is_some()),
            ("--key-command", self.key_command.is_some()),
            ("--escaped", self.escaped),
        ];
        given.iter().find(|(_, is)| *is).map(|(name, _)| *name)
    }

    /// Where the key of an encrypted store comes from.
    pub(crate) fn encryption(&self) -> Option<KeySource> {
        let file = self.key_file.as_ref().map(KeySource::file);
        file.or_else(|| self.key_command.as_ref().map(KeySource::command))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new store (an existing one is refused)
    Create(CreateArgs),
    /// Write a value; a missing keyspace is made
    Put(PutArgs),
    /// Print a value and a newline; exit 1 if there is none
    Get(KeyArgs),
    /// Delete a key; exit 1 if it was not there
    Delete(DeleteArgs),
    /// Print entries in key order: key TAB value, unprintable bytes as \xNN
    Scan(ScanArgs),
    /// Print what the store holds and what it costs
    Stat(StatArgs),
    /// Verify a whole store that nobody uses; exit 1 if damage was found
    Check(CheckArgs),
    /// Verify what a store that nobody uses has in use, and mend it; exit 1 if damage was found
    ///
    /// A store that a program has open is scrubbed by that program, all the time, slowly. Check finds
    /// more (it compares index, log and accounts) and writes nothing.
    Scrub(ScrubArgs),
    /// Add a backup of a store that nobody uses to a set; copies only what is new
    ///
    /// A store that a program has open is backed up by that program, while it runs: Store::backup
    /// of the library. A backup that does not end leaves the others whole; the next one goes on
    /// with what it copied.
    Backup(BackupArgs),
    /// Make a store out of a backup; verifies all that it copies
    ///
    /// The store has an id of its own. If this does not end, there is no store; run it again.
    Restore(RestoreArgs),
    /// Prove backups: every file, and the store that each makes; exit 1 if damage was found
    Verify(VerifyArgs),
    /// Give an encrypted store that nobody uses another key; --key-file or --key-command is the old one
    ///
    /// The data is not written anew. What is written from now on is encrypted with a new data key.
    /// The old key still opens the backups that were made before.
    RotateKey(RotateKeyArgs),
    /// Delete a store that nobody uses, with all that is in it
    ///
    /// Its files, and the directory if nothing else is in it; devices become such that hold no store.
    /// If this does not end, run it again.
    Destroy(DestroyArgs),
    /// Load rows of a file, or a store of LevelDB or RocksDB; durable when it exits
    ///
    /// Of a file: a missing keyspace is made. Of a store (--from): into new keyspaces, one for each
    /// column family; a missing store is made; what was loaded is read back and compared. The source
    /// is not changed. docs/migration.md.
    Import(ImportArgs),
    /// Make a store of LevelDB or RocksDB out of what a store holds
    ///
    /// Into a new directory; read back and compared before it gets its name. --keyspace takes one
    /// keyspace alone. docs/migration.md.
    Export(ExportArgs),
    /// Measure; makes a missing store, otherwise uses it, in a keyspace of its own
    Bench(BenchArgs),
    /// Show results of bench or of bench-compare: as tables, and as a page of plots for a browser
    ///
    /// With one file, its figures: medians over the repeats, and their spread. With two, how the
    /// second stands to the first: rows match by engine, workload and threads, and a difference counts
    /// as better or worse where it exceeds the spread of both. The page is one file that needs nothing
    /// else: no network, no script.
    Report(ReportArgs),
    /// Run a program that is linked with librocksdb 7.8, unchanged, on Heliox
    ///
    /// Needs HeRocks (`make herocks`), beside this program or where HELIOX_HEROCKS_DIR says. What is
    /// supported and what is not: docs/herocks.md. Without --memory the store has what the program's block
    /// caches and write buffers have together.
    Herocks(DropInArgs),
    /// Run a program that is linked with libleveldb 1.23, unchanged, on Heliox
    ///
    /// Needs `make heleveldb`, beside this program or where HELIOX_HELEVELDB_DIR says. What is supported and
    /// what is not: docs/leveldb.md. Without --memory the store has what the program's block cache and two
    /// write buffers have together.
    Heleveldb(DropInArgs),
}

/// Run a program on Heliox.
#[derive(Debug, ClapArgs)]
pub(crate) struct DropInArgs {
    /// Use LD_PRELOAD instead of the library path
    #[arg(long)]
    pub(crate) preload: bool,
    /// Bytes on media of a store that the program makes [default: what is free less a reserve]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) capacity: Option<u64>,
    /// Milliseconds of writes that a crash may cost; 0 hands each to the file before it returns
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    pub(crate) durability_ms: Option<u64>,
    /// The program
    pub(crate) program: OsString,
    /// What it is given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Make a new store.
#[derive(Debug, ClapArgs)]
pub(crate) struct CreateArgs {
    /// The directory of the store; made if missing
    pub(crate) dir: PathBuf,
    /// A block device, or a file that exists, for the data; several are striped [default: DIR]
    #[arg(long = "device", value_name = "PATH")]
    pub(crate) devices: Vec<PathBuf>,
    /// What the store may occupy [default: what the devices or the file system offer]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) capacity: Option<u64>,
}

/// A store and a key.
#[derive(Debug, ClapArgs)]
pub(crate) struct KeyArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    /// The key; any bytes
    pub(crate) key: OsString,
}

/// When a write is durable.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub(crate) struct DurabilityArg {
    /// When the write is durable: none, bounded (100 ms and 8 MiB) or sync (before it returns)
    #[arg(long, default_value = "sync", value_name = "MODE")]
    pub(crate) durability: DurabilityMode,
}

/// Write a value.
#[derive(Debug, ClapArgs)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) place: KeyArgs,
    /// The value; any bytes
    pub(crate) value: OsString,
    #[command(flatten)]
    pub(crate) durability: DurabilityArg,
}

/// Delete a key.
#[derive(Debug, ClapArgs)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) place: KeyArgs,
    #[command(flatten)]
    pub(crate) durability: DurabilityArg,
}

/// Print entries in key order.
#[derive(Debug, ClapArgs)]
pub(crate) struct ScanArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    /// The first key, included
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<OsString>,
    /// The last key, not included
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long)]
    pub(crate) prefix: Option<OsString>,
    /// Stop after this many entries
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Print keys alone
    #[arg(long)]
    pub(crate) keys_only: bool,
}

/// Print what the store holds and what it costs.
#[derive(Debug, ClapArgs)]
pub(crate) struct StatArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Verify a whole store.
#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
}

/// Verify what is in use, and mend it.
#[derive(Debug, ClapArgs)]
pub(crate) struct ScrubArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Add a backup to a set, list the set, or delete a backup of it.
#[derive(Debug, ClapArgs)]
pub(crate) struct BackupArgs {
    /// The directory of the store; with --list and --delete, of the set
    pub(crate) dir: PathBuf,
    /// The directory of the set, for backups of this store only; made if missing
    #[arg(value_name = "SET", required_unless_present_any = ["list", "delete"])]
    pub(crate) set: Option<PathBuf>,
    /// Afterwards, keep the newest N backups only, the new one included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep: Option<u64>,
    /// List the backups of the set in DIR: number, time, segments, bytes
    #[arg(long, conflicts_with_all = ["set", "keep"])]
    pub(crate) list: bool,
    /// Delete backup N of the set in DIR; the others stay whole
    #[arg(long, value_name = "N", conflicts_with_all = ["set", "keep", "list"])]
    pub(crate) delete: Option<u64>,
}

/// Make a store out of a backup.
#[derive(Debug, ClapArgs)]
pub(crate) struct RestoreArgs {
    /// The directory of the set
    pub(crate) set: PathBuf,
    /// The directory of the new store; made if missing
    pub(crate) dir: PathBuf,
    /// The number of the backup, as --list shows it [default: the newest]
    #[arg(long, value_name = "N")]
    pub(crate) backup: Option<u64>,
    /// A block device, or a file that exists, for the data; several are striped [default: DIR]
    #[arg(long = "device", value_name = "PATH")]
    pub(crate) devices: Vec<PathBuf>,
    /// What the store may occupy [default: as the original, or what the devices offer]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) capacity: Option<u64>,
}

/// Prove backups.
#[derive(Debug, ClapArgs)]
pub(crate) struct VerifyArgs {
    /// The directory of the set
    pub(crate) set: PathBuf,
    /// The number of one backup, as --list shows it [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) backup: Option<u64>,
}

/// Give a store another key.
#[derive(Debug, ClapArgs)]
pub(crate) struct RotateKeyArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) new: NewKeyArgs,
}

/// Where the new key comes from.
#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub(crate) struct NewKeyArgs {
    /// The new key: a file as for --key-file
    #[arg(long, value_name = "PATH")]
    pub(crate) new_key_file: Option<PathBuf>,
    /// A command for `sh -c` that prints the new key
    #[arg(long, value_name = "CMD")]
    pub(crate) new_key_command: Option<String>,
}

/// Delete a store.
#[derive(Debug, ClapArgs)]
pub(crate) struct DestroyArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    /// This is meant
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What the rows of a file look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// One JSON object a line.
    Ndjson,
    /// Comma-separated, quoted where needed, names in the first line.
    Csv,
    /// Separated by tabs, never quoted, names in the first line.
    Tsv,
}

/// Whose store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// LevelDB.
    Leveldb,
    /// RocksDB.
    Rocksdb,
}

impl Engine {
    /// As it is written on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Engine::Leveldb => "leveldb",
            Engine::Rocksdb => "rocksdb",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Leveldb => "LevelDB",
            Engine::Rocksdb => "RocksDB",
        })
    }
}

/// Load rows of a file, or a store of another engine.
#[derive(Debug, ClapArgs)]
pub(crate) struct ImportArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    /// What the rows look like
    #[arg(long, required_unless_present = "from")]
    pub(crate) format: Option<ImportFormat>,
    /// The field whose text is the key; the value is the row as a JSON object
    #[arg(long, value_name = "FIELD", required_unless_present = "from")]
    pub(crate) key: Option<String>,
    /// A whole store of this engine, instead of a file
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["format", "key", "strict"])]
    pub(crate) from: Option<Engine>,
    /// The file, - for the standard input; with --from, the directory of the store
    #[arg(default_value = "-", value_name = "PATH")]
    pub(crate) file: PathBuf,
    /// Stop at the first malformed line instead of skipping it
    #[arg(long)]
    pub(crate) strict: bool,
    /// Drop what an import (--from) that did not end left, and begin anew
    #[arg(long, requires = "from")]
    pub(crate) again: bool,
}

/// Make a store of another engine.
#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    /// Whose store is made
    #[arg(long, value_name = "ENGINE")]
    pub(crate) to: Engine,
    /// The directory of the new store; made, and may not be there
    pub(crate) path: PathBuf,
}

/// Measure.
#[derive(Debug, ClapArgs)]
pub(crate) struct BenchArgs {
    /// The directory of the store; made if missing
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// What to run, in order: fillseq, fillrandom (each key once: filluniquerandom is the same),
    /// fillbatch, overwrite, mergerandom, readrandom, multireadrandom, readmissing, readwhilewriting, readrandomwriterandom, seekrandom, scan,
    /// readseq, deleterandom, reopen, ycsb-a to ycsb-f
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', required = true)]
    pub(crate) workload: Vec<Workload>,
    /// How many keys there are, and operations of a workload, over all threads (20M: 20 million)
    #[arg(long, default_value = "1M", value_name = "N", value_parser = parse_count)]
    pub(crate) num: u64,
    /// The size of every key [default: 16; ycsb: 24; url: 64]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) key_size: Option<u64>,
    /// The size of every value
    #[arg(long, default_value = "100", value_name = "BYTES", value_parser = parse_size)]
    pub(crate) value_size: u64,
    /// What the keys look like: random, sequential, ycsb or url
    #[arg(long, default_value = "random", value_name = "FAMILY")]
    pub(crate) keys: KeyFamily,
    /// How workloads draw keys: uniform, zipfian, latest, hotspot or gaussian [default: uniform, and
    /// in those of YCSB its own]
    #[arg(long, value_name = "NAME")]
    pub(crate) distribution: Option<Distribution>,
    /// Threads of a workload, which is run once for each of these counts, on the same store; a fill
    /// once, with the most. readwhilewriting has its one writer on top
    #[arg(long, default_value = "1", value_name = "T,...", value_delimiter = ',')]
    pub(crate) threads: Vec<usize>,
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
    /// When each write is durable: none, bounded (100 ms and 8 MiB) or sync
    #[arg(long, default_value = "bounded", value_name = "MODE")]
    pub(crate) durability: DurabilityMode,
    /// What a store that is made now may occupy
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) capacity: Option<u64>,
    /// In how many seconds (or 90s, 10m) the scrub passes the whole store; 0 turns it off
    /// [default: a week]
    #[arg(long, value_name = "S", value_parser = parse_period)]
    pub(crate) scrub_period: Option<Duration>,
    /// Reads among the operations of readrandomwriterandom, in percent
    #[arg(long, default_value = "90", value_name = "P")]
    pub(crate) read_share: f64,
    /// Run a control loop in this directory beside each workload: the longest gap that clock and
    /// disk alone show, to hold the longest stall against
    #[arg(long, value_name = "DIR")]
    pub(crate) control: Option<PathBuf>,
    /// Entries that one operation of scan reads
    #[arg(long, default_value = "100", value_name = "N")]
    pub(crate) scan_length: usize,
    /// Keys of one call in readrandom and readmissing, and if above 1 in multireadrandom and
    /// fillbatch (else 64)
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) batch: usize,
    /// Draws keys, values and orders
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) seed: u64,
    /// Write the results to this file (overwritten), as a list of JSON objects
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  heliox bench --dir ./data --workload fillrandom,readrandom --json now.json
  heliox report now.json                     tables of what it measured
  heliox report now.json --html now.html     and a page with plots, for any browser
  heliox report before.json now.json         how now stands to before
  heliox report before.json now.json --html both.html
                                             and both on one page

It opens no store: --keyspace, --memory, --key-file, --key-command and --escaped, which
other commands take, are refused.";

/// Show results of benchmarks.
#[derive(Debug, ClapArgs)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArgs {
    /// What `heliox bench --json` or `bench-compare run --json` wrote, as now.json
    #[arg(value_name = "RESULTS.json")]
    pub(crate) results: PathBuf,
    /// A later run, to be held against it: RESULTS.json is A, this is B
    #[arg(value_name = "OTHER.json")]
    pub(crate) other: Option<PathBuf>,
    /// Write tables and plots to this file too (overwritten), as --html now.html
    #[arg(long, value_name = "OUT.html")]
    pub(crate) html: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
