//! Rows are inserted, updated, deleted, paged and counted.

use serde_json::json;
use temporalio_protos::temporal::api::{
    enums::v1::IndexedValueType, workflowservice::v1::count_workflow_executions_response::AggregationGroup,
};

use super::{EPOCH, NAMESPACE, VisibilityRow, closed, database, example, example_database, put, read, row};
use crate::{
    ServiceError,
    visibility::{
        index::encode,
        sql::{Count, Error, Page, count, delete, list},
    },
};

#[test]
fn a_row_is_read_as_it_was_written_last() {
    let connection = database();
    let first = row(1, "w", json!({"Kw": "a"}));
    let last = VisibilityRow {
        parent_workflow_id: Some("parent".into()),
        parent_run_id: Some("parent-run".into()),
        memo: Some(vec![1, 2]),
        search_attributes: Some(vec![3]),
        ..closed(row(1, "w", json!({"Kw": "b", "In": 5})), 2, EPOCH + 9)
    };
    let revised = VisibilityRow {
        execution_time: first.execution_time + 1,
        history_length: 12,
        history_size: 3456,
        memo: Some(vec![1]),
        search_attributes: Some(vec![2]),
        ..row(1, "w", json!({"Kw": "b"}))
    };
    let everything = read("").unwrap();
    for row in [first, revised, last] {
        put(&connection, &row).unwrap();
        let page = list(&connection, NAMESPACE, &everything, 10, &[]).unwrap();
        assert_eq!(page, Page { rows: vec![row], next: Vec::new() });
    }

    delete(&connection, 1).unwrap();
    delete(&connection, 1).unwrap();
    let page = list(&connection, NAMESPACE, &everything, 10, &[]).unwrap();
    assert_eq!(page, Page { rows: Vec::new(), next: Vec::new() });
}

/// Runs with equal start and closing times, so that every column of the order matters.
fn crowd() -> Vec<VisibilityRow> {
    let run = |number: i64| {
        let start_time = EPOCH + number % 3;
        let run_id = format!("{:02}", (number * 7) % 40);
        let close_time = (number % 4 != 0).then_some(EPOCH + 100 + number % 5);
        let status = if close_time.is_some() { 2 } else { 1 };
        VisibilityRow { start_time, run_id, close_time, status, ..row(number, &format!("w{}", number % 2), json!({})) }
    };
    (1..=40).map(run).collect()
}

#[test]
fn pages_have_no_gaps_and_no_repeats() {
    let connection = database();
    let mut expected = crowd();
    for row in &expected {
        put(&connection, row).unwrap();
    }
    expected.sort_by_key(|row| {
        let closing = row.close_time.unwrap_or(i64::MAX);
        (std::cmp::Reverse(closing), std::cmp::Reverse(row.start_time), row.run_id.clone())
    });

    for (query, wanted) in [("", None), ("WorkflowId = 'w1'", Some("w1"))] {
        let expected: Vec<_> =
            expected.iter().filter(|row| wanted.is_none_or(|wanted| row.workflow_id == wanted)).cloned().collect();
        let query = read(query).unwrap();
        for size in [1, 2, 3, 7, 10, 20, 40, 41] {
            let (mut rows, mut token, mut pages) = (Vec::new(), Vec::new(), 0);
            loop {
                let page = list(&connection, NAMESPACE, &query, size, &token).unwrap();
                assert!(page.rows.len() == size || page.next.is_empty());
                rows.extend(page.rows);
                token = page.next;
                pages += 1;
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(rows, expected, "pages of {size}");
            assert_eq!(pages, expected.len().div_ceil(size), "pages of {size}");
        }
    }
}

#[test]
fn the_next_page_continues_even_if_the_last_row_was_deleted() {
    let connection = database();
    for row in crowd() {
        put(&connection, &row).unwrap();
    }
    let query = read("").unwrap();
    let whole = list(&connection, NAMESPACE, &query, 100, &[]).unwrap().rows;
    let first = list(&connection, NAMESPACE, &query, 13, &[]).unwrap();
    delete(&connection, whole[12].run).unwrap();
    delete(&connection, whole[20].run).unwrap();
    put(&connection, &row(99, "new", json!({}))).unwrap();

    let second = list(&connection, NAMESPACE, &query, 100, &first.next).unwrap();

    let expected: Vec<_> = whole[13..].iter().filter(|row| row.run != whole[20].run).cloned().collect();
    assert_eq!(second, Page { rows: expected, next: Vec::new() });
}

#[test]
fn an_unreadable_row_does_not_hide_other_rows() {
    let connection = database();
    for number in 1..=6 {
        let start_time = EPOCH + number;
        put(&connection, &VisibilityRow { start_time, ..row(number, "w", json!({"Kw": "a"})) }).unwrap();
    }
    // Text and attributes that cannot be read.
    let damage = "UPDATE engine_visibility SET workflow_type = CAST(x'ff' AS TEXT) WHERE run IN (6, 5, 3, 1);
                  UPDATE engine_visibility SET attributes = '{' WHERE run = 2";
    connection.execute_batch(damage).unwrap();
    let runs = |query: &str, size, token: &[u8]| {
        let page = list(&connection, NAMESPACE, &read(query).unwrap(), size, token).unwrap();
        (page.rows.into_iter().map(|row| row.run).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(runs("", 10, &[]), (vec![4, 2], Vec::new()));
    let (first, next) = runs("", 1, &[]);
    assert_eq!((first, runs("", 1, &next)), (vec![4], (vec![2], Vec::new())));
    for query in ["Kw = 'a'", "Kw IN ('a', 'b')", "Kw STARTS_WITH 'a'"] {
        assert_eq!(runs(query, 10, &[]), (vec![4], Vec::new()), "{query}");
    }
    assert_eq!(count(&connection, NAMESPACE, &read("Kw = 'a'").unwrap()).unwrap().total, 5);
}

#[test]
fn an_invalid_page_token_is_rejected() {
    let connection = example_database();
    let refused = list(&connection, NAMESPACE, &read("").unwrap(), 10, b"not a token").unwrap_err();
    assert!(
        matches!(refused, Error::Refused(ServiceError::InvalidArgument(message)) if message == "invalid NextPageToken")
    );
}

#[test]
fn counts_are_total_or_grouped() {
    let connection = example_database();
    let counted = |query: &str| count(&connection, NAMESPACE, &read(query).unwrap()).unwrap();
    let group = |name: &str, count| AggregationGroup {
        group_values: vec![encode(&json!(name), IndexedValueType::Keyword)],
        count,
    };

    assert_eq!(counted(""), Count { total: 7, groups: Vec::new() });
    assert_eq!(counted("Kw = 'none'"), Count { total: 0, groups: Vec::new() });
    assert_eq!(
        counted("GROUP BY ExecutionStatus"),
        Count { total: 7, groups: vec![group("Running", 3), group("Terminated", 2), group("TimedOut", 2)] }
    );
    assert_eq!(
        counted("WorkflowType = 'Alpha' GROUP BY ExecutionStatus"),
        Count { total: 2, groups: vec![group("Running", 1), group("Terminated", 1)] }
    );
    assert_eq!(counted("GROUP BY TemporalNamespaceDivision"), Count { total: 7, groups: vec![group("", 7)] });
    assert_eq!(counted("WorkflowId = 'none' GROUP BY ExecutionStatus"), Count { total: 0, groups: Vec::new() });
    assert_eq!(
        counted("WorkflowId = 'none' GROUP BY TemporalNamespaceDivision"),
        Count { total: 0, groups: Vec::new() }
    );
    assert_eq!(example().len(), 7);
}
