//! The core workloads of YCSB, A to F: which operation comes next, and on which key.
//!
//! Mixes and distributions are those of the files `workloada` to `workloadf` of YCSB. A record has
//! one field, so that an update writes the whole value; an operation that reads, then writes
//! counts once. No state of its own.

use crate::draw::Distribution;
use crate::engine::{Engine, EngineError};
use crate::mix::{below, mix2};
use crate::worker::Worker;
use crate::workload::Workload;

/// Entries of a scan of workload E: 1 to this many, uniformly.
const SCAN_ENTRIES_MAX: u64 = 100;

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    ReadLatest,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// The frequent operation of a workload, its share in percent, and the other one.
fn mix(workload: Workload) -> (Kind, u64, Kind) {
    match workload {
        Workload::YcsbA => (Kind::Read, 50, Kind::Update),
        Workload::YcsbB => (Kind::Read, 95, Kind::Update),
        Workload::YcsbD => (Kind::ReadLatest, 95, Kind::Insert),
        Workload::YcsbE => (Kind::Scan, 95, Kind::Insert),
        Workload::YcsbF => (Kind::Read, 50, Kind::ReadModifyWrite),
        _ => (Kind::Read, 100, Kind::Read),
    }
}

fn kind(workload: Workload, roll: u64) -> Kind {
    let (often, percent, seldom) = mix(workload);
    if below(roll, 100) < percent {
        often
    } else {
        seldom
    }
}

impl<E: Engine + ?Sized> Worker<'_, E> {
    /// The operation of a number.
    pub(crate) fn ycsb(&mut self, op: u64) -> Result<(), EngineError> {
        let plan = self.plan;
        let hash = mix2(plan.draw_seed, op);
        match kind(plan.workload, mix2(!plan.draw_seed, op)) {
            Kind::Read => self.get(self.item(Distribution::Zipfian, hash), 1),
            Kind::ReadLatest => self.get(self.item(Distribution::Latest, hash), 1),
            Kind::Update => {
                let index = self.item(Distribution::Zipfian, hash);
                self.put(index, self.version(op))
            }
            Kind::Insert => self.insert(op),
            Kind::Scan => {
                let entries = 1 + below(mix2(hash, op), SCAN_ENTRIES_MAX);
                self.scan(self.item(Distribution::Zipfian, hash), entries as usize)
            }
            Kind::ReadModifyWrite => {
                let index = self.item(Distribution::Zipfian, hash);
                self.get(index, 0)?;
                self.put(index, self.version(op))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::mix64;

    #[test]
    fn each_workload_mixes_as_ycsb_says() {
        for (workload, wanted, percent) in [
            (Workload::YcsbA, Kind::Update, 50.0),
            (Workload::YcsbB, Kind::Update, 5.0),
            (Workload::YcsbC, Kind::Read, 100.0),
            (Workload::YcsbD, Kind::Insert, 5.0),
            (Workload::YcsbE, Kind::Insert, 5.0),
            (Workload::YcsbF, Kind::ReadModifyWrite, 50.0),
        ] {
            let rolls = (0..100_000).map(|op| kind(workload, mix64(op)));
            let share = rolls.filter(|kind| *kind == wanted).count() as f64 / 1000.0;
            assert!((share - percent).abs() < 0.5, "{workload}: {share}");
        }
    }
}
