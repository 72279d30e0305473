//! Runs that only talk.

use serde_json::{Value, json};

use super::{later, log, with};
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
