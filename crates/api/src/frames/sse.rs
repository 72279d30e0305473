//! A frame as a server-sent event.

use serde_json::{Map, Value, json};
use windlass_core::event::Event;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Strictly increasing within a run, from 1.
    pub seq: u64,
    pub kind: String,
    pub data: Map<String, Value>,
}

/// Above this size a payload is not repeated under `data`.
const HYBRID: usize = 8 * 1024;

impl Frame {
    /// The JSON of the `data:` line.
    pub fn json(&self) -> Value {
        let mut flat = self.data.clone();
        flat.insert("seq".to_owned(), self.seq.into());
        flat.insert("type".to_owned(), self.kind.clone().into());
        let small = || serde_json::to_string(&self.data).is_ok_and(|text| text.len() <= HYBRID);
        if !self.data.contains_key("data") && small() {
            flat.insert("data".to_owned(), Value::Object(self.data.clone()));
        }
        Value::Object(flat)
    }

    pub fn sse(&self) -> String {
        block(self.seq, &self.kind, &self.json())
    }
}

/// An entry of the log, unchanged.
pub fn entry(event: &Event) -> String {
    block(event.seq, &event.kind, &json!(event))
}

fn block(seq: u64, kind: &str, payload: &Value) -> String {
    // A type of a newer build is unknown here, and must not break the line.
    let kind = kind.replace(['\r', '\n'], " ");
    // JSON escapes line breaks, so the payload is always one line.
    format!("id: {seq}\nevent: {kind}\ndata: {payload}\n\n")
}

/// A comment, which clients ignore, and which keeps the connection open.
pub fn keep_alive() -> &'static str {
    ": keep-alive\n\n"
}
