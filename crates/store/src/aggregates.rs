//! The traits of a store, one per aggregate. Code asks for the smallest one that it needs.
//!
//! Every write is idempotent, because every caller is an activity that may be retried. Every method is one transaction.

use async_trait::async_trait;
use windlass_core::{
    approval::{ApprovalLayer, ApprovalScope, Grant, OwnRules},
    canonical::{CanonicalJson, Digest},
    envelope::{BlobRef, TranscriptHead},
    event::{Event, NewEvent},
    ids::{CallId, GrantId, RunId, SessionId, WorkspaceId},
    message::Message,
    run::RunStatus,
    time::Timestamp,
};

use crate::{
    ApiKeyRow, CallClaim, CallSettlement, Compacted, EventWatch, FinishedCall, GrantFilter, Installation,
    JournalledPlan, MessagePage, NewApiKey, NewClaim, NewPushConfig, NewRun, NewSession, NoteRow, OpenRun,
    PendingStart, PlanBegin, PlanBeginning, PlanCommit, PushConfigRow, RecordBatch, Reservation, ReservedRun, Result,
    Retention, RunFilter, RunPage, RunRow, SealedSecret, SecretRow, SessionFilter, SessionPage, SessionRow, Swept,
    TranscriptPage,
};

/// All aggregates on one connection.
pub trait Store:
    Sessions
    + Reservations
    + Runs
    + Transcripts
    + ModelJournal
    + CallJournal
    + Events
    + Blobs
    + Keys
    + Installations
    + Housekeeping
    + Notes
    + Secrets
    + Approvals
    + PushConfigs
{
}

impl<S> Store for S where
    S: Sessions
        + Reservations
        + Runs
        + Transcripts
        + ModelJournal
        + CallJournal
        + Events
        + Blobs
        + Keys
        + Installations
        + Housekeeping
        + Notes
        + Secrets
        + Approvals
        + PushConfigs
{
}

/// The rows of sessions. Their messages are in [`Transcripts`].
#[async_trait]
pub trait Sessions: Send + Sync + 'static {
    /// Creates the session. A repeat returns it as it is.
    async fn create_session(&self, session: NewSession) -> Result<SessionRow>;

    async fn session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>>;

    /// The most recently used first. A session that is used while a caller reads page by page moves to the first page;
    /// no page shows a session twice.
    async fn sessions(&self, filter: SessionFilter) -> Result<SessionPage>;

    /// Ends the session: no run can join it any more. `None` if there is no such session; a repeat changes nothing.
    async fn end_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>>;

    /// The session, created on first use. Fails if it has ended.
    async fn ensure_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow>;
}

/// Runs that were accepted and that no workflow has opened yet.
#[async_trait]
pub trait Reservations: Send + Sync + 'static {
    /// Creates the run as queued, so that it is found before its workflow opens it, and keeps its start until then. A
    /// repeat of the same request returns the run as it is, with the start of the first; another request is refused.
    async fn reserve_run(&self, run: ReservedRun) -> Result<Reservation>;

    /// Deletes a reserved run that has no events, because its workflow could not be started. Returns whether there was
    /// such a run.
    async fn withdraw_run(&self, run: &RunId) -> Result<bool>;

    /// Ends a run that no workflow has opened, with these events, the last of which is terminal. Returns whether it was
    /// such a run: a run that was opened in the meantime continues, and a run that was ended here is never opened.
    async fn end_unopened_run(&self, run: &RunId, status: RunStatus, events: Vec<NewEvent>) -> Result<bool>;

    /// Starts of runs that were reserved before this and whose workflows are not known to exist, the oldest first.
    async fn pending_starts(&self, before: Timestamp, limit: u32) -> Result<Vec<PendingStart>>;

    /// The start of one run, if its workflow is not known to exist.
    async fn pending_start(&self, run: &RunId) -> Result<Option<PendingStart>>;

    /// The run's workflow exists: deletes the start.
    async fn start_done(&self, run: &RunId) -> Result<()>;
}

