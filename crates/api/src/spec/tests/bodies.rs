//! Every limit of a body, one violation each, and the field that is named.

use serde_json::{Value, json};
use windlass_core::message::Message;

use super::{super::*, complaint, resolve, with};

#[test]
fn missing_and_mistyped_fields_are_named() {
    let cases = [
        (json!([]), "body: must be a JSON object"),
        (json!({"prompt": "p"}), "systemPrompt: is required, unless agentId or a system message is sent"),
        (json!({"systemPrompt": "s"}), "prompt: is required, unless messages are sent"),
        (json!({"systemPrompt": "s", "prompt": 5}), "prompt: must be a string"),
        (json!({"systemPrompt": 7, "prompt": "p"}), "systemPrompt: must be a string"),
        (with("messages", json!([])), "prompt: send either prompt or messages, not both"),
        (with("tools", json!({})), "tools: must be an array"),
        (with("tools", json!([7])), "tools[0]: must be an object"),
        (
            with("modelId", json!("no-such:model")),
            "modelId: this server has no model \"no-such:model\"; GET /models lists its models",
        ),
        (
            with("agentId", json!("a b")),
            "agentId: agent id \"a b\" is not valid: use 1 to 128 characters of A-Z a-z 0-9 and . _ - / : @",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(complaint(&body).as_deref(), Some(expected), "{body}");
    }
    let unknown_keys_and_nulls =
        json!({"systemPrompt": "s", "prompt": "p", "newLoop": true, "metadata": null, "tools": null});
    assert_eq!(complaint(&unknown_keys_and_nulls), None);
    let Accepted { conversation, .. } = parse_run(&json!({"systemPrompt": "s", "prompt": ""})).unwrap();
    assert_eq!(conversation.messages, [Message::user("")], "an empty prompt is accepted");
}

#[test]
fn guards_and_settings_have_ranges() {
    let many: Value =
        (0..33).map(|index| (format!("t{index}"), json!({"maxCalls": 1}))).collect::<serde_json::Map<_, _>>().into();
    let cases = [
        (
            "loopDetection",
            json!(true),
            Some("loopDetection: must be false or an object with thresholds; the guard is on by default"),
        ),
        (
            "loopDetection",
            json!({"consecutiveThreshold": 1}),
            Some("loopDetection.consecutiveThreshold: must be a whole number from 2 to 100"),
        ),
        (
            "loopDetection",
            json!({"hardCutoffThreshold": 101}),
            Some("loopDetection.hardCutoffThreshold: must be a whole number from 3 to 100"),
        ),
        (
            "loopDetection",
            json!({"consecutiveThreshold": 4, "hardCutoffThreshold": 4}),
            Some("loopDetection.hardCutoffThreshold: must be above consecutiveThreshold, which is 4"),
        ),
        (
            "loopDetection",
            json!({"consecutiveThreshold": 100}),
            Some("loopDetection.consecutiveThreshold: must be below hardCutoffThreshold, at most 99"),
        ),
        ("loopDetection", json!({"consecutiveThreshold": 2.0, "hardCutoffThreshold": 3}), None),
        ("loopDetection", json!(false), None),
        ("toolBudgets", json!({}), None),
        (
            "toolBudgets",
            json!({"x": {"maxCalls": 1001}}),
            Some("toolBudgets.x.maxCalls: must be a whole number from 0 to 1000"),
        ),
        (
            "toolBudgets",
            json!({"x": {"maxCalls": -1}}),
            Some("toolBudgets.x.maxCalls: must be a whole number from 0 to 1000"),
        ),
        ("toolBudgets", json!({"x": {}}), Some("toolBudgets.x.maxCalls: is required")),
        ("toolBudgets", json!({"x": 3}), Some("toolBudgets.x: must be an object")),
        ("toolBudgets", json!({"": {"maxCalls": 1}}), Some("toolBudgets: a tool name has 1 to 120 characters")),
        ("toolBudgets", many, Some("toolBudgets: has 33 entries; send at most 32")),
        (
            "budgets",
            json!({"maxToolTurns": "3"}),
            Some("budgets.maxToolTurns: must be a whole number from 0 to 4294967295"),
        ),
        ("budgets", json!({"maxToolTurns": 500}), None),
        (
            "reasoningLevel",
            json!("max"),
            Some("reasoningLevel: must be \"off\", \"low\", \"medium\", \"high\" or a whole number from 0 to 100"),
        ),
        (
            "reasoningLevel",
            json!(101),
            Some("reasoningLevel: must be \"off\", \"low\", \"medium\", \"high\" or a whole number from 0 to 100"),
        ),
        ("reasoningLevel", json!(0), None),
        ("outputSchema", json!({}), Some("outputSchema.schema: is required, a JSON Schema object")),
        ("outputSchema", json!({"schema": []}), Some("outputSchema.schema: must be a JSON Schema, an object")),
        (
            "outputSchema",
            json!({"schema": {}, "name": "a b"}),
            Some("outputSchema.name: must have 1 to 64 characters of A-Z a-z 0-9 _ -"),
        ),
        (
            "outputSchema",
            json!({"schema": {}, "enforcement": "soft"}),
            Some("outputSchema.enforcement: must be \"best_effort\" or \"strict\""),
        ),
        (
            "outputSchema",
            json!({"schema": {"x": "y".repeat(33_000)}}),
            Some("outputSchema: is 33019 bytes of JSON; send at most 32768"),
        ),
        (
            "outputSchema",
            json!({"schema": {"$ref": "https://example.com/s"}}),
            Some(
                "outputSchema.schema: is not a usable JSON Schema: /$ref: a $ref must name a part of this schema, for example \"#/$defs/address\"",
            ),
        ),
        ("supervisor", json!(false), None),
        ("supervisor", json!(true), Some("supervisor: is not available on this server; leave it out or send false")),
        ("supervisor", json!({"interval": 0}), Some("supervisor.interval: must be a whole number from 1 to 100")),
        ("plan", json!("off"), None),
        ("plan", json!(false), None),
        ("plan", json!({"mode": "off"}), None),
        ("plan", json!("maybe"), Some("plan: must be true, false, \"off\", \"auto\", \"required\" or an object")),
        ("plan", json!({"steps": [1]}), Some("plan.steps[0]: must be a string")),
    ];
    for (key, value, expected) in cases {
        assert_eq!(complaint(&with(key, value.clone())).as_deref(), expected, "{key}: {value}");
    }
}

#[test]
fn metadata_is_small_and_flat() {
    let many: Value = (0..17).map(|index| (format!("k{index}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    let heavy: Value =
        (0..16).map(|index| (format!("k{index}"), json!("€".repeat(256)))).collect::<serde_json::Map<_, _>>().into();
    let cases = [
        (json!({"a.b_c-1": "x"}), None),
        (json!({"k": "€".repeat(256)}), None),
        (json!({"k": "x".repeat(257)}), Some("metadata.k: must have at most 256 characters")),
        (json!({"k": 1}), Some("metadata.k: must be a string")),
        (json!({"a b": "x"}), Some("metadata.a b: a key has 1 to 64 characters of A-Z a-z 0-9 . _ -")),
        (json!("x"), Some("metadata: must be an object")),
        (many, Some("metadata: has 17 entries; send at most 16")),
        (heavy, Some("metadata: is 12423 bytes of JSON; send at most 4096")),
    ];
    for (value, expected) in cases {
        assert_eq!(complaint(&with("metadata", value.clone())).as_deref(), expected, "{value}");
    }
}

#[test]
fn messages_end_with_a_user() {
    let said = |messages: Value| json!({"systemPrompt": "s", "messages": messages});
    let user = json!({"role": "user", "content": "q"});
    let many = vec![user.clone(); 201];
    let cases = [
        (json!([]), Some("messages: the last message that is not a system message must be a user message")),
        (
            json!([{"role": "assistant", "content": "a"}]),
            Some("messages: the last message that is not a system message must be a user message"),
        ),
        (
            json!([{"role": "tool", "content": "a"}]),
            Some("messages[0].role: must be \"system\", \"user\" or \"assistant\""),
        ),
        (json!([{"role": "user", "content": 5}]), Some("messages[0].content: must be a string")),
        (json!([{"role": "user", "content": " "}]), Some("messages: the last message is empty")),
        (
            json!([{"role": "user", "content": "x".repeat(200_001)}]),
            Some("messages[0].content: has 200001 characters; send at most 200000"),
        ),
        (json!(many), Some("messages: has 201 entries; send at most 200")),
        (json!([user, {"role": "system", "content": "late"}]), None),
    ];
    for (messages, expected) in cases {
        assert_eq!(complaint(&said(messages)).as_deref(), expected);
    }
    let long = with("prompt", json!("x".repeat(200_001)));
    assert_eq!(complaint(&long).as_deref(), Some("prompt: has 200001 characters; send at most 200000"));
}

#[test]
fn attachments_have_limits() {
    let attached = |attachments: Value| json!({"systemPrompt": "s", "messages": [{"role": "user", "content": "q", "attachments": attachments}]});
    let file = |mime: &str, data: &str| json!({"type": "input_file", "mimeType": mime, "filename": "f", "data": data});
    let megabytes = "QUJD".repeat(1024 * 1024);
    let cases = [
        (json!([file("text/plain", "aGk=")]), None),
        (
            json!([{"type": "file"}]),
            Some("messages[0].attachments[0].type: must be \"input_file\" or \"input_file_url\""),
        ),
        (
            json!([file("text/plain", "data:text/plain;base64,aGk=")]),
            Some("messages[0].attachments[0].data: must be plain base64; leave the data-URL prefix out"),
        ),
        (json!([file("text/plain", "a b")]), Some("messages[0].attachments[0].data: must be base64")),
        (
            json!([file("video/mp4", "aGk=")]),
            Some(
                "messages[0].attachments[0].mimeType: must be image/png, image/jpeg, image/gif, image/webp, application/pdf, application/json, application/xml, text/* or docx",
            ),
        ),
        (
            json!([file("audio/wav", "aGk=")]),
            Some(
                "messages[0].attachments[0].mimeType: audio is not available on this server; send text, an image or a document",
            ),
        ),
        (
            json!([{"type": "input_file_url", "url": "http://x"}]),
            Some("messages[0].attachments[0].url: must begin with https://"),
        ),
        (json!(vec![file("text/plain", "aGk="); 21]), Some("messages[0].attachments: has 21 entries; send at most 20")),
        (
            json!([file("image/png", &megabytes), file("image/png", &megabytes)]),
            Some("messages[0].attachments[1].data: all files together exceed 5242880 bytes; send less"),
        ),
    ];
    for (attachments, expected) in cases {
        assert_eq!(complaint(&attached(attachments)).as_deref(), expected);
    }
}

#[test]
fn a_message_carries_its_files_and_what_history_says_about_them() {
    let body = json!({"systemPrompt": "s", "messages": [
        {"role": "user", "content": "old", "attachments": [{"type": "input_file", "mimeType": "text/plain", "filename": "x", "data": "aGk="}]},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "new", "attachments": [
            {"type": "input_file", "mimeType": "image/png", "filename": "i.png", "data": "aGk="},
            {"type": "input_file_url", "url": "https://example.com/a.pdf"},
        ]},
    ]});
    let conversation = parse_run(&body).unwrap().conversation;
    let [first, _, last] = &conversation.messages[..] else { panic!("{conversation:?}") };
    assert_eq!(first, &Message::user("old"));
    let kinds: Vec<&str> = last.parts.iter().map(|part| part.content.kind()).collect();
    assert_eq!(kinds, ["text", "image", "document"]);
    assert_eq!(
        last.meta[ATTACHMENTS],
        json!([
            {"type": "input_file", "mimeType": "image/png", "filename": "i.png", "size": 2},
            {"type": "input_file_url", "url": "https://example.com/a.pdf"},
        ])
    );
}

#[test]
fn tool_results_are_one_thing_or_the_other() {
    let read = |body: Value| ToolResult::parse(&body).map_err(|invalid| invalid.to_string());
    let id = "call-0-0";
    let success = |result: &str| Outcome::Success { result: result.into(), files: Vec::new() };
    let of = |outcome| Ok(ToolResult { tool_use_id: id.into(), outcome });
    assert_eq!(read(json!({"toolUseId": id, "result": ""})), of(success("")));
    assert_eq!(read(json!({"toolUseId": id})), of(success("")));
    assert_eq!(read(json!({"toolUseId": id, "error": "no"})), of(Outcome::Failure { error: "no".into() }));
    let long = "é".repeat(5000);
    assert_eq!(read(json!({"toolUseId": id, "error": long})), of(Outcome::Failure { error: "é".repeat(4096) }));
    assert_eq!(
        read(json!({"toolUseId": id, "result": "x", "newer": 1})),
        of(success("x")),
        "a later protocol has more"
    );
    let cases = [
        (json!({"toolUseId": id, "output": "x"}), "output: unknown field `output`; did you mean `result`?"),
        (json!({"toolUseId": id, "resutl": "x"}), "resutl: unknown field `resutl`; did you mean `result`?"),
        (json!({"toolUseId": id, "Error": "x"}), "Error: unknown field `Error`; did you mean `error`?"),
        (json!({"result": "x"}), "toolUseId: is required, a non-empty string"),
        (json!({"toolUseId": id, "result": "x", "error": "y"}), "error: send either result or error, not both"),
        (json!({"toolUseId": id, "result": {"a": 1}}), "result: must be a string"),
        (
            json!({"toolUseId": id, "result": "x".repeat(2 * 1024 * 1024 + 1)}),
            "result: is 2097153 bytes; send at most 2097152",
        ),
        (
            json!({"toolUseId": id, "result": "x", "files": [{"filename": "f"}]}),
            "files[0].mimeType: is required, a non-empty string",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(read(body), Err(expected.to_owned()));
    }
}

#[test]
fn the_ceiling_of_tool_turns_is_not_exceeded() {
    let turns = |budgets: Value| resolve(&with("budgets", budgets)).unwrap().policy.max_tool_turns;
    assert_eq!(turns(json!({})), Some(100));
    assert_eq!(turns(json!({"maxToolTurns": 3})), Some(3));
    assert_eq!(turns(json!({"maxToolTurns": 5000})), Some(100));
}

#[test]
fn what_may_be_repeated_may_be_repeated_so_often() {
    use windlass_core::limits;
    let texts = |many: usize| (0..many).map(|index| format!("x{index}"));
    let local = |many: usize| -> Value { texts(many).map(|name| json!({"kind": "local", "name": name})).collect() };
    let servers = |many: usize| -> Value {
        let server = |server: usize| {
            let tools: Vec<Value> = (0..64).map(|tool| json!({"name": format!("s{server}_{tool}")})).collect();
            json!({"kind": "mcp_local", "name": format!("s{server}"), "tools": tools})
        };
        (0..many).map(server).collect()
    };
    let card = |bytes: usize| json!([{"kind": "a2a_local", "name": "p", "agentCard": {"x": "y".repeat(bytes)}}]);
    let info = |bytes: usize| json!([{"kind": "mcp_local", "name": "p", "serverInfo": {"x": "y".repeat(bytes)}, "tools": [{"name": "a"}]}]);
    let described = |chars: usize| json!([{"kind": "local", "name": "p", "description": "é".repeat(chars)}]);
    let tags = |many: usize| json!({"allowedTags": texts(many).collect::<Vec<_>>()});
    let timeouts = |many: usize| json!({"perToolTimeoutMs": texts(many).map(|name| (name, json!(5))).collect::<serde_json::Map<_, _>>()});
    // A key, how to make so much of it, the most, and the field that is named beyond.
    type Make<'a> = &'a dyn Fn(usize) -> Value;
    let cases: [(&str, Make<'_>, usize, &str); 12] = [
        ("tools", &local, limits::TOOLS, "tools"),
        ("tools", &servers, limits::TOOLS / limits::SERVER_TOOLS, "tools"),
        ("tools", &card, limits::CARD_BYTES - r#"{"x":""}"#.len(), "tools[0].agentCard"),
        ("tools", &info, limits::SERVER_INFO_BYTES - r#"{"x":""}"#.len(), "tools[0].serverInfo"),
        ("tools", &described, limits::DESCRIPTION_CHARS, "tools[0].description"),
        ("systemPrompt", &|chars| json!("é".repeat(chars)), limits::TEXT_CHARS, "systemPrompt"),
        ("prompt", &|chars| json!("é".repeat(chars)), limits::TEXT_CHARS, "prompt"),
        ("name", &|chars| json!("é".repeat(chars)), limits::NAME_CHARS, "name"),
        (
            "labels",
            &|many| texts(many).map(|key| (key, json!("v"))).collect::<serde_json::Map<_, _>>().into(),
            limits::METADATA_ENTRIES,
            "labels",
        ),
        ("policy", &tags, limits::TAGS, "policy.allowedTags"),
        ("policy", &timeouts, limits::TOOL_TIMEOUTS, "policy.perToolTimeoutMs"),
        ("policy", &|chars| json!({"deniedTags": ["é".repeat(chars)]}), limits::TAG_CHARS, "policy.deniedTags.0"),
    ];
    for (key, make, most, field) in cases {
        assert_eq!(complaint(&with(key, make(most))), None, "{key}: {most}");
        let said = complaint(&with(key, make(most + 1))).unwrap_or_default();
        assert!(said.starts_with(&format!("{field}: ")), "{key}: {said}");
    }
}

#[test]
fn a_definition_above_a_limit_is_refused() {
    let confirmed = |index: usize| json!({"name": format!("t{index}"), "confirmation": {"prompt": "p".repeat(2000)}});
    let tools: Vec<Value> = (0..200).map(confirmed).collect();
    let definition = json!({"id": "a", "model": "script:demo", "tools": tools});
    let said = complaint(&json!({"definition": definition, "prompt": "p"})).unwrap();
    assert!(said.ends_with("a run carries at most 262144"), "{said}");
    let system: Vec<Value> = (0..25).map(|_| json!({"role": "system", "content": "x".repeat(200_000)})).collect();
    let messages: Vec<Value> = system.into_iter().chain([json!({"role": "user", "content": "q"})]).collect();
    let said = complaint(&json!({"messages": messages})).unwrap();
    assert!(said.ends_with("keep at most 4194304"), "{said}");
}
