//! The rows of sessions: created explicitly or by their first run, listed, used, ended.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windlass_core::{
    ids::{AgentId, SessionId, WorkspaceId},
    time::Timestamp,
};

use super::{
    SqliteStore,
    access::Tx,
    blobs,
    columns::{Bytes, Json, Uint},
    filter::Filter,
};
use crate::{
    NewSession, Result, SessionFilter, SessionPage, SessionRow, SessionStatus, Sessions, StoreError, nul, page::Cursor,
};

#[async_trait]
impl Sessions for SqliteStore {
    async fn create_session(&self, session: NewSession) -> Result<SessionRow> {
        nul::session(&session)?;
        self.parts.write(move |tx| create(tx, &session)).await
    }

    async fn session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.read(move |sql| get(sql, &workspace, &session)).await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<SessionPage> {
        self.parts.read(move |sql| list(sql, &filter)).await
    }

    async fn end_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.write_long(move |tx| end(tx, &workspace, &session)).await
    }

    async fn ensure_session(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.write(move |tx| ensure(tx, &workspace, &session)).await
    }
}

fn create(tx: &Tx<'_>, new: &NewSession) -> Result<SessionRow> {
    let spec = blobs::require(tx.sql, "spec", new.spec)?;
    insert(tx, new, spec)?;
    new.same_as(require(tx.sql, &new.workspace, &new.id)?)
}

/// The session, created if necessary. It must not have ended.
fn ensure(tx: &Tx<'_>, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
    insert(tx, &NewSession::unnamed(workspace, session), None)?;
    let row = require(tx.sql, workspace, session)?;
    match row.status() {
        SessionStatus::Active => Ok(row),
        SessionStatus::Ended => {
            Err(StoreError::SessionEnded { workspace: workspace.clone(), session: session.clone() })
        }
    }
}

/// A run of the session begins with this input.
pub(super) fn run_started(
    tx: &Tx<'_>,
    workspace: &WorkspaceId,
    session: &SessionId,
    agent: &AgentId,
    input_preview: &str,
) -> Result<()> {
    ensure(tx, workspace, session)?;
    tx.sql
        .prepare_cached(
            "UPDATE sessions SET last_used_at = max(last_used_at, ?3), agent = coalesce(agent, ?4),
                 summary = CASE WHEN summary = '' THEN ?5 ELSE summary END
             WHERE workspace = ?1 AND id = ?2",
        )?
        .execute(params![workspace.as_str(), session.as_str(), Uint::from(tx.now), agent.as_str(), input_preview])?;
    Ok(())
}

pub(super) fn touch(tx: &Tx<'_>, workspace: &WorkspaceId, session: &SessionId) -> Result<()> {
    tx.sql
        .prepare_cached("UPDATE sessions SET last_used_at = max(last_used_at, ?3) WHERE workspace = ?1 AND id = ?2")?
        .execute(params![workspace.as_str(), session.as_str(), Uint::from(tx.now)])?;
    Ok(())
}

fn end(tx: &Tx<'_>, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
    tx.sql
        .prepare_cached("UPDATE sessions SET ended_at = coalesce(ended_at, ?3) WHERE workspace = ?1 AND id = ?2")?
        .execute(params![workspace.as_str(), session.as_str(), Uint::from(tx.now)])?;
    get(tx.sql, workspace, session)
}

fn get(sql: &Connection, workspace: &WorkspaceId, session: &SessionId) -> Result<Option<SessionRow>> {
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE workspace = ?1 AND id = ?2"))?
        .query_row([workspace.as_str(), session.as_str()], from_row)
        .optional()?;
    Ok(found)
}

fn list(sql: &Connection, wanted: &SessionFilter) -> Result<SessionPage> {
    let mut filter = Filter::of(wanted.conditions());
    let total = wanted.total.then(|| filter.count(sql, "sessions")).transpose()?;
    let mut offset = wanted.offset;
    if let Some(cursor) = &wanted.cursor {
        filter.comes_after("last_used_at", &Cursor::parse(cursor)?);
        offset = 0;
    }
    let page = filter.page(sql, ("sessions", COLUMNS, "last_used_at"), (wanted.limit, offset), from_row)?;
    let (sessions, next, unreadable) = page.end(|row| Cursor { at: row.last_used_at, id: row.id.as_str() }.to_string());
    Ok(SessionPage { sessions, next, unreadable, total })
}

fn insert(tx: &Tx<'_>, new: &NewSession, spec: Option<i64>) -> Result<()> {
    tx.sql
        .prepare_cached(
            "INSERT INTO sessions (workspace, id, name, spec, metadata, agent, created_at, last_used_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            new.workspace.as_str(),
            new.id.as_str(),
            new.name,
            spec,
            Json(&new.metadata),
            new.agent.as_ref().map(AgentId::as_str),
            Uint::from(tx.now)
        ])?;
    Ok(())
}

/// A session that was inserted in the same transaction if it was not there.
fn require(sql: &Connection, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
    get(sql, workspace, session)?
        .ok_or_else(|| StoreError::Corrupt { detail: format!("session {session} is not where it was written") })
}

pub(super) const COLUMNS: &str = "workspace, id, name, (SELECT digest FROM blobs WHERE number = spec) AS spec, metadata, agent, summary, created_at, last_used_at, ended_at";

pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        workspace: WorkspaceId::new(row.get::<_, String>("workspace")?),
        id: SessionId::new(row.get::<_, String>("id")?),
        name: row.get("name")?,
        spec: row.get::<_, Option<Bytes>>("spec")?.map(|Bytes(digest)| digest),
        metadata: row.get::<_, Json<_>>("metadata")?.0,
        agent: row.get::<_, Option<String>>("agent")?.map(AgentId::new),
        summary: row.get("summary")?,
        created_at: row.get::<_, Uint>("created_at")?.into(),
        last_used_at: row.get::<_, Uint>("last_used_at")?.into(),
        ended_at: row.get::<_, Option<Uint>>("ended_at")?.map(Timestamp::from),
    })
}