/// The rows of runs.
#[async_trait]
pub trait Runs: Send + Sync + 'static {
    /// Creates the run with its first messages and its `started` event, and links it to its parent. A repeat returns
    /// what the first call created.
    async fn open_run(&self, run: NewRun) -> Result<TranscriptHead>;

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>>;

    /// The run, if it belongs to this workspace. A caller that acts for a workspace uses this, so that the runs of
    /// another workspace look like runs that do not exist.
    async fn run_in(&self, workspace: &WorkspaceId, run: &RunId) -> Result<Option<RunRow>> {
        Ok(self.run(run).await?.filter(|row| row.workspace == *workspace))
    }

    /// The complete last answer of the run, or its partial answer if it failed. The run's row has only a preview.
    async fn final_text(&self, run: &RunId) -> Result<Option<String>>;

    /// Newest first.
    async fn runs(&self, filter: RunFilter) -> Result<RunPage>;

    /// Runs that have not ended, the oldest first, from after `after` on.
    async fn open_runs(&self, after: Option<OpenRun>, limit: u32) -> Result<Vec<OpenRun>>;

    /// Appends messages and events and updates the run's row: all or nothing.
    async fn record(&self, batch: RecordBatch) -> Result<TranscriptHead>;
}

/// The messages of runs and of sessions.
#[async_trait]
pub trait Transcripts: Send + Sync + 'static {
    /// The messages up to `head`. Fails if the stored messages do not have its digest.
    async fn transcript(&self, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>>;

    /// At most `limit` messages after the first `after`. The chain of digests is not checked.
    async fn transcript_page(&self, run: &RunId, after: u64, limit: u32) -> Result<TranscriptPage>;

    /// The conversation of a session: the messages that its successful runs added.
    async fn session_messages(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>>;

    /// The last `last` messages of the conversation (all without a number) before the position `before`.
    async fn session_page(
        &self,
        workspace: &WorkspaceId,
        session: &SessionId,
        before: Option<u64>,
        last: Option<u32>,
    ) -> Result<MessagePage>;
}

/// The journal of model responses. A response that was recorded is not requested again.
#[async_trait]
pub trait ModelJournal: Send + Sync + 'static {
    /// Begins a turn: appends messages and events, unless the journal has the turn's response. Messages that already
    /// follow the head are left as they are; other messages there are a conflict.
    async fn begin_plan(&self, begin: PlanBegin) -> Result<PlanBeginning>;

    /// Journals a model response, appends its message and its events: all or nothing. A repeat returns the first.
    async fn commit_plan(&self, commit: PlanCommit) -> Result<JournalledPlan>;

    /// The response of a turn whose activity timed out. Without a response the turn is closed: a late one is refused.
    async fn settle_plan(&self, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>>;
}

/// The journal of tool calls.
#[async_trait]
pub trait CallJournal: Send + Sync + 'static {
    /// Takes the right to execute a call, once per dispatch number (again only for an idempotent call), and logs that
    /// the call begins.
    async fn claim_call(&self, claim: NewClaim) -> Result<CallClaim>;

    /// Stores a call's outcome and its event.
    async fn finish_call(&self, call: &FinishedCall) -> Result<()>;

    /// The outcome of a call whose activity timed out. A call that never began is fenced off.
    async fn settle_call(&self, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement>;
}

/// The event logs of runs.
#[async_trait]
pub trait Events: Send + Sync + 'static {
    /// Appends events whose keys are new; `seq` has no gaps. Fails if a key is new and the run has its terminal event.
    async fn append_events(&self, run: &RunId, events: Vec<NewEvent>) -> Result<u64>;

    /// Events after `after`, oldest first.
    async fn events(&self, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>>;

    /// Wakes up when the run may have new events, whichever process wrote them.
    fn watch(&self, run: &RunId) -> EventWatch;
}

/// Bodies by the digest of their canonical bytes.
#[async_trait]
pub trait Blobs: Send + Sync + 'static {
    async fn put_blob(&self, body: CanonicalJson) -> Result<BlobRef>;

    async fn blob(&self, digest: &Digest) -> Result<Option<CanonicalJson>>;
}

/// API keys.
#[async_trait]
pub trait Keys: Send + Sync + 'static {
    async fn create_key(&self, key: NewApiKey) -> Result<ApiKeyRow>;

    /// The key, revoked or not.
    async fn key(&self, id: &str) -> Result<Option<ApiKeyRow>>;

    /// The keys of a workspace, the newest first.
    async fn keys(&self, workspace: &WorkspaceId) -> Result<Vec<ApiKeyRow>>;

    /// `None` if the workspace has no such key; a repeat changes nothing.
    async fn revoke_key(&self, workspace: &WorkspaceId, id: &str) -> Result<Option<ApiKeyRow>>;

    /// Sets the time of the key's last use. Costs at most one write per minute.
    async fn touch_key(&self, id: &str) -> Result<()>;
}

