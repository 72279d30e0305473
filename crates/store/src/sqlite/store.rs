//! The trait, method by method: encode on the caller's thread, then hand a closure to the writer or to a reader.

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
    SqliteStore,
    access::Tx,
    blobs,
    calls::{self, Outcome},
    columns::Text,
    conversation, events, installation, keys, notes,
    plans::{self, Beginning, Response},
    record::{self, Batch},
    reservations, runs, sessions, sweep, transcript,
};
use crate::{
    ApiKeyRow, CallClaim, CallSettlement, Compacted, EventWatch, FinishedCall, Installation, JournalledPlan,
    MessagePage, NewApiKey, NewClaim, NewRun, NewSession, NoteRow, OpenRun, PendingStart, PlanBegin, PlanBeginning,
    PlanCommit, RecordBatch, Reservation, ReservedRun, Result, Retention, RunFilter, RunPage, RunRow, SessionFilter,
    SessionPage, SessionRow, Store, Swept, TranscriptPage, body::Body, entry::Entry, opening::Opening, plain,
};

#[async_trait]
impl Store for SqliteStore {
    async fn create_session(&self, session: NewSession) -> Result<SessionRow> {
        plain::session(&session)?;
        self.parts.write(move |tx| sessions::create(tx, &session)).await
    }

    async fn session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.read(move |sql| sessions::get(sql, &workspace, &session)).await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<SessionPage> {
        self.parts.read(move |sql| sessions::list(sql, &filter)).await
    }

