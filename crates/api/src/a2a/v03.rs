//! Version 0.3 of the protocol: other names of methods and states, and a `kind` in every object. Pure.

mod push;

use a2a::{AgentCard, TRANSPORT_PROTOCOL_JSONRPC};
use serde_json::{Map, Value, json};

use super::{card::SCHEME, operation::Operation};

pub(crate) const VERSION: &str = "0.3";

/// The operation with this name in 0.3, which has no list of tasks.
pub(crate) fn operation(method: &str) -> Option<Operation> {
    Some(match method {
        "message/send" => Operation::SendMessage,
        "message/stream" => Operation::SendStreamingMessage,
        "tasks/get" => Operation::GetTask,
        "tasks/cancel" => Operation::CancelTask,
        "tasks/resubscribe" => Operation::SubscribeToTask,
        "agent/getAuthenticatedExtendedCard" => Operation::GetExtendedAgentCard,
        "tasks/pushNotificationConfig/set" => Operation::CreatePushConfig,
        "tasks/pushNotificationConfig/get" => Operation::GetPushConfig,
        "tasks/pushNotificationConfig/list" => Operation::ListPushConfigs,
        "tasks/pushNotificationConfig/delete" => Operation::DeletePushConfig,
        _ => return None,
    })
}

/// Parameters of 0.3 as those of 1.0.
pub(crate) fn params(operation: Operation, params: Value) -> Value {
    let mut params = push::params(operation, params);
    if let Some(message) = params.get_mut("message") {
        if let Some(role) = message.get("role").and_then(Value::as_str) {
            message["role"] = json!(format!("ROLE_{}", role.to_uppercase()));
        }
        for part in message.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
            *part = part_in(part);
        }
    }
    if let Some(settings) = params.get_mut("configuration")
        && let Some(blocking) = settings.get("blocking").and_then(Value::as_bool)
    {
        settings["returnImmediately"] = json!(!blocking);
    }
    params
}

fn part_in(part: &Value) -> Value {
    let Some(file) = part.get("file") else { return part.clone() };
    let fields = [("bytes", "raw"), ("uri", "url"), ("name", "filename"), ("mimeType", "mediaType")];
    let kept = fields.into_iter().filter_map(|(old, new)| Some((new.to_owned(), file.get(old)?.clone())));
    Value::Object(kept.collect())
}

/// A result of 1.0 in the form of 0.3. `last` is whether it is the last event of a stream.
pub(crate) fn result(operation: Operation, result: Value, last: bool) -> Value {
    match operation {
        Operation::GetExtendedAgentCard => result,
        Operation::GetTask | Operation::CancelTask => task(result),
        Operation::CreatePushConfig
        | Operation::GetPushConfig
        | Operation::ListPushConfigs
        | Operation::DeletePushConfig => push::result(operation, result),
        _ => event(result, last),
    }
}

/// The one field of a response or an event.
fn event(mut response: Value, last: bool) -> Value {
    if let Some(found) = response.get_mut("task") {
        return task(found.take());
    }
    if let Some(update) = response.get_mut("statusUpdate") {
        let mut update = update.take();
        status(&mut update["status"]);
        return with(update, [("kind", json!("status-update")), ("final", json!(last))]);
    }
    let mut update = response.get_mut("artifactUpdate").map(Value::take).unwrap_or_default();
    parts(&mut update["artifact"]);
    with(update, [("kind", json!("artifact-update"))])
}

fn task(mut task: Value) -> Value {
    status(&mut task["status"]);
    for artifact in task.get_mut("artifacts").and_then(Value::as_array_mut).into_iter().flatten() {
        parts(artifact);
    }
    for shown in task.get_mut("history").and_then(Value::as_array_mut).into_iter().flatten() {
        message(shown);
    }
    with(task, [("kind", json!("task"))])
}

fn status(status: &mut Value) {
    let state = status["state"].as_str().unwrap_or_default();
    status["state"] = json!(state.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-"));
    if let Some(said) = status.get_mut("message") {
        message(said);
    }
}

fn message(message: &mut Value) {
    parts(message);
    let role = message["role"].as_str().unwrap_or_default().trim_start_matches("ROLE_").to_lowercase();
    (message["role"], message["kind"]) = (json!(role), json!("message"));
}

fn parts(holder: &mut Value) {
    for part in holder.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
        let kind = if part.get("text").is_some() { "text" } else { "data" };
        part["kind"] = json!(kind);
        // In 0.3 data is an object.
        if kind == "data" && !part["data"].is_object() {
            part["data"] = json!({"value": part["data"]});
        }
    }
}

fn with<const N: usize>(mut object: Value, fields: [(&str, Value); N]) -> Value {
    for (key, value) in fields {
        object[key] = value;
    }
    object
}

/// A card with the fields of both versions, as clients of both expect it at the same place.
pub(crate) fn card(card: &AgentCard) -> Value {
    let url = card.supported_interfaces.first().map(|interface| interface.url.clone()).unwrap_or_default();
    let old = json!({
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": TRANSPORT_PROTOCOL_JSONRPC,
        "additionalInterfaces": [{"url": url, "transport": TRANSPORT_PROTOCOL_JSONRPC}],
        "supportsAuthenticatedExtendedCard": true,
        "security": [{SCHEME: []}],
    });
    // A card is built from strings; it always serialises.
    let mut both = serde_json::to_value(card).unwrap_or_default();
    if let (Some(fields), Value::Object(old)) = (both.as_object_mut(), old) {
        fields.extend(old);
    }
    if let Some(scheme) = both.pointer_mut(&format!("/securitySchemes/{SCHEME}")).and_then(Value::as_object_mut) {
        scheme.extend(Map::from_iter([("type".to_owned(), json!("http")), ("scheme".to_owned(), json!("bearer"))]));
    }
    both
}

#[cfg(test)]
mod tests;
