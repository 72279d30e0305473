//! A tool as an agent offers it to its model: what every tool has, and where it comes from.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AgentDefinition, ClientTool, is_default};
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
}

fn builtin() -> String {
    SourceFields::BUILTIN.to_owned()
}

impl SourceFields {
    const BUILTIN: &'static str = "builtin";
    const AGENT: &'static str = "agent";
    const EXTERNAL: &'static str = "external";

    /// The fields that tools of a kind have, beside those of every tool.
    pub(super) const BY_FIELD: [(&'static str, &'static str); 5] = [
        ("agent", Self::AGENT),
        ("expiresInMs", Self::EXTERNAL),
        ("onExpiry", Self::EXTERNAL),
        ("client", Self::EXTERNAL),
        ("readOnly", Self::EXTERNAL),
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
        let tool = json!({"name": "find", "kind": "mcp", "server": {"url": "u"}, "idempotent": false, "agent": "x"});
        let read: ToolSpec = serde_json::from_value(tool.clone()).unwrap();
        assert!(matches!(&read.source, ToolSource::Other(fields) if fields.kind() == "mcp"));
        assert_eq!(serde_json::to_value(&read).unwrap(), tool);
    }
}
