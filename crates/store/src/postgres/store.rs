//! The trait, method by method: encode first, then one transaction.

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

use super::{
    PostgresStore, blobs, calls, conversation, events, installation, keys, migrate, notes, plans, record, reservations,
    runs, sessions, sweep, transcript,
};
use crate::{
    ApiKeyRow, CallClaim, CallSettlement, Compacted, EventWatch, FinishedCall, Installation, JournalledPlan,
    MessagePage, NewApiKey, NewClaim, NewRun, NewSession, NoteRow, OpenRun, PendingStart, PlanBegin, PlanBeginning,
    PlanCommit, RecordBatch, Reservation, ReservedRun, Result, Retention, RunFilter, RunPage, RunRow, SessionFilter,
    SessionPage, SessionRow, Store, Swept, TranscriptPage, body::Body, entry::Entry, opening::Opening, plain,
};

#[async_trait]
impl Store for PostgresStore {
    async fn create_session(&self, session: NewSession) -> Result<SessionRow> {
        plain::session(&session)?;
        let mut sql = self.parts.begin().await?;
        let outcome = sessions::create(&mut sql, &session).await;
        sql.end(outcome).await
    }

    async fn session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
        sessions::get(&mut self.parts.each().await?, workspace, session).await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<SessionPage> {
        sessions::list(&mut self.parts.each().await?, &filter).await
    }

