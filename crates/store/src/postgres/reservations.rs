//! Runs that were accepted and that no workflow has opened yet.

use async_trait::async_trait;
use tokio_postgres::Row;
use windlass_core::{
    envelope::TranscriptHead,
    event::NewEvent,
    ids::{RunId, SessionId},
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{
    PostgresStore,
    access::Sql,
    approvals, blobs,
    columns::{Columns as _, hex, json_text, label_tags, millis},
    events, record, runs, secrets, sessions,
};
use crate::{
    PendingStart, Reservation, Reservations, ReservedRun, Result, RunRow, StoreError, entry::Entry, nul, page,
};

#[async_trait]
impl Reservations for PostgresStore {
    async fn reserve_run(&self, run: ReservedRun) -> Result<Reservation> {
        nul::run(&run)?;
        let mut sql = self.parts.begin().await?;
        let outcome = reserve(&mut sql, &run).await;
        sql.end(outcome).await
    }

    async fn withdraw_run(&self, run: &RunId) -> Result<bool> {
        let mut sql = self.parts.begin().await?;
        let outcome = withdraw(&mut sql, run).await;
        sql.end(outcome).await
    }

    async fn end_unopened_run(&self, run: &RunId, status: RunStatus, events: Vec<NewEvent>) -> Result<bool> {
        let entries = Entry::all_of(&events)?;
        let mut sql = self.parts.begin().await?;
        let outcome = end_unopened(&mut sql, run, status, &entries).await;
        sql.end(outcome).await
    }

    async fn pending_starts(&self, before: Timestamp, limit: u32) -> Result<Vec<PendingStart>> {
        pending_starts(&mut self.parts.autocommit().await?, before, limit).await
    }

    async fn pending_start(&self, run: &RunId) -> Result<Option<PendingStart>> {
        pending_start(&mut self.parts.autocommit().await?, run).await
    }

    async fn start_done(&self, run: &RunId) -> Result<()> {
        forget_start(&mut self.parts.autocommit().await?, run).await
    }
}

async fn reserve(sql: &mut Sql, new: &ReservedRun) -> Result<Reservation> {
    if let Some(row) = runs::get(sql, &new.id).await? {
        return known(sql, new, row).await;
    }
    blobs::require(sql, "spec", new.spec).await?;
    let input_preview = page::preview(&new.input);
    if let Some(session) = &new.session {
        sessions::run_started(sql, &new.workspace, session, &new.agent_id, &input_preview).await?;
    }
    let now = millis(sql.now);
    let plan = new.start.as_ref().map(|start| json_text(&start.plan)).transpose()?;
    let reserved = sql.query_one(
        "WITH reserved AS (
             INSERT INTO runs (id, workspace, session, agent_id, model_id, name, spec, labels, metadata, tags, status, phase,
                 input_preview, created_at, updated_at, opening_len, new_messages, head_len, head_digest, last_seq, request,
                 root_agent)
             VALUES ($1, $2, $3, $4, $5, $6, $7, '{}', $8, $9, $10, $11, $12, $13, $13, 0, 0, 0, $14, 0, $15, $4)
             ON CONFLICT (id) DO NOTHING RETURNING id
         ), kept AS (
             INSERT INTO starts (run_id, plan) SELECT id, $16::TEXT FROM reserved WHERE $16::TEXT IS NOT NULL
         )
         SELECT count(*) AS count FROM reserved",
        &[
            &new.id.as_str(),
            &new.workspace.as_str(),
            &new.session.as_ref().map(SessionId::as_str),
            &new.agent_id.as_str(),
            &new.model_id,
            &new.name,
            &new.spec.map(hex),
            &json_text(&new.metadata)?,
            &label_tags(&new.metadata)?,
            &RunStatus::Queued.as_str(),
            &Phase::Planning.as_str(),
            &input_preview,
            &now,
            &hex(TranscriptHead::default().digest),
            &new.start.as_ref().map(|start| hex(start.request)),
            &plan,
        ],
    )
    .await?;
    let row = runs::get(sql, &new.id).await?.ok_or_else(|| StoreError::RunNotFound { run: new.id.clone() })?;
    if reserved.uint("count")? == 0 {
        // Another process was faster.
        return known(sql, new, row).await;
    }
    Ok(Reservation { row, plan: new.start.as_ref().map(|start| start.plan.clone()) })
}

/// A run that stands under this id already.
async fn known(sql: &mut Sql, new: &ReservedRun, row: RunRow) -> Result<Reservation> {
    let request = sql.query_one("SELECT request FROM runs WHERE id = $1", &[&new.id.as_str()]).await?;
    let row = new.same_as(row, request.digest_opt("request")?)?;
    let plan = pending_start(sql, &new.id).await?.and_then(|start| start.plan);
    Ok(Reservation { row, plan })
}

async fn pending_start(sql: &mut Sql, run: &RunId) -> Result<Option<PendingStart>> {
    let row = sql.query_opt("SELECT run_id, plan FROM starts WHERE run_id = $1", &[&run.as_str()]).await?;
    row.as_ref().map(start_of).transpose()
}

async fn pending_starts(sql: &mut Sql, before: Timestamp, limit: u32) -> Result<Vec<PendingStart>> {
    let rows = sql
        .query(
            "SELECT run_id, plan FROM starts JOIN runs ON id = run_id WHERE closed_at IS NULL AND created_at < $1
             ORDER BY created_at, id LIMIT $2",
            &[&millis(before), &i64::from(limit)],
        )
        .await?;
    rows.iter().map(start_of).collect()
}

fn start_of(row: &Row) -> Result<PendingStart> {
    Ok(PendingStart { run: RunId::new(row.text("run_id")?), plan: row.json_opt("plan")? })
}

/// The run's start is done, or not wanted any more.
async fn forget_start(sql: &mut Sql, run: &RunId) -> Result<()> {
    sql.execute("DELETE FROM starts WHERE run_id = $1", &[&run.as_str()]).await?;
    Ok(())
}

async fn end_unopened(sql: &mut Sql, run: &RunId, status: RunStatus, entries: &[Entry]) -> Result<bool> {
    let unopened = sql
        .query_opt(
            "SELECT 1 FROM runs WHERE id = $1 AND execution IS NULL AND closed_at IS NULL FOR NO KEY UPDATE",
            &[&run.as_str()],
        )
        .await?
        .is_some();
    if unopened {
        events::append(sql, run, entries).await?;
        record::set_state(sql, run, (status, Phase::Done), true).await?;
        forget_start(sql, run).await?;
    }
    Ok(unopened)
}

async fn withdraw(sql: &mut Sql, run: &RunId) -> Result<bool> {
    let untouched = sql
        .query_opt(
            "SELECT 1 FROM runs WHERE id = $1 AND execution IS NULL AND last_seq = 0 AND head_len = 0
                 AND NOT EXISTS (SELECT 1 FROM plans WHERE run_id = $1)
                 AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE run_id = $1)
             FOR UPDATE",
            &[&run.as_str()],
        )
        .await?
        .is_some();
    if untouched {
        forget_start(sql, run).await?;
        secrets::delete_of_runs(sql, &[run.as_str().to_owned()]).await?;
        approvals::delete_of_runs(sql, &[run.as_str().to_owned()]).await?;
        sql.execute("DELETE FROM push_configs WHERE run_id = $1", &[&run.as_str()]).await?;
        sql.execute("DELETE FROM runs WHERE id = $1", &[&run.as_str()]).await?;
    }
    Ok(untouched)
}
