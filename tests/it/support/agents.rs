//! Short ways to say what an agent and its script are.

use serde_json::{Value, json};
use windlass_core::agent::AgentDefinition;

/// An agent on the script `name` with these tools.
pub(crate) fn agent(script: &str, tools: Value) -> AgentDefinition {
    agent_with(script, json!({"tools": tools}))
}

/// An agent on the script `name` with any other field of a definition.
pub(crate) fn agent_with(script: &str, fields: Value) -> AgentDefinition {
    let mut definition = json!({"id": format!("test.{script}"), "model": format!("script:{script}")});
    merge(&mut definition, fields);
    serde_json::from_value(definition).expect("the test's agent definition is well-formed")
}

fn merge(into: &mut Value, fields: Value) {
    let (Value::Object(into), Value::Object(fields)) = (into, fields) else { panic!("objects only") };
    into.extend(fields);
}

/// A tool of the caller's own, with any other field of a tool.
pub(crate) fn own_tool(name: &str, fields: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let mut tool = json!({"name": name, "kind": "external", "client": {"kind": "local"}, "inputSchema": schema});
    merge(&mut tool, fields);
    tool
}

/// A turn that calls tools.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Value {
    let calls: Vec<Value> = calls.iter().map(|(name, args)| json!({"name": name, "args": args})).collect();
    json!({"tool_calls": calls})
}

/// A turn that answers.
pub(crate) fn says(text: &str) -> Value {
    json!({"text": text})
}

pub(crate) fn script(turns: &[Value]) -> Value {
    json!({"turns": turns})
}
