//! A frame on the wire.

use serde_json::{Map, Value};

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
        // A type of a newer build is a word; whatever it is, it must not end the line.
        let kind = self.kind.replace(['\r', '\n'], " ");
        // JSON escapes line breaks, so the payload is always one line.
        format!("id: {}\nevent: {kind}\ndata: {}\n\n", self.seq, self.json())
    }
}

/// A comment: clients do not see it, connections stay open.
pub fn keep_alive() -> &'static str {
    ": keep-alive\n\n"
}
