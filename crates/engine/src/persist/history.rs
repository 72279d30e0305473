//! Events, in the batches in which they were written. A row has the batches of one step of the run.

use prost::{Message as _, encoding};
use rusqlite::{Connection, OptionalExtension as _, params, types::Type};
use temporalio_protos::temporal::api::history::v1::{History, HistoryEvent};
use windlass_sqlite::pack::{self, Kind, pack};

/// Events of a row at most, unless one batch has more.
const ROW_EVENTS: usize = 512;

/// A row: one or more batches that were written in one step of the run.
pub(crate) struct HistoryRow {
    first: i64,
    last: i64,
    /// Packed: an encoded `History`, or several as [`Batches`].
    events: Vec<u8>,
}

/// Encoded as a `History`, without copies of the events.
fn history(events: &[HistoryEvent]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(encoding::message::encoded_len_repeated(1, events));
    encoding::message::encode_repeated(1, events, &mut encoded);
    encoded
}

/// The first byte of encoded batches. An encoded `History` begins with the tag of its events.
const SEVERAL: u8 = 0x12;

#[derive(Clone, PartialEq, prost::Message)]
struct Batches {
    #[prost(message, repeated, tag = "2")]
    batches: Vec<History>,
}

impl HistoryRow {
    /// The rows of batches in their order. None of these is empty.
    pub(crate) fn of(batches: &[Vec<HistoryEvent>]) -> Vec<Self> {
        let mut rows = Vec::new();
        let mut rest = batches;
        while !rest.is_empty() {
            let mut events = 0;
            let fit = rest.iter().take_while(|batch| {
                events += batch.len();
                events <= ROW_EVENTS
            });
            let (row, later) = rest.split_at(fit.count().max(1));
            rows.extend(Self::of_row(row));
            rest = later;
        }
        rows
    }

    fn of_row(batches: &[Vec<HistoryEvent>]) -> Option<Self> {
        let (first, last) = (batches.first()?.first()?.event_id, batches.last()?.last()?.event_id);
        let encoded = match batches {
            [batch] => history(batch),
            batches => {
                // As `Batches`, without copies of the events.
                let mut several = Vec::new();
                batches.iter().for_each(|batch| encoding::bytes::encode(2, &history(batch), &mut several));
                several
            }
        };
        Some(Self { first, last, events: pack(Kind::History, encoded) })
    }
}

pub(super) fn append(sql: &Connection, run: i64, row: &HistoryRow) -> rusqlite::Result<()> {
    sql.prepare_cached("INSERT INTO engine_history (run, first_event, last_event, events) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![run, row.first, row.last, row.events])?;
    Ok(())
}

/// Events after `after`, in whole rows, until there are at least `limit`.
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
        .query_map([run], |row| decode_batches(row, 0))?
        .collect::<rusqlite::Result<Vec<_>>>()
        .map(|rows| rows.into_iter().flatten().collect())
}

/// Events before `before`, latest first, in whole rows, until there are at least `limit`.
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

/// The events of a row.
pub(super) fn decode(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Vec<HistoryEvent>> {
    decode_batches(row, column).map(|batches| batches.into_iter().flatten().collect())
}

fn decode_batches(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Vec<Vec<HistoryEvent>>> {
    let unreadable =
        |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::<prost::DecodeError>::new(error));
    let bytes = pack::column(row, column)?;
    let histories = match bytes.first() {
        Some(&SEVERAL) => Batches::decode(&*bytes).map_err(unreadable)?.batches,
        _ => vec![History::decode(&*bytes).map_err(unreadable)?],
    };
    Ok(histories.into_iter().map(|history| history.events).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::MIGRATIONS;

    fn batch(ids: std::ops::RangeInclusive<i64>) -> Vec<HistoryEvent> {
        ids.map(|event_id| HistoryEvent { event_id, task_id: event_id * 7, ..HistoryEvent::default() }).collect()
    }

    fn database() -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        MIGRATIONS.iter().for_each(|migration| sql.execute_batch(migration).unwrap());
        sql
    }

    fn write(sql: &Connection, batches: &[Vec<HistoryEvent>]) -> usize {
        let rows = HistoryRow::of(batches);
        rows.iter().for_each(|row| append(sql, 1, row).unwrap());
        rows.len()
    }

    #[test]
    fn batches_of_one_step_share_a_row_and_stay_apart() {
        let sql = database();
        assert_eq!(write(&sql, &[batch(1..=2)]), 1);
        assert_eq!(write(&sql, &[batch(3..=3), batch(4..=6)]), 1);
        assert_eq!(batches(&sql, 1).unwrap(), [batch(1..=2), batch(3..=3), batch(4..=6)]);
        assert_eq!(events_after(&sql, 1, 3, 1).unwrap(), batch(4..=6));
        assert_eq!(events_before(&sql, 1, 5, 9).unwrap(), batch(1..=4).into_iter().rev().collect::<Vec<_>>());
        assert_eq!(event(&sql, 1, 5).unwrap(), batch(5..=5).pop());
        assert_eq!(event(&sql, 1, 7).unwrap(), None);
    }

    #[test]
    fn rows_are_bounded_but_for_a_large_batch() {
        let sql = database();
        let all: Vec<_> = (0..5).map(|n| batch(n * 200 + 1..=(n + 1) * 200)).chain([batch(1001..=2000)]).collect();
        assert_eq!(write(&sql, &all), 4);
        assert_eq!(batches(&sql, 1).unwrap(), all);
    }

    #[test]
    fn rows_of_builds_before_packing_are_read() {
        let sql = database();
        let encoded = History { events: batch(1..=3) }.encode_to_vec();
        sql.execute(
            "INSERT INTO engine_history (run, first_event, last_event, events) VALUES (1, 1, 3, ?1)",
            [encoded],
        )
        .unwrap();
        assert_eq!(batches(&sql, 1).unwrap(), [batch(1..=3)]);
    }
}
