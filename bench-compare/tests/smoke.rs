//! Every engine that was built in against a model: what was put is read back, what was deleted is
//! gone, scans are ordered, and all of it still holds for the program that runs the workloads.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use heliox_bench::{add_number, DurabilityMode, Engine, KeyFamily, KeyGen, ValueGen};
use heliox_bench_compare::engines::{Setup, BUILT_IN};

const KEYS: u64 = 400;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;

fn setup(dir: &Path, durability: DurabilityMode) -> Setup {
    Setup {
        dir: dir.to_owned(),
        durability,
        memory_bytes: 64 << 20,
        data_bytes: 1 << 20,
        full_percent: None,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        threads: 4,
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes, overwrites, writes a batch and deletes, on engine and model alike.
fn write(engine: &dyn Engine, model: &mut Model) {
    let keys = KeyGen::new(KeyFamily::Random, KEY_BYTES, 1).unwrap();
    let values = ValueGen::new(VALUE_BYTES, 1);
    let entry = |index: u64, version: u64| {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        keys.key(index, &mut key);
        values.value(index, version, &mut value);
        (key, value)
    };
    let puts = (0..KEYS).map(|index| entry(index, 0));
    let overwrites = (0..KEYS).step_by(3).map(|index| entry(index, 1));
    for (key, value) in puts.chain(overwrites) {
        engine.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    let batch: Vec<_> = (KEYS - 50..KEYS + 50)
        .map(|index| entry(index, 2))
        .collect();
    engine.put_batch(&batch).unwrap();
    model.extend(batch);
    // Twice, and of those that are not there too.
    for index in (0..KEYS + 100).step_by(5).chain((0..KEYS).step_by(10)) {
        let (key, _) = entry(index, 0);
        let operand = (index + 1).to_le_bytes();
        engine.merge(&key, &operand).unwrap();
        let sum = add_number(model.get(&key).map(Vec::as_slice), &operand);
        model.insert(key, sum);
    }
    // The last is not there.
    for index in (0..KEYS).step_by(7).chain([KEYS + 1000]) {
        let (key, _) = entry(index, 0);
        engine.delete(&key).unwrap();
        model.remove(&key);
    }
}

fn compare(name: &str, engine: &dyn Engine, model: &Model) {
    let keys = KeyGen::new(KeyFamily::Random, KEY_BYTES, 1).unwrap();
    let (mut all, mut value) = (Vec::new(), b"left over".to_vec());
    for index in 0..KEYS + 100 {
        let mut key = Vec::new();
        keys.key(index, &mut key);
        let found = engine.get(&key, &mut value).unwrap();
        assert_eq!(found.then_some(&value), model.get(&key), "{name}: {index}");
        all.push(key);
    }
    let seen = engine.multi_get(&all).unwrap();
    assert_eq!(seen.entries, model.len() as u64, "{name}");
    let bytes = model.iter().map(|(key, value)| key.len() + value.len());
    assert_eq!(seen.bytes, bytes.sum::<usize>() as u64);
    for (from, count) in [(vec![1], 10_000), (vec![0x80], 20), (all[0].clone(), 1)] {
        let mut scanned = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| scanned.push((key.to_vec(), value.to_vec()));
        engine.scan(&from, count, &mut each).unwrap();
        let expected = model.range(from.clone()..).take(count);
        let expected: Vec<_> = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(scanned, expected, "{name}: scan of {count} from {from:?}");
    }
}

#[test]
fn every_engine_keeps_to_the_model() {
    for kind in BUILT_IN {
        for durability in DurabilityMode::ALL {
            let dir = tempfile::tempdir().unwrap();
            let engine = (kind.open)(&setup(dir.path(), durability)).unwrap();
            let name = format!("{}, {durability}", kind.name);
            assert_eq!(engine.name(), kind.name);
            let mut model = Model::new();
            write(engine.as_ref(), &mut model);
            compare(&name, engine.as_ref(), &model);
            engine.settle().unwrap();
            compare(&name, engine.as_ref(), &model);
            engine.close().unwrap();
        }
    }
}

/// Whether some file of a store holds the bytes.
fn files_hold(dir: &Path, bytes: &[u8]) -> bool {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let holds = |path: &Path| {
        let text = std::fs::read(path).unwrap_or_default();
        text.windows(bytes.len()).any(|window| window == bytes)
    };
    entries.into_iter().any(|entry| {
        let path = entry.path();
        path.is_dir() && files_hold(&path, bytes) || holds(&path)
    })
}

/// Engines with a log buffer it under bounded durability, as Heliox does: what a killed process keeps
/// is the same for them.
#[test]
fn bounded_writes_stay_in_the_process_until_they_are_synced() {
    let buffered = |name: &str| name.starts_with("rocksdb") || name == "fjall";
    for kind in BUILT_IN.iter().filter(|kind| buffered(kind.name)) {
        for (durability, at_once) in [
            (DurabilityMode::Bounded, false),
            (DurabilityMode::Sync, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let engine = (kind.open)(&setup(dir.path(), durability)).unwrap();
            engine.put(b"a key of its own", b"value").unwrap();
            let batch = [(b"another key of it".to_vec(), b"value".to_vec())];
            engine.put_batch(&batch).unwrap();
            for key in [&b"a key of its own"[..], b"another key of it"] {
                let held = files_hold(dir.path(), key);
                assert_eq!(held, at_once, "{}, {durability}", kind.name);
            }
            engine.sync().unwrap();
            assert!(files_hold(dir.path(), b"another key of it"));
            engine.close().unwrap();
        }
    }
}

fn program(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-compare"));
    command.args(["run", "--memory", "64M", "--dir"]).arg(dir);
    command.arg("--json").arg(dir.join("out.json"));
    command
        .args(more)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

fn results(dir: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(dir.join("out.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn all_engines_run_all_workloads_and_find_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let workloads = "fillseq,fillrandom,filluniquerandom,fillbatch,overwrite,mergerandom,readrandom,multireadrandom,\
        readmissing,readwhilewriting,seekrandom,scan,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f,\
        deleterandom,readrandom";
    let line = ["--workloads", workloads, "--num", "2000", "--threads", "2"];
    let output = program(dir.path(), &line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let rows = results(dir.path());
    let count = workloads.split(',').count();
    assert_eq!(rows.len(), count * BUILT_IN.len(), "{text}");
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row["engine"], BUILT_IN[at / count].name);
        // Equal keys on every engine, so equal finds; what is inserted meanwhile is seen or not.
        let ours = &rows[at % count];
        assert_eq!(row["found"], ours["found"], "{row}");
        assert_eq!(row["user_bytes"].is_null(), ours["user_bytes"].is_null());
    }
    // One file is left: the results.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn reads_that_find_nothing_are_no_silent_success() {
    let dir = tempfile::tempdir().unwrap();
    let what = [
        "--engines",
        "heliox",
        "--workloads",
        "readrandom,fillrandom,readrandom",
    ];
    let output = program(dir.path(), &[&what[..], &["--num", "1000"]].concat())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let told = text.lines().filter(|line| line.starts_with("FOUND FEWER"));
    let told: Vec<&str> = told.collect();
    assert!(
        told.len() == 1 && told[0].contains("0 keys where 1,000 were expected"),
        "{text}"
    );
    let rows = results(dir.path());
    assert!(rows[0]["remark"].is_string() && rows[2]["remark"].is_null());
}

/// However long it lasts, what inserts keeps to the room that was said before.
#[test]
fn a_timed_workload_that_inserts_keeps_to_its_room() {
    let dir = tempfile::tempdir().unwrap();
    let what = ["--engines", "heliox", "--workloads", "fillrandom,ycsb-d"];
    let how = ["--num", "1000", "--duration", "0.5", "--threads", "2"];
    let output = program(dir.path(), &[&what[..], &how].concat())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1,000 keys of 24 bytes"), "{text}");
    assert!(text.contains("room for 1,000 that are inserted"), "{text}");
    let row = &results(dir.path())[1];
    assert!(row["seconds"].as_f64().unwrap() >= 0.5, "{row}");
    assert_eq!(row["objects"], 2000, "{row}");
    let writes = row["writes"]["calls"].as_u64().unwrap();
    assert_eq!(row["inserts_again"], writes - 1000);
    assert!(text.contains("NOT ALL INSERTED: heliox, ycsb-d"), "{text}");
}

#[test]
fn every_engine_has_what_it_had_when_it_is_opened_again() {
    let workloads = "ycsb-d,reopen,ycsb-c,reopen-killed,ycsb-d,readseq";
    for durability in ["none", "bounded"] {
        let dir = tempfile::tempdir().unwrap();
        let line = ["--workloads", &format!("fillrandom,{workloads}")];
        let how = [
            "--num",
            "1000",
            "--threads",
            "2",
            "--durability",
            durability,
        ];
        let output = program(dir.path(), &[line, how[..2].try_into().unwrap()].concat())
            .args(&how[2..])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        let rows = results(dir.path());
        assert_eq!(rows.len(), 7 * BUILT_IN.len(), "{text}");
        for rows in rows.chunks(7) {
            let what = rows[0]["engine"].as_str().unwrap();
            let seconds = |place: usize, name: &str| rows[place][name].as_f64();
            for place in [2, 4] {
                assert!(seconds(place, "open_seconds") > Some(0.0), "{what}");
                assert_eq!(
                    (&rows[place]["ops"], &rows[place]["found"]),
                    (&1.into(), &1.into())
                );
            }
            assert!(seconds(2, "close_seconds") > Some(0.0), "{what}");
            assert_eq!(seconds(4, "close_seconds"), None, "{what}");
            assert_eq!(rows[3]["found"], 1000, "{what}");
            // What was inserted before is kept, and nothing is inserted twice.
            let inserted = [1, 5].map(|place: usize| rows[place]["writes"]["calls"].as_u64());
            let all = 1000 + inserted[0].unwrap() + inserted[1].unwrap();
            assert_eq!(rows[6]["found"], 2 * all, "{what}, {durability}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_sweep_over_threads_fills_once_and_a_rate_holds_for_all_engines() {
    let dir = tempfile::tempdir().unwrap();
    let what = ["--workloads", "fillseq,readrandom", "--num", "500"];
    let how = ["--threads", "1,512,3", "--rate", "20K"];
    let output = program(dir.path(), &[what, how].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let rows = results(dir.path());
    assert_eq!(rows.len(), 4 * BUILT_IN.len(), "{text}");
    for rows in rows.chunks(4) {
        let threads = [0, 1, 2, 3].map(|at| rows[at]["threads"].as_u64().unwrap());
        assert_eq!(threads, [512, 1, 512, 3]);
        assert!(rows[0]["open_loop"].is_null());
        for row in &rows[1..] {
            assert_eq!(
                (&row["workload"], &row["found"]),
                (&"readrandom".into(), &500.into())
            );
            assert_eq!(row["open_loop"]["rate"], 20_000, "{row}");
        }
    }
    assert!(text.contains("readrandom"), "{text}");
}

#[test]
fn the_raw_device_stands_beside_the_engines() {
    let dir = tempfile::tempdir().unwrap();
    let what = ["--engines", "heliox", "--workloads", "fillseq,readrandom"];
    let how = ["--num", "500", "--raw-device", "--precondition"];
    let small = ["--raw-size", "4M", "--raw-time", "0.005"];
    let line = [&what[..], &how, &small].concat();
    // Without fio, which would take a second for each figure.
    let output = program(dir.path(), &line).env("PATH", "").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let rows = results(dir.path());
    let (raw, engines): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row["engine"] == "raw-device");
    assert_eq!((raw.len(), engines.len()), (25, 2), "{text}");
    for (row, depth) in raw.iter().zip([1, 2, 4, 8, 16, 32]) {
        assert_eq!(
            (&row["workload"], &row["threads"]),
            (&"randread-4k".into(), &depth.into())
        );
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0 && row["preconditioned"] == true);
    }
    // Where the kernel grants no io_uring, by threads; syncs always.
    let tools = [0, 24].map(|n| raw[n]["tool"].as_str().unwrap());
    let by_threads =
        "a thread with blocking calls for each request, since the kernel grants no io_uring";
    assert!(
        tools[0].starts_with("io_uring") || tools[0].starts_with(by_threads),
        "{text}"
    );
    assert!(tools[1].contains("fdatasync") && text.contains(tools[0]));
    assert!(engines[1].get("raw_device_share").is_some());
    assert!(
        text.contains("raw device, without an engine") && text.contains("seqwrite-128k"),
        "{text}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn reads_are_offered_at_the_rates_of_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let reads = ["readrandom"; 6].join(",");
    let workloads = format!("fillrandom,{reads}");
    let what = ["--engines", "heliox", "--workloads", &workloads];
    let how = ["--num", "500", "--raw-device", "--rate-of-device"];
    let time = ["--threads", "8", "--duration", "0.05", "--warm-up", "0.1"];
    let small = ["--raw-size", "4M", "--raw-time", "0.02"];
    let line = [&what[..], &how, &time, &small].concat();
    let output = program(dir.path(), &line).env("PATH", "").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let rows = results(dir.path());
    let of = |engine: &'static str| rows.iter().filter(move |row| row["engine"] == engine);
    let device = of("raw-device").filter(|row| row["workload"] == "randread-4k");
    let rates: Vec<f64> = device
        .map(|row| row["ops_per_s"].as_f64().unwrap())
        .collect();
    let offered: Vec<&serde_json::Value> = of("heliox").skip(1).collect();
    assert_eq!((rates.len(), offered.len()), (6, 6));
    for (rate, row) in rates.iter().zip(offered) {
        let load = &row["open_loop"];
        let ours = load["rate"].as_f64().unwrap();
        // Its own rate, or 85 % of it, and of that, until the engine keeps up.
        assert!(ours <= *rate && ours > 0.0, "{row}");
        assert!(load["keeps_up"] == false || ours > rate * 0.14, "{row}");
        assert!(row["warm_up_seconds"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(of("heliox").next().unwrap()["open_loop"].is_null());
}

/// What a suite gives each part may be given otherwise by one: the last counts.
#[test]
fn a_store_is_as_full_as_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let what = ["--engines", "heliox", "--workloads", "fillrandom"];
    let sizes = ["--num", "60K", "--key-size", "16", "--value-size", "984"];
    let full = ["--full", "10", "--full", "40"];
    let line = [&what[..], &sizes, &full].concat();
    let output = program(dir.path(), &line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let capacity = results(dir.path())[0]["capacity_bytes"].as_f64().unwrap();
    assert!((capacity / 150e6 - 1.0).abs() < 0.1, "{capacity}");
}

fn suite(more: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-compare"));
    command.arg("suite").args(more).output().unwrap()
}

#[test]
fn a_suite_runs_its_parts_and_shows_the_paper_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (json, html, dir_name) = (path("out.json"), path("out.html"), path(""));
    let what = ["herocks", "--scale", "0.000002", "--duration", "0.05"];
    let into = ["--dir", &dir_name, "--json", &json, "--html", &html];
    let output = suite(&[&what[..], &into].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let rows = results(dir.path());
    let told = |name: &str| -> Vec<String> {
        let rows = rows.iter().filter(|row| row["engine"] == name);
        let told =
            rows.map(|row| format!("{} {}", row["workload"].as_str().unwrap(), row["threads"]));
        told.collect()
    };
    for kind in BUILT_IN {
        assert_eq!(
            told(kind.name).join(", "),
            "fillseq 64, readwhilewriting 64, fillseq 32, readwhilewriting 32, fillseq 16, \
             readrandomwriterandom 16"
        );
    }
    assert_eq!(rows.len(), 6 * BUILT_IN.len());
    for row in &rows {
        assert!(row["mean_us"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["keys"], "sequential");
        assert_eq!(row["memory_bytes"], 64 << 20);
    }
    let rate = "readwhilewriting, 32 threads, ops/s";
    let line = |system: &str| {
        let mut lines = text.lines().filter(|line| line.contains(rate));
        let cells = lines.find(|line| line.contains(system)).unwrap();
        let cells = cells.trim_matches('│').split('┆').map(str::trim);
        cells.map(str::to_owned).collect::<Vec<_>>()
    };
    let cells = line("HeRocks, PM1725a");
    assert_eq!(cells[2], "350,000", "{text}");
    let speed = rows.iter().find(|row| {
        row["engine"] == "heliox" && row["workload"] == "readwhilewriting" && row["threads"] == 32
    });
    let speed = speed.unwrap()["ops_per_s"].as_f64().unwrap();
    let shown: f64 = cells[3].replace(',', "").parse().unwrap();
    assert!((shown - speed).abs() <= 0.5, "{cells:?} {speed}");
    for expected in [
        "part 3 of 3: bench-compare run",
        "what differs",
        "2,000 values of 400 bytes instead of 1,000,000,000",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("readrandomwriterandom"));
    // What stands beside the paper is on the page too.
    for expected in [
        "<h2>Suite herocks</h2>",
        "HeRocks, PM1725a",
        "350,000",
        "what differs",
        "the paper: ",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// Runs a suite on Heliox at a scale, and gives its output and rows.
fn small_suite(name: &str, scale: &str) -> (String, Vec<serde_json::Value>) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (json, dir_name) = (path("out.json"), path(""));
    let what = [name, "--engines", "heliox", "--scale", scale];
    let into = ["--duration", "0.02", "--dir", &dir_name, "--json", &json];
    let output = suite(&[&what[..], &into].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    (text, results(dir.path()))
}

/// The figure of the only engine on a line.
fn figure(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.contains(name));
    assert!(line.is_some(), "{name}: {text}");
    let cell = line.unwrap().trim_matches('│').split('┆').nth(1);
    let digits = cell.unwrap().trim().replace(',', "");
    digits.parse().unwrap()
}

#[test]
fn growth_is_told_for_each_number_of_objects() {
    let (text, rows) = small_suite("growth", "0.0001");
    assert_eq!(rows.len(), 6 * 5, "{text}");
    for (place, num) in [100, 200, 500, 1000, 2000, 5000].into_iter().enumerate() {
        let rows = &rows[5 * place..5 * place + 5];
        assert!(rows.iter().all(|row| row["num"] == num), "{text}");
        let keys = match num {
            5000 => "5,000".to_owned(),
            2000 => "2,000".to_owned(),
            1000 => "1,000".to_owned(),
            few => few.to_string(),
        };
        let told = |what: &str| figure(&text, &format!("│ {keys} objects: {what}"));
        let close = |told: f64, row: f64| assert!((told - row).abs() <= 0.5, "{told} {row}");
        close(
            told("fill, 4 threads, ops/s"),
            rows[0]["ops_per_s"].as_f64().unwrap(),
        );
        close(
            told("cached get, 4 threads, ops/s"),
            rows[2]["ops_per_s"].as_f64().unwrap(),
        );
        let memory = rows[2]["peak_rss_bytes"].as_f64().unwrap() / f64::from(num);
        close(told("cached get, 4 threads, memory"), memory);
        close(
            told("closed, 1 thread, seconds"),
            rows[3]["open_seconds"].as_f64().unwrap(),
        );
        close(
            told("killed, 1 thread, seconds"),
            rows[4]["open_seconds"].as_f64().unwrap(),
        );
    }
}

#[test]
fn scans_are_told_fresh_and_aged_cold_and_warm() {
    let (text, rows) = small_suite("scans", "0.0002");
    assert_eq!(rows.len(), 14, "{text}");
    for (name, place) in [
        ("fresh, cold", 2),
        ("fresh, warm", 3),
        ("aged, cold", 9),
        ("aged, warm", 10),
    ] {
        let (full, short) = (&rows[place], &rows[place + 3]);
        assert_eq!(
            (&full["workload"], &full["found"]),
            (&"readseq".into(), &2000.into())
        );
        let entries = 2000.0 / full["seconds"].as_f64().unwrap();
        let told = figure(&text, &format!("full scan, {name}, 1 thread, entries/s"));
        assert!((told - entries).abs() <= 0.5, "{told} {entries}");
        assert_eq!(short["workload"], "scan");
        let told = figure(&text, &format!("short scans, {name}, 1 thread, ops/s"));
        assert!((told - short["ops_per_s"].as_f64().unwrap()).abs() <= 0.5);
    }
}

#[test]
fn the_suite_of_hse_runs_ycsb_and_says_what_is_not_there() {
    let (text, rows) = small_suite("hse", "0.0000005");
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["workload"].as_str().unwrap())
        .collect();
    let all = "fillrandom ycsb-a ycsb-b ycsb-c ycsb-f ycsb-d ycsb-e";
    assert_eq!(names.join(" "), all);
    for expected in [
        "986,009",
        "19,500",
        "no media classes yet",
        "p99.9 of writes",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn an_interrupted_suite_keeps_what_it_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-compare"));
    command.args([
        "suite",
        "growth",
        "--engines",
        "heliox",
        "--duration",
        "1h",
        "--dir",
    ]);
    command
        .arg(dir.path())
        .args(["--scale", "0.0001", "--json"]);
    command.arg(dir.path().join("out.json"));
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    interrupt_after(&child, dir.path(), "fillrandom");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("Interrupted") && text.contains("100 objects: fill"),
        "{text}"
    );
    assert!(!text.contains("part 2 of 6"), "{text}");
    // What was under way is kept too, if it had begun.
    let rows = results(dir.path());
    assert!((1..=2).contains(&rows.len()), "{text}");
    assert!(rows[1..].iter().all(|row| row["cut_short"] == true));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Sends an interruption when the results have a workload.
fn interrupt_after(child: &std::process::Child, dir: &Path, workload: &str) {
    let begin = Instant::now();
    let written = || std::fs::read_to_string(dir.join("out.json"));
    while !written().is_ok_and(|text| text.contains(workload)) {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    // What follows begins at once.
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

#[test]
fn suites_are_listed_and_what_is_wrong_with_one_is_said() {
    let output = suite(&["--list", "--scale", "0.5"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "helium: ",
        "herocks: ",
        "hlkvds: ",
        "scylla: ",
        "hse: ",
        "growth: ",
        "scans: ",
        "--num 500000000 ",
        "--num 25000000 ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for (line, reason) in [
        (&["hellium", "--dir", "."][..], "suite --list"),
        (&["helium"], "--dir"),
        (&["helium", "--dir", ".", "--scale", "2"], "above 0"),
        (&["helium", "--dir", ".", "--engines", "oracle"], "oracle"),
        (
            &["helium", "--dir", ".", "--scale", "1"],
            "part 1 of the suite helium: give a smaller --scale",
        ),
        (
            &["helium", "--dir", "/nonexist"],
            "(part 1 of the suite helium)",
        ),
        (
            &["speed", "--dir", ".", "--scale", "0.002"],
            "(part 4 of the suite speed: give a larger --scale)",
        ),
        (
            &["growth", "--dir", ".", "--scale", "0.00001"],
            "0.00010 or more",
        ),
        (&["hse", "--dir", ".", "--scale", "0.5"], "not enough space"),
    ] {
        let output = suite(line);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reason), "{line:?}: {text}");
    }
}

#[test]
fn a_rate_is_looked_for_within_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("out.html").display().to_string();
    let what = ["--engines", "heliox", "--workloads", "fillseq,readrandom"];
    let how = [
        "--num",
        "500",
        "--latency-limit",
        "p50=2us",
        "--duration",
        "0.05",
        "--html",
        html.as_str(),
    ];
    let output = program(dir.path(), &[&what[..], &how].concat())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let rows = results(dir.path());
    assert!(rows[0]["latency_limit"].is_null());
    let search = &rows[1]["latency_limit"];
    assert_eq!(search["limit"], "p50=2us");
    let trials = search["trials"].as_array().unwrap();
    assert_eq!(trials[0]["rate"], 1000);
    let held = trials.iter().filter(|trial| trial["verdict"] == "holds");
    let best = held.filter_map(|trial| trial["rate"].as_u64()).max();
    assert_eq!(search["found_rate"].as_u64(), best);
    assert!(
        text.contains("heliox readrandom, repeat 1, trials within p50=2us"),
        "{text}"
    );
    let page = std::fs::read_to_string(dir.path().join("out.html")).unwrap();
    assert!(page.contains("<h2>Trials</h2>") && page.contains(">verdict<"));
}

#[cfg(feature = "lmdb")]
#[test]
fn an_engine_that_fails_is_reported_and_the_others_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    // Longer than the keys of LMDB can be.
    let what = ["--workloads", "fillseq,reopen-killed", "--key-size", "600"];
    let line = ["--engines", "lmdb,heliox", "--num", "500"];
    let output = program(dir.path(), &[what, line].concat())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let rows = results(dir.path());
    let engines: Vec<_> = rows.iter().map(|row| row["engine"].as_str()).collect();
    assert_eq!(engines, [Some("heliox"), Some("heliox"), Some("lmdb")]);
    assert!(rows[2]["failed"].as_str().unwrap().starts_with("fillseq: "));
    assert!(text.contains("FAILED: lmdb, repeat 1: fillseq"), "{text}");
}

#[test]
fn what_was_measured_before_an_interruption_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["--engines", "heliox", "--num", "5000"];
    let endless = ["--workloads", "fillseq,readrandom", "--duration", "1h"];
    let child = program(dir.path(), &[line, endless].concat())
        .spawn()
        .unwrap();
    interrupt_after(&child, dir.path(), "fillseq");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("Interrupted") && !text.contains("FAILED"),
        "{text}"
    );
    // The row of the workload that was under way is of what it had done.
    let rows = results(dir.path());
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows[0]["cut_short"] == false && rows[1]["cut_short"] == true);
    assert!(rows[1]["ops"].as_u64().unwrap() > 0 && rows[1]["found"] == rows[1]["ops"]);
    assert!(text.contains("NOT FINISHED: heliox, readrandom"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_done_is_refused_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    for (line, reason) in [
        (["--engines", "oracle", "--num", "1K"], "oracle"),
        (
            ["--engines", "heliox,heliox", "--num", "1K"],
            "heliox twice",
        ),
        (
            ["--memory", "8M", "--num", "1K"],
            "heliox cannot be opened like this",
        ),
        (["--engines", "heliox", "--num", "1G"], "--num"),
        (["--memory", "900T", "--num", "1K"], "--memory"),
        (["--num", "1K", "--key-size", "1"], "--num"),
        (
            ["--raw-device", "--raw-size=1M", "--num", "1K"],
            "--raw-size",
        ),
        (
            ["--raw-device", "--raw-size=900T", "--num", "1K"],
            "--raw-size",
        ),
        (["--num", "1K", "--latency-limit", "p95"], "p95=1ms,p99=2ms"),
        (["--num", "1K", "--rate", "0"], "--rate"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench-compare"));
        command.args([
            "run",
            "--workloads",
            "fillseq",
            "--value-size",
            "1M",
            "--dir",
        ]);
        let output = command.arg(dir.path()).args(line).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reason), "{line:?}: {text}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
