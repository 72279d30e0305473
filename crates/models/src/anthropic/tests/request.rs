//! Requests as whole bodies.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::{
    agent::ModelParameters,
    ids::ToolName,
    message::{Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource, Message, Part, Role},
};

use crate::{
    ErrorClass, ModelRequest, ModelSpec, ReasoningControl, StructuredOutputControl, ToolChoice, ToolDeclaration,
    anthropic::AnthropicMessages, fixtures, wire::Wire as _,
};

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { provider: "anthropic".into(), model: "claude".into(), ..fixtures::request(messages) }
}

fn text(request: &ModelRequest) -> String {
    AnthropicMessages.request(request).unwrap().body
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_str(&text(request)).unwrap()
}

fn messages(messages: Value) -> Value {
    body(&request(serde_json::from_value(messages).unwrap()))["messages"].clone()
}

fn options(request: ModelRequest, options: Value) -> ModelRequest {
    let provider_options = serde_json::from_value(options).unwrap();
    ModelRequest { parameters: ModelParameters { provider_options, ..request.parameters.clone() }, ..request }
}

fn tool(name: &str) -> ToolDeclaration {
    ToolDeclaration { name: ToolName::new(name), description: "d".into(), input_schema: json!({"properties": {}}) }
}

#[test]
fn a_body_has_what_is_stable_first_and_the_messages_last() {
    let mut request = ModelRequest {
        system: "Be brief.".into(),
        tools: [tool("b.x"), tool("a")].into(),
        tool_choice: ToolChoice::None,
        ..request(vec![Message::user("hi")])
    };
    request.parameters = ModelParameters {
        max_output_tokens: Some(100),
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop_sequences: vec!["END".into()],
        ..ModelParameters::default()
    };
    let expected = concat!(
        r#"{"model":"claude","#,
        r#""tools":[{"description":"d","input_schema":{"properties":{},"type":"object"},"name":"a"},"#,
        r#"{"description":"d","input_schema":{"properties":{},"type":"object"},"name":"b_x"}],"#,
        r#""system":[{"cache_control":{"type":"ephemeral"},"text":"Be brief.","type":"text"}],"#,
        r#""max_tokens":100,"stream":true,"cache_control":{"type":"ephemeral"},"#,
        r#""stop_sequences":["END"],"tool_choice":{"type":"none"},"#,
        r#""messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#
    );
    assert_eq!(text(&request), expected);
}

