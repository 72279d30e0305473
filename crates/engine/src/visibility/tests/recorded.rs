//! Queries sent to Temporal Server 1.32.0 with its SQLite store, and its answers: the `runs` it found, its `refusal`
//! (InvalidArgument), or its `failure` (any other code). Lines with `ours` are answered differently here, and say how.

use serde_json::{Value, json};
use tonic::Code;

use super::{example_database, found, read};

#[test]
fn queries_answer_like_the_recorded_server() {
    let connection = example_database();
    let mut different = Vec::new();
    for line in include_str!("recorded.jsonl").lines() {
        let Value::Object(mut expected) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        let query = expected.remove("query").unwrap();
        let expected = expected.remove("ours").unwrap_or(Value::Object(expected));
        let answer = match read(query.as_str().unwrap()) {
            Ok(query) => json!({"runs": found(&connection, &query)}),
            Err(error) if error.code() == Code::InvalidArgument => json!({"refusal": error.to_string()}),
            Err(other) => json!({"failure": other.to_string()}),
        };
        if answer != expected {
            different.push(json!({"query": query, "expected": expected, "answer": answer}).to_string());
        }
    }
    assert!(different.is_empty(), "\n{}", different.join("\n"));
}
