//! What a run's row keeps of its terminal event.
//!
//! The event is the one source, and it is read leniently: a field that it does not have, or has in another shape, is
//! left out. A newer build's events may carry more than this build writes.

use serde_json::Value;

use crate::{Ending, page};

/// From the data of a `result`, `error` or `cancelled` event.
pub(crate) fn of(data: &Value) -> Ending {
    Ending {
        output_preview: final_text(data).map(page::preview),
        error: text(data, "error"),
        error_class: text(data, "errorClass"),
        finish_reason: text(data, "finishReason"),
        finalized: text(data, "finalized"),
        usage: serde_json::from_value(data["usage"].clone()).ok(),
        turns: count(data, "turns"),
        tool_calls: count(data, "toolCalls"),
        model: text(data, "model"),
    }
}

/// The answer, or what there was of it when the run failed.
pub(crate) fn final_text(data: &Value) -> Option<&str> {
    data["text"].as_str().or_else(|| data["partialText"].as_str())
}

fn text(data: &Value, field: &str) -> Option<String> {
    data[field].as_str().map(str::to_owned)
}

fn count(data: &Value, field: &str) -> Option<u32> {
    data[field].as_u64().and_then(|count| u32::try_from(count).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::envelope::TokenUsage;

    use super::*;

    #[test]
    fn a_row_keeps_what_its_event_says_and_nothing_else() {
        let usage = TokenUsage { input_tokens: 3, ..TokenUsage::default() };
        let cases = [
            (
                json!({"text": "done", "finishReason": "stop", "finalized": "time_budget", "turns": 2, "toolCalls": 1, "usage": usage, "model": "b"}),
                Ending {
                    output_preview: Some("done".into()),
                    finish_reason: Some("stop".into()),
                    finalized: Some("time_budget".into()),
                    usage: Some(usage),
                    turns: Some(2),
                    tool_calls: Some(1),
                    model: Some("b".into()),
                    ..Ending::default()
                },
            ),
            (
                json!({"error": "cut off", "errorClass": "truncated", "finishReason": "length", "partialText": "do"}),
                Ending {
                    output_preview: Some("do".into()),
                    error: Some("cut off".into()),
                    error_class: Some("truncated".into()),
                    finish_reason: Some("length".into()),
                    ..Ending::default()
                },
            ),
            (json!({"text": 1, "turns": "two", "toolCalls": -1, "usage": "much"}), Ending::default()),
            (json!({}), Ending::default()),
        ];
        for (data, ending) in cases {
            assert_eq!(of(&data), ending, "{data}");
        }
    }
}
