//! Reading a tool's arguments.

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::envelope::{FieldIssue, RetryHint, RetryReason, ToolErrorKind};

use crate::ToolFailure;

/// The arguments as the tool's own type. They were checked against its schema before; a tool called in any other way
/// still fails politely.
pub(crate) fn decode<T: DeserializeOwned>(args: Value) -> Result<T, ToolFailure> {
    let wrong = |problem: &str| {
        ToolFailure::new(ToolErrorKind::ToolInputInvalid, format!("the arguments are wrong: {problem}"))
    };
    // Left to itself, serde would also take a list of values in the order of the fields.
    if !args.is_object() {
        return Err(wrong("they must be an object"));
    }
    serde_json::from_value(args).map_err(|problem| wrong(&problem.to_string()))
}

/// An argument that satisfies the schema and still cannot be used.
pub(crate) fn unusable(field: &str, constraint: &str, message: &str) -> ToolFailure {
    let issue =
        FieldIssue { field: format!("/{field}"), constraint: constraint.to_owned(), message: message.to_owned() };
    let hint = RetryHint { issues: vec![issue], ..RetryHint::new(RetryReason::InvalidArguments) };
    ToolFailure::new(ToolErrorKind::ToolInputInvalid, message).with_hint(hint)
}
