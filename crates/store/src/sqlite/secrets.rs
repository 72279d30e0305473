//! Encrypted secrets, by workspace and name.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windlass_core::{ids::WorkspaceId, time::Timestamp};

use super::{
    SqliteStore,
    access::Tx,
    columns::{Uint, readable},
};
use crate::{PushConfigRow, Result, SealedSecret, SecretOwner, SecretRow, Secrets, StoreError, secrets::INSTALLATION};

#[async_trait]
impl Secrets for SqliteStore {
    async fn put_secret(&self, secret: SealedSecret) -> Result<(SecretRow, SealedSecret)> {
        self.parts.write(move |tx| put(tx, &secret)).await
    }

    async fn sealed_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<SealedSecret>> {
        let (workspace, name) = (workspace.clone(), name.to_owned());
        self.parts.read(move |sql| Ok(get(sql, &workspace, &name)?.map(|(_, sealed)| sealed))).await
    }

    async fn secrets(&self, workspace: &WorkspaceId) -> Result<Vec<SecretRow>> {
        let workspace = workspace.clone();
        self.parts.read(move |sql| list(sql, &workspace)).await
    }

    async fn remove_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<bool> {
        let (workspace, name) = (workspace.clone(), name.to_owned());
        self.parts.write(move |tx| remove(tx.sql, &workspace, &name)).await
    }

    async fn secrets_of_other_keys(
        &self,
        key_id: &str,
        after: Option<(WorkspaceId, String)>,
        limit: u32,
    ) -> Result<Vec<SealedSecret>> {
        let key_id = key_id.to_owned();
        self.parts.read(move |sql| of_other_keys(sql, &key_id, after.as_ref(), limit)).await
    }

    async fn replace_sealed(&self, old: &SealedSecret, new: SealedSecret) -> Result<bool> {
        let old = old.nonce.clone();
        self.parts.write(move |tx| replace(tx.sql, &old, &new)).await
    }
}

fn put(tx: &Tx<'_>, new: &SealedSecret) -> Result<(SecretRow, SealedSecret)> {
    let owner = new.owner.as_ref();
    let (run, session) = (owner.and_then(SecretOwner::run), owner.and_then(SecretOwner::session));
    let Uint(others) = tx
        .sql
        .prepare_cached(
            "SELECT count(*) FROM secrets
             WHERE workspace = ?1 AND name <> ?2 AND owner_run IS ?3 AND owner_session IS ?4",
        )?
        .query_row(params![new.workspace.as_str(), new.name, run, session], |row| row.get(0))?;
    new.check_limit(others)?;
    // What was split from a spec is kept as it was first, and so are the installation's own secrets.
    tx.sql
        .prepare_cached(
            "INSERT INTO secrets (workspace, name, owner_run, owner_session, key_id, nonce, ciphertext, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
             ON CONFLICT (workspace, name) DO UPDATE
                 SET key_id = excluded.key_id, nonce = excluded.nonce, ciphertext = excluded.ciphertext,
                     updated_at = excluded.updated_at
                 WHERE owner_run IS NULL AND owner_session IS NULL AND workspace <> ?9",
        )?
        .execute(params![
            new.workspace.as_str(),
            new.name,
            run,
            session,
            new.key_id,
            new.nonce,
            new.ciphertext,
            Uint::from(tx.now),
            INSTALLATION
        ])?;
    get(tx.sql, &new.workspace, &new.name)?
        .ok_or_else(|| StoreError::Corrupt { detail: format!("secret {} is missing after it was written", new.name) })
}

fn get(sql: &Connection, workspace: &WorkspaceId, name: &str) -> Result<Option<(SecretRow, SealedSecret)>> {
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM secrets WHERE workspace = ?1 AND name = ?2"))?
        .query_row([workspace.as_str(), name], |row| Ok((row_of(row)?, sealed_of(row)?)))
        .optional()?;
    Ok(found)
}

fn list(sql: &Connection, workspace: &WorkspaceId) -> Result<Vec<SecretRow>> {
    let mut secrets = sql.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM secrets
         WHERE workspace = ?1 AND owner_run IS NULL AND owner_session IS NULL ORDER BY name"
    ))?;
    readable(secrets.query([workspace.as_str()])?, ("secrets", 1), row_of)
}

