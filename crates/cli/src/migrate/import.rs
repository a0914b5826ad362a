//! `heliox import --from`: a store of another engine, all of it, compared with the source before it
//! counts. Until then a keyspace of its own tells that it did not end.

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use heliox::{Keyspace, Options, Store};
use heliox_bench::DurabilityMode;
use indicatif::ProgressBar;

use crate::args::{ImportArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::{byte_bar, print_line};

use super::frames::{self, Sum};
use super::helper::Helper;
use super::{herocks, place, Engine, Family, MARKER};

/// Records between two updates of the progress bar.
const TELL_EVERY: u64 = 4096;

/// Loads the store.
pub(crate) fn run(args: &ImportArgs, engine: Engine, shared: &Shared) -> Result<Outcome, Failure> {
    if args.file == Path::new("-") {
        return Err(Failure::Argument(format!(
            "name the store of Heliox and then that of {engine}: heliox import DIR --from {} PATH",
            engine.word()
        )));
    }
    place::check_source(engine, &args.file)?;
    place::check_target(&args.dir)?;
    let begin = Instant::now();
    let mut helper = Helper::start(engine, "read", &args.file)?;
    let (families, total_bytes) = families(&mut helper, engine, shared)?;
    let options = open::with_shared(Options::new().create_if_missing(true), shared);
    let options = options.durability(DurabilityMode::Bounded.for_heliox());
    let store = Store::open(&args.dir, &options)?;
    let made = prepare(&store, &families, args)?;
    let mut import = Import {
        engine,
        store: &store,
        spaces: Vec::new(),
        families: &families,
        bar: byte_bar(Some(total_bytes)),
        bytes: 0,
        sums: vec![Sum::default(); families.len()],
    };
    let loaded = import.all(&mut helper);
    import.bar.finish_and_clear();
    let sums = std::mem::take(&mut import.sums);
    drop(import);
    tell(helper.notes());
    if let Err(failure) = loaded {
        // If this does not succeed either, the marker tells what is left.
        let _ = take_back(&store, &families, &made);
        return Err(failure);
    }
    store.drop_keyspace(MARKER)?;
    store.sync()?;
    store.close()?;
    let seconds = begin.elapsed().as_secs_f64();
    print_line(&summary(&families, &sums, seconds, args))?;
    Ok(Outcome::Done)
}

/// What the source holds and where it goes, and about how many bytes it has. Its first family has
/// been announced.
fn families(
    helper: &mut Helper,
    engine: Engine,
    shared: &Shared,
) -> Result<(Vec<Family>, u64), Failure> {
    let (mut families, mut total_bytes) = (Vec::new(), 0);
    loop {
        helper.receive()?;
        let frame = &helper.frame;
        match frame.kind {
            frames::TOTAL => total_bytes = frame.number(),
            frames::LISTED => families.push(Family {
                name: frame.first.clone(),
                space: herocks::space_of(&frame.first, families.len()),
                reversed: reversed(&frame.first, &frame.second)?,
            }),
            _ => break,
        }
    }
    if let ([only], Engine::Leveldb) = (&mut families[..], engine) {
        only.space = shared.keyspace().to_owned();
    } else if let Some(name) = &shared.keyspace {
        return Err(Failure::Argument(format!(
            "--keyspace {name}: column families keep their names; all of them are imported"
        )));
    }
    Ok((families, total_bytes))
}

fn reversed(name: &[u8], comparator: &[u8]) -> Result<bool, Failure> {
    match comparator {
        herocks::BYTEWISE => Ok(false),
        herocks::REVERSED => Ok(true),
        other => Err(Failure::Argument(format!(
            "the column family {} is ordered by {}: Heliox orders keys by their bytes",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(other)
        ))),
    }
}

/// Makes sure that the families have empty keyspaces; which of these it made.
fn prepare(store: &Store, families: &[Family], args: &ImportArgs) -> Result<Vec<String>, Failure> {
    let refused = |why: String| Err(Failure::Argument(format!("{} {why}", args.dir.display())));
    let names = store.keyspaces();
    let has = |name: &str| names.iter().any(|other| other == name);
    if has(MARKER) {
        let partial = marked(store)?;
        if !args.again {
            return refused(format!(
                "holds a part of an import that did not end, in {}: run it with --again, which drops \
                 these keyspaces, with what was written to them since, and begins anew",
                partial.join(", ")
            ));
        }
        for name in partial {
            if has(&name) {
                store.drop_keyspace(&name)?;
            }
        }
        // None was there when the import began.
        if has(herocks::CATALOG) {
            store.drop_keyspace(herocks::CATALOG)?;
        }
        store.drop_keyspace(MARKER)?;
    } else if has(herocks::CATALOG) {
        return refused("is a database of HeRocks already: import into another directory".into());
    }
    for family in families {
        if store.keyspaces().contains(&family.space) {
            let mut entries = store.keyspace(&family.space)?.iter().limit(1).start()?;
            if entries.next().transpose()?.is_some() {
                return refused(format!(
                    "holds data in the keyspace {} already: import into another directory",
                    family.space
                ));
            }
        }
    }
    let marker = store.keyspace_or_create(MARKER)?;
    for family in families {
        marker.put(&family.space, &family.name)?;
    }
    store.sync()?;
    let mut made = Vec::new();
    for family in families {
        if !store.keyspaces().contains(&family.space) {
            store.create_keyspace(&family.space)?;
            made.push(family.space.clone());
        }
    }
    Ok(made)
}

/// The keyspaces that the marker names.
fn marked(store: &Store) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in store.keyspace(MARKER)?.iter().start()? {
        let (name, _) = entry?;
        names.push(String::from_utf8_lossy(&name).into_owned());
    }
    Ok(names)
}

