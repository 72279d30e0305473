//! The rows of runs: opening, reading and listing them.

use async_trait::async_trait;
use tokio_postgres::Row;
use windlass_core::{
    envelope::TranscriptHead,
    ids::{AgentId, CallId, RunId, SessionId, WorkspaceId},
    run::{Phase, RunStatus},
};

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, hex, int, json_text, millis, tags},
    conversation, events,
    filter::Filter,
    record, sessions, transcript,
};
use crate::{
    NewRun, OpenRun, RecordBatch, Result, RunFilter, RunPage, RunRow, Runs, StoreError, body::Body, entry::Entry,
    opening::Opening, page::Cursor,
};

#[async_trait]
impl Runs for PostgresStore {
    async fn open_run(&self, run: NewRun) -> Result<TranscriptHead> {
        let opening = Opening::of(run)?;
        let mut sql = self.parts.begin().await?;
        let outcome = open(&mut sql, &opening).await;
        sql.end(outcome).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        get(&mut self.parts.autocommit().await?, run).await
    }

    async fn final_text(&self, run: &RunId) -> Result<Option<String>> {
        events::final_text(&mut self.parts.autocommit().await?, run).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<RunPage> {
        list(&mut self.parts.autocommit().await?, &filter).await
    }

    async fn open_runs(&self, after: Option<OpenRun>, limit: u32) -> Result<Vec<OpenRun>> {
        open_after(&mut self.parts.autocommit().await?, after.as_ref(), limit).await
    }

    async fn record(&self, batch: RecordBatch) -> Result<TranscriptHead> {
        let (messages, entries) = (Body::all_of(&batch.messages)?, Entry::all_of(&batch.events)?);
        let mut sql = self.parts.begin().await?;
        let outcome = record::record(&mut sql, &batch, &messages, &entries).await;
        sql.end(outcome).await
    }
}

async fn open(sql: &mut Sql, opening: &Opening) -> Result<TranscriptHead> {
    let run = &opening.run;
    let known = known(sql, run).await?;
    if let Known::Opened { opening_len } = known {
        let head = transcript::head_of(sql, &run.id, opening_len).await?;
        return head.ok_or_else(|| StoreError::Corrupt { detail: format!("run {} has lost messages", run.id) });
    }
    let prefix = match &run.session {
        Some(session) if run.continues_session => conversation::head(sql, &run.workspace, session).await?,
        _ => TranscriptHead::default(),
    };
    if let Known::Reserved = known {
        complete(sql, opening, prefix).await?;
    } else {
        if let Some(session) = &run.session {
            sessions::run_started(sql, &run.workspace, session, &run.agent_id, &opening.input_preview).await?;
        }
        insert(sql, opening, prefix).await?;
    }
    let head = transcript::append(sql, &run.id, prefix, &opening.messages).await?.head;
    events::append(sql, &run.id, std::slice::from_ref(&opening.started)).await?;
    Ok(head)
}

/// Keeps other writers of the run waiting until this transaction ends.
pub(super) async fn lock(sql: &mut Sql, run: &RunId) -> Result<()> {
    let row = sql.query_opt("SELECT 1 FROM runs WHERE id = $1 FOR NO KEY UPDATE", &[&run.as_str()]).await?;
    row.map(drop).ok_or_else(|| StoreError::RunNotFound { run: run.clone() })
}

pub(super) async fn require(sql: &mut Sql, run: &RunId) -> Result<()> {
    let row = sql.query_opt("SELECT 1 FROM runs WHERE id = $1", &[&run.as_str()]).await?;
    row.map(drop).ok_or_else(|| StoreError::RunNotFound { run: run.clone() })
}

pub(super) async fn get(sql: &mut Sql, run: &RunId) -> Result<Option<RunRow>> {
    let row = sql.query_opt(&format!("SELECT {COLUMNS} FROM runs WHERE id = $1"), &[&run.as_str()]).await?;
    row.as_ref().map(from_row).transpose()
}

async fn list(sql: &mut Sql, wanted: &RunFilter) -> Result<RunPage> {
    let order = wanted.order;
    let mut filter = Filter::of(wanted.conditions())?;
    let total = if wanted.total { Some(filter.count(sql, "runs").await?) } else { None };
    if let Some(cursor) = &wanted.cursor {
        filter.comes_after(order.column(), &Cursor::parse(cursor)?);
    }
    let page = filter.page(sql, ("runs", COLUMNS, order.column()), (wanted.limit, 0), from_row).await?;
    let (runs, next, unreadable) = page.end(|row| order.cursor(row));
    Ok(RunPage { runs, next, unreadable, total })
}

async fn open_after(sql: &mut Sql, after: Option<&OpenRun>, limit: u32) -> Result<Vec<OpenRun>> {
    let (at, id) = after.map_or((0, ""), |after| (millis(after.created_at), after.id.as_str()));
    let rows = sql
        .query(
            "SELECT created_at, id FROM runs WHERE closed_at IS NULL AND created_at >= $1 AND (created_at, id) > ($1, $2)
             ORDER BY created_at, id LIMIT $3",
            &[&at, &id, &i64::from(limit)],
        )
        .await?;
    rows.iter()
        .map(|row| Ok(OpenRun { created_at: row.time("created_at")?, id: RunId::new(row.text("id")?) }))
        .collect()
}

/// What the store knows of a run that is to be opened.
enum Known {
    No,
    Reserved,
    Opened { opening_len: u64 },
}

async fn known(sql: &mut Sql, run: &NewRun) -> Result<Known> {
    let stored = sql
        .query_opt(
            "SELECT workspace, session, agent_id, opening_len, execution FROM runs WHERE id = $1 FOR NO KEY UPDATE",
            &[&run.id.as_str()],
        )
        .await?;
    let Some(stored) = stored else { return Ok(Known::No) };
    let conflict = |field| Err(StoreError::RunExists { run: run.id.clone(), field });
    if stored.text("workspace")? != run.workspace.as_str() {
        return conflict("workspace");
    }
    if stored.text_opt("session")?.as_deref() != run.session.as_ref().map(SessionId::as_str) {
        return conflict("session");
    }
    let Some(execution) = stored.text_opt("execution")? else { return Ok(Known::Reserved) };
    if stored.text("agent_id")? != run.agent_id.as_str() {
        return conflict("agent");
    }
    if execution != run.execution {
        return conflict("workflow execution");
    }
    Ok(Known::Opened { opening_len: stored.uint("opening_len")? })
}

async fn insert(sql: &mut Sql, opening: &Opening, prefix: TranscriptHead) -> Result<()> {
    let run = &opening.run;
    let now = millis(sql.now);
    sql.execute(
        "INSERT INTO runs (id, workspace, session, execution, agent_id, agent_digest, model_id, parent, parent_call, labels,
             metadata, tags, status, phase, input_preview, created_at, updated_at, opening_len, new_messages, head_len,
             head_digest, prefix_len, last_seq, root_agent)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16, $17, $18, $19, $20, $19, 0,
             CASE WHEN $8::text IS NULL THEN $5::text
                  ELSE coalesce((SELECT above.root_agent FROM runs AS above WHERE above.id = $8::text), '') END)",
        &[
            &run.id.as_str(),
            &run.workspace.as_str(),
            &run.session.as_ref().map(SessionId::as_str),
            &run.execution,
            &run.agent_id.as_str(),
            &hex(run.agent_digest),
            &run.model_id,
            &run.parent.as_ref().map(RunId::as_str),
            &run.parent_call.as_ref().map(CallId::as_str),
            &json_text(&run.labels)?,
            &json_text(&run.metadata)?,
            &tags(&run.metadata)?,
            &RunStatus::Running.as_str(),
            &Phase::Planning.as_str(),
            &opening.input_preview,
            &now,
            &int(opening.len(prefix.len)),
            &int(opening.len(0)),
            &int(prefix.len),
            &hex(prefix.digest),
        ],
    )
    .await?;
    Ok(())
}

