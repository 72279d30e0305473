//! Runs that were accepted and that no workflow has opened yet.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;
use windlass_core::{
    canonical::Digest,
    envelope::TranscriptHead,
    event::NewEvent,
    ids::{RunId, SessionId},
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{
    SqliteStore,
    access::Tx,
    approvals, blobs,
    columns::{Bytes, Json, Text, Uint, Word},
    events, runs, secrets, sessions,
    state::RunState,
};
use crate::{PendingStart, Reservation, Reservations, ReservedRun, Result, StoreError, entry::Entry, nul, page};

#[async_trait]
impl Reservations for SqliteStore {
    async fn reserve_run(&self, run: ReservedRun) -> Result<Reservation> {
        nul::run(&run)?;
        let plan = run.start.as_ref().map(|start| Text::of(&start.plan)).transpose()?;
        self.parts.write_relaxed(move |tx| reserve(tx, &run, plan.as_ref())).await
    }

    async fn withdraw_run(&self, run: &RunId) -> Result<bool> {
        let run = run.clone();
        self.parts.write(move |tx| withdraw(tx, &run)).await
    }

    async fn end_unopened_run(&self, run: &RunId, status: RunStatus, events: Vec<NewEvent>) -> Result<bool> {
        let (run, entries) = (run.clone(), Entry::all_of(&events)?);
        self.parts.write(move |tx| end_unopened(tx, &run, status, &entries)).await
    }

    async fn pending_starts(&self, before: Timestamp, limit: u32) -> Result<Vec<PendingStart>> {
        self.parts.read(move |sql| pending_starts(sql, before, limit)).await
    }

    async fn pending_start(&self, run: &RunId) -> Result<Option<PendingStart>> {
        let run = run.clone();
        self.parts.read(move |sql| pending_start(sql, &run)).await
    }

    async fn start_done(&self, run: &RunId) -> Result<()> {
        let run = run.clone();
        self.parts.write_relaxed(move |tx| forget_start(tx.sql, &run)).await
    }
}

/// `plan` is that of the new run's start.
fn reserve(tx: &Tx<'_>, new: &ReservedRun, plan: Option<&Text>) -> Result<Reservation> {
    if let Some(row) = runs::get(tx.sql, &new.id)? {
        let row = new.same_as(row, request(tx.sql, &new.id)?)?;
        let plan = pending_start(tx.sql, &new.id)?.and_then(|start| start.plan);
        return Ok(Reservation { row, plan });
    }
    let spec = blobs::require(tx.sql, "spec", new.spec)?;
    let input_preview = page::preview(&new.input);
    if let Some(session) = &new.session {
        sessions::run_started(tx, &new.workspace, session, &new.agent_id, &input_preview)?;
    }
    tx.sql
        .prepare_cached(
            "INSERT INTO runs (id, workspace, session, execution, agent_id, agent_digest, model_id, name, spec, labels,
                 metadata, status, phase, input_preview, created_at, updated_at, opening_len, new_messages, head_len,
                 head_digest, last_seq, request, root_agent)
             VALUES (?1, ?2, ?3, '', ?4, x'', ?5, ?6, ?7, '{}', ?8, ?9, ?10, ?11, ?12, ?12, 0, 0, 0, ?13, 0, ?14, ?4)",
        )?
        .execute(params![
            new.id.as_str(),
            new.workspace.as_str(),
            new.session.as_ref().map(SessionId::as_str),
            new.agent_id.as_str(),
            new.model_id,
            new.name,
            spec,
            Json(&new.metadata),
            Word(RunStatus::Queued),
            Word(Phase::Planning),
            input_preview,
            Uint::from(tx.now),
            Bytes(TranscriptHead::default().digest),
            new.start.as_ref().map(|start| Bytes(start.request)),
        ])?;
    let number = tx.sql.last_insert_rowid();
    if let Some(plan) = plan {
        tx.sql.prepare_cached("INSERT INTO starts (run, plan) VALUES (?1, ?2)")?.execute(params![number, plan])?;
    }
    let row = runs::get(tx.sql, &new.id)?.ok_or_else(|| StoreError::RunNotFound { run: new.id.clone() })?;
    Ok(Reservation { row, plan: new.start.as_ref().map(|start| start.plan.clone()) })
}

/// What the run was asked to do, if it was reserved by a build that notes it.
fn request(sql: &Connection, run: &RunId) -> Result<Option<Digest>> {
    let request = sql
        .prepare_cached("SELECT request FROM runs WHERE id = ?1")?
        .query_row([run.as_str()], |row| row.get::<_, Option<Bytes>>(0))?;
    Ok(request.map(|Bytes(digest)| digest))
}

fn pending_start(sql: &Connection, run: &RunId) -> Result<Option<PendingStart>> {
    let plan = sql
        .prepare_cached("SELECT plan FROM starts JOIN runs ON number = run WHERE id = ?1")?
        .query_row([run.as_str()], |row| row.get::<_, Option<Json<Value>>>(0))
        .optional()?;
    Ok(plan.map(|plan| PendingStart { run: run.clone(), plan: plan.map(|Json(plan)| plan) }))
}

fn pending_starts(sql: &Connection, before: Timestamp, limit: u32) -> Result<Vec<PendingStart>> {
    let mut starts = sql.prepare_cached(
        "SELECT id, plan FROM starts JOIN runs ON number = run WHERE closed_at IS NULL AND created_at < ?1
         ORDER BY created_at, id LIMIT ?2",
    )?;
    let starts = starts.query_map(params![Uint::from(before), limit], |row| {
        let plan = row.get::<_, Option<Json<Value>>>(1)?;
        Ok(PendingStart { run: RunId::new(row.get::<_, String>(0)?), plan: plan.map(|Json(plan)| plan) })
    })?;
    Ok(starts.collect::<rusqlite::Result<_>>()?)
}

/// The run's start is done, or not wanted any more.
pub(super) fn forget_start(sql: &Connection, run: &RunId) -> Result<()> {
    sql.prepare_cached("DELETE FROM starts WHERE run = (SELECT number FROM runs WHERE id = ?1)")?
        .execute([run.as_str()])?;
    Ok(())
}

fn end_unopened(tx: &mut Tx<'_>, run: &RunId, status: RunStatus, entries: &[Entry]) -> Result<bool> {
    let unopened = tx
        .sql
        .prepare_cached("SELECT 1 FROM runs WHERE id = ?1 AND execution = '' AND closed_at IS NULL")?
        .exists([run.as_str()])?;
    if unopened {
        let mut state = RunState::of(tx.sql, run)?;
        events::append(tx, &mut state, entries, &[])?;
        state.shows(status, Phase::Done);
        state.save(tx)?;
        forget_start(tx.sql, run)?;
    }
    Ok(unopened)
}

fn withdraw(tx: &Tx<'_>, run: &RunId) -> Result<bool> {
    let untouched = tx
        .sql
        .prepare_cached(
            "SELECT 1 FROM runs WHERE id = ?1 AND execution = '' AND last_seq = 0 AND head_len = 0
                 AND NOT EXISTS (SELECT 1 FROM plans WHERE run = runs.number)
                 AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE run = runs.number)",
        )?
        .exists([run.as_str()])?;
    if untouched {
        forget_start(tx.sql, run)?;
        secrets::delete_of_run(tx.sql, run.as_str())?;
        approvals::delete_of_run(tx.sql, run.as_str())?;
        tx.sql.prepare_cached("DELETE FROM push_configs WHERE run_id = ?1")?.execute([run.as_str()])?;
        tx.sql.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([run.as_str()])?;
    }
    Ok(untouched)
}
