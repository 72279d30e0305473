//! The compact view of an agent's tools that the workflow carries: what deciding needs, no descriptions, no schemas.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AgentDefinition, ConfirmationSpec, HandOut, TemporalSource, ToolSource, Waiting};
use crate::{
    awaits::ExpiryOutcome,
    canonical::Digest,
    ids::{AgentId, ToolName},
    time::Millis,
};

/// An agent's tools by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolTable(BTreeMap<ToolName, ToolEntry>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolEntry {
    pub dispatch: ToolDispatch,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<ConfirmationSpec>,
}

/// How a call of this tool is executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "via", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ToolDispatch {
    Activity,
    Child {
        agent_id: AgentId,
        agent_digest: Digest,
    },
    External {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_in_ms: Option<Millis>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_expiry: Option<ExpiryOutcome>,
        /// For the caller's own tools; other external calls are all handed out at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<HandOut>,
    },
    /// An activity or a workflow on another task queue.
    Temporal(Box<TemporalSource>),
}

impl ToolTable {
    /// The table of a checked definition; sub-agents are named by the digest of their own definition.
    pub fn of(definition: &AgentDefinition) -> Result<Self, serde_json::Error> {
        let mut table = BTreeMap::new();
        // Many tools may name one agent.
        let mut digests: BTreeMap<&AgentId, Digest> = BTreeMap::new();
        for tool in &definition.tools {
            let dispatch = match &tool.source {
                // The activity says that it does not know the tool.
                ToolSource::Builtin
                | ToolSource::Http(_)
                | ToolSource::Mcp(_)
                | ToolSource::A2a(_)
                | ToolSource::Other(_) => ToolDispatch::Activity,
                ToolSource::Temporal(temporal) => ToolDispatch::Temporal(temporal.clone()),
                ToolSource::External { wait } => wait.dispatch(None),
                ToolSource::Client { read_only, wait, .. } => {
                    wait.dispatch(Some(if *read_only { HandOut::Together } else { HandOut::InTurn }))
                }
                ToolSource::Agent { agent } => {
                    // `check` refuses a tool without its agent.
                    let Some(sub) = definition.sub_agent(agent) else { continue };
                    let agent_digest = match digests.get(&sub.id) {
                        Some(digest) => *digest,
                        None => *digests.entry(&sub.id).or_insert(Digest::of(sub)?),
                    };
                    ToolDispatch::Child { agent_id: sub.id.clone(), agent_digest }
                }
            };
            let entry = ToolEntry {
                dispatch,
                tags: tool.tags.clone(),
                timeout_ms: tool.timeout_ms,
                idempotent: tool.idempotent,
                confirmation: tool.confirmation.clone(),
            };
            table.insert(tool.name.clone(), entry);
        }
        Ok(Self(table))
    }

    pub fn get(&self, name: &ToolName) -> Option<&ToolEntry> {
        self.0.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ToolName, &ToolEntry)> {
        self.0.iter()
    }
}

impl Waiting {
    fn dispatch(self, client: Option<HandOut>) -> ToolDispatch {
        ToolDispatch::External { expires_in_ms: self.expires_in_ms, on_expiry: self.on_expiry, client }
    }
}

impl FromIterator<(ToolName, ToolEntry)> for ToolTable {
    fn from_iter<I: IntoIterator<Item = (ToolName, ToolEntry)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}
