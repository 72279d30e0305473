//! Last messages that are no answer, models that break off, and what the terminal event says of it.

use serde_json::{Value, json};

use crate::support::{World, agent_with, block_on, says, script, world::scripts};

/// Plays one turn to the end of its run; the run's events without what varies.
async fn events_of(turn: Value, agent: Value) -> Vec<(String, Value)> {
    let world = World::new(scripts([("end", script(&[turn]))])).await;
    let run = world.start(agent_with("end", agent), "go").await;
    let _ = world.result(&run).await;
    let events = world.events(&run).await.into_iter().map(|mut event| {
        for varies in ["activeMs", "usage", "turn", "attempt"] {
            event.data.as_object_mut().unwrap().remove(varies);
        }
        (event.kind, event.data)
    });
    events.filter(|(kind, _)| !["started", "usage", "status"].contains(&kind.as_str())).collect()
}

fn named(kind: &str, data: Value) -> (String, Value) {
    (kind.to_owned(), data)
}

#[test]
fn an_answer_that_is_cut_off_is_an_error_that_keeps_the_text() {
    block_on(async {
        // Once as a text that travels, once as one that is read from the store.
        for text in ["{\"city\": \"Ber".to_owned(), "x".repeat(5_000)] {
            let told = events_of(json!({"text": text, "stop": "max_tokens"}), json!({})).await;
            let message =
                "Model output was truncated (stop_reason=max_tokens). Ask for a shorter answer, or allow more output.";
            assert_eq!(
                told,
                [
                    named("assistant_delta", json!({"text": text})),
                    named(
                        "assistant_message",
                        json!({"text": text, "finishReason": "max_tokens", "model": "script:end"})
                    ),
                    named(
                        "error",
                        json!({
                            "code": "truncation", "errorClass": "truncation", "failure": "RUN0008", "error": message,
                            "retryable": false, "finishReason": "max_tokens", "partialText": text, "turns": 1,
                            "toolCalls": 0, "model": "script:end",
                        })
                    ),
                ]
            );
        }
    });
}

#[test]
fn a_strict_schema_is_held_to() {
    block_on(async {
        let schema = json!({"type": "object", "required": ["n"]});
        let agent = |enforcement: &str| json!({"outputSchema": {"schema": schema, "enforcement": enforcement}});
        let cases = [
            ("strict", r#"{"n":1}"#, "result", json!(null)),
            ("strict", "no", "error", json!("structured_output_not_enforced")),
            ("best_effort", "no", "result", json!(null)),
        ];
        // The model was not given the schema: the run checks the answer, and nothing enforced it.
        let structured = json!({
            "schemaRequested": true, "schemaEnforced": false, "enforcementMechanism": "none",
            "unconstrainedFallbackOccurred": false,
        });
        for (enforcement, text, kind, class) in cases {
            let (last, data) = events_of(says(text), agent(enforcement)).await.pop().unwrap();
            assert_eq!((last.as_str(), &data["errorClass"]), (kind, &class), "{enforcement} {text}");
            assert_eq!(data["structuredOutput"], structured, "{enforcement} {text}");
        }
    });
}

#[test]
fn a_model_that_breaks_off_leaves_what_it_said() {
    block_on(async {
        let error = json!({"error": "gone", "errorClass": "upstream_deadline", "retryable": false, "apiStatus": 504,
            "apiCode": "deadline"});
        let told = events_of(json!({"deltas": ["I was ", "about"], "error": error}), json!({})).await;
        assert_eq!(
            told,
            [
                named("assistant_delta", json!({"text": "I was "})),
                named("assistant_delta", json!({"text": "about"})),
                named(
                    "attempt_failed",
                    json!({
                        "model": "script:end", "errorClass": "upstream_deadline", "error": "gone", "retryable": false,
                        "apiStatus": 504,
                    })
                ),
                named("assistant_message", json!({"text": "I was about", "finishReason": null, "model": "script:end"})),
                named(
                    "error",
                    json!({
                        "code": "upstream_deadline", "errorClass": "upstream_deadline", "failure": "RUN0001",
                        "error": "gone", "retryable": false, "apiStatus": 504, "apiCode": "deadline", "partialText": "I was about",
                        "turns": 1, "toolCalls": 0, "model": "script:end",
                    })
                ),
            ]
        );
    });
}

#[test]
fn thinking_is_streamed_only_above_reasoning_level_0() {
    block_on(async {
        for (agent, thinks) in
            [(json!({}), false), (json!({"reasoningLevel": 30}), true), (json!({"reasoningLevel": 0}), false)]
        {
            let told = events_of(json!({"thinking": "hm", "text": "hi"}), agent).await;
            assert_eq!(told.iter().any(|(kind, _)| kind == "thinking_delta"), thinks);
        }
    });
}
