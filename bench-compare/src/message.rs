//! What a child tells its parent: one JSON object a line on its standard output. Lines that are
//! none are what an engine printed, and are passed over. Plain data, no threads.

use serde_json::{json, Map, Value};

/// One line.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Message {
    /// A workload goes on: its name, operations so far, thousandths done, seconds.
    Progress {
        workload: String,
        ops: u64,
        permille: u64,
        seconds: f64,
    },
    /// A workload is measured: the fields of `heliox bench --json`.
    Row(Map<String, Value>),
    /// The process is to be killed with its store open; another goes on at this step of the
    /// configuration, with so many keys in the store. Nothing follows.
    Kill { from: usize, count: u64 },
    /// The engine failed; nothing follows.
    Failed(String),
    /// All workloads are measured, and the store is closed; nothing follows.
    Done,
}

impl Message {
    /// The line, without its end.
    pub(crate) fn to_line(&self) -> String {
        let value = match self {
            Message::Progress {
                workload,
                ops,
                permille,
                seconds,
            } => json!({ "progress": [workload, ops, permille, seconds] }),
            Message::Row(row) => json!({ "row": row }),
            Message::Kill { from, count } => json!({ "kill": [from, count] }),
            Message::Failed(why) => json!({ "failed": why }),
            Message::Done => json!({ "done": true }),
        };
        value.to_string()
    }

    /// Reads a line; `None` if it is no message.
    pub(crate) fn from_line(line: &str) -> Option<Message> {
        let Ok(Value::Object(object)) = serde_json::from_str(line) else {
            return None;
        };
        let (name, value) = object.into_iter().next()?;
        match (name.as_str(), value) {
            ("progress", Value::Array(parts)) => Some(Message::Progress {
                workload: parts.first()?.as_str()?.to_owned(),
                ops: parts.get(1)?.as_u64()?,
                permille: parts.get(2)?.as_u64()?,
                seconds: parts.get(3)?.as_f64()?,
            }),
            ("row", Value::Object(row)) => Some(Message::Row(row)),
            ("kill", Value::Array(parts)) => Some(Message::Kill {
                from: usize::try_from(parts.first()?.as_u64()?).ok()?,
                count: parts.get(1)?.as_u64()?,
            }),
            ("failed", Value::String(why)) => Some(Message::Failed(why)),
            ("done", _) => Some(Message::Done),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_and_other_lines_are_not() {
        let row = json!({ "engine": "x", "ops": 3, "p50_us": 1.25, "longest_stall_ms": null });
        let Value::Object(row) = row else {
            unreachable!()
        };
        for message in [
            Message::Progress {
                workload: "fillseq".to_owned(),
                ops: 7,
                permille: 500,
                seconds: 0.5,
            },
            Message::Row(row),
            Message::Kill {
                from: 3,
                count: 7000,
            },
            Message::Failed("no \"room\"\nleft".to_owned()),
            Message::Done,
        ] {
            let line = message.to_line();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(Message::from_line(&line), Some(message));
        }
        for line in ["", "compacting...", "3", "{}", "{\"row\":3}"] {
            assert_eq!(Message::from_line(line), None, "{line}");
        }
    }
}
