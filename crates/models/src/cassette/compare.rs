//! What an answer must be compared with: what the cassette expects, and its own deltas.

use serde_json::{Value, json};
use windlass_core::message::{Content, Part};

use crate::{Delta, DeltaKind, ModelError, ModelResponse, openai::read_arguments};

/// An outcome in the form of a cassette's `expect`.
pub(super) fn outcome(result: &Result<ModelResponse, ModelError>) -> Value {
    match result {
        Ok(response) => response_json(response),
        Err(error) => error_json(error),
    }
}

fn response_json(response: &ModelResponse) -> Value {
    json!({
        "parts": response.parts,
        "stop": response.stop,
        "usage": response.usage,
        "responseId": response.response_id,
        "enforced": response.enforced,
    })
}

fn error_json(error: &ModelError) -> Value {
    let mut json = json!({"class": error.class, "retryable": error.retryable});
    if let Some(wait) = error.retry_after {
        json["retryAfterMs"] = json!(wait.as_millis());
    }
    if let Some(status) = error.api_status {
        json["apiStatus"] = json!(status);
    }
    if let Some(code) = &error.api_code {
        json["apiCode"] = json!(code);
    }
    json!({"error": json})
}

/// What came as deltas is what the parts have: the same text, the same arguments, each call begun and done once.
pub(super) fn agree(case: &str, deltas: &[Delta], parts: &[Part], results_apart: bool) {
    let mut begun: Vec<u32> = Vec::new();
    for delta in deltas {
        assert!((delta.part as usize) < parts.len(), "{case}: a delta of no part, {deltas:?}");
        if !begun.contains(&delta.part) {
            assert!(begun.iter().all(|earlier| *earlier < delta.part), "{case}: parts begin in order, {deltas:?}");
            begun.push(delta.part);
        }
    }
    for (number, part) in parts.iter().enumerate() {
        let own: Vec<&DeltaKind> =
            deltas.iter().filter(|delta| delta.part as usize == number).map(|delta| &delta.kind).collect();
        let joined: String = own
            .iter()
            .filter_map(|kind| match kind {
                DeltaKind::Text(text) | DeltaKind::Thinking(text) | DeltaKind::CallArguments(text) => Some(&**text),
                _ => None,
            })
            .collect();
        match &part.content {
            Content::Text { text } | Content::Citations { text, .. } => {
                assert!(own.iter().all(|kind| matches!(kind, DeltaKind::Text(_))), "{case}: {own:?}");
                assert_eq!(joined, *text, "{case}: part {number}");
            }
            Content::Thinking { text, .. } => {
                assert!(own.iter().all(|kind| matches!(kind, DeltaKind::Thinking(_))), "{case}: {own:?}");
                assert_eq!(joined, *text, "{case}: part {number}");
            }
            Content::ToolUse { name, input, .. } => {
                assert_eq!(own.first(), Some(&&DeltaKind::CallStarted { name: name.clone() }), "{case}: part {number}");
                assert_eq!(own.last(), Some(&&DeltaKind::CallDone), "{case}: part {number}");
                assert_eq!(read_arguments(&joined).0, *input, "{case}: part {number}");
            }
            Content::ProviderTool { name, output, .. } if output.is_some() || !results_apart => {
                assert_eq!(own, [&DeltaKind::ProviderToolDone { name: name.clone() }], "{case}: part {number}");
            }
            _ => assert!(own.is_empty(), "{case}: {own:?}"),
        }
    }
}
