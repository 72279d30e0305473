use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    super::{Dialect, request::body},
    PLAYER,
};
use crate::{
    ModelRequest,
    openai::checks::{self, asking, asking_with_everything, bodies_with_a_schema, own},
};

fn written(request: &ModelRequest) -> Value {
    checks::written(&PLAYER.wire, request)
}

fn messages_of(messages: Value) -> Value {
    written(&asking(messages))["messages"].clone()
}

#[test]
fn what_is_stable_comes_first_and_the_messages_last_in_each_dialect() {
    let request = asking_with_everything(json!([
        {"role": "user", "parts": [{"kind": "text", "text": "Hi"}]},
        {"role": "system", "parts": [{"kind": "text", "text": "Hurry."}]},
    ]));
    let tools = r#""tools":[{"function":{"description":"d","name":"notes_add","parameters":{"properties":{},"type":"object"}},"type":"function"}],"tool_choice":"none","reasoning_effort":"medium","#;
    let stream = r#""stream":true,"stream_options":{"include_usage":true},"#;
    let sampling = r#""temperature":0.5,"top_p":1.0,"stop":["END"],"#;
    let messages = |role: &str| {
        format!(
            r#""messages":[{{"content":"Be brief.","role":"{role}"}},{{"content":"Hi","role":"user"}},{{"content":"Hurry.","role":"{role}"}}]}}"#
        )
    };
    assert_eq!(
        body(&request, Dialect::OpenAi).unwrap(),
        format!(
            r#"{{"model":"gpt-5.4",{tools}"max_completion_tokens":100,{sampling}"prompt_cache_key":"run-1",{stream}{}"#,
            messages("developer")
        )
    );
    assert_eq!(
        body(&request, Dialect::Compatible).unwrap(),
        format!(r#"{{"model":"gpt-5.4",{tools}"max_tokens":100,{sampling}{stream}{}"#, messages("system"))
    );
}

#[test]
fn reasoning_effort_is_sent_if_a_level_is_asked_for() {
    for (control, reasoning_level, effort) in [
        ("none", Some(50), json!(null)),
        ("effort", None, json!(null)),
        ("effort", Some(0), json!("none")),
        ("effort", Some(35), json!("low")),
        ("effort", Some(100), json!("high")),
    ] {
        let spec = Arc::new(serde_json::from_value(json!({"reasoning": control, "sampling": false})).unwrap());
        let parameters = serde_json::from_value(json!({"temperature": 1.0, "topP": 0.5})).unwrap();
        let body = written(&ModelRequest { reasoning_level, spec, parameters, ..asking(json!([])) });
        assert_eq!(body["reasoning_effort"], effort, "{control} {reasoning_level:?}");
        assert!(body.get("temperature").is_none() && body.get("top_p").is_none());
    }
}

#[test]
fn an_output_schema_is_strict_if_it_can_be() {
    for (closed, schema, native, by_tool) in bodies_with_a_schema(&PLAYER.wire) {
        let form = json!({"name": "my_report", "schema": schema, "strict": closed});
        assert_eq!(native["response_format"], json!({"type": "json_schema", "json_schema": form}));
        assert_eq!(by_tool["tool_choice"], json!({"type": "function", "function": {"name": "my_report"}}));
        assert_eq!(by_tool["tools"][0]["function"]["parameters"], schema);
        assert!(by_tool.get("response_format").is_none());
    }
}

#[test]
fn options_under_the_providers_name_are_laid_over_those_of_the_format() {
    let options = json!({
        "openai": {"seed": 1, "user": "u", "stream_options": {"x": 1}},
        "local": {"seed": 2, "messages": [], "stream_options": {"y": 1}},
    });
    let parameters = serde_json::from_value(json!({"providerOptions": options})).unwrap();
    let request =
        ModelRequest { parameters, ..asking(json!([{"role": "user", "parts": [{"kind": "text", "text": "Hi"}]}])) };
    assert_eq!(written(&request)["seed"], 1);
    let local = written(&ModelRequest { provider: "local".into(), ..request });
    assert_eq!((&local["seed"], &local["user"]), (&json!(2), &json!("u")));
    assert_eq!(local["stream_options"], json!({"include_usage": true, "x": 1, "y": 1}));
    assert_eq!(local["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn the_parts_of_an_answer_are_one_message_again() {
    let call = r#"{"id":"call_7","type":"function","function":{"name":"weather_get","arguments":"{\"city\": \"Rome\"}"},"extra_content":{"google":{"thought_signature":"x"}}}"#;
    let messages = json!([
        {"role": "assistant", "parts": [
            {"kind": "thinking", "text": "hm", "providerItem": own(r#"{"reasoning":"hm","reasoning_details":[{"n":1.50}]}"#)},
            {"kind": "text", "text": "t", "providerItem": own(r#"{"content":"\u0074","annotations":[{}]}"#)},
            {"kind": "tool_use", "id": "call-0-0", "name": "weather.get", "input": {"city": "Roma"}, "providerItem": own(call)},
            {"kind": "message_fields", "providerItem": own(r#"{"mood":"calm"}"#)},
        ]},
        {"role": "user", "parts": [{"kind": "tool_result", "toolUseId": "call-0-0", "content": {"c": 21}, "isError": false}]},
    ]);
    let request = asking(messages);
    let sent = body(&request, Dialect::OpenAi).unwrap();
    let expected = format!(
        r#"[{{"role":"assistant","content":"\u0074","reasoning":"hm","reasoning_details":[{{"n":1.50}}],"mood":"calm","tool_calls":[{call}]}},{{"content":"{{\"c\":21}}","role":"tool","tool_call_id":"call_7"}}]}}"#
    );
    assert!(sent.ends_with(&expected), "{sent}");
    // Another provider gets the text and the call, without the thinking, and with our id.
    let foreign = written(&ModelRequest { provider: "other".into(), ..request })["messages"].clone();
    let call = json!({"id": "call-0-0", "type": "function", "function": {"name": "weather_get", "arguments": "{\"city\":\"Roma\"}"}});
    assert_eq!(foreign[0], json!({"role": "assistant", "content": "t", "tool_calls": [call]}));
    assert_eq!(foreign[1]["tool_call_id"], "call-0-0");
}

#[test]
fn a_call_that_came_without_an_id_gets_ours() {
    let item = r#"{"type":"function","function":{"name":"a","arguments":"{}"},"x":1.50}"#;
    let sent = messages_of(json!([
        {"role": "assistant", "parts": [
            {"kind": "tool_use", "id": "call-0-0", "name": "a", "input": {}, "providerItem": own(item)},
        ]},
        {"role": "user", "parts": [{"kind": "tool_result", "toolUseId": "call-0-0", "content": null, "isError": true}]},
    ]));
    assert_eq!(sent[0]["content"], json!(null));
    assert_eq!((&sent[0]["tool_calls"][0]["id"], &sent[0]["tool_calls"][0]["x"]), (&json!("call-0-0"), &json!(1.5)));
    assert_eq!(sent[1], json!({"role": "tool", "tool_call_id": "call-0-0", "content": "Error: null"}));
}

#[test]
fn results_follow_their_calls_directly_and_their_files_come_after_them() {
    let result = |id: &str| {
        json!({"kind": "tool_result", "toolUseId": id, "content": null, "isError": false,
            "parts": [{"kind": "text", "text": "seen"}, {"kind": "image", "format": "png", "bytes": "AA"}]})
    };
    let call = |id: &str| json!({"kind": "tool_use", "id": id, "name": "a", "input": {}});
    let sent = messages_of(json!([
        {"role": "assistant", "parts": [call("c1"), call("c2")]},
        {"role": "user", "parts": [{"kind": "text", "text": "early"}, result("c1"), result("c2")]},
        {"role": "assistant", "parts": []},
        {"role": "user", "parts": [{"kind": "cache_checkpoint"}]},
    ]));
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}});
    let note = |id: &str| json!({"type": "text", "text": format!("[Files of the result of the call {id}:]")});
    assert_eq!(
        sent.as_array().unwrap()[1..],
        [
            json!({"role": "tool", "tool_call_id": "c1", "content": "seen"}),
            json!({"role": "tool", "tool_call_id": "c2", "content": "seen"}),
            json!({"role": "user", "content": [note("c1"), image, note("c2"), image]}),
            json!({"role": "user", "content": "early"}),
        ]
    );
}

#[test]
fn items_of_the_other_format_are_written_from_what_they_say() {
    let message = r#"{"id":"msg_1","type":"message","role":"assistant","content":[]}"#;
    let call = r#"{"type":"function_call","call_id":"call_7","name":"a","arguments":"{}"}"#;
    let sent = messages_of(json!([{"role": "assistant", "parts": [
        {"kind": "text", "text": "t", "providerItem": own(message)},
        {"kind": "tool_use", "id": "call-0-0", "name": "a", "input": "{bad", "providerItem": own(call)},
    ]}]));
    let arguments = "{\"input\":\"{bad\"}";
    let call = json!({"id": "call-0-0", "type": "function", "function": {"name": "a", "arguments": arguments}});
    assert_eq!(sent, json!([{"role": "assistant", "content": "t", "tool_calls": [call]}]));
}

#[test]
fn images_and_files_are_sent_as_content() {
    let asked = PLAYER.request(&PLAYER.cassette("image_input"));
    let messages = written(&asked)["messages"].clone();
    let kinds = |message: &Value| -> Vec<String> {
        message["content"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&messages[1]), ["text", "image_url", "image_url", "text", "file"]);
    assert_eq!(messages[3], json!({"role": "tool", "tool_call_id": "call_7", "content": "{\"sky\":\"clear\"}"}));
    assert_eq!(kinds(&messages[4]), ["text", "image_url"]);
}
