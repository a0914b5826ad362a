//! `heliox stat`: prints the figures of a store.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table};
use heliox::{StatValue, Store};
use heliox_bench::DurabilityMode;
use serde_json::{Map, Value};

use crate::args::{Shared, StatArgs};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::print_line;
use crate::size::show_bytes;

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
    Value::Object(object)
}

/// Numbers stay numbers; everything else is text.
fn json_value(value: &StatValue) -> Value {
    match value.as_u64() {
        Some(number) => Value::from(number),
        None => Value::from(value.to_string()),
    }
}

fn table(store: &Store) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    for (name, value) in store.stats().entries() {
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
    format!("{}\n keyspaces: {names}", table.trim_fmt())
}
