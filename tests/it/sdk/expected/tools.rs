//! Tools that the caller executes.

use serde_json::{Value, json};

use super::{later, log, run_error, with};
use crate::sdk::client::Sdk;

/// A call of the caller's tool and its result. `tool_result` is for tools of the server.
pub(super) const CALL: [&str; 2] = ["local_tool_call", "local_tool_result_in"];

/// A turn that makes one call, and the turn after it.
pub(super) const ONE_CALL: [&str; 7] = [
    "started",
    "assistant_message",
    "local_tool_call",
    "local_tool_result_in",
    "assistant_delta",
    "assistant_message",
    "result",
];

pub(super) fn local_tool(sdk: Sdk) -> Value {
    let facts = json!({
        "calls": [{"name": "add", "args": {"a": 2, "b": 3}, "kind": "local"}],
        "results": [{"output": "{\"sum\": 5}", "result": "{\"sum\": 5}", "error": null}],
        "text": "sum={\"sum\": 5}",
        "hasId": true,
    });
    facts_of_a_run(sdk, facts)
}

pub(super) fn local_tool_async(sdk: Sdk) -> Value {
    facts_of_a_run(sdk, json!({"text": "sum=5", "hasId": true}))
}

fn facts_of_a_run(sdk: Sdk, facts: Value) -> Value {
    let model = json!({"id": "script:add", "provider": "script", "vendor_model_id": "add", "reasoning_effort": null});
    let tokens = json!({"input_tokens": 30, "cached_tokens": 0, "reasoning_tokens": 0, "output_tokens": 5});
    later(sdk, with(facts, log(&ONE_CALL)), json!({"tokens": tokens, "turns": 2, "model": model}))
}

pub(super) fn in_turn(_: Sdk) -> Value {
    let types =
        [&["started", "assistant_message"][..], &CALL, &CALL, &["assistant_delta", "assistant_message", "result"]]
            .concat();
    with(json!({"story": ["a begins", "a ends", "b begins", "b ends"], "text": "<a>|<b>"}), log(&types))
}

pub(super) fn at_once(_: Sdk) -> Value {
    let types = [
        "started",
        "assistant_message",
        "local_tool_call",
        "local_tool_call",
        "local_tool_result_in",
        "local_tool_result_in",
        "assistant_delta",
        "assistant_message",
        "result",
    ];
    with(json!({"text": "<a>|<b>"}), log(&types))
}

pub(super) fn error(_: Sdk) -> Value {
    let said = "Local tool 'add' failed: boom";
    let facts = json!({
        "results": [{"output": null, "result": null, "error": said}],
        "text": format!("sum=ERROR: {said}"),
    });
    with(facts, log(&ONE_CALL))
}

pub(super) fn unknown_handler(_: Sdk) -> Value {
    json!({"text": "sum=ERROR: No local handler registered for tool 'add'"})
}

pub(super) fn invalid_input(_: Sdk) -> Value {
    let types = ["started", "assistant_message", "tool_result", "assistant_delta", "assistant_message", "result"];
    let facts = json!({
        "called": [],
        "outcome": [{"name": "add", "ok": false}],
        "told": {"kind": "tool_input_invalid", "missing": ["b"], "wrong": ["/a", "/b"]},
    });
    with(facts, log(&types))
}

pub(super) fn long_running(_: Sdk) -> Value {
    json!({"described": "job: Starts a job.\n\nNOTE: This is a long-running operation. Do not call this tool again if it has \
                         already returned an intermediate or pending status."})
}

pub(super) fn large_result(_: Sdk) -> Value {
    with(json!({"whole": true}), log(&ONE_CALL))
}

pub(super) fn empty_result(_: Sdk) -> Value {
    json!({"text": "sum="})
}

pub(super) fn files(_: Sdk) -> Value {
    json!({"told": true, "named": true})
}

pub(super) fn timeout(sdk: Sdk) -> Value {
    let raised =
        run_error(sdk, "error_local_tool_timeout", "Timed out waiting for local tool result: add", json!({"turns": 1}));
    with(json!({"raised": raised}), log(&["started", "assistant_message", "local_tool_call", "tool_result", "result"]))
}
