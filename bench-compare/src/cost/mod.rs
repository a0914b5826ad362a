//! What a throughput and a size of data cost: the cheapest kind of node for each pair, as a map.
//!
//! A kind of node has a price, holds so much and does so many operations a second, by its own word
//! or as measured. As many are bought as hold the data and do the operations; both divide evenly
//! over nodes. No state, no threads.

mod prices;
mod rates;

use std::fs;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use heliox_bench::size::show_bytes;
use heliox_bench::thousands;

use crate::args::CostArgs;
use prices::{Kind, Prices, Rate};
use rates::Rates;

/// A kind of node with its rate, in operations a second.
struct Node<'p> {
    kind: &'p Kind,
    rate: f64,
}

/// How many of a kind, and what they cost.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Choice {
    nodes: f64,
    price: f64,
}

/// The map for people, with what it was computed from.
///
/// # Errors
/// Files that cannot be read or make no sense, and kinds without a rate.
pub(crate) fn show(args: &CostArgs) -> Result<String, String> {
    let failed = |what: String| format!("{}: {what}", args.prices.display());
    let text = fs::read_to_string(&args.prices).map_err(|error| failed(error.to_string()))?;
    let prices = Prices::parse(&text).map_err(failed)?;
    let mut rates = Rates::default();
    for path in &args.results {
        rates.read(path)?;
    }
    let nodes = prices.kinds.iter().map(|kind| {
        let rate = match &kind.rate {
            Rate::Told(rate) => Ok(*rate as f64),
            Rate::Measured(row) => rates.of(row),
        };
        let rate = rate.map_err(|what| failed(format!("configuration {:?}: {what}", kind.name)))?;
        Ok(Node { kind, rate })
    });
    let nodes = nodes.collect::<Result<Vec<Node<'_>>, String>>()?;
    let currency = match prices.currency.as_str() {
        "" => "the unit of the prices",
        currency => currency,
    };
    Ok(format!(
        "{}\n\nthe cheapest by operations a second and size of data: nodes, and their price in {currency}\n{}",
        table_of_nodes(&nodes),
        map(&prices, &nodes)
    ))
}

