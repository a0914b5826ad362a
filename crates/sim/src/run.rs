//! Drives one run: events in order, on a thread of its own, until the end or a broken promise.
//!
//! Invariant: nothing but setup and events decides what happens, so the same script gives the same
//! run, byte for byte; [`Report::digest`] tells. A panic anywhere is a broken promise.

use std::sync::{Arc, Weak};
use std::time::Duration;

use heliox::Step;
use heliox_media::Random;
use parking_lot::Mutex;

use crate::script::{Event, Setup};
use crate::world::{Checked, Counts, World};

/// Time that passes with every event.
const EVENT_TIME: Duration = Duration::from_micros(2);
/// Events between two looks of the flusher.
const FLUSH_EVERY: usize = 16;
/// Events that a failed store still serves before the power goes.
const EVENTS_AFTER_FAILURE: u32 = 24;

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// What was done.
    pub counts: Counts,
    /// The first broken promise, in words.
    pub violation: Option<String>,
    /// The event at which it showed; without one, how many there were.
    pub events: usize,
    /// A sum over everything that reached the device, in order.
    pub digest: u64,
}

/// Runs a script on a thread of its own.
#[must_use]
pub fn replay(setup: &Setup, events: &[Event]) -> Report {
    let ended = std::thread::scope(|scope| {
        let run = std::thread::Builder::new().stack_size(8 << 20);
        let run = run.spawn_scoped(scope, || drive(setup, events));
        run.ok().map(|thread| thread.join())
    });
    match ended {
        Some(Ok(report)) => report,
        Some(Err(panic)) => {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Report {
                violation: Some(format!("panic: {}", words.unwrap_or_default())),
                events: events.len(),
                ..Report::default()
            }
        }
        None => Report {
            violation: Some("no thread for the run".to_owned()),
            ..Report::default()
        },
    }
}

fn drive(setup: &Setup, events: &[Event]) -> Report {
    heliox_media::keep_large_buffers();
    let world = match World::new(setup, events.iter().any(Event::damages)) {
        Ok(world) => Arc::new(Mutex::new(world)),
        Err(error) => {
            return Report {
                violation: Some(error),
                ..Report::default()
            }
        }
    };
    let weak = Arc::downgrade(&world);
    let turn = move || take_turn(&weak);
    world.lock().clock.set_turn(Some(Arc::new(turn)));
    let mut report = Report::default();
    let done = all_events(&world, events, &mut report.events);
    let mut world = world.lock();
    world.clock.set_turn(None);
    report.violation = done.err().or(world.violation.take());
    world.counts.faults = world.media.fired();
    report.counts = world.counts;
    report.digest = world.media.digest();
    // A store left open would write to its device on its way out.
    world.media.power_off(0);
    world.snapshots.clear();
    world.store = None;
    report
}

/// In a pause of a step: the operations that wait for it.
fn take_turn(world: &Weak<Mutex<World>>) {
    let Some(world) = world.upgrade() else {
        return;
    };
    // Locked: an operation itself is collecting. Nothing comes between then.
    let Some(mut world) = world.try_lock() else {
        return;
    };
    world.pause += 1;
    while let Some((pause, event)) = world.waiting.front().copied() {
        if pause > world.pause || world.violation.is_some() {
            return;
        }
        world.waiting.pop_front();
        world.counts.interleaved += 1;
        if let Err(violation) = world.operate(event) {
            let words = format!("in pause {}: {violation}", world.pause);
            world.violation = Some(words);
        }
    }
}

fn all_events(world: &Arc<Mutex<World>>, events: &[Event], done: &mut usize) -> Checked {
    let mut n = 0;
    // Faults in the creation of the store.
    while let Some(Event::ArmOpen(volume, fault)) = events.get(n) {
        world.lock().open_faults.push((*volume, *fault));
        n += 1;
    }
    world.lock().open()?;
    let mut failing = 0;
    while let Some(event) = events.get(n) {
        *done = n;
        n += 1;
        match event {
            Event::Run(step) => {
                n += queue_pauses(world, events.get(n..).unwrap_or_default());
                run_step(world, *step)?;
            }
            other => world.lock().event(*other)?,
        }
        let mut world = world.lock();
        if let Some(violation) = world.violation.take() {
            return Err(violation);
        }
        world.clock.tick(EVENT_TIME);
        if n % FLUSH_EVERY == 0 && !world.is_failed {
            world.flush()?;
        }
        failing = if world.is_failed { failing + 1 } else { 0 };
        let has_no_power = world.media.is_off();
        if has_no_power || failing > EVENTS_AFTER_FAILURE {
            let image = Random::new(n as u64 ^ world.setup.seed).next();
            let (image, again, again_image) = world.crash_due.unwrap_or((image, 0, 0));
            world.crash(image, again, again_image)?;
        }
        if world.is_over {
            return Ok(());
        }
    }
    *done = events.len();
    finish(&mut world.lock())
}

/// At the end all is compared once more, and the store closed, checked and opened.
fn finish(world: &mut World) -> Checked {
    if let Some((image, again, again_image)) = world.crash_due {
        world.crash(image, again, again_image)?;
    }
    if world.is_over {
        return Ok(());
    }
    world.read(Event::Compare)?;
    world.reopen()
}

/// Takes the operations that are to come between; gives how many events that were.
fn queue_pauses(world: &Arc<Mutex<World>>, events: &[Event]) -> usize {
    let mut world = world.lock();
    let mut taken = 0;
    while let [Event::InPause(pause), event, ..] = events.get(taken..).unwrap_or_default() {
        world.waiting.push_back((*pause, *event));
        taken += 2;
    }
    taken
}

/// Runs a step with the world unlocked, so that others may come between.
fn run_step(world: &Arc<Mutex<World>>, step: Step) -> Checked {
    let store = {
        let mut world = world.lock();
        world.pause = 0;
        match world.is_failed {
            true => None,
            false => world.store.clone(),
        }
    };
    let done = store.map_or(Ok(()), |store| store.step_of(step).map(|_| ()));
    let mut world = world.lock();
    // What found no pause happens after the step.
    while let Some((_, event)) = world.waiting.pop_front() {
        world.operate(event)?;
    }
    if step == Step::Scrub {
        return world.after_scrub(done);
    }
    world.after_step(step_name(step), done)
}

fn step_name(step: Step) -> &'static str {
    match step {
        Step::Flush => "the flusher's step",
        Step::Collect => "a collection step",
        Step::Upkeep => "an upkeep step",
        Step::Sweep => "a sweep",
        Step::Checkpoint => "a checkpoint",
        Step::Seal => "sealing",
        Step::Scrub => "a scrub",
    }
}

impl World {
    /// Does one event that is no background step.
    fn event(&mut self, event: Event) -> Checked {
        match event {
            Event::Reopen => self.reopen(),
            Event::Tick(micros) => self.tick(micros),
            Event::Arm(volume, fault) => {
                self.media.arm(volume, fault);
                Ok(())
            }
            Event::ArmOpen(volume, fault) => {
                self.open_faults.push((volume, fault));
                Ok(())
            }
            Event::Rot(zone, pick) => self.rot(zone, pick),
            Event::Crash(after, image, again, again_image) => {
                if after == 0 || self.crash_due.is_some() {
                    return self.crash(image, again, again_image);
                }
                self.media.power_off(after);
                self.crash_due = Some((image, again, again_image));
                Ok(())
            }
            // A pause without its step.
            Event::InPause(_) | Event::Run(_) => Ok(()),
            operation => self.operate(operation),
        }
    }
}
