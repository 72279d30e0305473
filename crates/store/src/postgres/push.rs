//! Where updates of runs are sent.

use async_trait::async_trait;
use tokio_postgres::Row;
use windlass_core::ids::{RunId, WorkspaceId};

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, millis, readable},
    secrets,
};
use crate::{NewPushConfig, PushConfigRow, PushConfigs, Result, StoreError, nul, rows::check_push_limit};

#[async_trait]
impl PushConfigs for PostgresStore {
    async fn put_push_config(&self, config: NewPushConfig) -> Result<PushConfigRow> {
        nul::push_config(&config)?;
        let mut sql = self.parts.begin().await?;
        let outcome = put(&mut sql, &config).await;
        sql.end(outcome).await
    }

    async fn push_config(&self, run: &RunId, id: &str) -> Result<Option<PushConfigRow>> {
        get(&mut self.parts.autocommit().await?, run, id).await
    }

    async fn push_configs(&self, run: &RunId) -> Result<Vec<PushConfigRow>> {
        list(&mut self.parts.autocommit().await?, run).await
    }

    async fn end_push_config(&self, run: &RunId, id: &str, error: Option<&str>) -> Result<()> {
        if id.contains('\0') {
            return Ok(());
        }
        let mut sql = self.parts.autocommit().await?;
        let now = millis(sql.now);
        sql.execute(
            "UPDATE push_configs SET ended_at = $3, error = $4 WHERE run_id = $1 AND id = $2",
            &[&run.as_str(), &id, &now, &error],
        )
        .await?;
        Ok(())
    }

    async fn delete_push_config(&self, run: &RunId, id: &str) -> Result<bool> {
        let mut sql = self.parts.begin().await?;
        let outcome = delete(&mut sql, run, id).await;
        sql.end(outcome).await
    }
}

async fn put(sql: &mut Sql, new: &NewPushConfig) -> Result<PushConfigRow> {
    // The lock of the run's row lets one writer in at a time, so that the limit holds.
    let known = sql
        .query_opt(
            "SELECT id FROM runs WHERE id = $1 AND workspace = $2 FOR UPDATE",
            &[&new.run.as_str(), &new.workspace.as_str()],
        )
        .await?;
    if known.is_none() {
        return Err(StoreError::RunNotFound { run: new.run.clone() });
    }
    let others = list(sql, &new.run).await?.iter().filter(|row| row.id != new.id).count();
    check_push_limit(others)?;
    if let Some(old) = get(sql, &new.run, &new.id).await?
        && old.secret != new.secret
    {
        secrets::delete_of_config(sql, &old).await?;
    }
    let now = millis(sql.now);
    sql.execute(
        "INSERT INTO push_configs (run_id, id, workspace, version, secret, created_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (run_id, id)
         DO UPDATE SET version = excluded.version, secret = excluded.secret, ended_at = NULL, error = NULL",
        &[&new.run.as_str(), &new.id, &new.workspace.as_str(), &new.version, &new.secret, &now],
    )
    .await?;
    get(sql, &new.run, &new.id).await?.ok_or_else(|| StoreError::Corrupt {
        detail: format!("push config {} is missing after it was written", new.id),
    })
}

async fn get(sql: &mut Sql, run: &RunId, id: &str) -> Result<Option<PushConfigRow>> {
    // A text that Postgres cannot hold is the id of no config.
    if id.contains('\0') {
        return Ok(None);
    }
    let statement = format!("SELECT {COLUMNS} FROM push_configs WHERE run_id = $1 AND id = $2");
    let row = sql.query_opt(&statement, &[&run.as_str(), &id]).await?;
    row.as_ref().map(from_row).transpose()
}

async fn list(sql: &mut Sql, run: &RunId) -> Result<Vec<PushConfigRow>> {
    let statement = format!("SELECT {COLUMNS} FROM push_configs WHERE run_id = $1 ORDER BY created_at, id");
    readable(&sql.query(&statement, &[&run.as_str()]).await?, ("push_configs", "id"), from_row)
}

async fn delete(sql: &mut Sql, run: &RunId, id: &str) -> Result<bool> {
    let Some(old) = get(sql, run, id).await? else { return Ok(false) };
    secrets::delete_of_config(sql, &old).await?;
    sql.execute("DELETE FROM push_configs WHERE run_id = $1 AND id = $2", &[&run.as_str(), &id]).await?;
    Ok(true)
}

const COLUMNS: &str = "run_id, id, workspace, version, secret, created_at, ended_at, error";

fn from_row(row: &Row) -> Result<PushConfigRow> {
    Ok(PushConfigRow {
        run: RunId::new(row.text("run_id")?),
        id: row.text("id")?,
        workspace: WorkspaceId::new(row.text("workspace")?),
        version: row.text("version")?,
        secret: row.text("secret")?,
        created_at: row.time("created_at")?,
        ended_at: row.time_opt("ended_at")?,
        error: row.text_opt("error")?,
    })
}
