//! Events, in the batches in which they were written.

use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, params};
use temporalio_protos::temporal::api::history::v1::{History, HistoryEvent};

/// Events that were written together.
pub(crate) struct Batch {
    first: i64,
    last: i64,
    /// An encoded `History`.
    events: Vec<u8>,
}

impl Batch {
    /// Encodes events and returns them.
    pub(crate) fn of(events: Vec<HistoryEvent>) -> (Option<Self>, Vec<HistoryEvent>) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return (None, events) };
        let (first, last) = (first.event_id, last.event_id);
        let history = History { events };
        let batch = Self { first, last, events: history.encode_to_vec() };
        (Some(batch), history.events)
    }
}

pub(super) fn append(sql: &Connection, run: i64, batch: &Batch) -> rusqlite::Result<()> {
    sql.prepare_cached("INSERT INTO engine_history (run, first_event, last_event, events) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![run, batch.first, batch.last, batch.events])?;
    Ok(())
}

/// Events after `after`, in whole batches, until there are at least `limit`.
pub(crate) fn events_after(
    sql: &Connection,
    run: i64,
    after: i64,
    limit: usize,
) -> rusqlite::Result<Vec<HistoryEvent>> {
    let mut statement = sql.prepare_cached(
        "SELECT events FROM engine_history WHERE run = ?1 AND last_event > ?2 AND first_event >=
         coalesce((SELECT max(first_event) FROM engine_history WHERE run = ?1 AND first_event <= ?2 + 1), 0)
         ORDER BY first_event",
    )?;
    let mut rows = statement.query(params![run, after])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.extend(decode(row, 0)?.into_iter().filter(|event| event.event_id > after));
        if events.len() >= limit {
            break;
        }
    }
    Ok(events)
}

/// All events, in the batches in which they were written.
pub(crate) fn batches(sql: &Connection, run: i64) -> rusqlite::Result<Vec<Vec<HistoryEvent>>> {
    sql.prepare_cached("SELECT events FROM engine_history WHERE run = ?1 ORDER BY first_event")?
        .query_map([run], |row| decode(row, 0))?
        .collect()
}

/// Events before `before`, latest first, in whole batches, until there are at least `limit`.
pub(crate) fn events_before(
    sql: &Connection,
    run: i64,
    before: i64,
    limit: usize,
) -> rusqlite::Result<Vec<HistoryEvent>> {
    let mut statement = sql.prepare_cached(
        "SELECT events FROM engine_history WHERE run = ?1 AND first_event < ?2 ORDER BY first_event DESC",
    )?;
    let mut rows = statement.query(params![run, before])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.extend(decode(row, 0)?.into_iter().rev().filter(|event| event.event_id < before));
        if events.len() >= limit {
            break;
        }
    }
    Ok(events)
}

pub(crate) fn event(sql: &Connection, run: i64, id: i64) -> rusqlite::Result<Option<HistoryEvent>> {
    let batch = sql
        .prepare_cached(
            "SELECT events FROM engine_history WHERE run = ?1 AND first_event <= ?2
             ORDER BY first_event DESC LIMIT 1",
        )?
        .query_row(params![run, id], |row| decode(row, 0))
        .optional()?;
    Ok(batch.and_then(|events| events.into_iter().find(|event| event.event_id == id)))
}

fn decode(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Vec<HistoryEvent>> {
    let blob = row.get_ref(column)?.as_blob()?;
    let history = History::decode(blob).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, Box::new(error))
    })?;
    Ok(history.events)
}
