//! The durable side of runs: sessions, runs, transcripts, events, blobs and journals.
//!
//! One trait, [`Store`], and one adapter per database. Every write is idempotent, because every caller is an activity
//! that may be repeated; every method is one transaction. What does not live here: decisions. A store refuses what would
//! break its own promises (a gap in `seq`, an event after the terminal one, a body that does not match its digest) and
//! nothing else.

mod error;
mod rows;
pub mod sqlite;
mod watch;

#[cfg(test)]
mod suite;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::{
    canonical::Digest,
    envelope::{BlobRef, TranscriptHead},
    event::{Event, NewEvent},
    ids::{CallId, RunId, SessionId, WorkspaceId},
    message::Message,
};

pub use self::{
    error::{ErrorKind, StoreError},
    rows::{
        CallClaim, CallSettlement, FinishedCall, JournalledPlan, NewClaim, NewRun, NoteRow, PlanBegin, PlanBeginning,
        PlanCommit, RecordBatch, RunFilter, RunPage, RunRow, SessionRow,
    },
    watch::EventWatch,
};

pub type Result<T> = std::result::Result<T, StoreError>;

/// Everything a run keeps outside its workflow history.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    // --- sessions

    /// The session, created on first use. Fails if it has ended.
    async fn ensure_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow>;

    /// The conversation so far: what successful runs added to it.
    async fn session_messages(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>>;

    // --- runs

    /// Creates the run with its first messages and its `started` event, and links it to its parent. A repeat returns
    /// what the first call created.
    async fn open_run(&self, run: NewRun) -> Result<TranscriptHead>;

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>>;

    /// Newest first.
    async fn runs(&self, filter: RunFilter) -> Result<RunPage>;

    // --- transcript

    /// The messages up to `head`. Fails if the stored ones do not add up to its digest.
    async fn transcript(&self, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>>;

    // --- model calls

    /// Begins a turn: appends messages and events, unless its response was recorded, which is never paid for twice.
    /// Messages that already stand after the head are left alone; anything else there is a conflict.
    async fn begin_plan(&self, begin: PlanBegin) -> Result<PlanBeginning>;

    /// Journals a model response, appends its message and its events: all or nothing. A repeat returns the first.
    async fn commit_plan(&self, commit: PlanCommit) -> Result<JournalledPlan>;

    /// The response of a turn whose executor went silent. Without one the turn is given up: a late response is refused.
    async fn settle_plan(&self, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>>;

    // --- tool calls

    /// Takes the right to execute a call, once per dispatch number (again only for an idempotent call), and says in the
    /// log that it begins.
    async fn claim_call(&self, claim: NewClaim) -> Result<CallClaim>;

    /// Stores a call's outcome and its event.
    async fn finish_call(&self, call: &FinishedCall) -> Result<()>;

    /// What became of a call whose executor went silent; fences it off if it never began.
    async fn settle_call(&self, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement>;

    // --- what the workflow caused

    /// Appends messages and events and updates the run's row: all or nothing.
    async fn record(&self, batch: RecordBatch) -> Result<TranscriptHead>;

    // --- events

    /// Appends events whose keys are new; `seq` has no gaps. Fails once the run has its terminal event and a key is new.
    async fn append_events(&self, run: &RunId, events: Vec<NewEvent>) -> Result<u64>;

    /// Events after `after`, oldest first.
    async fn events(&self, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>>;

    /// Wakes up when the run may have new events, whichever process wrote them.
    fn watch(&self, run: &RunId) -> EventWatch;

    // --- blobs

    /// Stores a body by the digest of its canonical bytes.
    async fn put_blob(&self, body: Value) -> Result<BlobRef>;

    async fn blob(&self, digest: &Digest) -> Result<Option<Value>>;

    // --- notes, kept for the `notes` tools

    async fn put_note(&self, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow>;

    async fn notes(&self, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>>;
}
