//! What an agent is: its model, its prompt, its tools, its limits and its sub-agents.
//!
//! A definition is read from a file by [`file`], checked by [`check`], and stored by the digest of its canonical bytes
//! when a run starts, so that editing the file never changes a run that is under way. The workflow sees only the compact
//! [`ToolTable`].

mod check;
mod client;
pub mod file;
mod output;
pub mod overrides;
mod size;
mod table;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::{
    check::{Problem, check, check_policy, nearest},
    client::{ClientTool, HandOut},
    output::{Enforcement, OutputSchema},
    size::fits,
    table::{ToolDispatch, ToolEntry, ToolTable},
};
use crate::{
    awaits::ExpiryOutcome,
    envelope::{GuardOverrides, PolicyOverrides},
    ids::{AgentId, ToolName},
    time::Millis,
};

/// A complete agent definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDefinition {
    pub id: AgentId,
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// For example `script:demo`.
    pub model: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system_prompt: String,
    /// How hard the model is to think, from 0 (not at all) to 100; absent leaves it to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<u8>,
    /// What the final answer must look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: PolicyOverrides,
    #[serde(default, skip_serializing_if = "is_default")]
    pub guards: GuardOverrides,
    /// Agents that tools of kind `agent` may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentDefinition>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl AgentDefinition {
    pub fn tool(&self, name: &ToolName) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == *name)
    }

    pub fn sub_agent(&self, id: &AgentId) -> Option<&AgentDefinition> {
        self.agents.iter().find(|agent| agent.id == *id)
    }
}

/// A tool as an agent offers it to its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolSpec {
    pub name: ToolName,
    #[serde(default)]
    pub kind: ToolKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of the arguments; an object without declared properties when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// A repeat is harmless, so a lost call may be tried again.
    #[serde(default)]
    pub idempotent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<ConfirmationSpec>,
    /// For `agent`: which of the definition's agents answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// For `external`: how long to wait for the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<ExpiryOutcome>,
    /// For `external`: the tool is the caller's own, and this is how the caller knows it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientTool>,
    /// For the caller's own tools: a call changes nothing, so such calls are handed out together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
    /// For the caller's own tools: the result is worth keeping in the conversation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retain: bool,
    /// JSON Schema of the result, for the model's eyes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

impl ToolSpec {
    pub fn new(name: ToolName, kind: ToolKind) -> Self {
        Self {
            name,
            kind,
            description: String::new(),
            input_schema: None,
            tags: Vec::new(),
            timeout_ms: None,
            idempotent: false,
            confirmation: None,
            agent: None,
            expires_in_ms: None,
            on_expiry: None,
            client: None,
            read_only: false,
            retain: false,
            output_schema: None,
        }
    }

    /// The schema the model is shown and arguments are checked against.
    pub fn schema(&self) -> Value {
        self.input_schema.clone().unwrap_or_else(|| json!({"type": "object"}))
    }
}

/// Who executes a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// This worker, by the tool's name.
    #[default]
    Builtin,
    /// Another agent, as a child run.
    Agent,
    /// Somebody outside; the run waits for the result.
    External,
}

/// A person must approve the exact arguments first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
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
