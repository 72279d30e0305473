//! The filter language on a real database: answers recorded from the real server, paging, and random filters.

mod books;
mod many;
mod plans;
mod random;
mod recorded;
mod rows;
mod table;

use std::collections::HashMap;

use rusqlite::Connection;
use serde_json::{Value, json};
use temporalio_protos::temporal::api::{
    common::v1::{Payload, SearchAttributes},
    enums::v1::IndexedValueType,
};

use super::{
    Attributes, Query,
    index::index,
    parse,
    sql::{VisibilityRow, list},
};
use crate::ServiceError;

const NAMESPACE: &str = "default";
const SECOND: i64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z.
const EPOCH: i64 = 1_767_225_600 * SECOND;

fn attributes() -> Attributes {
    [
        ("Kw", IndexedValueType::Keyword),
        ("Tx", IndexedValueType::Text),
        ("In", IndexedValueType::Int),
        ("Dbl", IndexedValueType::Double),
        ("Bo", IndexedValueType::Bool),
        ("Dt", IndexedValueType::Datetime),
        ("Kl", IndexedValueType::KeywordList),
    ]
    .into_iter()
    .map(|(name, kind)| (name.to_owned(), kind))
    .collect()
}

fn database() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    for migration in crate::persist::MIGRATIONS {
        connection.execute_batch(migration).unwrap();
    }
    connection
}

fn payload(value: &Value) -> Payload {
    Payload {
        metadata: HashMap::from([("encoding".to_owned(), b"json/plain".to_vec())]),
        data: value.to_string().into_bytes(),
        ..Payload::default()
    }
}

fn search_attributes(fields: &Value) -> SearchAttributes {
    let fields = fields.as_object().unwrap();
    SearchAttributes { indexed_fields: fields.iter().map(|(name, value)| (name.clone(), payload(value))).collect() }
}

/// An open run that started `run` seconds after the epoch, with these search attributes.
fn row(run: i64, workflow_id: &str, fields: Value) -> VisibilityRow {
    VisibilityRow {
        run,
        namespace: NAMESPACE.into(),
        workflow_id: workflow_id.into(),
        run_id: format!("run-{run}"),
        workflow_type: "Alpha".into(),
        task_queue: "q1".into(),
        status: 1,
        start_time: EPOCH + run * SECOND,
        execution_time: EPOCH + run * SECOND,
        close_time: None,
        history_length: 3,
        history_size: 300,
        parent_workflow_id: None,
        parent_run_id: None,
        root_workflow_id: workflow_id.into(),
        root_run_id: format!("run-{run}"),
        memo: None,
        search_attributes: None,
        state_transitions: 5,
        attributes: index(NAMESPACE, &search_attributes(&fields), &attributes()).unwrap().json,
    }
}

/// Inserts or replaces a run's row, as `RunWrite` does with that of the run.
fn put(connection: &Connection, row: &VisibilityRow) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT OR REPLACE INTO engine_runs (number, namespace, workflow_id, run_id, state, ready) VALUES (?, ?, ?, ?, x'', 0)",
        rusqlite::params![row.run, row.namespace, row.workflow_id, row.run_id],
    )?;
    super::sql::put(connection, row)
}

fn closed(row: VisibilityRow, status: i32, close_time: i64) -> VisibilityRow {
    VisibilityRow { status, close_time: Some(close_time), ..row }
}

/// The runs that the server had when its answers were recorded.
fn example() -> Vec<VisibilityRow> {
    let w1 = json!({
        "Kw": "alpha", "In": 1, "Dbl": 1.5, "Bo": true, "Dt": "2024-01-01T00:00:00Z", "Kl": ["a", "b"],
        "Tx": "hello big world",
    });
    let w2 = json!({
        "Kw": "beta", "In": 2, "Dbl": 2.5, "Bo": false, "Dt": "2025-01-01T00:00:00.123456789Z", "Kl": ["b", "c"],
        "Tx": "Hello small World",
    });
    let end = EPOCH + 60 * SECOND;
    let typed = |workflow_type: &str, row| VisibilityRow { workflow_type: workflow_type.into(), ..row };
    let brief = |row: VisibilityRow| VisibilityRow { execution_time: row.close_time.unwrap() - SECOND / 2, ..row };
    vec![
        row(1, "w1", w1),
        VisibilityRow { task_queue: "q2".into(), ..brief(closed(row(2, "w2", w2), 5, end)) },
        brief(typed(
            "Beta",
            closed(row(3, "w3", json!({"Kw": "al'p%ha_", "In": -3, "Dbl": 2, "Kl": ["a b", "c"]})), 5, end + 1),
        )),
        typed("Beta", row(4, "w4", json!({"Kl": ["A"]}))),
        typed("ALPHA", closed(row(5, "w5", json!({"Kw": "ALPHA"})), 7, end + 2)),
        typed("Gamma", closed(row(6, "x_6", json!({})), 7, end + 3)),
        typed("Gamma", row(7, "x%7", json!({"Kw": "back\\slash", "Kl": [], "Tx": ""}))),
    ]
}

fn example_database() -> Connection {
    let connection = database();
    for row in example() {
        put(&connection, &row).unwrap();
    }
    connection
}

fn read(query: &str) -> Result<Query, ServiceError> {
    parse(query, &attributes())
}

/// The ids of the runs that a query finds, in order.
fn found(connection: &Connection, query: &Query) -> Vec<String> {
    let page = list(connection, NAMESPACE, query, 1000, &[]).unwrap();
    page.rows.into_iter().map(|row| row.workflow_id).collect()
}
