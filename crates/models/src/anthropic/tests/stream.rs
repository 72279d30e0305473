//! Answers that no cassette has: what a vendor's own SDK would not read either.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::{
    ids::ToolName,
    message::{Content, Message, Role},
    stop::StopReason,
};

use crate::{
    Delta, DeltaKind, ErrorClass, ModelError, ModelRequest, ModelResponse, ModelSpec, StructuredOutputControl,
    ToolDeclaration, anthropic::AnthropicMessages, fixtures::request, wire::Wire as _,
};

/// Reads events, and gives the answer and the deltas.
fn read(request: &ModelRequest, events: &[Value]) -> Result<(ModelResponse, Vec<Delta>), ModelError> {
    let mut reader = AnthropicMessages.reader(request);
    let mut deltas = Vec::new();
    for event in events {
        deltas.extend(reader.event(event["type"].as_str(), &event.to_string())?);
    }
    reader.finish().map(|response| (response, deltas))
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}})
}

fn block(index: u64, block: &Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    for delta in deltas {
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn end(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn call(index: u64, name: &str, arguments: &str) -> Vec<Value> {
    let start = json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {}});
    block(index, &start, &[json!({"type": "input_json_delta", "partial_json": arguments})])
}

fn answer(events: Vec<Vec<Value>>) -> Vec<Value> {
    std::iter::once(start()).chain(events.into_iter().flatten()).collect()
}

#[test]
fn a_call_that_cannot_be_read_stops_the_turn_and_can_be_sent_back() {
    let asked = ModelRequest { provider: "anthropic".into(), ..request(vec![Message::user("hi")]) };
    for arguments in ["{\"place\": ", "[1]", "{\"a\": \"\\ud800\"}"] {
        let events = answer(vec![call(0, "clock", "{}"), call(1, "weather", arguments), end("tool_use")]);
        let (response, deltas) = read(&asked, &events).unwrap();
        assert_eq!(response.stop, StopReason::MalformedCall, "{arguments}");
        let [good, bad] = response.parts.as_slice() else { panic!("{:?}", response.parts) };
        assert!(good.provider_item.is_some());
        assert_eq!(bad.provider_item, None);
        assert!(matches!(&bad.content, Content::ToolUse { input, .. } if *input == json!(arguments)));
        assert_eq!(deltas.last(), Some(&Delta { part: 1, kind: DeltaKind::CallDone }));

        let result = |id: &str| {
            Content::ToolResult {
                tool_use_id: id.into(),
                content: json!("not run").into(),
                parts: vec![],
                is_error: true,
            }
            .into()
        };
        let again = ModelRequest {
            provider: "anthropic".into(),
            ..request(vec![
                Message::user("hi"),
                Message::new(Role::Assistant, response.parts.clone()),
                Message::new(Role::User, vec![result("toolu_0"), result("toolu_1")]),
            ])
        };
        let body: Value = serde_json::from_str(&AnthropicMessages.request(&again).unwrap().body).unwrap();
        assert_eq!(
            body["messages"][1]["content"][1],
            json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"arguments": arguments}})
        );
        assert_eq!(body["messages"][2]["content"][1]["tool_use_id"], "toolu_1");
    }
}

#[test]
fn a_call_cut_off_by_the_limit_has_the_limit_as_its_reason() {
    let events = answer(vec![call(0, "weather", "{\"place\": \"Os"), end("max_tokens")]);
    let (response, _) = read(&request(vec![]), &events).unwrap();
    assert_eq!(response.stop, StopReason::MaxTokens);
    assert!(
        matches!(&response.parts[0].content, Content::ToolUse { input, .. } if *input == json!("{\"place\": \"Os"))
    );
}

#[test]
fn arguments_and_text_may_come_with_the_start_of_a_block() {
    let events = answer(vec![
        block(0, &json!({"type": "text", "text": "Look: "}), &[json!({"type": "text_delta", "text": "here"})]),
        block(1, &json!({"type": "tool_use", "id": "t", "name": "clock", "input": {"zone": "utc"}}), &[]),
        end("tool_use"),
    ]);
    let (response, deltas) = read(&request(vec![]), &events).unwrap();
    let kinds: Vec<DeltaKind> = deltas.into_iter().map(|delta| delta.kind).collect();
    let expected = [
        DeltaKind::Text("Look: ".into()),
        DeltaKind::Text("here".into()),
        DeltaKind::CallStarted { name: ToolName::new("clock") },
        DeltaKind::CallArguments("{\"zone\":\"utc\"}".into()),
        DeltaKind::CallDone,
    ];
    assert_eq!(kinds, expected);
    assert!(matches!(&response.parts[0].content, Content::Text { text } if text == "Look: here"));
    assert!(matches!(&response.parts[1].content, Content::ToolUse { input, .. } if *input == json!({"zone": "utc"})));
}

