//! Reading many keys at once, as of now or of a snapshot: one pass over the index, one batch of media
//! reads.

use heliox_format::ids::{Birth, KeyspaceId, Location};
use heliox_format::record::Record;
use heliox_index::{Matches, PreparedKey};

use crate::core::{Asked, Core, Head};
use crate::error::{Error, Result};
use crate::large;
use crate::read::{self, is_gone, is_outdated, is_stale, is_visible, named, note_read, View};

/// Keys whose records are asked for before the first of them is read.
const GROUP: usize = 32;

/// What is known of a key after a pass.
#[derive(Clone)]
enum Answer {
    /// Not yet: its record is read in the batch.
    Wanted(Location),
    /// The plain way: a chain must be followed, or the record moved meanwhile.
    Slow,
    Value(Option<Vec<u8>>),
}

/// What all keys are asked for.
#[derive(Clone, Copy)]
struct Question {
    view: View,
    /// From before the index was asked.
    asked: Asked,
}

/// The values of the keys that the view sees, in their order.
pub(crate) fn run(
    core: &Core,
    keyspace: KeyspaceId,
    keys: &[&[u8]],
    view: View,
) -> Result<Vec<Option<Vec<u8>>>> {
    let prepared: Vec<PreparedKey<'_>> = keys.iter().map(|k| core.prepare(keyspace, k)).collect();
    let mut matches: Vec<Matches> = Vec::with_capacity(keys.len());
    let asked = core.asked();
    let question = Question { view, asked };
    core.index.lookup_many(&prepared, &mut matches);
    let mut answers = Vec::with_capacity(keys.len());
    for (keys, found) in prepared.chunks(GROUP).zip(matches.chunks(GROUP)) {
        core.cache
            .expect_reads(found.iter().filter_map(|f| only(core, f)));
        let pairs = keys.iter().zip(found);
        answers.extend(pairs.map(|(key, found)| first_look(core, key, found, question)));
    }
    read_wanted(core, &prepared, &mut answers, question)?;
    let operations = core.counters.operations();
    operations.gets.add(keys.len() as u64);
    let mut values = Vec::with_capacity(keys.len());
    for (key, answer) in prepared.iter().zip(answers) {
        let value = match answer {
            Answer::Value(value) => value,
            Answer::Slow | Answer::Wanted(_) => read_slowly(core, key, view)?,
        };
        operations.get_hits.add(u64::from(value.is_some()));
        values.push(value);
    }
    Ok(values)
}

/// The one record that may be a key's, as the cache names it.
fn only(core: &Core, matches: &Matches) -> Option<(Location, Birth)> {
    match matches[..] {
        [entry] => named(core, entry.location),
        _ => None,
    }
}

fn first_look(core: &Core, key: &PreparedKey<'_>, matches: &Matches, question: Question) -> Answer {
    match matches[..] {
        [] => Answer::Value(None),
        [entry] => {
            let location = entry.location;
            let look = |r: &Record<'_>| judge(core, key, location, r, question);
            match read::look_in_cache(core, location, look) {
                Some(answer) => answer,
                None => Answer::Wanted(location),
            }
        }
        _ => Answer::Slow,
    }
}

/// What the newest record of an entry says, if it needs no second look.
fn judge(
    core: &Core,
    key: &PreparedKey<'_>,
    location: Location,
    record: &Record<'_>,
    question: Question,
) -> Answer {
    let Question { view, asked } = question;
    let is_own = record.key == key.key() && record.header.keyspace == key.keyspace();
    // In another life of the segment an older version of the key may lie at the place, for a snapshot.
    if !is_own || record.header.chunked || is_stale(core, Head { location, asked }) {
        return Answer::Slow;
    }
    // Further down the chain there may be one that the view sees.
    if !is_visible(core, record, view) {
        return Answer::Slow;
    }
    if is_gone(core, record, view) {
        return Answer::Value(None);
    }
    if is_outdated(core, asked) {
        return Answer::Slow;
    }
    Answer::Value(Some(record.value.to_vec()))
}

fn read_wanted(
    core: &Core,
    keys: &[PreparedKey<'_>],
    answers: &mut [Answer],
    question: Question,
) -> Result<()> {
    let wanted: Vec<(usize, Location)> = answers
        .iter()
        .enumerate()
        .filter_map(|(i, a)| match a {
            Answer::Wanted(location) => Some((i, *location)),
            Answer::Slow | Answer::Value(_) => None,
        })
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let locations: Vec<Location> = wanted.iter().map(|(_, l)| *l).collect();
    read::with_read_buf(|buf| {
        core.log.read_many(&locations, buf, &mut |n, found| {
            // What cannot be read here shows its error on the plain way.
            if let Ok(Some(found)) = found {
                note_read(core, locations[n], &found);
                let i = wanted[n].0;
                answers[i] = judge(core, &keys[i], locations[n], &found.record, question);
            }
        })
    })?;
    Ok(())
}

fn read_slowly(core: &Core, key: &PreparedKey<'_>, view: View) -> Result<Option<Vec<u8>>> {
    let mut last = None;
    loop {
        let mut head = None;
        let found = read::get(core, key, view, &mut |record| {
            head = Some(read::OwnedRecord::of(record));
            Ok(())
        })?;
        let Some(head) = head.filter(|_| found) else {
            return Ok(None);
        };
        if let Some(value) = large::load(core, &head.record())? {
            return Ok(Some(value));
        }
        // Chunks go with their head: missing under the same one twice, they are lost.
        if last.replace(head.seq) == Some(head.seq) {
            return Err(Error::damaged("a chunk of a large value is missing"));
        }
    }
}
