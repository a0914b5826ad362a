//! The life of a store that will be killed: open, tell what is there, work, tell what was
//! acknowledged.
//!
//! Threads: each of the load has keys of its own and knows what they must hold, so it also checks
//! every answer it gets. One more drives checkpoints and collection beyond what is due. They share
//! the pipe, one write per record.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use heliox::{Step, Store};

use super::wire::{tell, Told};
use super::{options, Mode};
use crate::failure::{Failure, Result};
use crate::now_ns;
use crate::script::{Script, Sizes, KEYSPACES};
use crate::state::{note, ThreadState};
use crate::worker::Worker;

const TICK: Duration = Duration::from_millis(20);

/// What one life does.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The store.
    pub dir: PathBuf,
    /// The block device that it is on, if it is on one.
    pub device: Option<PathBuf>,
    /// When writes count as done.
    pub mode: Mode,
    /// Threads of the load.
    pub threads: u16,
    /// Decides all that the threads do.
    pub seed: u64,
    /// The number of this life.
    pub life: u32,
}

/// How large values are under a load that is killed.
pub(crate) const SIZES: Sizes = Sizes {
    most: 3000,
    large_one_in: 400,
    barrier_one_in: 3000,
};

/// Opens the store, and works until it is killed, or until its input ends: then it closes.
///
/// # Errors
/// Whatever the store refuses, and each answer of it that is wrong; told to the parent as well.
pub fn load(plan: &LoadPlan) -> Result<()> {
    let pipe = std::io::stdout();
    let pipe = pipe
        .as_fd()
        .try_clone_to_owned()
        .map_err(Failure::system("stdout"))?;
    let pipe = File::from(pipe);
    let result = live(plan, &pipe);
    if let Err(failure) = &result {
        // Nobody may be there to hear it.
        let _ = tell(&pipe, &Told::Complaint(failure.to_string()));
    }
    result
}

fn live(plan: &LoadPlan, pipe: &File) -> Result<()> {
    let options = options(plan.mode, plan.device.as_deref());
    let store = Store::open(&plan.dir, &options).map_err(Failure::store("open"))?;
    let damage = store.damage();
    if !damage.is_empty() {
        return Err(Failure::Violation(format!(
            "damage after a kill: {damage:?}"
        )));
    }
    let states = tell_all(&store, pipe, plan.threads)?;
    let script = Script {
        seed: plan.seed,
        life: plan.life,
        sizes: SIZES,
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (thread, state) in states.into_iter().enumerate() {
            let worker = Worker::new(&store, script, thread as u16, plan.threads, state);
            let worker = worker.map_err(Failure::store("keyspace"))?;
            let stop = &stop;
            workers.push(scope.spawn(move || work(worker, pipe, stop)));
        }
        let (store, stop) = (&store, &stop);
        let drive = scope.spawn(move || drive(store, pipe, plan.seed ^ u64::from(plan.life), stop));
        scope.spawn(move || {
            // Ends when the parent is done with this life, or is gone.
            let _ = std::io::stdin().read(&mut [0]);
            stop.store(true, Ordering::Relaxed);
        });
        let all = workers.into_iter().chain([drive]);
        let ended = all.map(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => Err(Failure::Violation(
                "a thread of the load panicked".to_owned(),
            )),
        });
        // A worker that found something wrong ends the process at once, so all is well or over.
        ended.collect::<Result<Vec<()>>>()
    })?;
    store.close().map_err(Failure::store("close"))
}

/// Tells everything that the store holds; gives it in terms of the model.
fn tell_all(store: &Store, pipe: &File, threads: u16) -> Result<Vec<ThreadState>> {
    let mut states = vec![ThreadState::default(); usize::from(threads)];
    let mut out = BufWriter::with_capacity(1 << 16, pipe);
    let lost = Failure::system("the pipe to the parent");
    let told = (|| -> Result<std::io::Result<()>> {
        for (number, name) in KEYSPACES.iter().enumerate() {
            let keyspace = store
                .keyspace_or_create(name)
                .map_err(Failure::store("keyspace"))?;
            let items = keyspace.iter().start().map_err(Failure::store("iterate"))?;
            for item in items {
                let (key, value) = item.map_err(Failure::store("iterate"))?;
                note(&mut states, number as u8, &key, &value).map_err(Failure::Violation)?;
                let keyspace = number as u8;
                if let Err(error) = tell(
                    &mut out,
                    &Told::Held {
                        keyspace,
                        key,
                        value,
                    },
                ) {
                    return Ok(Err(error));
                }
            }
        }
        Ok(tell(&mut out, &Told::Ready).and_then(|()| out.flush()))
    })()?;
    told.map_err(lost)?;
    Ok(states)
}

/// Collection and checkpoints beyond what is due, so that a kill meets them.
fn drive(store: &Store, pipe: &File, seed: u64, stop: &AtomicBool) -> Result<()> {
    let mut random = heliox_media::Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
        let step = match random.below(8) {
            0 => Step::Checkpoint,
            1 | 2 => Step::Seal,
            3 => Step::Sweep,
            _ => Step::Collect,
        };
        if let Err(error) = store.step_of(step) {
            give_up(pipe, &Failure::Store("a step of background work", error));
        }
        let stats = store.stats();
        let figures = Told::Figures {
            collected: stats.gc_segments,
            checkpoints: stats.checkpoints,
        };
        tell(pipe, &figures).map_err(Failure::system("the pipe to the parent"))?;
    }
    Ok(())
}

/// Tells what is wrong and ends the process: nothing after it means anything.
fn give_up(pipe: &File, failure: &Failure) -> ! {
    let _ = tell(pipe, &Told::Complaint(failure.to_string()));
    std::process::exit(3);
}

/// Does one operation after the other until told to stop.
fn work(mut worker: Worker, pipe: &File, stop: &AtomicBool) -> Result<()> {
    let thread = worker.thread();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let issued_ns = now_ns();
        let done = worker.run(number);
        let acknowledged_ns = now_ns();
        let told = match done {
            Ok(()) => tell(
                pipe,
                &Told::Acknowledged {
                    thread,
                    number,
                    issued_ns,
                    acknowledged_ns,
                },
            ),
            Err(failure) => give_up(pipe, &failure),
        };
        if told.is_err() {
            // The parent is gone; nobody wants to know.
            std::process::exit(4);
        }
    }
    Ok(())
}
