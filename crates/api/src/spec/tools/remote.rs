//! `mcp` and `a2a`: a server and a peer that the worker reaches.

use std::collections::BTreeMap;

use windlass_core::{
    agent::{A2aSource, HttpAccess, McpServer, ToolSource, ToolSpec, Toolset},
    ids::ToolName,
    limits::{DESCRIPTION_CHARS, TOOL_HEADERS},
    secret::SecretText,
};

use super::{Fields, Invalid, check_headers, plain_name};

pub(super) fn server(item: &Fields<'_>) -> Result<Toolset, Invalid> {
    let name = plain_name(item, "name")?.to_owned();
    let url = url(item, "url")?;
    let mut only = Vec::new();
    for (path, tool) in item.bounded_list("toolFilter", TOOL_HEADERS)?.unwrap_or_default() {
        match tool.as_str() {
            Some(tool) => only.push(tool.to_owned()),
            None => return Err(Invalid::new(path, "must be a string")),
        }
    }
    let mcp = McpServer { server: None, url: Some(url), access: access(item)? };
    Ok(Toolset { name, mcp: Some(mcp), only, ..Toolset::default() })
}

pub(super) fn peer(item: &Fields<'_>) -> Result<ToolSpec, Invalid> {
    let name = plain_name(item, "name")?;
    let agent_card_url = url(item, "agentCardUrl")?;
    let context_id = item.bounded_text("contextId", 256)?.filter(|id| !id.is_empty()).map(str::to_owned);
    let description = match item.bounded_text("description", DESCRIPTION_CHARS)? {
        Some(said) if !said.is_empty() => said.to_owned(),
        _ => format!("Delegate a task to {name}"),
    };
    let source = A2aSource { agent_card_url, context_id, binding: None, access: access(item)? };
    Ok(ToolSpec {
        description,
        input_schema: Some(super::message_schema()),
        ..ToolSpec::new(ToolName::new(name), ToolSource::A2a(Box::new(source)))
    })
}

fn url(item: &Fields<'_>, key: &str) -> Result<String, Invalid> {
    let url = item.required_text(key)?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        Some(host) if !host.is_empty() && !host.contains('@') && url.len() <= 4096 => Ok(url.to_owned()),
        // It may hold a password, so it is not repeated.
        _ => Err(item.invalid(key, "must be an address that begins with https:// or http://, without a password")),
    }
}

/// The headers. Values are references to secrets once the request was split.
fn access(item: &Fields<'_>) -> Result<HttpAccess, Invalid> {
    check_headers(item)?;
    let mut headers = BTreeMap::new();
    for (name, value) in item.object("headers")?.iter().flat_map(Fields::entries) {
        headers.insert(name.clone(), SecretText::new(value.as_str().unwrap_or_default()));
    }
    Ok(HttpAccess { headers, ..HttpAccess::default() })
}
