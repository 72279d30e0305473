//! The append-only log of a run.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;
use windlass_core::{
    event::{Event, NewEvent},
    ids::RunId,
    message::Message,
    time::Timestamp,
};
use windlass_sqlite::short_hash;

use super::{
    SqliteStore,
    access::Tx,
    blobs,
    columns::Uint,
    splice::{self, LEAST, Source},
    state::RunState,
};
use crate::{EventWatch, Events, Result, StoreError, ending, entry::Entry};

#[async_trait]
impl Events for SqliteStore {
    async fn append_events(&self, run: &RunId, events: Vec<NewEvent>) -> Result<u64> {
        let (id, entries) = (run.clone(), Entry::all_of(&events)?);
        let work = move |tx: &mut Tx<'_>| {
            let mut run = RunState::of(tx.sql, &id)?;
            append(tx, &mut run, &entries, &[])?;
            let last_seq = run.last_seq;
            run.save(tx)?;
            Ok(last_seq)
        };
        self.parts.write_log(run, work).await
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

/// Appends the entries whose keys are new and closes the run with its terminal one. Says whether there was anything new.
/// What an entry has of `sources`, which are bodies that the run refers to, is not stored again.
pub(super) fn append(tx: &Tx<'_>, run: &mut RunState, entries: &[Entry], sources: &[Source]) -> Result<bool> {
    let before = run.last_seq;
    for entry in entries {
        if run.closed_at.is_some() {
            if stands(tx.sql, run, entry)? {
                continue;
            }
            return Err(StoreError::RunClosed { run: run.id.clone(), key: entry.key.clone() });
        }
        let answer =
            if entry.ending.is_some() && entry.data.len() >= LEAST { answer(tx.sql, run)? } else { Vec::new() };
        let sources = if answer.is_empty() { sources } else { &answer };
        if !insert(tx, run, entry, sources)? {
            continue;
        }
        run.logs();
        if let Some((status, phase)) = entry.shows {
            run.shows(status, phase);
        }
        if let Some(ending) = &entry.ending {
            run.ends(tx.now, ending);
        }
    }
    Ok(run.last_seq > before)
}

/// The texts of the run's last message.
fn answer(sql: &Connection, run: &RunState) -> Result<Vec<Source>> {
    let last = sql
        .prepare_cached(
            "SELECT number, body FROM run_messages JOIN blobs ON number = blob WHERE run = ?1 ORDER BY idx DESC LIMIT 1",
        )?
        .query_row([run.number], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    let Some((number, stored)) = last.filter(|(_, stored)| !splice::is_spliced(stored)) else { return Ok(Vec::new()) };
    let body = blobs::open(sql, &stored)?;
    // What cannot be read is not referred to.
    let Ok(message) = serde_json::from_slice::<Message>(&body) else { return Ok(Vec::new()) };
    Ok(blobs::Stored { number, whole: true }.sources(&blobs::parts_in(&message, &body)))
}

/// An event's type, data and key as one body. Neither a type nor canonical JSON has a line feed.
fn body_of(entry: &Entry) -> String {
    format!("{}\n{}\n{}", entry.kind, entry.data, entry.key)
}

/// Type, data and key.
pub(super) fn split(body: &[u8]) -> Result<(&str, &str, &str)> {
    let mut parts = blobs::utf8(body)?.splitn(3, '\n');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(kind), Some(data), Some(key)) => Ok((kind, data, key)),
        _ => Err(StoreError::Corrupt { detail: "it has no type, data and key".to_owned() }),
    }
}

fn list(sql: &Connection, run: &RunId, after: u64, limit: u32) -> Result<Vec<Event>> {
    let mut rows = sql.prepare_cached(
        "SELECT seq, at, body FROM events
         WHERE run = (SELECT number FROM runs WHERE id = ?1) AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = rows.query(params![run.as_str(), Uint(after), limit])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let body = blobs::open(sql, row.get_ref(2)?.as_bytes().map_err(rusqlite::Error::from)?)?;
        let (kind, data, key) = split(&body)?;
        events.push(Event {
            seq: row.get::<_, Uint>(0)?.0,
            at: Timestamp::from(row.get::<_, Uint>(1)?),
            key: key.to_owned(),
            kind: kind.to_owned(),
            data: json(data)?,
        });
    }
    Ok(events)
}

fn json(data: &str) -> Result<Value> {
    serde_json::from_str(data).map_err(|error| StoreError::Corrupt { detail: error.to_string() })
}

/// What the terminal event says last.
pub(super) fn final_text(sql: &Connection, run: &RunId) -> Result<Option<String>> {
    let stored = sql
        .prepare_cached(
            "SELECT body FROM runs JOIN events ON run = runs.number AND seq = last_seq
             WHERE id = ?1 AND closed_at IS NOT NULL",
        )?
        .query_row([run.as_str()], |row| row.get::<_, Vec<u8>>(0))
        .optional()?;
    let Some(stored) = stored else { return Ok(None) };
    let body = blobs::open(sql, &stored)?;
    let data = json(split(&body)?.1)?;
    Ok(ending::final_text(&data).map(str::to_owned))
}

/// Says whether the entry's key was new.
fn insert(tx: &Tx<'_>, run: &RunState, entry: &Entry, sources: &[Source]) -> Result<bool> {
    let hash = short_hash(&entry.key);
    // Most keys are new, and so are their hashes.
    let known = tx
        .sql
        .prepare_cached("SELECT 1 FROM events WHERE run = ?1 AND key_hash = ?2 LIMIT 1")?
        .exists(params![run.number, hash])?;
    if known && stands(tx.sql, run, entry)? {
        return Ok(false);
    }
    let (body, _) = splice::stored(&body_of(entry), sources);
    tx.sql
        .prepare_cached("INSERT INTO events (run, seq, key_hash, at, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![run.number, Uint(run.last_seq + 1), hash, Uint::from(tx.now), body])?;
    Ok(true)
}

/// Whether this entry is already in the log.
fn stands(sql: &Connection, run: &RunState, entry: &Entry) -> Result<bool> {
    let mut rows = sql.prepare_cached("SELECT body FROM events WHERE run = ?1 AND key_hash = ?2")?;
    let mut rows = rows.query(params![run.number, short_hash(&entry.key)])?;
    while let Some(row) = rows.next()? {
        let body = blobs::open(sql, row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?)?;
        let (kind, data, key) = split(&body)?;
        if key == entry.key {
            let conflict = || StoreError::EventConflict { run: run.id.clone(), key: entry.key.clone() };
            return entry.is(kind, data).then_some(true).ok_or_else(conflict);
        }
    }
    Ok(false)
}
