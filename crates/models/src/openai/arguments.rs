//! The arguments of a call: JSON inside a string, as the model wrote it.

use serde_json::{Value, json};
use windlass_core::canonical::CanonicalJson;

/// The arguments, and whether they are JSON at all. What is not JSON is kept as a string, so that the run can say what
/// the model wrote.
pub(crate) fn read_arguments(text: &str) -> (CanonicalJson, bool) {
    // A tool without parameters is called with nothing by some servers.
    if text.trim().is_empty() {
        return (json!({}).into(), true);
    }
    match CanonicalJson::parse(text) {
        Ok(arguments) => (arguments, true),
        Err(_) => (Value::from(text).into(), false),
    }
}

/// The arguments of a call that has no provider item. Servers insert them into templates that expect an object, so
/// anything else is put into one.
pub(crate) fn written_arguments(input: &CanonicalJson) -> String {
    if input.as_str().starts_with('{') { input.as_str().to_owned() } else { format!("{{\"input\":{input}}}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_json_or_kept_as_text() {
        let table = [
            ("", json!({}), true),
            (" \n", json!({}), true),
            ("{\"a\": 1}", json!({"a": 1}), true),
            ("[1]", json!([1]), true),
            ("{\"a\": ", json!("{\"a\": "), false),
            ("{} {}", json!("{} {}"), false),
        ];
        for (text, input, valid) in table {
            assert_eq!(read_arguments(text), (input.into(), valid), "{text}");
        }
    }

    #[test]
    fn arguments_are_always_sent_as_an_object() {
        for (input, written) in [
            (json!({"b": 1, "a": 2}), r#"{"a":2,"b":1}"#),
            (json!("{\"a\": "), r#"{"input":"{\"a\": "}"#),
            (json!(null), r#"{"input":null}"#),
        ] {
            assert_eq!(written_arguments(&input.into()), written);
        }
    }
}
