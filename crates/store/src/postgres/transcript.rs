//! The messages of a run, in order, each with the digest of the head right after it.
//!
//! The view `transcript` has them all: the part of its session's conversation that the run refers to, then the messages of
//! its own, which are in the table `run_messages`. A chain digest commits to every message before it, so one comparison
//! tells whether two transcripts agree.

use std::collections::BTreeMap;

use async_trait::async_trait;
use windlass_core::{
    canonical::Digest,
    envelope::TranscriptHead,
    ids::{RunId, SessionId, WorkspaceId},
    message::Message,
};

use super::{
    PostgresStore,
    access::Sql,
    blobs,
    columns::{Columns as _, hex, int, millis},
    conversation, runs,
};
use crate::{MessagePage, Result, StoreError, TranscriptPage, Transcripts, body::Body};

#[async_trait]
impl Transcripts for PostgresStore {
    async fn transcript(&self, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>> {
        load(&mut self.parts.autocommit().await?, run, head).await
    }

    async fn transcript_page(&self, run: &RunId, after: u64, limit: u32) -> Result<TranscriptPage> {
        page(&mut self.parts.autocommit().await?, run, after, limit).await
    }

    async fn session_messages(&self, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>> {
        conversation::messages(&mut self.parts.autocommit().await?, workspace, session).await
    }

    async fn session_page(
        &self,
        workspace: &WorkspaceId,
        session: &SessionId,
        before: Option<u64>,
        last: Option<u32>,
    ) -> Result<MessagePage> {
        conversation::page(&mut self.parts.autocommit().await?, workspace, session, before, last).await
    }
}

/// The head after an append, and whether the append brought anything new.
pub(super) struct Appended {
    pub(super) head: TranscriptHead,
    pub(super) changed: bool,
}

/// Makes `messages` stand right after `head`. Those that already do are left alone.
pub(super) async fn append(sql: &mut Sql, run: &RunId, head: TranscriptHead, messages: &[Body]) -> Result<Appended> {
    let end = end_of(sql, run).await?;
    let conflict = |problem| StoreError::TranscriptConflict { run: run.clone(), head, problem };
    // Nearly always the messages come after all others.
    let chains = if head == end { BTreeMap::new() } else { chains(sql, run, head.len, messages.len() as u64).await? };
    match head_at(&chains, head.len) {
        _ if head == end => {}
        Some(stored) if stored == head => {}
        Some(_) => return Err(conflict("other messages stand before it")),
        None => return Err(conflict("the transcript is shorter")),
    }
    let (mut at, mut missing) = (head, Vec::new());
    for message in messages {
        let next = at.push(message.digest);
        match head_at(&chains, next.len) {
            Some(stored) if stored == next => {}
            Some(_) => return Err(conflict("another message stands after it")),
            None => missing.push((at.len, message, next)),
        }
        at = next;
    }
    let changed = !missing.is_empty();
    if changed {
        insert(sql, run, &missing).await?;
        let now = millis(sql.now);
        sql.execute(
            "UPDATE runs SET head_len = $2, head_digest = $3, updated_at = $4 WHERE id = $1",
            &[&run.as_str(), &int(at.len), &hex(at.digest), &now],
        )
        .await?;
    }
    Ok(Appended { head: at, changed })
}

/// The head of all messages. Keeps other writers of the run waiting until this transaction ends.
async fn end_of(sql: &mut Sql, run: &RunId) -> Result<TranscriptHead> {
    let row = sql
        .query_opt("SELECT head_len, head_digest FROM runs WHERE id = $1 FOR NO KEY UPDATE", &[&run.as_str()])
        .await?
        .ok_or_else(|| StoreError::RunNotFound { run: run.clone() })?;
    Ok(TranscriptHead { len: row.uint("head_len")?, digest: row.digest("head_digest")? })
}

/// The chain digests from the message before `len` up to `more` messages after it, by index.
async fn chains(sql: &mut Sql, run: &RunId, len: u64, more: u64) -> Result<BTreeMap<u64, Digest>> {
    let rows = sql
        .query(
            "SELECT idx, chain FROM transcript WHERE run_id = $1 AND idx >= $2 AND idx < $3",
            &[&run.as_str(), &int(len.saturating_sub(1)), &int(len.saturating_add(more))],
        )
        .await?;
    rows.iter().map(|row| Ok((row.uint("idx")?, row.digest("chain")?))).collect()
}

fn head_at(chains: &BTreeMap<u64, Digest>, len: u64) -> Option<TranscriptHead> {
    let Some(last) = len.checked_sub(1) else { return Some(TranscriptHead::default()) };
    chains.get(&last).map(|digest| TranscriptHead { len, digest: *digest })
}

/// The head of the first `len` messages, if there are that many.
pub(super) async fn head_of(sql: &mut Sql, run: &RunId, len: u64) -> Result<Option<TranscriptHead>> {
    Ok(head_at(&chains(sql, run, len, 0).await?, len))
}

async fn load(sql: &mut Sql, run: &RunId, head: TranscriptHead) -> Result<Vec<Message>> {
    // One statement, because a sweep may delete the run between two.
    let rows = sql
        .query(
            "SELECT transcript.digest, body, chain FROM transcript LEFT JOIN blobs USING (digest)
             WHERE run_id = $1 AND idx < $2 ORDER BY idx",
            &[&run.as_str(), &int(head.len)],
        )
        .await?;
    let chain = rows.last().map(|row| row.digest("chain")).transpose()?.unwrap_or_default();
    if (TranscriptHead { len: rows.len() as u64, digest: chain }) != head {
        runs::require(sql, run).await?;
        return Err(StoreError::TranscriptConflict { run: run.clone(), head, problem: "it is not one of its heads" });
    }
    if rows.is_empty() {
        runs::require(sql, run).await?;
    }
    let (mut messages, mut at) = (Vec::new(), TranscriptHead::default());
    for row in &rows {
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
async fn page(sql: &mut Sql, run: &RunId, after: u64, limit: u32) -> Result<TranscriptPage> {
    let row = sql
        .query_opt(
            "SELECT head_len, opening_len, opening_len - new_messages AS earlier FROM runs WHERE id = $1",
            &[&run.as_str()],
        )
        .await?
        .ok_or_else(|| StoreError::RunNotFound { run: run.clone() })?;
    let (total, opening, earlier) = (row.uint("head_len")?, row.uint("opening_len")?, row.uint("earlier")?);
    let rows = sql
        .query(
            "SELECT digest, body, idx FROM transcript JOIN blobs USING (digest)
             WHERE run_id = $1 AND idx >= $2 AND idx < $3 ORDER BY idx",
            &[&run.as_str(), &int(after), &int(after.saturating_add(limit.into()))],
        )
        .await?;
    let placed = |row: &tokio_postgres::Row| Ok((row.uint("idx")? + 1, blobs::from_row(row)?.1));
    Ok(TranscriptPage { messages: rows.iter().map(placed).collect::<Result<_>>()?, total, opening, earlier })
}

async fn insert(sql: &mut Sql, run: &RunId, missing: &[(u64, &Body, TranscriptHead)]) -> Result<()> {
    blobs::put(sql, &missing.iter().map(|(_, message, _)| *message).collect::<Vec<_>>()).await?;
    let indices: Vec<i64> = missing.iter().map(|(idx, ..)| int(*idx)).collect();
    let digests: Vec<String> = missing.iter().map(|(_, message, _)| hex(message.digest)).collect();
    let chains: Vec<String> = missing.iter().map(|(_, _, next)| hex(next.digest)).collect();
    sql.execute(
        "INSERT INTO run_messages (run_id, idx, digest, chain)
         SELECT $1, * FROM unnest($2::BIGINT[], $3::TEXT[], $4::TEXT[])",
        &[&run.as_str(), &indices, &digests, &chains],
    )
    .await?;
    Ok(())
}
