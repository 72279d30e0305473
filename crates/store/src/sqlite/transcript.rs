//! The messages of a run, in order.
//!
//! The view `transcript` has them all: the part of its session's conversation that the run refers to, then the messages of
//! its own, which are in the table `run_messages`. The digest of a head commits to every message before it, so one
//! comparison tells whether two transcripts agree. The row of the run has its last head; earlier ones are needed for
//! repeats only, and follow from the digests of the messages.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    canonical::{CanonicalJson, Digest},
    envelope::TranscriptHead,
    ids::{RunId, SessionId, WorkspaceId},
    message::Message,
};

use super::{
    SqliteStore,
    blobs::{self, Stored},
    columns::{Bytes, Uint},
    conversation,
    state::RunState,
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
    /// The last of the messages, if it was new.
    pub(super) last: Option<Stored>,
}

/// Makes `messages` stand right after `head`. Those that already do are left alone. `results` are those of tools in the
/// messages: what is a body of its own is not stored again.
pub(super) fn append(
    sql: &Connection,
    run: &mut RunState,
    head: TranscriptHead,
    messages: &[Body],
    results: &[(Digest, CanonicalJson)],
) -> Result<Appended> {
    let end = run.head;
    let conflict = |run: &RunState, problem| StoreError::TranscriptConflict { run: run.id.clone(), head, problem };
    // The heads of what is known already, if anything is.
    let mut known = None;
    if head != end {
        let heads = known.insert(heads(sql, run.number)?);
        match head_at(heads, head.len) {
            Some(stored) if stored == head => {}
            Some(_) => return Err(conflict(run, "other messages stand before it")),
            None => return Err(conflict(run, "the transcript is shorter")),
        }
    }
    let (mut at, mut changed, mut last, mut sources) = (head, false, None, None);
    for message in messages {
        let next = at.push(message.digest);
        let stored = match &known {
            Some(heads) if next.len <= end.len => head_at(heads, next.len),
            _ => None,
        };
        match stored {
            Some(stored) if stored == next => {}
            Some(_) => return Err(conflict(run, "another message stands after it")),
            None => {
                let sources = match &mut sources {
                    Some(sources) => sources,
                    none => none.insert(blobs::sources_of(sql, results)?),
                };
                let body = blobs::put(sql, message, sources)?;
                sql.prepare_cached("INSERT INTO run_messages (run, idx, blob) VALUES (?1, ?2, ?3)")?
                    .execute(params![run.number, Uint(at.len), body.number])?;
                changed = true;
                last = Some(body);
            }
        }
        at = next;
    }
    if changed {
        run.reaches(at);
    }
    Ok(Appended { head: at, changed, last })
}

/// The digests of a run's messages.
fn digests(sql: &Connection, run: i64, len: u64) -> Result<Vec<Digest>> {
    let mut digests = sql.prepare_cached(
        "SELECT digest FROM transcript JOIN blobs ON number = blob WHERE run = ?1 AND idx < ?2 ORDER BY idx",
    )?;
    let digests = digests.query_map(params![run, Uint(len)], |row| row.get::<_, Bytes>(0))?;
    Ok(digests.map(|digest| digest.map(|Bytes(digest)| digest)).collect::<rusqlite::Result<_>>()?)
}

/// The head after each message.
fn heads(sql: &Connection, run: i64) -> Result<Vec<TranscriptHead>> {
    let heads = digests(sql, run, u64::MAX)?.into_iter().scan(TranscriptHead::default(), |head, digest| {
        *head = head.push(digest);
        Some(*head)
    });
    Ok(heads.collect())
}

fn head_at(heads: &[TranscriptHead], len: u64) -> Option<TranscriptHead> {
    let Some(last) = len.checked_sub(1) else { return Some(TranscriptHead::default()) };
    heads.get(usize::try_from(last).ok()?).copied()
}

/// The head of the first `len` messages, if there are that many.
pub(super) fn head_of(sql: &Connection, run: i64, len: u64) -> Result<Option<TranscriptHead>> {
    let head = digests(sql, run, len)?.into_iter().fold(TranscriptHead::default(), TranscriptHead::push);
    Ok(Some(head).filter(|head| head.len == len))
}

fn load(sql: &Connection, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>> {
    let state = RunState::of(sql, run)?;
    let mut rows = sql.prepare_cached(
        "SELECT digest, body, idx FROM transcript JOIN blobs ON number = blob WHERE run = ?1 AND idx < ?2 ORDER BY idx",
    )?;
    let mut rows = rows.query(params![state.number, Uint(head.len)])?;
    let (mut messages, mut at) = (Vec::new(), TranscriptHead::default());
    while let Some(row) = rows.next()? {
        let (digest, message) = blobs::from_row(sql, row)?;
        messages.push(message);
        at = at.push(digest);
    }
    if at == head {
        return Ok(messages);
    }
    if state.head == head || at.len < head.len.min(state.head.len) {
        return Err(StoreError::Corrupt { detail: format!("the messages of run {run} do not add up to their head") });
    }
    Err(StoreError::TranscriptConflict { run: run.clone(), head, problem: "it is not one of its heads" })
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
        "SELECT digest, body, idx FROM transcript JOIN blobs ON number = blob
         WHERE run = (SELECT number FROM runs WHERE id = ?1) AND idx >= ?2 AND idx < ?3 ORDER BY idx",
    )?;
    let mut rows = rows.query(params![run.as_str(), Uint(after), Uint(after.saturating_add(limit.into()))])?;
    while let Some(row) = rows.next()? {
        page.messages.push((row.get::<_, Uint>(2)?.0 + 1, blobs::from_row(sql, row)?.1));
    }
    Ok(page)
}
