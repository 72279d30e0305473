//! Encrypted secrets, by workspace and name.

use async_trait::async_trait;
use tokio_postgres::Row;
use windlass_core::ids::WorkspaceId;

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, millis, readable},
};
use crate::{PushConfigRow, Result, SealedSecret, SecretOwner, SecretRow, Secrets, StoreError, secrets::INSTALLATION};

#[async_trait]
impl Secrets for PostgresStore {
    async fn put_secret(&self, secret: SealedSecret) -> Result<(SecretRow, SealedSecret)> {
        let mut sql = self.parts.begin().await?;
        let outcome = put(&mut sql, &secret).await;
        sql.end(outcome).await
    }

    async fn sealed_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<SealedSecret>> {
        Ok(get(&mut self.parts.autocommit().await?, workspace, name).await?.map(|(_, sealed)| sealed))
    }

    async fn secrets(&self, workspace: &WorkspaceId) -> Result<Vec<SecretRow>> {
        list(&mut self.parts.autocommit().await?, workspace).await
    }

    async fn remove_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<bool> {
        remove(&mut self.parts.autocommit().await?, workspace, name).await
    }

    async fn secrets_of_other_keys(
        &self,
        key_id: &str,
        after: Option<(WorkspaceId, String)>,
        limit: u32,
    ) -> Result<Vec<SealedSecret>> {
        of_other_keys(&mut self.parts.autocommit().await?, key_id, after.as_ref(), limit).await
    }

    async fn replace_sealed(&self, old: &SealedSecret, new: SealedSecret) -> Result<bool> {
        replace(&mut self.parts.autocommit().await?, &old.nonce, &new).await
    }
}

async fn put(sql: &mut Sql, new: &SealedSecret) -> Result<(SecretRow, SealedSecret)> {
    let owner = new.owner.as_ref();
    let (run, session) = (owner.and_then(SecretOwner::run), owner.and_then(SecretOwner::session));
    // One writer per workspace, so that the limit holds.
    sql.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&format!("secrets:{}", new.workspace)])
        .await?;
    let others = sql
        .query_one(
            "SELECT count(*) FROM secrets WHERE workspace = $1 AND name <> $2
                 AND owner_run IS NOT DISTINCT FROM $3 AND owner_session IS NOT DISTINCT FROM $4",
            &[&new.workspace.as_str(), &new.name, &run, &session],
        )
        .await?
        .uint("count")?;
    new.check_limit(others)?;
    let now = millis(sql.now);
    // What was split from a spec is kept as it was first, and so are the installation's own secrets.
    sql.execute(
        "INSERT INTO secrets (workspace, name, owner_run, owner_session, key_id, nonce, ciphertext, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
         ON CONFLICT (workspace, name) DO UPDATE
             SET key_id = excluded.key_id, nonce = excluded.nonce, ciphertext = excluded.ciphertext,
                 updated_at = excluded.updated_at
             WHERE secrets.owner_run IS NULL AND secrets.owner_session IS NULL AND secrets.workspace <> $9",
        &[
            &new.workspace.as_str(),
            &new.name,
            &run,
            &session,
            &new.key_id,
            &new.nonce,
            &new.ciphertext,
            &now,
            &INSTALLATION,
        ],
    )
    .await?;
    get(sql, &new.workspace, &new.name)
        .await?
        .ok_or_else(|| StoreError::Corrupt { detail: format!("secret {} is missing after it was written", new.name) })
}

async fn get(sql: &mut Sql, workspace: &WorkspaceId, name: &str) -> Result<Option<(SecretRow, SealedSecret)>> {
    // A text that Postgres cannot hold is the name of no secret.
    if name.contains('\0') {
        return Ok(None);
    }
    let statement = format!("SELECT {COLUMNS} FROM secrets WHERE workspace = $1 AND name = $2");
    let row = sql.query_opt(&statement, &[&workspace.as_str(), &name]).await?;
    row.map(|row| Ok((row_of(&row)?, sealed_of(&row)?))).transpose()
}

async fn list(sql: &mut Sql, workspace: &WorkspaceId) -> Result<Vec<SecretRow>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM secrets
         WHERE workspace = $1 AND owner_run IS NULL AND owner_session IS NULL ORDER BY name"
    );
    readable(&sql.query(&statement, &[&workspace.as_str()]).await?, ("secrets", "name"), row_of)
}

