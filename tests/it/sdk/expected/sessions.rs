//! Conversations of many runs.

use serde_json::{Value, json};

use super::{log, run_error, with};
use crate::sdk::client::Sdk;

const FIRST: &str = "1 said, 0 answered: hello … hello";
const SECOND: &str = "2 said, 1 answered: hello … again";

fn conversation() -> Value {
    json!([
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": FIRST},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": SECOND},
    ])
}

pub(super) fn session(_: Sdk) -> Value {
    let spec = json!({
        "tools": [], "systemPrompt": "You are a test.", "modelId": "script:chat", "name": "talk", "metadata": {"who": "ann"},
    });
    let info = json!({
        "sameId": true, "name": "talk", "status": "active", "ended": false, "metadata": {"who": "ann"},
        "messages": conversation(), "spec": spec,
    });
    let talk = log(&["started", "assistant_delta", "assistant_message", "result"]);
    with(json!({"first": FIRST, "second": SECOND, "info": info}), talk)
}

pub(super) fn session_async(_: Sdk) -> Value {
    json!({"texts": [FIRST, SECOND], "history": conversation(), "status": "ended"})
}

pub(super) fn resume(_: Sdk) -> Value {
    json!({"texts": ["sum=one", "sum=two"], "history": ["hello", "sum=one", "again", "sum=two"]})
}

pub(super) fn ended(_: Sdk) -> Value {
    let refused = json!({
        "class": "MantyxError", "message": "the session has ended; start a new one", "code": "session_ended", "status": 409,
        "hinted": false,
    });
    json!({"refused": refused, "status": "ended", "history": 2})
}

pub(super) fn ended_at_work(sdk: Sdk) -> Value {
    let raised = run_error(sdk, "cancelled", "Run was cancelled", json!({}));
    with(json!({"raised": raised, "history": []}), log(&["started", "cancelled"]))
}

pub(super) fn failed_turn(_: Sdk) -> Value {
    json!({"raised": "overloaded", "history": []})
}

pub(super) fn overrides(_: Sdk) -> Value {
    json!({
        "changed": {"events": [{"tool": "probe", "maxCalls": 0, "callIndex": 1}], "calls": 0},
        "sessionUnchanged": true,
        "plain": {"text": "seen", "calls": 1},
    })
}

pub(super) fn listed(sdk: Sdk) -> Value {
    let facts = json!({
        "all": ["1", "3", "2"],
        "page": {"total": 3, "limit": 50, "offset": 0},
        "summary": "the first prompt",
        "metadata": {"mark": "it", "n": "a:1"},
        "both": ["3"],
        "none": [],
        "active": ["1", "3"],
        "ended": ["2"],
        "second": ["3"],
        "refused": "invalid_request",
    });
    paged(sdk, facts, json!([["1", "3"], ["2"]]))
}

pub(super) fn events(sdk: Sdk) -> Value {
    let all = json!([
        [1, "user_message", "one"],
        [2, "assistant_message", "1 said, 0 answered: one … one"],
        [3, "user_message", "two"],
        [4, "assistant_message", "2 said, 1 answered: one … two"],
    ]);
    let pages = json!([
        {"seqs": [2, 3, 4], "total": 4, "next": 2, "truncated": true},
        {"seqs": [1], "total": 4, "next": null, "truncated": false},
    ]);
    paged(sdk, json!({"all": all, "full": all, "last": [all[3]]}), pages)
}

/// Only the latest version turns pages.
fn paged(sdk: Sdk, facts: Value, pages: Value) -> Value {
    if sdk == Sdk::V2026 { with(facts, json!({"pages": pages})) } else { facts }
}
