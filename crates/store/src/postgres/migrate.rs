//! Brings the tables to the version this build knows.
//!
//! A released migration is never edited; a change of the schema is a new file at the end of the list. Of several processes
//! that start at once one does the work, in one transaction, and the others wait for it and find it done.

use std::sync::Arc;

use super::{
    Parts,
    access::Sql,
    columns::{Columns as _, int},
    failure::damaged,
};
use crate::{Result, StoreError};

pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_authority.sql"),
    include_str!("migrations/0003_start.sql"),
    include_str!("migrations/0004_secrets.sql"),
    include_str!("migrations/0005_conversation_prefix.sql"),
    include_str!("migrations/0006_body_refs.sql"),
    include_str!("migrations/0007_approvals.sql"),
    include_str!("migrations/0008_push_configs.sql"),
];

/// Builds that know this many migrations can use the tables of this build: the later ones only add, or leave a view under
/// the old name. So processes of the previous build may start while a deployment replaces them one by one.
const COMPATIBLE_WITH: usize = 3;

/// The component whose version a build compares: how many migrations it must know.
const REQUIRED: &str = "store";

/// The component whose version says how many migrations were applied. Older builds do not write it: there, both are the same.
const APPLIED: &str = "store_applied";

/// The advisory lock of the process that migrates: "windlass" as a number.
const LOCK: i64 = 0x7769_6e64_6c61_7373;

pub(super) async fn migrate(parts: &Arc<Parts>, database: &str) -> Result<()> {
    let mut sql = parts.begin().await?;
    let outcome = apply(&mut sql, database).await;
    sql.end(outcome).await
}

async fn apply(sql: &mut Sql, database: &str) -> Result<()> {
    sql.query("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    sql.script(
        "CREATE TABLE IF NOT EXISTS schema_versions (component TEXT NOT NULL PRIMARY KEY, version BIGINT NOT NULL)",
    )
    .await?;
    let required = version(sql, REQUIRED).await?.unwrap_or(0);
    if required > MIGRATIONS.len() {
        let database = format!("the Postgres database {database}");
        return Err(StoreError::NewerSchema { database, found: required, supported: MIGRATIONS.len() });
    }
    let applied = version(sql, APPLIED).await?.unwrap_or(required);
    let missing = MIGRATIONS.get(applied..).unwrap_or_default();
    for migration in missing {
        sql.script(migration).await?;
    }
    if !missing.is_empty() {
        set_version(sql, REQUIRED, required.max(COMPATIBLE_WITH)).await?;
        set_version(sql, APPLIED, MIGRATIONS.len()).await?;
    }
    Ok(())
}

async fn version(sql: &mut Sql, component: &str) -> Result<Option<usize>> {
    let row = sql.query_opt("SELECT version FROM schema_versions WHERE component = $1", &[&component]).await?;
    let version = row.map(|row| row.uint("version")).transpose()?;
    Ok(version.map(|version| usize::try_from(version).unwrap_or(usize::MAX)))
}

async fn set_version(sql: &mut Sql, component: &str, version: usize) -> Result<()> {
    sql.execute(
        "INSERT INTO schema_versions (component, version) VALUES ($1, $2)
         ON CONFLICT (component) DO UPDATE SET version = excluded.version",
        &[&component, &int(version as u64)],
    )
    .await?;
    Ok(())
}

/// Writes a row that is there for this, and reads it back. A row like a component's, so that no database needs another
/// table for it; its old versions are Postgres's to clean up.
pub(super) async fn probe(sql: &mut Sql) -> Result<()> {
    let written = sql
        .query_one(
            "INSERT INTO schema_versions AS probe (component, version) VALUES ('probe', 1)
             ON CONFLICT (component) DO UPDATE SET version = probe.version + 1 RETURNING version",
            &[],
        )
        .await?
        .uint("version")?;
    let read =
        sql.query_one("SELECT version FROM schema_versions WHERE component = 'probe'", &[]).await?.uint("version")?;
    if read < written {
        return Err(damaged(format!("probe {written} was written, and {read} was read back")));
    }
    Ok(())
}
