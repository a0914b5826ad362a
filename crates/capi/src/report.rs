//! Health, the scrub, events: what a store tells of itself, shown to callbacks.
//!
//! Invariant: what a callback is shown lives until it returns. Threads: any.

use std::ffi::CString;
use std::mem::size_of;

use heliox::{ConditionKind as Kind, EventKind as What};

use crate::border::{c_string, need, Grown, Out, Shown, User};
use crate::error::{answer, ErrorOut};
use crate::failure::{Code, Result};
use crate::handles::Store;
use crate::layout::{
    Condition, ConditionKind, Event, EventKind, Finding, Health, Remedy, ScrubReport, Structure,
};

/// `heliox_progress_fn`.
pub(crate) type ProgressFn = extern "C" fn(user: User, done_bytes: u64, total_bytes: u64);
/// `heliox_finding_fn`.
pub(crate) type FindingFn = extern "C" fn(user: User, finding: Option<&Finding<'_>>);
/// `heliox_condition_fn`.
pub(crate) type ConditionFn = extern "C" fn(user: User, condition: Option<&Condition<'_>>);
/// `heliox_event_fn`.
pub(crate) type EventFn = extern "C" fn(user: User, event: Option<&Event<'_>>);

/// A finding in the engine's words, with the texts that C is shown.
struct FindingShown {
    finding: heliox::Finding,
    what: CString,
    text: CString,
}

impl FindingShown {
    fn of(finding: &heliox::Finding) -> FindingShown {
        FindingShown {
            finding: finding.clone(),
            what: c_string(&finding.what),
            text: c_string(&finding.to_string()),
        }
    }

    fn show(&self) -> Finding<'_> {
        let finding = &self.finding;
        Finding {
            struct_size: size_of::<Finding<'_>>(),
            structure: match finding.structure {
                heliox::Structure::Records => Structure::Records,
                heliox::Structure::SegmentHeader => Structure::SegmentHeader,
                heliox::Structure::Checkpoint => Structure::Checkpoint,
                heliox::Structure::Superblock => Structure::Superblock,
                heliox::Structure::Label => Structure::Label,
                _ => Structure::Other,
            },
            remedy: match finding.remedy {
                heliox::Remedy::Mended => Remedy::Mended,
                heliox::Remedy::Evacuated => Remedy::Evacuated,
                _ => Remedy::None,
            },
            volume: finding.place.volume,
            segment: finding.place.segment.unwrap_or(u32::MAX),
            offset: finding.place.offset,
            len_bytes: finding.place.len_bytes,
            found_ms: finding.found_ms,
            live_records: finding.live_records,
            lost_records: finding.lost_records,
            what: Shown::of(&self.what),
            text: Shown::of(&self.text),
        }
    }
}

fn health_of(state: heliox::HealthState) -> Health {
    match state {
        heliox::HealthState::Healthy => Health::Healthy,
        heliox::HealthState::Full => Health::Full,
        heliox::HealthState::Failed => Health::Failed,
        heliox::HealthState::Closed => Health::Closed,
        // One that the header does not know yet wants attention at least.
        _ => Health::Degraded,
    }
}

/// Shows a condition to a callback.
fn show_condition(visit: ConditionFn, user: User, condition: &heliox::Condition) {
    let (kind, found, limit) = match &condition.kind {
        Kind::Damage(_) => (ConditionKind::Damage, 0, 0),
        Kind::DamageAtOpen { .. } => (ConditionKind::DamageAtOpen, 0, 0),
        Kind::MoreDamage { count } => (ConditionKind::MoreDamage, *count, 0),
        Kind::Full { capacity_bytes } => (ConditionKind::Full, 0, *capacity_bytes),
        Kind::NearlyFull {
            live_bytes,
            usable_bytes,
        } => (ConditionKind::NearlyFull, *live_bytes, *usable_bytes),
        Kind::MemoryShort {
            index_bytes,
            limit_bytes,
        } => (ConditionKind::MemoryShort, *index_bytes, *limit_bytes),
        _ => (ConditionKind::Other, 0, 0),
    };
    let finding = match &condition.kind {
        Kind::Damage(finding) => Some(FindingShown::of(finding)),
        _ => None,
    };
    let finding = finding.as_ref().map(FindingShown::show);
    let text = c_string(&condition.to_string());
    let shown = Condition {
        struct_size: size_of::<Condition<'_>>(),
        kind,
        since_ms: condition.since_ms,
        found,
        limit,
        finding: finding.as_ref(),
        text: Shown::of(&text),
    };
    visit(user, Some(&shown));
}

#[no_mangle]
extern "C" fn heliox_store_health(
    store: Option<&Store>,
    health: Out<'_, Health>,
    visit: Option<ConditionFn>,
    user: User,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let told = need(store, "store")?.store.health();
        if let Some(place) = health {
            place.write(health_of(told.state()));
        }
        let Some(visit) = visit else {
            return Ok(Code::Ok);
        };
        if let heliox::Health::Failed {
            cause, since_ms, ..
        } = &told
        {
            let text = c_string(cause);
            let shown = Condition {
                struct_size: size_of::<Condition<'_>>(),
                kind: ConditionKind::Failed,
                since_ms: *since_ms,
                found: 0,
                limit: 0,
                finding: None,
                text: Shown::of(&text),
            };
            visit(user, Some(&shown));
        }
        for condition in told.conditions() {
            show_condition(visit, user, condition);
        }
        Ok(Code::Ok)
    })
}

