//! The conversation that successful runs leave in their session.

use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    ids::{RunId, SessionId, WorkspaceId},
    message::{Message, Role},
};

use super::{
    access::Tx,
    blobs,
    columns::{Hex, Uint},
    sessions,
};
use crate::{MessagePage, Result};

pub(super) fn messages(sql: &Connection, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>> {
    let page = page(sql, workspace, session, None, None)?;
    Ok(page.messages.into_iter().map(|(_, message)| message).collect())
}

pub(super) fn page(
    sql: &Connection,
    workspace: &WorkspaceId,
    session: &SessionId,
    before: Option<u64>,
    last: Option<u32>,
) -> Result<MessagePage> {
    let Uint(total) = sql
        .prepare_cached("SELECT count(*) FROM session_messages WHERE workspace = ?1 AND session = ?2")?
        .query_row([workspace.as_str(), session.as_str()], |row| row.get(0))?;
    // Places count from 1, indices from 0.
    let end = before.map_or(total, |place| place.saturating_sub(1).min(total));
    let start = last.map_or(0, |last| end.saturating_sub(last.into()));
    let mut rows = sql.prepare_cached(
        "SELECT digest, body, idx FROM session_messages JOIN blobs USING (digest)
         WHERE workspace = ?1 AND session = ?2 AND idx >= ?3 AND idx < ?4 ORDER BY idx",
    )?;
    let mut rows = rows.query(params![workspace.as_str(), session.as_str(), Uint(start), Uint(end)])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push((row.get::<_, Uint>(2)?.0 + 1, blobs::from_row(row)?.1));
    }
    Ok(MessagePage { messages, total })
}

/// Adds what the run was asked and what it answered to its session, once.
pub(super) fn close_turn(tx: &Tx<'_>, run: &RunId) -> Result<()> {
    let sql = tx.sql;
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
        .query_row([turn.workspace.as_str(), turn.session.as_str()], |row| row.get(0))?;
    let mut insert = sql.prepare_cached(
        "INSERT INTO session_messages (workspace, session, idx, digest, run_id) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (idx, digest) in (next..).zip(digests) {
        insert.execute(params![turn.workspace.as_str(), turn.session.as_str(), Uint(idx), digest, run.as_str()])?;
    }
    sessions::used(tx, &turn.workspace, &turn.session)
}

/// Which session a run belongs to and which of its opening messages were new to it.
struct Turn {
    workspace: WorkspaceId,
    session: SessionId,
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
                workspace: WorkspaceId::new(row.get::<_, String>(0)?),
                session: SessionId::new(row.get::<_, String>(1)?),
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
