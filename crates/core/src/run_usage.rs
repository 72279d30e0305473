//! What a run has used: turns, calls, tokens, working time. Read from its log, so that it is known after the run has ended
//! and while no worker answers.

use serde::{Deserialize, Serialize};

use crate::{
    envelope::{RunStatusView, TokenUsage},
    event::{Event, EventBody},
    time::Millis,
};

/// What a run has used so far or, after its end, in total.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunUsage {
    pub turns: u32,
    pub tool_calls: u32,
    pub usage: TokenUsage,
    /// Known once the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_ms: Option<Millis>,
}

impl RunUsage {
    /// The figures of the terminal event or, while there is none, the sum over the other events.
    pub fn of(log: &[Event]) -> Self {
        let mut usage_so_far = Self::default();
        for event in log {
            match event.body() {
                Ok(EventBody::AssistantMessage { .. }) => usage_so_far.turns += 1,
                Ok(EventBody::ToolCall { .. } | EventBody::LocalToolCall { .. }) => usage_so_far.tool_calls += 1,
                Ok(EventBody::Usage { usage, .. }) => usage_so_far.usage.add(&usage),
                Ok(
                    EventBody::Result { turns, tool_calls, active_ms, usage, .. }
                    | EventBody::Error { turns, tool_calls, active_ms, usage, .. }
                    | EventBody::Cancelled { turns, tool_calls, active_ms, usage, .. },
                ) => return Self { turns, tool_calls, usage, active_ms: Some(active_ms) },
                _ => {}
            }
        }
        usage_so_far
    }
}

impl From<&RunStatusView> for RunUsage {
    /// From the workflow, which is ahead of the log.
    fn from(live: &RunStatusView) -> Self {
        Self { turns: live.turn, tool_calls: live.tool_calls, usage: live.usage.clone(), active_ms: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::time::Timestamp;

    fn event(kind: &str, data: Value) -> Event {
        Event { seq: 1, at: Timestamp(0), key: "k".into(), kind: kind.into(), data }
    }

    #[test]
    fn usage_is_summed_over_an_open_log_and_read_from_a_terminal_event() {
        let call = json!({"toolUseId": "c", "name": "t", "input": {}, "digest": "0".repeat(64), "turn": 0});
        let mut log = vec![
            event("assistant_message", json!({"text": "", "turn": 0, "finishReason": null, "model": "m"})),
            event("usage", json!({"turn": 0, "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}})),
            event("tool_call", call),
            event("hologram", json!({})),
        ];
        let usage = TokenUsage { input_tokens: 3, output_tokens: 2, total_tokens: 5, ..TokenUsage::default() };
        assert_eq!(RunUsage::of(&log), RunUsage { turns: 1, tool_calls: 1, usage, active_ms: None });
        let facts =
            json!({"reason": "enough", "turns": 7, "toolCalls": 8, "activeMs": 9, "usage": {"totalTokens": 10}});
        log.push(event("cancelled", facts));
        let usage = TokenUsage { total_tokens: 10, ..TokenUsage::default() };
        assert_eq!(RunUsage::of(&log), RunUsage { turns: 7, tool_calls: 8, usage, active_ms: Some(Millis(9)) });
    }
}
