//! The watch over a store's health: looks at what the parts know, says in which state the store is
//! and why, and makes an event of each change.
//!
//! A look is cheap (a few locks, no I/O), so that a thread does it ten times a second, and everybody
//! who asks. What takes a look at every segment is looked at every ten seconds.

use heliox_sync::atomic::Ordering;

use crate::core::Core;
use crate::events::EventKind;
use crate::findings::Mark;
use crate::health::{Condition, ConditionKind, Finding, Health};
use crate::space::Wish;
use crate::vitals::{Stall, Vitals};

/// Nearly full: more than so many hundredths of what live records can take are taken.
const NEARLY_FULL_PERCENT: u64 = 90;
/// Memory is short: the index has taken more than so many hundredths of its share.
const MEMORY_SHORT_PERCENT: u64 = 95;

/// The health now; what changed since the last look becomes an event.
pub(crate) fn look(core: &Core) -> Health {
    let now_ms = core.now_ms();
    let mut vitals = core.vitals.lock();
    let health = health_now(core, &mut vitals, now_ms);
    let (from, to) = (vitals.state, health.state());
    if from != to {
        vitals.state = to;
        let mut why = health.to_string();
        // The state is told already.
        why.drain(..to.to_string().len());
        let why = why.trim_start_matches(": ").to_owned();
        core.events
            .emit(now_ms, EventKind::HealthChanged { from, to, why });
    }
    note_work(core, &mut vitals, now_ms);
    health
}

fn health_now(core: &Core, vitals: &mut Vitals, now_ms: u64) -> Health {
    if core.closed.load(Ordering::Acquire) {
        return Health::Closed;
    }
    let mut conditions = Vec::new();
    let full = full(core, vitals, now_ms);
    let is_full = full.is_some();
    conditions.extend(full);
    conditions.extend(nearly(core, vitals, now_ms).filter(|_| !is_full));
    conditions.extend(memory_short(core, vitals, now_ms));
    conditions.extend(damage(core));
    if let Some(failure) = core.log.failure() {
        return Health::Failed {
            cause: failure.to_string(),
            since_ms: vitals.since("failed", true, now_ms).unwrap_or(now_ms),
            conditions,
        };
    }
    match conditions.is_empty() {
        _ if is_full => Health::Full { conditions },
        false => Health::Degraded { conditions },
        true => Health::Healthy,
    }
}

fn full(core: &Core, vitals: &mut Vitals, now_ms: u64) -> Option<Condition> {
    let delay = core.space.ask(Wish::Data, 0, core.log.free_segments());
    let is_full = delay.is_none() && core.space.was_stuck();
    let since = vitals.since("full", is_full, now_ms)?;
    let geometry = core.log.geometry();
    let capacity_bytes = geometry.segment_bytes * u64::from(geometry.segments);
    Some(Condition::new(
        ConditionKind::Full { capacity_bytes },
        since,
    ))
}

fn nearly(core: &Core, vitals: &mut Vitals, now_ms: u64) -> Option<Condition> {
    if vitals.wants_sizes(core.settings.environment.elapsed()) {
        vitals.live_bytes = core.live_bytes();
    }
    let geometry = core.log.geometry();
    let usable = u64::from(geometry.segments).saturating_sub(core.space.data_floor());
    let usable_bytes = usable * geometry.segment_bytes;
    let live_bytes = vitals.live_bytes;
    let holds = live_bytes > usable_bytes / 100 * NEARLY_FULL_PERCENT;
    let kind = ConditionKind::NearlyFull {
        live_bytes,
        usable_bytes,
    };
    let since = vitals.since("nearly full", holds, now_ms)?;
    Some(Condition::new(kind, since))
}

fn memory_short(core: &Core, vitals: &mut Vitals, now_ms: u64) -> Option<Condition> {
    let index_bytes = core.index.memory_bytes();
    let limit_bytes = core.settings.index_limit_bytes;
    let holds = index_bytes > limit_bytes / 100 * MEMORY_SHORT_PERCENT;
    let kind = ConditionKind::MemoryShort {
        index_bytes,
        limit_bytes,
    };
    let since = vitals.since("memory short", holds, now_ms)?;
    Some(Condition::new(kind, since))
}

/// Damage that stands. What lay in a segment that lives another life, or holds nothing that is
/// needed, is gone.
fn damage(core: &Core) -> Vec<Condition> {
    let (standing, unlisted) = core.findings.standing();
    let mut conditions: Vec<Condition> = Vec::new();
    for what in &core.damage_at_open {
        let kind = ConditionKind::DamageAtOpen { what: what.clone() };
        conditions.push(Condition::new(kind, core.opened_ms));
    }
    for (mark, finding) in standing {
        if is_gone(core, &mark, &finding) {
            core.findings.forget(&mark);
            continue;
        }
        let since_ms = finding.found_ms;
        conditions.push(Condition::new(ConditionKind::Damage(finding), since_ms));
    }
    if unlisted > 0 {
        let kind = ConditionKind::MoreDamage { count: unlisted };
        conditions.push(Condition::new(kind, core.opened_ms));
    }
    conditions
}

fn is_gone(core: &Core, mark: &Mark, finding: &Finding) -> bool {
    let Some((id, birth)) = mark.segment else {
        return false;
    };
    let is_log = finding.structure != crate::health::Structure::Checkpoint;
    core.log.views().birth(id) != birth || is_log && core.log.segment(id).live() == 0
}

/// Work of others that shows in counters only.
fn note_work(core: &Core, vitals: &mut Vitals, now_ms: u64) {
    let now = core.settings.environment.elapsed();
    match vitals.stall(core.counters.room_waits.get(), now) {
        Some(Stall::Began) => core.events.emit(now_ms, EventKind::StallBegan),
        Some(Stall::Ended(millis)) => {
            core.events.emit(now_ms, EventKind::StallEnded { millis });
        }
        None => {}
    }
    let healed = core.counters.strangers_healed.get();
    let before = std::mem::replace(&mut vitals.strangers_healed, healed);
    if healed > before {
        let count = healed - before;
        core.events
            .emit(now_ms, EventKind::StrangersHealed { count });
    }
}
