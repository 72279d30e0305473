//! Fallback models.

use serde_json::{Value, json};

use super::{COLOGNE, TIDE, cologne, facts_of_schema, info, shown, text};

fn event(class: &str, primary: &str, fallback: &str) -> Value {
    json!({"errorClass": class, "model": fallback, "primaryModelId": primary, "fallbackModelId": fallback})
}

/// A failed run as the SDK raises it.
fn raised(class: &str, message: &str, model: &str, more: Value) -> Value {
    let mut facts = json!({
        "class": class, "code": class, "message": message, "retryable": false, "partial": null, "turns": 1, "status": null,
        "apiCode": null, "model": info(model), "structured": facts_of_schema(false, "none"),
    });
    facts.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    facts
}

/// The second message of the session does not ask the first model again.
pub(super) fn in_a_session() -> Value {
    const DOWN: &str = "down:claude-sonnet-5-5";
    const UP: &str = "up:gpt-5.5";
    let attempt = json!({"model": DOWN, "errorClass": "overloaded", "apiStatus": 529, "retryable": true});
    let hello = json!([["user", [text("Hello.")]]]);
    let asked = |said: &str| json!(["user", [{"type": "input_text", "text": said}]]);
    json!({
        "facts": {
            "texts": [COLOGNE, COLOGNE],
            "fallbacks": [[event("overloaded", DOWN, UP)], []],
            "attempts": [attempt, attempt, attempt],
            "models": [info(UP), info(UP)],
            "turns": [2, 1],
            "message": [{"model": shown(UP)}],
            "active": UP,
            "types": ["started", "model_fallback", "assistant_message", "result"],
            "inOrder": true,
        },
        "asked": {
            "down": [hello, hello, hello],
            "up": [[asked("Hello.")], [asked("Hello."), ["assistant", cologne()], asked("Again.")]],
        },
    })
}

pub(super) fn in_a_run() -> Value {
    const SPARE: &str = "spare:claude-sonnet-5-5";
    let hello = json!([["user", [{"type": "input_text", "text": "Hello."}]]]);
    json!({
        "facts": {
            "fallbacks": [event("overloaded", "broken:gpt-5.5", SPARE)],
            "ending": [{"text": TIDE, "model": shown(SPARE)}],
            "snapshot": {"modelId": "broken:gpt-5.5", "model": shown(SPARE), "finalText": TIDE, "status": "succeeded"},
        },
        "asked": {"broken": [hello, hello, hello], "spare": [[["user", [text("Hello.")]]]]},
    })
}

pub(super) fn quota() -> Value {
    let message =
        "the provider answered 429: You exceeded your current quota, please check your plan and billing details.";
    let more = json!({"status": 429, "apiCode": "insufficient_quota"});
    json!({
        "facts": {"raised": raised("rate_limit", message, "spent:gpt-5.5", more)},
        "asked": {"spent": ["gpt-5.5"], "idle": []},
    })
}

/// The model is asked again, and no other one.
pub(super) fn after_text() -> Value {
    let message = "the provider ended the answer with an error: Overloaded";
    let more = json!({"retryable": true, "partial": "The ti", "apiCode": "overloaded_error"});
    json!({
        "facts": {
            "raised": raised("overloaded", message, "cut_off:claude-sonnet-5-5", more),
            "fallbacks": [],
            "restarts": 2,
        },
        "asked": {"cut_off": ["claude-sonnet-5-5", "claude-sonnet-5-5", "claude-sonnet-5-5"], "idle": []},
    })
}

/// An unknown model is refused with those that are like it, and the run's own model under each of its ids.
pub(super) fn unknown() -> Value {
    let refused = |code: &str| json!({"code": code, "status": 400, "field": "fallbackModelId"});
    json!({
        "facts": {
            "raised": [refused("invalid_model"), refused("invalid_request"), refused("invalid_request")],
            "candidates": [
                ["chat:gpt-5.5", "loose_openai:gpt-5.5", "native_openai:gpt-5.5", "openai:gpt-5.5", "rejecting:gpt-5.5"],
                null,
                null,
            ],
        },
        "asked": {},
    })
}
