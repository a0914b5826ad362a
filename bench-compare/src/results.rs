//! What was measured: rows and failures. Plain data, no threads.

use serde_json::{json, Map, Value};

use crate::raw::Raw;

/// One workload of one engine, measured once.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// From 1 on.
    pub(crate) repeat: u32,
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
    /// The device without an engine, if it was measured.
    pub(crate) raw: Option<Raw>,
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
            if let Some(raw) = &self.raw {
                fields.insert("raw_device_share".to_owned(), raw.share(&fields).into());
            }
            Value::Object(fields)
        });
        let raw = self.raw.iter().flat_map(Raw::rows).map(Value::Object);
        let rows = raw.chain(rows);
        let failures = self.failures.iter().map(|failure| {
            json!({ "engine": failure.engine, "repeat": failure.repeat, "failed": failure.why })
        });
        Value::Array(rows.chain(failures).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_failures_are_one_list() {
        let Value::Object(fields) = json!({ "engine": "heliox", "ops_per_s": 5.0 }) else {
            unreachable!()
        };
        let results = Results {
            engines: vec!["heliox".to_owned(), "peer".to_owned()],
            measured: vec![Measured { repeat: 2, fields }],
            failures: vec![Failure {
                engine: "peer".to_owned(),
                repeat: 1,
                why: "no room".to_owned(),
            }],
            raw: None,
            memory_limit: "none".to_owned(),
            interrupted: false,
        };
        let json = results.to_json();
        assert_eq!(json[0]["repeat"], 2);
        assert_eq!(json[0]["memory_limit"], "none");
        assert_eq!(json[1]["failed"], "no room");
    }
}
