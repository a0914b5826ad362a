//! Starts a process for each engine and repeat, gathers what it says, shows how it goes on, and
//! keeps what was measured whatever happens.
//!
//! Repeats are outermost, so that a machine that slows down slows every engine. Threads: one reads
//! the standard output of the child that runs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use heliox_bench::size::show_bytes;
use heliox_bench::{rows_to_text, thousands};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{kill_process, Pid, Signal};

use crate::args::RunArgs;
use crate::engines::Kind;
use crate::limit::Limit;
use crate::message::Message;
use crate::preflight;
use crate::raw::{self, Raw};
use crate::results::{Failure, Measured, Results};
use crate::table;

/// How often an interruption is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Lines that a failed engine printed last and that are shown.
const LAST_LINES: usize = 5;
/// Steps of the bar for one workload.
const BAR_STEPS: u64 = 1000;

/// Measures all engines, as `args` say, which were read from `line` (without the program). Its
/// results stand behind those `before`, of an earlier run with the same files and engines.
///
/// # Errors
/// What the run lacks, or a file that cannot be written; a failing engine is a result.
pub(crate) fn run(
    args: &RunArgs,
    line: &[OsString],
    interrupted: &Arc<AtomicBool>,
    before: Option<Results>,
) -> Result<Results, String> {
    let kinds = preflight::check(args)?;
    let work = WorkDir::make(&args.dir)?;
    let mut run = Run::new(args, line, &kinds, work, interrupted.clone());
    if let Some(before) = before {
        run.results.measured = before.measured;
        run.results.failures = before.failures;
        run.results.raw = before.raw;
    }
    // Results of an earlier run are not taken for this one's.
    run.write()?;
    table::write_page(args, &run.results, None)?;
    run.announce()?;
    run.raw_device()?;
    run.all(&kinds)?;
    Ok(run.results)
}

/// A directory of this run's own; removed when dropped.
struct WorkDir(PathBuf);