async fn remove(sql: &mut Sql, workspace: &WorkspaceId, name: &str) -> Result<bool> {
    if name.contains('\0') {
        return Ok(false);
    }
    let removed = sql
        .execute(
            "DELETE FROM secrets WHERE workspace = $1 AND name = $2 AND owner_run IS NULL AND owner_session IS NULL",
            &[&workspace.as_str(), &name],
        )
        .await?;
    Ok(removed == 1)
}

async fn of_other_keys(
    sql: &mut Sql,
    key_id: &str,
    after: Option<&(WorkspaceId, String)>,
    limit: u32,
) -> Result<Vec<SealedSecret>> {
    let (workspace, name) = after.map_or(("", ""), |(workspace, name)| (workspace.as_str(), name.as_str()));
    let statement = format!(
        "SELECT {COLUMNS} FROM secrets WHERE key_id <> $1 AND (workspace, name) > ($2, $3)
         ORDER BY workspace, name LIMIT $4"
    );
    let rows = sql.query(&statement, &[&key_id, &workspace, &name, &i64::from(limit)]).await?;
    readable(&rows, ("secrets", "name"), sealed_of)
}

/// A nonce is used once, so it tells whether the row is still the one that was read.
async fn replace(sql: &mut Sql, old_nonce: &[u8], new: &SealedSecret) -> Result<bool> {
    let replaced = sql
        .execute(
            "UPDATE secrets SET key_id = $4, nonce = $5, ciphertext = $6
             WHERE workspace = $1 AND name = $2 AND nonce = $3",
            &[&new.workspace.as_str(), &new.name, &old_nonce, &new.key_id, &new.nonce, &new.ciphertext],
        )
        .await?;
    Ok(replaced == 1)
}

/// These runs are deleted, and what was split from their specs with them.
pub(super) async fn delete_of_runs(sql: &mut Sql, runs: &[String]) -> Result<()> {
    sql.execute(
        "DELETE FROM secrets USING runs
         WHERE runs.id = ANY($1) AND owner_run = runs.id AND secrets.workspace = runs.workspace",
        &[&runs],
    )
    .await?;
    Ok(())
}

pub(super) async fn delete_of_session(sql: &mut Sql, workspace: &str, session: &str) -> Result<()> {
    sql.execute("DELETE FROM secrets WHERE workspace = $1 AND owner_session = $2", &[&workspace, &session]).await?;
    Ok(())
}

/// The push config is deleted or replaced, and its address and credentials with it.
pub(super) async fn delete_of_config(sql: &mut Sql, config: &PushConfigRow) -> Result<()> {
    sql.execute(
        "DELETE FROM secrets WHERE workspace = $1 AND name = $2 AND owner_run = $3",
        &[&config.workspace.as_str(), &config.secret, &config.run.as_str()],
    )
    .await?;
    Ok(())
}

/// Deletes secrets whose owner was never created, or was deleted while they were written.
pub(super) async fn delete_ownerless(sql: &mut Sql, before: i64) -> Result<()> {
    sql.execute(
        "DELETE FROM secrets
         WHERE created_at < $1 AND (owner_run IS NOT NULL OR owner_session IS NOT NULL)
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = owner_run AND runs.workspace = secrets.workspace)
             AND NOT EXISTS (SELECT 1 FROM sessions
                             WHERE sessions.id = owner_session AND sessions.workspace = secrets.workspace)",
        &[&before],
    )
    .await?;
    Ok(())
}

const COLUMNS: &str = "workspace, name, owner_run, owner_session, key_id, nonce, ciphertext, created_at, updated_at";

fn row_of(row: &Row) -> Result<SecretRow> {
    Ok(SecretRow {
        name: row.text("name")?,
        key_id: row.text("key_id")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

fn sealed_of(row: &Row) -> Result<SealedSecret> {
    Ok(SealedSecret {
        workspace: WorkspaceId::new(row.text("workspace")?),
        name: row.text("name")?,
        owner: SecretOwner::from_columns(row.text_opt("owner_run")?, row.text_opt("owner_session")?),
        key_id: row.text("key_id")?,
        nonce: row.bytes("nonce")?.to_vec(),
        ciphertext: row.bytes("ciphertext")?.to_vec(),
    })
}
