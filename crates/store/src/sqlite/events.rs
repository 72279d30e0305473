//! The append-only log of a run.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;
use windlass_core::{
    event::{Event, NewEvent},
    ids::RunId,
    time::Timestamp,
};

use super::{
    SqliteStore,
    access::Tx,
    columns::{Json, Uint, Word},
};
use crate::{EventWatch, Events, Result, StoreError, ending, entry::Entry};

#[async_trait]
impl Events for SqliteStore {
    async fn append_events(&self, run: &RunId, events: Vec<NewEvent>) -> Result<u64> {
        let (run, entries) = (run.clone(), Entry::all_of(&events)?);
        self.parts.write_log(&run.clone(), move |tx| Ok(append(tx, &run, &entries)?.last_seq)).await
    }

    async fn events(&self, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>> {
        let run = run.clone();
        let events = self.parts.read(move |sql| list(sql, &run, after, limit)).await?;
        // An event that was read once never changes, not even by a power failure.
        self.parts.database.synced().await?;
        Ok(events)
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
pub(super) fn append(tx: &mut Tx<'_>, run: &RunId, entries: &[Entry]) -> Result<Appended> {
    let (before, mut closed_at) = state(tx.sql, run)?;
    let mut last_seq = before;
    for entry in entries {
        if closed_at.is_some() {
            if stands(tx.sql, run, entry)? {
                continue;
            }
            return Err(StoreError::RunClosed { run: run.clone(), key: entry.key.clone() });
        }
        // Most keys are new, so they are looked for only where that turns out not to be so.
        if !insert(tx, run, last_seq + 1, entry)? {
            stands(tx.sql, run, entry)?;
            continue;
        }
        last_seq += 1;
        if let Some((status, phase)) = entry.shows {
            tx.sql.prepare_cached("UPDATE runs SET status = ?2, phase = ?3 WHERE id = ?1")?.execute(params![
                run.as_str(),
                Word(status),
                Word(phase)
            ])?;
        }
        if let Some(ending) = &entry.ending {
            closed_at = Some(tx.now);
            tx.sql.prepare_cached("UPDATE runs SET ending = ?2, closed_at = ?3 WHERE id = ?1")?.execute(params![
                run.as_str(),
                Json(ending),
                Uint::from(tx.now)
            ])?;
        }
    }
    let changed = last_seq > before;
    if changed {
        tx.sql.prepare_cached("UPDATE runs SET last_seq = ?2, updated_at = ?3 WHERE id = ?1")?.execute(params![
            run.as_str(),
            Uint(last_seq),
            Uint::from(tx.now)
        ])?;
        tx.log_reaches(run, last_seq);
    }
    Ok(Appended { last_seq, changed })
}

fn list(sql: &Connection, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>> {
    let mut events = sql.prepare_cached(
        "SELECT seq, at, key, type, data FROM events WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let events = events.query_map(params![run.as_str(), Uint(after), limit], |row| {
        Ok(Event {
            seq: row.get::<_, Uint>(0)?.0,
            at: row.get::<_, Uint>(1)?.into(),
            key: row.get(2)?,
            kind: row.get(3)?,
            data: row.get::<_, Json<_>>(4)?.0,
        })
    })?;
    Ok(events.collect::<rusqlite::Result<_>>()?)
}

/// What the terminal event says last.
pub(super) fn final_text(sql: &Connection, run: &RunId) -> Result<Option<String>> {
    let data = sql
        .prepare_cached(
            "SELECT data FROM events JOIN runs ON run_id = id AND seq = last_seq WHERE id = ?1 AND closed_at IS NOT NULL",
        )?
        .query_row([run.as_str()], |row| row.get::<_, Json<Value>>(0))
        .optional()?;
    Ok(data.and_then(|Json(data)| ending::final_text(&data).map(str::to_owned)))
}

/// The newest `seq` and whether the log is closed.
fn state(sql: &Connection, run: &RunId) -> Result<(u64, Option<Timestamp>)> {
    sql.prepare_cached("SELECT last_seq, closed_at FROM runs WHERE id = ?1")?
        .query_row([run.as_str()], |row| {
            let closed_at = row.get::<_, Option<Uint>>(1)?.map(Timestamp::from);
            Ok((row.get::<_, Uint>(0)?.0, closed_at))
        })
        .optional()?
        .ok_or_else(|| StoreError::RunNotFound { run: run.clone() })
}

/// Says whether the entry's key was new.
fn insert(tx: &Tx<'_>, run: &RunId, seq: u64, entry: &Entry) -> Result<bool> {
    let inserted = tx
        .sql
        .prepare_cached(
            "INSERT INTO events (run_id, seq, key, at, type, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (run_id, key) DO NOTHING",
        )?
        .execute(params![run.as_str(), Uint(seq), entry.key, Uint::from(tx.now), entry.kind, entry.data])?;
    Ok(inserted > 0)
}

/// Whether this entry is already in the log.
fn stands(sql: &Connection, run: &RunId, entry: &Entry) -> Result<bool> {
    let same = sql
        .prepare_cached("SELECT type, data FROM events WHERE run_id = ?1 AND key = ?2")?
        .query_row(params![run.as_str(), entry.key], |row| {
            Ok(entry.is(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?))
        })
        .optional()?;
    match same {
        Some(false) => Err(StoreError::EventConflict { run: run.clone(), key: entry.key.clone() }),
        Some(true) => Ok(true),
        None => Ok(false),
    }
}
