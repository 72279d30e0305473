//! Runs, sessions and agents as the server returns them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use windlass_core::{
    envelope::RunStatusView,
    ids::{AgentId, RunId, SessionId},
    message::Message,
    row::RunRow,
};

use crate::{SaidMessage, Tokens};

/// A run and its status.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Run {
    pub id: RunId,
    pub session_id: Option<SessionId>,
    pub parent_run_id: Option<RunId>,
    pub agent_id: Option<AgentId>,
    pub model_id: Option<String>,
    /// `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    pub status: String,
    /// More detailed than the status, if the server has it: also `waiting` and `paused`.
    pub state: Option<String>,
    pub input_preview: Option<String>,
    /// The answer, or the part of it before a failure. Not in lists.
    pub final_text: Option<String>,
    pub error: Option<String>,
    pub tokens: Option<Tokens>,
    pub turns: Option<u32>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    pub created_at: Option<String>,
    pub completed_at: Option<String>,
    /// The `seq` of the last event so far.
    pub last_seq: Option<u64>,
}

impl Run {
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "failed" | "cancelled")
    }
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub status: Option<String>,
    /// More exact than the status: [`Run::state`]. Only Windlass has it.
    pub state: Option<String>,
    pub agent_id: Option<AgentId>,
    pub model_id: Option<String>,
    pub session_id: Option<SessionId>,
    pub parent_run_id: Option<RunId>,
    /// Runs must have all of these entries.
    pub metadata: BTreeMap<String, String>,
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl RunFilter {
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let Self { status, state, agent_id, model_id, session_id, parent_run_id, metadata, limit, cursor } = self;
        let said = [
            ("status", status.clone()),
            ("state", state.clone()),
            ("agentId", agent_id.as_ref().map(ToString::to_string)),
            ("modelId", model_id.clone()),
            ("sessionId", session_id.as_ref().map(ToString::to_string)),
            ("parentRunId", parent_run_id.as_ref().map(ToString::to_string)),
            ("limit", limit.map(|limit| limit.to_string())),
            ("cursor", cursor.clone()),
        ];
        let mut query: Vec<_> = said.into_iter().filter_map(|(key, said)| Some((key, said?))).collect();
        query.extend(metadata.iter().map(|(key, value)| ("metadata", format!("{key}:{value}"))));
        query
    }
}

/// Runs, the newest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunPage {
    pub runs: Vec<Run>,
    pub next_cursor: Option<String>,
}

/// Runs as their store keeps them, the newest first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RowPage {
    pub rows: Vec<RunRow>,
    pub next_cursor: Option<String>,
    /// The number of runs of this page that the server cannot read; the server's log names them.
    pub unreadable: u64,
}

/// A run's row in the store, and its live status.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Kept {
    pub row: RunRow,
    /// `None` if the run has ended, and while no worker answers.
    pub live: Option<RunStatusView>,
}

/// The conversation of a run.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Transcript {
    pub messages: Vec<Message>,
    /// How many messages the run began with: those of its session, then the new ones.
    pub opening: u64,
    /// How many of those were its session's.
    pub earlier: u64,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Session {
    pub id: SessionId,
    pub name: Option<String>,
    /// `active` or `ended`.
    pub status: String,
    pub created_at: Option<String>,
    pub last_used_at: Option<String>,
    pub ended_at: Option<String>,
    /// The spec that the session was created with.
    #[serde(default)]
    pub agent_spec: Value,
    #[serde(default)]
    pub messages: Vec<SaidMessage>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionItem {
    pub session_id: SessionId,
    /// The beginning of the first user message.
    #[serde(default)]
    pub summary: String,
    pub status: String,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Sessions, the most recently used first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionPage {
    pub sessions: Vec<SessionItem>,
    pub total: Option<u64>,
    pub next_cursor: Option<String>,
}

/// A piece of a conversation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionHistory {
    pub total: u64,
    /// Each with `seq`, `type` and `text`.
    pub events: Vec<Value>,
    /// Where the piece before this one ends.
    pub next_before_seq: Option<u64>,
}

/// An agent that may be started by its id.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Agent {
    pub id: AgentId,
    pub name: Option<String>,
    #[serde(default)]
    pub description: String,
    pub model_id: Option<String>,
}

/// The workspace, id and scopes of the key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Identity {
    pub workspace: String,
    pub key_id: String,
    pub name: String,
    pub scopes: Vec<String>,
    /// The only agents the key may start; any if absent.
    pub agents: Option<Vec<AgentId>>,
}
