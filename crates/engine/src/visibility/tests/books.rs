//! The counts and the index of attributes say what the rows say, whatever happened to the rows.

use proptest::{collection::vec, prelude::*, sample::select};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{VisibilityRow, closed, database, put, row};
use crate::visibility::sql::delete;

#[derive(Debug, Clone)]
enum Change {
    Put { run: i64, ended: Option<(i32, i64)>, fields: Value },
    Delete { run: i64 },
}

fn change() -> impl Strategy<Value = Change> {
    let fields = select(vec![
        json!({}),
        json!({"Kw": "a", "In": 1, "Bo": true}),
        json!({"Kw": "B", "Kl": ["x", "X", "y"], "Dbl": 2.5}),
        json!({"TemporalNamespaceDivision": "d", "Tx": "some words"}),
        json!({"Kw": "x".repeat(300), "Kl": [" lead"], "Dt": "2026-01-01T00:00:00Z"}),
    ]);
    let ended = prop::option::of((select(vec![2, 3, 5]), 1_i64..4));
    prop_oneof![
        4 => (1_i64..5, ended, fields).prop_map(|(run, ended, fields)| Change::Put { run, ended, fields }),
        1 => (1_i64..5).prop_map(|run| Change::Delete { run }),
    ]
}

fn written(run: i64, ended: Option<(i32, i64)>, fields: Value) -> VisibilityRow {
    let open = row(run, &format!("w{run}"), fields);
    ended.map_or_else(|| open.clone(), |(status, at)| closed(open.clone(), status, at))
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

fn counts(connection: &Connection) -> [Vec<String>; 2] {
    let kept = "SELECT format('%s/%s/%d: %d', namespace, division, status, runs) FROM engine_visibility_counts
                WHERE runs != 0 ORDER BY 1";
    let counted = "SELECT format('%s/%s/%d: %d', namespace, COALESCE(division, ''), status, COUNT(*))
                   FROM engine_visibility GROUP BY namespace, division, status ORDER BY 1";
    [texts(connection, kept), texts(connection, counted)]
}

fn attributes(connection: &Connection) -> Vec<String> {
    texts(
        connection,
        "SELECT format('%s/%s = %s %s at %d of %d', namespace, name, lower(held), typeof(held), closed_at, closed_run)
         FROM engine_closed_attributes JOIN engine_attribute_names ON id = attribute ORDER BY 1",
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_and_attributes_follow_the_rows(changes in vec(change(), 1..12)) {
        let connection = database();
        let mut rows = std::collections::BTreeMap::new();
        for change in changes {
            match change {
                Change::Put { run, ended, fields } => {
                    let row = written(run, ended, fields);
                    put(&connection, &row).unwrap();
                    rows.insert(run, row);
                }
                Change::Delete { run } => {
                    delete(&connection, run).unwrap();
                    rows.remove(&run);
                }
            }
        }
        let [kept, counted] = counts(&connection);
        prop_assert_eq!(kept, counted);
        // The same rows, each written once.
        let once = database();
        for row in rows.values() {
            put(&once, row).unwrap();
        }
        prop_assert_eq!(attributes(&connection), attributes(&once));
    }
}

#[test]
fn rows_of_an_earlier_build_get_their_counts_and_attributes() {
    let earlier = Connection::open_in_memory().unwrap();
    let (last, before) = crate::persist::MIGRATIONS.split_last().unwrap();
    assert!(last.contains("engine_visibility_counts"));
    before.iter().for_each(|migration| earlier.execute_batch(migration).unwrap());
    let now = database();
    let fields = [
        json!({"Kw": "a", "In": 1, "Bo": false, "Dbl": 2.5}),
        json!({"Kl": ["x", "X", "y"], "TemporalNamespaceDivision": "d"}),
        json!({"Kw": " lead", "Tx": "some words", "Kl": ["x".repeat(300)]}),
        json!({}),
    ];
    for (run, fields) in (1..).zip(fields) {
        let row = written(run, (run != 4).then_some((2, run)), fields);
        put(&now, &row).unwrap();
        earlier
            .execute(
                "INSERT INTO engine_visibility (run, namespace, workflow_id, run_id, workflow_type, task_queue, status,
                     start_time, execution_time, close_time, history_length, history_size, root_workflow_id, root_run_id,
                     attributes)
                 VALUES (?, ?, ?, ?, 't', 'q', ?, 0, 0, ?, 0, 0, '', '', ?)",
                rusqlite::params![
                    row.run, row.namespace, row.workflow_id, row.run_id, row.status, row.close_time, row.attributes
                ],
            )
            .unwrap();
    }
    earlier.execute_batch("UPDATE engine_visibility SET attributes = '{' WHERE run = 4").unwrap();
    earlier.execute_batch(last).unwrap();
    assert_eq!(counts(&earlier), counts(&now));
    assert_eq!(attributes(&earlier), attributes(&now));
}