/// A reserved run begins. Its start is done. If it has messages already, they are its transcript, and appending after
/// `prefix` tells whether they agree with the conversation.
async fn complete(sql: &mut Sql, opening: &Opening, prefix: TranscriptHead) -> Result<()> {
    let run = &opening.run;
    let now = millis(sql.now);
    sql.execute(
        "WITH started AS (DELETE FROM starts WHERE run_id = $1)
         UPDATE runs SET execution = $2, agent_id = $3, agent_digest = $4, model_id = $5, parent = $6, parent_call = $7,
             labels = $8, status = $9, updated_at = $10, opening_len = $11, new_messages = $12, root_agent = $3,
             prefix_len = CASE WHEN head_len = 0 THEN $13::BIGINT ELSE 0 END,
             head_len = CASE WHEN head_len = 0 THEN $13 ELSE head_len END,
             head_digest = CASE WHEN head_len = 0 THEN $14 ELSE head_digest END
         WHERE id = $1",
        &[
            &run.id.as_str(),
            &run.execution,
            &run.agent_id.as_str(),
            &hex(run.agent_digest),
            &run.model_id,
            &run.parent.as_ref().map(RunId::as_str),
            &run.parent_call.as_ref().map(CallId::as_str),
            &json_text(&run.labels)?,
            &RunStatus::Running.as_str(),
            &now,
            &int(opening.len(prefix.len)),
            &int(opening.len(0)),
            &int(prefix.len),
            &hex(prefix.digest),
        ],
    )
    .await?;
    Ok(())
}

const COLUMNS: &str = "id, workspace, session, agent_id, root_agent, agent_digest, model_id, name, spec, parent, parent_call, labels, \
                       metadata, status, phase, input_preview, created_at, updated_at, closed_at, head_len, \
                       head_digest, last_seq, ending, \
                       ARRAY(SELECT child.id FROM runs AS child WHERE child.parent = runs.id \
                             ORDER BY child.created_at, child.id) AS children";

fn from_row(row: &Row) -> Result<RunRow> {
    let children: Vec<String> = row.try_get("children").map_err(super::failure::damaged)?;
    Ok(RunRow {
        id: RunId::new(row.text("id")?),
        workspace: WorkspaceId::new(row.text("workspace")?),
        session: row.text_opt("session")?.map(SessionId::new),
        agent_id: AgentId::new(row.text("agent_id")?),
        root_agent: AgentId::new(row.text("root_agent")?),
        agent_digest: row.digest_opt("agent_digest")?,
        model_id: row.text("model_id")?,
        name: row.text_opt("name")?,
        spec: row.digest_opt("spec")?,
        parent: row.text_opt("parent")?.map(RunId::new),
        parent_call: row.text_opt("parent_call")?.map(CallId::new),
        children: children.into_iter().map(RunId::new).collect(),
        labels: row.json("labels")?,
        metadata: row.json("metadata")?,
        status: row.word("status")?,
        phase: row.word("phase")?,
        input_preview: row.text("input_preview")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        closed_at: row.time_opt("closed_at")?,
        head: TranscriptHead { len: row.uint("head_len")?, digest: row.digest("head_digest")? },
        last_seq: row.uint("last_seq")?,
        ending: row.json_opt("ending")?,
    })
}
