//! What an activity of another worker says in its heartbeats, as progress of a call.

use serde_json::Value;

use crate::time::Timestamp;

/// The last heartbeat of an activity that is running.
#[derive(Debug, Clone, PartialEq)]
pub struct Heartbeat {
    pub attempt: u32,
    pub at: Timestamp,
    /// What the activity said, as JSON.
    pub details: Vec<Value>,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeartbeatProgress {
    pub message: Option<String>,
    pub progress: Option<f64>,
    pub total: Option<f64>,
}

impl Heartbeat {
    /// The details as progress: an object with `message`, `progress` and `total` as in MCP; else numbers as progress and
    /// total, and texts as the message. Anything else is shown as JSON. `None` if the activity said nothing.
    pub fn progress(&self) -> Option<HeartbeatProgress> {
        let details: Vec<&Value> = self.details.iter().filter(|value| !value.is_null()).collect();
        let mut found = HeartbeatProgress::default();
        for value in &details {
            match value {
                Value::Number(number) if found.progress.is_none() => found.progress = number.as_f64(),
                Value::Number(number) if found.total.is_none() => found.total = number.as_f64(),
                Value::String(text) if found.message.is_none() => found.message = Some(text.clone()),
                Value::Object(fields) if fields.contains_key("progress") || fields.contains_key("message") => {
                    let number = |name: &str| fields.get(name).and_then(Value::as_f64);
                    let message = fields.get("message").and_then(Value::as_str).map(str::to_owned);
                    (found.progress, found.total) =
                        (found.progress.or_else(|| number("progress")), found.total.or_else(|| number("total")));
                    found.message = found.message.or(message);
                }
                other => found.message = found.message.or_else(|| Some(other.to_string())),
            }
        }
        (!details.is_empty()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_are_numbers_texts_an_object_or_any_json() {
        let progress = |message: Option<&str>, progress, total| {
            Some(HeartbeatProgress { message: message.map(str::to_owned), progress, total })
        };
        let cases = [
            (vec![], None),
            (vec![json!(null)], None),
            (vec![json!(3)], progress(None, Some(3.0), None)),
            (vec![json!(3), json!(10)], progress(None, Some(3.0), Some(10.0))),
            (vec![json!("page 3"), json!(3)], progress(Some("page 3"), Some(3.0), None)),
            (
                vec![json!({"progress": 1, "total": 4, "message": "loads"})],
                progress(Some("loads"), Some(1.0), Some(4.0)),
            ),
            (vec![json!({"message": "loads"})], progress(Some("loads"), None, None)),
            (vec![json!({"page": 3})], progress(Some("{\"page\":3}"), None, None)),
            (vec![json!([1, 2])], progress(Some("[1,2]"), None, None)),
            (vec![json!(1), json!(2), json!(3)], progress(Some("3"), Some(1.0), Some(2.0))),
        ];
        for (details, expected) in cases {
            let heartbeat = Heartbeat { attempt: 1, at: Timestamp(0), details: details.clone() };
            assert_eq!(heartbeat.progress(), expected, "{details:?}");
        }
    }
}