    async fn end_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
        sessions::end(&mut self.parts.each().await?, workspace, session).await
    }

    async fn ensure_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
        let mut sql = self.parts.begin().await?;
        let outcome = sessions::ensure(&mut sql, workspace, session).await;
        sql.end(outcome).await
    }

    async fn session_messages(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>> {
        conversation::messages(&mut self.parts.each().await?, workspace, session).await
    }

    async fn session_page(
        &self,
        workspace: &WorkspaceId,
        session: &SessionId,
        before: Option<u64>,
        last: Option<u32>,
    ) -> Result<MessagePage> {
        conversation::page(&mut self.parts.each().await?, workspace, session, before, last).await
    }

    async fn reserve_run(&self, run: ReservedRun) -> Result<Reservation> {
        plain::run(&run)?;
        let mut sql = self.parts.begin().await?;
        let outcome = reservations::reserve(&mut sql, &run).await;
        sql.end(outcome).await
    }

    async fn withdraw_run(&self, run: &RunId) -> Result<bool> {
        let mut sql = self.parts.begin().await?;
        let outcome = reservations::withdraw(&mut sql, run).await;
        sql.end(outcome).await
    }

    async fn end_unopened_run(&self, run: &RunId, status: RunStatus, events: Vec<NewEvent>) -> Result<bool> {
        let entries = Entry::all_of(&events)?;
        let mut sql = self.parts.begin().await?;
        let outcome = reservations::end_unopened(&mut sql, run, status, &entries).await;
        sql.end(outcome).await
    }

    async fn pending_starts(&self, before: Timestamp, limit: u32) -> Result<Vec<PendingStart>> {
        reservations::pending_starts(&mut self.parts.each().await?, before, limit).await
    }

    async fn pending_start(&self, run: &RunId) -> Result<Option<PendingStart>> {
        reservations::pending_start(&mut self.parts.each().await?, run).await
    }

    async fn start_done(&self, run: &RunId) -> Result<()> {
        reservations::forget_start(&mut self.parts.each().await?, run).await
    }

    async fn open_runs(&self, after: Option<OpenRun>, limit: u32) -> Result<Vec<OpenRun>> {
        runs::open_after(&mut self.parts.each().await?, after.as_ref(), limit).await
    }

    async fn open_run(&self, run: NewRun) -> Result<TranscriptHead> {
        let opening = Opening::of(run)?;
        let mut sql = self.parts.begin().await?;
        let outcome = runs::open(&mut sql, &opening).await;
        sql.end(outcome).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        runs::get(&mut self.parts.each().await?, run).await
    }

    async fn final_text(&self, run: &RunId) -> Result<Option<String>> {
        events::final_text(&mut self.parts.each().await?, run).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<RunPage> {
        runs::list(&mut self.parts.each().await?, &filter).await
    }

    async fn transcript(&self, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>> {
        transcript::load(&mut self.parts.each().await?, run, head).await
    }

    async fn transcript_page(&self, run: &RunId, after: u64, limit: u32) -> Result<TranscriptPage> {
        transcript::page(&mut self.parts.each().await?, run, after, limit).await
    }

    async fn begin_plan(&self, begin: PlanBegin) -> Result<PlanBeginning> {
        let (messages, entries) = (Body::all_of(&begin.messages)?, Entry::all_of(&begin.events)?);
        let mut sql = self.parts.begin().await?;
        let outcome = plans::begin(&mut sql, &begin, &messages, &entries).await;
        sql.end(outcome).await
    }

    async fn commit_plan(&self, commit: PlanCommit) -> Result<JournalledPlan> {
        let (message, entries) = (Body::of(&commit.message)?, Entry::all_of(&commit.events)?);
        let mut sql = self.parts.begin().await?;
        let outcome = plans::commit(&mut sql, commit, message, &entries).await;
        sql.end(outcome).await
    }

    async fn settle_plan(&self, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
        let mut sql = self.parts.begin().await?;
        let outcome = plans::settle(&mut sql, run, turn).await;
        sql.end(outcome).await
    }

    async fn claim_call(&self, claim: NewClaim) -> Result<CallClaim> {
        let event = Entry::of(&claim.event)?;
        let mut sql = self.parts.begin().await?;
        let outcome = calls::claim(&mut sql, &claim, event).await;
        sql.end(outcome).await
    }

    async fn finish_call(&self, call: &FinishedCall) -> Result<()> {
        let (body, event) = (call.body.as_ref().map(Body::of).transpose()?, Entry::of(&call.event)?);
        let mut sql = self.parts.begin().await?;
        let outcome = calls::finish(&mut sql, call, body, event).await;
        sql.end(outcome).await
    }

    async fn settle_call(&self, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement> {
        let mut sql = self.parts.begin().await?;
        let outcome = calls::settle(&mut sql, run, call, dispatch).await;
        sql.end(outcome).await
    }

    async fn record(&self, batch: RecordBatch) -> Result<TranscriptHead> {
        let (messages, entries) = (Body::all_of(&batch.messages)?, Entry::all_of(&batch.events)?);
        let mut sql = self.parts.begin().await?;
        let outcome = record::record(&mut sql, &batch, &messages, &entries).await;
        sql.end(outcome).await
    }

    async fn append_events(&self, run: &RunId, events: Vec<NewEvent>) -> Result<u64> {
        let entries = Entry::all_of(&events)?;
        let mut sql = self.parts.begin().await?;
        let outcome = events::append(&mut sql, run, &entries).await;
        Ok(sql.end(outcome).await?.last_seq)
    }

    async fn events(&self, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>> {
        events::list(&mut self.parts.each().await?, run, after, limit).await
    }

    fn watch(&self, run: &RunId) -> EventWatch {
        self.parts.watchers.watch(run)
    }

    async fn put_blob(&self, body: Value) -> Result<BlobRef> {
        let body = Body::apart(body).await?;
        blobs::put_alone(&mut self.parts.each().await?, &body).await?;
        Ok(body.reference())
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Value>> {
        blobs::get(&mut self.parts.each().await?, *digest).await
    }

    async fn create_key(&self, key: NewApiKey) -> Result<ApiKeyRow> {
        plain::key(&key)?;
        keys::create(&mut self.parts.each().await?, key).await
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKeyRow>> {
        keys::get(&mut self.parts.each().await?, id).await
    }

    async fn keys(&self, workspace: &WorkspaceId) -> Result<Vec<ApiKeyRow>> {
        keys::list(&mut self.parts.each().await?, workspace).await
    }

    async fn revoke_key(&self, workspace: &WorkspaceId, id: &str) -> Result<Option<ApiKeyRow>> {
        keys::revoke(&mut self.parts.each().await?, workspace, id).await
    }

    async fn touch_key(&self, id: &str) -> Result<()> {
        keys::touch(&mut self.parts.each().await?, id).await
    }

    async fn installation(&self) -> Result<Installation> {
        if let Some(known) = installation::get(&mut self.parts.each().await?).await? {
            return Ok(known);
        }
        let mut sql = self.parts.begin().await?;
        let outcome = installation::ensure(&mut sql).await;
        sql.end(outcome).await
    }

    async fn used_with(&self, namespace: &str, only: bool) -> Result<Installation> {
        let mut sql = self.parts.begin().await?;
        let outcome = installation::used_with(&mut sql, namespace, only).await;
        sql.end(outcome).await
    }

    async fn probe(&self) -> Result<()> {
        migrate::probe(&mut self.parts.each().await?).await
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept> {
        let mut sql = self.parts.begin().await?;
        let outcome = sweep::sweep(&mut sql, retention).await;
        sql.end(outcome).await
    }

    async fn would_sweep(&self, before: Timestamp) -> Result<Swept> {
        sweep::foresee(&mut self.parts.each().await?, before).await
    }

    /// Nothing to do here: autovacuum makes room for new rows, and only a lock on whole tables could shrink their files.
    async fn compact(&self) -> Result<Compacted> {
        Ok(Compacted::default())
    }

    async fn put_note(&self, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow> {
        plain::note(key, text)?;
        notes::put(&mut self.parts.each().await?, workspace, key, text).await
    }

    async fn notes(&self, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>> {
        notes::search(&mut self.parts.each().await?, workspace, query, limit).await
    }
}
