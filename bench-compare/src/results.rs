//! What was measured: rows, failures, medians over repeats. Plain data, no threads.

use serde_json::{json, Map, Value};

/// One workload of one engine, measured once.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) engine: String,
    /// From 1 on.
    pub(crate) repeat: u32,
    /// The place of the workload in the list.
    pub(crate) place: usize,
    /// The fields of `heliox bench --json`.
    pub(crate) fields: Map<String, Value>,
}

/// An engine that did not get through.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) engine: String,
    pub(crate) repeat: u32,
    pub(crate) why: String,
}

/// All of a run.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    /// The engines asked for, in order.
    pub(crate) engines: Vec<String>,
    pub(crate) measured: Vec<Measured>,
    pub(crate) failures: Vec<Failure>,
    /// What bounds the memory of the processes, or why nothing does.
    pub(crate) memory_limit: String,
    /// The user ended the run.
    pub(crate) interrupted: bool,
}

impl Results {
    /// The rows and the failures as a JSON list of objects.
    pub(crate) fn to_json(&self) -> Value {
        let rows = self.measured.iter().map(|measured| {
            let mut fields = measured.fields.clone();
            fields.insert("repeat".to_owned(), measured.repeat.into());
            fields.insert("memory_limit".to_owned(), self.memory_limit.as_str().into());
            Value::Object(fields)
        });
        let failures = self.failures.iter().map(|failure| {
            json!({ "engine": failure.engine, "repeat": failure.repeat, "failed": failure.why })
        });
        Value::Array(rows.chain(failures).collect())
    }

    /// A figure of an engine at a place, one for each repeat that has it.
    pub(crate) fn figures(&self, engine: &str, place: usize, name: &str) -> Vec<f64> {
        let rows = self.measured.iter();
        rows.filter(|row| row.engine == engine && row.place == place)
            .filter_map(|row| row.fields.get(name)?.as_f64())
            .collect()
    }

    /// Why an engine did not get through, if so.
    pub(crate) fn failure(&self, engine: &str) -> Option<&Failure> {
        self.failures
            .iter()
            .find(|failure| failure.engine == engine)
    }
}

/// The middle of the figures; of an even number, the mean of the two in the middle.
pub(crate) fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// From the smallest to the largest figure, in percent of the median; `None` for fewer than two.
pub(crate) fn spread_percent(figures: &[f64]) -> Option<f64> {
    let middle = median(figures).filter(|middle| *middle > 0.0 && figures.len() > 1)?;
    let smallest = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(100.0 * (largest - smallest) / middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads_are_those_of_the_definition() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(spread_percent(&[3.0]), None);
        assert_eq!(spread_percent(&[9.0, 10.0, 12.0]), Some(30.0));
    }

    #[test]
    fn rows_and_failures_are_one_list() {
        let Value::Object(fields) = json!({ "engine": "heliox", "ops_per_s": 5.0 }) else {
            unreachable!()
        };
        let results = Results {
            engines: vec!["heliox".to_owned(), "peer".to_owned()],
            measured: vec![Measured {
                engine: "heliox".to_owned(),
                repeat: 2,
                place: 0,
                fields,
            }],
            failures: vec![Failure {
                engine: "peer".to_owned(),
                repeat: 1,
                why: "no room".to_owned(),
            }],
            memory_limit: "none".to_owned(),
            interrupted: false,
        };
        let json = results.to_json();
        assert_eq!(json[0]["repeat"], 2);
        assert_eq!(json[0]["memory_limit"], "none");
        assert_eq!(json[1]["failed"], "no room");
        assert_eq!(results.figures("heliox", 0, "ops_per_s"), [5.0]);
        assert!(results.figures("heliox", 1, "ops_per_s").is_empty());
        assert!(results.failure("peer").is_some() && results.failure("heliox").is_none());
    }
}
