//! Histories that are wrong in known ways, each beside its nearest that is right.

use super::ops::mixed;
use super::*;

fn judge_all(spans: &[(u64, u64, Op)]) -> bool {
    let span = |(called, returned, operation): &(u64, u64, Op)| Span {
        called: *called,
        returned: *returned,
        operation: operation.clone(),
    };
    let history: Vec<Span<Op>> = spans.iter().map(span).collect();
    let start = [None; SLOTS];
    let whole = judge(&start, &history, false) == Judgement::Fine;
    if history.iter().all(|span| span.operation.slot().is_some()) {
        let by_key = judge(&start, &history, true) == Judgement::Fine;
        assert_eq!(whole, by_key, "the two checkers disagree on {spans:?}");
    }
    whole
}

#[test]
fn a_stale_read_is_found() {
    let read = |found| {
        [
            (0, 1, Op::Put(3, 7)),
            (2, 3, Op::Put(3, 8)),
            (4, 5, Op::Get(3, Some(found))),
        ]
    };
    assert!(judge_all(&read(8)));
    assert!(!judge_all(&read(7)));
    assert!(!judge_all(&[
        (0, 1, Op::Put(3, 7)),
        (2, 3, Op::Delete(3)),
        (4, 5, Op::Contains(3, true))
    ]));
}

#[test]
fn a_lost_update_is_found() {
    let (one, two) = (mixed(Some(7), 1), mixed(Some(7), 2));
    let after = |second_saw, end| {
        [
            (0, 1, Op::Put(0, 7)),
            (2, 9, Op::Update(0, 1, Some(7))),
            (2, 9, Op::Update(0, 2, Some(second_saw))),
            (10, 11, Op::Get(0, Some(end))),
        ]
    };
    assert!(judge_all(&after(one, mixed(Some(one), 2))));
    assert!(!judge_all(&after(7, two)));
    let merged = |end| {
        [
            (0, 1, Op::Put(0, 7)),
            (2, 9, Op::Merge(0, 1)),
            (2, 9, Op::Merge(0, 2)),
            (10, 11, Op::Get(0, Some(end))),
        ]
    };
    assert!(judge_all(&merged(mixed(Some(one), 2))));
    assert!(judge_all(&merged(mixed(Some(two), 1))));
    assert!(!judge_all(&merged(one)));
}

#[test]
fn two_who_both_insert_or_both_take_are_found() {
    let both = |first, second| {
        [
            (0, 9, Op::InsertIfAbsent(1, 5, first)),
            (0, 9, Op::InsertIfAbsent(1, 6, second)),
        ]
    };
    assert!(judge_all(&both(true, false)));
    assert!(!judge_all(&both(true, true)));
    assert!(!judge_all(&both(false, false)));
    let take = |first, second| {
        [
            (0, 1, Op::Put(1, 5)),
            (2, 9, Op::Take(1, first)),
            (2, 9, Op::Take(1, second)),
        ]
    };
    assert!(judge_all(&take(None, Some(5))));
    assert!(!judge_all(&take(Some(5), Some(5))));
    assert!(!judge_all(&[(0, 1, Op::ReplaceIfPresent(1, 5, true))]));
}

#[test]
fn half_a_batch_is_found() {
    let batch = Op::Batch(vec![(0, Some(5)), (SLOTS - 1, Some(6))]);
    let seen = |first, second| {
        [
            (0, 9, batch.clone()),
            (1, 2, Op::Get(0, first)),
            (3, 4, Op::Get(SLOTS - 1, second)),
        ]
    };
    assert!(judge_all(&seen(None, None)));
    assert!(judge_all(&seen(None, Some(6))));
    assert!(judge_all(&seen(Some(5), Some(6))));
    assert!(!judge_all(&seen(Some(5), None)));
}

#[test]
fn a_snapshot_that_is_askew_is_found() {
    let puts = [
        (0, 1, Op::Put(0, 1)),
        (2, 3, Op::Put(4, 2)),
        (4, 5, Op::Put(0, 3)),
    ];
    let seen = |first, second| {
        let mut all = puts.to_vec();
        all.push((0, 9, Op::See(vec![(0, first), (4, second)])));
        judge_all(&all)
    };
    assert!(
        seen(None, None) && seen(Some(1), None) && seen(Some(1), Some(2)) && seen(Some(3), Some(2))
    );
    assert!(!seen(None, Some(2)));
    assert!(!seen(Some(3), None));
}

#[test]
fn half_a_range_delete_is_found() {
    let after = |first, second| {
        [
            (
                0,
                1,
                Op::Batch(vec![(4, Some(1)), (5, Some(2)), (6, Some(3))]),
            ),
            (2, 9, Op::DeleteRange(4, 6)),
            (3, 4, Op::See(vec![(4, first), (5, second), (6, Some(3))])),
        ]
    };
    assert!(judge_all(&after(Some(1), Some(2))));
    assert!(judge_all(&after(None, None)));
    assert!(!judge_all(&after(None, Some(2))));
    assert!(!judge_all(&after(Some(1), None)));
}
