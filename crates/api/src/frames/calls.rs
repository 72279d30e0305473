//! Calls and results.

use serde_json::{Map, Value, json};
use windlass_core::{agent::ClientTool, ids::ToolName};

use super::{RunFacts, as_text, set, shown};

/// The protocol's documents disagree about the fields of a result, so a frame has all of them.
pub(super) fn result(data: &mut Map<String, Value>) {
    let text = match (data.get("result"), data.get("error")) {
        (Some(result), _) => as_text(result),
        (None, Some(error)) => error_text(error),
        (None, None) => String::new(),
    };
    let text = shown(text);
    set(data, "summary", text.clone());
    set(data, "result", text);
}

/// Adds the kind of the caller's tool, and its card or server as the caller declared it.
pub(super) fn local_call(data: &mut Map<String, Value>, facts: &RunFacts) {
    if data.get("args").is_none_or(Value::is_null) {
        set(data, "args", json!({}));
    }
    let name = data.get("name").and_then(Value::as_str).unwrap_or_default();
    match facts.tools.get(&ToolName::new(name)) {
        None | Some(ClientTool::Local {}) => set(data, "kind", "local"),
        Some(ClientTool::A2aLocal { agent_card }) => {
            set(data, "kind", "a2a_local");
            set(data, "agentCard", agent_card.clone());
        }
        Some(ClientTool::McpLocal { server, server_info, tool_name }) => {
            set(data, "kind", "mcp_local");
            set(data, "mcpServer", server.clone());
            set(data, "mcpToolName", tool_name.clone());
            if let Some(info) = server_info {
                set(data, "mcpServerInfo", info.clone());
            }
        }
    }
}

/// The field is `output` in the protocol's documents and `result` in the SDKs.
pub(super) fn local_result(data: &mut Map<String, Value>) {
    if let Some(output) = data.get("output").or_else(|| data.get("result")) {
        let text = shown(as_text(output));
        set(data, "output", text.clone());
        set(data, "result", text);
    }
    if let Some(error) = data.get("error") {
        let text = shown(error_text(error));
        set(data, "error", text);
    }
}

/// The kind and the message of an error.
fn error_text(error: &Value) -> String {
    match (error.get("kind").and_then(Value::as_str), error.get("message").and_then(Value::as_str)) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (None, Some(message)) => message.to_owned(),
        _ => as_text(error),
    }
}
