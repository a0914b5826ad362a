//! The file of prices: kinds of nodes, what each costs, holds and does. Checked once when it is
//! read. Plain data, no threads.

use heliox_bench::size::{parse_count, parse_size};
use serde::Deserialize;

const THROUGHPUTS: [&str; 7] = ["10K", "30K", "100K", "300K", "1M", "3M", "10M"];
const SIZES: [&str; 6] = ["100G", "300G", "1T", "3T", "10T", "30T"];
/// Wider or longer maps are no map.
const STEPS_MAX: usize = 20;
const PRICE_MAX: f64 = 1e12;

/// The file as it stands.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    currency: Option<String>,
    throughputs: Option<Vec<String>>,
    sizes: Option<Vec<String>>,
    #[serde(default)]
    configuration: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    price: f64,
    capacity: String,
    rate: Option<String>,
    measured: Option<EntryRow>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryRow {
    engine: String,
    workload: String,
    threads: u64,
    memory: Option<String>,
    file: Option<String>,
}

/// The file, read and checked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Prices {
    /// Of what, and for how long: empty if it is not said.
    pub(crate) currency: String,
    /// Operations a second.
    pub(crate) throughputs: Vec<u64>,
    /// Bytes of data.
    pub(crate) sizes: Vec<u64>,
    pub(crate) kinds: Vec<Kind>,
}

/// A kind of node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    /// Of one node; above 0.
    pub(crate) price: f64,
    /// Bytes of data that one node holds; above 0.
    pub(crate) capacity: u64,
    pub(crate) rate: Rate,
}

/// Where the operations a second of a node are from.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Rate {
    /// The file tells them.
    Told(u64),
    /// They are a row's.
    Measured(RowOf),
}

/// Which row of the results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowOf {
    pub(crate) engine: String,
    pub(crate) workload: String,
    pub(crate) threads: u64,
    /// Bytes; any if it is not said.
    pub(crate) memory: Option<u64>,
    /// The name of the file of results, without its directory; any if it is not said.
    pub(crate) file: Option<String>,
}

impl Prices {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// What is no such file, with the place, and the first entry that makes no sense.
    pub(crate) fn parse(text: &str) -> Result<Prices, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.configuration.is_empty() {
            return Err("there is no [[configuration]]: expected one for each kind of node".into());
        }
        let default = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect();
        let throughputs = file.throughputs.unwrap_or_else(|| default(&THROUGHPUTS));
        let sizes = file.sizes.unwrap_or_else(|| default(&SIZES));
        let mut kinds: Vec<Kind> = Vec::new();
        for entry in file.configuration {
            let name = entry.name.clone();
            let kind = Kind::of(entry).map_err(|what| format!("configuration {name:?}: {what}"))?;
            if kinds.iter().any(|known| known.name == kind.name) {
                return Err(format!("there are two configurations {name:?}"));
            }
            kinds.push(kind);
        }
        Ok(Prices {
            currency: file.currency.unwrap_or_default(),
            throughputs: steps("throughputs", &throughputs, parse_count)?,
            sizes: steps("sizes", &sizes, parse_size)?,
            kinds,
        })
    }
}

impl Kind {
    fn of(entry: Entry) -> Result<Kind, String> {
        if !(entry.price > 0.0 && entry.price <= PRICE_MAX) {
            let price = entry.price;
            return Err(format!(
                "price is {price}: expected above 0, {PRICE_MAX:e} at most"
            ));
        }
        let rate = match (entry.rate, entry.measured) {
            (Some(rate), None) => Rate::Told(above_zero("rate", parse_count(&rate)?)?),
            (None, Some(row)) => Rate::Measured(RowOf {
                engine: row.engine,
                workload: row.workload,
                threads: row.threads,
                memory: row.memory.as_deref().map(parse_size).transpose()?,
                file: row.file,
            }),
            _ => return Err(
                "expected either rate (operations a second) or measured (which row of the results \
                     has it)"
                    .to_owned(),
            ),
        };
        Ok(Kind {
            name: entry.name,
            price: entry.price,
            capacity: above_zero("capacity", parse_size(&entry.capacity)?)?,
            rate,
        })
    }
}

fn above_zero(name: &str, number: u64) -> Result<u64, String> {
    match number {
        0 => Err(format!("{name} is 0: expected more")),
        number => Ok(number),
    }
}

fn steps(
    name: &str,
    texts: &[String],
    parse: fn(&str) -> Result<u64, String>,
) -> Result<Vec<u64>, String> {
    if texts.is_empty() || texts.len() > STEPS_MAX {
        let count = texts.len();
        return Err(format!(
            "{name} has {count} steps: expected 1 to {STEPS_MAX}"
        ));
    }
    let steps = texts.iter().map(|text| above_zero(name, parse(text)?));
    let steps: Result<Vec<u64>, String> = steps.collect();
    steps.map_err(|what| format!("{name}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_of_prices_is_refused_with_what_is_expected() {
        let entry =
            "[[configuration]]\nname = \"a\"\nprice = 1\ncapacity = \"1T\"\nrate = \"1K\"\n";
        assert!(Prices::parse(entry).is_ok());
        for (text, reason) in [
            ("", "no [[configuration]]".to_owned()),
            ("prices", "line 1".to_owned()),
            (&format!("x = 1\n{entry}"), "unknown field `x`".to_owned()),
            (
                &entry.replace("price = 1", "price = 0"),
                "price is 0".to_owned(),
            ),
            (
                &entry.replace("price = 1", "price = nan"),
                "price is NaN".to_owned(),
            ),
            (
                &entry.replace("\"1T\"", "\"0\""),
                "\"a\": capacity is 0".to_owned(),
            ),
            (
                &entry.replace("\"1T\"", "\"big\""),
                "\"big\" is no size".to_owned(),
            ),
            (
                &entry.replace("rate = \"1K\"\n", ""),
                "either rate".to_owned(),
            ),
            (
                &format!("sizes = []\n{entry}"),
                "sizes has 0 steps".to_owned(),
            ),
            (
                &format!("throughputs = [\"0\"]\n{entry}"),
                "throughputs is 0".to_owned(),
            ),
            (
                &format!("{entry}{entry}"),
                "two configurations \"a\"".to_owned(),
            ),
        ] {
            let error = Prices::parse(text).unwrap_err();
            assert!(error.contains(&reason), "{text}: {error}");
        }
    }
}