#[test]
fn thinking_excludes_a_forced_tool() {
    let schema = serde_json::from_value(json!({"name": "report", "schema": {"type": "object"}})).unwrap();
    let spec = |reasoning| {
        Arc::new(ModelSpec { reasoning, structured_output: StructuredOutputControl::Tool, ..ModelSpec::default() })
    };
    let mut asked = ModelRequest {
        output_schema: Some(schema),
        spec: spec(ReasoningControl::Effort),
        reasoning_level: Some(50),
        ..request(vec![Message::user("hi")])
    };
    let thinking = body(&asked);
    assert_eq!(thinking["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(thinking["output_config"], json!({"effort": "medium"}));
    assert_eq!(thinking.get("tool_choice"), None);

    asked.reasoning_level = Some(0);
    let off = body(&asked);
    assert_eq!(off["thinking"], json!({"type": "disabled"}));
    let forced = json!({"type": "tool", "name": "report", "disable_parallel_tool_use": true});
    assert_eq!((off.get("output_config"), &off["tool_choice"]), (None, &forced));

    asked.spec = spec(ReasoningControl::Budget);
    asked.reasoning_level = Some(80);
    asked.parameters.max_output_tokens = Some(1000);
    let budget = body(&asked);
    assert_eq!(budget["thinking"], json!({"type": "enabled", "budget_tokens": 8000}));
    assert_eq!(budget["max_tokens"], json!(9000));
}

#[test]
fn options_are_laid_over_the_body_but_not_over_what_the_run_decides() {
    let asked = ModelRequest {
        provider: "claude-eu".into(),
        tools: [tool("a")].into(),
        spec: Arc::new(ModelSpec { reasoning: ReasoningControl::Effort, ..ModelSpec::default() }),
        reasoning_level: Some(80),
        ..request(vec![Message::user("hi")])
    };
    let plain = body(&asked);
    let search = json!({"type": "web_search_20260318", "name": "web_search"});
    let asked = options(
        asked,
        json!({
            "anthropic": {"tools": [search], "service_tier": "auto", "output_config": {"effort": "max"}, "thinking": null},
            "claude-eu": {"service_tier": "standard_only", "model": "m", "stream": false, "messages": []},
            "openai": {"service_tier": "flex"},
        }),
    );
    let laid = body(&asked);
    assert_eq!(laid["tools"].as_array().unwrap().len(), 2);
    assert_eq!(laid["tools"][1]["name"], "web_search");
    assert_eq!((&laid["service_tier"], laid.get("thinking")), (&json!("standard_only"), None));
    assert_eq!(laid["output_config"], json!({"effort": "max"}));
    for own in ["model", "stream", "messages"] {
        assert_eq!(laid[own], plain[own]);
    }
    let bare = options(request(vec![Message::user("hi")]), json!({"anthropic": {"tools": [{"name": "web_search"}]}}));
    assert_eq!(body(&bare)["tools"], json!([{"name": "web_search", "cache_control": {"type": "ephemeral"}}]));
}

#[test]
fn system_messages_at_the_beginning_belong_to_the_system_prompt_and_later_ones_are_marked() {
    let mut asked = request(vec![
        Message::text(Role::System, "first"),
        Message::text(Role::System, " "),
        Message::user("hi"),
        Message::text(Role::System, "later"),
    ]);
    asked.system = "Be brief.".into();
    let body = body(&asked);
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Be brief."}, {"type": "text", "text": "first", "cache_control": {"type": "ephemeral"}}])
    );
    let content = json!([{"type": "text", "text": "hi"}, {"type": "text", "text": "System: later"}]);
    assert_eq!(body["messages"], json!([{"role": "user", "content": content}]));
}

#[test]
fn results_come_first_in_one_message_and_have_the_ids_of_the_provider() {
    let item = r#"{ "type":"tool_use", "id":"toolu_9", "name":"notes_add", "input":{"n":1.0} }"#;
    let sent = messages(json!([
        {"role": "user", "parts": [{"kind": "text", "text": "hi"}]},
        {"role": "assistant", "parts": [
            {"kind": "tool_use", "id": "call-0-0", "name": "notes.add", "input": {"n": 1},
             "providerItem": {"provider": "anthropic", "item": item}},
            {"kind": "tool_use", "id": "call-0-1", "name": "notes.add", "input": {},
             "providerItem": {"provider": "openai", "item": "{\"type\":\"function_call\",\"call_id\":\"x\"}"}},
        ]},
        {"role": "user", "parts": [{"kind": "text", "text": "and then?"}]},
        {"role": "user", "parts": [
            {"kind": "tool_result", "toolUseId": "call-0-0", "content": "done", "isError": false},
            {"kind": "tool_result", "toolUseId": "call-0-1", "content": {"n": [1]}, "isError": true},
        ]},
    ]));
    assert_eq!(
        sent[1]["content"],
        json!([
            {"type": "tool_use", "id": "toolu_9", "name": "notes_add", "input": {"n": 1.0}},
            {"type": "tool_use", "id": "call-0-1", "name": "notes_add", "input": {}},
        ])
    );
    assert_eq!(
        sent[2],
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_9", "content": [{"type": "text", "text": "done"}]},
            {"type": "tool_result", "tool_use_id": "call-0-1", "content": [{"type": "text", "text": "{\"n\":[1]}"}],
             "is_error": true},
            {"type": "text", "text": "and then?"},
        ]})
    );
    assert_eq!(sent.as_array().unwrap().len(), 3);
}

