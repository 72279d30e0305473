//! No body, however odd, does anything but parse or name what is wrong with it.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{super::*, resolve};

/// Words that the parser knows, so that chance gets past the first check.
const WORDS: [&str; 34] = [
    "tools",
    "kind",
    "local",
    "a2a_local",
    "mcp_local",
    "mantyx",
    "mcp",
    "a2a",
    "name",
    "agentCard",
    "skills",
    "inputSchema",
    "parameters",
    "type",
    "object",
    "prompt",
    "messages",
    "role",
    "user",
    "system",
    "content",
    "attachments",
    "input_file",
    "data",
    "mimeType",
    "text/plain",
    "filename",
    "systemPrompt",
    "metadata",
    "loopDetection",
    "consecutiveThreshold",
    "toolBudgets",
    "maxCalls",
    "outputSchema",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5_i64..2000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..8).prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

/// A good body with one thing exchanged.
fn nearly_good() -> impl Strategy<Value = Value> {
    (word(), json()).prop_map(|(key, value)| {
        let mut body = json!({
            "systemPrompt": "s", "messages": [{"role": "user", "content": "q"}],
            "tools": [{"kind": "mcp_local", "name": "m", "tools": [{"name": "m_a"}]}],
        });
        body[key] = value;
        body
    })
}

proptest! {
    #[test]
    fn nothing_panics(body in prop_oneof![json(), nearly_good()]) {
        let _ = resolve(&body);
        let _ = ToolResult::parse(&body);
        let _ = effective(&body, &body);
    }

    #[test]
    fn what_a_session_keeps_means_the_same_again(body in nearly_good()) {
        if let Ok((spec, kept)) = parse_session(&body) {
            prop_assert_eq!(parse_session(&kept).map(|(again, _)| again), Ok(spec.clone()));
            let effective = effective(&kept, &json!({"prompt": "p"})).unwrap().spec;
            prop_assert_eq!(effective, spec);
        }
    }

    #[test]
    fn a_complaint_is_short_whatever_was_sent(key in "\\PC{0,300}", value in "\\PC{0,300}") {
        let body = json!({"systemPrompt": "s", "prompt": "p", "metadata": {key: value.repeat(3)}});
        if let Err(error) = resolve(&body) {
            prop_assert!(error.to_string().len() < 500, "{}", error);
        }
    }
}
