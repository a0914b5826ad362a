//! Suites: what a paper ran, as a list of command lines of `run`, and its figures beside ours.
//!
//! A part of a suite is a line that anybody can give by hand; it is read and run as any other, so
//! that nothing here measures. `papers` has what each paper ran and tells, `own` what follows none,
//! `quantity` where a row has the same, `beside` shows both, `overhead` what is over the raw device.
//!
//! Threads: those of `parent`.

mod beside;
mod overhead;
mod own;
mod papers;
pub(crate) mod quantity;

use std::ffi::OsString;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread;

use clap::Parser;
use heliox_bench::size::show_bytes;
use heliox_bench::thousands;

use crate::args::{Args, Command, RunArgs, SuiteArgs};
use crate::results::Results;
use crate::{parent, preflight, table};
use beside::PartRun;
use papers::{Part, Suite, RATE_OF_DEVICE, SUITES};

/// Every engine works with this much; what the scale leaves of a paper's memory may be less.
const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// With fewer keys, nothing is said of how a store grows.
const KEYS_MIN: u64 = 100;

/// The suites, what their papers ran, and the lines that are run at this scale.
pub(crate) fn list(args: &SuiteArgs) -> String {
    let mut text = String::new();
    for suite in &SUITES {
        // Writing to a text does not fail.
        let _ = writeln!(text, "{}: {}", suite.name, suite.source);
        let _ = writeln!(text, "    {}", show_setup(suite));
        for part in suite.parts {
            let line = line(part, args, scale(suite, args), true);
            let _ = writeln!(text, "    {}", show_line(&line));
        }
    }
    text.trim_end().to_owned()
}

/// Runs a suite, and gives what it measured, and all of it for people.
///
/// # Errors
/// A name that is not known, what a part lacks, or a file that cannot be written.
pub(crate) fn run(
    args: &SuiteArgs,
    interrupted: &Arc<AtomicBool>,
) -> Result<(Results, String), String> {
    let suite = find(args.name.as_deref().unwrap_or_default())?;
    let scale = scale(suite, args);
    large_enough(suite, scale)?;
    let parts = suite.parts.iter().enumerate();
    let parts = parts.map(|(place, part)| {
        let line = line(part, args, scale, place == 0);
        Ok((read(&line)?, line))
    });
    let parts = parts.collect::<Result<Vec<(RunArgs, Vec<OsString>)>, String>>()?;
    for (place, (part, _)) in parts.iter().enumerate() {
        preflight::check(part).map_err(|why| {
            let smaller = if why.starts_with("not enough") {
                ": give a smaller --scale"
            } else if why.starts_with("heliox") {
                ": give a larger --scale"
            } else {
                ""
            };
            let (place, name) = (place + 1, suite.name);
            format!("{why} (part {place} of the suite {name}{smaller})")
        })?;
    }
    let mut results: Option<Results> = None;
    for (place, (part, line)) in parts.iter().enumerate() {
        let needs_device = suite.parts.get(place).is_some_and(Part::needs_device);
        if needs_device && !args.raw_device {
            let of = parts.len();
            crate::print(&format!(
                "\npart {} of {of}: only with --raw-device",
                place + 1
            ))?;
            continue;
        }
        let shown = show_line(line);
        crate::print(&format!("\npart {} of {}: {shown}", place + 1, parts.len()))?;
        let so_far = parent::run(part, line, interrupted, results.take())?;
        table::write_page(part, &so_far, None)?;
        let ended = so_far.interrupted;
        results = Some(so_far);
        if ended {
            break;
        }
    }
    let results = results.ok_or_else(|| format!("the suite {} has no parts", suite.name))?;
    let runs: Vec<&RunArgs> = parts.iter().map(|(part, _)| part).collect();
    let told = runs.iter().map(|run| PartRun {
        memory: run.memory,
        num: run.num,
    });
    let told: Vec<PartRun> = told.collect();
    let mut aside = beside::show(suite, &told, &results);
    aside
        .notes
        .extend(differences(suite, args, &runs, &results));
    let text = table::show(&results, Some(&aside)).map_err(|error| error.to_string())?;
    if let Some((part, _)) = parts.last() {
        table::write_page(part, &results, Some(&aside))?;
    }
    Ok((results, text))
}

fn find(name: &str) -> Result<&'static Suite, String> {
    let found = SUITES.iter().find(|suite| suite.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        format!(
            "there is no suite {name:?}: expected one of {} (suite --list shows what they run)",
            known.join(", ")
        )
    })
}

/// The share of a suite that is run.
fn scale(suite: &Suite, args: &SuiteArgs) -> f64 {
    args.scale.unwrap_or(suite.scale)
}

fn show_setup(suite: &Suite) -> String {
    match suite.told {
        [] => format!("what is run: {}", suite.setup),
        _ => format!("the paper: {}", suite.setup),
    }
}

fn scaled(full: u64, scale: f64) -> u64 {
    ((full as f64 * scale).round() as u64).max(1)
}

/// Of a part, in bytes.
fn memory(part: &Part, scale: f64) -> u64 {
    scaled(part.memory_bytes, scale).max(MEMORY_BYTES_MIN * part.memory_times)
}

