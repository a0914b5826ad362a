//! `report` on what `bench` wrote, and on what nobody wrote: the tables, the page, the errors.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use common::{text, Place};

#[test]
fn what_bench_wrote_is_shown_compared_and_made_a_page() {
    let place = Place::empty();
    let (old, new) = (
        place.root.path().join("old.json"),
        place.root.path().join("new.json"),
    );
    for json in [&old, &new] {
        let work = [
            "--workload",
            "fillrandom,readrandom",
            "--num",
            "2K",
            "--capacity",
            "256M",
        ];
        let common = ["bench", "--dir", "STORE", "--json", text(json)];
        place.ok(&[&common[..], &work].concat());
    }
    let page = place.root.path().join("page.html");
    let printed = place.ok(&["report", text(&old), "--html", text(&page)]);
    assert!(
        printed.contains("fillrandom") && printed.contains("peak memory"),
        "{printed}"
    );
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("old.json") && html.contains("<h2>Latency"),
        "{html}"
    );

    let printed = place.ok(&["report", text(&old), text(&new), "--html", text(&page)]);
    assert!(printed.contains("A: old.json\nB: new.json"), "{printed}");
    assert!(printed.contains("? "), "measured once: {printed}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<h2>B held against A"), "{html}");
}

#[test]
fn what_is_no_result_is_refused_with_file_place_and_advice() {
    let place = Place::empty();
    let good = place.file(
        "good.json",
        br#"[{"engine": "e", "workload": "w", "threads": 1, "ops_per_s": 5}]"#,
    );
    let bad = |name: &str, content: &[u8]| place.file(name, content);
    for (file, words) in [
        (
            bad("text.json", b"ops 5"),
            ["text.json", "not JSON", "line 1"],
        ),
        (
            bad("cut.json", b"[{\"engine\": \"e\","),
            ["cut.json", "cut off", "line 1"],
        ),
        (
            bad("empty.json", b"[]"),
            ["empty.json", "no results", "run it again"],
        ),
        (
            bad("other.json", b"{\"a\": 1}"),
            ["other.json", "no results", "bench --json"],
        ),
        (
            bad("row.json", b"[{\"engine\": \"e\"}]"),
            ["row.json", "row 1", "workload"],
        ),
        (
            bad("bytes.json", &[0xff, 0xfe]),
            ["bytes.json", "not JSON", "column"],
        ),
        (
            place.root.path().join("none.json"),
            ["none.json", "cannot read", "No such file"],
        ),
        (
            place.root.path().to_owned(),
            ["report", "cannot read", "directory"],
        ),
    ] {
        let page = place.root.path().join("page.html");
        let alone = ["report", text(&file), "--html", text(&page)];
        let second = ["report", text(&good), text(&file)];
        for args in [&alone[..], &second] {
            let message = place.fails(2, args);
            for word in words {
                assert!(message.contains(word), "{args:?}, {word}: {message}");
            }
        }
        assert!(!page.exists(), "a page of nothing");
    }
    let message = place.fails(2, &["report", text(&good), "--html", text(&good)]);
    assert!(message.contains("would overwrite"), "{message}");
    let message = place.fails(2, &["report", text(&good), "--html", "/no/such/place.html"]);
    assert!(message.contains("/no/such/place.html"), "{message}");
    let of_stores = [
        "--keyspace=k",
        "--memory=1G",
        "--key-file=k",
        "--key-command=k",
        "--escaped",
    ];
    for option in of_stores {
        let message = place.fails(2, &["report", text(&good), option]);
        let name = option.split('=').next().unwrap();
        assert!(message.contains(&format!("leave {name} out")), "{message}");
    }
    let help = place.ok(&["report", "--help"]);
    for shown in [
        "report now.json --html now.html",
        "report before.json now.json",
    ] {
        assert!(help.contains(shown), "{help}");
    }
    place.ok(&["report", text(&good)]);
    assert!(place.fails(2, &["report"]).contains("RESULTS.json"));
}
