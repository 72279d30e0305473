//! Every cassette, through the whole model, with the bytes cut at many places.

use crate::{Delta, DeltaKind, cassette::Player, gemini::Gemini};

const PLAYER: Player<Gemini> = Player {
    wire: Gemini,
    format: "gemini",
    provider: "gemini",
    model: "gemini-3-flash-preview",
    base: "",
    line: "POST /v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse HTTP/1.1",
    key: ("x-goog-api-key", "sk-test"),
    results_apart: true,
};

#[tokio::test]
async fn every_cassette_is_read_as_expected_wherever_its_bytes_are_cut() {
    PLAYER.assert_cassettes_are_read().await;
}

#[test]
fn an_answer_has_a_reason_for_its_end() {
    PLAYER.assert_answers_need_their_end(
        |data| data.contains("\"finishReason\"") || data.contains("\"blockReason\""),
        |_| false,
    );
}

#[test]
fn events_in_any_order_do_not_break_the_reader() {
    PLAYER.assert_disorder_is_survived();
}

#[tokio::test]
async fn what_was_counted_before_a_failure_is_charged() {
    let played = PLAYER.play(&PLAYER.cassette("stream_error"), 50).await;
    let usage = played.result.unwrap_err().usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (21, 1));
    assert_eq!(played.deltas, [Delta { part: 0, kind: DeltaKind::Text("High".into()) }]);
}
