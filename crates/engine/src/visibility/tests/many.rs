//! Many closed runs, written as the engine writes them: a start and an end each, or the end only for the measurement.
//!
//! `WINDLASS_MANY_RUNS=1000000 cargo test -p windlass-engine --lib many -- --nocapture` prints how long lists and counts
//! take, and how large the file is.

use std::time::Instant;

use rusqlite::Connection;
use serde_json::json;

use super::{NAMESPACE, VisibilityRow, closed, payload, put, read, row, search_attributes};
use crate::visibility::sql::{count, list};

const STATUSES: [i32; 4] = [2, 2, 3, 4];

/// A run of a mix of types, statuses and attributes.
fn nth(number: i64) -> VisibilityRow {
    let rare = number % 1000 == 0;
    let fields =
        json!({"Kw": if rare { "rare".to_owned() } else { format!("tenant-{}", number % 50) }, "In": number % 7});
    let open = VisibilityRow {
        workflow_type: format!("Type{}", number % 10),
        run_id: format!("01a1f042-5d5f-791d-b671-{number:012}"),
        root_run_id: format!("01a1f042-5d5f-791d-b671-{number:012}"),
        memo: Some(prost::Message::encode_to_vec(&payload(&json!("a memo")))),
        search_attributes: Some(prost::Message::encode_to_vec(&search_attributes(&fields))),
        ..row(number, &format!("order-{number}"), fields)
    };
    let end = open.start_time + 60 * super::SECOND;
    closed(open, STATUSES[usize::try_from(number % 4).unwrap()], end)
}

fn timed<T>(shown: bool, what: &str, act: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = act();
    if shown {
        eprintln!("{what:<70} {:>9.1} ms", started.elapsed().as_secs_f64() * 1000.0);
    }
    done
}

#[test]
fn many_closed_runs_are_listed_and_counted() {
    let asked = std::env::var("WINDLASS_MANY_RUNS").ok().and_then(|runs| runs.parse().ok());
    let (runs, shown): (i64, bool) = (asked.unwrap_or(4_000), asked.is_some());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -500000")
        .unwrap();
    crate::persist::MIGRATIONS.iter().for_each(|migration| connection.execute_batch(migration).unwrap());
    timed(shown, "written", || {
        for from in (0..runs).step_by(10_000) {
            let transaction = connection.unchecked_transaction().unwrap();
            for number in from..(from + 10_000).min(runs) {
                let ended = nth(number);
                if !shown {
                    put(&connection, &VisibilityRow { status: 1, close_time: None, ..ended.clone() }).unwrap();
                }
                put(&connection, &ended).unwrap();
            }
            transaction.commit().unwrap();
        }
    });
    if shown {
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        eprintln!("{runs} runs are {bytes} bytes, {} a run", bytes / u64::try_from(runs).unwrap());
    }
    drop(connection);
    let connection = timed(shown, "opened", || Connection::open(&path).unwrap());
    timed(shown, "first query", || connection.prepare("SELECT 1 FROM engine_visibility").unwrap().exists([]).unwrap());

    for (query, expected) in [
        ("", runs),
        ("ExecutionStatus = 'Failed'", runs / 4),
        ("ExecutionStatus = 'Running'", 0),
        ("WorkflowType = 'Type3'", runs / 10),
        ("WorkflowType = 'Type3' AND ExecutionStatus = 'Failed'", 0),
        ("WorkflowId = 'order-77'", 1),
        ("Kw = 'rare'", runs / 1000),
        ("Kw = 'tenant-7'", runs / 50),
        ("Kw = 'tenant-7' AND ExecutionStatus = 'Completed'", 0),
        ("CloseTime < '2026-01-01T00:02:00Z'", 60),
        ("StartTime < '2026-01-01T00:01:00Z'", 60),
        ("WorkflowId STARTS_WITH 'order-77'", if runs == 4_000 { 11 } else { 0 }),
        ("`In` = 3 AND Kw = 'rare'", 0),
    ] {
        let parsed = read(query).unwrap();
        let page = timed(shown, &format!("first page of {query:?}"), || {
            list(&connection, NAMESPACE, &parsed, 1000, &[]).unwrap()
        });
        let counted = timed(shown, &format!("count of {query:?}"), || count(&connection, NAMESPACE, &parsed).unwrap());
        if expected > 0 {
            assert_eq!(counted.total, expected, "{query}");
        }
        assert_eq!(page.rows.len() as i64, counted.total.min(1000), "{query}");
    }
    let grouped = read("GROUP BY ExecutionStatus").unwrap();
    let counted = timed(shown, "count by status", || count(&connection, NAMESPACE, &grouped).unwrap());
    let mut groups: Vec<i64> = counted.groups.iter().map(|group| group.count).collect();
    groups.sort_unstable();
    assert_eq!((counted.total, groups), (runs, vec![runs / 4, runs / 4, runs / 2]));
    let typed = read("WorkflowType = 'Type3' GROUP BY ExecutionStatus").unwrap();
    let counted = timed(shown, "count by status of a type", || count(&connection, NAMESPACE, &typed).unwrap());
    assert_eq!(counted.total, runs / 10);

    // A page in the middle, reached by its token.
    let everything = read("").unwrap();
    let mut token = Vec::new();
    for number in 0..3 {
        let page = timed(shown, &format!("page {number}"), || {
            list(&connection, NAMESPACE, &everything, 1000, &token).unwrap()
        });
        token = page.next;
    }
    let deep = closed(row(0, "x", json!({})), 2, super::EPOCH + (runs / 2 + 60) * super::SECOND);
    let token = crate::visibility::sql::Page::of(vec![deep.clone(), deep], 1).next;
    let page =
        timed(shown, "a page in the middle", || list(&connection, NAMESPACE, &everything, 1000, &token).unwrap());
    assert_eq!(page.rows.len() as i64, 1000.min(runs / 2));
}
