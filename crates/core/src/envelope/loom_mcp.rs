//! The wire format of loom-mcp: Go field names (`RunID`, `ToolCallID`, `RequestedBy`).
//!
//! Its signals are accepted under their old names. Only object keys that Go would have written are renamed, and only at
//! the levels that are envelopes; a tool's own result keeps its keys.

use serde_json::{Map, Value};

/// Bodies that belong to a tool or a caller: their keys are data, not field names.
const OPAQUE: [&str; 5] = ["result", "labels", "metadata", "exampleInput", "priorInput"];

/// Rewrites Go field names to camelCase; camelCase input passes through unchanged. Nulls become absences.
pub fn from_go_names(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed: Map<String, Value> = fields
                .into_iter()
                .map(|(key, value)| (camel_case(&key), value))
                .filter(|(key, value)| key == "result" || !value.is_null())
                .map(|(key, value)| {
                    let value = if OPAQUE.contains(&key.as_str()) { value } else { from_go_names(value) };
                    (key, value)
                })
                .collect();
            Value::Object(renamed)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(from_go_names).collect()),
        other => other,
    }
}

/// `RunID` → `runId`, `ToolCallID` → `toolCallId`, `ID` → `id`, `RequestedBy` → `requestedBy`.
fn camel_case(key: &str) -> String {
    let spaced = key.replace("ID", "Id");
    let mut chars = spaced.chars();
    match chars.next() {
        Some(first) => first.to_ascii_lowercase().to_string() + chars.as_str(),
        None => spaced,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::envelope::{ConfirmationDecision, ToolResultsSet};

    #[test]
    fn a_go_confirmation_decodes() {
        let wire = json!({"RunID": "r1", "ID": "await-1", "Approved": true, "RequestedBy": "ann", "Labels": {"TicketID": "7"}, "Metadata": null});
        let decoded: ConfirmationDecision = serde_json::from_value(from_go_names(wire)).unwrap();
        assert!(decoded.approved);
        assert_eq!(decoded.labels["TicketID"], "7");
    }

    #[test]
    fn a_tools_own_result_keeps_its_keys() {
        let wire = json!({"ID": "await-1", "Results": [{"Name": "t", "ToolCallID": "c", "Result": {"UserID": null, "RunID": 1}, "Error": null}]});
        let decoded: ToolResultsSet = serde_json::from_value(from_go_names(wire)).unwrap();
        assert_eq!(decoded.results[0].result, Some(json!({"UserID": null, "RunID": 1}).into()));
    }

    #[test]
    fn camel_case_passes_through() {
        let ours = json!({"id": "await-1", "toolCallId": "c", "requestedBy": "x"});
        assert_eq!(from_go_names(ours.clone()), ours);
    }
}
