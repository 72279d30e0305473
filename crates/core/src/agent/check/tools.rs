//! The tools of one agent: names, fields that fit the kind, argument schemas and confirmations.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Pointer, Problems, check_length, limits::check_span, nearest, servers};
use crate::{
    agent::{AgentDefinition, ClientTool, ConfirmationSpec, ToolSource, ToolSpec, Waiting},
    awaits::ExpiryOutcome,
    ids::{AgentId, ToolName},
    limits::{
        CARD_BYTES, CONFIRMATION_CHARS, DESCRIPTION_CHARS, SERVER_INFO_BYTES, TAG_CHARS, TAGS, TOOL_SCHEMA_BYTES,
    },
    time::Millis,
};

pub(super) fn check(agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    let mut seen = BTreeMap::new();
    for (index, tool) in agent.tools.iter().enumerate() {
        if problems.full() {
            return;
        }
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
    check_source(tool, agent, at, problems);
    check_schema(tool, &at.field("inputSchema"), problems);
    if let Some(schema) = &tool.output_schema {
        super::check_schema(schema, TOOL_SCHEMA_BYTES, &at.field("outputSchema"), problems);
    }
    check_length(&tool.description, DESCRIPTION_CHARS, &at.field("description"), problems);
    check_tags(&tool.tags, &at.field("tags"), problems);
    check_span(tool.timeout_ms, &at.field("timeoutMs"), problems);
    if let Some(confirmation) = &tool.confirmation {
        let at = at.field("confirmation");
        check_expiry(confirmation.expires_in_ms, confirmation.on_expiry, &at, problems);
        let title = confirmation.title.as_deref().unwrap_or_default();
        check_length(title, CONFIRMATION_CHARS, &at.field("title"), problems);
        check_prompt(confirmation, &tool.schema(), &at.field("prompt"), problems);
    }
}

fn check_source(tool: &ToolSpec, agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    match &tool.source {
        ToolSource::Builtin | ToolSource::Other(_) => {}
        ToolSource::Http(http) => servers::check_http(http, tool, &at.field("http"), problems),
        ToolSource::Mcp(mcp) => servers::check_mcp(mcp, agent, &at.field("mcp"), problems),
        ToolSource::A2a(a2a) => servers::check_a2a(a2a, &at.field("a2a"), problems),
        ToolSource::Temporal(temporal) => servers::check_temporal(temporal, &at.field("temporal"), problems),
        ToolSource::Agent { agent: id } => check_agent_of(id, agent, at, problems),
        ToolSource::Client { tool: client, wait, .. } => {
            check_client(client, &at.field("client"), problems);
            check_waiting(tool, *wait, at, problems);
        }
        ToolSource::External { wait } => check_waiting(tool, *wait, at, problems),
    }
}

fn check_agent_of(id: &AgentId, agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    if id.is_empty() {
        problems.add(at, "a tool of kind agent must say which agent answers; add the field agent with its id");
    } else if agent.sub_agent(id).is_none() {
        let known = nearest(id.as_str(), agent.agents.iter().map(|sub| sub.id.as_str()));
        let advice = match known {
            Some(known) => format!("did you mean {known:?}?"),
            None => "define it in agents".to_owned(),
        };
        problems.add(&at.field("agent"), format!("this agent has no sub-agent {:?}; {advice}", id.as_str()));
    }
}

fn check_waiting(tool: &ToolSpec, wait: Waiting, at: &Pointer, problems: &mut Problems) {
    if tool.timeout_ms.is_some() {
        problems.add(
            &at.field("timeoutMs"),
            "a tool of kind external has no timeout, it is waited for; say how long with expires_in",
        );
    }
    check_expiry(wait.expires_in_ms, wait.on_expiry, at, problems);
}

fn check_client(client: &ClientTool, at: &Pointer, problems: &mut Problems) {
    let (field, value, most) = match client {
        ClientTool::A2aLocal { agent_card } => ("agentCard", agent_card, CARD_BYTES),
        ClientTool::McpLocal { server_info: Some(info), .. } => ("serverInfo", info, SERVER_INFO_BYTES),
        ClientTool::McpLocal { server_info: None, .. } | ClientTool::Local {} => return,
    };
    let bytes = value.to_string().len();
    if bytes > most {
        problems.add(&at.field(field), format!("this is {bytes} bytes of JSON; write at most {most}"));
    }
}

pub(crate) fn check_expiry(
    expires_in: Option<Millis>,
    on_expiry: Option<ExpiryOutcome>,
    at: &Pointer,
    problems: &mut Problems,
) {
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
    super::check_schema(schema, TOOL_SCHEMA_BYTES, at, problems);
}

pub(crate) fn check_tags(tags: &[String], at: &Pointer, problems: &mut Problems) {
    if tags.len() > TAGS {
        problems.add(at, format!("{} tags are too many; keep at most {TAGS}", tags.len()));
        return;
    }
    for (index, tag) in tags.iter().enumerate() {
        check_length(tag, TAG_CHARS, &at.index(index), problems);
        if tag.trim().is_empty() {
            problems.add(&at.index(index), "a tag is never empty; write a word or remove it");
        }
    }
}

/// A misspelt `{name}` would be shown to the person who decides, so it is refused here.
fn check_prompt(confirmation: &ConfirmationSpec, schema: &Value, at: &Pointer, problems: &mut Problems) {
    let prompt = confirmation.prompt.as_deref().unwrap_or_default();
    check_length(prompt, CONFIRMATION_CHARS, at, problems);
    let declared: Vec<&str> = match schema.get("properties") {
        Some(Value::Object(properties)) => properties.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    for name in placeholders(prompt).filter(|name| !declared.contains(name)) {
        if problems.full() {
            return;
        }
        let advice = match nearest(name, declared.iter().copied()) {
            Some(known) => format!("did you mean {{{known}}}?"),
            None if declared.is_empty() => "declare it under properties of the input schema".to_owned(),
            None => format!("use one of {{{}}}", declared.join("}, {")),
        };
        problems.add(at, format!("{{{name}}} is not an argument of this tool; {advice}"));
    }
}

/// The names between braces; braces around anything but a name are text.
pub(super) fn placeholders(prompt: &str) -> impl Iterator<Item = &str> {
    let is_name = |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    prompt.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).filter(is_name)
}
