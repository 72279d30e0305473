//! Sessions and the conversation that successful runs leave in them.

use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    ids::{RunId, SessionId, WorkspaceId},
    message::{Message, Role},
    time::Timestamp,
};

use super::{
    access::Tx,
    blobs,
    columns::{Hex, Uint},
};
use crate::{Result, SessionRow, StoreError};

pub(super) fn ensure(tx: &Tx<'_>, workspace: &WorkspaceId, session: &SessionId) -> Result<SessionRow> {
    tx.sql
        .prepare_cached("INSERT INTO sessions (workspace, id, created_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
        .execute(params![workspace.as_str(), session.as_str(), Uint::from(tx.now)])?;
    let (created_at, ended_at) = tx
        .sql
        .prepare_cached("SELECT created_at, ended_at FROM sessions WHERE workspace = ?1 AND id = ?2")?
        .query_row([workspace.as_str(), session.as_str()], |row| {
            Ok((row.get::<_, Uint>(0)?.into(), row.get::<_, Option<Uint>>(1)?.map(Timestamp::from)))
        })?;
    if ended_at.is_some() {
        return Err(StoreError::SessionEnded { workspace: workspace.clone(), session: session.clone() });
    }
    Ok(SessionRow { workspace: workspace.clone(), id: session.clone(), created_at, ended_at })
}

pub(super) fn messages(sql: &Connection, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>> {
    let mut rows = sql.prepare_cached(
        "SELECT digest, body FROM session_messages JOIN blobs USING (digest)
         WHERE workspace = ?1 AND session = ?2 ORDER BY idx",
    )?;
    let mut rows = rows.query([workspace.as_str(), session.as_str()])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(blobs::from_row(row)?.1);
    }
    Ok(messages)
}

/// Adds what the run was asked and what it answered to its session, once.
pub(super) fn close_turn(sql: &Connection, run: &RunId) -> Result<()> {
    let already = sql.prepare_cached("SELECT 1 FROM session_messages WHERE run_id = ?1")?.exists([run.as_str()])?;
    let Some(turn) = turn_of(sql, run)? else { return Ok(()) };
    if already {
        return Ok(());
    }
    let mut digests: Vec<Hex> = sql
        .prepare_cached("SELECT digest FROM transcript WHERE run_id = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY idx")?
        .query_map(params![run.as_str(), Uint(turn.first_new), Uint(turn.opening_len)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    digests.extend(last_answer(sql, run, turn.opening_len)?);

    let Uint(next) = sql
        .prepare_cached("SELECT coalesce(max(idx) + 1, 0) FROM session_messages WHERE workspace = ?1 AND session = ?2")?
        .query_row([&turn.workspace, &turn.session], |row| row.get(0))?;
    let mut insert = sql.prepare_cached(
        "INSERT INTO session_messages (workspace, session, idx, digest, run_id) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (idx, digest) in (next..).zip(digests) {
        insert.execute(params![turn.workspace, turn.session, Uint(idx), digest, run.as_str()])?;
    }
    Ok(())
}

/// Which session a run belongs to and which of its opening messages were new to it.
struct Turn {
    workspace: String,
    session: String,
    first_new: u64,
    opening_len: u64,
}

fn turn_of(sql: &Connection, run: &RunId) -> Result<Option<Turn>> {
    let turn = sql
        .prepare_cached(
            "SELECT workspace, session, opening_len - new_messages, opening_len FROM runs
             WHERE id = ?1 AND session IS NOT NULL",
        )?
        .query_row([run.as_str()], |row| {
            Ok(Turn {
                workspace: row.get(0)?,
                session: row.get(1)?,
                first_new: row.get::<_, Uint>(2)?.0,
                opening_len: row.get::<_, Uint>(3)?.0,
            })
        })
        .optional()?;
    Ok(turn)
}

/// The last message of the assistant that the run itself added.
fn last_answer(sql: &Connection, run: &RunId, opening_len: u64) -> Result<Option<Hex>> {
    let mut rows = sql.prepare_cached(
        "SELECT digest, body FROM transcript JOIN blobs USING (digest)
         WHERE run_id = ?1 AND idx >= ?2 ORDER BY idx DESC",
    )?;
    let mut rows = rows.query(params![run.as_str(), Uint(opening_len)])?;
    while let Some(row) = rows.next()? {
        let (digest, message) = blobs::from_row::<Message>(row)?;
        if message.role == Role::Assistant {
            return Ok(Some(Hex(digest)));
        }
    }
    Ok(None)
}
