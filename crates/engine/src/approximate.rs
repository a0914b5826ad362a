//! How much a range holds: by the index, and where it holds few keys, by reading them.
//!
//! The index tells keys apart by parts of them, and those of a small keyspace, which shares its leaf with
//! others, hardly at all.

use std::sync::Arc;

use heliox_format::ids::KeyspaceId;
use heliox_index::Direction;

use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::scan::{Bounds, Scan};
use crate::snapshot::SnapshotGuard;

/// Up to so many keys are counted one by one.
const COUNTED_MAX: u64 = 256;

/// About how many keys are in `[from, to)`, and how many bytes they take.
pub(crate) fn run(
    core: &Arc<Core>,
    keyspace: KeyspaceId,
    from: &[u8],
    to: &[u8],
) -> Result<(u64, u64)> {
    let internal = |key: &[u8]| [&keyspace.0.to_be_bytes()[..], key].concat();
    let index = &core.index;
    let told = index.approximate_count(&internal(from), Some(&internal(to)));
    let by_mean = |count: u64| Ok((count, count * core.mean_record_bytes()));
    if told.count > COUNTED_MAX || told.most == 0 {
        return by_mean(told.count);
    }
    let bounds = Bounds {
        keyspace,
        from: from.to_vec(),
        to: Some(to.to_vec()),
    };
    let snapshot = Arc::new(SnapshotGuard::take(core));
    let limit = Some(COUNTED_MAX as usize + 1);
    let mut scan = Scan::new(
        Arc::clone(core),
        snapshot,
        bounds,
        Direction::Forward,
        true,
        limit,
    );
    scan.leave_all_where_it_is();
    let mut seen = 0;
    while seen <= COUNTED_MAX {
        match scan.next() {
            Ok(None) => return Ok((seen, scan.passed_bytes())),
            Ok(Some(_)) => seen += 1,
            Err(error) if error.kind() == ErrorKind::Damaged => seen += 1,
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => return by_mean(told.count),
            Err(error) => return Err(error),
        }
    }
    // Somewhere between what was seen and what may be there.
    by_mean(seen.midpoint(told.most.max(seen)))
}
