//! The engine's tables.
//!
//! This module makes no decisions. Lists and their filters are in `visibility`.

mod batches;
mod deployments;
mod examine;
mod history;
mod namespaces;
mod nexus;
mod runs;
mod schedules;

use rusqlite::{Row, Rows};
use windlass_sqlite::{Database, is_row_error, row_name};

pub use self::examine::examine;

pub(crate) use self::{
    batches::{
        BatchPosition, add_batch, find_batch, has_expired_batches, list_batches, open_batches, remove_batches,
        running_batches, save_batch,
    },
    deployments::{deployments, pinned_runs, remove_deployment, save_deployment},
    history::{HistoryRow, batches, event, events_after, events_before},
    namespaces::{
        ArchivalConfig, NamespaceRecord, attributes, namespaces, remove_attribute, remove_namespace, rename_namespace,
        runs_of, save_attribute, save_namespace,
    },
    nexus::{EndpointRecord, endpoints, remove_endpoint, save_endpoint},
    runs::{Found, RunWrite, current_run, delete_run, expired, find_run, highest_number, ready_runs, wakeups},
    schedules::{
        ScheduleRow, WaitingSchedule, count_schedules, find_schedule, has_closed_schedules, remove_closed_schedules,
        schedules, waiting_schedules,
    },
};

/// The component name and the schema version of this build.
pub const SCHEMA: (&str, usize) = ("engine", MIGRATIONS.len());

pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_history_in_order.sql"),
    include_str!("migrations/0003_steps_touch_fewer_pages.sql"),
    include_str!("migrations/0004_schedules.sql"),
    include_str!("migrations/0005_worker_deployments.sql"),
    include_str!("migrations/0006_batches.sql"),
    include_str!("migrations/0007_nexus.sql"),
    include_str!("migrations/0008_visibility.sql"),
];

pub(crate) fn migrate(database: &Database) -> windlass_sqlite::Result<()> {
    database.migrate(SCHEMA.0, MIGRATIONS)
}

/// The readable rows of a query. Unreadable rows are left out and logged with the column `id`, so that one bad row does
/// not hide the others.
pub(crate) fn readable<T>(
    mut rows: Rows<'_>,
    (table, id): (&str, &str),
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut readable = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row) {
            Ok(value) => readable.push(value),
            Err(error) if is_row_error(&error) => {
                let id = row_name(row.get_ref(id)?);
                tracing::warn!(%error, table, id, "a row cannot be read and is left out");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(readable)
}
