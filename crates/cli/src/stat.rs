//! `heliox stat`: prints the figures of a store, its health, and what happened since it was opened.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table};
use heliox::{Condition, Event, Health, ScrubReport, StatValue, Store};
use heliox_bench::DurabilityMode;
use serde_json::{json, Map, Value};

use crate::args::{Shared, StatArgs};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::print_line;
use crate::scrub::report_json;
use heliox_bench::size::show_bytes;

/// Prints the figures of the whole store and the names of its keyspaces.
pub(crate) fn run(args: &StatArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let store = open::store(&args.dir, shared, DurabilityMode::Bounded)?;
    if let Some(name) = &shared.keyspace {
        store.keyspace(name)?;
    }
    let text = if args.json {
        json(&store).to_string()
    } else {
        table(&store)
    };
    store.close()?;
    print_line(&text)?;
    Ok(Outcome::Done)
}

fn json(store: &Store) -> Value {
    let entries = store.stats().entries();
    let figures = entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json_value(&value)));
    let mut object: Map<String, Value> = figures.collect();
    let names = store.keyspaces().into_iter().map(Value::String).collect();
    object.insert("keyspaces".to_owned(), Value::Array(names));
    object.insert("health".to_owned(), health_json(&store.health()));
    let last = store.last_scrub().map(|report| report_json(&report));
    object.insert("last_scrub".to_owned(), json!(last));
    let events: Vec<Value> = store.events().iter().map(event_json).collect();
    object.insert("events".to_owned(), Value::Array(events));
    Value::Object(object)
}

fn health_json(health: &Health) -> Value {
    let condition = |c: &Condition| json!({ "what": c.to_string(), "since_ms": c.since_ms });
    let conditions: Vec<Value> = health.conditions().iter().map(condition).collect();
    let mut object = json!({ "state": health.state().to_string(), "conditions": conditions });
    if let Health::Failed {
        cause, since_ms, ..
    } = health
    {
        object["cause"] = json!(cause);
        object["since_ms"] = json!(since_ms);
    }
    object
}

fn event_json(event: &Event) -> Value {
    json!({
        "number": event.number,
        "at_ms": event.at_ms,
        "event": event.kind.name(),
        "what": event.kind.to_string(),
    })
}

/// Numbers stay numbers; everything else is text.
fn json_value(value: &StatValue) -> Value {
    match value.as_u64() {
        Some(number) => Value::from(number),
        None => Value::from(value.to_string()),
    }
}

/// What a scrub found is not on media, so a program that opens the store for a moment has nothing to tell.
fn last_scrub(report: Option<&ScrubReport>) -> String {
    match report {
        Some(report) => format!("last scrub: findings: {}", report.finding_count),
        None => "last scrub: not known here; what a scrub found is kept only by the program that \
                 has the store open, while it has (see `heliox scrub`)"
            .to_owned(),
    }
}

fn table(store: &Store) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    let figures = store.stats().entries();
    for (name, value) in figures.into_iter().filter(|(name, _)| *name != "health") {
        let readable = match value {
            StatValue::Bytes(bytes) if bytes >= 1024 => show_bytes(bytes),
            _ => String::new(),
        };
        let number = Cell::new(value.to_string()).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(name.replace('_', " ")),
            number,
            Cell::new(readable),
        ]);
    }
    let names = store.keyspaces().join(", ");
    let mut text = format!("{}\n keyspaces: {names}", table.trim_fmt());
    let health = store.health();
    text += &format!("\n health: {}", health.state());
    if let Health::Failed { cause, .. } = &health {
        text += &format!("\n   {cause}");
    }
    for condition in health.conditions() {
        text += &format!("\n   {condition}");
    }
    text += &format!("\n {}", last_scrub(store.last_scrub().as_ref()));
    for event in store.events() {
        text += &format!("\n event {}: {}", event.number, event.kind);
    }
    text
}
