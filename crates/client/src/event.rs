//! The events of a run's stream.

use serde::Deserialize;
use serde_json::Value;
use windlass_core::{
    awaits::AwaitView,
    envelope::Actor,
    ids::{AgentId, AwaitId, CallId, RunId},
};

/// One event of a run. `raw` is the frame as the server sent it, with types and fields that this client does not know.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// Strictly increasing within a run.
    pub seq: u64,
    /// The type's name.
    pub kind: String,
    pub body: EventBody,
    pub raw: Value,
}

/// The events that this client knows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum EventBody {
    AssistantDelta {
        text: String,
    },
    ThinkingDelta {
        text: String,
    },
    AssistantMessage {
        text: String,
        turn: Option<u32>,
        finish_reason: Option<String>,
    },
    /// A tool of the server is called.
    ToolCall {
        tool_use_id: CallId,
        name: String,
        #[serde(default)]
        input: Value,
    },
    ToolResult {
        tool_use_id: CallId,
        name: String,
        #[serde(default)]
        ok: bool,
        #[serde(default)]
        result: Value,
    },
    /// One of the caller's own tools is called.
    LocalToolCall {
        tool_use_id: CallId,
        name: String,
        #[serde(default)]
        args: Value,
        kind: Option<String>,
    },
    LocalToolResultIn {
        tool_use_id: CallId,
    },
    LoopDetected {
        consecutive_count: u32,
        hard_cutoff: bool,
    },
    ToolBudgetExceeded {
        tool: String,
        max_calls: u32,
    },
    ChildRunLinked {
        tool_use_id: CallId,
        name: String,
        child_run_id: RunId,
        child_agent_id: AgentId,
    },
    /// The run waits for an answer from outside.
    AwaitOpened {
        item: AwaitView,
    },
    AwaitClosed {
        await_id: AwaitId,
        actor: Option<Actor>,
        /// The text of the answer, or the reason for a decision; long texts are truncated.
        answer: Option<String>,
    },
    /// Terminal: the run has an answer if the subtype is `success`, otherwise it failed.
    Result {
        #[serde(default)]
        subtype: String,
        #[serde(default)]
        text: String,
        error: Option<String>,
        error_class: Option<String>,
        finish_reason: Option<String>,
        tokens: Option<Tokens>,
        turns: Option<u32>,
        model: Option<ModelRef>,
    },
    /// Terminal: the run failed.
    Error {
        #[serde(default)]
        error: String,
        code: Option<String>,
        error_class: Option<String>,
        failure: Option<String>,
        finish_reason: Option<String>,
        partial_text: Option<String>,
        #[serde(default)]
        retryable: bool,
        api_status: Option<u16>,
        api_code: Option<String>,
    },
    /// Terminal: the run was cancelled.
    Cancelled {
        #[serde(default)]
        reason: String,
    },
    /// A type that this client does not know.
    #[serde(other)]
    Unknown,
}

/// What a run cost. Cached tokens are part of the input, reasoning is part of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Tokens {
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub reasoning_tokens: u64,
    pub output_tokens: u64,
}

/// The model that answered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ModelRef {
    pub id: String,
    pub provider: String,
    pub vendor_model_id: String,
}

impl Event {
    /// Whether this is the last event of the run.
    pub fn is_terminal(&self) -> bool {
        is_terminal(&self.kind)
    }

    pub(crate) fn new(seq: u64, kind: String, raw: Value) -> Self {
        // Some servers nest the payload under `data`, some send it flat, Windlass does both.
        let mut payload = raw.get("data").filter(|data| data.is_object()).unwrap_or(&raw).clone();
        payload["type"] = Value::String(kind.clone());
        let body = serde_json::from_value(payload).unwrap_or(EventBody::Unknown);
        Self { seq, kind, body, raw }
    }
}

pub(crate) fn is_terminal(kind: &str) -> bool {
    windlass_core::event::EventBody::TERMINAL.contains(&kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(kind: &str, raw: Value) -> EventBody {
        Event::new(1, kind.to_owned(), raw).body
    }

    #[test]
    fn a_payload_may_be_flat_or_nested_or_both() {
        let expected = EventBody::AssistantDelta { text: "Hi".into() };
        let frames = [
            json!({"seq": 1, "type": "assistant_delta", "text": "Hi"}),
            json!({"seq": 1, "type": "assistant_delta", "data": {"text": "Hi"}}),
            json!({"seq": 1, "type": "assistant_delta", "text": "Hi", "data": {"text": "Hi"}}),
        ];
        for frame in frames {
            assert_eq!(body("assistant_delta", frame), expected);
        }
    }

    #[test]
    fn unknown_events_keep_their_payload() {
        let raw = json!({"seq": 9, "type": "hologram", "depth": 3});
        let event = Event::new(9, "hologram".to_owned(), raw.clone());
        let expected = Event { seq: 9, kind: "hologram".into(), body: EventBody::Unknown, raw };
        assert_eq!(event, expected);
        assert_eq!(body("assistant_delta", json!({"text": 7})), EventBody::Unknown);
    }

    #[test]
    fn terminal_events_are_recognized_by_type() {
        let kinds = ["result", "error", "cancelled", "assistant_message", "hologram"];
        assert_eq!(kinds.map(is_terminal), [true, true, true, false, false]);
    }
}
