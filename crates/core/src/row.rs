//! A run's row: what the store keeps of a run beside its log, and what lists and the API show.

use serde::{Deserialize, Serialize};

use crate::{
    canonical::Digest,
    envelope::{Extra, Labels, TokenUsage, TranscriptHead},
    ids::{AgentId, CallId, RunId, SessionId, WorkspaceId},
    run::{Phase, RunStatus},
    time::Timestamp,
};

/// A run's row in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    pub id: RunId,
    pub workspace: WorkspaceId,
    pub session: Option<SessionId>,
    pub agent_id: AgentId,
    /// The agent of the root run; the run's own agent unless it has a parent.
    #[serde(default, skip_serializing_if = "AgentId::is_empty")]
    pub root_agent: AgentId,
    /// Unknown while the run is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_digest: Option<Digest>,
    pub model_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The accepted request, a blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Digest>,
    pub parent: Option<RunId>,
    pub parent_call: Option<CallId>,
    pub children: Vec<RunId>,
    pub labels: Labels,
    pub metadata: Extra,
    pub status: RunStatus,
    pub phase: Phase,
    /// The first user message, cut short.
    pub input_preview: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub head: TranscriptHead,
    pub last_seq: u64,
    /// Set once the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// What a run's row keeps of its terminal event. Facts that the event does not mention are absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ending {
    /// The final text, or what there was of it, cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_preview: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Which limit made the run give its last answer early; absent for one that ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalized: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    /// The run's last model: a fallback model, if it changed to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}
