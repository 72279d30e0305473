//! The append-only log of a run.

use std::collections::HashMap;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::{
    event::{Event, NewEvent},
    ids::RunId,
};

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, int, json_text, millis},
};
use crate::{EventWatch, Events, Result, StoreError, ending, entry::Entry};

#[async_trait]
impl Events for PostgresStore {
    async fn append_events(&self, run: &RunId, events: Vec<NewEvent>) -> Result<u64> {
        let entries = Entry::all_of(&events)?;
        let mut sql = self.parts.begin().await?;
        let outcome = append(&mut sql, run, &entries).await;
        Ok(sql.end(outcome).await?.last_seq)
    }

    async fn events(&self, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>> {
        list(&mut self.parts.autocommit().await?, run, after, limit).await
    }

    fn watch(&self, run: &RunId) -> EventWatch {
        self.parts.watchers.watch(run)
    }
}

/// Where the log stands after an append, and whether the append brought anything new.
pub(super) struct Appended {
    pub(super) last_seq: u64,
    pub(super) changed: bool,
}

/// Appends the entries whose keys are new and closes the run with its terminal one.
pub(super) async fn append(sql: &mut Sql, run: &RunId, entries: &[Entry]) -> Result<Appended> {
    // The lock keeps other writers from using the same number.
    let state = sql
        .query_opt(
            "SELECT last_seq, closed_at IS NOT NULL AS closed FROM runs WHERE id = $1 FOR NO KEY UPDATE",
            &[&run.as_str()],
        )
        .await?
        .ok_or_else(|| StoreError::RunNotFound { run: run.clone() })?;
    let (before, mut closed) = (state.uint("last_seq")?, state.get::<_, bool>("closed"));
    if entries.is_empty() {
        return Ok(Appended { last_seq: before, changed: false });
    }
    let mut standing = standing(sql, run, entries).await?;
    let mut new: Vec<&Entry> = Vec::new();
    for entry in entries {
        let body = (entry.kind.to_owned(), entry.data.clone());
        match standing.get(&entry.key) {
            Some((kind, data)) if entry.is(kind, data) => continue,
            Some(_) => return Err(StoreError::EventConflict { run: run.clone(), key: entry.key.clone() }),
            None if closed => return Err(StoreError::RunClosed { run: run.clone(), key: entry.key.clone() }),
            None => {}
        }
        standing.insert(entry.key.clone(), body);
        closed = entry.ending.is_some();
        new.push(entry);
    }
    let last_seq = before + new.len() as u64;
    if !new.is_empty() {
        insert(sql, run, before, &new).await?;
        update_row(sql, run, last_seq, &new).await?;
        sql.log_reaches(run, last_seq);
    }
    Ok(Appended { last_seq, changed: !new.is_empty() })
}

/// What the log has under the keys of these entries: type and data.
async fn standing(sql: &mut Sql, run: &RunId, entries: &[Entry]) -> Result<HashMap<String, (String, String)>> {
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let rows = sql
        .query("SELECT key, type, data FROM events WHERE run_id = $1 AND key = ANY($2)", &[&run.as_str(), &keys])
        .await?;
    rows.iter().map(|row| Ok((row.text("key")?, (row.text("type")?, row.text("data")?)))).collect()
}

async fn insert(sql: &mut Sql, run: &RunId, before: u64, new: &[&Entry]) -> Result<()> {
    let seqs: Vec<i64> = (before + 1..).take(new.len()).map(int).collect();
    let keys: Vec<&str> = new.iter().map(|entry| entry.key.as_str()).collect();
    let kinds: Vec<&str> = new.iter().map(|entry| entry.kind).collect();
    let data: Vec<&str> = new.iter().map(|entry| entry.data.as_str()).collect();
    let now = millis(sql.now);
    sql.execute(
        "INSERT INTO events (run_id, at, seq, key, type, data)
         SELECT $1, $2, * FROM unnest($3::BIGINT[], $4::TEXT[], $5::TEXT[], $6::TEXT[])",
        &[&run.as_str(), &now, &seqs, &keys, &kinds, &data],
    )
    .await?;
    Ok(())
}

/// The row follows its log.
async fn update_row(sql: &mut Sql, run: &RunId, last_seq: u64, new: &[&Entry]) -> Result<()> {
    let shown = new.iter().rev().find_map(|entry| entry.shows);
    let (status, phase) = (shown.map(|(status, _)| status.as_str()), shown.map(|(_, phase)| phase.as_str()));
    let ending = new.iter().find_map(|entry| entry.ending.as_ref()).map(json_text).transpose()?;
    let now = millis(sql.now);
    sql.execute(
        "UPDATE runs SET last_seq = $2, updated_at = $3, status = coalesce($4, status), phase = coalesce($5, phase),
             ending = coalesce($6, ending), closed_at = CASE WHEN $6 IS NULL THEN closed_at ELSE $3 END
         WHERE id = $1",
        &[&run.as_str(), &int(last_seq), &now, &status, &phase, &ending],
    )
    .await?;
    Ok(())
}

async fn list(sql: &mut Sql, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>> {
    let rows = sql
        .query(
            "SELECT seq, at, key, type, data FROM events WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            &[&run.as_str(), &int(after), &i64::from(limit)],
        )
        .await?;
    let event = |row: &tokio_postgres::Row| {
        Ok(Event {
            seq: row.uint("seq")?,
            at: row.time("at")?,
            key: row.text("key")?,
            kind: row.text("type")?,
            data: row.json("data")?,
        })
    };
    rows.iter().map(event).collect()
}

/// What the terminal event says last.
pub(super) async fn final_text(sql: &mut Sql, run: &RunId) -> Result<Option<String>> {
    let row = sql
        .query_opt(
            "SELECT data FROM events JOIN runs ON run_id = id AND seq = last_seq WHERE id = $1 AND closed_at IS NOT NULL",
            &[&run.as_str()],
        )
        .await?;
    let data: Option<Value> = row.map(|row| row.json("data")).transpose()?;
    Ok(data.and_then(|data| ending::final_text(&data).map(str::to_owned)))
}
