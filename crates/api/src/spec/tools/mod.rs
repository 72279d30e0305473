//! The tools of a spec: seven kinds of references.
//!
//! Three are executed by the caller (`local`, `a2a_local`, `mcp_local`) and become tools a run waits for. `mantyx` names a
//! tool of this server. The other three would be executed by the server, which this server does not support.

mod a2a;
mod local;
mod mcp;

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_core::{
    agent::{ClientTool, ToolSource, ToolSpec, Waiting},
    awaits::ExpiryOutcome,
    ids::ToolName,
    limits::{TOOL_HEADER_BYTES, TOOL_HEADERS, TOOL_SCHEMA_BYTES, TOOLS},
    schema::check_usable,
    time::Millis,
};

use super::{
    Invalid,
    fields::{Fields, is_word},
};

/// A parsed tool reference.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ToolRef {
    Local(local::LocalTool),
    A2aLocal(a2a::LocalPeer),
    McpLocal(mcp::LocalServer),
    /// A tool of this server, by its id.
    Mantyx {
        path: String,
        id: String,
    },
    /// A kind this server does not execute.
    Elsewhere {
        path: String,
        kind: &'static str,
    },
}

/// What resolving a reference needs.
#[derive(Debug, Clone, Copy)]
pub struct Toolbox<'a> {
    /// The tools this server executes.
    pub builtins: &'a [ToolSpec],
    /// The timeout of a local tool call.
    pub local_tool_timeout: Millis,
}

pub(super) fn parse(fields: &Fields<'_>) -> Result<Option<Vec<ToolRef>>, Invalid> {
    let Some(items) = fields.bounded_list("tools", TOOLS)? else { return Ok(None) };
    items.into_iter().map(|(path, item)| tool_ref(&path, item)).collect::<Result<_, _>>().map(Some)
}

fn tool_ref(path: &str, item: &Value) -> Result<ToolRef, Invalid> {
    let item = Fields::at(path, item)?;
    let elsewhere = |kind| Ok(ToolRef::Elsewhere { path: path.to_owned(), kind });
    match item.required_text("kind")? {
        "local" => local::parse(&item).map(ToolRef::Local),
        "a2a_local" => a2a::parse_local(&item).map(ToolRef::A2aLocal),
        "mcp_local" => mcp::parse_local(&item).map(ToolRef::McpLocal),
        "mantyx" => Ok(ToolRef::Mantyx { path: path.to_owned(), id: item.required_text("id")?.to_owned() }),
        "mantyx_plugin" => {
            let name = item.required_text("name")?;
            let slugged = name.strip_prefix('@').and_then(|name| name.split_once('/'));
            if slugged.is_none_or(|(slug, tool)| slug.is_empty() || tool.is_empty()) {
                return Err(item.invalid("name", "must be of the form @slug/tool"));
            }
            elsewhere("mantyx_plugin")
        }
        "a2a" => {
            a2a::check_remote(&item)?;
            elsewhere("a2a")
        }
        "mcp" => {
            mcp::check_remote(&item)?;
            elsewhere("mcp")
        }
        _ => Err(item.invalid(
            "kind",
            "must be \"local\", \"a2a_local\", \"mcp_local\", \"mantyx\", \"mantyx_plugin\", \"a2a\" or \"mcp\"",
        )),
    }
}

/// Resolves references into tools. Names must be unique. A configured agent has
/// its own server tools; a reference to one of those only names it.
pub(super) fn resolve(refs: &[ToolRef], toolbox: Toolbox<'_>, configured: bool) -> Result<Vec<ToolSpec>, Invalid> {
    let mut specs: Vec<ToolSpec> = Vec::new();
    let mut names = HashSet::new();
    for reference in refs {
        for (path, spec) in reference.specs(toolbox, configured)? {
            if !names.insert(spec.name.clone()) {
                return Err(Invalid::new(
                    path,
                    format!("there are two tools named {:?}; rename one", spec.name.as_str()),
                ));
            }
            if specs.len() == TOOLS {
                return Err(Invalid::new("tools", format!("there are more than {TOOLS}, with those of MCP servers")));
            }
            specs.push(spec);
        }
    }
    Ok(specs)
}

