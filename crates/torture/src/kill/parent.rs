//! The separate process: starts one life after the other, writes down what each tells, kills it at
//! a random moment, and checks what the next life finds.
//!
//! Threads: one of them hears the child, the other waits and kills.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

use heliox::Store;
use heliox_media::Random;

use super::child::SIZES;
use super::wire::{hear, Told};
use super::{options, Mode, BOUND_BYTES, BOUND_MS};
use crate::failure::{Failure, Result};
use crate::now_ns;
use crate::script::{Script, KEYSPACES};
use crate::state::{note, ThreadState};
use crate::verify::{Bounds, Done, Life, Outcome};

/// Of so many lives one is killed while it opens, and one ends in order.
const EARLY_ONE_IN: u64 = 4;
const ORDERLY_ONE_IN: u64 = 16;
/// After so many lives the store is verified offline.
const LIVES_PER_CHECK: u64 = 3;

/// What to kill, and how often.
#[derive(Clone, Debug)]
pub struct KillPlan {
    /// This program, which knows the command `load`.
    pub program: PathBuf,
    /// Where the store is made; it must not be there yet.
    pub dir: PathBuf,
    /// The block device to make it on; else it is in a file.
    pub device: Option<PathBuf>,
    /// When writes count as done.
    pub mode: Mode,
    /// Lives of the store.
    pub rounds: u64,
    /// Most that a life works, in seconds.
    pub seconds_per_round: f64,
    /// Threads of the load.
    pub threads: u16,
    /// Decides what the threads do; the moments of the kills differ from run to run.
    pub seed: u64,
    /// What a busy machine may add to the time that `bounded` states.
    pub slack_ms: u64,
    /// A defect to plant in the child.
    pub canary: Option<String>,
}

/// What became of a store that was killed again and again.
#[derive(Clone, Default, Debug)]
#[allow(missing_docs)] // the names say it
pub struct KillReport {
    pub rounds: u64,
    pub kills: u64,
    /// Kills before the child had opened the store and told what it holds.
    pub kills_while_opening: u64,
    pub orderly_ends: u64,
    pub acknowledged: u64,
    /// Acknowledged and gone, as the durability allows.
    pub lost: u64,
    /// The oldest of those was acknowledged so long before its kill.
    pub oldest_lost_ms: f64,
    pub most_lost_bytes: u64,
    pub entries_verified: u64,
    pub offline_checks: u64,
    pub segments_collected: u64,
    pub checkpoints: u64,
    pub longest_open_ms: f64,
    pub violations: Vec<String>,
}

impl KillReport {
    /// As one line of JSON.
    #[must_use]
    pub fn json(&self, mode: Mode) -> serde_json::Value {
        serde_json::json!({
            "durability": mode.name(),
            "rounds": self.rounds,
            "kills": self.kills,
            "kills_while_opening": self.kills_while_opening,
            "orderly_ends": self.orderly_ends,
            "acknowledged": self.acknowledged,
            "lost": self.lost,
            "oldest_lost_ms": self.oldest_lost_ms,
            "most_lost_bytes": self.most_lost_bytes,
            "entries_verified": self.entries_verified,
            "offline_checks": self.offline_checks,
            "segments_collected": self.segments_collected,
            "checkpoints": self.checkpoints,
            "longest_open_ms": self.longest_open_ms,
            "violations": self.violations,
        })
    }
}

/// Kills and verifies until all rounds are done or a promise is broken; `progress` hears the number
/// of each round that ended.
///
/// # Errors
/// The system's refusals. A broken promise is in the report.
pub fn run(plan: &KillPlan, progress: &mut dyn FnMut(u64)) -> Result<KillReport> {
    let mut history = History::new(plan);
    let mut random = Random::new(plan.seed ^ now_ns());
    for round in 0..=plan.rounds {
        let ending = match random.below(ORDERLY_ONE_IN) {
            // The last life is only to see what is there.
            _ if round == plan.rounds => Ending::Orderly(0),
            0 => Ending::Orderly(random.below(plan.millis() / 2 + 1)),
            n if n <= ORDERLY_ONE_IN / EARLY_ONE_IN => {
                let usual = (history.report.longest_open_ms * 1.2) as u64;
                Ending::Early(random.below(usual.clamp(5, 2000)))
            }
            _ => Ending::Killed(random.below(plan.millis() + 1)),
        };
        let told = live(plan, round as u32, ending)?;
        history.take_in(round, ending, told);
        if history.report.violations.is_empty()
            && (round % LIVES_PER_CHECK == 0 || round == plan.rounds)
        {
            history.check_offline()?;
        }
        if !history.report.violations.is_empty() {
            break;
        }
        if round < plan.rounds {
            history.report.rounds += 1;
        }
        progress(round);
    }
    Ok(history.report)
}

impl KillPlan {
    fn millis(&self) -> u64 {
        (self.seconds_per_round * 1000.0) as u64
    }
}

/// How a life ends; times in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// Killed so long after it was started.
    Early(u64),
    /// Killed so long after its load began.
    Killed(u64),
    /// Told to close so long after its load began.
    Orderly(u64),
}