fn table_of_nodes(nodes: &[Node<'_>]) -> Table {
    let mut table = table(&[
        "node",
        "price",
        "capacity",
        "ops/s",
        "of",
        "price a TiB",
        "price of 1K ops/s",
    ]);
    for Node { kind, rate } in nodes {
        let tib = kind.capacity as f64 / (1u64 << 40) as f64;
        let of = match &kind.rate {
            Rate::Told(_) => "told".to_owned(),
            Rate::Measured(row) => {
                format!("{} {}, {} threads", row.engine, row.workload, row.threads)
            }
        };
        table.add_row([
            Cell::new(&kind.name),
            right(show_price(kind.price)),
            right(show_bytes(kind.capacity)),
            right(thousands(*rate)),
            Cell::new(of),
            right(show_price(kind.price / tib)),
            right(show_price(kind.price / rate * 1000.0)),
        ]);
    }
    table
}

fn map(prices: &Prices, nodes: &[Node<'_>]) -> Table {
    let sizes = prices.sizes.iter().copied().map(show_bytes);
    let header: Vec<String> = std::iter::once("ops/s".to_owned()).chain(sizes).collect();
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for throughput in &prices.throughputs {
        let mut cells = vec![right(thousands(*throughput as f64))];
        for size in &prices.sizes {
            let cheapest = cheapest(nodes, *throughput, *size);
            cells.push(Cell::new(cheapest.map_or_else(
                String::new,
                |(node, choice)| {
                    let (count, price) = (thousands(choice.nodes), show_price(choice.price));
                    format!("{count} {}: {price}", node.kind.name)
                },
            )));
        }
        table.add_row(cells);
    }
    table
}

/// Of those that cost the same, the first of the file.
fn cheapest<'n, 'p>(
    nodes: &'n [Node<'p>],
    throughput: u64,
    size: u64,
) -> Option<(&'n Node<'p>, Choice)> {
    let choices = nodes
        .iter()
        .map(|node| (node, choice(node, throughput, size)));
    choices.min_by(|(_, one), (_, other)| one.price.total_cmp(&other.price))
}

fn choice(node: &Node<'_>, throughput: u64, size: u64) -> Choice {
    let to_hold = size.div_ceil(node.kind.capacity) as f64;
    let to_do = (throughput as f64 / node.rate).ceil();
    let nodes = to_hold.max(to_do);
    Choice {
        nodes,
        price: nodes * node.kind.price,
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Cents where they matter.
fn show_price(price: f64) -> String {
    if price < 100.0 {
        format!("{price:.2}")
    } else {
        thousands(price)
    }
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::PathBuf;

    const PRICES: &str = "
        currency = \"coins\"
        throughputs = [\"100K\", \"1M\"]
        sizes = [\"100G\", \"10T\"]
        [[configuration]]
        name = \"memory\"
        price = 1000
        capacity = \"200G\"
        rate = \"1M\"
        [[configuration]]
        name = \"flash\"
        price = 700.5
        capacity = \"2T\"
        [configuration.measured]
        engine = \"heliox\"
        workload = \"readrandom\"
        threads = 8
    ";

    fn row(ops_per_s: f64, memory: u64) -> serde_json::Value {
        json!({
            "engine": "heliox", "workload": "readrandom", "threads": 8, "ops_per_s": ops_per_s,
            "memory_bytes": memory, "key_size": 16, "value_size": 100, "durability": "none",
        })
    }

    fn shown(prices: &str, results: &[serde_json::Value]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { dir.path().join(name) };
        fs::write(path("prices.toml"), prices).unwrap();
        fs::write(path("r.json"), serde_json::Value::from(results).to_string()).unwrap();
        show(&CostArgs {
            prices: path("prices.toml"),
            results: vec![path("r.json")],
        })
    }

    #[test]
    fn the_cheapest_holds_the_data_and_does_the_operations() {
        let repeats = [
            row(190e3, 1 << 30),
            row(210e3, 1 << 30),
            row(900e3, 1 << 20),
        ];
        let text = shown(PRICES, &repeats[..2]).unwrap();
        let line = |name: &str| {
            let start = |line: &&str| line.trim_matches('│').trim_start().starts_with(name);
            let found = text.lines().find(start).unwrap();
            let cells = found.trim_matches('│').split('┆').map(str::trim);
            cells.map(str::to_owned).collect::<Vec<_>>()
        };
        // Five of flash would do a million a second: one of memory is cheaper while the data fit.
        assert_eq!(line("100,000")[1..], ["1 flash: 700", "5 flash: 3,502"]);
        assert_eq!(
            line("1,000,000")[1..],
            ["1 memory: 1,000", "5 flash: 3,502"]
        );
        assert_eq!(line("flash")[3], "200,000", "the median: {text}");
        assert!(text.contains("price in coins"), "{text}");
        let error = shown(PRICES, &repeats).unwrap_err();
        for expected in ["\"flash\": several rows", "1048576", "name memory"] {
            assert!(error.contains(expected), "{error}");
        }
        let named = PRICES.replace(
            "threads = 8",
            "threads = 8\nmemory = \"1M\"\nfile = \"r.json\"",
        );
        assert!(shown(&named, &repeats).unwrap().contains("900,000"));
    }

    #[test]
    fn a_rate_that_was_not_measured_is_told_with_what_there_is() {
        let mut other = row(1.0, 1);
        other["threads"] = json!(4);
        let error = shown(PRICES, &[other]).unwrap_err();
        assert!(
            error.contains("no row is heliox readrandom with 8 threads"),
            "{error}"
        );
        assert!(
            error.contains("there are heliox readrandom with 4 threads"),
            "{error}"
        );
        let elsewhere = PRICES.replace("threads = 8", "threads = 8\nmemory = \"2G\"");
        let error = shown(&elsewhere, &[row(1.0, 1 << 20)]).unwrap_err();
        assert!(
            error.contains("memory 2.00 GiB; there are r.json, memory 1048576"),
            "{error}"
        );
        let mut none = row(1.0, 1);
        none["latency_limit"] = json!({ "limit": "p95=1ms", "found_rate": null });
        assert!(shown(PRICES, &[none]).unwrap_err().contains("no rate of"));
        let failed = [json!({ "engine": "heliox", "failed": "disk full" })];
        assert!(shown(PRICES, &failed)
            .unwrap_err()
            .contains("there are none"));
    }

    /// The example that the documentation gives.
    #[test]
    fn the_documented_example_is_a_file_of_prices() {
        let page = include_str!("../../../docs/benchmarks.md");
        let example = page
            .split("```toml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let prices = Prices::parse(example.unwrap()).unwrap();
        assert!(prices.kinds.len() > 1 && !prices.currency.is_empty());
    }
}