fn remove(sql: &Connection, workspace: &WorkspaceId, name: &str) -> Result<bool> {
    let removed = sql
        .prepare_cached(
            "DELETE FROM secrets WHERE workspace = ?1 AND name = ?2 AND owner_run IS NULL AND owner_session IS NULL",
        )?
        .execute([workspace.as_str(), name])?;
    Ok(removed == 1)
}

fn of_other_keys(
    sql: &Connection,
    key_id: &str,
    after: Option<&(WorkspaceId, String)>,
    limit: u32,
) -> Result<Vec<SealedSecret>> {
    let (workspace, name) = after.map_or(("", ""), |(workspace, name)| (workspace.as_str(), name.as_str()));
    let mut secrets = sql.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM secrets WHERE key_id <> ?1 AND (workspace, name) > (?2, ?3)
         ORDER BY workspace, name LIMIT ?4"
    ))?;
    readable(secrets.query(params![key_id, workspace, name, limit])?, ("secrets", 1), sealed_of)
}

/// A nonce is used once, so it tells whether the row is still the one that was read.
fn replace(sql: &Connection, old_nonce: &[u8], new: &SealedSecret) -> Result<bool> {
    let replaced = sql
        .prepare_cached(
            "UPDATE secrets SET key_id = ?4, nonce = ?5, ciphertext = ?6
             WHERE workspace = ?1 AND name = ?2 AND nonce = ?3",
        )?
        .execute(params![new.workspace.as_str(), new.name, old_nonce, new.key_id, new.nonce, new.ciphertext])?;
    Ok(replaced == 1)
}

/// The run is deleted, and what was split from its spec with it.
pub(super) fn delete_of_run(sql: &Connection, run: &str) -> Result<()> {
    sql.prepare_cached(
        "DELETE FROM secrets WHERE owner_run = ?1 AND workspace = (SELECT workspace FROM runs WHERE id = ?1)",
    )?
    .execute([run])?;
    Ok(())
}

pub(super) fn delete_of_session(sql: &Connection, workspace: &str, session: &str) -> Result<()> {
    sql.prepare_cached("DELETE FROM secrets WHERE workspace = ?1 AND owner_session = ?2")?
        .execute([workspace, session])?;
    Ok(())
}

/// The push config is deleted or replaced, and its address and credentials with it.
pub(super) fn delete_of_config(sql: &Connection, config: &PushConfigRow) -> Result<()> {
    sql.prepare_cached("DELETE FROM secrets WHERE workspace = ?1 AND name = ?2 AND owner_run = ?3")?.execute([
        config.workspace.as_str(),
        &config.secret,
        config.run.as_str(),
    ])?;
    Ok(())
}

/// Deletes secrets whose owner was never created, or was deleted while they were written.
pub(super) fn delete_ownerless(sql: &Connection, before: Timestamp) -> Result<()> {
    sql.prepare_cached(
        "DELETE FROM secrets
         WHERE created_at < ?1 AND (owner_run IS NOT NULL OR owner_session IS NOT NULL)
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = owner_run AND runs.workspace = secrets.workspace)
             AND NOT EXISTS (SELECT 1 FROM sessions
                             WHERE sessions.id = owner_session AND sessions.workspace = secrets.workspace)",
    )?
    .execute([Uint::from(before)])?;
    Ok(())
}

pub(super) const COLUMNS: &str =
    "workspace, name, owner_run, owner_session, key_id, nonce, ciphertext, created_at, updated_at";

pub(super) fn row_of(row: &Row<'_>) -> rusqlite::Result<SecretRow> {
    Ok(SecretRow {
        name: row.get("name")?,
        key_id: row.get("key_id")?,
        created_at: row.get::<_, Uint>("created_at")?.into(),
        updated_at: row.get::<_, Uint>("updated_at")?.into(),
    })
}

fn sealed_of(row: &Row<'_>) -> rusqlite::Result<SealedSecret> {
    Ok(SealedSecret {
        workspace: WorkspaceId::new(row.get::<_, String>("workspace")?),
        name: row.get("name")?,
        owner: SecretOwner::from_columns(row.get("owner_run")?, row.get("owner_session")?),
        key_id: row.get("key_id")?,
        nonce: row.get("nonce")?,
        ciphertext: row.get("ciphertext")?,
    })
}
