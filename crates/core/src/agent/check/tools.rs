//! The tools of one agent: names, fields that fit the kind, argument schemas and confirmations.

use std::collections::BTreeMap;

use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::{Pointer, Problems, escape, limits::check_span, nearest};
use crate::{
    agent::{AgentDefinition, ConfirmationSpec, ToolKind, ToolSpec},
    awaits::ExpiryOutcome,
    ids::ToolName,
    time::Millis,
};

pub(super) fn check(agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    let mut seen = BTreeMap::new();
    for (index, tool) in agent.tools.iter().enumerate() {
        let at = at.field("tools").index(index);
        if let Err(error) = ToolName::parse(tool.name.as_str()) {
            problems.add(&at.field("name"), error);
        }
        if let Some(first) = seen.insert(&tool.name, index) {
            problems.add(
                &at.field("name"),
                format!(
                    "tool {:?} is already number {} of this list; remove one of them",
                    tool.name.as_str(),
                    first + 1
                ),
            );
        }
        check_tool(tool, agent, &at, problems);
    }
}

fn check_tool(tool: &ToolSpec, agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    check_agent_of(tool, agent, at, problems);
    check_waiting_of(tool, at, problems);
    check_caller_of(tool, at, problems);
    check_schema(tool, &at.field("inputSchema"), problems);
    check_tags(&tool.tags, &at.field("tags"), problems);
    check_span(tool.timeout_ms, &at.field("timeoutMs"), problems);
    if let Some(confirmation) = &tool.confirmation {
        let at = at.field("confirmation");
        check_expiry(confirmation.expires_in_ms, confirmation.on_expiry, &at, problems);
        check_prompt(confirmation, &tool.schema(), &at.field("prompt"), problems);
    }
}

fn check_agent_of(tool: &ToolSpec, agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    match (&tool.agent, tool.kind) {
        (None, ToolKind::Agent) => {
            problems.add(at, "a tool of kind agent must say which agent answers; add the field agent with its id");
        }
        (Some(id), ToolKind::Agent) if agent.sub_agent(id).is_none() => {
            let known = nearest(id.as_str(), agent.agents.iter().map(|sub| sub.id.as_str()));
            let advice = match known {
                Some(known) => format!("did you mean {known:?}?"),
                None => "define it in agents".to_owned(),
            };
            problems.add(&at.field("agent"), format!("this agent has no sub-agent {:?}; {advice}", id.as_str()));
        }
        (Some(_), ToolKind::Builtin | ToolKind::External) => {
            problems.add(
                &at.field("agent"),
                "only a tool of kind agent has an agent; remove this or set the kind to \"agent\"",
            );
        }
        _ => {}
    }
}

fn check_waiting_of(tool: &ToolSpec, at: &Pointer, problems: &mut Problems) {
    if tool.kind == ToolKind::External {
        if tool.timeout_ms.is_some() {
            problems.add(
                &at.field("timeoutMs"),
                "a tool of kind external has no timeout, it is waited for; say how long with expires_in",
            );
        }
        check_expiry(tool.expires_in_ms, tool.on_expiry, at, problems);
        return;
    }
    let given = [("expiresInMs", tool.expires_in_ms.is_some()), ("onExpiry", tool.on_expiry.is_some())];
    for (field, _) in given.into_iter().filter(|(_, given)| *given) {
        problems.add(
            &at.field(field),
            "only a tool of kind external is waited for; remove this or set the kind to \"external\"",
        );
    }
}

fn check_caller_of(tool: &ToolSpec, at: &Pointer, problems: &mut Problems) {
    if tool.client.is_some() && tool.kind != ToolKind::External {
        problems.add(
            &at.field("client"),
            "only a tool of kind external is the caller's own; remove this or set the kind to \"external\"",
        );
    }
    let given = [("readOnly", tool.read_only), ("retain", tool.retain)];
    for (field, _) in given.into_iter().filter(|(_, given)| *given && tool.client.is_none()) {
        problems
            .add(&at.field(field), "this is for the caller's own tools; remove it or say whose tool it is in client");
    }
}

fn check_expiry(expires_in: Option<Millis>, on_expiry: Option<ExpiryOutcome>, at: &Pointer, problems: &mut Problems) {
    check_span(expires_in, &at.field("expiresInMs"), problems);
    if on_expiry.is_some() && expires_in.is_none() {
        problems.add(&at.field("onExpiry"), "this never expires; say when with expires_in, or remove this");
    }
}

fn check_schema(tool: &ToolSpec, at: &Pointer, problems: &mut Problems) {
    let Some(schema) = &tool.input_schema else { return };
    let Value::Object(fields) = schema else {
        problems.add(at, "an input schema is an object; write for example {\"type\": \"object\"}");
        return;
    };
    match fields.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => problems.add(&at.field("type"), "arguments are always an object; the type must be \"object\""),
        None => problems.add(at, "arguments are always an object; add the type \"object\""),
    }
    match jsonschema::validator_for(schema) {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ValidationErrorKind::Referencing(_)) => {
            let place = Pointer(format!("{}{}", at.0, unresolved_ref(schema, schema).unwrap_or_default()));
            problems.add(&place, "a $ref must name a part of this schema, for example \"#/$defs/address\"");
        }
        Err(error) => {
            let place = Pointer(format!("{}{}", at.0, error.instance_path().as_str()));
            problems.add(&place, format!("this is not a valid JSON Schema: {error}"));
        }
    }
}

/// Where the first `$ref` stands that names no part of the schema; the error itself does not say.
fn unresolved_ref(root: &Value, part: &Value) -> Option<String> {
    match part {
        Value::Object(fields) => fields.iter().find_map(|(key, value)| match value {
            Value::String(target) if key == "$ref" => {
                let resolved = target.strip_prefix('#').is_some_and(|pointer| root.pointer(pointer).is_some());
                (!resolved).then(|| "/$ref".to_owned())
            }
            _ => unresolved_ref(root, value).map(|below| format!("/{}{below}", escape(key))),
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| unresolved_ref(root, item).map(|below| format!("/{index}{below}"))),
        _ => None,
    }
}

pub(super) fn check_tags(tags: &[String], at: &Pointer, problems: &mut Problems) {
    for (index, tag) in tags.iter().enumerate() {
        if tag.trim().is_empty() {
            problems.add(&at.index(index), "a tag is never empty; write a word or remove it");
        }
    }
}

/// A misspelt `{name}` would be shown to the person who decides, so it is refused here.
fn check_prompt(confirmation: &ConfirmationSpec, schema: &Value, at: &Pointer, problems: &mut Problems) {
    let prompt = confirmation.prompt.as_deref().unwrap_or_default();
    let declared: Vec<&str> = match schema.get("properties") {
        Some(Value::Object(properties)) => properties.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    for name in placeholders(prompt).filter(|name| !declared.contains(name)) {
        let advice = match nearest(name, declared.iter().copied()) {
            Some(known) => format!("did you mean {{{known}}}?"),
            None if declared.is_empty() => "declare it under properties of the input schema".to_owned(),
            None => format!("use one of {{{}}}", declared.join("}, {")),
        };
        problems.add(at, format!("{{{name}}} is not an argument of this tool; {advice}"));
    }
}

/// The names between braces; braces around anything but a name are text.
fn placeholders(prompt: &str) -> impl Iterator<Item = &str> {
    let is_name = |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    prompt.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).filter(is_name)
}
