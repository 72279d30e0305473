//! A tool as an agent offers it to its model: what every tool has, and where it comes from.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{A2aSource, AgentDefinition, ClientTool, HttpSource, McpSource, TemporalSource, is_default};
use crate::{
    awaits::ExpiryOutcome,
    envelope::Extra,
    ids::{AgentId, ToolName},
    time::Millis,
};

/// A tool as an agent offers it to its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    pub name: ToolName,
    #[serde(flatten)]
    pub source: ToolSource,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of the arguments; an object without declared properties when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JSON Schema of the structured result. A result of a tool that this worker executes must satisfy it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// A repeat is harmless, so a lost call may be tried again.
    #[serde(default)]
    pub idempotent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<ConfirmationSpec>,
    /// The model gets the beginning of a longer result; the whole is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// Fields this build does not know. A definition is addressed by its content, so they must survive.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolSpec {
    pub fn new(name: ToolName, source: ToolSource) -> Self {
        Self {
            name,
            source,
            description: String::new(),
            input_schema: None,
            output_schema: None,
            tags: Vec::new(),
            timeout_ms: None,
            idempotent: false,
            confirmation: None,
            max_output_bytes: None,
            extra: Extra::new(),
        }
    }

    /// The schema the model is shown and arguments are checked against.
    pub fn schema(&self) -> Value {
        self.input_schema.clone().unwrap_or_else(|| json!({"type": "object"}))
    }
}

/// Where a tool comes from: who executes it, and what that needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "SourceFields", into = "SourceFields")]
pub enum ToolSource {
    /// The worker, by the tool's name.
    Builtin,
    /// Another agent, as a child run.
    Agent { agent: AgentId },
    /// The caller of the run.
    Client {
        tool: ClientTool,
        /// A call changes nothing, so such calls are handed out together.
        read_only: bool,
        wait: Waiting,
    },
    /// A system or a person outside; the run waits for the result.
    External { wait: Waiting },
    /// An HTTP endpoint.
    Http(Box<HttpSource>),
    /// A tool of an MCP server.
    Mcp(McpSource),
    /// Another agent, by A2A.
    A2a(Box<A2aSource>),
    /// An activity or a workflow on any task queue.
    Temporal(Box<TemporalSource>),
    /// A kind that this build does not know. Its calls fail here; a newer worker executes them.
    Other(Box<SourceFields>),
}

/// How long a run waits for a result from outside, and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    pub expires_in_ms: Option<Millis>,
    pub on_expiry: Option<ExpiryOutcome>,
}

impl ToolSource {
    /// The kind, as definitions write it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Builtin => SourceFields::BUILTIN,
            Self::Agent { .. } => SourceFields::AGENT,
            Self::Client { .. } | Self::External { .. } => SourceFields::EXTERNAL,
            Self::Http(_) => SourceFields::HTTP,
            Self::Mcp(_) => SourceFields::MCP,
            Self::A2a(_) => SourceFields::A2A,
            Self::Temporal(_) => SourceFields::TEMPORAL,
            Self::Other(fields) => fields.kind(),
        }
    }

    /// The caller's own tool, if it is one.
    pub fn client(&self) -> Option<&ClientTool> {
        match self {
            Self::Client { tool, .. } => Some(tool),
            _ => None,
        }
    }
}

/// A source as definitions are written: its kind and its fields beside those of the tool. A caller's own tool is an
/// external one with `client`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceFields {
    #[serde(default = "builtin")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_expiry: Option<ExpiryOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<ClientTool>,
    #[serde(skip_serializing_if = "is_default")]
    read_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<Box<HttpSource>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp: Option<McpSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    a2a: Option<Box<A2aSource>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temporal: Option<Box<TemporalSource>>,
}

fn builtin() -> String {
    SourceFields::BUILTIN.to_owned()
}

impl SourceFields {
    const BUILTIN: &'static str = "builtin";
    const AGENT: &'static str = "agent";
    const EXTERNAL: &'static str = "external";
    const HTTP: &'static str = "http";
    const MCP: &'static str = "mcp";
    const A2A: &'static str = "a2a";
    const TEMPORAL: &'static str = "temporal";

