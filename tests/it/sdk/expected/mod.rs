//! What every scenario must find.

mod connections;
mod failures;
mod guards;
mod peers;
mod runs;
mod sessions;
mod tools;

use serde_json::{Value, json};

use super::client::Sdk;

/// A scenario of the harness.
pub(super) struct Case {
    /// Its function.
    pub(super) name: &'static str,
    /// The first version that has what it needs.
    pub(super) since: Sdk,
    pub(super) expected: fn(Sdk) -> Value,
}

const fn always(name: &'static str, expected: fn(Sdk) -> Value) -> Case {
    since(Sdk::V0_9, name, expected)
}

const fn since(since: Sdk, name: &'static str, expected: fn(Sdk) -> Value) -> Case {
    Case { name, since, expected }
}

/// On a server with time.
pub(super) const ORDINARY: &[Case] = &[
    always("models", runs::models),
    always("run", runs::run),
    always("run_async_client", runs::run_async_client),
    always("stream", runs::stream),
    always("stream_async_client", runs::stream_async_client),
    always("messages", runs::messages),
    always("reasoning", runs::reasoning),
    always("structured", runs::structured),
    since(Sdk::V0_25, "strict", runs::strict),
    always("odd_text", runs::odd_text),
    always("many_events", runs::many_events),
    always("at_once", runs::at_once),
    always("stored_agent", runs::stored_agent),
    since(Sdk::V0_25, "attachments", runs::attachments),
    always("local_tool", tools::local_tool),
    always("local_tool_async", tools::local_tool_async),
    always("tools_in_turn", tools::in_turn),
    since(Sdk::V0_25, "tools_at_once", tools::at_once),
    always("tool_error", tools::error),
    always("unknown_handler", tools::unknown_handler),
    always("invalid_input", tools::invalid_input),
    always("long_running", tools::long_running),
    always("large_result", tools::large_result),
    always("empty_result", tools::empty_result),
    since(Sdk::V0_25, "files", tools::files),
    always("session", sessions::session),
    always("session_async", sessions::session_async),
    always("resume", sessions::resume),
    always("ended", sessions::ended),
    always("ended_at_work", sessions::ended_at_work),
    always("failed_turn", sessions::failed_turn),
    always("overrides", sessions::overrides),
    since(Sdk::V0_25, "listed", sessions::listed),
    since(Sdk::V0_25, "session_events", sessions::events),
    always("cancel", failures::cancel),
    always("truncation", failures::truncation),
    always("model_errors", failures::model_errors),
    always("model_recovers", failures::model_recovers),
    always("access", failures::access),
    always("invalid_spec", failures::invalid_spec),
    always("loop", guards::endless),
    always("loop_thresholds", guards::thresholds),
    always("loop_off", guards::off),
    always("tool_budget", guards::budget),
    always("cut", connections::cut),
    always("cut_async", connections::cut_async),
    always("cut_in_tool", connections::cut_in_tool),
    always("left_and_gone_on", connections::left_and_gone_on),
    always("mcp_local", peers::mcp),
    always("mcp_local_error", peers::mcp_error),
    always("a2a_local", peers::a2a),
    always("a2a_local_async", peers::a2a_async),
    always("a2a_described", peers::a2a_described),
    always("a2a_local_error", peers::a2a_error),
];

/// On a server that gives a caller's tool a second.
pub(super) const HASTY: &[Case] = &[always("tool_timeout", tools::timeout)];

/// On a server that is killed. Before 0.22 a result is posted once, and lost if no server is running.
pub(super) const KILLS: &[Case] = &[
    always("kill_stream", connections::kill_stream),
    always("kill_stream_async", connections::kill_stream),
    always("kill_tool", connections::kill_tool),
    since(Sdk::V0_25, "kill_post", connections::kill_tool),
];

/// On a server that is stopped as a deployment does it.
pub(super) const STOPS: &[Case] =
    &[always("stop_stream", connections::kill_stream), always("stop_tool", connections::kill_tool)];

/// Events of these types in this order, with increasing seqs.
fn log(types: &[&str]) -> Value {
    json!({"types": types, "inOrder": true})
}

/// All the fields of both.
fn with(mut one: Value, other: Value) -> Value {
    let (Value::Object(fields), Value::Object(more)) = (&mut one, other) else { panic!("two objects") };
    fields.extend(more);
    one
}

/// What later versions say besides.
fn later(sdk: Sdk, one: Value, more: Value) -> Value {
    if sdk.is_later() { with(one, more) } else { one }
}

/// What the SDK raises when a run failed.
fn run_error(sdk: Sdk, subtype: &str, message: &str, more: Value) -> Value {
    let none = json!({"error_class": null, "finish_reason": null, "partial_text": null, "retryable": null});
    let error = json!({"class": "MantyxRunError", "message": message, "code": subtype, "subtype": subtype});
    let cost = json!({"turns": null, "api_status": null});
    let known = later(sdk, with(error, none), cost);
    let said = more.as_object().unwrap().iter().filter(|(key, _)| known.get(*key).is_some());
    let said = Value::Object(said.map(|(key, value)| (key.clone(), value.clone())).collect());
    with(known, said)
}
