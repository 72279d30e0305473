//! Every cassette, through the whole model, with the bytes cut at many places.

use serde_json::{Value, json};

use crate::{anthropic::AnthropicMessages, cassette::Player};

const PLAYER: Player<AnthropicMessages> = Player {
    wire: AnthropicMessages,
    format: "anthropic",
    provider: "anthropic",
    model: "claude-sonnet-5-5",
    base: "",
    line: "POST /v1/messages HTTP/1.1",
    key: ("x-api-key", "sk-test"),
    results_apart: true,
};

#[tokio::test]
async fn every_cassette_is_read_as_expected_wherever_its_bytes_are_cut() {
    PLAYER.assert_cassettes_are_read().await;
}

#[tokio::test]
async fn a_request_is_posted_with_the_version() {
    let sent = PLAYER.play(&PLAYER.cassette("tool_call"), 0).await.sent;
    let expected =
        [("anthropic-version", "2026-10-21"), ("content-type", "application/json"), ("accept", "text/event-stream")];
    for (name, value) in expected {
        assert_eq!(sent.headers.get(name).map(String::as_str), Some(value), "{name}");
    }
    let body: Value = serde_json::from_str(&sent.body).unwrap();
    assert_eq!((&body["model"], &body["stream"]), (&json!(PLAYER.model), &json!(true)));
}

#[test]
fn an_answer_is_complete_with_its_last_event_and_not_before() {
    let is_end = |data: &str| data.contains("\"type\":\"message_stop\"");
    PLAYER.assert_answers_need_their_end(is_end, is_end);
}

#[test]
fn events_in_any_order_do_not_break_the_reader() {
    PLAYER.assert_disorder_is_survived();
}

/// A failed answer is charged, too.
#[tokio::test]
async fn an_answer_that_fails_has_the_usage_so_far() {
    for case in ["stream_error", "cut_stream", "malformed_json"] {
        let usage = PLAYER.play(&PLAYER.cassette(case), 0).await.result.unwrap_err().usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (25, 1, 26), "{case}");
        assert_eq!(usage.model.as_deref(), Some("anthropic:claude-sonnet-5-5"));
    }
}
