//! Reading a tool's arguments.

use serde::de::DeserializeOwned;
use windlass_core::{
    canonical::CanonicalJson,
    envelope::{FieldIssue, RetryHint, RetryReason, ToolErrorKind},
};

use crate::ToolFailure;

/// The arguments as the tool's own type. They were checked against its schema before; a tool called in any other way
/// still fails politely.
pub(crate) fn decode<T: DeserializeOwned>(args: &CanonicalJson) -> Result<T, ToolFailure> {
    let wrong = |problem: &str| {
        ToolFailure::new(ToolErrorKind::ToolInputInvalid, format!("the arguments are wrong: {problem}"))
    };
    // Left to itself, serde would also take a list of values in the order of the fields.
    if !args.as_str().starts_with('{') {
        return Err(wrong("they must be an object"));
    }
    args.decode().map_err(|problem: serde_json::Error| {
        let problem = problem.to_string();
        // The model wrote no lines and columns.
        wrong(problem.split_once(" at line ").map_or(problem.as_str(), |(problem, _)| problem))
    })
}

/// An argument that satisfies the schema and still cannot be used.
pub(crate) fn unusable(field: &str, constraint: &str, message: &str) -> ToolFailure {
    let issue =
        FieldIssue { field: format!("/{field}"), constraint: constraint.to_owned(), message: message.to_owned() };
    let hint = RetryHint { issues: vec![issue], ..RetryHint::new(RetryReason::InvalidArguments) };
    ToolFailure::new(ToolErrorKind::ToolInputInvalid, message).with_hint(hint)
}
