//! `bench` on the real store: every workload runs, and the figures are plausible.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use common::{text, Place};
use serde_json::Value;

fn bench(place: &Place, more: &[&str]) -> Value {
    let json = place.root.path().join("rows.json");
    let common = [
        "bench",
        "--dir",
        "STORE",
        "--capacity",
        "512M",
        "--json",
        text(&json),
    ];
    let printed = place.ok(&[&common[..], more].concat());
    assert!(printed.contains("p99.999"), "{printed}");
    serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
}

#[test]
fn all_workloads_run_and_are_reported() {
    let place = Place::empty();
    let list = "fillseq,fillrandom,overwrite,mergerandom,readrandom,readmissing,readwhilewriting,\
                readrandomwriterandom,seekrandom,scan";
    let options = [
        "--workload",
        list,
        "--num",
        "2K",
        "--threads",
        "2",
        "--scan-length",
        "10",
    ];
    let rows = bench(&place, &options);
    let rows = rows.as_array().unwrap();
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["workload"].as_str().unwrap())
        .collect();
    assert_eq!(names.join(","), list);
    for row in rows {
        assert_eq!(row["engine"], "heliox");
        assert_eq!(row["ops"], 2000, "{row}");
        assert_eq!(row["objects"], 2000, "{row}");
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0);
        let by_second = row["ops_by_second"].as_array().unwrap();
        let counted: u64 = by_second.iter().map(|ops| ops.as_u64().unwrap()).sum();
        assert_eq!(counted, 2000, "{row}");
        assert_eq!(row["percentiles_us"].as_array().unwrap().len(), 46);
        assert!(row["p50_us"].as_f64() <= row["max_us"].as_f64());
    }
    assert_eq!(rows[0]["user_bytes"], 2000 * 116);
    assert!(
        rows[0]["write_amplification"].as_f64().unwrap() >= 1.0,
        "{}",
        rows[0]
    );
    assert!(rows[4]["write_amplification"].is_null());
    assert_eq!(
        (&rows[4]["found"], &rows[5]["found"]),
        (&2000.into(), &0.into())
    );
}

#[test]
fn a_store_is_reused_in_a_keyspace_of_its_own() {
    let place = Place::with_store();
    place.ok(&["put", "STORE", "k", "v"]);
    for keys in ["random", "sequential", "ycsb", "url"] {
        let keyspace = format!("bench-{keys}");
        let common = [
            "--num",
            "500",
            "--keys",
            keys,
            "--keyspace",
            &keyspace,
            "--workload",
        ];
        bench(&place, &[&common[..], &["fillrandom"]].concat());
        let rows = bench(
            &place,
            &[&common[..], &["readrandom,readmissing", "--batch", "8"]].concat(),
        );
        assert_eq!(
            (&rows[0]["found"], &rows[1]["found"]),
            (&500.into(), &0.into()),
            "{keys}"
        );
    }
    bench(&place, &["--num", "100", "--workload", "fillseq"]);
    assert_eq!(place.ok(&["scan", "STORE"]), "k\tv\n");
    let keys = place.ok(&["scan", "STORE", "--keyspace", "bench", "--keys-only"]);
    assert_eq!(keys.lines().count(), 100);
}

#[test]
fn reading_what_was_never_filled_is_remarked_upon() {
    let place = Place::empty();
    let args = [
        "bench",
        "--dir",
        "STORE",
        "--workload",
        "readrandom",
        "--num",
        "100",
    ];
    let output = place.run(&[&args[..], &["--capacity", "256M"]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(common::stderr(&output).contains("found 0 of 100"));
}

#[test]
fn a_load_is_offered_at_a_rate_with_several_numbers_of_threads() {
    let place = Place::empty();
    let list = "fillseq,readrandom,readwhilewriting";
    let what = ["--workload", list, "--num", "400", "--threads", "1,2"];
    let how = ["--rate", "20K", "--writer-rate", "500"];
    let rows = bench(&place, &[&what[..], &how].concat());
    let rows = rows.as_array().unwrap();
    let steps: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["workload"].as_str().unwrap(),
                row["threads"].as_u64().unwrap(),
            )
        })
        .collect();
    let reads = [("readrandom", 1), ("readrandom", 2)];
    let beside = [("readwhilewriting", 1), ("readwhilewriting", 2)];
    assert_eq!(steps, [&[("fillseq", 2)][..], &reads, &beside].concat());
    assert!(rows[0]["open_loop"].is_null());
    assert!(rows[1..]
        .iter()
        .all(|row| row["open_loop"]["rate"] == 20_000));
    assert!(rows[2]["writer_loop"].is_null());
    assert_eq!(rows[3]["writer_loop"]["rate"], 500);
}

#[test]
fn a_rate_is_looked_for_within_a_limit() {
    let place = Place::empty();
    let what = ["--workload", "fillseq,readrandom", "--num", "400"];
    let how = ["--latency-limit", "max=1us", "--duration", "0.1"];
    let rows = bench(&place, &[what, how].concat());
    // What wakes up for an operation is later than that at least once in a hundred.
    assert!(rows[1]["latency_limit"]["found_rate"].is_null(), "{rows}");
    assert_eq!(rows[1]["latency_limit"]["limit"], "max=1us");
    let trials = rows[1]["latency_limit"]["trials"].as_array().unwrap();
    assert!(
        trials.iter().all(|trial| trial["verdict"] != "holds"),
        "{rows}"
    );
}

#[test]
fn a_store_is_closed_and_opened_again() {
    let place = Place::empty();
    let list = "fillrandom,reopen,readseq,reopen,readrandom";
    let options = ["--workload", list, "--num", "2K"];
    let rows = bench(&place, &options);
    for reopen in [1, 3] {
        let row = &rows[reopen];
        assert_eq!(row["workload"], "reopen");
        assert!(row["open_seconds"].as_f64() > Some(0.0), "{row}");
        assert!(row["close_seconds"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["objects"], 2000, "{row}");
    }
    assert_eq!(
        (&rows[2]["found"], &rows[4]["found"]),
        (&2000.into(), &2000.into())
    );
}
