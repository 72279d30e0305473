use std::sync::Arc;

use serde_json::{Value, json};

use super::{super::request::body, PLAYER};
use crate::{
    ModelRequest, ModelSpec,
    openai::checks::{self, asking, asking_with_everything, bodies_with_a_schema, own, tool},
};

fn written(request: &ModelRequest) -> Value {
    checks::written(&PLAYER.wire, request)
}

fn input_of(messages: Value) -> Value {
    written(&asking(messages))["input"].clone()
}

#[test]
fn what_is_stable_comes_first_and_the_input_last() {
    let request = asking_with_everything(json!([{"role": "user", "parts": [{"kind": "text", "text": "Hi"}]}]));
    assert_eq!(
        body(&request).unwrap(),
        concat!(
            r#"{"model":"gpt-5.4","instructions":"Be brief.","#,
            r#""tools":[{"description":"d","name":"notes_add","parameters":{"properties":{},"type":"object"},"strict":false,"type":"function"}],"#,
            r#""tool_choice":"none","reasoning":{"effort":"medium","summary":"auto"},"include":["reasoning.encrypted_content"],"#,
            r#""max_output_tokens":100,"temperature":0.5,"top_p":1.0,"prompt_cache_key":"run-1","store":false,"stream":true,"#,
            r#""input":[{"content":[{"text":"Hi","type":"input_text"}],"role":"user","type":"message"}]}"#,
        )
    );
}

#[test]
fn reasoning_is_asked_for_as_the_model_takes_it() {
    let table = [
        ("none", Some(50), json!(null), json!(null)),
        ("effort", None, json!(null), json!(["reasoning.encrypted_content"])),
        ("effort", Some(0), json!({"effort": "none", "summary": "auto"}), json!(["reasoning.encrypted_content"])),
        ("effort", Some(20), json!({"effort": "low", "summary": "auto"}), json!(["reasoning.encrypted_content"])),
        ("effort", Some(90), json!({"effort": "high", "summary": "auto"}), json!(["reasoning.encrypted_content"])),
    ];
    for (control, reasoning_level, reasoning, include) in table {
        let spec: ModelSpec = serde_json::from_value(json!({"reasoning": control, "sampling": false})).unwrap();
        let parameters = serde_json::from_value(json!({"temperature": 1.0, "topP": 0.5})).unwrap();
        let body = written(&ModelRequest { reasoning_level, spec: Arc::new(spec), parameters, ..asking(json!([])) });
        assert_eq!((&body["reasoning"], &body["include"]), (&reasoning, &include), "{control} {reasoning_level:?}");
        assert!(body.get("temperature").is_none() && body.get("top_p").is_none());
    }
}

#[test]
fn an_output_schema_is_strict_if_it_can_be() {
    for (closed, schema, native, by_tool) in bodies_with_a_schema(&PLAYER.wire) {
        let format = json!({"type": "json_schema", "name": "my_report", "schema": schema, "strict": closed});
        assert_eq!(native["text"], json!({"format": format}));
        assert_eq!(by_tool["tool_choice"], json!({"type": "function", "name": "my_report"}));
        assert_eq!(by_tool["tools"][0]["parameters"], schema);
        assert!(by_tool.get("text").is_none());
    }
}

#[test]
fn provider_options_add_tools_and_settings_but_leave_the_conversation() {
    let options = json!({"openai": {
        "tools": [{"type": "web_search"}], "service_tier": "flex", "text": {"verbosity": "low"}, "input": [], "stream": false,
    }});
    let request = ModelRequest {
        tools: [tool("a")].into(),
        parameters: serde_json::from_value(json!({"providerOptions": options})).unwrap(),
        ..asking(json!([{"role": "user", "parts": [{"kind": "text", "text": "Hi"}]}]))
    };
    let body = written(&request);
    assert_eq!(body["tools"][1], json!({"type": "web_search"}));
    assert_eq!((&body["service_tier"], &body["text"]), (&json!("flex"), &json!({"verbosity": "low"})));
    assert_eq!((&body["stream"], body["input"].as_array().unwrap().len()), (&json!(true), 1));
}