    async fn end_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.write(move |tx| sessions::end(tx, &workspace, &session)).await
    }

    async fn ensure_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.write(move |tx| sessions::ensure(tx, &workspace, &session)).await
    }

    async fn session_messages(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.read(move |sql| conversation::messages(sql, &workspace, &session)).await
    }

    async fn session_page(
        &self,
        workspace: &WorkspaceId,
        session: &SessionId,
        before: Option<u64>,
        last: Option<u32>,
    ) -> Result<MessagePage> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.read(move |sql| conversation::page(sql, &workspace, &session, before, last)).await
    }

    async fn reserve_run(&self, run: ReservedRun) -> Result<Reservation> {
        plain::run(&run)?;
        let plan = run.start.as_ref().map(|start| Text::of(&start.plan)).transpose()?;
        self.parts.write_relaxed(move |tx| reservations::reserve(tx, &run, plan.as_ref())).await
    }

    async fn withdraw_run(&self, run: &RunId) -> Result<bool> {
        let run = run.clone();
        self.parts.write(move |tx| reservations::withdraw(tx, &run)).await
    }

    async fn end_unopened_run(&self, run: &RunId, status: RunStatus, events: Vec<NewEvent>) -> Result<bool> {
        let (run, entries) = (run.clone(), Entry::all_of(&events)?);
        self.parts.write(move |tx| reservations::end_unopened(tx, &run, status, &entries)).await
    }

    async fn pending_starts(&self, before: Timestamp, limit: u32) -> Result<Vec<PendingStart>> {
        self.parts.read(move |sql| reservations::pending_starts(sql, before, limit)).await
    }

    async fn pending_start(&self, run: &RunId) -> Result<Option<PendingStart>> {
        let run = run.clone();
        self.parts.read(move |sql| reservations::pending_start(sql, &run)).await
    }

    async fn start_done(&self, run: &RunId) -> Result<()> {
        let run = run.clone();
        self.parts.write_relaxed(move |tx| reservations::forget_start(tx.sql, &run)).await
    }

    async fn open_runs(&self, after: Option<OpenRun>, limit: u32) -> Result<Vec<OpenRun>> {
        self.parts.read(move |sql| runs::open_after(sql, after.as_ref(), limit)).await
    }

    async fn open_run(&self, run: NewRun) -> Result<TranscriptHead> {
        let opening = Opening::of(run)?;
        self.parts.write_relaxed(move |tx| runs::open(tx, &opening)).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        let run = run.clone();
        self.parts.read(move |sql| runs::get(sql, &run)).await
    }

    async fn final_text(&self, run: &RunId) -> Result<Option<String>> {
        let run = run.clone();
        self.parts.read(move |sql| events::final_text(sql, &run)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<RunPage> {
        self.parts.read(move |sql| runs::list(sql, &filter)).await
    }

    async fn transcript(&self, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>> {
        let run = run.clone();
        self.parts.read(move |sql| transcript::load(sql, &run, head)).await
    }

    async fn transcript_page(&self, run: &RunId, after: u64, limit: u32) -> Result<TranscriptPage> {
        let run = run.clone();
        self.parts.read(move |sql| transcript::page(sql, &run, after, limit)).await
    }

    async fn begin_plan(&self, begin: PlanBegin) -> Result<PlanBeginning> {
        let beginning = Beginning {
            messages: Body::all_of(&begin.messages)?,
            events: Entry::all_of(&begin.events)?,
            run: begin.run,
            turn: begin.turn,
            head: begin.head,
        };
        self.parts.write_relaxed(move |tx| plans::begin(tx, &beginning)).await
    }

    async fn settle_plan(&self, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
        let run = run.clone();
        self.parts.write_relaxed(move |tx| plans::settle(tx, &run, turn)).await
    }

    async fn commit_plan(&self, commit: PlanCommit) -> Result<JournalledPlan> {
        let response = Response {
            message: Body::of(&commit.message)?,
            events: Entry::all_of(&commit.events)?,
            run: commit.run,
            turn: commit.turn,
            head: commit.head,
            output: commit.output,
        };
        // It was paid for, and took longer than any disk does.
        self.parts.write(move |tx| plans::commit(tx, &response)).await
    }

    async fn claim_call(&self, claim: NewClaim) -> Result<CallClaim> {
        let event = Entry::of(&claim.event)?;
        let idempotent = claim.idempotent;
        let work = move |tx: &mut Tx<'_>| calls::claim(tx, &claim, &event);
        // The call begins right after this. If that may happen only once, the claim must not be forgotten.
        self.parts.write_relaxed_if(idempotent, work).await
    }

    async fn finish_call(&self, call: &FinishedCall) -> Result<()> {
        let outcome = Outcome {
            body: call.body.as_ref().map(Body::of).transpose()?,
            event: Entry::of(&call.event)?,
            run: call.run.clone(),
            call: call.call.clone(),
            dispatch: call.dispatch,
            output: Text::of(&call.output)?,
            result_ref: call.output.result_ref,
        };
        // What happened only once is known only from here.
        self.parts.write_relaxed_if(call.idempotent, move |tx| calls::finish(tx, &outcome)).await
    }

    async fn settle_call(&self, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement> {
        let (run, call) = (run.clone(), call.clone());
        self.parts.write_relaxed(move |tx| calls::settle(tx, &run, &call, dispatch)).await
    }

    async fn record(&self, batch: RecordBatch) -> Result<TranscriptHead> {
        let batch = Batch {
            messages: Body::all_of(&batch.messages)?,
            events: Entry::all_of(&batch.events)?,
            run: batch.run,
            head: batch.head,
            status: batch.status,
            phase: batch.phase,
            closes_session_turn: batch.closes_session_turn,
        };
        self.parts.write_relaxed(move |tx| record::record(tx, &batch)).await
    }

    async fn append_events(&self, run: &RunId, events: Vec<NewEvent>) -> Result<u64> {
        let (run, entries) = (run.clone(), Entry::all_of(&events)?);
        self.parts.write_relaxed(move |tx| Ok(events::append(tx, &run, &entries)?.last_seq)).await
    }

    async fn events(&self, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>> {
        let run = run.clone();
        let events = self.parts.read(move |sql| events::list(sql, &run, after, limit)).await?;
        // An event that was read once never changes, not even by a power failure.
        self.parts.database.synced().await?;
        Ok(events)
    }

    fn watch(&self, run: &RunId) -> EventWatch {
        self.parts.watchers.watch(run)
    }

    async fn put_blob(&self, body: Value) -> Result<BlobRef> {
        let body = Body::apart(body).await?;
        let reference = body.reference();
        self.parts.write_relaxed(move |tx| blobs::put_alone(tx, &body)).await?;
        Ok(reference)
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Value>> {
        let digest = *digest;
        self.parts.read(move |sql| blobs::get(sql, digest)).await
    }

    async fn create_key(&self, key: NewApiKey) -> Result<ApiKeyRow> {
        plain::key(&key)?;
        self.parts.write(move |tx| keys::create(tx, &key)).await
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKeyRow>> {
        let id = id.to_owned();
        self.parts.read(move |sql| keys::get(sql, &id)).await
    }

    async fn keys(&self, workspace: &WorkspaceId) -> Result<Vec<ApiKeyRow>> {
        let workspace = workspace.clone();
        self.parts.read(move |sql| keys::list(sql, &workspace)).await
    }

    async fn revoke_key(&self, workspace: &WorkspaceId, id: &str) -> Result<Option<ApiKeyRow>> {
        let (workspace, id) = (workspace.clone(), id.to_owned());
        self.parts.write(move |tx| keys::revoke(tx, &workspace, &id)).await
    }

    async fn touch_key(&self, id: &str) -> Result<()> {
        let (stale, now) = (id.to_owned(), (self.parts.clock)());
        if self.parts.read(move |sql| keys::is_stale(sql, &stale, now)).await? {
            let id = id.to_owned();
            self.parts.write(move |tx| keys::touch(tx, &id)).await?;
        }
        Ok(())
    }

    async fn installation(&self) -> Result<Installation> {
        match self.parts.read(installation::get).await? {
            Some(known) => Ok(known),
            None => self.parts.write(|tx| installation::ensure(tx.sql)).await,
        }
    }

    async fn used_with(&self, namespace: &str, only: bool) -> Result<Installation> {
        let namespace = namespace.to_owned();
        self.parts.write(move |tx| installation::used_with(tx.sql, &namespace, only)).await
    }

    async fn probe(&self) -> Result<()> {
        Ok(self.parts.database.probe().await?)
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept> {
        self.parts.write(move |tx| sweep::sweep(tx, retention)).await
    }

    async fn would_sweep(&self, before: Timestamp) -> Result<Swept> {
        self.parts.read(move |sql| sweep::foresee(sql, before)).await
    }

    async fn compact(&self) -> Result<Compacted> {
        self.parts.compact().await
    }

    async fn put_note(&self, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow> {
        plain::note(key, text)?;
        let (workspace, key, text) = (workspace.clone(), key.to_owned(), text.to_owned());
        self.parts.write(move |tx| notes::put(tx, &workspace, &key, &text)).await
    }

    async fn notes(&self, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>> {
        let (workspace, query) = (workspace.clone(), query.to_owned());
        self.parts.read(move |sql| notes::search(sql, &workspace, &query, limit)).await
    }
}
