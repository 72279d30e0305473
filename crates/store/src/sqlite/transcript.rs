//! The messages of a run, in order, each with the digest of the head right after it.
//!
//! The view `transcript` has them all: the part of its session's conversation that the run refers to, then the messages of
//! its own, which are in the table `run_messages`. A chain digest commits to every message before it, so one comparison
//! tells whether two transcripts agree.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    envelope::TranscriptHead,
    ids::{RunId, SessionId, WorkspaceId},
    message::Message,
};

use super::{
    SqliteStore,
    access::Tx,
    blobs,
    columns::{Hex, Uint},
    conversation, runs,
};
use crate::{MessagePage, Result, StoreError, TranscriptPage, Transcripts, body::Body};

#[async_trait]
impl Transcripts for SqliteStore {
    async fn transcript(&self, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>> {
        let run = run.clone();
        self.parts.read(move |sql| load(sql, &run, head)).await
    }

    async fn transcript_page(&self, run: &RunId, after: u64, limit: u32) -> Result<TranscriptPage> {
        let run = run.clone();
        self.parts.read(move |sql| page(sql, &run, after, limit)).await
    }

    async fn session_messages(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.read(move |sql| conversation::messages(sql, &workspace, &session)).await
    }

    async fn session_page(
        &self,
        workspace: &WorkspaceId,
        session: &SessionId,
        before: Option<u64>,
        last: Option<u32>,
    ) -> Result<MessagePage> {
        let (workspace, session) = (workspace.clone(), session.clone());
        self.parts.read(move |sql| conversation::page(sql, &workspace, &session, before, last)).await
    }
}

/// The head after an append, and whether the append brought anything new.
pub(super) struct Appended {
    pub(super) head: TranscriptHead,
    pub(super) changed: bool,
}

/// Makes `messages` stand right after `head`. Those that already do are left alone.
pub(super) fn append(tx: &mut Tx<'_>, run: &RunId, head: TranscriptHead, messages: &[Body]) -> Result<Appended> {
    let end = end_of(tx.sql, run)?;
    let conflict = |problem| StoreError::TranscriptConflict { run: run.clone(), head, problem };
    if head != end {
        match head_at(tx.sql, run, head.len)? {
            Some(stored) if stored == head => {}
            Some(_) => return Err(conflict("other messages stand before it")),
            None => return Err(conflict("the transcript is shorter")),
        }
    }
    let (mut at, mut changed) = (head, false);
    for message in messages {
        let next = at.push(message.digest);
        let stored = if next.len > end.len { None } else { head_at(tx.sql, run, next.len)? };
        match stored {
            Some(stored) if stored == next => {}
            Some(_) => return Err(conflict("another message stands after it")),
            None => {
                insert(tx.sql, run, at.len, message, next)?;
                changed = true;
            }
        }
        at = next;
    }
    if changed {
        tx.sql
            .prepare_cached("UPDATE runs SET head_len = ?2, head_digest = ?3, updated_at = ?4 WHERE id = ?1")?
            .execute(params![run.as_str(), Uint(at.len), Hex(at.digest), Uint::from(tx.now)])?;
    }
    Ok(Appended { head: at, changed })
}

/// The head of all messages.
fn end_of(sql: &Connection, run: &RunId) -> Result<TranscriptHead> {
    sql.prepare_cached("SELECT head_len, head_digest FROM runs WHERE id = ?1")?
        .query_row([run.as_str()], |row| {
            Ok(TranscriptHead { len: row.get::<_, Uint>(0)?.0, digest: row.get::<_, Hex>(1)?.0 })
        })
        .optional()?
        .ok_or_else(|| StoreError::RunNotFound { run: run.clone() })
}

/// The head of the first `len` messages, if there are that many.
pub(super) fn head_at(sql: &Connection, run: &RunId, len: u64) -> Result<Option<TranscriptHead>> {
    let Some(last) = len.checked_sub(1) else { return Ok(Some(TranscriptHead::default())) };
    let chain = sql
        .prepare_cached("SELECT chain FROM transcript WHERE run_id = ?1 AND idx = ?2")?
        .query_row(params![run.as_str(), Uint(last)], |row| row.get::<_, Hex>(0))
        .optional()?;
    Ok(chain.map(|Hex(digest)| TranscriptHead { len, digest }))
}

fn load(sql: &Connection, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>> {
    runs::require(sql, run)?;
    if head_at(sql, run, head.len)? != Some(head) {
        return Err(StoreError::TranscriptConflict { run: run.clone(), head, problem: "it is not one of its heads" });
    }
    let mut rows = sql.prepare_cached(
        "SELECT digest, body, idx FROM transcript JOIN blobs USING (digest) WHERE run_id = ?1 AND idx < ?2 ORDER BY idx",
    )?;
    let mut rows = rows.query(params![run.as_str(), Uint(head.len)])?;
    let (mut messages, mut at) = (Vec::new(), TranscriptHead::default());
    while let Some(row) = rows.next()? {
        let (digest, message) = blobs::from_row(row)?;
        messages.push(message);
        at = at.push(digest);
    }
    if at != head {
        return Err(StoreError::Corrupt { detail: format!("the messages of run {run} do not add up to their head") });
    }
    Ok(messages)
}

/// A reader's part of the transcript. Indices count from 0, places from 1.
fn page(sql: &Connection, run: &RunId, after: u64, limit: u32) -> Result<TranscriptPage> {
    let mut page = sql
        .prepare_cached("SELECT head_len, opening_len, opening_len - new_messages FROM runs WHERE id = ?1")?
        .query_row([run.as_str()], |row| {
            let number = |column| row.get::<_, Uint>(column).map(|Uint(number)| number);
            Ok(TranscriptPage { messages: Vec::new(), total: number(0)?, opening: number(1)?, earlier: number(2)? })
        })
        .optional()?
        .ok_or_else(|| StoreError::RunNotFound { run: run.clone() })?;
    let mut rows = sql.prepare_cached(
        "SELECT digest, body, idx FROM transcript JOIN blobs USING (digest)
         WHERE run_id = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY idx",
    )?;
    let mut rows = rows.query(params![run.as_str(), Uint(after), Uint(after.saturating_add(limit.into()))])?;
    while let Some(row) = rows.next()? {
        page.messages.push((row.get::<_, Uint>(2)?.0 + 1, blobs::from_row(row)?.1));
    }
    Ok(page)
}

fn insert(sql: &Connection, run: &RunId, idx: u64, message: &Body, next: TranscriptHead) -> Result<()> {
    blobs::put(sql, message)?;
    sql.prepare_cached("INSERT INTO run_messages (run_id, idx, digest, chain) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![run.as_str(), Uint(idx), Hex(message.digest), Hex(next.digest)])?;
    Ok(())
}
