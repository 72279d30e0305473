//! From an entry of a run's log to what a stream sends.
//!
//! The log uses the protocol's event types. A frame adds what only the run's definition knows (whose tool is called) and
//! the several field names that the protocol's documents and SDKs have for one value. Events that the protocol does not
//! have are sent as they are. The payload is sent flat and, if it is small, again under `data`: SDKs disagree about
//! where they look.
//!
//! Two kinds of events stay in the log and are not sent, because the protocol has no frame for them there: the
//! `tool_result` of a call that the caller executed itself (it has `local_tool_result_in`), and thinking in a run whose
//! reasoning level is not above 0. So the `seq` of frames increases, but may skip numbers.

mod calls;
mod endings;
mod sse;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use windlass_core::{
    agent::{AgentDefinition, ClientTool, ToolSource},
    event::Event,
    ids::ToolName,
};

pub use self::sse::{Frame, entry, keep_alive};
use crate::models::Catalogue;

/// What the frames of a run need from its definition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunFacts {
    /// The caller's own tools.
    tools: HashMap<ToolName, ClientTool>,
    /// The tools that are executed by workers or child runs; `None` if the definition could not be read.
    server_tools: Option<HashSet<ToolName>>,
    schema_requested: bool,
    reasoning_level: Option<u8>,
}

impl RunFacts {
    pub fn of(definition: &AgentDefinition) -> Self {
        let server_tools = definition
            .tools
            .iter()
            .filter(|tool| !matches!(tool.source, ToolSource::Client { .. } | ToolSource::External { .. }));
        let client_tools =
            definition.tools.iter().filter_map(|tool| Some((tool.name.clone(), tool.source.client()?.clone())));
        Self {
            tools: client_tools.collect(),
            server_tools: Some(server_tools.map(|tool| tool.name.clone()).collect()),
            schema_requested: definition.output_schema.is_some(),
            reasoning_level: definition.reasoning_level,
        }
    }

    /// Whether the protocol has a frame for this event.
    fn shows(&self, event: &Event) -> bool {
        match event.kind.as_str() {
            "thinking_delta" => self.reasoning_level.is_some_and(|level| level > 0),
            "tool_result" => !self.came_from_outside(&event.data),
            _ => true,
        }
    }

    /// Whether a result was provided from outside, and so has its `local_tool_result_in`. The other results of such
    /// tools are synthetic: the call was refused, cancelled or not answered.
    fn came_from_outside(&self, result: &Value) -> bool {
        let Some(server_tools) = &self.server_tools else { return false };
        let provided = matches!(result["status"].as_str(), Some("ok" | "failed"));
        provided && !server_tools.contains(&ToolName::new(result["name"].as_str().unwrap_or_default()))
    }
}

/// Whether the definition is needed to make this event's frame.
pub fn needs_facts(event: &Event) -> bool {
    matches!(event.kind.as_str(), "local_tool_call" | "tool_result" | "thinking_delta") || event.is_terminal()
}

/// The event as a stream sends it, if it is sent.
pub fn frame(event: &Event, facts: &RunFacts, models: &Catalogue) -> Option<Frame> {
    if !facts.shows(event) {
        return None;
    }
    let mut data = match &event.data {
        Value::Object(fields) => fields.clone(),
        Value::Null => Map::new(),
        other => Map::from_iter([("value".to_owned(), other.clone())]),
    };
    match event.kind.as_str() {
        "assistant_message" => name_model(&mut data, facts, models),
        "tool_result" => calls::result(&mut data),
        "local_tool_call" => calls::local_call(&mut data, facts),
        "local_tool_result_in" => calls::local_result(&mut data),
        "result" => endings::result(&mut data, facts, models),
        "error" => endings::error(&mut data, facts, models),
        "cancelled" => endings::cancelled(&mut data, facts, models),
        _ => {}
    }
    Some(Frame { seq: event.seq, kind: event.kind.clone(), data })
}

/// A model's id as the protocol's object.
fn name_model(data: &mut Map<String, Value>, facts: &RunFacts, models: &Catalogue) {
    if let Some(Value::String(id)) = data.get("model") {
        let model = models.model_ref(id, facts.reasoning_level);
        data.insert("model".to_owned(), model);
    }
}

fn set(data: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    data.insert(key.to_owned(), value.into());
}

/// A body as text: a string as it is, any other value as JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Truncates a text for a frame. The transcript has all of it.
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
