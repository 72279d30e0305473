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
mod parameters;
mod size;
mod table;
mod tool;

use serde::{Deserialize, Serialize};

pub use self::{
    check::{Problem, check, check_policy, check_sources, nearest},
    client::{ClientTool, HandOut},
    output::{Enforcement, OutputSchema},
    parameters::ModelParameters,
    size::fits,
    table::{ToolDispatch, ToolEntry, ToolTable},
    tool::{ConfirmationSpec, SourceFields, ToolSource, ToolSpec, Waiting},
};
use crate::{
    envelope::{Extra, GuardOverrides, PolicyOverrides},
    ids::AgentId,
    secret::SecretRef,
};

/// A complete agent definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub parameters: ModelParameters,
    /// The key for the model's provider, instead of the one that the worker is configured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: PolicyOverrides,
    #[serde(default, skip_serializing_if = "is_default")]
    pub guards: GuardOverrides,
    /// Agents that tools of kind `agent` may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentDefinition>,
    /// Fields this build does not know. A definition is addressed by its content, so they must survive.
    #[serde(flatten)]
    pub extra: Extra,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl AgentDefinition {
    pub fn sub_agent(&self, id: &AgentId) -> Option<&AgentDefinition> {
        self.agents.iter().find(|agent| agent.id == *id)
    }
}
