//! What an agent is: its model, its prompt, its tools, its limits and its sub-agents.
//!
//! A definition is read from a file by [`file`], checked by [`check`], and stored by the digest of its canonical bytes
//! when a run starts, so that editing the file never changes a run that is under way. The workflow sees only the compact
//! [`ToolTable`].

mod builtins;
pub(crate) mod check;
mod client;
pub mod file;
mod output;
pub mod overrides;
mod parameters;
mod reasoning;
mod size;
mod source;
mod table;
mod tool;
mod toolset;

use serde::{Deserialize, Serialize};

pub use self::{
    builtins::MissingBuiltin,
    check::{Problem, check, check_policy, check_sources, nearest},
    client::{ClientTool, HandOut},
    output::{Enforcement, OutputSchema},
    parameters::ModelParameters,
    reasoning::{Effort, ReasoningDecay},
    size::fits,
    source::{A2aSource, HttpAccess, HttpSource, McpSource, OAuthClient, TemporalRetry, TemporalSource},
    table::{ToolDispatch, ToolEntry, ToolTable},
    tool::{ConfirmationSpec, SourceFields, ToolSource, ToolSpec, Waiting},
    toolset::{McpServer, OpenApiSource, ResolvedToolset, Toolset, matches},
};
use crate::{
    approval::ApprovalRule,
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
    /// `<provider>:<model>`, for example `script:demo`, or an alias of the config.
    pub model: String,
    /// Models that are asked, in this order, when the provider of the one before does not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system_prompt: String,
    /// How hard the model is to think, from 0 (not at all) to 100; absent leaves it to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<u8>,
    /// How the reasoning level falls from turn to turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_decay: Option<ReasoningDecay>,
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
    /// Servers whose tools become the agent's when a run opens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub toolsets: Vec<Toolset>,
    /// Which calls run, which are asked for and which are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalRule>,
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
    /// How hard the model is to think in this turn of the run.
    pub fn reasoning_level_at(&self, turn: u32) -> Option<u8> {
        let level = self.reasoning_level?;
        Some(self.reasoning_decay.map_or(level, |decay| decay.apply(level, turn)))
    }

    pub fn sub_agent(&self, id: &AgentId) -> Option<&AgentDefinition> {
        self.agents.iter().find(|agent| agent.id == *id)
    }
}
