//! Deletes runs and sessions that ended long enough ago.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};
use windlass_core::{ids::RunId, time::Timestamp};

use super::{
    access::Tx,
    approvals, blobs,
    columns::{Uint, readable},
    secrets,
    sweep_counts::COUNTS,
};
use crate::{
    Result, Retention, Swept,
    sweep_counts::OLDEST_OPEN_RUN,
    sweeping::{self, PUT_BODIES},
};

pub(super) fn sweep(tx: &Tx<'_>, retention: Retention) -> Result<Swept> {
    let mut freed = BTreeSet::new();
    let mut swept = Swept::default();
    let runs = finished_runs(tx.sql, retention)?;
    for run in &runs {
        swept.events += delete_run(tx.sql, run, &mut freed)?;
    }
    let sessions = finished_sessions(tx.sql, retention)?;
    for (workspace, session) in &sessions {
        delete_session(tx.sql, workspace, session, &mut freed)?;
    }
    secrets::delete_ownerless(tx.sql, retention.before)?;
    approvals::delete_ownerless(tx.sql, retention.before)?;
    let horizon = sweeping::horizon(retention.before, oldest_open_run(tx.sql)?);
    // The newest first: a body is newer than those that parts of it are stored in.
    for body in freed.iter().rev() {
        swept.blobs += delete_body(tx.sql, *body, horizon)?;
    }
    let put = put_before(tx.sql, horizon, PUT_BODIES)?;
    for body in &put {
        let deleted = delete_body(tx.sql, *body, horizon)?;
        swept.blobs += deleted;
        if deleted == 0 {
            // Something refers to it. The sweep that deletes the last reference looks at it again.
            tx.sql.prepare_cached("UPDATE blobs SET put_at = NULL WHERE number = ?1")?.execute([body])?;
        }
    }
    swept.runs = runs.len() as u64;
    swept.sessions = sessions.len() as u64;
    // Bodies that are left were beyond the limit, or a body that was deleted just now was the last to refer to them.
    let left = put_before(tx.sql, horizon, 1)?;
    swept.more = [runs.len(), sessions.len()].contains(&(retention.limit as usize)) || !left.is_empty();
    Ok(swept)
}

/// Counts what sweeps would delete.
pub(super) fn count(sql: &Connection, before: Timestamp) -> Result<Swept> {
    let at = Uint::from(before);
    let oldest =
        sql.prepare_cached(OLDEST_OPEN_RUN)?.query_row(params![at], |row| row.get::<_, Option<Uint>>("oldest"))?;
    let horizon = sweeping::horizon(before, oldest.map(Timestamp::from));
    let counts = sql.prepare_cached(COUNTS)?.query_row(params![at, Uint::from(horizon)], |row| {
        let count = |column| row.get::<_, Uint>(column).map(|Uint(count)| count);
        let [runs, events, sessions, blobs] = [count("runs")?, count("events")?, count("sessions")?, count("blobs")?];
        Ok(Swept { runs, events, sessions, blobs, more: false })
    })?;
    Ok(counts)
}

fn finished_runs(sql: &Connection, retention: Retention) -> Result<Vec<RunId>> {
    let mut runs = sql.prepare_cached(
            "SELECT id FROM (SELECT id, closed_at AS over_at FROM runs WHERE closed_at < ?1
                             UNION ALL
                             SELECT id, created_at FROM runs WHERE closed_at IS NULL AND created_at < ?1 AND execution = '')
             ORDER BY over_at, id LIMIT ?2",
        )?;
    let runs = runs.query(params![Uint::from(retention.before), retention.limit])?;
    readable(runs, ("runs", 0), |row| Ok(RunId::new(row.get::<_, String>(0)?)))
}

/// Deletes the run, adds the bodies it referred to and returns how many events it had.
fn delete_run(sql: &Connection, run: &RunId, freed: &mut BTreeSet<i64>) -> Result<u64> {
    let number: i64 =
        sql.prepare_cached("SELECT number FROM runs WHERE id = ?1")?.query_row([run.as_str()], |row| row.get(0))?;
    let mut bodies = sql.prepare_cached(
        "SELECT blob FROM run_messages WHERE run = ?1
         UNION SELECT result FROM tool_calls WHERE run = ?1 AND result IS NOT NULL
         UNION SELECT spec FROM runs WHERE number = ?1 AND spec IS NOT NULL
         UNION SELECT blobs.number FROM runs JOIN blobs
             ON substr(digest, 1, 8) = substr(agent_digest, 1, 8) AND digest = agent_digest
             WHERE runs.number = ?1",
    )?;
    freed.extend(readable(bodies.query([number])?, ("run_messages", 0), |row| row.get::<_, i64>(0))?);
    let events = sql.prepare_cached("DELETE FROM events WHERE run = ?1")?.execute([number])?;
    for table in ["run_messages", "plans", "tool_calls", "starts"] {
        sql.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?.execute([number])?;
    }
    sql.prepare_cached("DELETE FROM push_configs WHERE run_id = ?1")?.execute([run.as_str()])?;
    secrets::delete_of_run(sql, run.as_str())?;
    approvals::delete_of_run(sql, run.as_str())?;
    sql.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([run.as_str()])?;
    Ok(events as u64)
}