impl WorkDir {
    fn make(dir: &Path) -> Result<WorkDir, String> {
        let path = dir.join(format!("bench-compare-{}", std::process::id()));
        let failed = |error| format!("cannot make {}: {error}", path.display());
        fs::create_dir(&path).map_err(failed)?;
        // Children have the same working directory, but an engine might change it.
        let path = path.canonicalize().map_err(failed)?;
        Ok(WorkDir(path))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // What is left is seen by its name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Run<'a> {
    args: &'a RunArgs,
    /// What they were read from.
    line: &'a [OsString],
    work: WorkDir,
    interrupted: Arc<AtomicBool>,
    /// A group was made on trial, so each engine gets one.
    limited: bool,
    bar: ProgressBar,
    /// Of one engine in one repeat.
    steps: u64,
    steps_done: u64,
    results: Results,
}

impl<'a> Run<'a> {
    fn new(
        args: &'a RunArgs,
        line: &'a [OsString],
        kinds: &[Kind],
        work: WorkDir,
        interrupted: Arc<AtomicBool>,
    ) -> Run<'a> {
        let (limited, memory_limit) = match limit(args) {
            Ok(_) => (true, "cgroup v2, page cache included".to_owned()),
            Err(why) => (
                false,
                format!(
                    "none ({why}): engines that keep their data in the page cache have more than \
                     the rest"
                ),
            ),
        };
        let steps = args.config().steps().len() as u64;
        let each = steps * BAR_STEPS;
        let bar = ProgressBar::new(u64::from(args.repeat) * kinds.len() as u64 * each);
        let style = ProgressStyle::with_template("{wide_bar} {percent} % {eta} {msg}");
        Run {
            args,
            line,
            work,
            interrupted,
            limited,
            bar: match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            },
            steps,
            steps_done: 0,
            results: Results {
                engines: kinds.iter().map(|kind| kind.name.to_owned()).collect(),
                measured: Vec::new(),
                failures: Vec::new(),
                raw: None,
                memory_limit,
                interrupted: false,
            },
        }
    }

    fn announce(&self) -> Result<(), String> {
        let (args, config) = (self.args, self.args.config());
        let threads: Vec<String> = config.threads.iter().map(usize::to_string).collect();
        let added = match args.keys_added() {
            0 => String::new(),
            added => format!(
                ", and room for {} that are inserted ({})",
                thousands(added as f64),
                show_bytes(args.bytes_of(added))
            ),
        };
        let text = format!(
            "{} of data in each store: {} keys of {} bytes ({}), values of {} bytes{added}; {} threads, \
             durability {}, {} of memory, {} repeats\nengines: {}\nmemory limit: {}",
            show_bytes(args.bytes_of(args.num)),
            thousands(args.num as f64),
            config.key_bytes,
            config.keys,
            config.value_bytes,
            threads.join(", "),
            config.durability,
            show_bytes(args.memory),
            args.repeat,
            self.results.engines.join(", "),
            self.results.memory_limit
        );
        crate::print(&text)
    }

    /// Measures the device first, while no store is there.
    fn raw_device(&mut self) -> Result<(), String> {
        let Some(setup) = self.args.raw_setup() else {
            return Ok(());
        };
        let bar = &self.bar;
        let told = |what: &str| bar.set_message(format!("{}: {what}", raw::NAME));
        let raw = raw::measure(&self.work.0, &setup, &self.interrupted, told)?;
        self.results.raw = Some(raw);
        self.write()
    }

    fn all(&mut self, kinds: &[Kind]) -> Result<(), String> {
        for repeat in 1..=self.args.repeat {
            for kind in kinds {
                if !self.interrupted.load(Ordering::Relaxed) {
                    self.one(kind.name, repeat)?;
                }
                if self.interrupted.load(Ordering::Relaxed) {
                    self.results.interrupted = true;
                    self.bar.finish_and_clear();
                    return Ok(());
                }
            }
        }
        self.bar.finish_and_clear();
        Ok(())
    }

    /// Measures one engine once. What a child measured before it failed counts.
    fn one(&mut self, engine: &str, repeat: u32) -> Result<(), String> {
        let store = self.work.0.join(format!("{engine}-{repeat}"));
        let printed = store.with_extension("stderr");
        fs::create_dir(&store).map_err(|error| format!("{}: {error}", store.display()))?;
        let group = self.limited.then(|| limit(self.args)).transpose()?;
        let mut outcome = Ok(Some(Resume {
            from: 0,
            count: None,
        }));
        while let Ok(Some(resume)) = outcome {
            let child = self.start(engine, &store, &printed, group.as_ref(), resume);
            outcome = child.and_then(|child| self.follow(child, engine, repeat, resume.from));
        }
        let steps = self.steps * BAR_STEPS;
        self.steps_done += steps;
        self.bar.set_position(self.steps_done);
        if let (Err(why), false) = (outcome, self.interrupted.load(Ordering::Relaxed)) {
            self.results.failures.push(Failure {
                engine: engine.to_owned(),
                repeat,
                why: format!("{why}{}", last_lines(&printed)),
            });
            self.write()?;
        }
        fs::remove_dir_all(&store).map_err(|error| format!("{}: {error}", store.display()))
    }

    /// The program calls itself with the same arguments, so that parent and child agree on them.
    fn start(
        &self,
        engine: &str,
        store: &Path,
        printed: &Path,
        group: Option<&Limit>,
        resume: Resume,
    ) -> Result<Child, String> {
        let program = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
        let errors = File::create(printed).map_err(|error| format!("its errors: {error}"))?;
        let mut command = Command::new(program);
        command.args(self.line);
        command.arg("--child").arg(engine);
        command.arg("--child-dir").arg(store);
        if let Some(group) = group {
            command.arg("--child-group").arg(group.dir());
        }
        let rates = self.results.raw.iter().flat_map(Raw::read_rates);
        let rates: Vec<String> = rates.map(|rate| rate.to_string()).collect();
        if self.args.rate_of_device && !rates.is_empty() {
            command.arg("--child-rates").arg(rates.join(","));
        }
        if let Some(count) = resume.count {
            command.arg("--child-from").arg(resume.from.to_string());
            command.arg("--child-count").arg(count.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(errors);
        command.spawn().map_err(|error| format!("start: {error}"))
    }

    /// Takes what a child, whose first step is at `place`, says until it ends; gives where another
    /// is to go on, if it was killed for that.
    fn follow(
        &mut self,
        mut child: Child,
        engine: &str,
        repeat: u32,
        mut place: usize,
    ) -> Result<Option<Resume>, String> {
        let lines = read_lines(&mut child);
        let (mut end, mut asked) = (None, false);
        // The row of the step in which the one before was killed.
        place = place.saturating_sub(1);
        loop {
            if self.interrupted.load(Ordering::Relaxed) && !asked {
                asked = true;
                // It may have ended by itself; both are an end.
                let _ = kill_process(Pid::from_child(&child), Signal::INT);
                self.bar
                    .set_message("ending; interrupt again to end at once");
            }
            if crate::interrupted_again() {
                let _ = child.kill();
            }
            match lines.recv_timeout(LOOK_EVERY) {
                Ok(Message::Row(fields)) => {
                    self.results.measured.push(Measured { repeat, fields });
                    place += 1;
                    self.write()?;
                }
                Ok(Message::Progress {
                    workload,
                    ops,
                    permille,
                    seconds,
                }) => {
                    let done = self.steps_done + place as u64 * BAR_STEPS + permille;
                    self.bar.set_position(done);
                    let rate = thousands(ops as f64 / seconds.max(1e-3));
                    let message = format!("{engine} {workload}: {rate} ops/s");
                    self.bar.set_message(message);
                }
                Ok(Message::Failed(why)) => end = Some(Err(why)),
                Ok(Message::Done) => end = Some(Ok(None)),
                Ok(Message::Kill { from, count }) => {
                    let count = Some(count);
                    end = Some(Ok(Some(Resume { from, count })));
                    // An error would be that it has ended, which is as good.
                    let _ = child.kill();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait().map_err(|error| format!("wait: {error}"))?;
        end.unwrap_or_else(|| Err(format!("its process ended early: {status}")))
    }

    /// Writes the results so far, so that nothing is lost whatever comes.
    fn write(&self) -> Result<(), String> {
        let Some(path) = &self.args.json else {
            return Ok(());
        };
        let failed = |error| format!("cannot write {}: {error}", path.display());
        let mut file = File::create(path).map_err(failed)?;
        file.write_all(rows_to_text(&self.results.to_json()).as_bytes())
            .map_err(failed)
    }
}

/// Where a child goes on.
#[derive(Clone, Copy, Debug)]
struct Resume {
    /// Its first step.
    from: usize,
    /// How many keys are there; `None`: the store is empty.
    count: Option<u64>,
}

/// A control group for one child of this run.
fn limit(args: &RunArgs) -> Result<Limit, String> {
    Limit::make(
        &format!("bench-compare-{}", std::process::id()),
        args.memory,
    )
}

/// The messages of a child; ends when its standard output does.
fn read_lines(child: &mut Child) -> Receiver<Message> {
    let (sender, receiver) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Some(message) = Message::from_line(&line) else {
                    continue;
                };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// What a process printed last to its standard error, to stand behind a reason.
fn last_lines(printed: &Path) -> String {
    let text = fs::read(printed).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let skipped = lines.len().saturating_sub(LAST_LINES);
    let last = lines.into_iter().skip(skipped);
    last.map(|line| format!("\n    {line}")).collect()
}
