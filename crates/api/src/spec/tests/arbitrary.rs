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

/// Something like a schema, with references here and there.
fn schema() -> impl Strategy<Value = Value> {
    let target = prop::sample::select(&["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#x", "https://x/y"][..]);
    let leaf = prop_oneof![
        target.prop_map(|target| json!({"$ref": target})),
        prop::sample::select(&["object", "array", "string", "banana"][..]).prop_map(|kind| json!({"type": kind})),
        prop::sample::select(&["^x+$", "(x+x+)+y", "(", "^(?=x)x*$"][..])
            .prop_map(|pattern| json!({"pattern": pattern})),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let keyword = prop::sample::select(&["allOf", "anyOf", "not", "items", "if", "$defs", "properties"][..]);
        let names = prop::sample::select(&["a", "b", "$anchor"][..]);
        (keyword, prop::collection::vec((names, inner), 1..4)).prop_map(|(keyword, parts)| {
            let value = match keyword {
                "allOf" | "anyOf" => parts.into_iter().map(|(_, part)| part).collect(),
                "$defs" | "properties" => {
                    parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect::<Map<_, _>>().into()
                }
                _ => parts.into_iter().next().map(|(_, part)| part).unwrap_or_default(),
            };
            json!({keyword: value})
        })
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

    /// However many of whatever: it is taken, or refused by a limit, and never for another reason.
    #[test]
    fn nothing_is_taken_beyond_its_limit(tools in 0_usize..600, servers in 0_usize..8, of_server in 0_usize..80) {
        let local = (0..tools).map(|index| json!({"kind": "local", "name": format!("t{index}")}));
        let server = |server: usize| {
            let tools: Vec<Value> = (0..of_server).map(|tool| json!({"name": format!("s{server}_{tool}")})).collect();
            json!({"kind": "mcp_local", "name": format!("s{server}"), "tools": tools})
        };
        let refs: Vec<Value> = local.chain((0..servers).map(server)).collect();
        let body = json!({"systemPrompt": "s", "prompt": "p", "tools": refs});
        let of_servers = servers == 0 || (1..=64).contains(&of_server);
        let fits = tools + servers <= 256 && of_servers && tools + servers * of_server <= 256;
        match resolve(&body) {
            Ok(definition) => {
                prop_assert!(fits);
                prop_assert_eq!(definition.tools.len(), tools + servers * of_server);
            }
            Err(error) => {
                prop_assert!(!fits, "{}", error);
                prop_assert!(error.to_string().starts_with("tools"), "{}", error);
            }
        }
    }

    /// A schema of a caller is accepted or refused within a bounded time.
    #[test]
    fn a_schema_is_judged_soon(schema in schema()) {
        let began = std::time::Instant::now();
        let body = json!({"systemPrompt": "s", "prompt": "p", "outputSchema": {"schema": schema}});
        let taken = resolve(&body);
        prop_assert!(began.elapsed().as_secs() < 5, "{} took {:?}", schema, began.elapsed());
        if let Ok(definition) = taken {
            let schema = definition.output_schema.unwrap().schema;
            let fit = windlass_core::schema::fit(&schema, r#"{"a": [1, {"b": "xxxxxxxxxxxxxxxxxxxxxxxxxx"}]}"#);
            let unusable = matches!(fit, windlass_core::envelope::SchemaFit::Unusable { .. });
            prop_assert!(!unusable, "{}", schema);
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