/// Refuses a scale at which parts that differ in memory or keys would have the same.
fn large_enough(suite: &Suite, scale: f64) -> Result<(), String> {
    let keys = suite.parts.iter().map(|part| part.num);
    if let (Some(least), true) = (keys.clone().min(), keys.clone().min() != keys.max()) {
        return enough_keys(suite, scale, least);
    }
    let by_part = suite.shown.iter().any(|shown| shown.part.is_some());
    let apart = suite.parts.iter().any(|part| part.memory_times > 1);
    let least = suite.parts.iter().map(|part| part.memory_bytes).min();
    let least_scale = MEMORY_BYTES_MIN as f64 / least.unwrap_or(MEMORY_BYTES_MIN) as f64;
    if !by_part || apart || scale >= least_scale {
        return Ok(());
    }
    Err(format!(
        "--scale {scale} is too small for the suite {}: its parts differ in memory, of which each has {} \
         at least; give {:.5} or more",
        suite.name,
        show_bytes(MEMORY_BYTES_MIN),
        (least_scale * 1e5).ceil() / 1e5
    ))
}

fn enough_keys(suite: &Suite, scale: f64, least: u64) -> Result<(), String> {
    let least_scale = KEYS_MIN as f64 / least as f64;
    if scale >= least_scale {
        return Ok(());
    }
    Err(format!(
        "--scale {scale} is too small for the suite {}: its parts differ in their number of keys, of which \
         each has {KEYS_MIN} at least; give {least_scale:.5} or more",
        suite.name
    ))
}

/// The command line of a part, without the program. The raw device is measured in the first alone.
fn line(part: &Part, args: &SuiteArgs, scale: f64, first: bool) -> Vec<OsString> {
    let memory = memory(part, scale);
    let mut line: Vec<OsString> = vec!["run".into()];
    let mut add = |name: &str, value: OsString| line.extend([name.into(), value]);
    if !args.engines.is_empty() {
        add("--engines", args.engines.join(",").into());
    }
    add("--workloads", part.workloads.into());
    add("--threads", part.threads.into());
    add("--num", scaled(part.num, scale).to_string().into());
    add("--key-size", part.key_bytes.to_string().into());
    add("--value-size", part.value_bytes.to_string().into());
    add("--memory", memory.to_string().into());
    add("--durability", args.durability.name().into());
    add("--duration", args.duration.as_secs_f64().to_string().into());
    add("--repeat", args.repeat.to_string().into());
    for (name, path) in [
        ("--dir", &args.dir),
        ("--json", &args.json),
        ("--html", &args.html),
    ] {
        if let Some(path) = path {
            add(name, path.clone().into());
        }
    }
    let device = args.raw_device && first;
    let more = part.more.iter();
    let more = more.filter(|option| device || **option != RATE_OF_DEVICE);
    line.extend(more.map(OsString::from));
    if device {
        line.push("--raw-device".into());
    }
    line
}

/// Reads a line as that of a person is read.
fn read(line: &[OsString]) -> Result<RunArgs, String> {
    let program = std::iter::once(OsString::from("bench-compare"));
    let read = Args::try_parse_from(program.chain(line.iter().cloned()));
    match read.map_err(|error| error.to_string())?.command {
        Command::Run(run) => Ok(*run),
        _ => Err("a part of a suite is no run, which is a bug".to_owned()),
    }
}

fn show_line(line: &[OsString]) -> String {
    let words: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
    format!("bench-compare {}", words.join(" "))
}

