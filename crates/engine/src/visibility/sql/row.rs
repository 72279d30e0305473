//! The row of a run: insert, update and delete.

use rusqlite::{Connection, Row, named_params};

/// A run as lists show it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VisibilityRow {
    /// The run's number in the engine's other tables.
    pub run: i64,
    pub namespace: String,
    pub workflow_id: String,
    pub run_id: String,
    pub workflow_type: String,
    pub task_queue: String,
    /// `WorkflowExecutionStatus`.
    pub status: i32,
    /// Unix nanoseconds, like the other times.
    pub start_time: i64,
    pub execution_time: i64,
    pub close_time: Option<i64>,
    pub history_length: i64,
    pub history_size: i64,
    pub parent_workflow_id: Option<String>,
    pub parent_run_id: Option<String>,
    pub root_workflow_id: String,
    pub root_run_id: String,
    /// An encoded `temporal.api.common.v1.Memo`.
    pub memo: Option<Vec<u8>>,
    /// An encoded `temporal.api.common.v1.SearchAttributes`.
    pub search_attributes: Option<Vec<u8>>,
    /// The same as JSON for filters, built by `index`.
    pub attributes: String,
}

impl VisibilityRow {
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            run: row.get("run")?,
            namespace: row.get("namespace")?,
            workflow_id: row.get("workflow_id")?,
            run_id: row.get("run_id")?,
            workflow_type: row.get("workflow_type")?,
            task_queue: row.get("task_queue")?,
            status: row.get("status")?,
            start_time: row.get("start_time")?,
            execution_time: row.get("execution_time")?,
            close_time: row.get("close_time")?,
            history_length: row.get("history_length")?,
            history_size: row.get("history_size")?,
            parent_workflow_id: row.get("parent_workflow_id")?,
            parent_run_id: row.get("parent_run_id")?,
            root_workflow_id: row.get("root_workflow_id")?,
            root_run_id: row.get("root_run_id")?,
            memo: row.get("memo")?,
            search_attributes: row.get("search_attributes")?,
            attributes: row.get("attributes")?,
        })
    }
}

/// Inserts or replaces a run's row.
pub(crate) fn put(connection: &Connection, row: &VisibilityRow) -> rusqlite::Result<()> {
    if revise(connection, row)? {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO engine_visibility (run, namespace, workflow_id, run_id, workflow_type, task_queue, \
             status, start_time, execution_time, close_time, history_length, history_size, parent_workflow_id, \
             parent_run_id, root_workflow_id, root_run_id, memo, search_attributes, attributes) \
             VALUES (:run, :namespace, :workflow_id, :run_id, :workflow_type, :task_queue, :status, :start_time, \
             :execution_time, :close_time, :history_length, :history_size, :parent_workflow_id, :parent_run_id, \
             :root_workflow_id, :root_run_id, :memo, :search_attributes, :attributes)",
        )?
        .execute(named_params! {
            ":run": row.run,
            ":namespace": row.namespace,
            ":workflow_id": row.workflow_id,
            ":run_id": row.run_id,
            ":workflow_type": row.workflow_type,
            ":task_queue": row.task_queue,
            ":status": row.status,
            ":start_time": row.start_time,
            ":execution_time": row.execution_time,
            ":close_time": row.close_time,
            ":history_length": row.history_length,
            ":history_size": row.history_size,
            ":parent_workflow_id": row.parent_workflow_id,
            ":parent_run_id": row.parent_run_id,
            ":root_workflow_id": row.root_workflow_id,
            ":root_run_id": row.root_run_id,
            ":memo": row.memo,
            ":search_attributes": row.search_attributes,
            ":attributes": row.attributes,
        })
        .map(drop)
}

/// Updates the columns that change while a run stays open or closed, if the row has that status. They are not indexed,
/// so no index has to be written.
fn revise(connection: &Connection, row: &VisibilityRow) -> rusqlite::Result<bool> {
    let revised = connection
        .prepare_cached(
            "UPDATE engine_visibility SET execution_time = :execution_time, history_length = :history_length, \
             history_size = :history_size, memo = :memo, search_attributes = :search_attributes, \
             attributes = :attributes WHERE run = :run AND status = :status AND close_time IS :close_time",
        )?
        .execute(named_params! {
            ":run": row.run,
            ":status": row.status,
            ":close_time": row.close_time,
            ":execution_time": row.execution_time,
            ":history_length": row.history_length,
            ":history_size": row.history_size,
            ":memo": row.memo,
            ":search_attributes": row.search_attributes,
            ":attributes": row.attributes,
        })?;
    Ok(revised > 0)
}

/// Deletes a run's row, if there is one.
pub(crate) fn delete(connection: &Connection, run: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM engine_visibility WHERE run = ?")?.execute([run]).map(drop)
}
