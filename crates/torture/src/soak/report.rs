//! A soak's outcome as a table for people and as JSON for programs.

use serde_json::{json, Map, Value};

use super::sample::Sample;
use super::verdict::medians;
use super::SoakReport;

const MIB: f64 = 1048576.0;

impl SoakReport {
    fn most(&self, of: fn(&Sample) -> u64) -> u64 {
        self.samples.iter().map(of).max().unwrap_or(0)
    }

    /// Sums a figure that starts again with each opening of the store.
    fn sum(&self, of: fn(&Sample) -> u64) -> u64 {
        let (mut sum, mut last) = (0, 0);
        for now in self.samples.iter().map(of) {
            sum += if now >= last { now - last } else { now };
            last = now;
        }
        sum
    }

    /// Live bytes, in percent of the capacity.
    fn full_percent(&self) -> f64 {
        let capacity = self.most(|s| s.capacity_bytes).max(1);
        let (_, live) = medians(&self.samples, |s| s.live_bytes);
        live as f64 * 100.0 / capacity as f64
    }

    /// What a reader wants to know, line by line.
    #[must_use]
    pub fn table(&self) -> String {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / MIB);
        let row = |name: &str, of: fn(&Sample) -> u64, limit: u64, show: &dyn Fn(u64) -> String| {
            let (early, late) = medians(&self.samples, of);
            format!(
                "{name:<34} {:>12} {:>12} {:>12} {:>12}\n",
                show(early),
                show(late),
                show(self.most(of)),
                show(limit)
            )
        };
        let number = |n: u64| n.to_string();
        let mut table = format!(
            "{:<34} {:>12} {:>12} {:>12} {:>12}\n",
            "", "2nd sixth", "last sixth", "most", "limit"
        );
        table += &row(
            "resident memory",
            |s| s.rss_bytes,
            self.limits.rss_bytes,
            &mib,
        );
        table += &row(
            "index, cache and tail",
            Sample::store_memory_bytes,
            self.limits.budget_bytes,
            &mib,
        );
        table += &row("file descriptors", |s| s.fds, self.limits.fds, &number);
        table += &row("threads", |s| s.threads, self.limits.threads, &number);
        table += &row(
            "files of the store",
            |s| s.store_files_bytes,
            self.limits.store_files_bytes,
            &mib,
        );
        table += &row(
            "longest gap between writes, ms",
            |s| s.longest_gap_ms,
            self.limits.gap_ms,
            &number,
        );
        let mut line = |name: &str, value: String| table += &format!("{name:<34} {value:>12}\n");
        line("full, in percent", format!("{:.1}", self.full_percent()));
        line("objects", number(medians(&self.samples, |s| s.objects).1));
        line("written by users", mib(self.sum(|s| s.user_bytes_written)));
        line("written to media", mib(self.sum(|s| s.media_bytes_written)));
        line("segments collected", number(self.sum(|s| s.gc_segments)));
        line("checkpoints", number(self.sum(|s| s.store_checkpoints)));
        line("longest reopening, ms", number(self.longest_reopen_ms));
        for (name, count) in &self.counts {
            line(&name.replace('_', " "), number(*count));
        }
        table
    }

    /// Everything, for a machine.
    #[must_use]
    pub fn json(&self) -> Value {
        let pair = |of: fn(&Sample) -> u64, limit: u64| {
            let (early, late) = medians(&self.samples, of);
            json!({ "second_sixth": early, "last_sixth": late, "most": self.most(of), "limit": limit })
        };
        let counts: Map<String, Value> = self
            .counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), json!(count)))
            .collect();
        json!({
            "soak": "done",
            "seed": self.plan.seed,
            "threads": self.plan.threads,
            "seconds": self.seconds,
            "fill_seconds": self.fill_seconds,
            "samples": self.samples.len(),
            "memory_budget_bytes": self.plan.memory_bytes,
            "capacity_bytes": self.plan.capacity_bytes,
            "full_percent": self.full_percent(),
            "rss_bytes": pair(|s| s.rss_bytes, self.limits.rss_bytes),
            "peak_rss_bytes": self.peak_rss_bytes,
            "store_memory_bytes": pair(Sample::store_memory_bytes, self.limits.budget_bytes),
            "fds": pair(|s| s.fds, self.limits.fds),
            "threads_open": pair(|s| s.threads, self.limits.threads),
            "store_files_bytes": pair(|s| s.store_files_bytes, self.limits.store_files_bytes),
            "backup_files_bytes": self.most(|s| s.backup_files_bytes),
            "longest_gap_ms": pair(|s| s.longest_gap_ms, self.limits.gap_ms),
            "longest_reopen_ms": self.longest_reopen_ms,
            "operations": self.most(|s| s.operations),
            "objects": self.most(|s| s.objects),
            "user_bytes_written": self.sum(|s| s.user_bytes_written),
            "media_bytes_written": self.sum(|s| s.media_bytes_written),
            "segments_collected": self.sum(|s| s.gc_segments),
            "checkpoints": self.sum(|s| s.store_checkpoints),
            "strangers_found": self.sum(|s| s.strangers_found),
            "checked_records": self.checked_records,
            "counts": counts,
            "violations": self.violations,
        })
    }
}
