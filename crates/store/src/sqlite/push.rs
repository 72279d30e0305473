//! Where updates of runs are sent.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windlass_core::ids::{RunId, WorkspaceId};

use super::{
    SqliteStore,
    access::Tx,
    columns::{Uint, readable},
    secrets,
};
use crate::{NewPushConfig, PushConfigRow, PushConfigs, Result, StoreError, nul, rows::check_push_limit};

#[async_trait]
impl PushConfigs for SqliteStore {
    async fn put_push_config(&self, config: NewPushConfig) -> Result<PushConfigRow> {
        nul::push_config(&config)?;
        self.parts.write(move |tx| put(tx, &config)).await
    }

    async fn push_config(&self, run: &RunId, id: &str) -> Result<Option<PushConfigRow>> {
        let (run, id) = (run.clone(), id.to_owned());
        self.parts.read(move |sql| get(sql, &run, &id)).await
    }

    async fn push_configs(&self, run: &RunId) -> Result<Vec<PushConfigRow>> {
        let run = run.clone();
        self.parts.read(move |sql| list(sql, &run)).await
    }

    async fn end_push_config(&self, run: &RunId, id: &str, error: Option<&str>) -> Result<()> {
        let (run, id, error) = (run.clone(), id.to_owned(), error.map(str::to_owned));
        self.parts
            .write(move |tx| {
                tx.sql
                    .prepare_cached("UPDATE push_configs SET ended_at = ?3, error = ?4 WHERE run_id = ?1 AND id = ?2")?
                    .execute(params![run.as_str(), id, Uint::from(tx.now), error])?;
                Ok(())
            })
            .await
    }

    async fn delete_push_config(&self, run: &RunId, id: &str) -> Result<bool> {
        let (run, id) = (run.clone(), id.to_owned());
        self.parts.write(move |tx| delete(tx.sql, &run, &id)).await
    }
}

fn put(tx: &Tx<'_>, new: &NewPushConfig) -> Result<PushConfigRow> {
    let known = tx
        .sql
        .prepare_cached("SELECT 1 FROM runs WHERE id = ?1 AND workspace = ?2")?
        .exists([new.run.as_str(), new.workspace.as_str()])?;
    if !known {
        return Err(StoreError::RunNotFound { run: new.run.clone() });
    }
    let others = list(tx.sql, &new.run)?.iter().filter(|row| row.id != new.id).count();
    check_push_limit(others)?;
    if let Some(old) = get(tx.sql, &new.run, &new.id)?
        && old.secret != new.secret
    {
        secrets::delete_of_config(tx.sql, &old)?;
    }
    tx.sql
        .prepare_cached(
            "INSERT INTO push_configs (run_id, id, workspace, version, secret, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (run_id, id)
             DO UPDATE SET version = excluded.version, secret = excluded.secret, ended_at = NULL, error = NULL",
        )?
        .execute(params![
            new.run.as_str(),
            new.id,
            new.workspace.as_str(),
            new.version,
            new.secret,
            Uint::from(tx.now)
        ])?;
    get(tx.sql, &new.run, &new.id)?.ok_or_else(|| StoreError::Corrupt {
        detail: format!("push config {} is missing after it was written", new.id),
    })
}

fn get(sql: &Connection, run: &RunId, id: &str) -> Result<Option<PushConfigRow>> {
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM push_configs WHERE run_id = ?1 AND id = ?2"))?
        .query_row([run.as_str(), id], from_row)
        .optional()?;
    Ok(found)
}

fn list(sql: &Connection, run: &RunId) -> Result<Vec<PushConfigRow>> {
    let mut configs =
        sql.prepare_cached(&format!("SELECT {COLUMNS} FROM push_configs WHERE run_id = ?1 ORDER BY created_at, id"))?;
    readable(configs.query([run.as_str()])?, ("push_configs", 1), from_row)
}

fn delete(sql: &Connection, run: &RunId, id: &str) -> Result<bool> {
    let Some(old) = get(sql, run, id)? else { return Ok(false) };
    secrets::delete_of_config(sql, &old)?;
    sql.prepare_cached("DELETE FROM push_configs WHERE run_id = ?1 AND id = ?2")?.execute([run.as_str(), id])?;
    Ok(true)
}

pub(super) const COLUMNS: &str = "run_id, id, workspace, version, secret, created_at, ended_at, error";

pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<PushConfigRow> {
    Ok(PushConfigRow {
        run: RunId::new(row.get::<_, String>("run_id")?),
        id: row.get("id")?,
        workspace: WorkspaceId::new(row.get::<_, String>("workspace")?),
        version: row.get("version")?,
        secret: row.get("secret")?,
        created_at: row.get::<_, Uint>("created_at")?.into(),
        ended_at: row.get::<_, Option<Uint>>("ended_at")?.map(Into::into),
        error: row.get("error")?,
    })
}
