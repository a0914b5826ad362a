//! The command `heliox-torture`: kills, power failures, linearizability and soaks, as often and as
//! long as one likes.
//!
//! The last line of stdout is JSON. Exit codes: 0 all promises held, 1 one was broken, 2 the run
//! could not be done.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use heliox_torture::kill::{self, KillPlan, LoadPlan, LoopDevice, Mode};
use heliox_torture::linear::{self, LinearPlan};
use heliox_torture::power::{self, PowerPlan};
use heliox_torture::soak::{self, SoakPlan};
use heliox_torture::{Failure, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// Gives memory back that is no longer used; glibc's keeps some 20 MiB for each of its arenas.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes of a loop device: those of the smallest store, and a little.
const DEVICE_BYTES: u64 = 68 << 20;

/// Tortures the store: real kills, power failures, and histories of concurrent operations.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kills the program under load again and again (kill -9), and verifies what it acknowledged.
    Kill(KillArgs),
    /// Records a load and opens every image that a power failure could leave.
    Power(PowerArgs),
    /// Checks histories of concurrent operations for linearizability.
    Linear(LinearArgs),
    /// Keeps a store under mixed load for long, and watches memory, file descriptors and growth.
    Soak(SoakArgs),
    /// Restores and verifies the newest backup of a run; started by `soak`.
    #[command(hide = true)]
    SoakRestore(SoakRestoreArgs),
    /// One life of a store under load; started by `kill`.
    #[command(hide = true)]
    Load(LoadArgs),
}

#[derive(clap::Args)]
struct KillArgs {
    /// Lives of the store.
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// Most that a life works.
    #[arg(long, default_value_t = 1.0)]
    seconds_per_round: f64,
    /// sync, bounded or none.
    #[arg(long, default_value = "sync", value_parser = mode)]
    durability: Mode,
    /// Threads of the load, 1 to 99.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=99))]
    threads: u16,
    /// Where the store is made, and its record is kept; there must be no store yet.
    #[arg(long)]
    dir: PathBuf,
    /// A block device to make the store on: ITS CONTENTS ARE OVERWRITTEN. `loop` makes one of a
    /// file in --dir, as root; where there are none, the run is skipped and says so.
    #[arg(long)]
    device: Option<PathBuf>,
    /// Decides what the threads do.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What a busy machine may add to the time that `bounded` states, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    slack_ms: u64,
    /// Plants this defect into the child: only in a build with the feature `canary`.
    #[arg(long)]
    canary: Option<String>,
}

#[derive(clap::Args)]
struct PowerArgs {
    /// Images to open and verify.
    #[arg(long, default_value_t = 2000)]
    images: u64,
    /// Threads of the load, 1 to 99.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=99))]
    threads: u16,
    /// Decides what the threads do and which moments are tried.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plants this defect: only in a build with the feature `canary`.
    #[arg(long)]
    canary: Option<String>,
}

#[derive(clap::Args)]
struct LinearArgs {
    /// Threads of a history, 1 to 32.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    threads: u16,
    /// Operations in all.
    #[arg(long, default_value_t = 200_000)]
    ops: u64,
    /// Decides what the threads do.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plants this defect: only in a build with the feature `canary`.
    #[arg(long)]
    canary: Option<String>,
}

#[derive(clap::Args)]
struct SoakArgs {
    /// Where store, backups and time series are kept; there must be no store yet. Takes about four
    /// times the capacity.
    #[arg(long)]
    dir: PathBuf,
    /// Seconds of load, once the store is filled.
    #[arg(long, default_value_t = 3600.0)]
    duration: f64,
    /// Memory budget of the store, as 168M.
    #[arg(long, default_value = "168M", value_parser = bytes)]
    memory: u64,
    /// Capacity of the store.
    #[arg(long, default_value = "1536M", value_parser = bytes)]
    capacity: u64,
    /// How full the load keeps it, in percent of its capacity.
    #[arg(long, default_value_t = 72, value_parser = clap::value_parser!(u64).range(1..=85))]
    full: u64,
    /// Threads of the load, 1 to 99.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=99))]
    threads: u16,
    /// Decides what the threads do.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest time without an acknowledged write, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    gap_ms: u64,
    /// By how much the median of a figure may grow from the second sixth of the run to the last.
    #[arg(long, default_value_t = 5)]
    growth_percent: u64,
    /// Plants a defect, to see that it is found: leak-fd, leak-memory or wrong-model.
    #[arg(long)]
    plant: Option<String>,
}

#[derive(clap::Args)]
struct SoakRestoreArgs {
    #[arg(long)]
    dir: PathBuf,
}

#[derive(clap::Args)]
struct LoadArgs {
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    device: Option<PathBuf>,
    #[arg(long, value_parser = mode)]
    durability: Mode,
    #[arg(long)]
    threads: u16,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    life: u32,
    #[arg(long)]
    canary: Option<String>,
}

fn mode(name: &str) -> std::result::Result<Mode, String> {
    Mode::of_name(name).ok_or_else(|| "sync, bounded or none".to_owned())
}

