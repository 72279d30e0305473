//! Runs that only talk.

use serde_json::{Value, json};

use super::{later, log, run_error, with};
use crate::sdk::client::Sdk;

/// A run of the script `hello`.
pub(super) const TALK: [&str; 6] =
    ["started", "assistant_delta", "assistant_delta", "assistant_delta", "assistant_message", "result"];

pub(super) fn models(_: Sdk) -> Value {
    json!({
        "hello": {
            "id": "script:hello", "label": "hello", "provider": "script", "vendor_model_id": "hello",
            "source": "platform_offering", "context_window_tokens": null, "pricing": null,
        },
        "default": "script:add",
    })
}

fn hello(sdk: Sdk) -> Value {
    let cost = json!({
        "tokens": {"input_tokens": 10, "cached_tokens": 4, "reasoning_tokens": 0, "output_tokens": 3},
        "turns": 1,
        "model": {"id": "script:hello", "provider": "script", "vendor_model_id": "hello", "reasoning_effort": null},
    });
    later(sdk, with(json!({"text": "Hello, world", "hasId": true}), log(&TALK)), cost)
}

pub(super) fn run(sdk: Sdk) -> Value {
    with(hello(sdk), json!({"heard": ["Hel", "lo, ", "world"], "sawAll": true}))
}

pub(super) fn run_async_client(sdk: Sdk) -> Value {
    hello(sdk)
}

pub(super) fn stream(_: Sdk) -> Value {
    let model = json!({"id": "script:hello", "provider": "script", "vendorModelId": "hello"});
    let facts = json!({
        "deltas": ["Hel", "lo, ", "world"],
        "message": [{"text": "Hello, world", "turn": 0, "finishReason": "end_turn", "model": model}],
        "ending": [{"subtype": "success", "text": "Hello, world", "turns": 1}],
    });
    with(facts, log(&TALK))
}

pub(super) fn stream_async_client(_: Sdk) -> Value {
    with(json!({"deltas": ["Hel", "lo, ", "world"]}), log(&TALK))
}

pub(super) fn messages(sdk: Sdk) -> Value {
    later(sdk, json!({"carried": "2 said, 1 answered: one … three"}), json!({"system": "Be brief."}))
}

pub(super) fn reasoning(_: Sdk) -> Value {
    let (thinks, does_not) = (json!({"thought": ["hm"], "said": ["done"]}), json!({"thought": [], "said": ["done"]}));
    json!({"high": thinks, "40": thinks, "off": does_not, "0": does_not})
}

pub(super) fn structured(sdk: Sdk) -> Value {
    let facts = json!({
        "parsed": {"city": "Bergen", "temp": 7},
        "text": "{\"city\": \"Bergen\", \"temp\": 7}",
        "unparsed": "Hello, world",
    });
    let info = json!({
        "schema_requested": true, "schema_enforced": false, "enforcement_mechanism": "none",
        "unconstrained_fallback_occurred": false,
    });
    later(sdk, facts, json!({"info": info}))
}

pub(super) fn strict(sdk: Sdk) -> Value {
    let fits = json!({
        "schema_requested": true, "schema_enforced": false, "enforcement_mechanism": "none",
        "unconstrained_fallback_occurred": false,
    });
    const CLASS: &str = "structured_output_not_enforced";
    let problem = "it is not JSON: expected value at line 1 column 1";
    let message = format!("The answer does not fit the output schema: {problem}");
    // The script greets whatever it is told, and it is told once that its answer does not fit.
    let repair = format!(
        "Your answer does not match the JSON Schema that is required: {problem}\nAnswer again with only the JSON document."
    );
    let more = json!({
        "error_class": CLASS, "retryable": false, "finish_reason": "end_turn", "partial_text": format!("Hello, {repair}"),
        "turns": 2,
    });
    json!({"fits": fits, "misfit": run_error(sdk, CLASS, &message, more)})
}

pub(super) fn odd_text(_: Sdk) -> Value {
    with(json!({"same": true}), log(&TALK))
}

pub(super) fn many_events(_: Sdk) -> Value {
    let letters = ('a'..='z').chain('A'..='Z').chain('0'..='9').cycle().take(200).collect::<String>();
    with(json!({"heard": letters}), log(&["started", "assistant_message", "result"]))
}

pub(super) fn at_once(_: Sdk) -> Value {
    json!({"heard": (0..16).map(|n| format!("Hello, {n}")).collect::<Vec<_>>()})
}

pub(super) fn stored_agent(_: Sdk) -> Value {
    json!({"text": "You keep the time. clock,extra"})
}

/// What was attached is kept by name, not by content.
pub(super) fn attachments(_: Sdk) -> Value {
    let files = json!([
        {"type": "input_file", "mimeType": "text/plain", "filename": "note.txt", "size": 5},
        {"type": "input_file_url", "url": "https://example.com/a.pdf", "mimeType": "application/pdf"},
    ]);
    json!({
        "history": {"role": "user", "content": "look", "attachments": files},
        "event": {"text": "look", "attachments": files},
    })
}
