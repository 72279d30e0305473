//! The row of a run: insert, update and delete.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::held;

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
    /// Steps of the run so far.
    pub state_transitions: i64,
}

/// The attribute that takes a run out of the lists of other runs.
const DIVISION: &str = "TemporalNamespaceDivision";

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
            state_transitions: row.get("state_transitions")?,
        })
    }

    fn division(&self) -> Option<String> {
        if !self.attributes.contains(DIVISION) {
            return None;
        }
        let attributes: serde_json::Value = serde_json::from_str(&self.attributes).ok()?;
        Some(attributes.get(DIVISION)?.as_str()?.to_owned()).filter(|division| !division.is_empty())
    }
}

/// Inserts or replaces a run's row.
pub(crate) fn put(connection: &Connection, row: &VisibilityRow) -> rusqlite::Result<()> {
    let division = row.division();
    if revise(connection, row, division.as_deref())? {
        return Ok(());
    }
    delete(connection, row.run)?;
    connection
        .prepare_cached(
            "INSERT INTO engine_visibility (run, namespace, workflow_id, run_id, workflow_type, task_queue, status, \
             start_time, execution_time, close_time, history_length, history_size, parent_workflow_id, \
             parent_run_id, root_workflow_id, root_run_id, memo, search_attributes, attributes, state_transitions, \
             division) \
             VALUES (:run, :namespace, :workflow_id, :run_id, :workflow_type, :task_queue, :status, :start_time, \
             :execution_time, :close_time, :history_length, :history_size, :parent_workflow_id, :parent_run_id, \
             :root_workflow_id, :root_run_id, :memo, :search_attributes, :attributes, :state_transitions, :division)",
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
            ":state_transitions": row.state_transitions,
            ":division": division,
        })?;
    recount(connection, &row.namespace, division.as_deref(), row.status, 1)?;
    held::add(connection, row)
}

/// Updates the columns that change while a run stays open or closed, if the row has that status. They are not indexed,
/// so no index has to be written.
fn revise(connection: &Connection, row: &VisibilityRow, division: Option<&str>) -> rusqlite::Result<bool> {
    let revised = connection
        .prepare_cached(
            "UPDATE engine_visibility SET execution_time = :execution_time, history_length = :history_length, \
             history_size = :history_size, memo = :memo, search_attributes = :search_attributes, \
             attributes = :attributes, state_transitions = :state_transitions \
             WHERE run = :run AND status = :status AND close_time IS :close_time AND division IS :division \
             AND (close_time IS NULL OR attributes = :attributes)",
        )?
        .execute(named_params! {
            ":run": row.run,
            ":status": row.status,
            ":close_time": row.close_time,
            ":division": division,
            ":execution_time": row.execution_time,
            ":history_length": row.history_length,
            ":history_size": row.history_size,
            ":memo": row.memo,
            ":search_attributes": row.search_attributes,
            ":attributes": row.attributes,
            ":state_transitions": row.state_transitions,
        })?;
    Ok(revised > 0)
}

/// Deletes a run's row, if there is one.
pub(crate) fn delete(connection: &Connection, run: i64) -> rusqlite::Result<()> {
    let deleted = connection
        .prepare_cached(
            "DELETE FROM engine_visibility WHERE run = ? RETURNING namespace, division, status, close_time, attributes",
        )?
        .query_row([run], |row| {
            let division: Option<String> = row.get(1)?;
            Ok((row.get::<_, String>(0)?, division, row.get(2)?, row.get(3)?, row.get::<_, String>(4)?))
        })
        .optional()?;
    let Some((namespace, division, status, close_time, attributes)) = deleted else { return Ok(()) };
    recount(connection, &namespace, division.as_deref(), status, -1)?;
    match close_time {
        Some(close_time) => held::remove(connection, run, &namespace, &attributes, close_time),
        None => Ok(()),
    }
}

fn recount(
    connection: &Connection,
    namespace: &str,
    division: Option<&str>,
    status: i32,
    change: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO engine_visibility_counts (namespace, division, status, runs) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT DO UPDATE SET runs = runs + excluded.runs",
        )?
        .execute(params![namespace, division.unwrap_or_default(), status, change])
        .map(drop)
}
