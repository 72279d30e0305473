//! Fields that do not fit a tool's kind. A definition's types have no place for them, so they are looked for in its JSON.

use serde_json::Value;

use super::{Pointer, Problem, Problems, nearest};
use crate::agent::{ClientTool, SourceFields};

/// Every field of a tool, in the definition and its sub-agents, that does nothing for the tool's kind.
pub fn check_sources(definition: &Value) -> Vec<Problem> {
    let mut problems = Problems::default();
    check_agent(definition, &Pointer::default(), &mut problems);
    problems.0
}

fn check_agent(agent: &Value, at: &Pointer, problems: &mut Problems) {
    let list = |field: &str| agent.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, tool) in list("tools").iter().enumerate() {
        check_tool(tool, &at.field("tools").index(index), problems);
    }
    for (index, agent) in list("agents").iter().enumerate() {
        check_agent(agent, &at.field("agents").index(index), problems);
    }
}

fn check_tool(tool: &Value, at: &Pointer, problems: &mut Problems) {
    let kind = tool.get("kind").and_then(Value::as_str).unwrap_or("builtin");
    for (field, wanted) in SourceFields::BY_FIELD {
        let given = tool.get(field).is_some_and(|value| *value != Value::Bool(false));
        if given && kind != wanted {
            problems.add(&at.field(field), misplaced(field));
        } else if given && field == "readOnly" && tool.get("client").is_none() {
            let message = "this is for the caller's own tools; remove it or say whose tool it is in client";
            problems.add(&at.field(field), message);
        }
    }
    if let Some(client) = tool.get("client") {
        check_client(client, &at.field("client"), problems);
    }
}

fn misplaced(field: &str) -> &'static str {
    match field {
        "agent" => "only a tool of kind agent has an agent; remove this or set the kind to \"agent\"",
        "client" => "only a tool of kind external is the caller's own; remove this or set the kind to \"external\"",
        "http" | "mcp" | "a2a" | "temporal" => "this is of another kind of tool; remove it or set the kind to its name",
        _ => "only a tool of kind external is waited for; remove this or set the kind to \"external\"",
    }
}

/// What reading the field kept of it is what it may have.
fn check_client(client: &Value, at: &Pointer, problems: &mut Problems) {
    let known = match serde_json::from_value::<ClientTool>(client.clone()).map(ClientTool::fields) {
        Ok(known) => known,
        Err(error) => return problems.add(at, error),
    };
    for field in client.as_object().into_iter().flatten().map(|(field, _)| field) {
        if !known.contains(&field.as_str()) {
            let message = match nearest(field, known.iter().copied()) {
                Some(meant) => format!("unknown field; did you mean {meant}?"),
                None => format!("unknown field; known are {}", known.join(", ")),
            };
            problems.add(&at.field(field), message);
        }
    }
}
