//! The tools of a spec: seven kinds of references.
//!
//! Three are executed by the caller (`local`, `a2a_local`, `mcp_local`) and become tools a run waits for. `mantyx` and
//! `mantyx_plugin` name tools of this server. `mcp` and `a2a` are reached by the worker; the tools of an MCP server are
//! listed when the run opens.

mod a2a;
mod local;
mod mcp;
mod remote;

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_core::{
    agent::{ClientTool, ToolSource, ToolSpec, Toolset, Waiting, nearest},
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
    /// A tool of this server, by the name `@slug/tool`.
    Plugin {
        path: String,
        slug: String,
        tool: String,
    },
    Mcp {
        path: String,
        server: Box<Toolset>,
    },
    A2a {
        path: String,
        peer: Box<ToolSpec>,
    },
}

/// What resolving a reference needs.
#[derive(Debug, Clone, Copy)]
pub struct Toolbox<'a> {
    /// The tools that this server has: built-in and configured ones.
    pub builtins: &'a [ToolSpec],
    /// The timeout of a local tool call.
    pub local_tool_timeout: Millis,
}

impl Toolbox<'_> {
    /// The names of this server's tools, for an error.
    fn known(&self) -> String {
        let known: Vec<&str> = self.builtins.iter().map(|tool| tool.name.as_str()).collect();
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    }
}

pub(super) fn parse(fields: &Fields<'_>) -> Result<Option<Vec<ToolRef>>, Invalid> {
    let Some(items) = fields.bounded_list("tools", TOOLS)? else { return Ok(None) };
    items.into_iter().map(|(path, item)| tool_ref(&path, item)).collect::<Result<_, _>>().map(Some)
}

fn tool_ref(path: &str, item: &Value) -> Result<ToolRef, Invalid> {
    let item = Fields::at(path, item)?;
    match item.required_text("kind")? {
        "local" => local::parse(&item).map(ToolRef::Local),
        "a2a_local" => a2a::parse_local(&item).map(ToolRef::A2aLocal),
        "mcp_local" => mcp::parse_local(&item).map(ToolRef::McpLocal),
        "mantyx" => Ok(ToolRef::Mantyx { path: path.to_owned(), id: item.required_text("id")?.to_owned() }),
        "mantyx_plugin" => {
            let name = item.required_text("name")?;
            match name.strip_prefix('@').and_then(|name| name.split_once('/')) {
                Some((slug, tool)) if !slug.is_empty() && !tool.is_empty() => {
                    let path = format!("{path}.name");
                    Ok(ToolRef::Plugin { path, slug: slug.to_owned(), tool: tool.to_owned() })
                }
                _ => Err(item.invalid("name", "must be of the form @slug/tool")),
            }
        }
        "a2a" => Ok(ToolRef::A2a { path: item.path_of("name"), peer: Box::new(remote::peer(&item)?) }),
        "mcp" => Ok(ToolRef::Mcp { path: item.path_of("name"), server: Box::new(remote::server(&item)?) }),
        _ => Err(item.invalid(
            "kind",
            "must be \"local\", \"a2a_local\", \"mcp_local\", \"mantyx\", \"mantyx_plugin\", \"a2a\" or \"mcp\"",
        )),
    }
}

/// Resolves references into tools and toolsets. Names must be unique. A configured agent has
/// its own server tools; a reference to one of those only names it.
pub(super) fn resolve(
    refs: &[ToolRef],
    toolbox: Toolbox<'_>,
    configured: bool,
) -> Result<(Vec<ToolSpec>, Vec<Toolset>), Invalid> {
    let mut specs: Vec<ToolSpec> = Vec::new();
    let mut names = HashSet::new();
    let mut toolsets: Vec<Toolset> = Vec::new();
    for reference in refs {
        if let ToolRef::Mcp { path, server } = reference {
            if toolsets.iter().any(|known| known.name == server.name) {
                let problem = format!("there are two MCP servers named {:?}; rename one", server.name);
                return Err(Invalid::new(path.clone(), problem));
            }
            toolsets.push((**server).clone());
            continue;
        }
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
    Ok((specs, toolsets))
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
                    let problem = match nearest(id, toolbox.builtins.iter().map(|tool| tool.name.as_str())) {
                        Some(meant) => format!("this server has no such tool; did you mean {meant}?"),
                        None => format!("this server has no such tool; it has: {}", toolbox.known()),
                    };
                    Invalid::new(format!("{path}.id"), problem)
                })
            }
            Self::Plugin { path, slug, tool } => {
                // Names of tools have no @ and no /.
                let names = [format!("{slug}_{tool}"), format!("{slug}.{tool}")];
                let found = toolbox.builtins.iter().find(|spec| names.iter().any(|name| *name == spec.name.as_str()));
                found.map(|spec| vec![(path.clone(), spec.clone())]).ok_or_else(|| {
                    let [one, other] = &names;
                    let known = toolbox.known();
                    let problem = format!("this server has neither a tool {one} nor a tool {other}; it has: {known}");
                    Invalid::new(path.clone(), problem)
                })
            }
            Self::A2a { path, peer } => Ok(vec![(path.clone(), (**peer).clone())]),
            Self::Mcp { .. } => Ok(Vec::new()),
        }
    }
}

/// The arguments of a tool that is another agent.
fn message_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What to ask the peer, in plain text."}},
        "required": ["message"],
    })
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
