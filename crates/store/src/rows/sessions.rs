//! Sessions and their conversations.

use serde::Serialize;
use windlass_core::{
    canonical::Digest,
    envelope::Labels,
    ids::{AgentId, SessionId, WorkspaceId},
    message::Message,
    time::Timestamp,
};

use crate::{Result, StoreError};

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    pub workspace: WorkspaceId,
    pub id: SessionId,
    pub name: Option<String>,
    /// What its runs have in common unless they say otherwise, stored as a blob beforehand.
    pub spec: Option<Digest>,
    pub metadata: Labels,
    /// The agent of its spec.
    pub agent: Option<AgentId>,
}

impl NewSession {
    /// A session that its first run creates.
    pub(crate) fn unnamed(workspace: &WorkspaceId, session: &SessionId) -> Self {
        let (workspace, id) = (workspace.clone(), session.clone());
        Self { workspace, id, name: None, spec: None, metadata: Labels::new(), agent: None }
    }

    /// The session that stands under this id, if it could be the outcome of an earlier attempt.
    pub(crate) fn same_as(&self, row: SessionRow) -> Result<SessionRow> {
        let field = match () {
            () if row.name != self.name => "name",
            () if row.spec != self.spec => "spec",
            () if row.metadata != self.metadata => "metadata",
            () => return Ok(row),
        };
        Err(StoreError::SessionExists { workspace: row.workspace, session: row.id, field })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    Active,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    pub workspace: WorkspaceId,
    pub id: SessionId,
    pub name: Option<String>,
    /// A blob; absent if the session was created by its first run.
    pub spec: Option<Digest>,
    pub metadata: Labels,
    /// The agent of its spec, or of its first run; absent before that.
    pub agent: Option<AgentId>,
    /// The beginning of the first thing that a run of it was asked; empty before that.
    pub summary: String,
    pub created_at: Timestamp,
    /// When a run of it last began or added to the conversation.
    pub last_used_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl SessionRow {
    pub fn status(&self) -> SessionStatus {
        if self.ended_at.is_some() { SessionStatus::Ended } else { SessionStatus::Active }
    }
}

/// Which sessions of a workspace to list. All given conditions hold.
#[derive(Debug, Clone)]
pub struct SessionFilter {
    pub workspace: WorkspaceId,
    pub status: Option<SessionStatus>,
    /// Only sessions of these agents.
    pub agents: Option<Vec<AgentId>>,
    /// The session has all of these among its metadata.
    pub metadata: Labels,
    /// From a previous page's `next`. With it, the offset is ignored.
    pub cursor: Option<String>,
    pub offset: u32,
    /// 50 when zero, 200 at most.
    pub limit: u32,
    /// Count the matches on all pages.
    pub total: bool,
}

impl SessionFilter {
    /// The first page of everything in a workspace.
    pub fn of(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            status: None,
            agents: None,
            metadata: Labels::new(),
            cursor: None,
            offset: 0,
            limit: 0,
            total: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPage {
    pub sessions: Vec<SessionRow>,
    pub next: Option<String>,
    /// Sessions that belong here and cannot be read; the log names them.
    pub unreadable: u64,
    pub total: Option<u64>,
}

/// A stretch of a conversation, oldest first, each message with its place in the whole: 1 for the first.
#[derive(Debug, Clone, PartialEq)]
pub struct MessagePage {
    pub messages: Vec<(u64, Message)>,
    /// How many messages the whole conversation has.
    pub total: u64,
}

/// A stretch of a run's transcript, oldest first, each message with its place in the whole: 1 for the first.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptPage {
    pub messages: Vec<(u64, Message)>,
    /// How many messages the whole transcript has by now.
    pub total: u64,
    /// How many messages the run began with: those of its session, then the new ones.
    pub opening: u64,
    /// How many of those were its session's.
    pub earlier: u64,
}
