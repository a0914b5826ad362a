//! What papers tell of a store, and where a row of results has the same. Plain data, no threads.

use heliox_bench::{short, thousands};
use serde_json::Value;

/// A figure that a paper tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quantity {
    /// Operations a second; where a latency limit is given, the highest within it, if one was found.
    Rate,
    /// The rate divided by that of the suite's last part, in which all data are in memory.
    ToMemory,
    /// The share of the reads that did not wait for media.
    FromMemory,
    /// Mean latency, in microseconds.
    Mean,
    /// 99 % of the calls were not slower, in microseconds.
    P99,
    /// 99.9 %.
    P999,
    /// 99.99 %.
    P9999,
    /// 99.9 % of the calls that read were not slower, in microseconds.
    ReadP999,
    /// 99.9 % of the calls that wrote.
    WriteP999,
    /// Bytes written to media for each operation, reads included.
    WrittenPerOp,
    /// Operations a second, divided by RocksDB's.
    RateToPeer,
    /// The 99.9th percentile of reads, divided by RocksDB's.
    ReadP999ToPeer,
    /// The same of writes.
    WriteP999ToPeer,
    /// Bytes written to media for each operation, divided by RocksDB's.
    WrittenToPeer,
    /// Entries read a second.
    EntryRate,
    /// Seconds until a store that is opened has answered a read.
    OpenSeconds,
    /// The most memory of the process for each key, in bytes.
    MemoryPerObject,
    /// What the store occupies for each key, in bytes.
    SpacePerObject,
    /// The longest time in which no write was completed, in milliseconds.
    LongestStall,
    /// Microseconds of a processor for each operation, background work included.
    ProcessorTime,
    /// Reads of media that operations waited for, as a share of the raw device's at a depth of as many
    /// threads.
    ShareOfDevice,
    /// Bytes written to media for each byte of keys and values written.
    WriteAmplification,
    /// Bytes read from media for each byte of keys and values found.
    ReadAmplification,
    /// Memory of the index for each object, in bytes.
    IndexBytes,
}

