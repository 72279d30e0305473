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

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_authority.sql"),
    include_str!("migrations/0003_start.sql"),
    include_str!("migrations/0004_secrets.sql"),
];

/// The advisory lock of whoever migrates: "windlass" as a number.
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
    let found = sql.query_opt("SELECT version FROM schema_versions WHERE component = 'store'", &[]).await?;
    let found = found.map(|row| row.uint("version")).transpose()?.unwrap_or(0);
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    let Some(missing) = MIGRATIONS.get(found..) else {
        let database = format!("the Postgres database {database}");
        return Err(StoreError::NewerSchema { database, found, supported: MIGRATIONS.len() });
    };
    for migration in missing {
        sql.script(migration).await?;
    }
    if !missing.is_empty() {
        sql.execute(
            "INSERT INTO schema_versions (component, version) VALUES ('store', $1)
             ON CONFLICT (component) DO UPDATE SET version = excluded.version",
            &[&int(MIGRATIONS.len() as u64)],
        )
        .await?;
    }
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
