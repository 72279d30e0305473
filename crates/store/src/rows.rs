//! What goes into and comes out of a store.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_core::{
    canonical::Digest,
    envelope::{Extra, Labels, PlanActivityOutput, ToolOutput, TranscriptHead},
    event::NewEvent,
    ids::{AgentId, CallId, RunId, SessionId, WorkspaceId},
    message::Message,
    run::{Phase, RunStatus},
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    pub workspace: WorkspaceId,
    pub id: SessionId,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// A run as it is opened.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    pub workspace: WorkspaceId,
    pub session: Option<SessionId>,
    /// The workflow execution that opens it.
    pub execution: String,
    pub agent_id: AgentId,
    pub agent_digest: Digest,
    pub model_id: String,
    pub parent: Option<RunId>,
    pub parent_call: Option<CallId>,
    pub labels: Labels,
    pub metadata: Extra,
    /// The transcript to begin with: the session's conversation, then the new messages.
    pub messages: Vec<Message>,
    /// How many of `messages` are new to the session.
    pub new_messages: usize,
    /// The `started` event.
    pub started: NewEvent,
}

/// A run as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    pub id: RunId,
    pub workspace: WorkspaceId,
    pub session: Option<SessionId>,
    pub agent_id: AgentId,
    pub agent_digest: Digest,
    pub model_id: String,
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
}

/// Which runs to list. All given conditions hold.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub workspace: Option<WorkspaceId>,
    pub session: Option<SessionId>,
    pub agent_id: Option<AgentId>,
    pub status: Option<RunStatus>,
    pub parent: Option<RunId>,
    /// From a previous page's `next`.
    pub cursor: Option<String>,
    /// 50 when zero, 500 at most.
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    pub runs: Vec<RunRow>,
    pub next: Option<String>,
}

/// A turn on its way to the model, with what happened since the last one.
#[derive(Debug, Clone)]
pub struct PlanBegin {
    pub run: RunId,
    pub turn: u32,
    pub head: TranscriptHead,
    /// What the conversation gained: they stand right after `head`.
    pub messages: Vec<Message>,
    pub events: Vec<NewEvent>,
}

/// Whether the model is to be asked.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanBeginning {
    /// It answered this turn before.
    Journalled(Box<JournalledPlan>),
    /// The conversation stands here now.
    Ask(TranscriptHead),
}

/// A model response to journal.
#[derive(Debug, Clone)]
pub struct PlanCommit {
    pub run: RunId,
    pub turn: u32,
    /// Where the transcript stood when the model was asked.
    pub head: TranscriptHead,
    /// The assistant's message.
    pub message: Message,
    /// What the activity returns, except for the head, which the store fills in.
    pub output: PlanActivityOutput,
    pub events: Vec<NewEvent>,
}

/// A journalled response: the output to return, its head included.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalledPlan {
    pub output: PlanActivityOutput,
}

/// The wish to execute a call.
#[derive(Debug, Clone)]
pub struct NewClaim {
    pub run: RunId,
    pub call: CallId,
    pub dispatch: u32,
    pub idempotent: bool,
    /// Says that the call begins; appended if it may.
    pub event: NewEvent,
}

/// Whether a call may be executed now.
#[derive(Debug, Clone, PartialEq)]
pub enum CallClaim {
    /// Execute it. `again` says that an earlier attempt may have begun.
    Execute { again: bool },
    /// It is done; this is its outcome.
    Finished(Box<ToolOutput>),
    /// A later dispatch or a settlement owns the call: do not execute.
    Fenced,
    /// An earlier attempt began and the call is not idempotent: do not execute.
    Unknown,
}

/// A finished call.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    pub run: RunId,
    pub call: CallId,
    pub dispatch: u32,
    pub output: ToolOutput,
    /// The result body, stored under its digest; `None` when there is none.
    pub body: Option<Value>,
    pub event: NewEvent,
}

/// What a call's journal says after its executor went silent.
#[derive(Debug, Clone, PartialEq)]
pub enum CallSettlement {
    Finished(Box<ToolOutput>),
    NeverStarted,
    Unknown,
}

/// What one `record` writes.
#[derive(Debug, Clone)]
pub struct RecordBatch {
    pub run: RunId,
    pub head: TranscriptHead,
    pub messages: Vec<Message>,
    pub events: Vec<NewEvent>,
    pub status: RunStatus,
    pub phase: Phase,
    /// The run succeeded: its new messages and its last assistant message join the session.
    pub closes_session_turn: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoteRow {
    pub key: String,
    pub text: String,
    pub updated_at: Timestamp,
}
