//! Keys of the API.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windlass_core::{ids::WorkspaceId, time::Timestamp};

use super::{
    SqliteStore,
    access::Tx,
    columns::{Json, Uint, readable},
};
use crate::{ApiKeyRow, KeyHash, Keys, NewApiKey, Result, StoreError, nul};

#[async_trait]
impl Keys for SqliteStore {
    async fn create_key(&self, key: NewApiKey) -> Result<ApiKeyRow> {
        nul::key(&key)?;
        self.parts.write(move |tx| create(tx, &key)).await
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKeyRow>> {
        let id = id.to_owned();
        self.parts.read(move |sql| get(sql, &id)).await
    }

    async fn keys(&self, workspace: &WorkspaceId) -> Result<Vec<ApiKeyRow>> {
        let workspace = workspace.clone();
        self.parts.read(move |sql| list(sql, &workspace)).await
    }

    async fn revoke_key(&self, workspace: &WorkspaceId, id: &str) -> Result<Option<ApiKeyRow>> {
        let (workspace, id) = (workspace.clone(), id.to_owned());
        self.parts.write(move |tx| revoke(tx, &workspace, &id)).await
    }

    async fn touch_key(&self, id: &str) -> Result<()> {
        let (stale, now) = (id.to_owned(), (self.parts.clock)());
        if self.parts.read(move |sql| is_stale(sql, &stale, now)).await? {
            let id = id.to_owned();
            self.parts.write(move |tx| touch(tx, &id)).await?;
        }
        Ok(())
    }
}

fn create(tx: &Tx<'_>, new: &NewApiKey) -> Result<ApiKeyRow> {
    let inserted = tx
        .sql
        .prepare_cached(
            "INSERT INTO api_keys (id, workspace, name, prefix, hash, scopes, agents, created_at, expires_at, roles)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            new.id,
            new.workspace.as_str(),
            new.name,
            new.prefix,
            new.hash.0,
            Json(&new.scopes),
            new.agents.as_ref().map(Json),
            Uint::from(tx.now),
            new.expires_at.map(Uint::from),
            (!new.roles.is_empty()).then_some(Json(&new.roles)),
        ])?;
    match get(tx.sql, &new.id)? {
        Some(row) if inserted == 1 => Ok(row),
        _ => Err(StoreError::KeyExists { id: new.id.clone() }),
    }
}

fn get(sql: &Connection, id: &str) -> Result<Option<ApiKeyRow>> {
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM api_keys WHERE id = ?1"))?
        .query_row([id], from_row)
        .optional()?;
    Ok(found)
}

fn list(sql: &Connection, workspace: &WorkspaceId) -> Result<Vec<ApiKeyRow>> {
    let mut keys = sql.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM api_keys WHERE workspace = ?1 ORDER BY created_at DESC, id DESC"
    ))?;
    readable(keys.query([workspace.as_str()])?, ("api_keys", 0), from_row)
}

fn revoke(tx: &Tx<'_>, workspace: &WorkspaceId, id: &str) -> Result<Option<ApiKeyRow>> {
    tx.sql
        .prepare_cached("UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?3) WHERE id = ?1 AND workspace = ?2")?
        .execute(params![id, workspace.as_str(), Uint::from(tx.now)])?;
    Ok(get(tx.sql, id)?.filter(|key| key.workspace == *workspace))
}

/// Whether the key exists and its last recorded use is old enough to be worth a write.
fn is_stale(sql: &Connection, id: &str, now: Timestamp) -> Result<bool> {
    Ok(get(sql, id)?.is_some_and(|key| key.use_is_worth_noting(now)))
}

fn touch(tx: &Tx<'_>, id: &str) -> Result<()> {
    tx.sql
        .prepare_cached("UPDATE api_keys SET last_used_at = ?2 WHERE id = ?1")?
        .execute(params![id, Uint::from(tx.now)])?;
    Ok(())
}

pub(super) const COLUMNS: &str =
    "id, workspace, name, prefix, hash, scopes, agents, created_at, last_used_at, revoked_at, expires_at, roles";

pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<ApiKeyRow> {
    Ok(ApiKeyRow {
        id: row.get("id")?,
        workspace: WorkspaceId::new(row.get::<_, String>("workspace")?),
        name: row.get("name")?,
        prefix: row.get("prefix")?,
        hash: KeyHash(row.get("hash")?),
        scopes: row.get::<_, Json<_>>("scopes")?.0,
        roles: row.get::<_, Option<Json<_>>>("roles")?.map(|Json(roles)| roles).unwrap_or_default(),
        agents: row.get::<_, Option<Json<_>>>("agents")?.map(|Json(agents)| agents),
        created_at: row.get::<_, Uint>("created_at")?.into(),
        last_used_at: row.get::<_, Option<Uint>>("last_used_at")?.map(Timestamp::from),
        revoked_at: row.get::<_, Option<Uint>>("revoked_at")?.map(Timestamp::from),
        expires_at: row.get::<_, Option<Uint>>("expires_at")?.map(Timestamp::from),
    })
}
