//! Arguments and results of the store's methods: runs and their journals here, the rest in submodules.

mod approvals;
mod keys;
mod push;
mod retention;
mod sessions;

use serde::Serialize;
use serde_json::Value;
use windlass_core::{
    approval::ApprovalLayer,
    canonical::{CanonicalJson, Digest},
    envelope::{Extra, Labels, PlanActivityOutput, ToolOutput, TranscriptHead},
    event::NewEvent,
    ids::{AgentId, CallId, InstallationId, RunId, SessionId, WorkspaceId},
    message::Message,
    row::RunRow,
    run::{Phase, RunStatus},
    time::Timestamp,
};

use crate::{Result, StoreError, page::Cursor};

pub(crate) use self::approvals::{layer_of, owners_of, scope_columns};
pub(crate) use self::push::check_push_limit;
pub use self::{
    approvals::GrantFilter,
    keys::{ApiKeyRow, KeyHash, NewApiKey},
    push::{NewPushConfig, PushConfigRow, PushTarget},
    retention::{Compacted, Retention, Swept},
    sessions::{MessagePage, NewSession, SessionFilter, SessionPage, SessionRow, SessionStatus, TranscriptPage},
};

/// A run to reserve, before its workflow opens it.
#[derive(Debug, Clone)]
pub struct ReservedRun {
    pub id: RunId,
    pub workspace: WorkspaceId,
    pub session: Option<SessionId>,
    pub agent_id: AgentId,
    pub model_id: String,
    /// A name that the caller gave it.
    pub name: Option<String>,
    /// The accepted request, stored as a blob beforehand.
    pub spec: Option<Digest>,
    pub metadata: Labels,
    /// The run's prompt; the row keeps a preview.
    pub input: String,
    pub start: Option<NewStart>,
}

/// How a run is started, kept so that any process can do it.
#[derive(Debug, Clone)]
pub struct NewStart {
    /// The digest of the caller's request. The same request again is the same run.
    pub request: Digest,
    /// What starting the workflow needs.
    pub plan: Value,
}

/// A run that was reserved, now or before.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservation {
    pub row: RunRow,
    /// The plan of its start, as long as its workflow is not known to exist.
    pub plan: Option<Value>,
}

/// A start that may not have been carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingStart {
    pub run: RunId,
    /// Absent if an older build accepted the run.
    pub plan: Option<Value>,
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    pub created_at: Timestamp,
    pub id: RunId,
}

/// Which installation a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    pub id: InstallationId,
    /// The ids of the Temporal namespaces it has been used with.
    pub namespaces: Vec<String>,
}

impl Installation {
    /// A new installation.
    pub(crate) fn first() -> Self {
        Self { id: InstallationId::new(uuid::Uuid::new_v4().to_string()), namespaces: Vec::new() }
    }

    /// Adds the namespace, or makes it the only one. Returns whether that changed anything.
    pub(crate) fn add_namespace(&mut self, namespace: &str, only: bool) -> bool {
        let before = self.namespaces.clone();
        if only {
            self.namespaces = vec![namespace.to_owned()];
        } else if !self.namespaces.iter().any(|known| known == namespace) {
            self.namespaces.push(namespace.to_owned());
        }
        self.namespaces != before
    }
}

impl ReservedRun {
    /// The run that stands under this id, if it could be the outcome of an earlier attempt.
    pub(crate) fn same_as(&self, row: RunRow, request: Option<Digest>) -> Result<RunRow> {
        let field = match () {
            () if row.workspace != self.workspace => "workspace",
            () if row.session != self.session => "session",
            () if row.spec != self.spec => "spec",
            () if request != self.start.as_ref().map(|start| start.request) => "request",
            () => return Ok(row),
        };
        Err(StoreError::RunExists { run: row.id, field })
    }
}

/// A run to open. If it was reserved, its name, spec, metadata, input and time stay as reserved.
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
    /// Whether the transcript begins with the conversation of the session. The run refers to it and does not copy it.
    pub continues_session: bool,
    /// The messages to begin with, after the conversation.
    pub messages: Vec<Message>,
    /// The `started` event.
    pub started: NewEvent,
}

/// Which runs to list. All given conditions hold.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub workspace: Option<WorkspaceId>,
    pub session: Option<SessionId>,
    pub agent_id: Option<AgentId>,
    /// Only runs whose root run has one of these agents.
    pub root_agents: Option<Vec<AgentId>>,
    pub model_id: Option<String>,
    /// Any of these; empty means all.
    pub statuses: Vec<RunStatus>,
    pub parent: Option<RunId>,
    /// Only runs without a parent.
    pub roots: bool,
    /// Only runs that changed at this time or later.
    pub updated_since: Option<Timestamp>,
    /// The run has all of these among its metadata.
    pub metadata: Labels,
    pub order: RunOrder,
    /// From a previous page's `next`.
    pub cursor: Option<String>,
    /// 50 when zero, 200 at most.
    pub limit: u32,
    /// Count the matches on all pages.
    pub total: bool,
}

/// The order of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunOrder {
    /// The newest first.
    #[default]
    Created,
    /// The most recently changed first. A run that changes while a caller reads page by page moves to the first page.
    Updated,
}

impl RunOrder {
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Created => "created_at",
            Self::Updated => "updated_at",
        }
    }

    /// Where a page that ends with this row ends.
    pub(crate) fn cursor(self, row: &RunRow) -> String {
        let at = match self {
            Self::Created => row.created_at,
            Self::Updated => row.updated_at,
        };
        Cursor { at, id: row.id.as_str() }.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    pub runs: Vec<RunRow>,
    pub next: Option<String>,
    /// Runs that belong here and cannot be read; the log names them.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A turn to begin, with what happened since the last one.
#[derive(Debug, Clone)]
pub struct PlanBegin {
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub session: Option<SessionId>,
    pub turn: u32,
    pub head: TranscriptHead,
    /// New messages, right after `head`.
    pub messages: Vec<Message>,
    pub events: Vec<NewEvent>,
}

/// Whether to request a response from the model.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanBeginning {
    /// The journal has the response of this turn.
    Journalled(Box<JournalledPlan>),
    /// Request one; the transcript has this head now.
    Ask {
        head: TranscriptHead,
        /// The rules that the run follows, as `Approvals::rules_for` reads them. They come with the beginning of the turn,
        /// because a read of their own would cost every turn.
        rules: Vec<ApprovalLayer>,
    },
}

/// A model response to journal.
#[derive(Debug, Clone)]
pub struct PlanCommit {
    pub run: RunId,
    pub turn: u32,
    /// The head of the transcript when the model was called.
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

/// A call to claim.
#[derive(Debug, Clone)]
pub struct NewClaim {
    pub run: RunId,
    pub call: CallId,
    pub dispatch: u32,
    pub idempotent: bool,
    /// The event that the call begins; appended if the claim is granted.
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
    /// As its claim said.
    pub idempotent: bool,
    pub output: ToolOutput,
    /// The result body, stored under its digest; `None` when there is none.
    pub body: Option<CanonicalJson>,
    pub event: NewEvent,
}

/// The outcome of a call whose activity timed out.
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
