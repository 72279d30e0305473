//! The conversation that successful runs leave in their session.

use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    envelope::TranscriptHead,
    ids::{RunId, SessionId, WorkspaceId},
    message::{Message, Role},
};

use super::{
    access::Tx,
    blobs,
    columns::{Bytes, Uint},
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
        "SELECT digest, body, idx FROM session_messages JOIN blobs ON number = blob
         WHERE workspace = ?1 AND session = ?2 AND idx >= ?3 AND idx < ?4 ORDER BY idx",
    )?;
    let mut rows = rows.query(params![workspace.as_str(), session.as_str(), Uint(start), Uint(end)])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push((row.get::<_, Uint>(2)?.0 + 1, blobs::from_row(sql, row)?.1));
    }
    Ok(MessagePage { messages, total })
}

/// The head of the conversation. Costs the same for a long one as for a short one, unless a build that stores no chain has
/// added messages: their chain is filled in first.
pub(super) fn head(sql: &Connection, workspace: &WorkspaceId, session: &SessionId) -> Result<TranscriptHead> {
    let of_session = [workspace.as_str(), session.as_str()];
    let last = sql
        .prepare_cached(
            "SELECT idx, chain FROM session_messages WHERE workspace = ?1 AND session = ?2 ORDER BY idx DESC LIMIT 1",
        )?
        .query_row(of_session, |row| Ok((row.get::<_, Uint>(0)?.0, row.get::<_, Option<Bytes>>(1)?)))
        .optional()?;
    match last {
        None => Ok(TranscriptHead::default()),
        Some((idx, Some(Bytes(digest)))) => Ok(TranscriptHead { len: idx + 1, digest }),
        Some((_, None)) => fill_chain(sql, of_session),
    }
}

/// Messages without a chain come after all that have one.
fn fill_chain(sql: &Connection, [workspace, session]: [&str; 2]) -> Result<TranscriptHead> {
    let mut head = sql
        .prepare_cached(
            "SELECT idx, chain FROM session_messages
             WHERE workspace = ?1 AND session = ?2 AND chain IS NOT NULL ORDER BY idx DESC LIMIT 1",
        )?
        .query_row([workspace, session], |row| {
            Ok(TranscriptHead { len: row.get::<_, Uint>(0)?.0 + 1, digest: row.get::<_, Bytes>(1)?.0 })
        })
        .optional()?
        .unwrap_or_default();
    let digests: Vec<Bytes> = sql
        .prepare_cached(
            "SELECT digest FROM session_messages JOIN blobs ON number = blob
             WHERE workspace = ?1 AND session = ?2 AND idx >= ?3 ORDER BY idx",
        )?
        .query_map(params![workspace, session, Uint(head.len)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut update = sql
        .prepare_cached("UPDATE session_messages SET chain = ?4 WHERE workspace = ?1 AND session = ?2 AND idx = ?3")?;
    for Bytes(digest) in digests {
        let next = head.push(digest);
        update.execute(params![workspace, session, Uint(head.len), Bytes(next.digest)])?;
        head = next;
    }
    Ok(head)
}

/// Adds what the run was asked and what it answered to its session, once.
pub(super) fn close_turn(tx: &Tx<'_>, run: &RunId) -> Result<()> {
    let sql = tx.sql;
    let already = sql.prepare_cached("SELECT 1 FROM session_messages WHERE run_id = ?1")?.exists([run.as_str()])?;
    let Some(turn) = turn_of(sql, run)? else { return Ok(()) };
    if already {
        return Ok(());
    }
    let mut bodies: Vec<(i64, Bytes)> = sql
        .prepare_cached(
            "SELECT blob, digest FROM run_messages JOIN blobs ON number = blob
             WHERE run = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY idx",
        )?
        .query_map(params![turn.run, Uint(turn.first_new), Uint(turn.opening_len)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    bodies.extend(last_answer(sql, &turn)?);

    let mut head = head(sql, &turn.workspace, &turn.session)?;
    let mut insert = sql.prepare_cached(
        "INSERT INTO session_messages (workspace, session, idx, blob, run_id, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (body, Bytes(digest)) in bodies {
        let next = head.push(digest);
        insert.execute(params![
            turn.workspace.as_str(),
            turn.session.as_str(),
            Uint(head.len),
            body,
            run.as_str(),
            Bytes(next.digest)
        ])?;
        head = next;
    }
    sessions::touch(tx, &turn.workspace, &turn.session)
}

/// Which session a run belongs to and which of its opening messages were new to it.
struct Turn {
    run: i64,
    workspace: WorkspaceId,
    session: SessionId,
    first_new: u64,
    opening_len: u64,
}

fn turn_of(sql: &Connection, run: &RunId) -> Result<Option<Turn>> {
    let turn = sql
        .prepare_cached(
            "SELECT workspace, session, opening_len - new_messages, opening_len, number FROM runs
             WHERE id = ?1 AND session IS NOT NULL",
        )?
        .query_row([run.as_str()], |row| {
            Ok(Turn {
                run: row.get(4)?,
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
fn last_answer(sql: &Connection, turn: &Turn) -> Result<Option<(i64, Bytes)>> {
    let mut rows = sql.prepare_cached(
        "SELECT digest, body, blob FROM run_messages JOIN blobs ON number = blob
         WHERE run = ?1 AND idx >= ?2 ORDER BY idx DESC",
    )?;
    let mut rows = rows.query(params![turn.run, Uint(turn.opening_len)])?;
    while let Some(row) = rows.next()? {
        let (digest, message) = blobs::from_row::<Message>(sql, row)?;
        if message.role == Role::Assistant {
            return Ok(Some((row.get(2)?, Bytes(digest))));
        }
    }
    Ok(None)
}
