//! Streams that no cassette has.

use serde_json::json;
use windlass_core::{message::Content, stop::StopReason};

use super::requests::request;
use crate::{ErrorClass, ModelError, ModelResponse, gemini::Gemini, wire::Wire as _};

fn read(chunks: &[&str]) -> Result<ModelResponse, ModelError> {
    let mut reader = Gemini.reader(&request(json!([])));
    for chunk in chunks {
        reader.event(None, chunk)?;
    }
    assert!(!reader.is_complete(), "only the end of the stream is the end");
    reader.finish()
}

#[test]
fn arguments_that_have_no_canonical_form_make_the_call_malformed() {
    let call = r#"{"functionCall":{"name":"a","args":{"n":1e999}}}"#;
    let chunk = format!(r#"{{"candidates":[{{"content":{{"parts":[{call}]}},"finishReason":"STOP"}}]}}"#);
    let response = read(&[&chunk]).unwrap();
    assert_eq!(response.stop, StopReason::MalformedCall);
    assert!(matches!(&response.parts[0].content, Content::ToolUse { input, .. } if *input == json!(r#"{"n":1e999}"#)));
    assert_eq!(response.parts[0].provider_item.as_ref().unwrap().item, call);
}

#[test]
fn a_call_without_a_name_is_malformed_and_kept() {
    let chunk = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"args":{}}}]},"finishReason":"STOP"}]}"#;
    let response = read(&[chunk]).unwrap();
    assert_eq!(response.stop, StopReason::MalformedCall);
    assert_eq!(response.parts[0].content, Content::Other { kind: "functionCall".into() });
}

#[test]
fn a_missing_signature_is_an_error_and_not_an_empty_answer() {
    let error = read(&[r#"{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE"}]}"#]).unwrap_err();
    assert_eq!((error.class, error.retryable), (ErrorClass::InvalidRequest, false));
}

#[test]
fn the_first_candidate_is_the_answer_and_a_later_finish_reason_counts() {
    let response = read(&[
        r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"B"}]}},{"index":0,"content":{"parts":[{"text":"A"}]},"finishReason":"STOP"}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"A"}]},"finishReason":"MAX_TOKENS"}]}"#,
    ]);
    let response = response.unwrap();
    assert_eq!((response.stop, response.parts.len()), (StopReason::MaxTokens, 1));
    assert_eq!(response.parts[0].content, Content::Text { text: "AA".into() });
    assert_eq!(response.usage.model.as_deref(), Some("gemini:gemini-3-flash-preview"));
}

#[test]
fn a_search_that_is_reported_before_the_text_ends_does_not_cut_the_text() {
    let response = read(&[
        r#"{"candidates":[{"content":{"parts":[{"text":"High"}]},"groundingMetadata":{"webSearchQueries":["q"]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":" tide"}]},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"u"}}],"groundingSupports":[{"segment":{"text":"not in it"},"groundingChunkIndices":[0,9]}]}}]}"#,
    ]);
    let parts = response.unwrap().parts;
    assert!(
        matches!(&parts[0].content, Content::Citations { text, citations } if text == "High tide" && citations.len() == 1)
    );
    assert!(matches!(&parts[1].content, Content::ProviderTool { name, input: Some(input), .. }
        if name == "google_search" && *input == json!({"queries": ["q"]})));
}
