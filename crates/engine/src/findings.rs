//! What was found damaged since the store was opened: who still stands, what was done about it, and
//! which segments are not to be used again.
//!
//! Invariants: one finding for a place in one life of a segment, however often it is met; lists are
//! bounded, what goes beyond is counted. Threads: any.

use std::collections::{HashMap, HashSet};

use heliox_format::ids::{Birth, SegmentId};
use heliox_sync::Mutex;

use crate::health::{Finding, Remedy};

/// Findings and words that are kept.
const KEPT_MAX: usize = 1000;

/// Which damage is meant: the life of the segment (0 outside of segments) and the address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Mark {
    pub(crate) segment: Option<(SegmentId, Birth)>,
    pub(crate) address: u64,
}

#[derive(Default)]
struct Lists {
    /// In the order in which they were found, with the number of each.
    findings: HashMap<Mark, (u64, Finding)>,
    next: u64,
    unlisted: u64,
    /// What was found damaged, in words.
    words: Vec<String>,
    /// Places that reads told of already.
    read: HashSet<Mark>,
    /// Segments that damage keeps from being chosen for collection.
    quarantined: HashSet<Birth>,
    /// Segments whose media fail reads: they are not given back.
    unusable: HashSet<Birth>,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Findings(Mutex<Lists>);

impl Findings {
    /// With what opening found, in words.
    pub(crate) fn of_words(words: Vec<String>) -> Findings {
        Findings(Mutex::new(Lists {
            words,
            ..Lists::default()
        }))
    }

    /// Everything that was found, in words.
    pub(crate) fn words(&self) -> Vec<String> {
        self.0.lock().words.clone()
    }

    /// Notes damage that a read met. False if it was known.
    pub(crate) fn note_read(&self, mark: Mark, words: &str) -> bool {
        let mut lists = self.0.lock();
        if lists.read.len() >= KEPT_MAX || !lists.read.insert(mark) {
            return false;
        }
        lists.say(words);
        true
    }

    /// Notes damage in words only.
    pub(crate) fn say(&self, words: &str) {
        self.0.lock().say(words);
    }

    /// Notes a finding, or what became of it since. True if it is new, or was mended before.
    pub(crate) fn note(&self, mark: Mark, finding: &Finding) -> bool {
        let mut lists = self.0.lock();
        if let Some((_, known)) = lists.findings.get_mut(&mark) {
            let found_ms = known.found_ms;
            // What was mended is damaged again.
            let is_new = known.remedy == Remedy::Mended;
            *known = finding.clone();
            if !is_new {
                known.found_ms = found_ms;
            }
            return is_new;
        }
        if lists.findings.len() >= KEPT_MAX {
            lists.unlisted += 1;
            return true;
        }
        let number = lists.next;
        lists.next += 1;
        lists.findings.insert(mark, (number, finding.clone()));
        lists.say(&finding.to_string());
        true
    }

    /// Findings that were not mended, in the order in which they were found, and how many are not
    /// listed.
    pub(crate) fn standing(&self) -> (Vec<(Mark, Finding)>, u64) {
        let lists = self.0.lock();
        let standing = lists.findings.iter();
        let standing = standing.filter(|(_, (_, f))| f.remedy != Remedy::Mended);
        let mut numbered: Vec<(u64, Mark, Finding)> = standing
            .map(|(mark, (number, f))| (*number, *mark, f.clone()))
            .collect();
        numbered.sort_by_key(|(number, ..)| *number);
        let listed = numbered.into_iter().map(|(_, mark, f)| (mark, f));
        (listed.collect(), lists.unlisted)
    }

    /// Damage is gone: the segment lives another life, or nothing of it is needed any more.
    pub(crate) fn forget(&self, mark: &Mark) {
        if let Some((_, finding)) = self.0.lock().findings.get_mut(mark) {
            finding.remedy = Remedy::Mended;
        }
    }

    /// Keeps a segment from being chosen for collection: what can be read of it is moved otherwise.
    pub(crate) fn quarantine(&self, birth: Birth) {
        self.0.lock().quarantined.insert(birth);
    }

    pub(crate) fn is_quarantined(&self, birth: Birth) -> bool {
        self.0.lock().quarantined.contains(&birth)
    }

    /// Keeps a segment from being given back while the store is open: media that fail reads of it
    /// may fail a write as well, and that would be the end of all writing.
    pub(crate) fn keep_out(&self, birth: Birth) {
        self.0.lock().unusable.insert(birth);
    }

    pub(crate) fn is_kept_out(&self, birth: Birth) -> bool {
        let lists = self.0.lock();
        !lists.unusable.is_empty() && lists.unusable.contains(&birth)
    }
}

impl Lists {
    fn say(&mut self, words: &str) {
        if self.words.len() < KEPT_MAX {
            self.words.push(words.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Place, Structure};

    fn finding(at: u64) -> (Mark, Finding) {
        let mark = Mark {
            segment: Some((SegmentId(1), Birth(3))),
            address: at,
        };
        let finding = Finding {
            structure: Structure::Records,
            place: Place {
                volume: 0,
                offset: at,
                len_bytes: 4096,
                segment: Some(1),
            },
            what: "bad".to_owned(),
            found_ms: at,
            live_records: 1,
            lost_records: 1,
            remedy: Remedy::None,
        };
        (mark, finding)
    }

    #[test]
    fn damage_is_told_once_and_stands_until_it_is_mended() {
        let findings = Findings::default();
        let (mark, mut first) = finding(4096);
        let (other, second) = finding(0);
        assert!(findings.note(mark, &first) && findings.note(other, &second));
        first.remedy = Remedy::Evacuated;
        first.found_ms = 9;
        assert!(!findings.note(mark, &first));
        let (standing, unlisted) = findings.standing();
        assert_eq!((standing.len(), unlisted), (2, 0));
        assert_eq!(standing[0].0, mark, "the first that was found comes first");
        assert_eq!(standing[0].1.remedy, Remedy::Evacuated);
        assert_eq!(standing[0].1.found_ms, 4096, "since it was found first");
        assert_eq!(findings.words().len(), 2);
        findings.forget(&mark);
        assert_eq!(findings.standing().0.len(), 1);
        assert!(findings.note(mark, &first), "damaged again");
        assert_eq!(findings.standing().0[0].1.found_ms, 9);
        assert!(findings.note_read(mark, "x"));
        assert!(!findings.note_read(mark, "x"));
        assert_eq!(findings.words().len(), 3);
    }

    #[test]
    fn lists_are_bounded_and_the_rest_is_counted() {
        let findings = Findings::default();
        for n in 0..KEPT_MAX as u64 + 20 {
            let (mark, finding) = finding(n);
            assert!(findings.note(mark, &finding));
        }
        let (standing, unlisted) = findings.standing();
        assert_eq!((standing.len(), unlisted), (KEPT_MAX, 20));
        assert_eq!(findings.words().len(), KEPT_MAX);
    }
}