fn finished_sessions(sql: &Connection, retention: Retention) -> Result<Vec<(String, String)>> {
    let mut sessions = sql.prepare_cached(
            "SELECT workspace, id FROM sessions
             WHERE ended_at < ?1
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.id AND runs.workspace = sessions.workspace)
             ORDER BY ended_at, workspace, id LIMIT ?2",
        )?;
    let sessions = sessions.query(params![Uint::from(retention.before), retention.limit])?;
    readable(sessions, ("sessions", 1), |row| Ok((row.get(0)?, row.get(1)?)))
}

fn delete_session(sql: &Connection, workspace: &str, session: &str, freed: &mut BTreeSet<i64>) -> Result<()> {
    let mut bodies = sql.prepare_cached(
        "SELECT blob FROM session_messages WHERE workspace = ?1 AND session = ?2
         UNION SELECT spec FROM sessions WHERE workspace = ?1 AND id = ?2 AND spec IS NOT NULL",
    )?;
    freed.extend(readable(bodies.query([workspace, session])?, ("session_messages", 0), |row| row.get::<_, i64>(0))?);
    sql.prepare_cached("DELETE FROM session_messages WHERE workspace = ?1 AND session = ?2")?
        .execute([workspace, session])?;
    secrets::delete_of_session(sql, workspace, session)?;
    approvals::delete_of_session(sql, workspace, session)?;
    sql.prepare_cached("DELETE FROM sessions WHERE workspace = ?1 AND id = ?2")?.execute([workspace, session])?;
    Ok(())
}

fn oldest_open_run(sql: &Connection) -> Result<Option<Timestamp>> {
    // A time that was never written must not end all sweeping: what is older than everything keeps everything.
    let oldest = sql
        .prepare_cached("SELECT max(min(created_at), 0) FROM runs WHERE closed_at IS NULL")?
        .query_row([], |row| row.get::<_, Option<Uint>>(0))?;
    Ok(oldest.map(Timestamp::from))
}

fn put_before(sql: &Connection, horizon: Timestamp, limit: u32) -> Result<Vec<i64>> {
    let mut bodies =
        sql.prepare_cached("SELECT number FROM blobs WHERE put_at < ?1 ORDER BY put_at, number LIMIT ?2")?;
    readable(bodies.query(params![Uint::from(horizon), limit])?, ("blobs", 0), |row| row.get(0))
}

/// Deletes the body unless something keeps it; returns how many that were. Parts of it that other bodies refer to move
/// there. The files that it refers to are from then on as if they had been put long ago: this sweep looks at them, or the
/// next one does.
fn delete_body(sql: &Connection, body: i64, horizon: Timestamp) -> Result<u64> {
    let free = sql
        .prepare_cached(
            "SELECT 1 FROM blobs WHERE number = ?1 AND (put_at IS NULL OR put_at < ?2)
                 AND NOT EXISTS (SELECT 1 FROM run_messages WHERE blob = ?1)
                 AND NOT EXISTS (SELECT 1 FROM session_messages WHERE blob = ?1)
                 AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE result = ?1)
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE spec = ?1)
                 AND NOT EXISTS (SELECT 1 FROM runs
                                 WHERE substr(agent_digest, 1, 8) = substr(digest, 1, 8) AND agent_digest = digest)
                 AND NOT EXISTS (SELECT 1 FROM sessions WHERE spec = ?1)
                 AND NOT EXISTS (SELECT 1 FROM body_refs WHERE target = digest)",
        )?
        .exists(params![body, Uint::from(horizon)])?;
    if !free {
        return Ok(0);
    }
    blobs::detach(sql, body)?;
    let files: Vec<Vec<u8>> = sql
        .prepare_cached("SELECT target FROM body_refs WHERE body = ?1")?
        .query_map([body], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for file in &files {
        sql.prepare_cached(
            "UPDATE blobs SET put_at = 0
             WHERE put_at IS NULL AND substr(digest, 1, 8) = substr(?1, 1, 8) AND digest = ?1",
        )?
        .execute([file])?;
    }
    if !files.is_empty() {
        sql.prepare_cached("DELETE FROM body_refs WHERE body = ?1")?.execute([body])?;
    }
    Ok(sql.prepare_cached("DELETE FROM blobs WHERE number = ?1")?.execute([body])? as u64)
}