/// What is not as in the paper, a line each.
fn differences(
    suite: &Suite,
    args: &SuiteArgs,
    runs: &[&RunArgs],
    results: &Results,
) -> Vec<String> {
    let processors = thread::available_parallelism().map_or(0, usize::from);
    let mut notes = vec![
        show_setup(suite),
        format!(
            "here: {processors} processors, memory limit {}",
            results.memory_limit
        ),
    ];
    let mut told: Vec<String> = Vec::new();
    for (run, part) in runs.iter().zip(suite.parts) {
        let full = part.num.saturating_mul(part.key_bytes + part.value_bytes);
        let share = |memory: u64, data: u64| 100.0 * memory as f64 / data.max(1) as f64;
        let size = format!(
            "scale {}: {} values of {} bytes instead of {}; memory {}, {:.1} % of the data, instead of \
             {}, {:.1} %",
            scale(suite, args),
            thousands(run.num as f64),
            run.value_size,
            thousands(part.num as f64),
            show_bytes(run.memory),
            share(run.memory, run.bytes_of(run.num)),
            show_bytes(part.memory_bytes),
            share(part.memory_bytes, full),
        );
        if !told.contains(&size) {
            told.push(size);
        }
    }
    told.push(format!("durability {}", args.durability));
    told.extend(suite.differs.iter().map(|line| (*line).to_owned()));
    let head = if suite.told.is_empty() {
        "to be known"
    } else {
        "what differs beside the hardware"
    };
    notes.extend(told.into_iter().map(|line| format!("{head}: {line}")));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn args(scale: f64) -> SuiteArgs {
        let line = [
            "bench-compare",
            "suite",
            "helium",
            "--dir",
            "some dir",
            "--scale",
        ];
        let line = line
            .map(str::to_owned)
            .into_iter()
            .chain([scale.to_string()]);
        let line = line.chain(["--engines", "heliox,lmdb", "--raw-device"].map(str::to_owned));
        match Args::try_parse_from(line).unwrap().command {
            Command::Suite(suite) => *suite,
            _ => unreachable!(),
        }
    }

    #[test]
    fn parts_are_runs_of_the_paper_at_scale() {
        for suite in &SUITES {
            for (scale, floor) in [
                (1.0, 1),
                (0.001, MEMORY_BYTES_MIN),
                (1e-12, MEMORY_BYTES_MIN),
            ] {
                for part in suite.parts {
                    let run = read(&line(part, &args(scale), scale, true)).unwrap();
                    let expected = (part.num as f64 * scale).round().max(1.0) as u64;
                    assert_eq!(run.num, expected, "{}", suite.name);
                    let memory = (part.memory_bytes as f64 * scale).round() as u64;
                    assert_eq!(run.memory, memory.max(floor * part.memory_times));
                    assert_eq!(run.value_size, part.value_bytes);
                    assert_eq!(run.key_size, Some(part.key_bytes));
                    assert_eq!(run.engines, ["heliox", "lmdb"]);
                    assert_eq!(run.dir, PathBuf::from("some dir"));
                    assert!(run.raw_device && run.config().validate().is_ok());
                    let second = read(&line(part, &args(scale), scale, false)).unwrap();
                    assert!(!second.raw_device);
                }
            }
        }
        let mixed = SUITES[1].parts[2];
        let config = read(&line(&mixed, &args(0.001), 0.001, true))
            .unwrap()
            .config();
        assert_eq!(config.read_share_percent, 80.0);
        assert_eq!(config.num, 1_000_000);
    }

    /// Its workloads are run several times on purpose.
    fn repeated(suite: &Suite) -> bool {
        suite.shown.iter().any(|shown| shown.time > 1)
    }

    /// What is shown but never run would be a line of nothing.
    #[test]
    fn all_that_is_shown_is_run_once_and_all_that_is_told_is_shown() {
        for suite in &SUITES {
            let steps = suite.parts.iter().enumerate().flat_map(|(place, part)| {
                let run = read(&line(part, &args(0.001), 0.001, true)).unwrap();
                let steps = run.config().steps().into_iter();
                steps.map(move |step| (place, step.workload.name(), step.threads))
            });
            let steps: Vec<_> = steps.collect();
            let mut shown = Vec::new();
            for part in suite.shown {
                for threads in part.threads {
                    let is = |(place, workload, of): &&(usize, &str, usize)| {
                        part.part.is_none_or(|part| part == *place)
                            && *workload == part.workload
                            && of == threads
                    };
                    let times = steps.iter().filter(is).count();
                    // The first of several is not shown where it only warms up.
                    assert!(part.time == times || repeated(suite) && part.time < times);
                    let what = |quantity| (part.part, part.workload, *threads, quantity);
                    shown.extend(part.quantities.iter().copied().map(what));
                }
            }
            for told in suite.told {
                let what = (told.part, told.workload, told.threads, told.quantity);
                let times = shown.iter().filter(|shown| **shown == what).count();
                assert_eq!(times, 1, "{}: {told:?}", suite.name);
                assert!(told.figure > 0.0);
            }
        }
    }

    #[test]
    fn parts_that_differ_in_memory_still_do_at_scale() {
        let scylla = find("scylla").unwrap();
        assert_eq!(large_enough(scylla, scylla.scale), Ok(()));
        assert_eq!(large_enough(find("helium").unwrap(), 1e-9), Ok(()));
        let error = large_enough(scylla, 0.001).unwrap_err();
        assert!(error.contains("give 0.00194 or more"), "{error}");
        assert_eq!(large_enough(scylla, 0.00194), Ok(()));
        // However small, read caches of 1 to 4 GB are told apart.
        let caches: Vec<u64> = find("helium").unwrap().parts[4..]
            .iter()
            .map(|part| memory(part, 1e-9) / MEMORY_BYTES_MIN)
            .collect();
        assert_eq!(caches, [1, 2, 3, 4, 5]);
        let growth = find("growth").unwrap();
        let error = large_enough(growth, 0.00005).unwrap_err();
        assert!(error.contains("give 0.00010 or more"), "{error}");
        assert_eq!(large_enough(growth, 0.0001), Ok(()));
        let run = |part: &Part| read(&line(part, &args(0.002), 0.002, false)).unwrap();
        let memory: Vec<u64> = scylla.parts.iter().map(|part| run(part).memory).collect();
        assert!(
            memory.windows(2).skip(1).all(|two| two[0] < two[1]),
            "{memory:?}"
        );
    }

    #[test]
    fn a_suite_that_is_not_known_is_named_with_those_that_are() {
        let error = find("hellium").unwrap_err();
        assert!(
            error.contains("hellium")
                && error.contains("helium, herocks, hlkvds, scylla, hse, growth, scans, speed"),
            "{error}"
        );
    }
}
