//! Who is told how a benchmark goes on. Plain data, no threads.

use std::time::Duration;

use crate::search::Trial;
use crate::workload::Workload;

/// How far a workload is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The workload.
    pub workload: Workload,
    /// Operations done so far.
    pub ops: u64,
    /// Operations in all; `None` when a time ends the workload.
    pub total_ops: Option<u64>,
    /// The rate at which they are offered, if they are.
    pub rate: Option<u64>,
    /// Time since the workload began.
    pub elapsed: Duration,
}

/// Is told how a workload goes on, in the thread that runs the benchmark.
pub trait Observer {
    /// About ten times a second while a workload runs.
    fn progress(&mut self, progress: &Progress);
    /// The operations are done; the engine is made to settle.
    fn settling(&mut self, workload: Workload);
    /// A rate was tried, in the search for the highest within a limit.
    fn tried(&mut self, _workload: Workload, _trial: &Trial) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
    fn settling(&mut self, _: Workload) {}
}
