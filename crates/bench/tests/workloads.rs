//! Every workload on an engine in memory: what is called, how often, and what is reported.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use heliox_bench::{
    rows_to_json, rows_to_table, Bench, BenchError, ByCause, Config, Counters, Distribution,
    Engine, EngineError, KeyFamily, KeyGen, Reopening, Row, Seen, Silent, ValueGen, Workload,
};

/// A map that counts; every put is said to cost twice its bytes.
#[derive(Default)]
struct MapEngine {
    map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    puts: AtomicU64,
    new_keys: AtomicU64,
    written: AtomicU64,
    gets: AtomicU64,
    deletes: AtomicU64,
    batches: AtomicU64,
    fail_at: Option<u64>,
    slow: bool,
}

impl Engine for MapEngine {
    fn name(&self) -> &str {
        "map"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let number = self.puts.fetch_add(1, Ordering::Relaxed);
        if self.fail_at == Some(number) {
            return Err("no more room".into());
        }
        if self.slow && number == 50 {
            let _all_wait = self.map.lock().unwrap();
            std::thread::sleep(Duration::from_millis(60));
        }
        self.written
            .fetch_add(2 * (key.len() + value.len()) as u64, Ordering::Relaxed);
        if self
            .map
            .lock()
            .unwrap()
            .insert(key.to_vec(), value.to_vec())
            .is_none()
        {
            self.new_keys.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        value.clear();
        Ok(self
            .map
            .lock()
            .unwrap()
            .get(key)
            .map(|found| value.extend_from_slice(found))
            .is_some())
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        entries
            .iter()
            .try_for_each(|(key, value)| self.put(key, value))
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.deletes.fetch_add(1, Ordering::Relaxed);
        self.map.lock().unwrap().remove(key);
        Ok(())
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Seen, EngineError> {
        let map = self.map.lock().unwrap();
        let found = keys.iter().filter_map(|key| map.get(key));
        let sum = |seen: Seen, value: &Vec<u8>| Seen {
            entries: seen.entries + 1,
            bytes: seen.bytes + value.len() as u64,
        };
        Ok(found.fold(Seen::default(), sum))
    }

    fn scan(
        &self,
        from: &[u8],
        entries: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), EngineError> {
        let map = self.map.lock().unwrap();
        for (key, value) in map.range(from.to_vec()..).take(entries) {
            each(key, value);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn counters(&self) -> Result<Counters, EngineError> {
        let objects = self.map.lock().unwrap().len() as u64;
        Ok(Counters {
            written: ByCause {
                data: self.written.load(Ordering::Relaxed),
                ..ByCause::default()
            },
            foreground_reads: self.gets.load(Ordering::Relaxed) / 2,
            objects,
            index_bytes: 12 * objects,
            ..Counters::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        Ok(())
    }
}

fn config(workloads: &[Workload]) -> Config {
    Config {
        workloads: workloads.to_vec(),
        num: 3000,
        threads: vec![3],
        ..Config::new()
    }
}

fn run(engine: &MapEngine, config: Config) -> Vec<Row> {
    Bench::new(engine, config)
        .unwrap()
        .run_all(&mut Silent)
        .unwrap()
}

#[test]
fn a_fill_writes_each_key_once_and_its_bytes_are_accounted() {
    for fill in [Workload::FillSeq, Workload::FillRandom] {
        for keys in KeyFamily::ALL {
            let key_bytes = keys.default_size_bytes();
            // A duration does not end a fill.
            let duration = Some(Duration::from_nanos(1));
            let engine = MapEngine::default();
            let rows = run(
                &engine,
                Config {
                    keys,
                    key_bytes,
                    duration,
                    ..config(&[fill])
                },
            );
            assert_eq!(rows[0].ops, 3000);
            assert_eq!(engine.puts.load(Ordering::Relaxed), 3000);
            assert_eq!(engine.map.lock().unwrap().len(), 3000);
            assert_eq!(rows[0].user_bytes, 3000 * (key_bytes as u64 + 100));
            assert_eq!(rows[0].write_amplification, Some(2.0));
            assert_eq!(rows[0].index_bytes_per_object, Some(12.0));
            let generator = KeyGen::new(keys, key_bytes, 1).unwrap();
            let mut key = Vec::new();
            generator.key(2999, &mut key);
            assert!(engine.map.lock().unwrap().contains_key(&key));
        }
    }
}

#[test]
fn reads_find_what_was_filled_and_missing_keys_are_missing() {
    let engine = MapEngine::default();
    for batch_keys in [1, 7] {
        let list = [
            Workload::FillRandom,
            Workload::ReadRandom,
            Workload::ReadMissing,
        ];
        let rows = run(
            &engine,
            Config {
                batch_keys,
                ..config(&list)
            },
        );
        assert_eq!((rows[1].ops, rows[1].found), (3000, 3000));
        assert_eq!((rows[2].ops, rows[2].found), (3000, 0));
        assert_eq!(rows[1].write_amplification, None);
        assert_eq!(rows[1].longest_stall_ms, None);
        assert!(rows.iter().all(|row| row.remark().is_none()));
        let calls = rows[1].reads.calls;
        assert!(if batch_keys == 1 {
            calls == 3000
        } else {
            (429..=440).contains(&calls)
        });
    }
}

#[test]
fn reading_an_empty_store_is_remarked_upon() {
    let list = [
        Workload::ReadRandom,
        Workload::ReadSeq,
        Workload::ReadMissing,
    ];
    let rows = run(&MapEngine::default(), config(&list));
    assert!(rows[0].remark().unwrap().contains("found 0 of 3000"));
    let all = rows[1].found_expected().unwrap();
    assert_eq!(all, 3000 * rows[1].threads as u64);
    assert!(rows[1].remark().unwrap().contains(&format!("0 of {all}")));
    assert_eq!(rows[2].remark(), None);
    let json = rows_to_json(&rows);
    assert_eq!(
        (&json[0]["found"], &json[0]["found_expected"]),
        (&0.into(), &3000.into())
    );
    assert!(json[0]["remark"]
        .as_str()
        .unwrap()
        .contains("fill the store first"));
    assert!(json[2]["remark"].is_null());
}

#[test]
fn overwrites_stay_within_the_set() {
    let engine = MapEngine::default();
    let rows = run(&engine, config(&[Workload::FillSeq, Workload::Overwrite]));
    assert_eq!(rows[1].ops, 3000);
    assert_eq!(engine.new_keys.load(Ordering::Relaxed), 3000);
    assert_eq!(engine.puts.load(Ordering::Relaxed), 6000);
}

#[test]
fn mixed_workloads_read_and_write() {
    let engine = MapEngine::default();
    let list = [
        Workload::FillSeq,
        Workload::ReadRandomWriteRandom,
        Workload::ReadWhileWriting,
    ];
    let rows = run(
        &engine,
        Config {
            read_share_percent: 75.0,
            ..config(&list)
        },
    );
    let share = rows[1].read_ops as f64 / rows[1].ops as f64;
    assert!((0.70..0.80).contains(&share), "{share}");
    assert_eq!(rows[1].reads.calls + rows[1].writes.calls, 3000);
    assert_eq!((rows[2].ops, rows[2].read_ops), (3000, 3000));
    assert!(rows[2].writes.calls > 0 && rows[2].user_bytes > 0);
    assert!(rows[2].longest_stall_ms.is_some());
    assert_eq!(engine.new_keys.load(Ordering::Relaxed), 3000);
    assert!((rows[1].media_reads_per_op - 0.375).abs() < 0.05);
}

#[test]
fn seeks_read_one_entry_and_scans_many() {
    let engine = MapEngine::default();
    let list = [Workload::FillSeq, Workload::SeekRandom, Workload::Scan];
    let rows = run(
        &engine,
        Config {
            scan_entries: 20,
            ..config(&list)
        },
    );
    assert_eq!(rows[1].entries_read, 3000);
    assert!(
        (55_000..=60_000).contains(&rows[2].entries_read),
        "{}",
        rows[2].entries_read
    );
    assert_eq!(rows[2].found, 3000);
}

#[test]
fn a_duration_ends_what_is_no_fill() {
    let engine = MapEngine::default();
    let duration = Some(Duration::from_millis(150));
    let rows = run(
        &engine,
        Config {
            duration,
            ..config(&[Workload::FillSeq, Workload::Overwrite])
        },
    );
    assert!(
        (0.15..1.0).contains(&rows[1].seconds),
        "{}",
        rows[1].seconds
    );
    assert_ne!(rows[1].ops, 3000);
}

#[test]
fn a_stall_of_all_writers_is_reported() {
    let engine = MapEngine {
        slow: true,
        ..MapEngine::default()
    };
    let rows = run(&engine, config(&[Workload::FillSeq]));
    let stall = rows[0].longest_stall_ms.unwrap();
    assert!((59.0..500.0).contains(&stall), "{stall}");
}

#[test]
fn an_error_of_the_engine_ends_the_run_and_names_the_workload() {
    let engine = MapEngine {
        fail_at: Some(100),
        ..MapEngine::default()
    };
    let config = Config {
        num: 300_000,
        ..config(&[Workload::FillRandom])
    };
    let bench = Bench::new(&engine, config).unwrap();
    let error = bench.run_all(&mut Silent).unwrap_err();
    assert!(matches!(error, BenchError::Engine { .. }));
    assert_eq!(error.to_string(), "fillrandom: no more room");
    // The other threads stop too, long before they are done.
    assert!(engine.puts.load(Ordering::Relaxed) < 200_000);
}

#[test]
fn the_json_has_every_promised_field_in_order() {
    let promised = "engine workload threads ops seconds ops_per_s p50_us p95_us p99_us p999_us \
        p9999_us max_us longest_stall_ms key_size value_size keys durability memory_bytes \
        capacity_bytes objects user_bytes media_bytes_written media_bytes_read \
        bytes_written_by_cause write_amplification media_reads_per_op index_bytes_per_object \
        disk_bytes rss_bytes kernel_write_bytes cpu_seconds";
    let rows = run(
        &MapEngine::default(),
        config(&[Workload::FillSeq, Workload::ReadRandom]),
    );
    let json = rows_to_json(&rows);
    let names: Vec<_> = json[0]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let promised: Vec<_> = promised.split_whitespace().collect();
    assert_eq!(names[..promised.len()], promised);
    assert_eq!(json[0]["media_bytes_written"], 2 * 3000 * 116);
    assert_eq!(json[0]["bytes_written_by_cause"]["data"], 2 * 3000 * 116);
    assert!(json[1]["write_amplification"].is_null());
    let table = rows_to_table(&rows);
    assert!(
        table.contains("p99.999") && table.contains("readrandom"),
        "{table}"
    );
}

#[test]
fn batches_write_each_key_once_and_multi_reads_find_them() {
    let engine = MapEngine::default();
    let list = [Workload::FillBatch, Workload::MultiReadRandom];
    let rows = run(
        &engine,
        Config {
            multi_keys: 10,
            ..config(&list)
        },
    );
    assert_eq!(engine.new_keys.load(Ordering::Relaxed), 3000);
    let batches = engine.batches.load(Ordering::Relaxed);
    assert!((300..=310).contains(&batches), "{batches}");
    assert_eq!((rows[0].ops, rows[0].writes.calls), (3000, batches));
    assert_eq!(rows[0].user_bytes, 3000 * 116);
    assert_eq!((rows[1].ops, rows[1].found), (3000, 3000));
    assert!((300..=310).contains(&rows[1].reads.calls));
    assert_eq!((rows[0].batch, rows[1].batch), (10, 10));
}

/// Lets no read return before so many are under way.
struct Together {
    inside: Mutex<usize>,
    all: Condvar,
    wanted: usize,
}

impl Engine for Together {
    fn name(&self) -> &str {
        "together"
    }

    fn put(&self, _: &[u8], _: &[u8]) -> Result<(), EngineError> {
        Ok(())
    }

    fn get(&self, _: &[u8], _: &mut Vec<u8>) -> Result<bool, EngineError> {
        let mut inside = self.inside.lock().unwrap();
        *inside += 1;
        self.all.notify_all();
        let limit = Duration::from_secs(20);
        let missing = |inside: &mut usize| *inside < self.wanted;
        let (_inside, timeout) = self.all.wait_timeout_while(inside, limit, missing).unwrap();
        if timeout.timed_out() {
            return Err("the others did not come".into());
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

#[test]
fn each_of_512_threads_is_one_of_its_own() {
    let engine = Together {
        inside: Mutex::new(0),
        all: Condvar::new(),
        wanted: 512,
    };
    let config = Config {
        num: 512,
        threads: vec![512],
        ..config(&[Workload::ReadRandom])
    };
    let bench = Bench::new(&engine, config).unwrap();
    let row = bench.run_all(&mut Silent).unwrap().remove(0);
    assert_eq!((row.threads, row.ops), (512, 512));
}

#[test]
fn a_sweep_over_threads_gives_a_row_for_each_and_fills_once() {
    let engine = MapEngine::default();
    let list = [Workload::FillRandom, Workload::ReadRandom];
    let rows = run(
        &engine,
        Config {
            threads: vec![1, 2, 64],
            ..config(&list)
        },
    );
    let threads: Vec<usize> = rows.iter().map(|row| row.threads).collect();
    assert_eq!(threads, [64, 1, 2, 64]);
    assert_eq!(engine.puts.load(Ordering::Relaxed), 3000);
    assert!(rows[1..].iter().all(|row| row.found == 3000));
    let table = rows_to_table(&rows);
    assert!(table.contains("readrandom, 1 thread "), "{table}");
    let one = rows_to_table(&rows[3..]);
    assert!(!one.contains("thread"), "{one}");
}

#[test]
fn random_deletes_leave_their_share() {
    let engine = MapEngine::default();
    run(
        &engine,
        config(&[Workload::FillSeq, Workload::DeleteRandom]),
    );
    assert_eq!(engine.deletes.load(Ordering::Relaxed), 3000);
    // Of N keys, N random picks miss one in e.
    let left = engine.map.lock().unwrap().len();
    assert!((1000..1200).contains(&left), "{left}");
}

#[test]
fn the_workloads_of_ycsb_find_what_they_read_and_insert_what_they_add() {
    let engine = MapEngine::default();
    let list = [
        Workload::FillSeq,
        Workload::YcsbA,
        Workload::YcsbB,
        Workload::YcsbC,
        Workload::YcsbD,
        Workload::YcsbE,
        Workload::YcsbF,
    ];
    let rows = run(
        &engine,
        Config {
            keys: KeyFamily::Ycsb,
            key_bytes: 24,
            ..config(&list)
        },
    );
    for row in &rows[1..] {
        assert_eq!(row.ops, 3000, "{}", row.workload);
        assert_eq!(row.remark(), None);
    }
    let inserted = rows[4].writes.calls + rows[5].writes.calls;
    assert_eq!(engine.map.lock().unwrap().len() as u64, 3000 + inserted);
    assert!((200..400).contains(&inserted), "{inserted}");
    let per_scan = rows[5].entries_read as f64 / rows[5].read_ops as f64;
    assert!((45.0..55.0).contains(&per_scan), "{per_scan}");
    // Of workload F every operation reads, and half of them write what they read.
    assert_eq!(rows[6].reads.calls, 3000);
    assert!((1350..1650).contains(&rows[6].writes.calls));
}

#[test]
fn merges_add_to_the_values_of_the_set() {
    let engine = MapEngine::default();
    let one = Config {
        threads: vec![1],
        ..config(&[Workload::FillSeq, Workload::MergeRandom])
    };
    let rows = run(&engine, one);
    assert_eq!((rows[1].ops, rows[1].writes.calls), (3000, 3000));
    assert_eq!(rows[1].user_bytes, 3000 * (16 + 8));
    // Without a merge operator each is a get and a put.
    assert_eq!(engine.gets.load(Ordering::Relaxed), 3000);
    assert_eq!(engine.puts.load(Ordering::Relaxed), 6000);
    assert_eq!(engine.new_keys.load(Ordering::Relaxed), 3000);
    let values = ValueGen::new(100, 1);
    let changed = (0..3000).filter(|index| {
        let (found, filled) = (value_of(&engine, *index), value(&values, *index));
        assert_eq!(found[8..], filled[8..], "{index}");
        found != filled
    });
    let changed = changed.count();
    assert!((1800..2000).contains(&changed), "{changed}");
}

fn value(values: &ValueGen, index: u64) -> Vec<u8> {
    let mut value = Vec::new();
    values.value(index, 0, &mut value);
    value
}

fn value_of(engine: &MapEngine, index: u64) -> Vec<u8> {
    let generator = KeyGen::new(KeyFamily::Random, 16, 1).unwrap();
    let mut key = Vec::new();
    generator.key(index, &mut key);
    engine.map.lock().unwrap().get(&key).cloned().unwrap()
}

#[test]
fn a_distribution_holds_for_every_workload_that_draws() {
    for (workload, draws) in [(Workload::Overwrite, 3000.0), (Workload::YcsbA, 1500.0)] {
        let engine = MapEngine::default();
        let distribution = Some(Distribution::Hotspot);
        let rows = run(
            &engine,
            Config {
                distribution,
                ..config(&[Workload::FillSeq, workload])
            },
        );
        assert_eq!(
            (rows[0].distribution, rows[1].distribution),
            (None, distribution)
        );
        let values = ValueGen::new(100, 1);
        let changed = |indices: std::ops::Range<u64>| {
            let count = (indices.end - indices.start) as f64;
            let changed = |index: &u64| value_of(&engine, *index) != value(&values, *index);
            indices.filter(changed).count() as f64 / count
        };
        // Of 600 keys with 80 % of the draws, and of 2,400 with 20 %, those that were not missed.
        for (indices, share) in [(0..600, 0.8), (600..3000, 0.2)] {
            let each = draws * share / (indices.end - indices.start) as f64;
            let (found, expected) = (changed(indices), 1.0 - (-each).exp());
            assert!(
                (found - expected).abs() < 0.05,
                "{workload}: {found} {expected}"
            );
        }
    }
}

#[test]
fn a_row_tells_what_each_second_took() {
    let duration = Some(Duration::from_millis(1100));
    let engine = MapEngine::default();
    let list = config(&[Workload::FillSeq, Workload::ReadRandom]);
    let row = run(&engine, Config { duration, ..list }).remove(1);
    let json = &rows_to_json(std::slice::from_ref(&row))[0];
    let seconds = row.used_by_second.len();
    assert!(
        seconds >= 2 && row.ops_by_second.len() <= seconds,
        "{seconds}"
    );
    for name in ["read_bytes", "write_bytes", "cpu_seconds"] {
        let series = json[format!("{name}_by_second")].as_array().unwrap();
        assert_eq!(series.len(), seconds, "{name}");
    }
    let cpu: f64 = row.used_by_second.iter().map(|used| used.cpu_seconds).sum();
    assert!(cpu > 0.0 && cpu <= row.cpu_seconds, "{cpu} {row:?}");
    let each = row.cpu_seconds * 1e6 / row.ops as f64;
    assert_eq!(row.cpu_us_per_op, Some(each));
    let calls = row.calls_by_latency.iter().map(|(_, calls)| calls);
    assert_eq!(calls.sum::<u64>(), row.reads.calls);
}

#[test]
fn everything_is_read_in_order_by_each_thread() {
    for (keys, num) in [(KeyFamily::Random, 3000), (KeyFamily::Sequential, 2000)] {
        let engine = MapEngine::default();
        // Neither ends it nor holds it to a rate.
        let rows = run(
            &engine,
            Config {
                keys,
                num,
                duration: Some(Duration::from_nanos(1)),
                rate: Some(1),
                threads: vec![2],
                ..config(&[Workload::FillSeq, Workload::ReadSeq])
            },
        );
        let row = &rows[1];
        assert_eq!((row.ops, row.found), (2 * num, 2 * num), "{keys}");
        assert_eq!(row.entries_read, 2 * num);
        assert!(row.open_loop.is_none() && row.remark().is_none());
        assert_eq!(row.reads.calls, 2 * num / 1000);
    }
    let empty = run(&MapEngine::default(), config(&[Workload::ReadSeq]));
    assert_eq!((empty[0].ops, empty[0].found), (0, 0));
}

#[test]
fn a_store_that_is_opened_again_has_a_row_and_what_it_had() {
    let list = [Workload::FillSeq, Workload::Reopen, Workload::ReadRandom];
    let config = config(&list);
    assert_eq!([0, 1, 2].map(|from| config.next_reopen(from)), [1, 1, 3]);
    let engine = MapEngine::default();
    let empty = Reopening::begin().unwrap().done(&engine, &config, 1);
    assert!(empty
        .unwrap_err()
        .to_string()
        .contains("reopen: the store is empty"));
    let bench = Bench::new(&engine, config.clone()).unwrap();
    bench.run(0, &mut Silent).unwrap();
    assert!(bench.run(1, &mut Silent).is_err());
    assert_eq!(bench.count(), 3000);
    let mut clean = Reopening::begin().unwrap();
    std::thread::sleep(Duration::from_millis(3));
    clean.closed();
    clean.opening();
    let row = clean.done(&engine, &config, 1).unwrap();
    let reopened = row.reopened.unwrap();
    let closed = reopened.close_seconds.unwrap();
    assert!(closed >= 0.003);
    assert!((row.seconds - closed - reopened.open_seconds).abs() < 1e-6);
    assert_eq!(
        (row.workload, row.threads, row.ops, row.found),
        (Workload::Reopen, 1, 1, 1)
    );
    let killed = Reopening::begin().unwrap();
    let row = killed.done(&engine, &config, 1).unwrap();
    let json = &rows_to_json(std::slice::from_ref(&row))[0];
    assert!(json["close_seconds"].is_null() && json["open_seconds"].as_f64() > Some(0.0));
    assert!(rows_to_table(&[row]).contains("killed, open in 0.0"));
}

#[test]
fn what_has_no_room_is_not_inserted_but_written_again_and_told() {
    let engine = MapEngine::default();
    let list = [Workload::FillSeq, Workload::YcsbD, Workload::YcsbD];
    let config = Config {
        keys: KeyFamily::Ycsb,
        key_bytes: 24,
        ..config(&list)
    };
    let num = config.num;
    let bench = Bench::new(&engine, config).unwrap().inserting_at_most(20);
    let rows = bench.run_all(&mut Silent).unwrap();
    assert_eq!(bench.count(), num + 40);
    assert_eq!(engine.map.lock().unwrap().len() as u64, num + 40);
    for row in &rows[1..] {
        assert_eq!(row.inserts_again, row.writes.calls - 20);
        assert_eq!(row.found, row.read_ops);
        let remark = row.remark().unwrap();
        assert!(
            remark.contains(&format!("{} of its inserts", row.inserts_again)),
            "{remark}"
        );
    }
    assert_eq!((rows[0].inserts_again, rows[0].remark()), (0, None));
}

#[test]
fn a_warm_up_is_not_measured() {
    let engine = MapEngine::default();
    let list = [Workload::FillSeq, Workload::Overwrite];
    let config = Config {
        duration: Some(Duration::from_millis(20)),
        ..config(&list)
    };
    let bench = Bench::new(&engine, config).unwrap();
    let bench = bench.warming_up(Duration::from_secs(60));
    let rows = bench.run_all(&mut Silent).unwrap();
    assert_eq!(rows[0].warm_up, None);
    let warm_up = rows[1].warm_up.unwrap();
    // Nothing is read from any device: three windows.
    assert!(
        warm_up.steady && (0.06..30.0).contains(&warm_up.seconds),
        "{warm_up:?}"
    );
    let measured = rows[0].ops + rows[1].ops;
    let puts = engine.puts.load(Ordering::Relaxed);
    assert!(puts > measured, "{puts} puts, {measured} of them measured");
    let json = rows_to_json(&rows);
    assert!(json[0]["warm_up_seconds"].is_null() && json[1]["warm_up_steady"] == true);
    assert_eq!(json[1]["memory_share"], serde_json::Value::Null);
}

#[test]
fn a_workload_that_is_interrupted_keeps_what_it_did() {
    let engine = MapEngine::default();
    let config = Config {
        duration: Some(Duration::from_secs(3600)),
        ..config(&[Workload::FillSeq, Workload::Overwrite])
    };
    let interrupted = AtomicBool::new(false);
    let bench = Bench::new(&engine, config).unwrap().until(&interrupted);
    let fill = bench.run(0, &mut Silent).unwrap();
    assert!(!fill.cut_short);
    interrupted.store(true, Ordering::Relaxed);
    let row = bench.run(1, &mut Silent).unwrap();
    assert!(row.cut_short && row.seconds < 600.0, "{row:?}");
    assert!(rows_to_json(&[row])[0]["cut_short"] == true);
}
