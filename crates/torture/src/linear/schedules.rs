//! Short histories of two or three threads on the real store, under schedules that a test decides,
//! with collection, checkpoints and sweeps as one more thread. Every operation that the longer
//! histories have is in them, and the store is checked offline afterwards, now and then.

use std::sync::Mutex;

use heliox::Step;
use heliox_sync::{explore, thread, Plan};

use super::*;

const SCHEDULES: u64 = 3000;
/// One store in so many is closed, checked and opened again at the end.
const CHECK_EVERY: u64 = 16;
/// One in so many has fingerprints of one bit, so that each write meets entries of other keys.
const WEAK_EVERY: u64 = 4;
const STEPS: [Step; 10] = [
    Step::Seal,
    Step::Seal,
    Step::Collect,
    Step::Collect,
    Step::Collect,
    Step::Flush,
    Step::Upkeep,
    Step::Sweep,
    Step::Checkpoint,
    Step::Checkpoint,
];

#[test]
fn short_histories_are_linear() {
    let plan = Plan {
        schedules: SCHEDULES,
        patient: false,
    };
    explore(plan, |number| history(number).unwrap());
}

fn history(number: u64) -> Result<()> {
    let mut random = Random::new(number);
    let mut options = Subject::options()?.background(false).hash_seed(number);
    if number.is_multiple_of(WEAK_EVERY) {
        options = options.fingerprint_bits(1).exact(true);
    }
    let subject = Subject::open(&options)?;
    prepare(&subject, &mut random)?;
    let start = subject.slots()?;
    let mut history = meanwhile(&subject, &mut random)?;
    let after = subject.slots()?;
    history.extend(seen(&after));
    let singles = history.iter().all(|span| span.operation.slot().is_some());
    assert_eq!(judge(&start, &history, singles), Judgement::Fine);
    if !number.is_multiple_of(CHECK_EVERY) {
        return Ok(());
    }
    let Subject { store, .. } = subject;
    store.close().map_err(Failure::store("close"))?;
    let report = heliox::Store::check("", &options, &mut |_| ());
    let report = report.map_err(Failure::store("check"))?;
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(Subject::open(&options)?.slots()?, after);
    Ok(())
}

/// Something to read, move and collect: alone, so that it takes no schedules.
fn prepare(subject: &Subject, random: &mut Random) -> Result<()> {
    for n in 0..random.below(12) {
        subject.operate(random, n + 1, false, &mut Vec::new())?;
        if random.below(3) == 0 {
            step(subject, random)?;
        }
    }
    Ok(())
}

fn step(subject: &Subject, random: &mut Random) -> Result<()> {
    let chosen = STEPS.get(random.below(STEPS.len() as u64) as usize);
    let chosen = chosen.copied().unwrap_or(Step::Collect);
    let done = subject.store.step_of(chosen);
    done.map_err(Failure::store("a step of background work"))?;
    Ok(())
}

fn meanwhile(subject: &Subject, random: &mut Random) -> Result<Vec<Span<Op>>> {
    let (threads, steps) = (2 + random.below(2), random.below(5));
    let singles = random.below(3) == 0;
    let seed = random.next();
    let lists = Mutex::new(Vec::new());
    let work = |thread: u64| {
        let mut random = Random::new(seed ^ thread);
        let mut list = Vec::new();
        for n in 0..1 + random.below(3) {
            let unique = (thread + 1) << 20 | n << 8;
            let done = subject.operate(&mut random, unique, singles, &mut list);
            done.unwrap();
        }
        lists.lock().unwrap().extend(list);
    };
    let disturb = || {
        let mut random = Random::new(!seed);
        (0..steps).for_each(|_| step(subject, &mut random).unwrap());
    };
    // The thread that owns a scope only waits: shuttle wakes it when the last of the others ends.
    thread::scope(|scope| {
        let work = &work;
        for thread in 0..threads {
            scope.spawn(move || work(thread));
        }
        scope.spawn(disturb);
    });
    Ok(lists.into_inner().unwrap_or_default())
}

fn seen(slots: &Slots) -> Vec<Span<Op>> {
    let called = crate::now_ns();
    let get = |(slot, found): (usize, &Option<u64>)| Span {
        called,
        returned: called + 1,
        operation: Op::Get(slot, *found),
    };
    slots.iter().enumerate().map(get).collect()
}