    /// The kinds that this build knows.
    pub(crate) const KINDS: [&'static str; 7] =
        [Self::BUILTIN, Self::AGENT, Self::EXTERNAL, Self::HTTP, Self::MCP, Self::A2A, Self::TEMPORAL];

    /// The fields that tools of a kind have, beside those of every tool.
    pub(super) const BY_FIELD: [(&'static str, &'static str); 9] = [
        ("agent", Self::AGENT),
        ("expiresInMs", Self::EXTERNAL),
        ("onExpiry", Self::EXTERNAL),
        ("client", Self::EXTERNAL),
        ("readOnly", Self::EXTERNAL),
        ("http", Self::HTTP),
        ("mcp", Self::MCP),
        ("a2a", Self::A2A),
        ("temporal", Self::TEMPORAL),
    ];

    pub fn kind(&self) -> &str {
        &self.kind
    }
}

impl From<SourceFields> for ToolSource {
    fn from(fields: SourceFields) -> Self {
        let wait = Waiting { expires_in_ms: fields.expires_in_ms, on_expiry: fields.on_expiry };
        match (fields.kind.as_str(), &fields) {
            (SourceFields::BUILTIN, _) => Self::Builtin,
            // `check` refuses a tool without its agent.
            (SourceFields::AGENT, _) => Self::Agent { agent: fields.agent.unwrap_or_default() },
            (SourceFields::EXTERNAL, SourceFields { client: Some(tool), read_only, .. }) => {
                Self::Client { tool: tool.clone(), read_only: *read_only, wait }
            }
            (SourceFields::EXTERNAL, _) => Self::External { wait },
            // `check` refuses a tool without the fields of its kind.
            (SourceFields::HTTP, _) => Self::Http(fields.http.unwrap_or_default()),
            (SourceFields::MCP, _) => Self::Mcp(fields.mcp.unwrap_or_default()),
            (SourceFields::A2A, _) => Self::A2a(fields.a2a.unwrap_or_default()),
            (SourceFields::TEMPORAL, _) => Self::Temporal(fields.temporal.unwrap_or_default()),
            _ => Self::Other(Box::new(fields)),
        }
    }
}

impl From<ToolSource> for SourceFields {
    fn from(source: ToolSource) -> Self {
        let of_kind = |kind: &str| Self { kind: kind.to_owned(), ..Self::default() };
        let waited = |wait: Waiting| Self {
            expires_in_ms: wait.expires_in_ms,
            on_expiry: wait.on_expiry,
            ..of_kind(Self::EXTERNAL)
        };
        match source {
            ToolSource::Builtin => of_kind(Self::BUILTIN),
            ToolSource::Agent { agent } => Self { agent: Some(agent), ..of_kind(Self::AGENT) },
            ToolSource::Client { tool, read_only, wait } => Self { client: Some(tool), read_only, ..waited(wait) },
            ToolSource::External { wait } => waited(wait),
            ToolSource::Http(http) => Self { http: Some(http), ..of_kind(Self::HTTP) },
            ToolSource::Mcp(mcp) => Self { mcp: Some(mcp), ..of_kind(Self::MCP) },
            ToolSource::A2a(a2a) => Self { a2a: Some(a2a), ..of_kind(Self::A2A) },
            ToolSource::Temporal(temporal) => Self { temporal: Some(temporal), ..of_kind(Self::TEMPORAL) },
            ToolSource::Other(fields) => *fields,
        }
    }
}

/// A person must approve the exact arguments first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfirmationSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Shown to the person; `{name}` stands for a top-level argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<ExpiryOutcome>,
    /// The starter of the run may not approve.
    #[serde(skip_serializing_if = "is_default")]
    pub four_eyes: bool,
}

impl AgentDefinition {
    pub fn tool(&self, name: &ToolName) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_written_beside_the_fields_of_its_tool() {
        let tools = json!([
            {"name": "clock", "kind": "builtin", "idempotent": true},
            {"name": "ask", "kind": "agent", "agent": "helper", "idempotent": false},
            {"name": "sign", "kind": "external", "expiresInMs": 5, "onExpiry": "deny", "idempotent": false},
            {"name": "open", "kind": "external", "expiresInMs": 5, "client": {"kind": "local"}, "readOnly": true, "idempotent": false},
        ]);
        let wait = Waiting { expires_in_ms: Some(Millis(5)), on_expiry: None };
        let read: Vec<ToolSpec> = serde_json::from_value(tools.clone()).unwrap();
        assert_eq!(
            read.iter().map(|tool| &tool.source).collect::<Vec<_>>(),
            [
                &ToolSource::Builtin,
                &ToolSource::Agent { agent: "helper".into() },
                &ToolSource::External { wait: Waiting { on_expiry: Some(ExpiryOutcome::Deny), ..wait } },
                &ToolSource::Client { tool: ClientTool::Local {}, read_only: true, wait },
            ]
        );
        assert_eq!(serde_json::to_value(&read).unwrap(), tools);
    }

    #[test]
    fn a_tool_of_a_newer_build_survives_a_round_trip() {
        let tool = json!({"name": "find", "kind": "soap", "server": {"url": "u"}, "idempotent": false, "agent": "x"});
        let read: ToolSpec = serde_json::from_value(tool.clone()).unwrap();
        assert!(matches!(&read.source, ToolSource::Other(fields) if fields.kind() == "soap"));
        assert_eq!(serde_json::to_value(&read).unwrap(), tool);
    }
}