/// All that one life told, and when it ended.
#[derive(Default)]
struct Tale {
    held: Vec<(u8, Vec<u8>, Vec<u8>)>,
    is_whole: bool,
    done: Vec<Vec<Done>>,
    collected: u64,
    checkpoints: u64,
    complaints: Vec<String>,
    opening_ms: f64,
    killed_ns: u64,
    closed: bool,
}

fn live(plan: &KillPlan, life: u32, ending: Ending) -> Result<Tale> {
    let mut command = Command::new(&plan.program);
    command.arg("load").arg("--dir").arg(&plan.dir);
    command.args(["--durability", plan.mode.name()]);
    command.args(["--threads", &plan.threads.to_string()]);
    command.args(["--seed", &plan.seed.to_string()]);
    command.args(["--life", &life.to_string()]);
    if let Some(device) = &plan.device {
        command.arg("--device").arg(device);
    }
    if let Some(canary) = &plan.canary {
        command.args(["--canary", canary]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let begun_ns = now_ns();
    let mut child = command.spawn().map_err(Failure::system("the child"))?;
    let (ready, is_ready) = channel();
    let (Some(pipe), Some(input)) = (child.stdout.take(), child.stdin.take()) else {
        return Err(Failure::Other("the child has no pipes".to_owned()));
    };
    let threads = usize::from(plan.threads);
    let listener = std::thread::spawn(move || {
        listen(
            BufReader::with_capacity(1 << 16, pipe),
            threads,
            begun_ns,
            &ready,
        )
    });
    let (killed_ns, closed) = end(&mut child, input, ending, &is_ready)?;
    let heard = listener.join();
    let mut tale = heard
        .map_err(|_| Failure::Other("the thread that hears the child panicked".to_owned()))??;
    (tale.killed_ns, tale.closed) = (killed_ns, closed);
    Ok(tale)
}

/// Lets the life end as it is to; gives when, and whether it closed the store.
fn end(
    child: &mut Child,
    input: std::process::ChildStdin,
    ending: Ending,
    is_ready: &Receiver<()>,
) -> Result<(u64, bool)> {
    // A child that ends by itself drops its end of the channel, which ends this wait as well.
    let after = match ending {
        Ending::Early(millis) => millis,
        Ending::Killed(millis) | Ending::Orderly(millis) => {
            let _ = is_ready.recv();
            millis
        }
    };
    std::thread::sleep(Duration::from_millis(after));
    if matches!(ending, Ending::Orderly(_)) {
        drop(input);
        let status = child
            .wait()
            .map_err(Failure::system("waiting for the child"))?;
        return Ok((now_ns(), status.success()));
    }
    let killed_ns = now_ns();
    child.kill().map_err(Failure::system("kill"))?;
    child
        .wait()
        .map_err(Failure::system("waiting for the child"))?;
    Ok((killed_ns, false))
}

/// Writes down what a life tells, to its end.
fn listen(
    mut pipe: impl std::io::Read,
    threads: usize,
    begun_ns: u64,
    ready: &Sender<()>,
) -> Result<Tale> {
    let mut tale = Tale {
        done: vec![Vec::new(); threads],
        ..Tale::default()
    };
    while let Some(told) = hear(&mut pipe).map_err(Failure::system("the pipe from the child"))? {
        match told {
            Told::Held {
                keyspace,
                key,
                value,
            } => tale.held.push((keyspace, key, value)),
            Told::Ready => {
                tale.is_whole = true;
                tale.opening_ms = (now_ns() - begun_ns) as f64 / 1e6;
                // Nobody waits for it if the kill is due by another clock.
                let _ = ready.send(());
            }
            Told::Acknowledged {
                thread,
                number,
                issued_ns,
                acknowledged_ns,
            } => {
                let done = tale.done.get_mut(usize::from(thread));
                let done = done.filter(|done| done.len() as u64 == number);
                let Some(done) = done else {
                    return Err(Failure::Other(format!(
                        "thread {thread} skipped to operation {number}"
                    )));
                };
                done.push(Done {
                    issued_ns,
                    acknowledged_ns,
                    events_after: 0,
                });
            }
            Told::Figures {
                collected,
                checkpoints,
            } => {
                (tale.collected, tale.checkpoints) = (collected, checkpoints);
            }
            Told::Complaint(words) => tale.complaints.push(words),
        }
    }
    Ok(tale)
}

/// What is known of the store: the last life that worked, and what was seen since.
struct History<'a> {
    plan: &'a KillPlan,
    report: KillReport,
    /// The last life that worked, and between which numbers it may have been cut off.
    last: Life,
    bounds: Bounds,
    killed_ns: u64,
    /// What a life told that was killed before it had told all: it may not be lost any more.
    seen: Vec<(u8, Vec<u8>, Vec<u8>)>,
}

impl<'a> History<'a> {
    fn new(plan: &'a KillPlan) -> History<'a> {
        let threads = usize::from(plan.threads);
        let last = Life {
            script: script(plan, 0),
            start: vec![ThreadState::default(); threads],
            done: vec![Vec::new(); threads],
        };
        let none = vec![0; threads];
        History {
            plan,
            report: KillReport::default(),
            last,
            bounds: Bounds {
                least: none.clone(),
                most: none,
            },
            killed_ns: 0,
            seen: Vec::new(),
        }
    }

    /// Checks one life's tale against what is known, and goes on from it.
    fn take_in(&mut self, round: u64, ending: Ending, mut tale: Tale) {
        let complaints = std::mem::take(&mut tale.complaints);
        let named = |words: String| format!("life {round}, {ending:?}: {words}");
        self.report
            .violations
            .extend(complaints.into_iter().map(named));
        match ending {
            Ending::Orderly(_) => {
                self.report.orderly_ends += 1;
                if !tale.closed && self.report.violations.is_empty() {
                    self.report
                        .violations
                        .push(named("it was told to close and did not".to_owned()));
                }
            }
            _ => self.report.kills += 1,
        }
        self.report.segments_collected += tale.collected;
        self.report.checkpoints += tale.checkpoints;
        self.report.longest_open_ms = self.report.longest_open_ms.max(tale.opening_ms);
        self.report.acknowledged += tale.done.iter().map(|done| done.len() as u64).sum::<u64>();
        self.compare_seen(&tale, &named);
        if !tale.is_whole {
            self.report.kills_while_opening += 1;
            if tale.held.len() > self.seen.len() {
                self.seen = tale.held;
            }
            return;
        }
        self.report.entries_verified += tale.held.len() as u64;
        let mut found = vec![ThreadState::default(); usize::from(self.plan.threads)];
        for (keyspace, key, value) in &tale.held {
            if let Err(words) = note(&mut found, *keyspace, key, value) {
                self.report.violations.push(named(words));
            }
        }
        let outcome = self.last.verify(&found, &self.bounds);
        self.account(&outcome, &named);
        self.seen.clear();
        self.last = Life {
            script: script(self.plan, round as u32),
            start: found,
            done: tale.done,
        };
        self.killed_ns = tale.killed_ns;
        self.bounds = self.promised(tale.closed);
    }

    /// Both tell in the same order, so what a life told before is the beginning of what it tells now.
    fn compare_seen(&mut self, tale: &Tale, named: &dyn Fn(String) -> String) {
        for (before, now) in self.seen.iter().zip(&tale.held) {
            if before != now {
                let name = KEYSPACES.get(usize::from(before.0)).copied().unwrap_or("?");
                let key = String::from_utf8_lossy(&before.1).into_owned();
                let words = format!("a recovery that was killed had shown another value of keyspace {name}, key {key}");
                self.report.violations.push(named(words));
                return;
            }
        }
        if tale.is_whole && self.seen.len() > tale.held.len() {
            self.report.violations.push(named(
                "a recovery that was killed had shown more keys".to_owned(),
            ));
        }
    }

    /// What the last life's durability promises at its end.
    fn promised(&self, closed: bool) -> Bounds {
        let plan = self.plan;
        let allowed_ns = (BOUND_MS + plan.slack_ms) * 1_000_000;
        let deadline_ns = self.killed_ns.saturating_sub(allowed_ns);
        self.last.bounds(
            |action| action.is_barrier(true),
            |op| match plan.mode {
                _ if closed => true,
                Mode::Sync => true,
                Mode::Bounded => op.acknowledged_ns < deadline_ns,
                Mode::None => false,
            },
        )
    }

    fn account(&mut self, outcome: &Outcome, named: &dyn Fn(String) -> String) {
        let report = &mut self.report;
        report.lost += outcome.lost;
        report.most_lost_bytes = report.most_lost_bytes.max(outcome.lost_bytes);
        if let Some(oldest) = outcome.oldest_lost_ns {
            let age = self.killed_ns.saturating_sub(oldest) as f64 / 1e6;
            report.oldest_lost_ms = report.oldest_lost_ms.max(age);
        }
        report
            .violations
            .extend(outcome.violations.iter().cloned().map(named));
        if self.plan.mode == Mode::Bounded && outcome.lost_bytes > BOUND_BYTES {
            let words = format!(
                "{} bytes of acknowledged writes are lost, {BOUND_BYTES} may be",
                outcome.lost_bytes
            );
            report.violations.push(named(words));
        }
    }

    fn check_offline(&mut self) -> Result<()> {
        let plan = self.plan;
        // A first life that was killed soon enough leaves no store behind.
        let options = options(plan.mode, plan.device.as_deref());
        match Store::check(&plan.dir, &options, &mut |_| {}) {
            Ok(report) => {
                self.report.offline_checks += 1;
                self.report.violations.extend(
                    report
                        .problems
                        .into_iter()
                        .map(|p| format!("offline check: {p}")),
                );
                Ok(())
            }
            Err(error)
                if error.kind() == heliox::ErrorKind::NotAStore
                    && self.report.entries_verified == 0 =>
            {
                Ok(())
            }
            Err(error) => Err(Failure::Store("the offline check", error)),
        }
    }
}

fn script(plan: &KillPlan, life: u32) -> Script {
    Script {
        seed: plan.seed,
        life,
        sizes: SIZES,
    }
}