#[test]
fn a_message_item_with_several_contents_is_sent_once() {
    let item = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}"#;
    let mark = r#"{"type":"windlass.continuation","item_id":"msg_1","content_index":1}"#;
    let first = json!({"kind": "text", "text": "a", "providerItem": own(item)});
    let second = json!({"kind": "text", "text": "b", "providerItem": own(mark)});
    let whole = input_of(json!([{"role": "assistant", "parts": [first, second]}]));
    assert_eq!(whole, json!([serde_json::from_str::<Value>(item).unwrap()]));
    // Without the part that has the item, the text is all that there is.
    let rest = input_of(json!([{"role": "assistant", "parts": [second]}]));
    assert_eq!(rest, json!([{"type": "message", "role": "assistant", "content": "b"}]));
}

#[test]
fn reasoning_is_sent_only_if_the_provider_can_read_it_and_an_item_follows() {
    let reasoning = |item: &str| json!({"kind": "thinking", "text": "hm", "providerItem": own(item)});
    let encrypted = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gA=="}"#;
    let open = r#"{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}"#;
    let empty = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":null}"#;
    let call = json!({"kind": "provider_tool", "name": "web_search",
        "providerItem": own(r#"{"id":"ws_1","type":"web_search_call","status":"completed"}"#)});
    let bare = json!({"kind": "text", "text": "t"});
    let kinds = |parts: Value| -> Vec<String> {
        let input = input_of(json!([{"role": "assistant", "parts": parts}]));
        input.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(json!([reasoning(encrypted), call])), ["reasoning", "web_search_call"]);
    assert_eq!(
        kinds(json!([reasoning(open), reasoning(encrypted), call])),
        ["reasoning", "reasoning", "web_search_call"]
    );
    assert_eq!(kinds(json!([reasoning(empty), call])), ["web_search_call"]);
    assert_eq!(kinds(json!([reasoning(encrypted), bare])), ["message"]);
    assert_eq!(kinds(json!([call, reasoning(encrypted)])), ["web_search_call"]);
}

#[test]
fn a_call_for_outside_without_a_result_is_not_sent() {
    let other = |kind: &str, item: &str| json!({"kind": kind, "providerItem": own(item)});
    let shell = other("shell_call", r#"{"type":"shell_call","call_id":"c1","action":{"commands":["ls"]}}"#);
    let output = other("shell_call_output", r#"{"type":"shell_call_output","call_id":"c1","output":[]}"#);
    let plain = other("compaction", r#"{"type":"compaction","id":"cmp_1","encrypted_content":"gA=="}"#);
    let sent = |parts: Value| input_of(json!([{"role": "assistant", "parts": parts}])).as_array().unwrap().len();
    assert_eq!(sent(json!([shell])), 0);
    assert_eq!(sent(json!([shell, output])), 2);
    assert_eq!(sent(json!([plain])), 1);
}

#[test]
fn items_of_the_other_format_are_written_from_what_they_say() {
    let chat_call = r#"{"id":"call_7","type":"function","function":{"name":"a","arguments":"{}"}}"#;
    let messages = json!([
        {"role": "assistant", "parts": [
            {"kind": "text", "text": "t", "providerItem": own(r#"{"content":"t"}"#)},
            {"kind": "tool_use", "id": "call-0-0", "name": "a", "input": {}, "providerItem": own(chat_call)},
        ]},
        {"role": "user", "parts": [
            {"kind": "text", "text": "before"},
            {"kind": "tool_result", "toolUseId": "call-0-0", "content": "done", "isError": true},
        ]},
    ]);
    assert_eq!(
        input_of(messages),
        json!([
            {"type": "message", "role": "assistant", "content": "t"},
            {"type": "function_call", "call_id": "call-0-0", "name": "a", "arguments": "{}"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "before"}]},
            {"type": "function_call_output", "call_id": "call-0-0", "output": "Error: done"},
        ])
    );
}

#[test]
fn images_and_files_are_sent_in_messages_and_in_results() {
    let asked = PLAYER.request(&PLAYER.cassette("image_input"));
    let input = written(&asked)["input"].clone();
    let kinds: Vec<&str> =
        input[0]["content"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["input_text", "input_image", "input_image", "input_text", "input_file", "input_file"]);
    assert_eq!(input[0]["content"][5], json!({"type": "input_file", "file_url": "https://example.com/far.pdf"}));
    assert_eq!(input[1]["arguments"], "{\"city\": \"Rome\"}");
    assert_eq!(input[2]["call_id"], "call_7");
    assert_eq!(input[2]["output"][0], json!({"type": "input_text", "text": "{\"sky\":\"clear\"}"}));
    assert_eq!(input[2]["output"][1]["type"], "input_image");
}
