//! `heliox export`: a new store of another engine with what a store of Heliox holds, read back by
//! that engine before it gets its name.

use std::time::Instant;

use heliox::Store;
use heliox_bench::DurabilityMode;
use indicatif::ProgressBar;

use crate::args::{ExportArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::{live_line, print_line};

use super::frames::{self, Sum};
use super::helper::Helper;
use super::herocks::{self, Catalog};
use super::{place, Engine, Family, MARKER};

/// Records between two updates of the progress.
const TELL_EVERY: u64 = 4096;

/// Writes the store.
pub(crate) fn run(args: &ExportArgs, shared: &Shared) -> Result<Outcome, Failure> {
    place::check_new(&args.path)?;
    let begin = Instant::now();
    let store = open::store(&args.dir, shared, DurabilityMode::Bounded)?;
    let catalog = Catalog::read(&store)?;
    let families = families(&store, catalog.as_ref(), args, shared)?;
    let mut helper = Helper::start(args.to, "write", &args.path)?;
    let bar = live_line();
    let mut export = Export {
        store: &store,
        catalog: catalog.as_ref(),
        helper: &mut helper,
        bar: bar.clone(),
        records: 0,
    };
    let sent = export.all(&families);
    let records = export.records;
    bar.finish_and_clear();
    if let Err(failure) = sent {
        drop(helper);
        // What is left of it is of no use.
        let _ = std::fs::remove_dir_all(place::partial(&args.path));
        return Err(failure);
    }
    store.close()?;
    let seconds = begin.elapsed().as_secs_f64();
    let rate = records as f64 / seconds.max(1e-9);
    let engine = args.to;
    print_line(&format!(
        "{records} records of {} keyspaces to {}, read back by {engine} and the same; {seconds:.2} s, \
         {rate:.0} records/s",
        families.len(),
        args.path.display()
    ))?;
    Ok(Outcome::Done)
}

/// What goes into the new store.
fn families(
    store: &Store,
    catalog: Option<&Catalog>,
    args: &ExportArgs,
    shared: &Shared,
) -> Result<Vec<Family>, Failure> {
    let names = store.keyspaces();
    if names.iter().any(|name| name == MARKER) {
        return Err(Failure::Argument(format!(
            "{} holds a part of an import that did not end: run the import again first",
            args.dir.display()
        )));
    }
    let mut families = match catalog {
        Some(catalog) => catalog.families.clone(),
        None => names.into_iter().map(of_keyspace).collect(),
    };
    if let Some(wanted) = &shared.keyspace {
        store.keyspace(wanted)?;
        families.retain(|family| family.space == *wanted);
    }
    if args.to == Engine::Leveldb && families.len() != 1 {
        let names: Vec<&str> = families.iter().map(|family| &family.space[..]).collect();
        return Err(Failure::Argument(format!(
            "a store of LevelDB holds one keyspace, and {} has {}: say which by --keyspace ({})",
            args.dir.display(),
            names.len(),
            names.join(", ")
        )));
    }
    Ok(families)
}

fn of_keyspace(name: String) -> Family {
    Family {
        name: name.clone().into_bytes(),
        space: name,
        reversed: false,
    }
}

/// An export under way.
struct Export<'e> {
    store: &'e Store,
    catalog: Option<&'e Catalog>,
    helper: &'e mut Helper,
    bar: ProgressBar,
    records: u64,
}

impl Export<'_> {
    fn all(&mut self, families: &[Family]) -> Result<(), Failure> {
        for family in families {
            self.family(family)?;
        }
        self.bar.set_message("reading back");
        self.helper.end()?;
        self.helper.receive()?;
        match self.helper.frame.kind {
            frames::END => Ok(()),
            _ => Err(Failure::Argument("the export was not confirmed".to_owned())),
        }
    }

    fn family(&mut self, family: &Family) -> Result<(), Failure> {
        self.helper
            .send(frames::FAMILY, &family.name, family.comparator())?;
        let mut sum = Sum::default();
        let mut decoded = Vec::new();
        for entry in self.store.keyspace(&family.space)?.iter().start()? {
            let (stored, kept) = entry?;
            let key = if family.reversed {
                herocks::decode_reversed(&stored, &mut decoded);
                &decoded[..]
            } else {
                &stored[..]
            };
            let value = match self.catalog {
                Some(catalog) => catalog.value(&kept).ok_or_else(|| waiting(family))?,
                None => &kept[..],
            };
            sum.add(key, value);
            self.helper.send(frames::RECORD, key, value)?;
            self.records += 1;
            if self.records.is_multiple_of(TELL_EVERY) {
                self.bar.set_message(format!("{} records", self.records));
                self.bar.tick();
            }
        }
        self.helper.tell(|input| frames::send_sum(input, sum))
    }
}

fn waiting(family: &Family) -> Failure {
    Failure::Argument(format!(
        "the column family {} holds merge operands, which only the merge operator of its program can \
         merge: let that program Put what it Gets, and export again",
        family.shown()
    ))
}
