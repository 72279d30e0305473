//! Keys of the API.

use async_trait::async_trait;
use tokio_postgres::Row;
use windlass_core::ids::WorkspaceId;

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, json_text, millis, readable},
};
use crate::{ApiKeyRow, KeyHash, Keys, NewApiKey, Result, StoreError, nul};

#[async_trait]
impl Keys for PostgresStore {
    async fn create_key(&self, key: NewApiKey) -> Result<ApiKeyRow> {
        nul::key(&key)?;
        create(&mut self.parts.autocommit().await?, key).await
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKeyRow>> {
        get(&mut self.parts.autocommit().await?, id).await
    }

    async fn keys(&self, workspace: &WorkspaceId) -> Result<Vec<ApiKeyRow>> {
        list(&mut self.parts.autocommit().await?, workspace).await
    }

    async fn revoke_key(&self, workspace: &WorkspaceId, id: &str) -> Result<Option<ApiKeyRow>> {
        revoke(&mut self.parts.autocommit().await?, workspace, id).await
    }

    async fn touch_key(&self, id: &str) -> Result<()> {
        touch(&mut self.parts.autocommit().await?, id).await
    }
}

async fn create(sql: &mut Sql, new: NewApiKey) -> Result<ApiKeyRow> {
    let agents = new.agents.as_ref().map(json_text).transpose()?;
    let roles = if new.roles.is_empty() { None } else { Some(json_text(&new.roles)?) };
    let now = millis(sql.now);
    let row = sql
        .query_opt(
            &format!(
                "INSERT INTO api_keys (id, workspace, name, prefix, hash, scopes, agents, created_at, expires_at, roles)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING {COLUMNS}"
            ),
            &[
                &new.id,
                &new.workspace.as_str(),
                &new.name,
                &new.prefix,
                &new.hash.0,
                &json_text(&new.scopes)?,
                &agents,
                &now,
                &new.expires_at.map(millis),
                &roles,
            ],
        )
        .await?;
    from_row(&row.ok_or(StoreError::KeyExists { id: new.id })?)
}

async fn get(sql: &mut Sql, id: &str) -> Result<Option<ApiKeyRow>> {
    let row = sql.query_opt(&format!("SELECT {COLUMNS} FROM api_keys WHERE id = $1"), &[&id]).await?;
    row.as_ref().map(from_row).transpose()
}

async fn list(sql: &mut Sql, workspace: &WorkspaceId) -> Result<Vec<ApiKeyRow>> {
    let statement = format!("SELECT {COLUMNS} FROM api_keys WHERE workspace = $1 ORDER BY created_at DESC, id DESC");
    readable(&sql.query(&statement, &[&workspace.as_str()]).await?, ("api_keys", "id"), from_row)
}

async fn revoke(sql: &mut Sql, workspace: &WorkspaceId, id: &str) -> Result<Option<ApiKeyRow>> {
    let now = millis(sql.now);
    let row = sql
        .query_opt(
            &format!(
                "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE id = $1 AND workspace = $2
                 RETURNING {COLUMNS}"
            ),
            &[&id, &workspace.as_str(), &now],
        )
        .await?;
    row.as_ref().map(from_row).transpose()
}

async fn touch(sql: &mut Sql, id: &str) -> Result<()> {
    let now = sql.now;
    if get(sql, id).await?.is_some_and(|key| key.use_is_worth_noting(now)) {
        sql.execute("UPDATE api_keys SET last_used_at = $2 WHERE id = $1", &[&id, &millis(now)]).await?;
    }
    Ok(())
}

const COLUMNS: &str =
    "id, workspace, name, prefix, hash, scopes, agents, created_at, last_used_at, revoked_at, expires_at, roles";

fn from_row(row: &Row) -> Result<ApiKeyRow> {
    Ok(ApiKeyRow {
        id: row.text("id")?,
        workspace: WorkspaceId::new(row.text("workspace")?),
        name: row.text("name")?,
        prefix: row.text("prefix")?,
        hash: KeyHash(row.bytes("hash")?.to_vec()),
        scopes: row.json("scopes")?,
        roles: row.json_opt("roles")?.unwrap_or_default(),
        agents: row.json_opt("agents")?,
        created_at: row.time("created_at")?,
        last_used_at: row.time_opt("last_used_at")?,
        revoked_at: row.time_opt("revoked_at")?,
        expires_at: row.time_opt("expires_at")?,
    })
}
