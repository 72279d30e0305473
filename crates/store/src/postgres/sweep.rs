//! Deletes runs and sessions that ended long enough ago. Autovacuum reuses the space.

use windlass_core::time::Timestamp;

use super::{
    access::Sql,
    approvals,
    columns::{Columns as _, millis},
    secrets,
};
use crate::{
    Result, Retention, Swept,
    sweep_counts::{COUNTS, OLDEST_OPEN_RUN},
    sweeping::{self, PUT_BODIES},
};

/// The advisory lock of the process that sweeps: two sweeps would wait for each other's bodies. "sweeping" as a number.
const LOCK: i64 = 0x7377_6565_7069_6e67;

pub(super) async fn sweep(sql: &mut Sql, retention: Retention) -> Result<Swept> {
    sql.query("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let (before, limit) = (millis(retention.before), i64::from(retention.limit));
    let runs = texts(
        sql,
        "SELECT id AS text FROM runs
         WHERE closed_at < $1 OR closed_at IS NULL AND created_at < $1 AND execution IS NULL
         ORDER BY coalesce(closed_at, created_at), id LIMIT $2 FOR UPDATE SKIP LOCKED",
        &[&before, &limit],
    )
    .await?;
    let mut freed = texts(
        sql,
        "SELECT digest AS text FROM run_messages WHERE run_id = ANY($1)
         UNION SELECT result FROM tool_calls WHERE run_id = ANY($1) AND result IS NOT NULL
         UNION SELECT spec FROM runs WHERE id = ANY($1) AND spec IS NOT NULL
         UNION SELECT agent_digest FROM runs WHERE id = ANY($1) AND agent_digest IS NOT NULL",
        &[&runs],
    )
    .await?;
    let events = sql.execute("DELETE FROM events WHERE run_id = ANY($1)", &[&runs]).await?;
    for table in ["run_messages", "plans", "tool_calls", "starts", "push_configs"] {
        sql.execute(&format!("DELETE FROM {table} WHERE run_id = ANY($1)"), &[&runs]).await?;
    }
    secrets::delete_of_runs(sql, &runs).await?;
    approvals::delete_of_runs(sql, &runs).await?;
    sql.execute("DELETE FROM runs WHERE id = ANY($1)", &[&runs]).await?;

    let sessions = delete_sessions(sql, before, limit, &mut freed).await?;
    secrets::delete_ownerless(sql, before).await?;
    approvals::delete_ownerless(sql, before).await?;
    let horizon = millis(sweeping::horizon(retention.before, oldest_open_run(sql).await?));
    let mut blobs = delete_bodies(sql, &freed, horizon).await?;
    let put = put_before(sql, horizon, PUT_BODIES).await?;
    blobs += delete_bodies(sql, &put, horizon).await?;
    // Something refers to those that are left. The sweep that deletes the last reference looks at them again.
    sql.execute("UPDATE blobs SET put_at = NULL WHERE digest = ANY($1) AND put_at < $2", &[&put, &horizon]).await?;
    // Bodies that are left were beyond the limit, or a body that was deleted just now was the last to refer to them.
    let left = put_before(sql, horizon, 1).await?;
    let more = [runs.len(), sessions].contains(&(retention.limit as usize)) || !left.is_empty();
    Ok(Swept { runs: runs.len() as u64, events, sessions: sessions as u64, blobs, more })
}

/// Counts what sweeps would delete.
pub(super) async fn count(sql: &mut Sql, before: Timestamp) -> Result<Swept> {
    let at = millis(before);
    let oldest = sql.query_one(OLDEST_OPEN_RUN, &[&at]).await?.time_opt("oldest")?;
    let horizon = millis(sweeping::horizon(before, oldest));
    let counts = sql.query_one(COUNTS, &[&at, &horizon]).await?;
    let [runs, events, sessions, blobs] =
        [counts.uint("runs")?, counts.uint("events")?, counts.uint("sessions")?, counts.uint("blobs")?];
    Ok(Swept { runs, events, sessions, blobs, more: false })
}

/// Deletes sessions that ended and have no runs left, adds the bodies they referred to and returns how many they were.
async fn delete_sessions(sql: &mut Sql, before: i64, limit: i64, freed: &mut Vec<String>) -> Result<usize> {
    let rows = sql
        .query(
            "SELECT workspace, id FROM sessions
             WHERE ended_at < $1
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.id AND runs.workspace = sessions.workspace)
             ORDER BY ended_at, workspace, id LIMIT $2 FOR UPDATE SKIP LOCKED",
            &[&before, &limit],
        )
        .await?;
    for row in &rows {
        let (workspace, session) = (row.text("workspace")?, row.text("id")?);
        freed.extend(
            texts(
                sql,
                "SELECT digest AS text FROM session_messages WHERE workspace = $1 AND session = $2
                 UNION SELECT spec FROM sessions WHERE workspace = $1 AND id = $2 AND spec IS NOT NULL",
                &[&workspace, &session],
            )
            .await?,
        );
        sql.execute("DELETE FROM session_messages WHERE workspace = $1 AND session = $2", &[&workspace, &session])
            .await?;
        secrets::delete_of_session(sql, &workspace, &session).await?;
        approvals::delete_of_session(sql, &workspace, &session).await?;
        sql.execute("DELETE FROM sessions WHERE workspace = $1 AND id = $2", &[&workspace, &session]).await?;
    }
    Ok(rows.len())
}

async fn oldest_open_run(sql: &mut Sql) -> Result<Option<Timestamp>> {
    // A time that was never written must not end all sweeping: what is older than everything keeps everything.
    let oldest = "SELECT CASE WHEN min(created_at) < 0 THEN 0 ELSE min(created_at) END AS oldest
                  FROM runs WHERE closed_at IS NULL";
    sql.query_one(oldest, &[]).await?.time_opt("oldest")
}

async fn put_before(sql: &mut Sql, horizon: i64, limit: u32) -> Result<Vec<String>> {
    let statement = "SELECT digest AS text FROM blobs WHERE put_at < $1 ORDER BY put_at, digest LIMIT $2";
    texts(sql, statement, &[&horizon, &i64::from(limit)]).await
}

/// Deletes these bodies unless something keeps them; returns how many it deleted.
async fn delete_bodies(sql: &mut Sql, digests: &[String], horizon: i64) -> Result<u64> {
    sql.execute(
        "DELETE FROM blobs WHERE digest = ANY($1) AND (put_at IS NULL OR put_at < $2)
             AND NOT EXISTS (SELECT 1 FROM run_messages WHERE run_messages.digest = blobs.digest)
             AND NOT EXISTS (SELECT 1 FROM session_messages WHERE session_messages.digest = blobs.digest)
             AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE tool_calls.result = blobs.digest)
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.spec = blobs.digest)
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.agent_digest = blobs.digest)
             AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.spec = blobs.digest)
             AND NOT EXISTS (SELECT 1 FROM body_refs WHERE body_refs.target = blobs.digest)",
        &[&digests, &horizon],
    )
    .await
}

async fn texts(sql: &mut Sql, statement: &str, params: super::access::Params<'_>) -> Result<Vec<String>> {
    sql.query(statement, params).await?.iter().map(|row| row.text("text")).collect()
}