/// Bytes as people write them: 512K, 168M, 2G.
fn bytes(text: &str) -> std::result::Result<u64, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'K')) => (text.get(..at), 10),
        Some((at, 'M')) => (text.get(..at), 20),
        Some((at, 'G')) => (text.get(..at), 30),
        _ => (Some(text), 0),
    };
    let number = digits.and_then(|digits| digits.parse::<u64>().ok());
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "a number of bytes, as 168M".to_owned())
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Kill(args) => kill_rounds(&args),
        Command::Power(args) => power_images(&args),
        Command::Linear(args) => linear_histories(&args),
        Command::Soak(args) => soak_store(&args),
        Command::SoakRestore(args) => soak::restore_and_verify(&args.dir).map(|()| true),
        Command::Load(args) => load(args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure @ Failure::Violation(_)) => {
            eprintln!("{failure}");
            ExitCode::from(1)
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(2)
        }
    }
}

fn kill_rounds(args: &KillArgs) -> Result<bool> {
    std::fs::create_dir_all(&args.dir)
        .map_err(|error| Failure::System(args.dir.display().to_string(), error))?;
    let is_loop = args
        .device
        .as_deref()
        .is_some_and(|device| device.as_os_str() == "loop");
    let made = match is_loop {
        false => None,
        true => match LoopDevice::make(&args.dir.join("device"), DEVICE_BYTES) {
            Ok(device) => Some(device),
            Err(failure) => {
                println!("{}", serde_json::json!({ "skipped": failure.to_string() }));
                return Ok(true);
            }
        },
    };
    let plan = KillPlan {
        program: this_program()?,
        dir: args.dir.join("store"),
        device: made
            .as_ref()
            .map(|device| device.path().to_owned())
            .or(args.device.clone()),
        mode: args.durability,
        rounds: args.rounds,
        seconds_per_round: args.seconds_per_round,
        threads: args.threads,
        seed: args.seed,
        slack_ms: args.slack_ms,
        canary: args.canary.clone(),
    };
    let bar = progress_bar(args.rounds);
    let report = kill::run(&plan, &mut |_| bar.inc(1))?;
    bar.finish();
    conclude(&report.violations, &report.json(args.durability))
}

fn power_images(args: &PowerArgs) -> Result<bool> {
    plant(args.canary.as_deref())?;
    let plan = PowerPlan {
        seed: args.seed,
        images: args.images,
        threads: args.threads,
    };
    if !power::kernel_has_log_writes() {
        eprintln!("this kernel has no device-mapper log-writes: the store's own recorder is all");
    }
    let bar = progress_bar(args.images);
    let report = power::run(&plan, &mut |images| bar.set_position(images))?;
    bar.finish();
    conclude(&report.violations, &report.json())
}

fn linear_histories(args: &LinearArgs) -> Result<bool> {
    plant(args.canary.as_deref())?;
    let plan = LinearPlan {
        threads: usize::from(args.threads),
        operations: args.ops,
        seed: args.seed,
    };
    let bar = progress_bar(args.ops);
    let report = linear::run(&plan, &mut |operations| bar.set_position(operations))?;
    bar.finish();
    conclude(&report.violations, &report.json())
}

fn soak_store(args: &SoakArgs) -> Result<bool> {
    let plan = SoakPlan {
        program: this_program()?,
        dir: args.dir.clone(),
        duration: Duration::from_secs_f64(args.duration.max(1.0)),
        memory_bytes: args.memory,
        capacity_bytes: args.capacity,
        full_percent: args.full,
        threads: args.threads,
        seed: args.seed,
        gap: Duration::from_millis(args.gap_ms),
        growth_percent: args.growth_percent,
        plant: args.plant.clone(),
    };
    let bar = progress_bar(1000);
    let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {percent} % {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message("filling the store");
    let report = soak::run(&plan, &mut |share, sample| {
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(format!(
            "{:.1} M operations, memory {} of {} MiB, {} files, gap {} ms",
            sample.operations as f64 / 1e6,
            sample.rss_bytes >> 20,
            plan.limits().rss_bytes >> 20,
            sample.fds,
            sample.longest_gap_ms
        ));
    })?;
    bar.finish();
    print!("{}", report.table());
    conclude(&report.violations, &report.json())
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|error| Failure::System("the path of this program".to_owned(), error))
}

fn conclude(violations: &[String], json: &serde_json::Value) -> Result<bool> {
    violations
        .iter()
        .for_each(|words| eprintln!("VIOLATION: {words}"));
    println!("{json}");
    Ok(violations.is_empty())
}

fn plant(canary: Option<&str>) -> Result<()> {
    canary.map_or(Ok(()), |name| {
        heliox_torture::canary::plant(name).map_err(Failure::Other)
    })
}

fn load(args: LoadArgs) -> Result<bool> {
    plant(args.canary.as_deref())?;
    let plan = LoadPlan {
        dir: args.dir,
        device: args.device,
        mode: args.durability,
        threads: args.threads,
        seed: args.seed,
        life: args.life,
    };
    kill::load(&plan).map(|()| true)
}

fn progress_bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style =
        ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
