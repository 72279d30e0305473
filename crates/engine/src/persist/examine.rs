//! A deep check of the engine's rows: the state and the history of each run can be decoded, and the history starts with
//! event 1 and has no gaps.

use rusqlite::{Connection, Row};
use temporalio_protos::temporal::api::workflowservice::v1::StartBatchOperationRequest;
use windlass_sqlite::{Examined, Progress, Result, TableCheck, pack};

use super::{history, namespaces::NamespaceRecord, nexus::EndpointRecord};
use crate::{batch::Batch, run::RunState, schedule::ScheduleState, visibility::sql::VisibilityRow};

/// Checks every row. A bad row is reported and the check continues; an unreadable page ends the check of its table.
/// `progress` counts rows.
pub fn examine(sql: &Connection, progress: &Progress) -> Result<Vec<Examined>> {
    let tables = sql.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'engine_runs'")?.exists([])?;
    if !tables {
        // The store's runs are kept by a Temporal cluster, so there are no engine tables.
        return Ok(Vec::new());
    }
    let look = TableCheck { sql, progress };
    // Not there before a build that has it has opened the file.
    let nexus = sql.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'engine_nexus_endpoints'")?.exists([])?;
    let mut found = Vec::new();
    if nexus {
        let endpoints = "SELECT record, id AS name FROM engine_nexus_endpoints";
        found.push(look.table("engine Nexus endpoints", endpoints, |row| decoded::<EndpointRecord>(row, 0))?);
    }
    found.extend([
        look.table("engine namespaces", "SELECT record, name FROM engine_namespaces", |row| {
            decoded::<NamespaceRecord>(row, 0)
        })?,
        look.table("engine runs", "SELECT state, run_id FROM engine_runs", |row| decoded::<RunState>(row, 0))?,
        look.table(
            "engine current runs",
            "SELECT EXISTS (SELECT 1 FROM engine_runs WHERE engine_runs.number = engine_current.number), workflow_id
             FROM engine_current",
            |row| match row.get(0) {
                Ok(true) => Ok(()),
                Ok(false) => Err("its current run is not there".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        )?,
        histories(&look)?,
        look.table("engine schedules", "SELECT state, schedule_id FROM engine_schedules", |row| {
            decoded::<ScheduleState>(row, 0)
        })?,
        look.table("engine lists", "SELECT *, run AS name FROM engine_visibility", |row| {
            VisibilityRow::read(row).map(drop).map_err(|error| error.to_string())
        })?,
    ]);
    if sql.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'engine_batches'")?.exists([])? {
        found.push(look.table("engine batches", "SELECT request, record, job_id FROM engine_batches", |row| {
            decoded::<StartBatchOperationRequest>(row, 0).and_then(|()| decoded::<Batch>(row, 1))
        })?);
    }
    Ok(found)
}

fn histories(look: &TableCheck<'_>) -> Result<Examined> {
    let mut at = (0, 0);
    look.table(
        "engine histories",
        "SELECT engine_history.run, first_event, last_event, events, coalesce(run_id, engine_history.run)
             FROM engine_history LEFT JOIN engine_runs ON engine_runs.number = engine_history.run
             ORDER BY engine_history.run, first_event",
        |row| {
            let [run, first, last] =
                [0, 1, 2].map(|column| row.get_ref(column).ok().and_then(|value| value.as_i64().ok()).unwrap_or(-1));
            let expected = if at.0 == run { at.1 + 1 } else { 1 };
            at = (run, last);
            if first != expected {
                return Err(format!("event {expected} is missing, {first} comes next"));
            }
            let events = history::decode(row, 3).map_err(|error| error.to_string())?;
            let found: Vec<_> = events.iter().map(|event| event.event_id).collect();
            match found.iter().copied().eq(first..=last) {
                true => Ok(()),
                false => Err(format!("a row of events {first} to {last} holds {found:?}")),
            }
        },
    )
}

fn decode<M: prost::Message + Default>(row: &Row<'_>, column: usize) -> std::result::Result<M, String> {
    let bytes = pack::column(row, column).map_err(|error| error.to_string())?;
    M::decode(&*bytes).map_err(|error| error.to_string())
}

fn decoded<M: prost::Message + Default>(row: &Row<'_>, column: usize) -> std::result::Result<(), String> {
    decode::<M>(row, column).map(drop)
}
