//! `mcp_local`: the tools of an MCP server that the caller reaches.

use serde_json::Value;
use windlass_core::{
    agent::{ClientTool, ToolSpec},
    limits::{DESCRIPTION_CHARS, SERVER_INFO_BYTES, SERVER_TOOLS, TOOL_NAME_CHARS},
    time::Millis,
};

use super::{Fields, Invalid, arguments_schema, callers_tool, plain_name};
use crate::spec::fields::is_word;

/// MCP servers use more characters than the protocol allows elsewhere, and clients pass the names on as they are.
const NAME_CHARS: &str = "_.-/";

#[derive(Debug, Clone, PartialEq)]
pub(in crate::spec) struct LocalServer {
    /// The caller's name for the server.
    label: String,
    info: Option<Value>,
    tools: Vec<ServerTool>,
}

#[derive(Debug, Clone, PartialEq)]
struct ServerTool {
    path: String,
    name: String,
    description: String,
    input_schema: Value,
    read_only: bool,
}

pub(super) fn parse_local(item: &Fields<'_>) -> Result<LocalServer, Invalid> {
    let label = plain_name(item, "name")?.to_owned();
    // Every tool of the server carries it.
    item.bounded_object("serverInfo", SERVER_INFO_BYTES)?;
    let info = item.get("serverInfo").cloned();
    let listed = item.list("tools")?.unwrap_or_default();
    if !(1..=SERVER_TOOLS).contains(&listed.len()) {
        return Err(item.invalid("tools", format!("has {} tools; send 1 to {SERVER_TOOLS}", listed.len())));
    }
    let tools =
        listed.into_iter().map(|(path, tool)| server_tool(&Fields::at(&path, tool)?)).collect::<Result<_, _>>()?;
    Ok(LocalServer { label, info, tools })
}

fn server_tool(tool: &Fields<'_>) -> Result<ServerTool, Invalid> {
    let name = tool.required_text("name")?;
    if !is_word(name, TOOL_NAME_CHARS, NAME_CHARS) {
        return Err(tool.invalid("name", format!("must have 1 to {TOOL_NAME_CHARS} characters of A-Z a-z 0-9 _ . - /")));
    }
    let input_schema = arguments_schema(tool, "inputSchema")?;
    let hint = |annotations: Fields<'_>| annotations.get("readOnlyHint") == Some(&Value::Bool(true));
    Ok(ServerTool {
        path: tool.path_of("name"),
        name: name.to_owned(),
        description: tool.bounded_text("description", DESCRIPTION_CHARS)?.unwrap_or_default().to_owned(),
        input_schema,
        read_only: tool.object("annotations")?.is_some_and(hint),
    })
}

impl LocalServer {
    pub(super) fn specs(&self, timeout: Millis) -> Vec<(String, ToolSpec)> {
        let specs = self.tools.iter().map(|tool| {
            let client = ClientTool::McpLocal {
                server: self.label.clone(),
                server_info: self.info.clone(),
                tool_name: tool.name.clone(),
            };
            let mut spec = callers_tool(&tool.name, client, tool.read_only, timeout);
            spec.description.clone_from(&tool.description);
            spec.input_schema = Some(tool.input_schema.clone());
            (tool.path.clone(), spec)
        });
        specs.collect()
    }
}
