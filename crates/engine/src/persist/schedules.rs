//! Schedules.

use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter, types::Value};

use super::readable;
use crate::{schedule::ScheduleState, time::Nanos, visibility::Query};

/// A schedule, to be written.
pub(crate) struct ScheduleRow {
    pub(crate) namespace: String,
    pub(crate) schedule_id: String,
    pub(crate) created: Nanos,
    pub(crate) closed: Option<Nanos>,
    pub(crate) next_due: Option<Nanos>,
    pub(crate) busy: bool,
    /// Encoded.
    pub(crate) state: Vec<u8>,
    pub(crate) attributes: String,
}

impl ScheduleRow {
    pub(crate) fn apply(&self, sql: &Connection) -> rusqlite::Result<()> {
        sql.prepare_cached(
            "INSERT INTO engine_schedules (namespace, schedule_id, created, closed, next_due, busy, state, attributes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (namespace, schedule_id) DO UPDATE SET created = excluded.created, closed = excluded.closed,
                 next_due = excluded.next_due, busy = excluded.busy, state = excluded.state,
                 attributes = excluded.attributes",
        )?
        .execute(params![
            self.namespace,
            self.schedule_id,
            self.created,
            self.closed,
            self.next_due,
            self.busy,
            self.state,
            self.attributes
        ])?;
        Ok(())
    }
}

pub(crate) fn find_schedule(
    sql: &Connection,
    namespace: &str,
    schedule_id: &str,
) -> rusqlite::Result<Option<ScheduleState>> {
    sql.prepare_cached("SELECT state FROM engine_schedules WHERE namespace = ?1 AND schedule_id = ?2")?
        .query_row([namespace, schedule_id], |row| state(row, 0))
        .optional()
}

/// What has to be done for a schedule after a start of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingSchedule {
    pub(crate) namespace: String,
    pub(crate) schedule_id: String,
    pub(crate) next_due: Option<Nanos>,
    pub(crate) busy: bool,
}

pub(crate) fn waiting_schedules(sql: &Connection) -> rusqlite::Result<Vec<WaitingSchedule>> {
    let mut schedules = sql.prepare(
        "SELECT namespace, schedule_id, next_due, busy FROM engine_schedules
         WHERE closed IS NULL AND (next_due IS NOT NULL OR busy = 1)",
    )?;
    readable(schedules.query([])?, ("engine_schedules", "schedule_id"), |row| {
        Ok(WaitingSchedule {
            namespace: row.get(0)?,
            schedule_id: row.get(1)?,
            next_due: row.get(2)?,
            busy: row.get(3)?,
        })
    })
}

/// The columns that filters know, and those of lists.
const OPEN: &str = "(SELECT namespace, schedule_id, schedule_id AS workflow_id, created, state, attributes
                     FROM engine_schedules WHERE closed IS NULL) AS engine_visibility";

/// Open schedules after a position, the latest first.
pub(crate) fn schedules(
    sql: &Connection,
    namespace: &str,
    query: &Query,
    after: Option<(Nanos, &str)>,
    limit: usize,
) -> rusqlite::Result<Vec<ScheduleState>> {
    let (filter, values) = query.where_sql(false);
    let mut parameters = vec![Value::Text(namespace.to_owned())];
    parameters.extend(values);
    let mut position = "TRUE";
    if let Some((created, schedule_id)) = after {
        position = "created < ? OR (created = ? AND schedule_id > ?)";
        parameters.extend([Value::Integer(created), Value::Integer(created), Value::Text(schedule_id.to_owned())]);
    }
    parameters.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
    let mut statement = sql.prepare(&format!(
        "SELECT state, schedule_id FROM {OPEN} WHERE namespace = ? AND ({filter}) AND ({position}) \
         ORDER BY created DESC, schedule_id LIMIT ?"
    ))?;
    readable(statement.query(params_from_iter(parameters))?, ("engine_schedules", "schedule_id"), |row| state(row, 0))
}

pub(crate) fn count_schedules(sql: &Connection, namespace: &str, query: &Query) -> rusqlite::Result<i64> {
    let (filter, values) = query.where_sql(false);
    let parameters = std::iter::once(Value::Text(namespace.to_owned())).chain(values);
    let counted = format!("SELECT COUNT(*) FROM {OPEN} WHERE namespace = ? AND ({filter})");
    sql.prepare(&counted)?.query_row(params_from_iter(parameters), |row| row.get(0))
}

pub(crate) fn has_closed_schedules(sql: &Connection, namespace: &str, before: Nanos) -> rusqlite::Result<bool> {
    sql.prepare_cached("SELECT 1 FROM engine_schedules WHERE namespace = ?1 AND closed < ?2")?
        .exists(params![namespace, before])
}

/// Removes schedules of a namespace that were closed before this time.
pub(crate) fn remove_closed_schedules(sql: &Connection, namespace: &str, before: Nanos) -> rusqlite::Result<()> {
    sql.prepare_cached("DELETE FROM engine_schedules WHERE namespace = ?1 AND closed < ?2")?
        .execute(params![namespace, before])?;
    Ok(())
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<ScheduleState> {
    let blob = row.get_ref(column)?.as_blob()?;
    ScheduleState::decode(blob).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, Box::new(error))
    })
}