/// The identity of this store.
#[async_trait]
pub trait Installations: Send + Sync + 'static {
    /// The installation id, made on first use and kept from then on, also by backups.
    async fn installation(&self) -> Result<Installation>;

    /// Adds the namespace to those the store is used with; with `only`, replaces them.
    async fn used_with(&self, namespace: &str, only: bool) -> Result<Installation>;
}

/// Health, retention and disk space.
#[async_trait]
pub trait Housekeeping: Send + Sync + 'static {
    /// Checks that the store works: writes a probe row and reads it back.
    async fn probe(&self) -> Result<()>;

    /// Deletes one batch of runs and sessions that ended long enough ago, and the blobs that nothing refers to.
    async fn sweep(&self, retention: Retention) -> Result<Swept>;

    /// Counts what sweeps would delete if they were repeated until nothing that ended before this is left.
    async fn would_sweep(&self, before: Timestamp) -> Result<Swept>;

    /// Returns free pages to the file system, as far as the database does not do that itself.
    async fn compact(&self) -> Result<Compacted>;
}

/// Notes of a workspace, for the `notes` tools.
#[async_trait]
pub trait Notes: Send + Sync + 'static {
    async fn put_note(&self, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow>;

    async fn notes(&self, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>>;
}

/// Encrypted secrets. A [`Vault`](crate::Vault) encrypts and decrypts them; here is only ciphertext.
#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// Stores a secret and returns what is stored now: a secret that an operator has set is replaced, one that was split
    /// from a spec is kept as it was first. Fails if the owner has too many.
    async fn put_secret(&self, secret: SealedSecret) -> Result<(SecretRow, SealedSecret)>;

    async fn sealed_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<SealedSecret>>;

    /// What operators have set in a workspace, by name.
    async fn secrets(&self, workspace: &WorkspaceId) -> Result<Vec<SecretRow>>;

    /// Removes what an operator has set. Returns whether it was there.
    async fn remove_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<bool>;

    /// Secrets of all workspaces that another key encrypted, in the order of workspace and name, from after `after` on.
    async fn secrets_of_other_keys(
        &self,
        key_id: &str,
        after: Option<(WorkspaceId, String)>,
        limit: u32,
    ) -> Result<Vec<SealedSecret>>;

    /// Replaces a ciphertext by another one of the same value. Returns false if the secret has changed since `old` was read.
    async fn replace_sealed(&self, old: &SealedSecret, new: SealedSecret) -> Result<bool>;
}

/// Grants, and the approval rules of sessions and runs.
#[async_trait]
pub trait Approvals: Send + Sync + 'static {
    /// Keeps a grant. A repeat changes nothing, also after the grant was revoked.
    async fn put_grant(&self, workspace: &WorkspaceId, grant: Grant) -> Result<()>;

    /// Newest first.
    async fn grants(&self, filter: GrantFilter) -> Result<Vec<Grant>>;

    /// `None` if there is no such grant; a repeat changes nothing.
    async fn revoke_grant(&self, workspace: &WorkspaceId, id: &GrantId) -> Result<Option<Grant>>;

    /// Replaces the rules of a session or a run; `None` removes them.
    async fn set_rules(&self, workspace: &WorkspaceId, owner: &ApprovalScope, rules: Option<OwnRules>) -> Result<()>;

    async fn rules(&self, workspace: &WorkspaceId, owner: &ApprovalScope) -> Result<Option<OwnRules>>;

    /// The layers that a run follows: its session's, its own, and those of the runs that it is a sub-agent of.
    async fn rules_for(
        &self,
        workspace: &WorkspaceId,
        run: &RunId,
        session: Option<&SessionId>,
    ) -> Result<Vec<ApprovalLayer>>;
}

/// Where updates of runs are sent. Addresses and credentials are secrets of the run.
#[async_trait]
pub trait PushConfigs: Send + Sync + 'static {
    /// Stores a config, or replaces the one with its id: that one's secret is deleted, and it is open again. Fails if the
    /// run has too many.
    async fn put_push_config(&self, config: NewPushConfig) -> Result<PushConfigRow>;

    async fn push_config(&self, run: &RunId, id: &str) -> Result<Option<PushConfigRow>>;

    /// The configs of a run, the oldest first.
    async fn push_configs(&self, run: &RunId) -> Result<Vec<PushConfigRow>>;

    /// Nothing more is sent: everything was, or with an error the delivery was given up.
    async fn end_push_config(&self, run: &RunId, id: &str, error: Option<&str>) -> Result<()>;

    /// Deletes a config with its secret. Returns whether it was there.
    async fn delete_push_config(&self, run: &RunId, id: &str) -> Result<bool>;
}