fn scrub_of(report: &heliox::ScrubReport) -> ScrubReport {
    ScrubReport {
        struct_size: size_of::<ScrubReport>(),
        started_ms: report.started_ms,
        finished_ms: report.finished_ms,
        segments: report.segments,
        bytes: report.bytes,
        unsteady_reads: report.unsteady_reads,
        finding_count: report.finding_count,
        moved_records: report.moved_records,
        lost_records: report.lost_records,
    }
}

/// Gives a scrub's report to the caller.
fn tell_scrub(
    told: &heliox::ScrubReport,
    visit: Option<FindingFn>,
    user: User,
    report: &Grown<'_, ScrubReport>,
) -> Result<()> {
    report.fill(&scrub_of(told), "report")?;
    if let Some(visit) = visit {
        for finding in &told.findings {
            visit(user, Some(&FindingShown::of(finding).show()));
        }
    }
    Ok(())
}

#[no_mangle]
extern "C" fn heliox_store_scrub(
    store: Option<&Store>,
    progress: Option<ProgressFn>,
    visit: Option<FindingFn>,
    user: User,
    report: Grown<'_, ScrubReport>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        report.check("report")?;
        let told = need(store, "store")?.store.scrub(&mut |at| {
            if let Some(progress) = progress {
                progress(user, at.done_bytes, at.total_bytes);
            }
        })?;
        tell_scrub(&told, visit, user, &report)?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_last_scrub(
    store: Option<&Store>,
    visit: Option<FindingFn>,
    user: User,
    report: Grown<'_, ScrubReport>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        report.check("report")?;
        let Some(told) = need(store, "store")?.store.last_scrub() else {
            return Ok(Code::NotFound);
        };
        tell_scrub(&told, visit, user, &report)?;
        Ok(Code::Ok)
    })
}

/// An event with the texts that C is shown.
pub(crate) struct EventShown<'a> {
    event: &'a heliox::Event,
    finding: Option<FindingShown>,
    name: CString,
    text: CString,
}

impl EventShown<'_> {
    pub(crate) fn of(event: &heliox::Event) -> EventShown<'_> {
        EventShown {
            finding: match &event.kind {
                What::DamageFound(finding) => Some(FindingShown::of(finding)),
                _ => None,
            },
            name: c_string(event.kind.name()),
            text: c_string(&event.kind.to_string()),
            event,
        }
    }

    pub(crate) fn give(&self, visit: EventFn, user: User) {
        let (kind, amount) = kind_of(&self.event.kind);
        let finding = self.finding.as_ref().map(FindingShown::show);
        let scrub = match &self.event.kind {
            What::ScrubFinished(report) => Some(scrub_of(report)),
            _ => None,
        };
        let (from, to) = match &self.event.kind {
            What::HealthChanged { from, to, .. } => (health_of(*from), health_of(*to)),
            _ => (Health::Healthy, Health::Healthy),
        };
        let shown = Event {
            struct_size: size_of::<Event<'_>>(),
            kind,
            from,
            to,
            number: self.event.number,
            at_ms: self.event.at_ms,
            amount,
            finding: finding.as_ref(),
            scrub: scrub.as_ref(),
            name: Shown::of(&self.name),
            text: Shown::of(&self.text),
        };
        visit(user, Some(&shown));
    }
}

fn kind_of(kind: &What) -> (EventKind, u64) {
    match kind {
        What::HealthChanged { .. } => (EventKind::HealthChanged, 0),
        What::DamageFound(_) => (EventKind::DamageFound, 0),
        What::ScrubStarted => (EventKind::ScrubStarted, 0),
        What::ScrubFinished(_) => (EventKind::ScrubFinished, 0),
        What::CheckpointWritten { bytes } => (EventKind::CheckpointWritten, *bytes),
        What::StallBegan => (EventKind::StallBegan, 0),
        What::StallEnded { millis } => (EventKind::StallEnded, *millis),
        What::BackgroundError { .. } => (EventKind::BackgroundError, 0),
        What::StrangersHealed { count } => (EventKind::StrangersHealed, *count),
        What::EventsDropped { count } => (EventKind::EventsDropped, *count),
        _ => (EventKind::Other, 0),
    }
}

#[no_mangle]
extern "C" fn heliox_store_events(
    store: Option<&Store>,
    visit: Option<EventFn>,
    user: User,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let visit = need(visit, "visit")?;
        for event in &need(store, "store")?.store.events() {
            EventShown::of(event).give(visit, user);
        }
        Ok(Code::Ok)
    })
}
