//! From an entry of a run's log to what a stream sends.
//!
//! The log speaks the protocol's language already; a frame adds what only the run's definition knows (whose tool is
//! called, which model answered) and the several names that documents and clients have for one thing. Events of our own
//! pass as they are. A frame's payload is sent flat, and as long as it is small once more under `data`: clients disagree
//! about where they look.

mod calls;
mod endings;
mod sse;

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use windlass_core::{
    agent::{AgentDefinition, ClientTool},
    event::Event,
    ids::ToolName,
};

pub use self::sse::{Frame, entry, keep_alive};
use crate::models::model_ref;

/// What a stream knows about its run beside the log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunFacts {
    /// The caller's own tools.
    tools: HashMap<ToolName, ClientTool>,
    schema_requested: bool,
}

impl RunFacts {
    pub fn of(definition: &AgentDefinition) -> Self {
        let tools = definition.tools.iter();
        let tools = tools.filter_map(|tool| Some((tool.name.clone(), tool.client.clone()?))).collect();
        Self { tools, schema_requested: definition.output_schema.is_some() }
    }
}

/// Whether the definition is needed to make this event's frame.
pub fn needs_facts(event: &Event) -> bool {
    event.kind == "local_tool_call" || event.is_terminal()
}

/// The event as a stream sends it.
pub fn frame(event: &Event, facts: &RunFacts) -> Frame {
    let mut data = match &event.data {
        Value::Object(fields) => fields.clone(),
        Value::Null => Map::new(),
        other => Map::from_iter([("value".to_owned(), other.clone())]),
    };
    match event.kind.as_str() {
        "assistant_message" => name_model(&mut data),
        "tool_result" => calls::result(&mut data),
        "local_tool_call" => calls::local_call(&mut data, facts),
        "local_tool_result_in" => calls::local_result(&mut data),
        "result" => endings::result(&mut data, facts),
        "error" => endings::error(&mut data, facts),
        "cancelled" => endings::cancelled(&mut data),
        _ => {}
    }
    Frame { seq: event.seq, kind: event.kind.clone(), data }
}

/// A model's id as the protocol's object.
fn name_model(data: &mut Map<String, Value>) {
    if let Some(Value::String(id)) = data.get("model") {
        let model = model_ref(id);
        data.insert("model".to_owned(), model);
    }
}

fn set(data: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    data.insert(key.to_owned(), value.into());
}

/// A body as text: strings are themselves, everything else is JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A text that fits a frame. The transcript has it whole.
fn shown(mut text: String) -> String {
    /// Clients parse a frame in time that grows with the square of its size.
    const SHOWN: usize = 16 * 1024;
    if text.len() > SHOWN {
        text.truncate(text.floor_char_boundary(SHOWN));
        text.push('…');
    }
    text
}

/// Tokens as the protocol counts them: cached ones are part of the input, reasoning is part of the output.
pub fn tokens(usage: &Value) -> Value {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    json!({
        "inputTokens": count("inputTokens"),
        "cachedTokens": count("cacheReadTokens"),
        "reasoningTokens": count("reasoningTokens"),
        "outputTokens": count("outputTokens"),
    })
}

#[cfg(test)]
mod tests;
