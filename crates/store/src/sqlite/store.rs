//! The trait, method by method: encode on the caller's thread, then hand a closure to the writer or to a reader.

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::{
    canonical::Digest,
    envelope::{BlobRef, TranscriptHead},
    event::{Event, NewEvent},
    ids::{CallId, RunId, SessionId, WorkspaceId},
    message::Message,
};

use super::{
    SqliteStore,
    access::Tx,
    blobs::{self, Body},
    calls::{self, Outcome},
    columns::Text,
    events::{self, Entry},
    notes,
    plans::{self, Beginning, Response},
    record::{self, Batch},
    runs::{self, Opening},
    sessions, transcript,
};
use crate::{
    CallClaim, CallSettlement, EventWatch, FinishedCall, JournalledPlan, NewClaim, NewRun, NoteRow, PlanBegin,
    PlanBeginning, PlanCommit, RecordBatch, Result, RunFilter, RunPage, RunRow, SessionRow, Store,
};

#[async_trait]
impl Store for SqliteStore {
    async fn ensure_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.write(move |tx| sessions::ensure(tx, &workspace, &session)).await
    }

    async fn session_messages(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.read(move |sql| sessions::messages(sql, &workspace, &session)).await
    }

    async fn open_run(&self, run: NewRun) -> Result<TranscriptHead> {
        let opening = Opening::of(run)?;
        self.parts.ride(move |tx| runs::open(tx, &opening)).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        let run = run.clone();
        self.parts.read(move |sql| runs::get(sql, &run)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<RunPage> {
        self.parts.read(move |sql| runs::list(sql, &filter)).await
    }

    async fn transcript(&self, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>> {
        let run = run.clone();
        self.parts.read(move |sql| transcript::load(sql, &run, head)).await
    }

    async fn begin_plan(&self, begin: PlanBegin) -> Result<PlanBeginning> {
        let beginning = Beginning {
            messages: Body::all_of(&begin.messages)?,
            events: Entry::all_of(&begin.events)?,
            run: begin.run,
            turn: begin.turn,
            head: begin.head,
        };
        self.parts.ride(move |tx| plans::begin(tx, &beginning)).await
    }

    async fn settle_plan(&self, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
        let run = run.clone();
        self.parts.ride(move |tx| plans::settle(tx, &run, turn)).await
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
        self.parts.ride(move |tx| plans::commit(tx, response)).await
    }

    async fn claim_call(&self, claim: NewClaim) -> Result<CallClaim> {
        let event = Entry::of(&claim.event)?;
        let idempotent = claim.idempotent;
        let work = move |tx: &mut Tx<'_>| calls::claim(tx, &claim, event);
        // The call begins right after this. If that may happen only once, the claim must not be forgotten.
        if idempotent { self.parts.ride(work).await } else { self.parts.write(work).await }
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
        self.parts.ride(move |tx| calls::finish(tx, &outcome)).await
    }

    async fn settle_call(&self, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement> {
        let (run, call) = (run.clone(), call.clone());
        self.parts.ride(move |tx| calls::settle(tx, &run, &call, dispatch)).await
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
        self.parts.ride(move |tx| record::record(tx, &batch)).await
    }

    async fn append_events(&self, run: &RunId, events: Vec<NewEvent>) -> Result<u64> {
        let (run, entries) = (run.clone(), Entry::all_of(&events)?);
        self.parts.ride(move |tx| Ok(events::append(tx, &run, &entries)?.last_seq)).await
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
        let body = Body::of(&body)?;
        let reference = body.reference();
        self.parts.ride(move |tx| blobs::put(tx.sql, &body)).await?;
        Ok(reference)
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Value>> {
        let digest = *digest;
        self.parts.read(move |sql| blobs::get(sql, digest)).await
    }

    async fn put_note(&self, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow> {
        let (workspace, key, text) = (workspace.clone(), key.to_owned(), text.to_owned());
        self.parts.write(move |tx| notes::put(tx, &workspace, key, text)).await
    }

    async fn notes(&self, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>> {
        let (workspace, query) = (workspace.clone(), query.to_owned());
        self.parts.read(move |sql| notes::search(sql, &workspace, &query, limit)).await
    }
}
