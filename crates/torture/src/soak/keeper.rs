//! The thread that keeps the store of a run: checkpoints, backups, restores in a process of their
//! own, and every few minutes a close and an open. Its own thread only.

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use heliox::{BackupOptions, Store};

use super::run::{Kind, Run};
use crate::failure::{Failure, Result};

/// How often it looks whether something is due.
const LOOK: Duration = Duration::from_millis(20);
/// Backups that are kept.
const BACKUPS_KEPT: u64 = 2;
/// Of so many backups one is restored and verified.
const BACKUPS_PER_RESTORE: u64 = 4;

/// Something that is due again and again.
struct Due {
    every: Duration,
    next: Instant,
}

impl Due {
    fn every(run: Duration, parts: u32, least: Duration) -> Due {
        let every = (run / parts).max(least);
        Due {
            every,
            next: Instant::now() + every,
        }
    }

    /// True if it is due now: then it is due again later.
    fn is_now(&mut self) -> bool {
        let is = Instant::now() >= self.next;
        if is {
            self.next = Instant::now() + self.every;
        }
        is
    }
}

/// Opens the store of the run.
pub(crate) fn open(run: &Run) -> Result<()> {
    let options = run.plan.options();
    let store = Store::open(run.store_dir(), &options).map_err(Failure::store("open"))?;
    *run.store.write().unwrap_or_else(PoisonError::into_inner) = Some(store);
    Ok(())
}

/// Closes it. Every other time only by letting go of it, which closes it too.
pub(crate) fn close(run: &Run, in_words: bool) -> Result<()> {
    let taken = run
        .store
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match taken {
        Some(store) if in_words => store.close().map_err(Failure::store("close")),
        _ => Ok(()),
    }
}

/// Keeps the store until the run ends.
pub(crate) fn keep(run: &Run) -> Result<()> {
    let whole = run.plan.duration;
    let mut checkpoint = Due::every(whole, 120, Duration::from_millis(700));
    let mut backup = Due::every(whole, 24, Duration::from_millis(1500));
    let mut reopen = Due::every(whole, 16, Duration::from_millis(900));
    let (mut backups, mut reopens) = (0, 0);
    while !run.is_stopped() {
        if checkpoint.is_now() {
            let store = run.store()?;
            store.checkpoint().map_err(Failure::store("checkpoint"))?;
            run.count(Kind::Checkpoint, 1);
        } else if backup.is_now() {
            back_up(run)?;
            backups += 1;
            if backups % BACKUPS_PER_RESTORE == 1 {
                restore(run)?;
            }
        } else if reopen.is_now() {
            reopens += 1;
            self::reopen(run, reopens % 2 == 0)?;
        } else {
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

fn reopen(run: &Run, in_words: bool) -> Result<()> {
    run.gate.close(usize::from(run.plan.threads));
    let begun = Instant::now();
    let reopened = close(run, in_words).and_then(|()| open(run));
    let taken = begun.elapsed().as_nanos() as u64;
    run.longest_closed_ns.fetch_max(taken, Ordering::Relaxed);
    run.resume();
    run.gate.open();
    run.count(Kind::Reopen, 1);
    reopened
}

fn back_up(run: &Run) -> Result<()> {
    let options = BackupOptions::new().keep(BACKUPS_KEPT);
    let store = run.store()?;
    store
        .backup(run.set_dir(), &options, &mut |_| {})
        .map_err(Failure::store("backup"))?;
    run.count(Kind::Backup, 1);
    Ok(())
}

/// Restores the newest backup, and reads it whole, in another process: its memory is not the
/// store's.
fn restore(run: &Run) -> Result<()> {
    let failed = || Failure::system(run.plan.program.display().to_string());
    let mut child = Command::new(&run.plan.program)
        .arg("soak-restore")
        .arg("--dir")
        .arg(&run.plan.dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed())?;
    while child.try_wait().map_err(failed())?.is_none() {
        std::thread::sleep(LOOK);
        if run.is_stopped() {
            child.kill().map_err(failed())?;
            return child.wait().map(drop).map_err(failed());
        }
    }
    let output = child.wait_with_output().map_err(failed())?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Violation(format!("a restore: {}", words.trim())));
    }
    run.count(Kind::Restore, 1);
    Ok(())
}