impl Quantity {
    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Quantity::Rate => "ops/s",
            Quantity::ToMemory => "rate to all in memory",
            Quantity::FromMemory => "share from memory",
            Quantity::Mean => "mean us",
            Quantity::P99 => "p99 us",
            Quantity::P999 => "p99.9 us",
            Quantity::P9999 => "p99.99 us",
            Quantity::ReadP999 => "p99.9 of reads us",
            Quantity::WriteP999 => "p99.9 of writes us",
            Quantity::WrittenPerOp => "written B/op",
            Quantity::RateToPeer => "rate to RocksDB's",
            Quantity::ReadP999ToPeer => "p99.9 of reads to RocksDB's",
            Quantity::WriteP999ToPeer => "p99.9 of writes to RocksDB's",
            Quantity::WrittenToPeer => "written B/op to RocksDB's",
            Quantity::EntryRate => "entries/s",
            Quantity::OpenSeconds => "seconds to open",
            Quantity::MemoryPerObject => "memory B/object",
            Quantity::SpacePerObject => "space B/object",
            Quantity::LongestStall => "longest stall ms",
            Quantity::ProcessorTime => "cpu us/op",
            Quantity::ShareOfDevice => "reads to the raw device's",
            Quantity::WriteAmplification => "write amplification",
            Quantity::ReadAmplification => "read amplification",
            Quantity::IndexBytes => "index B/object",
        }
    }

    /// What a row has of it, of what is divided the dividend; `None` where the engine does not tell.
    pub(crate) fn of(self, row: &Value) -> Option<f64> {
        let figure = |name: &str| row.get(name).and_then(Value::as_f64);
        let each = |sum: &str, count: &str| {
            let count = figure(count).filter(|count| *count > 0.0)?;
            Some(figure(sum)? / count)
        };
        match self {
            Quantity::Rate | Quantity::ToMemory | Quantity::RateToPeer => {
                match row.get("latency_limit") {
                    Some(Value::Object(search)) => search.get("found_rate")?.as_f64(),
                    _ => figure("ops_per_s"),
                }
            }
            Quantity::FromMemory => figure("memory_share"),
            Quantity::Mean => figure("mean_us"),
            Quantity::P99 => figure("p99_us"),
            Quantity::P999 => figure("p999_us"),
            Quantity::P9999 => figure("p9999_us"),
            Quantity::ReadP999 | Quantity::ReadP999ToPeer => {
                row.pointer("/reads/p999_us")?.as_f64()
            }
            Quantity::WriteP999 | Quantity::WriteP999ToPeer => {
                row.pointer("/writes/p999_us")?.as_f64()
            }
            Quantity::WrittenPerOp | Quantity::WrittenToPeer => each("media_bytes_written", "ops"),
            Quantity::EntryRate => each("entries_read", "seconds"),
            Quantity::OpenSeconds => figure("open_seconds"),
            Quantity::MemoryPerObject => each("peak_rss_bytes", "num"),
            Quantity::SpacePerObject => each("disk_bytes", "num"),
            Quantity::LongestStall => figure("longest_stall_ms"),
            Quantity::ProcessorTime => figure("cpu_us_per_op"),
            Quantity::ShareOfDevice => figure("raw_device_share"),
            Quantity::WriteAmplification => figure("write_amplification"),
            Quantity::ReadAmplification => {
                let each = figure("key_size")? + figure("value_size")?;
                let found = figure("found").filter(|found| *found > 0.0)?;
                Some(figure("kernel_read_bytes")? / (found * each))
            }
            Quantity::IndexBytes => figure("index_bytes_per_object"),
        }
    }

    /// Whether it is held against the same of RocksDB.
    pub(crate) const fn is_to_peer(self) -> bool {
        matches!(
            self,
            Quantity::RateToPeer
                | Quantity::ReadP999ToPeer
                | Quantity::WriteP999ToPeer
                | Quantity::WrittenToPeer
        )
    }

    /// Its value for people.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Quantity::Rate | Quantity::EntryRate | Quantity::WrittenPerOp => thousands(value),
            Quantity::Mean
            | Quantity::P99
            | Quantity::P999
            | Quantity::P9999
            | Quantity::ReadP999
            | Quantity::WriteP999
            | Quantity::LongestStall
            | Quantity::ProcessorTime => short(value),
            Quantity::OpenSeconds => format!("{value:.3}"),
            Quantity::RateToPeer
            | Quantity::ReadP999ToPeer
            | Quantity::WriteP999ToPeer
            | Quantity::WrittenToPeer
            | Quantity::ToMemory
            | Quantity::FromMemory
            | Quantity::ShareOfDevice => {
                format!("{value:.2}")
            }
            Quantity::WriteAmplification | Quantity::ReadAmplification => format!("{value:.3}"),
            Quantity::IndexBytes | Quantity::MemoryPerObject | Quantity::SpacePerObject => {
                format!("{value:.1}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_are_amplified_against_what_they_found() {
        let mut row = json!({
            "key_size": 16, "value_size": 84, "found": 50, "kernel_read_bytes": 20_480, "p99_us": 7,
        });
        assert_eq!(Quantity::ReadAmplification.of(&row), Some(4.096));
        assert_eq!(Quantity::P99.of(&row), Some(7.0));
        assert_eq!(Quantity::IndexBytes.of(&row), None);
        let per_object =
            json!({ "num": 10, "disk_bytes": 1250, "reads": { "p999_us": 3.5 }, "writes": null });
        assert_eq!(Quantity::SpacePerObject.of(&per_object), Some(125.0));
        assert_eq!(Quantity::MemoryPerObject.of(&per_object), None);
        assert_eq!(Quantity::ReadP999.of(&per_object), Some(3.5));
        assert_eq!(Quantity::WriteP999.of(&per_object), None);
        row["found"] = json!(0);
        assert_eq!(Quantity::ReadAmplification.of(&row), None);
    }

    #[test]
    fn within_a_limit_the_rate_is_the_one_that_was_found() {
        let mut row = json!({ "ops_per_s": 7.0, "latency_limit": null });
        assert_eq!(Quantity::Rate.of(&row), Some(7.0));
        row["latency_limit"] = json!({ "found_rate": 5000 });
        assert_eq!(Quantity::Rate.of(&row), Some(5000.0));
        row["latency_limit"] = json!({ "found_rate": null });
        assert_eq!(Quantity::Rate.of(&row), None);
    }
}
