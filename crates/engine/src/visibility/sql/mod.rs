//! The tables `engine_visibility`, `engine_visibility_counts` and `engine_closed_attributes`.
//!
//! All functions take a connection and run inside the caller's transaction. `access_path` decides which index a query is read
//! by; SQLite does not know how many runs there are of a type or a status.

mod access_path;
mod count;
mod held;
mod list;
mod row;

use rusqlite::Connection;

#[cfg(test)]
pub(crate) use self::{count::plan as count_plan, list::plan as list_plan};
pub(crate) use self::{
    count::{Count, count},
    list::{Page, closing, list},
    row::{VisibilityRow, delete, put},
};
use crate::ServiceError;

/// The closing time in the order of lists: open runs sort before every closed one.
pub(super) const CLOSING: &str = "COALESCE(close_time, 9223372036854775807)";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Refused(#[from] ServiceError),
    #[error("the list of runs could not be read: {0}")]
    Database(#[from] rusqlite::Error),
}

/// Whether a namespace has runs of a division. Without any, queries need no condition that leaves them out.
fn has_divisions(connection: &Connection, namespace: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM engine_visibility_counts WHERE namespace = ? AND division > '' AND runs > 0")?
        .exists([namespace])
}

/// The steps of SQLite's plan.
#[cfg(test)]
fn explain(connection: &Connection, sql: &str, values: &[rusqlite::types::Value]) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(3)).unwrap();
    steps.collect::<rusqlite::Result<_>>().unwrap()
}