impl ToolRef {
    /// The tools of the reference, each with the path of its name.
    fn specs(&self, toolbox: Toolbox<'_>, configured: bool) -> Result<Vec<(String, ToolSpec)>, Invalid> {
        let timeout = toolbox.local_tool_timeout;
        match self {
            Self::Local(tool) => Ok(vec![tool.spec(timeout)]),
            Self::A2aLocal(peer) => Ok(vec![peer.spec(timeout)]),
            Self::McpLocal(server) => Ok(server.specs(timeout)),
            Self::Mantyx { path, id } if configured => {
                let name =
                    ToolName::parse(id).map_err(|problem| Invalid::new(format!("{path}.id"), problem.to_string()))?;
                Ok(vec![(format!("{path}.id"), ToolSpec::new(name, ToolSource::Builtin))])
            }
            Self::Mantyx { path, id } => {
                let builtin = toolbox.builtins.iter().find(|tool| tool.name.as_str() == id);
                builtin.map(|tool| vec![(format!("{path}.id"), tool.clone())]).ok_or_else(|| {
                    let known: Vec<&str> = toolbox.builtins.iter().map(|tool| tool.name.as_str()).collect();
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    Invalid::new(format!("{path}.id"), format!("this server has no such tool; it has: {known}"))
                })
            }
            Self::Elsewhere { path, kind } => Err(Invalid::new(
                format!("{path}.kind"),
                format!(
                    "tools of kind \"{kind}\" are not available on this server; use \"local\", \"a2a_local\" or \"mcp_local\""
                ),
            )),
        }
    }
}

/// A name as the protocol allows it for most kinds.
fn plain_name<'a>(item: &Fields<'a>, key: &str) -> Result<&'a str, Invalid> {
    let name = item.required_text(key)?;
    if is_word(name, 64, "_") {
        return Ok(name);
    }
    Err(item.invalid(key, "must have 1 to 64 characters of A-Z a-z 0-9 _"))
}

/// A tool that the caller executes. A call that times out ends the run.
fn callers_tool(name: &str, tool: ClientTool, read_only: bool, timeout: Millis) -> ToolSpec {
    let wait = Waiting { expires_in_ms: Some(timeout), on_expiry: Some(ExpiryOutcome::Fail) };
    ToolSpec::new(ToolName::new(name), ToolSource::Client { tool, read_only, wait })
}

/// The schema of a tool's arguments. It must be one of an object, because arguments are.
fn arguments_schema(item: &Fields<'_>, key: &str) -> Result<Value, Invalid> {
    let Some(given) = item.get(key) else { return Ok(json!({"type": "object", "properties": {}})) };
    let Value::Object(fields) = given else {
        return Err(item.invalid(key, "must be a JSON Schema, an object"));
    };
    if !is_object_type(fields.get("type")) {
        return Err(item.invalid(key, "arguments are always an object; its type must be \"object\""));
    }
    check_schema(item, key, given, TOOL_SCHEMA_BYTES)?;
    let mut schema = given.clone();
    schema["type"] = json!("object");
    Ok(schema)
}

/// Adds `type: object` if it is absent, because providers and validators require it.
fn is_object_type(kind: Option<&Value>) -> bool {
    match kind {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
        None => true,
    }
}

/// Refuses a schema that values cannot be checked against, before a model is called.
pub(super) fn check_schema(item: &Fields<'_>, key: &str, schema: &Value, most: usize) -> Result<(), Invalid> {
    check_usable(schema, most).map_err(|problem| item.invalid(key, format!("is not a usable JSON Schema: {problem}")))
}

/// Checks the headers of a server reference.
fn check_headers(item: &Fields<'_>) -> Result<(), Invalid> {
    let Some(headers) = item.object("headers")? else { return Ok(()) };
    if headers.len() > TOOL_HEADERS {
        return Err(item.invalid("headers", format!("has {} entries; send at most {TOOL_HEADERS}", headers.len())));
    }
    for (name, value) in headers.entries() {
        match value.as_str() {
            Some(value) if value.len() <= TOOL_HEADER_BYTES => {}
            Some(_) => return Err(headers.invalid(name, format!("must have at most {TOOL_HEADER_BYTES} bytes"))),
            None => return Err(headers.invalid(name, "must be a string")),
        }
    }
    Ok(())
}
