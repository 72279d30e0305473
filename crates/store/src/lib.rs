//! The durable side of runs: sessions, runs, transcripts, events, blobs and journals.
//!
//! One trait, [`Store`], and one adapter per database. Every write is idempotent, because every caller is an activity
//! that may be repeated; every method is one transaction. What does not live here: decisions. A store refuses what would
//! break its own promises (a gap in `seq`, an event after the terminal one, a body that does not match its digest) and
//! nothing else.

mod body;
mod call_row;
mod clock;
mod conditions;
mod ending;
mod entry;
mod error;
mod forecast;
mod opening;
mod page;
mod plain;
pub mod postgres;
mod rows;
pub mod sqlite;
mod sweeping;
#[cfg(any(test, feature = "test-support"))]
pub mod testing;
mod watch;

#[cfg(test)]
mod differential;
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
    run::RunStatus,
    time::Timestamp,
};

pub use self::{
    clock::{Clock, system_clock},
    error::{ErrorKind, StoreError},
    rows::{
        ApiKeyRow, CallClaim, CallSettlement, Compacted, FinishedCall, Installation, JournalledPlan, KeyHash,
        MessagePage, NewApiKey, NewClaim, NewRun, NewSession, NewStart, NoteRow, OpenRun, PendingStart, PlanBegin,
        PlanBeginning, PlanCommit, RecordBatch, Reservation, ReservedRun, Retention, RunFilter, RunPage, SessionFilter,
        SessionPage, SessionRow, SessionStatus, Swept, TranscriptPage,
    },
    watch::EventWatch,
};
pub use windlass_core::row::{Ending, RunRow};

pub type Result<T> = std::result::Result<T, StoreError>;

/// Everything a run keeps outside its workflow history.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    // --- sessions

    /// Creates the session. A repeat returns it as it is.
    async fn create_session(&self, session: NewSession) -> Result<SessionRow>;

    async fn session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>>;

    /// The most recently used first. A session that is used while somebody turns pages moves to the first page; no page
    /// shows a session twice.
    async fn sessions(&self, filter: SessionFilter) -> Result<SessionPage>;

    /// No run can join it any more. `None` if there is no such session; ending it again changes nothing.
    async fn end_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>>;

    /// The session, created on first use. Fails if it has ended.
    async fn ensure_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow>;

    /// The conversation so far: what successful runs added to it.
    async fn session_messages(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>>;

    /// The last `last` messages of the conversation, all without a number, that stand before the place `before`.
    async fn session_page(
        &self,
        workspace: &WorkspaceId,
        session: &SessionId,
        before: Option<u64>,
        last: Option<u32>,
    ) -> Result<MessagePage>;

    // --- runs

    /// Creates the run as queued, so that it is found before its workflow opens it, and keeps its start until then. A
    /// repeat of the same request returns the run as it is, with the start of the first; another request is refused.
    async fn reserve_run(&self, run: ReservedRun) -> Result<Reservation>;

    /// Forgets a run that was reserved and that nothing has happened to: its workflow could not be started. Returns
    /// whether there was such a run.
    async fn withdraw_run(&self, run: &RunId) -> Result<bool>;

    /// Ends a run that no workflow has opened, with these events, the last of which is terminal. Returns whether it was
    /// such a run: one that was opened in the meantime goes on, and one that was ended here is never opened.
    async fn end_unopened_run(&self, run: &RunId, status: RunStatus, events: Vec<NewEvent>) -> Result<bool>;

    /// Starts of runs that were reserved before this and whose workflows are not known to exist, the oldest first.
    async fn pending_starts(&self, before: Timestamp, limit: u32) -> Result<Vec<PendingStart>>;

    /// The start of one run, if its workflow is not known to exist.
    async fn pending_start(&self, run: &RunId) -> Result<Option<PendingStart>>;

    /// Notes that the run's workflow exists: its start is not needed any more.
    async fn start_done(&self, run: &RunId) -> Result<()>;

    /// Runs that have not ended, the oldest first, from after `after` on.
    async fn open_runs(&self, after: Option<OpenRun>, limit: u32) -> Result<Vec<OpenRun>>;

    /// Creates the run with its first messages and its `started` event, and links it to its parent. A repeat returns
    /// what the first call created.
    async fn open_run(&self, run: NewRun) -> Result<TranscriptHead>;

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>>;

    /// The run if it is of this workspace. Whoever asks on behalf of a workspace uses this, so that another's runs look
    /// like runs that do not exist.
    async fn run_in(&self, workspace: &WorkspaceId, run: &RunId) -> Result<Option<RunRow>> {
        Ok(self.run(run).await?.filter(|row| row.workspace == *workspace))
    }

    /// All of what the run said last, or of what it had said when it failed: its row has only the beginning.
    async fn final_text(&self, run: &RunId) -> Result<Option<String>>;

    /// Newest first.
    async fn runs(&self, filter: RunFilter) -> Result<RunPage>;

    // --- transcript

    /// The messages up to `head`. Fails if the stored ones do not add up to its digest.
    async fn transcript(&self, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>>;

    /// At most `limit` messages after the first `after`, for readers. Their digests are not added up.
    async fn transcript_page(&self, run: &RunId, after: u64, limit: u32) -> Result<TranscriptPage>;

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

    // --- keys of the API

    async fn create_key(&self, key: NewApiKey) -> Result<ApiKeyRow>;

    /// The key, revoked or not.
    async fn key(&self, id: &str) -> Result<Option<ApiKeyRow>>;

    /// The keys of a workspace, the newest first.
    async fn keys(&self, workspace: &WorkspaceId) -> Result<Vec<ApiKeyRow>>;

    /// `None` if the workspace has no such key; revoking it again changes nothing.
    async fn revoke_key(&self, workspace: &WorkspaceId, id: &str) -> Result<Option<ApiKeyRow>>;

    /// Notes that a key was used. Costs a write at most once a minute.
    async fn touch_key(&self, id: &str) -> Result<()>;

    // --- the installation

    /// Which installation this store is: decided on first use and kept from then on, also by backups.
    async fn installation(&self) -> Result<Installation>;

    /// Notes that the store is used with this namespace; with `only`, that it is used with no other any more.
    async fn used_with(&self, namespace: &str, only: bool) -> Result<Installation>;

    // --- housekeeping

    /// Proves that the store works: writes a row that is there for this and reads it back.
    async fn probe(&self) -> Result<()>;

    /// Deletes one batch of what is over for long enough, with the bodies that nothing refers to any more.
    async fn sweep(&self, retention: Retention) -> Result<Swept>;

    /// Counts what sweeps would delete until there is nothing left that was over before this, and changes nothing.
    async fn would_sweep(&self, before: Timestamp) -> Result<Swept>;

    /// Gives space that deleted rows have left back to the file system, as far as the database does not do that itself.
    async fn compact(&self) -> Result<Compacted>;

    // --- notes, kept for the `notes` tools

    async fn put_note(&self, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow>;

    async fn notes(&self, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>>;
}
