//! What the recorded answers do not cover: limits, injection, and values whose type changed.

use serde_json::json;

use super::{VisibilityRow, database, example_database, found, put, read, row};
use crate::{ServiceError, visibility::sql::list};

#[test]
fn an_empty_query_finds_everything_in_order() {
    let connection = example_database();
    assert_eq!(found(&connection, &read(" \n ").unwrap()), ["x%7", "w4", "w1", "x_6", "w5", "w3", "w2"]);
}

#[test]
fn namespaces_do_not_see_each_other() {
    let connection = example_database();
    put(&connection, &VisibilityRow { namespace: "other".into(), ..row(99, "theirs", json!({"Kw": "alpha"})) })
        .unwrap();

    let ours = read("Kw = 'alpha' OR WorkflowId = 'theirs'").unwrap();
    assert_eq!(found(&connection, &ours), ["w1"]);
    let theirs = list(&connection, "other", &read("").unwrap(), 10, &[]).unwrap();
    assert_eq!(theirs.rows.len(), 1);
}

#[test]
fn values_are_bound_as_parameters_and_never_executed() {
    let connection = example_database();
    for value in ["' OR '1'='1", "'; DROP TABLE engine_visibility; --", "\\' OR 1=1 --", "%", "\u{0}", "w1\u{0}"] {
        let quoted = value.replace('\\', "\\\\").replace('\'', "''");
        for query in [
            format!("WorkflowId = '{quoted}'"),
            format!("WorkflowId IN ('{quoted}', 'none')"),
            format!("WorkflowId BETWEEN '{quoted}' AND '{quoted}'"),
            format!("WorkflowId STARTS_WITH '{quoted}'"),
            format!("Kw = '{quoted}'"),
            format!("Kl = '{quoted}'"),
            format!("Tx = '{quoted}' AND Tx = 'nothing'"),
        ] {
            let parsed = read(&query).unwrap();
            let (sql, values) = parsed.where_sql(true);
            assert!(!sql.contains(value), "{sql}");
            assert!(!values.is_empty());
            assert_eq!(found(&connection, &parsed), Vec::<String>::new(), "{query}");
        }
        assert!(matches!(read(&format!("`{value}` = 'x'")), Err(ServiceError::InvalidArgument(_))));
    }
    assert_eq!(found(&connection, &read("").unwrap()).len(), 7);
}

#[test]
fn attribute_names_may_contain_any_character() {
    let name = r#"it's "quoted" $.x[0] -- and spaced"#;
    let attributes = [(name.to_owned(), temporalio_protos::temporal::api::enums::v1::IndexedValueType::Keyword)];
    let attributes = attributes.into_iter().collect();
    let connection = database();
    let stored = VisibilityRow { attributes: json!({name: "here"}).to_string(), ..row(1, "w", json!({})) };
    put(&connection, &stored).unwrap();

    let query = crate::visibility::parse(&format!("`{name}` = 'here'"), &attributes).unwrap();
    assert_eq!(found(&connection, &query), ["w"]);
}

#[test]
fn a_value_stored_under_an_earlier_type_is_not_an_error() {
    let connection = database();
    for (run, value) in [json!(5), json!("[broken"), json!({"a": 1}), json!(true), json!(["a"])].into_iter().enumerate()
    {
        let attributes = json!({"Kl": value, "Tx": value, "Kw": value, "In": value}).to_string();
        put(&connection, &VisibilityRow { attributes, ..row(run as i64, &run.to_string(), json!({})) }).unwrap();
    }
    assert_eq!(found(&connection, &read("Kl = 'a'").unwrap()), ["4"]);
    assert_eq!(found(&connection, &read("`In` = 5").unwrap()), ["0"]);
    assert_eq!(found(&connection, &read("Tx = 'zzz' OR Kw = '[broken'").unwrap()), ["1"]);
}

#[test]
fn long_chains_and_deep_nesting_stay_within_the_databases_limits() {
    let connection = example_database();
    let chain = vec!["WorkflowId = 'w1'"; 1500].join(" OR ");
    assert_eq!(found(&connection, &read(&chain).unwrap()), ["w1"]);
    let list = format!("HistoryLength NOT IN ({}1)", "1,".repeat(16_000));
    assert_eq!(found(&connection, &read(&list).unwrap()).len(), 4);
    let words = format!("Tx = '{}hello'", "x ".repeat(16_000));
    assert_eq!(found(&connection, &read(&words).unwrap()), ["w1", "w2"]);
    let negations = format!("{}WorkflowId = 'w1'", "NOT ".repeat(8000));
    assert_eq!(found(&connection, &read(&negations).unwrap()), ["w1"]);

    let deep = |depth: usize| {
        let open = "WorkflowId = 'x' OR NOT (WorkflowId != 'w1' AND ".repeat(depth);
        format!("{open}WorkflowId = 'w1'{}", ")".repeat(depth))
    };
    // Each level negates the result.
    assert_eq!(found(&connection, &read(&deep(48)).unwrap()).len(), 0);
    assert_eq!(found(&connection, &read(&deep(49)).unwrap()).len(), 7);
    let refused = read(&deep(50)).unwrap_err().to_string();
    assert!(refused.starts_with("invalid query: malformed SQL query: max nesting level reached"), "{refused}");
}

#[test]
fn a_query_has_a_length_limit() {
    let long = format!("WorkflowId = '{}'", "x".repeat(40_000));
    assert_eq!(
        read(&long),
        Err(ServiceError::InvalidArgument(
            "invalid query: 40015 bytes are more than the 32768 that a filter may have; shorten it".into()
        ))
    );
}