/// Takes away what an import that failed left.
fn take_back(store: &Store, families: &[Family], made: &[String]) -> Result<(), Failure> {
    if store
        .keyspaces()
        .iter()
        .any(|name| name == herocks::CATALOG)
    {
        store.drop_keyspace(herocks::CATALOG)?;
    }
    for family in families {
        store.drop_keyspace(&family.space)?;
        if !made.contains(&family.space) {
            store.create_keyspace(&family.space)?;
        }
    }
    store.drop_keyspace(MARKER)?;
    store.sync()?;
    Ok(())
}

fn tell(notes: Vec<String>) {
    for note in notes {
        // A remark that cannot be printed changes no result.
        let _ = writeln!(io::stderr(), "heliox: note: {note}");
    }
}

fn summary(families: &[Family], sums: &[Sum], seconds: f64, args: &ImportArgs) -> String {
    let records: u64 = sums.iter().map(|sum| sum.count).sum();
    let rate = records as f64 / seconds.max(1e-9);
    let names: Vec<String> = families
        .iter()
        .zip(sums)
        .map(|(family, sum)| format!("{} {}", family.space, sum.count))
        .collect();
    format!(
        "{records} records from {}, read back and the same: {}; {seconds:.2} s, {rate:.0} records/s",
        args.file.display(),
        names.join(", ")
    )
}

/// An import under way.
struct Import<'i> {
    engine: Engine,
    store: &'i Store,
    families: &'i [Family],
    /// Of the families, in their order.
    spaces: Vec<Keyspace>,
    bar: ProgressBar,
    bytes: u64,
    /// Of the families, in their order.
    sums: Vec<Sum>,
}

impl Import<'_> {
    fn all(&mut self, helper: &mut Helper) -> Result<(), Failure> {
        for family in self.families {
            self.spaces.push(self.store.keyspace(&family.space)?);
        }
        self.load(helper)?;
        self.store.sync()?;
        self.verify()?;
        if self.engine == Engine::Rocksdb && herocks::needs_catalog(self.families) {
            herocks::write_catalog(self.store, self.families)?;
        }
        Ok(())
    }

    /// Takes what the helper sends, up to its end.
    fn load(&mut self, helper: &mut Helper) -> Result<(), Failure> {
        let unexpected = || Failure::Argument("the source was read in another order".to_owned());
        let mut current = None;
        let mut at = 0;
        let mut stored = Vec::new();
        loop {
            let frame = &helper.frame;
            match frame.kind {
                frames::FAMILY => {
                    let place = |family: &Family| family.name == frame.first;
                    at = self
                        .families
                        .iter()
                        .position(place)
                        .ok_or_else(unexpected)?;
                    current = self.families.get(at).zip(self.spaces.get(at).cloned());
                }
                frames::RECORD => {
                    let (family, space) = current.as_ref().ok_or_else(unexpected)?;
                    self.put(family, space, &frame.first, &frame.second, &mut stored)?;
                    let sum = self.sums.get_mut(at).ok_or_else(unexpected)?;
                    sum.add(&frame.first, &frame.second);
                    self.bytes += (frame.first.len() + frame.second.len()) as u64;
                    if sum.count.is_multiple_of(TELL_EVERY) {
                        self.bar.set_position(self.bytes);
                    }
                }
                frames::SUM if self.sums.get(at) == Some(&frame.sum()) => {}
                frames::END => return Ok(()),
                _ => return Err(unexpected()),
            }
            helper.receive()?;
        }
    }

    fn put(
        &self,
        family: &Family,
        space: &Keyspace,
        key: &[u8],
        value: &[u8],
        stored: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let put = if family.reversed {
            herocks::encode_reversed(key, stored);
            space.put(&stored[..], value)
        } else {
            space.put(key, value)
        };
        put.map_err(|error| {
            let mut shown = Vec::new();
            crate::escape::escape(key.get(..40).unwrap_or(key), &mut shown);
            Failure::Argument(format!(
                "column family {}, key {}...: {error}; nothing was imported",
                family.shown(),
                String::from_utf8_lossy(&shown)
            ))
        })
    }

    /// Reads everything back and compares it with what the source says it has.
    fn verify(&mut self) -> Result<(), Failure> {
        self.bar.set_message("reading back");
        let mut key = Vec::new();
        for ((family, space), expected) in self.families.iter().zip(&self.spaces).zip(&self.sums) {
            let mut found = Sum::default();
            for entry in space.iter().start()? {
                let (stored, value) = entry?;
                if family.reversed {
                    herocks::decode_reversed(&stored, &mut key);
                    found.add(&key, &value);
                } else {
                    found.add(&stored, &value);
                }
            }
            if found != *expected {
                return Err(Failure::Argument(format!(
                    "the keyspace {} is not what the source holds: {} records of {}, or other bytes; \
                     nothing was imported",
                    family.space, found.count, expected.count
                )));
            }
        }
        Ok(())
    }
}
