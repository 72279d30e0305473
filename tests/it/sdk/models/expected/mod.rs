//! What the SDK must give its caller, and what the providers must have been asked.

mod fallback;
mod files;
mod reasoning;
mod structured;

use serde_json::{Value, json};

/// A scenario of the harness.
pub(super) struct Case {
    /// Its function.
    pub(super) name: &'static str,
    /// The providers that it may ask, and what is compared of each request.
    pub(super) asked: &'static [(&'static str, Look)],
    /// `facts` and `asked`.
    pub(super) expected: fn() -> Value,
}

/// What is interesting in a request.
pub(super) type Look = fn(&Value) -> Value;

const fn case(name: &'static str, asked: &'static [(&'static str, Look)], expected: fn() -> Value) -> Case {
    Case { name, asked, expected }
}

pub(super) const CASES: &[Case] = &[
    // The longest first.
    case("model_reasoning", reasoning::ASKED, reasoning::levels),
    case("no_fallback_after_text", &[("cut_off", model), ("idle", model)], fallback::after_text),
    case("fallback", &[("down", said), ("up", said)], fallback::in_a_session),
    case("fallback_of_a_run", &[("broken", said), ("spare", said)], fallback::in_a_run),
    case("no_fallback_for_a_quota", &[("spent", model), ("idle", model)], fallback::quota),
    case("no_such_fallback", &[], fallback::unknown),
    case("model_attachments", &[("files_anthropic", said), ("files_openai", said)], files::all),
    case("thinking_goes_back", &[("thinker", said)], reasoning::goes_back),
    case("model_structured", structured::ASKED, structured::enforced),
    case("model_repairs", structured::REPAIRS, structured::repaired),
    case("schema_rejected", &[("rejecting", structured::form)], structured::rejected),
    case("other_name", &[("named", model)], other_name),
];

/// The model that was asked for.
fn model(request: &Value) -> Value {
    request["model"].clone()
}

/// The conversation: each message of Anthropic, or each item of OpenAI, without the fields that are the same in all.
fn said(request: &Value) -> Value {
    let messages = request.get("messages").or_else(|| request.get("input")).unwrap();
    messages.as_array().unwrap().iter().map(|message| json!([message["role"], message["content"]])).collect()
}

/// A text of Anthropic.
fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A model as the SDK has it.
fn info(id: &str) -> Value {
    let (provider, vendor) = id.split_once(':').unwrap();
    json!({"id": id, "provider": provider, "vendor_model_id": vendor, "reasoning_effort": null})
}

/// A model as an event has it.
fn shown(id: &str) -> Value {
    let (provider, vendor) = id.split_once(':').unwrap();
    json!({"id": id, "provider": provider, "vendorModelId": vendor})
}

/// The facts about structured output as the SDK has them.
fn facts_of_schema(requested: bool, mechanism: &str) -> Value {
    json!({
        "schema_requested": requested, "schema_enforced": mechanism != "none", "enforcement_mechanism": mechanism,
        "unconstrained_fallback_occurred": false,
    })
}

/// The text of Anthropic's cassette `stream`, and of OpenAI's.
const TIDE: &str = "Grüße! 👋 The tide turns at six.\n";
const COLOGNE: &str = "Grüße aus Köln 🌊\n\"quoted\"";

/// OpenAI's answer with [`COLOGNE`], as it goes back to OpenAI.
fn cologne() -> Value {
    json!([{"type": "output_text", "annotations": [], "logprobs": [], "text": COLOGNE}])
}

/// The result's model is the one to name again, and says whose model it is.
fn other_name() -> Value {
    let result = json!({
        "id": "fast", "provider": "named", "vendor_model_id": "claude-sonnet-5-5", "reasoning_effort": null,
    });
    json!({
        "facts": {
            "listed": {"provider": "named", "vendor": "claude-sonnet-5-5"},
            "message": [{"model": shown("named:claude-sonnet-5-5")}],
            "result": result,
            "tokens": {"input_tokens": 100_260, "cached_tokens": 100_000, "reasoning_tokens": 0, "output_tokens": 4},
            "sameModel": {"code": "invalid_request", "status": 400, "field": "fallbackModelId"},
        },
        "asked": {"named": ["claude-sonnet-5-5"]},
    })
}