#[test]
fn parts_have_the_order_in_which_blocks_began_even_if_they_overlap() {
    let events = [
        start(),
        json!({"type": "content_block_start", "index": 4, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "thinking_delta", "thinking": "b"}}),
        json!({"type": "content_block_delta", "index": 4, "delta": {"type": "text_delta", "text": "a"}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "content_block_stop", "index": 4}),
        json!({"type": "message_stop"}),
    ];
    let (response, deltas) = read(&request(vec![]), &events).unwrap();
    assert_eq!(response.parts.iter().map(|part| part.content.kind()).collect::<Vec<_>>(), ["text", "thinking"]);
    assert_eq!(
        deltas,
        [
            Delta { part: 1, kind: DeltaKind::Thinking("b".into()) },
            Delta { part: 0, kind: DeltaKind::Text("a".into()) }
        ]
    );
}

#[test]
fn a_provider_tool_is_reported_when_its_result_is_complete() {
    let call = json!({"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_regex", "input": {}});
    let known = json!({"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {"tool_references": []}});
    let unknown = json!({"type": "web_fetch_tool_result", "tool_use_id": "s0", "content": null});
    let piece = json!({"type": "input_json_delta", "partial_json": "{\"pattern\":\"x\"}"});
    let events =
        answer(vec![block(0, &call, &[piece]), block(1, &known, &[]), block(2, &unknown, &[]), end("end_turn")]);
    let (response, deltas) = read(&request(vec![]), &events).unwrap();
    let done = |part, name: &str| Delta { part, kind: DeltaKind::ProviderToolDone { name: name.into() } };
    assert_eq!(deltas, [done(1, "tool_search_tool_regex"), done(2, "web_fetch")]);
    let contents: Vec<Value> = response
        .parts
        .iter()
        .map(|part| match &part.content {
            Content::ProviderTool { name, input, output } => json!([name, input, output]),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        contents,
        [
            json!(["tool_search_tool_regex", {"pattern": "x"}, null]),
            json!(["tool_search_tool_regex", null, {"tool_references": []}]),
            json!(["web_fetch", null, null])
        ]
    );
}

#[test]
fn an_answer_by_tool_is_text_and_ends_the_turn_unless_other_tools_are_called_too() {
    let schema = serde_json::from_value(json!({"name": "report", "schema": {"type": "object"}})).unwrap();
    let asked = ModelRequest {
        output_schema: Some(schema),
        spec: Arc::new(ModelSpec { structured_output: StructuredOutputControl::Tool, ..ModelSpec::default() }),
        ..request(vec![])
    };
    let (alone, deltas) = read(&asked, &answer(vec![call(0, "report", "{\"a\": 1}"), end("tool_use")])).unwrap();
    assert_eq!(
        (alone.stop, deltas),
        (StopReason::EndTurn, vec![Delta { part: 0, kind: DeltaKind::Text("{\"a\": 1}".into()) }])
    );
    let both = answer(vec![call(0, "report", "{}"), call(1, "clock", "{}"), end("tool_use")]);
    let (both, _) = read(&asked, &both).unwrap();
    assert_eq!(both.stop, StopReason::ToolUse);
    assert_eq!(both.parts.iter().map(|part| part.content.kind()).collect::<Vec<_>>(), ["text", "tool_use"]);

    let tool = ToolDeclaration { name: "report".into(), description: String::new(), input_schema: json!({}) };
    let asked = ModelRequest { tools: [tool].into(), ..asked };
    let events = answer(vec![call(0, "report", "{}"), call(1, "report_2", "{}"), end("tool_use")]);
    let parts = read(&asked, &events).unwrap().0.parts;
    assert_eq!(parts.iter().map(|part| part.content.kind()).collect::<Vec<_>>(), ["tool_use", "text"]);
}

#[test]
fn a_stream_that_ends_before_its_last_event_is_cut_off() {
    let mut events = answer(vec![block(0, &json!({"type": "text", "text": "a"}), &[]), end("end_turn")]);
    events.pop();
    let error = read(&request(vec![]), &events).unwrap_err();
    assert_eq!((error.class, error.retryable), (ErrorClass::Server, true));
}

#[test]
fn an_event_for_a_block_that_has_not_begun_is_an_error() {
    let text = json!({"type": "text_delta", "text": "a"});
    for event in [
        json!({"type": "content_block_stop", "index": 3}),
        json!({"type": "content_block_delta", "index": 3, "delta": text}),
    ] {
        let error = read(&request(vec![]), &[start(), event]).unwrap_err();
        assert_eq!((error.class, error.retryable), (ErrorClass::Server, true));
    }
}
