//! What goes wrong.

use serde_json::{Value, json};

use super::{log, run_error, with};
use crate::sdk::client::Sdk;

pub(super) fn cancel(sdk: Sdk) -> Value {
    let raised = run_error(sdk, "cancelled", "Run was cancelled", json!({}));
    with(json!({"raised": raised}), log(&["started", "cancelled"]))
}

pub(super) fn truncation(sdk: Sdk) -> Value {
    const PARTIAL: &str = "{\"city\": \"Bergen\", \"temp";
    let more = json!({
        "error_class": "truncation", "finish_reason": "max_tokens", "partial_text": PARTIAL, "retryable": false, "turns": 1,
    });
    let raised = run_error(
        sdk,
        "truncation",
        "Model output was truncated (stop_reason=max_tokens). Ask for a shorter answer, or allow more output.",
        more,
    );
    let facts = json!({"raised": raised, "message": [{"text": PARTIAL, "finishReason": "max_tokens"}]});
    with(facts, log(&["started", "assistant_delta", "assistant_message", "error"]))
}

pub(super) fn model_errors(sdk: Sdk) -> Value {
    let cases = [
        ("rate_limit", "slow down", Some(429), None),
        ("overloaded", "busy", Some(529), None),
        ("server", "broken", Some(500), Some("so far")),
        ("context_window", "too long", Some(400), None),
        ("invalid_request", "no", Some(400), None),
        ("auth", "who?", Some(401), None),
        ("timeout", "slow", None, None),
        ("upstream_deadline", "slower", None, None),
        ("unknown", "odd", None, None),
    ];
    let raised = cases.map(|(class, message, status, partial)| {
        let more = json!({"error_class": class, "retryable": false, "partial_text": partial, "turns": 1, "api_status": status});
        (class.to_owned(), run_error(sdk, class, message, more))
    });
    Value::Object(raised.into_iter().collect())
}

pub(super) fn model_recovers(_: Sdk) -> Value {
    json!({"text": "at last", "inOrder": true})
}

pub(super) fn access(_: Sdk) -> Value {
    let refused = |class: &str, message: &str, code: &str, status: u16, hinted: bool| json!({"class": class, "message": message, "code": code, "status": status, "hinted": hinted});
    let stranger = refused(
        "MantyxAuthError",
        "the API key is missing or not valid; send `Authorization: Bearer KEY` (create a key with `windlass keys create`)",
        "unauthorized",
        401,
        false,
    );
    let missing =
        |what: &str| refused("MantyxError", &format!("this workspace has no such {what}"), "not_found", 404, false);
    json!({
        "run": stranger,
        "models": stranger,
        "workspace": refused("MantyxError", "this key is not valid for this workspace", "not_found", 404, true),
        "unknownRun": missing("run"),
        "unknownSession": missing("session"),
        "oddId": missing("run"),
    })
}

pub(super) fn invalid_spec(_: Sdk) -> Value {
    let refused = |code: &str, status: u16, field: &str| json!({"code": code, "status": status, "field": field});
    json!({
        "model": refused("invalid_model", 400, "modelId"),
        "metadata": refused("invalid_request", 400, "metadata.a key"),
        "tools": refused("invalid_request", 400, "tools[1].name"),
        "schema": refused("invalid_request", 400, "tools[0].parameters"),
        "prompt": refused("invalid_request", 400, "prompt"),
        "agent": refused("agent_not_allowed", 403, "agentId"),
    })
}
