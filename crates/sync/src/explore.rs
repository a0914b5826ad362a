//! Runs a test under many schedules, each decided by a number.
//!
//! Three kinds take turns, since each finds what the others hardly do: at every point any thread
//! alike; bursts, where a thread goes on until a rare chance takes its turn; and priorities that
//! change at a few points (PCT), where one thread is held up for as long as the others have work.
//! All choices of a schedule follow from its number, so a failure is run again by that number alone.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::scheduled::set_patient;

/// The number of schedules of each test, instead of its own.
const ITERATIONS: &str = "HELIOX_SHUTTLE_ITERATIONS";
/// The number of the first schedule; with one iteration, that schedule alone.
const SEED: &str = "HELIOX_SHUTTLE_SEED";
/// Threads run the whole engine on their stacks.
const STACK_BYTES: usize = 1 << 20;
/// A schedule that is longer goes round in circles.
const STEPS_MAX: usize = 2_000_000;
/// Change points of a schedule by priorities, at most.
const CHANGES_MAX: u64 = 6;

/// What to explore.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Schedules, unless the environment says otherwise.
    pub schedules: u64,
    /// Timed waits never end by their time: who relies on being woken is found out.
    pub patient: bool,
}

/// Runs `test` under all schedules of a plan, with the number of each.
///
/// # Panics
/// As `test` does, or if all its threads wait for one another, or a schedule never ends; with the
/// number of the schedule.
pub fn explore(plan: Plan, test: impl Fn(u64) + Send + Sync + 'static) {
    let from_environment = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = from_environment(SEED).unwrap_or(1);
    let count: u64 = from_environment(ITERATIONS).unwrap_or(plan.schedules);
    let current = Arc::new(AtomicU64::new(first));
    let scheduler = Numbered {
        current: Arc::clone(&current),
        next: first,
        end: first.saturating_add(count),
        random: Random(0),
        kind: Kind::Uniform,
    };
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    set_patient(plan.patient);
    let number = Arc::clone(&current);
    let numbered = move || test(number.load(Ordering::Relaxed));
    let run = || Runner::new(scheduler, config).run(numbered);
    let ended = catch_unwind(AssertUnwindSafe(run));
    set_patient(false);
    match ended {
        Ok(run) => println!("{run} schedules, from number {first}"),
        Err(panic) => {
            let number = current.load(Ordering::Relaxed);
            eprintln!("schedule {number}; again: {SEED}={number} {ITERATIONS}=1");
            resume_unwind(panic);
        }
    }
}

/// Numbers that follow from a seed (SplitMix64).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// How a schedule chooses.
#[derive(Debug)]
enum Kind {
    Uniform,
    /// The turn ends once in so many points.
    Bursts(u64),
    Priorities {
        /// Of each thread by its number; the highest runs.
        of: Vec<u64>,
        /// Points at which the running thread falls behind all others.
        changes: Vec<u64>,
        /// Points with a choice so far.
        points: u64,
        /// Falls with each change.
        lowest: u64,
    },
}

#[derive(Debug)]
struct Numbered {
    current: Arc<AtomicU64>,
    next: u64,
    end: u64,
    random: Random,
    kind: Kind,
}

impl Numbered {
    fn draw_kind(random: &mut Random) -> Kind {
        match random.below(3) {
            0 => Kind::Uniform,
            1 => Kind::Bursts(2 << random.below(8)),
            _ => {
                // How long a schedule is shows only as it runs: all magnitudes are tried.
                let length = 64u64 << random.below(9);
                let changes = 1 + random.below(CHANGES_MAX);
                Kind::Priorities {
                    of: Vec::new(),
                    changes: (0..changes).map(|_| random.below(length)).collect(),
                    points: 0,
                    lowest: u64::MAX >> 1,
                }
            }
        }
    }
}

impl Scheduler for Numbered {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.next == self.end {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.current.store(number, Ordering::Relaxed);
        self.random = Random(number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        self.kind = Numbered::draw_kind(&mut self.random);
        Some(Schedule::new(number))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let random = &mut self.random;
        if let [only] = runnable {
            return Some(only.id());
        }
        let may_go_on = current.filter(|c| !is_yielding && runnable.iter().any(|t| t.id() == *c));
        match &mut self.kind {
            Kind::Bursts(turn) if random.below(*turn) > 0 && may_go_on.is_some() => may_go_on,
            Kind::Uniform | Kind::Bursts(_) => {
                let chosen = runnable.get(random.below(runnable.len() as u64) as usize);
                chosen.map(|task| task.id())
            }
            Kind::Priorities {
                of,
                changes,
                points,
                lowest,
            } => {
                let most = runnable.iter().map(|t| usize::from(t.id())).max();
                while of.len() <= most.unwrap_or(0) {
                    of.push(random.next() | 1 << 63);
                }
                *points += 1;
                let changes_now = changes.contains(points);
                if let Some(current) = current.filter(|_| is_yielding || changes_now) {
                    *lowest -= 1;
                    if let Some(priority) = of.get_mut(usize::from(current)) {
                        *priority = *lowest;
                    }
                }
                let priority = |task: &&&Task| of.get(usize::from(task.id())).copied();
                runnable.iter().max_by_key(priority).map(|task| task.id())
            }
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}
