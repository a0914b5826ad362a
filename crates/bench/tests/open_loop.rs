//! Operations offered at a rate: from when their latency counts, and what is said of an engine that
//! does not keep up. Delays are put in on purpose, and only what they make certain is asserted.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heliox_bench::{
    rows_to_json, rows_to_table, trials_to_table, Bench, Config, Engine, EngineError, Observer,
    Progress, Row, Silent, Trial, Workload,
};

/// Does nothing, and that slowly where it is told to.
#[derive(Default)]
struct Slow {
    gets: AtomicU64,
    puts: AtomicU64,
    /// Reads by others while one stalled.
    gets_in_stall: AtomicU64,
    /// The read of this number takes so long.
    stall: Option<(u64, Duration)>,
    every_read: Duration,
    every_write: Duration,
}

impl Engine for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn put(&self, _: &[u8], _: &[u8]) -> Result<(), EngineError> {
        self.puts.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.every_write);
        Ok(())
    }

    fn get(&self, _: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        value.clear();
        let number = self.gets.fetch_add(1, Ordering::Relaxed);
        let stall = self.stall.filter(|(at, _)| *at == number);
        let time = stall.map_or(self.every_read, |(_, time)| time);
        if !time.is_zero() {
            std::thread::sleep(time);
        }
        if stall.is_some() {
            let now = self.gets.load(Ordering::Relaxed);
            self.gets_in_stall.store(now - number, Ordering::Relaxed);
        }
        Ok(true)
    }

    fn put_batch(&self, _: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        Ok(())
    }

    fn delete(&self, _: &[u8]) -> Result<(), EngineError> {
        Ok(())
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), EngineError> {
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        Ok(())
    }
}

fn config(workload: Workload, num: u64, rate: Option<u64>) -> Config {
    Config {
        workloads: vec![workload],
        num,
        rate,
        value_bytes: 10,
        ..Config::new()
    }
}

fn run(engine: &Slow, config: Config) -> Row {
    let bench = Bench::new(engine, config).unwrap();
    bench.run_all(&mut Silent).unwrap().remove(0)
}

#[test]
fn a_stall_counts_for_every_operation_that_fell_due_in_it() {
    let stall = Some((50, Duration::from_millis(100)));
    let engine = || Slow {
        stall,
        ..Slow::default()
    };
    // Of 300 operations at 1,000 a second about 100 fall due in the stall, half of them so early
    // that they wait for 50 ms and more: one in six.
    let open = run(&engine(), config(Workload::ReadRandom, 300, Some(1000)));
    assert_eq!((open.ops, open.reads.calls), (300, 300));
    assert!(open.calls.max_us >= 100e3, "{open:?}");
    let json = rows_to_json(&[open]);
    assert!(json[0]["p95_us"].as_f64().unwrap() > 50e3, "{json}");
    assert_eq!(json[0]["open_loop"]["rate"], 1000);
    let closed = run(&engine(), config(Workload::ReadRandom, 300, None));
    assert!(closed.calls.max_us >= 100e3);
    assert!(closed.open_loop.is_none());
    assert!(rows_to_json(&[closed])[0]["open_loop"].is_null());
}

#[test]
fn another_thread_takes_what_is_due_while_one_stalls() {
    let stall = Some((50, Duration::from_millis(400)));
    let engine = Slow {
        stall,
        ..Slow::default()
    };
    let row = run(
        &engine,
        Config {
            threads: vec![2],
            ..config(Workload::ReadRandom, 400, Some(1000))
        },
    );
    assert_eq!(row.ops, 400);
    assert!(row.calls.max_us >= 400e3);
    // Nearly all that is left falls due meanwhile. Were half of it bound to the thread that hangs,
    // it would wait with it.
    let meanwhile = engine.gets_in_stall.load(Ordering::Relaxed);
    assert!(meanwhile > 220, "{meanwhile}");
}

#[test]
fn an_engine_that_does_not_keep_up_is_told_from_one_that_does() {
    let engine = Slow {
        every_read: Duration::from_millis(5),
        ..Slow::default()
    };
    // At most 200 a second, of 2,000 offered; what is due is done for another second.
    let duration = Some(Duration::from_millis(200));
    let row = run(
        &engine,
        Config {
            duration,
            ..config(Workload::ReadRandom, 1000, Some(2000))
        },
    );
    let load = row.open_loop.unwrap();
    assert!(!load.keeps_up, "{load:?}");
    assert!(
        (300.0..5000.0).contains(&load.offered_ops_per_s),
        "{load:?}"
    );
    assert!(load.achieved_ops_per_s <= 201.0, "{load:?}");
    assert!(load.unserved_ops > 0 && row.ops <= 242, "{row:?}");
    assert!(row.remark().unwrap().contains("does not keep up"));
    assert!(rows_to_table(&[row]).contains("NOT KEPT UP"));
}

#[test]
fn without_a_duration_all_operations_are_done_and_a_fill_is_not_held_back() {
    let engine = Slow {
        every_write: Duration::from_millis(2),
        ..Slow::default()
    };
    let row = run(&engine, config(Workload::Overwrite, 100, Some(100_000)));
    let load = row.open_loop.unwrap();
    assert_eq!((row.ops, load.unserved_ops), (100, 0));
    assert!(!load.keeps_up && load.achieved_ops_per_s <= 500.0);
    assert_eq!(row.longest_stall_ms, None);
    // At one a second, 100 would take until tomorrow.
    let fill = run(&engine, config(Workload::FillSeq, 100, Some(1)));
    assert!(fill.open_loop.is_none() && fill.longest_stall_ms.is_some());
}