#[test]
fn what_the_api_refuses_is_left_out() {
    let sent = messages(json!([
        {"role": "user", "parts": [{"kind": "text", "text": "a"}]},
        {"role": "assistant", "parts": [
            {"kind": "text", "text": " \n", "providerItem": {"provider": "anthropic", "item": "{\"type\":\"text\",\"text\":\" \\n\"}"}},
            {"kind": "thinking", "text": "cut off", "providerItem": {"provider": "anthropic",
             "item": "{\"type\":\"thinking\",\"thinking\":\"cut off\",\"signature\":\"\"}"}},
            {"kind": "thinking", "text": "of another provider", "signature": "s"},
            {"kind": "provider_tool", "name": "web_search", "output": []},
            {"kind": "hologram", "x": 1},
        ]},
        {"role": "user", "parts": [{"kind": "text", "text": "b"}, {"kind": "text", "text": ""}]},
    ]));
    let content = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    assert_eq!(sent, json!([{"role": "user", "content": content}]));
}

#[test]
fn a_result_is_its_text_its_parts_or_both() {
    let table = [
        (json!("done"), json!([]), false, json!([{"type": "text", "text": "done"}])),
        (json!(""), json!([]), false, json!([])),
        (json!(""), json!([]), true, json!([{"type": "text", "text": "The tool failed and gave no reason."}])),
        (json!(null), json!([]), false, json!([{"type": "text", "text": "null"}])),
        (json!(null), json!([{"kind": "text", "text": "t"}]), false, json!([{"type": "text", "text": "t"}])),
        (
            json!([1]),
            json!([{"kind": "image", "format": "gif", "bytes": "AA"}]),
            false,
            json!([{"type": "text", "text": "[1]"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AA"}}]),
        ),
    ];
    for (content, parts, is_error, expected) in table {
        let sent = messages(json!([
            {"role": "user", "parts": [{"kind": "text", "text": "a"}]},
            {"role": "assistant", "parts": [{"kind": "tool_use", "id": "c", "name": "t", "input": {}}]},
            {"role": "user", "parts": [{"kind": "tool_result", "toolUseId": "c", "content": content, "parts": parts, "isError": is_error}]},
        ]));
        assert_eq!(sent[2]["content"][0]["content"], expected, "{content} {parts}");
        assert_eq!(sent[2]["content"][0].get("is_error").is_some(), is_error);
    }
}

#[test]
fn documents_have_the_forms_of_the_api() {
    let plain = |text: &str| json!({"type": "text", "media_type": "text/plain", "data": text});
    let table = [
        (
            DocumentFormat::Pdf,
            DocumentSource::Bytes("AA".into()),
            json!({"type": "base64", "media_type": "application/pdf", "data": "AA"}),
        ),
        (DocumentFormat::Csv, DocumentSource::Bytes("YSxi".into()), plain("a,b")),
        (DocumentFormat::Docx, DocumentSource::Text("words".into()), plain("words")),
        (DocumentFormat::Txt, DocumentSource::Text(" ".into()), plain("(The document \"d\" is empty.)")),
        (
            DocumentFormat::Md,
            DocumentSource::Chunks(vec!["a".into(), "".into(), "b".into()]),
            json!({"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        ),
        (DocumentFormat::Pdf, DocumentSource::Uri("https://x/y".into()), json!({"type": "url", "url": "https://x/y"})),
        (
            DocumentFormat::Html,
            DocumentSource::Uri("https://x/y".into()),
            plain("The content of this document is at https://x/y"),
        ),
    ];
    for (format, source, expected) in table {
        let part = Content::Document { name: "d".into(), format, source, context: Some("c".into()), cite: true };
        let body = body(&request(vec![Message::new(Role::User, vec![part.into()])]));
        let document = json!({"type": "document", "source": expected, "title": "d", "context": "c", "citations": {"enabled": true}});
        assert_eq!(body["messages"][0]["content"][0], document);
    }
}

#[test]
fn a_file_that_is_still_in_the_store_or_no_base64_is_an_invalid_request() {
    let blob = serde_json::from_value(json!({"digest": "0".repeat(64), "bytes": 9})).unwrap();
    let image = Content::Image { format: ImageFormat::Png, source: ImageSource::Blob(blob) };
    let garbage = Content::Document {
        name: "d".into(),
        format: DocumentFormat::Txt,
        source: DocumentSource::Bytes("?".into()),
        context: None,
        cite: false,
    };
    for content in [image, garbage] {
        let asked = request(vec![Message::new(Role::User, vec![content.into()])]);
        let error = AnthropicMessages.request(&asked).unwrap_err();
        assert_eq!((error.class, error.retryable), (ErrorClass::InvalidRequest, false));
    }
}

#[test]
fn a_budget_is_not_sent_while_calls_of_another_model_are_answered() {
    let turn = |item: Option<&str>| {
        let mut thinking =
            Part::from(Content::Thinking { text: "t".into(), signature: Some("s".into()), redacted: None });
        if let Some(item) = item {
            thinking = thinking.with_provider_item("anthropic", item);
        }
        let call = Part::tool_use("c".into(), ToolName::new("t"), json!({}).into());
        let result =
            Content::ToolResult { tool_use_id: "c".into(), content: json!("r").into(), parts: vec![], is_error: false };
        let mut asked = request(vec![
            Message::user("hi"),
            Message::new(Role::Assistant, vec![thinking, call]),
            Message::new(Role::User, vec![result.into()]),
        ]);
        asked.spec = Arc::new(ModelSpec { reasoning: ReasoningControl::Budget, ..ModelSpec::default() });
        asked.reasoning_level = Some(50);
        body(&asked).get("thinking").is_some()
    };
    assert!(turn(Some(r#"{"type":"thinking","thinking":"t","signature":"s"}"#)));
    assert!(!turn(None));
}

fn marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            usize::from(fields.contains_key("cache_control")) + fields.values().map(marks).sum::<usize>()
        }
        Value::Array(values) => values.iter().map(marks).sum(),
        _ => 0,
    }
}

#[test]
fn the_newest_checkpoints_are_marked() {
    let parts: Vec<Part> =
        (0..5).flat_map(|n| [Part::text(format!("t{n}")), Content::CacheCheckpoint.into()]).collect();
    let asked = ModelRequest { system: "s".into(), ..request(vec![Message::new(Role::User, parts)]) };
    let sent = body(&asked);
    let marked: Vec<bool> = sent["messages"][0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block.get("cache_control").is_some())
        .collect();
    assert_eq!((marked, marks(&sent)), (vec![false, false, false, true, true], 4));

    let off = body(&options(asked.clone(), json!({"anthropic": {"cache_control": null}})));
    assert_eq!(marks(&off), 0);
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    let longer = body(&options(asked, json!({"anthropic": {"cache_control": hour}})));
    assert_eq!((&longer["cache_control"], &longer["system"][0]["cache_control"]), (&hour, &hour));
    assert_eq!(longer["messages"][0]["content"][4]["cache_control"], hour);
}

proptest! {
    /// The API refuses a request with more.
    #[test]
    fn a_request_never_has_more_than_four_breakpoints(checkpoints in 0_usize..9, system in any::<bool>(), tools in 0_usize..3) {
        let parts = (0..checkpoints).flat_map(|n| [Part::text(format!("t{n}")), Content::CacheCheckpoint.into()]);
        let asked = ModelRequest {
            system: if system { "s".into() } else { String::new() },
            tools: (0..tools).map(|n| tool(&format!("t{n}"))).collect(),
            ..request(vec![Message::new(Role::User, parts.chain([Part::text("end")]).collect())])
        };
        let fixed = 1 + usize::from(system || tools > 0);
        prop_assert_eq!(marks(&body(&asked)), fixed + checkpoints.min(4 - fixed));
    }
}
