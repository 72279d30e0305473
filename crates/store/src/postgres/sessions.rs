//! The rows of sessions: created explicitly or by their first run, listed, used, ended.

use async_trait::async_trait;
use tokio_postgres::Row;
use windlass_core::ids::{AgentId, SessionId, WorkspaceId};

use super::{
    PostgresStore,
    access::Sql,
    blobs,
    columns::{Columns as _, hex, json_text, label_tags, millis},
    filter::Filter,
};
use crate::{
    NewSession, Result, SessionFilter, SessionPage, SessionRow, SessionStatus, Sessions, StoreError, nul, page::Cursor,
};

#[async_trait]
impl Sessions for PostgresStore {
    async fn create_session(&self, session: NewSession) -> Result<SessionRow> {
        nul::session(&session)?;
        let mut sql = self.parts.begin().await?;
        let outcome = create(&mut sql, &session).await;
        sql.end(outcome).await
    }

    async fn session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
        get(&mut self.parts.autocommit().await?, workspace, session).await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<SessionPage> {
        list(&mut self.parts.autocommit().await?, &filter).await
    }

    async fn end_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
        end(&mut self.parts.autocommit().await?, workspace, session).await
    }

    async fn ensure_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
        let mut sql = self.parts.begin().await?;
        let outcome = ensure(&mut sql, workspace, session).await;
        sql.end(outcome).await
    }
}

async fn create(sql: &mut Sql, new: &NewSession) -> Result<SessionRow> {
    blobs::require(sql, "spec", new.spec).await?;
    insert(sql, new).await?;
    new.same_as(lock(sql, &new.workspace, &new.id).await?)
}

/// The session, created if necessary. It must not have ended, and does not before this transaction ends.
async fn ensure(sql: &mut Sql, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
    insert(sql, &NewSession::unnamed(workspace, session)).await?;
    let row = lock(sql, workspace, session).await?;
    match row.status() {
        SessionStatus::Active => Ok(row),
        SessionStatus::Ended => {
            Err(StoreError::SessionEnded { workspace: workspace.clone(), session: session.clone() })
        }
    }
}

/// A run of the session begins with this input.
pub(super) async fn run_started(
    sql: &mut Sql,
    workspace: &WorkspaceId,
    session: &SessionId,
    agent: &AgentId,
    input_preview: &str,
) -> Result<()> {
    ensure(sql, workspace, session).await?;
    let now = millis(sql.now);
    sql.execute(
        "UPDATE sessions SET last_used_at = greatest(last_used_at, $3), agent = coalesce(agent, $4),
             summary = CASE WHEN summary = '' THEN $5 ELSE summary END
         WHERE workspace = $1 AND id = $2",
        &[&workspace.as_str(), &session.as_str(), &now, &agent.as_str(), &input_preview],
    )
    .await?;
    Ok(())
}

/// Keeps other runs from adding to the conversation before this transaction ends.
pub(super) async fn touch(sql: &mut Sql, workspace: &WorkspaceId, session: &SessionId) -> Result<()> {
    let now = millis(sql.now);
    sql.execute(
        "UPDATE sessions SET last_used_at = greatest(last_used_at, $3) WHERE workspace = $1 AND id = $2",
        &[&workspace.as_str(), &session.as_str(), &now],
    )
    .await?;
    Ok(())
}

async fn end(sql: &mut Sql, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
    let now = millis(sql.now);
    let row = sql
        .query_opt(
            &format!(
                "UPDATE sessions SET ended_at = coalesce(ended_at, $3) WHERE workspace = $1 AND id = $2
                 RETURNING {COLUMNS}"
            ),
            &[&workspace.as_str(), &session.as_str(), &now],
        )
        .await?;
    row.as_ref().map(from_row).transpose()
}

async fn get(sql: &mut Sql, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
    let row = sql
        .query_opt(
            &format!("SELECT {COLUMNS} FROM sessions WHERE workspace = $1 AND id = $2"),
            &[&workspace.as_str(), &session.as_str()],
        )
        .await?;
    row.as_ref().map(from_row).transpose()
}

async fn list(sql: &mut Sql, wanted: &SessionFilter) -> Result<SessionPage> {
    let mut filter = Filter::of(wanted.conditions())?;
    let total = if wanted.total { Some(filter.count(sql, "sessions").await?) } else { None };
    let mut offset = wanted.offset;
    if let Some(cursor) = &wanted.cursor {
        filter.comes_after("last_used_at", &Cursor::parse(cursor)?);
        offset = 0;
    }
    let page = filter.page(sql, ("sessions", COLUMNS, "last_used_at"), (wanted.limit, offset), from_row).await?;
    let (sessions, next, unreadable) = page.end(|row| Cursor { at: row.last_used_at, id: row.id.as_str() }.to_string());
    Ok(SessionPage { sessions, next, unreadable, total })
}

async fn insert(sql: &mut Sql, new: &NewSession) -> Result<()> {
    let now = millis(sql.now);
    sql.execute(
        "INSERT INTO sessions (workspace, id, name, spec, metadata, tags, agent, summary, created_at, last_used_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, '', $8, $8) ON CONFLICT DO NOTHING",
        &[
            &new.workspace.as_str(),
            &new.id.as_str(),
            &new.name,
            &new.spec.map(hex),
            &json_text(&new.metadata)?,
            &label_tags(&new.metadata)?,
            &new.agent.as_ref().map(AgentId::as_str),
            &now,
        ],
    )
    .await?;
    Ok(())
}

/// A session that was inserted in the same transaction if it was not there.
async fn lock(sql: &mut Sql, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
    let row = sql
        .query_one(
            &format!("SELECT {COLUMNS} FROM sessions WHERE workspace = $1 AND id = $2 FOR NO KEY UPDATE"),
            &[&workspace.as_str(), &session.as_str()],
        )
        .await?;
    from_row(&row)
}

const COLUMNS: &str = "workspace, id, name, spec, metadata, agent, summary, created_at, last_used_at, ended_at";

fn from_row(row: &Row) -> Result<SessionRow> {
    Ok(SessionRow {
        workspace: WorkspaceId::new(row.text("workspace")?),
        id: SessionId::new(row.text("id")?),
        name: row.text_opt("name")?,
        spec: row.digest_opt("spec")?,
        metadata: row.json("metadata")?,
        agent: row.text_opt("agent")?.map(AgentId::new),
        summary: row.text("summary")?,
        created_at: row.time("created_at")?,
        last_used_at: row.time("last_used_at")?,
        ended_at: row.time_opt("ended_at")?,
    })
}
