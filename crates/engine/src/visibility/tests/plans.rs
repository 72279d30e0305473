//! Lists and counts of many runs are read by an index. Without one of these plans, a list of a million runs is slow.

use serde_json::json;

use super::{NAMESPACE, closed, database, put, read, row};
use crate::visibility::sql::{count_plan, list_plan};

fn holds(steps: &[String], expected: &[&str]) -> bool {
    expected.iter().all(|wanted| steps.iter().any(|step| step.contains(wanted)))
}

#[test]
fn lists_are_read_by_the_index_of_their_narrowest_condition() {
    let connection = database();
    for (query, expected) in [
        ("", "INDEX engine_visibility_order (namespace=?"),
        ("ExecutionStatus = 'Failed'", "INDEX engine_visibility_status (namespace=? AND status=?"),
        ("WorkflowType = 'a'", "INDEX engine_visibility_type (namespace=? AND workflow_type=?"),
        (
            "WorkflowType = 'a' AND ExecutionStatus = 'Failed'",
            "INDEX engine_visibility_type (namespace=? AND workflow_type=?",
        ),
        ("WorkflowId = 'a'", "INDEX engine_visibility_workflow (namespace=? AND workflow_id=?"),
        ("RunId = 'a'", "INDEX sqlite_autoindex_engine_runs_1 (run_id=?)"),
        ("Kw = 'a'", "SEARCH engine_closed_attributes USING PRIMARY KEY (attribute=? AND held=?"),
        ("Kl IN ('a') AND `In` > 3", "SEARCH engine_closed_attributes USING PRIMARY KEY (attribute=? AND held=?"),
        ("CloseTime BETWEEN 3 AND 4", "INDEX engine_visibility_order (namespace=? AND <expr>>? AND <expr><?)"),
        ("StartTime > 3 OR Kw = 'a'", "INDEX engine_visibility_order (namespace=?"),
    ] {
        let parsed = read(query).unwrap();
        for deep in [false, true] {
            let steps = list_plan(&connection, NAMESPACE, &parsed, deep);
            assert!(holds(&steps, &[expected]), "{query}: {steps:#?}");
            // A page needs no sorting, except among runs that ended in the same nanosecond.
            let sorted = steps.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER BY"));
            assert!(!sorted || query.starts_with("RunId"), "{query}: {steps:#?}");
            let whole = steps.iter().any(|step| step.starts_with("SCAN engine"));
            assert!(!whole, "{query}: {steps:#?}");
        }
    }
    let steps = list_plan(&connection, NAMESPACE, &read("").unwrap(), true);
    assert!(holds(&steps, &["(namespace=? AND <expr><?)"]), "a deep page starts at its position: {steps:#?}");
}

#[test]
fn counts_by_status_read_no_runs_and_others_read_an_index_only() {
    let connection = database();
    for (query, expected) in [
        ("", "engine_visibility_counts USING PRIMARY KEY (namespace=?)"),
        ("GROUP BY ExecutionStatus", "engine_visibility_counts USING PRIMARY KEY (namespace=?)"),
        (
            "ExecutionStatus IN ('Failed', 'Completed') GROUP BY ExecutionStatus",
            "engine_visibility_counts USING PRIMARY KEY",
        ),
        ("TemporalNamespaceDivision IS NULL", "engine_visibility_counts USING PRIMARY KEY (namespace=?)"),
        (
            "WorkflowType = 'a' GROUP BY ExecutionStatus",
            "USING COVERING INDEX engine_visibility_type (namespace=? AND workflow_type=?",
        ),
        ("WorkflowType = 'a' AND ExecutionStatus = 'Failed'", "USING COVERING INDEX engine_visibility_type"),
        ("CloseTime > 3", "USING COVERING INDEX engine_visibility_order (namespace=? AND <expr>>?"),
        ("StartTime > 3", "USING COVERING INDEX engine_visibility_order (namespace=?)"),
        ("StartTime > 3 GROUP BY ExecutionStatus", "USING COVERING INDEX engine_visibility_status (namespace=?)"),
        (
            "ExecutionStatus = 'Failed' AND CloseTime > 3",
            "USING COVERING INDEX engine_visibility_status (namespace=? AND status=? AND <expr>>?",
        ),
        ("Kw = 'a'", "SEARCH engine_closed_attributes USING PRIMARY KEY (attribute=? AND held=?)"),
    ] {
        let steps = count_plan(&connection, NAMESPACE, &read(query).unwrap());
        assert!(holds(&steps, &[expected]), "{query}: {steps:#?}");
    }
}

#[test]
fn rows_of_a_division_are_found_only_by_queries_that_name_it() {
    let connection = database();
    put(&connection, &row(1, "plain", json!({}))).unwrap();
    put(&connection, &closed(row(2, "divided", json!({"TemporalNamespaceDivision": "d"})), 2, 5)).unwrap();
    let found = |query: &str| super::found(&connection, &read(query).unwrap());
    assert_eq!(found(""), ["plain"]);
    assert_eq!(found("WorkflowId = 'divided'"), [""; 0]);
    assert_eq!(found("TemporalNamespaceDivision = 'd'"), ["divided"]);
    assert_eq!(found("NamespaceDivision IS NULL OR NamespaceDivision IS NOT NULL"), ["plain", "divided"]);
    let counted = |query: &str| {
        let counted = crate::visibility::sql::count(&connection, NAMESPACE, &read(query).unwrap()).unwrap();
        (counted.total, counted.groups.len())
    };
    assert_eq!(counted(""), (1, 0));
    assert_eq!(counted("StartTime > 0"), (1, 0));
    assert_eq!(counted("GROUP BY TemporalNamespaceDivision"), (2, 2));
    assert_eq!(counted("TemporalNamespaceDivision = 'd' GROUP BY ExecutionStatus"), (1, 1));
}