#[test]
fn a_time_ends_what_is_offered_and_waits_for_nothing_after_it() {
    let duration = Some(Duration::from_millis(150));
    let row = run(
        &Slow::default(),
        Config {
            duration,
            threads: vec![4],
            ..config(Workload::ReadRandom, 1000, Some(200))
        },
    );
    assert!(row.ops < 100 && row.seconds >= 0.15, "{row:?}");
    let load = row.open_loop.unwrap();
    let ended = row.ops as f64 / row.seconds;
    assert!((load.achieved_ops_per_s - ended).abs() < 1e-6);
}

#[test]
fn the_writer_beside_the_readers_is_held_to_its_own_rate() {
    let engine = Slow {
        every_read: Duration::from_millis(1),
        ..Slow::default()
    };
    let held = |writer_rate| Config {
        writer_rate,
        ..config(Workload::ReadWhileWriting, 300, None)
    };
    let row = run(&engine, held(Some(100)));
    let puts = engine.puts.load(Ordering::Relaxed);
    // Reads take 300 ms and more; however long, writes come at their pace.
    let at_most = 100.0 * row.seconds * 1.6 + 10.0;
    assert!(puts > 0 && (puts as f64) < at_most, "{puts} in {row:?}");
    assert_eq!(row.writes.calls, puts);
    assert!(row.open_loop.is_none() && row.longest_stall_ms.is_none());
    let load = row.writer_loop.unwrap();
    assert!((load.achieved_ops_per_s - puts as f64 / row.seconds).abs() < 1e-6);
    assert!(rows_to_table(&[row]).contains("offered to it"));
    let free = run(&engine, held(None));
    assert!(free.writer_loop.is_none() && free.longest_stall_ms.is_some());
}

/// Counts the trials it is told of.
#[derive(Default)]
struct Told(Vec<Trial>);

impl Observer for Told {
    fn progress(&mut self, _: &Progress) {}
    fn settling(&mut self, _: Workload) {}

    fn tried(&mut self, _: Workload, trial: &Trial) {
        self.0.push(*trial);
    }
}

fn search(every_read: Duration, limit: &str) -> (Vec<Trial>, Row) {
    let engine = Slow {
        every_read,
        ..Slow::default()
    };
    let config = Config {
        latency_limit: Some(limit.parse().unwrap()),
        duration: Some(Duration::from_millis(100)),
        threads: vec![2],
        ..config(Workload::ReadRandom, 1000, None)
    };
    let mut told = Told::default();
    let bench = Bench::new(&engine, config).unwrap();
    let row = bench.run_all(&mut told).unwrap().remove(0);
    (told.0, row)
}

#[test]
fn the_rate_that_is_found_is_one_that_held() {
    // Two threads do at most 500 a second.
    let (told, row) = search(Duration::from_millis(4), "p50=10s,max=20s");
    let result = row.search.clone().unwrap();
    assert_eq!(
        (&result.trials, result.limit.as_str()),
        (&told, "p50=10s,max=20s")
    );
    let held = told.iter().filter(|trial| trial.holds);
    assert_eq!(result.found_rate, held.map(|trial| trial.rate).max());
    for trial in &told {
        assert_eq!(trial.holds, trial.keeps_up, "{trial:?}");
        assert!(trial.achieved_ops_per_s <= 520.0, "{trial:?}");
    }
    // Moments are drawn: of 100 that should be due, half may be.
    assert!(
        result.found_rate.is_none_or(|rate| rate <= 1000),
        "{result:?}"
    );
    // Of several that hold, the highest counts.
    let (told, free) = search(Duration::ZERO, "p50=10s");
    let held = told.iter().filter(|trial| trial.holds);
    let found = free.search.clone().unwrap().found_rate;
    assert_eq!(found, held.map(|trial| trial.rate).max());
    if let Some(rate) = found {
        assert_eq!(free.open_loop.unwrap().rate, rate);
        assert_eq!(free.remark(), None);
    }
    let json = rows_to_json(&[row]);
    let table = trials_to_table(&json[0]).unwrap();
    assert!(table.contains("not kept up"), "{table}");
}

#[test]
fn a_limit_that_no_rate_meets_is_said_to_be_such() {
    let (told, row) = search(Duration::from_millis(2), "p50=1ms");
    let result = row.search.as_ref().unwrap();
    assert_eq!(result.found_rate, None);
    // Fewer than 20 a second have no two operations in a trial.
    assert_eq!(told.last().unwrap().rate, 20);
    assert_eq!(row.open_loop.unwrap().rate, 20);
    assert!(row
        .remark()
        .unwrap()
        .contains("no rate was found at which p50=1ms holds"));
    let table = rows_to_table(std::slice::from_ref(&row));
    assert!(table.contains("NO RATE FOUND WITHIN p50=1ms"), "{table}");
    assert!(rows_to_json(&[row])[0]["latency_limit"]["found_rate"].is_null());
}

#[test]
fn a_fill_is_not_searched_for_a_rate() {
    let config = Config {
        latency_limit: "p50=1us".parse().ok(),
        ..config(Workload::FillSeq, 100, None)
    };
    assert!(run(&Slow::default(), config).search.is_none());
}
