//! Worker deployments, one row each.

use prost::Message as _;
use rusqlite::{Connection, params};

use super::readable;
use crate::deployments::Deployment;

/// Namespace and record of every deployment.
pub(crate) fn deployments(sql: &Connection) -> rusqlite::Result<Vec<(String, Deployment)>> {
    let mut records = sql.prepare("SELECT record, namespace, name FROM engine_deployments ORDER BY namespace, name")?;
    readable(records.query([])?, ("engine_deployments", "name"), |row| {
        let blob: Vec<u8> = row.get(0)?;
        let record = Deployment::decode(&*blob).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error))
        })?;
        Ok((row.get(1)?, record))
    })
}

pub(crate) fn save_deployment(sql: &Connection, namespace: &str, record: &Deployment) -> rusqlite::Result<()> {
    sql.prepare_cached("INSERT OR REPLACE INTO engine_deployments (namespace, name, record) VALUES (?1, ?2, ?3)")?
        .execute(params![namespace, record.name, record.encode_to_vec()])?;
    Ok(())
}

pub(crate) fn remove_deployment(sql: &Connection, namespace: &str, name: &str) -> rusqlite::Result<()> {
    sql.prepare_cached("DELETE FROM engine_deployments WHERE namespace = ?1 AND name = ?2")?
        .execute([namespace, name])?;
    Ok(())
}

/// How many open runs are pinned to a version, by the attributes that lists read.
pub(crate) fn pinned_runs(sql: &Connection, namespace: &str, version: &str) -> rusqlite::Result<i64> {
    const RUNNING: i32 = temporalio_protos::temporal::api::enums::v1::WorkflowExecutionStatus::Running as i32;
    sql.prepare_cached(
        "SELECT count(*) FROM engine_visibility WHERE namespace = ?1 AND status = ?2 AND close_time IS NULL
         AND attributes ->> '$.TemporalWorkerDeploymentVersion' = ?3
         AND attributes ->> '$.TemporalWorkflowVersioningBehavior' = 'Pinned'",
    )?
    .query_row(params![namespace, RUNNING, version], |row| row.get(0))
}
