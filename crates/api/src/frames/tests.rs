use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::{
    agent::ClientTool,
    envelope::{CallStatus, TokenUsage, ToolError, ToolErrorKind},
    event::EventBody,
    ids::ToolName,
    time::{Millis, Timestamp},
};

use super::*;

fn event(seq: u64, body: &EventBody) -> Event {
    let (kind, data) = body.split().unwrap();
    Event { seq, at: Timestamp(0), key: "k".into(), kind: kind.into(), data }
}

fn facts() -> RunFacts {
    let client = |name: &str, client| (ToolName::new(name), client);
    let tools = [
        client("add", ClientTool::Local {}),
        client("hr", ClientTool::A2aLocal { agent_card: json!({"name": "Acme HR"}) }),
        client(
            "fs_read",
            ClientTool::McpLocal {
                server: "fs".into(),
                server_info: Some(json!({"name": "files"})),
                tool_name: "fs_read".into(),
            },
        ),
    ];
    RunFacts {
        tools: tools.into(),
        server_tools: Some(["clock".into()].into()),
        schema_requested: false,
        reasoning_level: Some(50),
    }
}

/// The frames of the recordings, by type.
fn recorded(kind: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("../../fixtures/frames.json")).unwrap();
    all[kind].clone()
}

/// Whether everything a recorded frame says, ours says too.
#[track_caller]
fn assert_says(ours: &Value, recorded: &Value) {
    match (ours, recorded) {
        (Value::Object(ours), Value::Object(recorded)) => {
            for (key, value) in recorded {
                assert_says(ours.get(key).unwrap_or_else(|| panic!("{key} is missing in {ours:?}")), value);
            }
        }
        _ => assert_eq!(ours, recorded),
    }
}

fn usage(output: u64) -> TokenUsage {
    TokenUsage { input_tokens: 10, output_tokens: output, total_tokens: 10 + output, ..TokenUsage::default() }
}

#[test]
fn frames_contain_every_field_of_the_recorded_frames() {
    let events = [
        (1, EventBody::AssistantDelta { text: "Hello".into(), turn: 0, attempt: 1, part: 0 }),
        (1, EventBody::ThinkingDelta { text: "let me think".into(), turn: 0, attempt: 1, part: 0 }),
        (
            4,
            EventBody::AssistantMessage {
                text: "Hello, world".into(),
                turn: 0,
                finish_reason: Some("end_turn".into()),
                tool_calls: Vec::new(),
                model: "script:hello".into(),
            },
        ),
        (
            3,
            EventBody::LocalToolCall {
                tool_use_id: "tu_0007".into(),
                name: "add".into(),
                args: Some(json!({"a": 2, "b": 3}).into()),
                await_id: "await-1".into(),
                args_ref: None,
            },
        ),
        (
            4,
            EventBody::LocalToolResultIn {
                tool_use_id: "tu_0007".into(),
                output: Some(json!("5").into()),
                error: None,
                result_bytes: 3,
            },
        ),
        (6, EventBody::LoopDetected { consecutive_count: 2, hard_cutoff: false, tools: vec!["probe".into()] }),
        (6, EventBody::ToolBudgetExceeded { tool: "probe".into(), max_calls: 1, call_index: 2 }),
        (
            5,
            EventBody::Result {
                text: "Hello, world".into(),
                subtype: "success".into(),
                error: None,
                error_class: None,
                finish_reason: Some("end_turn".into()),
                finalized: None,
                turns: 1,
                tool_calls: 0,
                active_ms: Millis(5),
                usage: usage(3),
                model: Some("script:hello".into()),
                structured_output: None,
            },
        ),
        (
            4,
            EventBody::Error {
                code: "truncation".into(),
                error: "Model output was truncated (stop_reason=max_tokens).".into(),
                error_class: Some("truncation".into()),
                failure: Some("RUN".into()),
                retryable: false,
                api_status: None,
                api_code: None,
                finish_reason: Some("max_tokens".into()),
                partial_text: Some("{\"city\": \"Bergen\", \"temp".into()),
                turns: 1,
                tool_calls: 0,
                active_ms: Millis(5),
                usage: usage(2),
                model: Some("script:truncated".into()),
                structured_output: None,
            },
        ),
        (
            1,
            EventBody::Cancelled {
                reason: "user".into(),
                turns: 0,
                tool_calls: 0,
                active_ms: Millis(0),
                usage: usage(0),
                model: None,
                structured_output: None,
            },
        ),
    ];
    for (seq, body) in events {
        let frame = frame(&event(seq, &body), &facts(), &Catalogue::default()).unwrap();
        assert_says(&frame.json(), &recorded(body.kind()));
    }
}

#[test]
fn a_local_call_has_the_kind_and_the_names_of_its_declaration() {
    let call = |name: &str| {
        let body = EventBody::LocalToolCall {
            tool_use_id: "c".into(),
            name: name.into(),
            args: None,
            await_id: "a".into(),
            args_ref: None,
        };
        Value::Object(frame(&event(1, &body), &facts(), &Catalogue::default()).unwrap().data)
    };
    let base =
        |name: &str, kind: &str| json!({"toolUseId": "c", "name": name, "args": {}, "awaitId": "a", "kind": kind});
    let mut peer = base("hr", "a2a_local");
    peer["agentCard"] = json!({"name": "Acme HR"});
    let mut server = base("fs_read", "mcp_local");
    server["mcpServer"] = json!("fs");
    server["mcpToolName"] = json!("fs_read");
    server["mcpServerInfo"] = json!({"name": "files"});
    assert_eq!(
        [call("add"), call("hr"), call("fs_read"), call("gone")],
        [base("add", "local"), peer, server, base("gone", "local")]
    );
}

#[test]
fn a_result_has_all_its_names_and_is_never_long() {
    let result = |result: Option<Value>, error: Option<ToolError>| {
        let ok = error.is_none();
        let body = EventBody::ToolResult {
            tool_use_id: "c".into(),
            name: "t".into(),
            ok,
            status: CallStatus::Ok,
            result: result.map(Into::into),
            result_bytes: 2,
            error,
            retry_hint: None,
            telemetry: None,
        };
        let data = frame(&event(1, &body), &RunFacts::default(), &Catalogue::default()).unwrap().data;
        assert_eq!(data["result"], data["summary"]);
        data["result"].as_str().unwrap().to_owned()
    };
    assert_eq!(result(Some(json!("hi")), None), "hi");
    assert_eq!(result(Some(json!({"a": 1})), None), "{\"a\":1}");
    assert_eq!(result(None, Some(ToolError::new(ToolErrorKind::ToolFailed, "broken"))), "tool_failed: broken");
    assert_eq!(result(None, None), "");
    assert_eq!(result(Some(json!("é".repeat(10_000))), None).len(), 16 * 1024 + "…".len());
}

#[test]
fn a_result_that_the_caller_provided_is_not_repeated_as_a_tool_result() {
    let sent = |name: &str, status: CallStatus, facts: &RunFacts| {
        let body = EventBody::ToolResult {
            tool_use_id: "c".into(),
            name: name.into(),
            ok: status == CallStatus::Ok,
            status,
            result: None,
            result_bytes: 0,
            error: None,
            retry_hint: None,
            telemetry: None,
        };
        frame(&event(1, &body), facts, &Catalogue::default()).is_some()
    };
    let all = [CallStatus::Ok, CallStatus::Failed, CallStatus::Refused, CallStatus::Cancelled];
    assert_eq!(all.map(|status| sent("add", status, &facts())), [false, false, true, true]);
    assert_eq!(all.map(|status| sent("asked_by_the_model", status, &facts())), [false, false, true, true]);
    assert_eq!(all.map(|status| sent("clock", status, &facts())), [true; 4]);
    assert_eq!(all.map(|status| sent("add", status, &RunFacts::default())), [true; 4], "without a definition");
}

#[test]
fn thinking_is_sent_only_above_reasoning_level_0() {
    let thought = event(1, &EventBody::ThinkingDelta { text: "hm".into(), turn: 0, attempt: 1, part: 0 });
    let sent = |reasoning_level: Option<u8>| {
        let definition = json!({"id": "a", "model": "m", "reasoningLevel": reasoning_level});
        frame(&thought, &RunFacts::of(&serde_json::from_value(definition).unwrap()), &Catalogue::default()).is_some()
    };
    assert_eq!([None, Some(0), Some(1), Some(80)].map(sent), [false, false, true, true]);
}

#[test]
fn a_large_payload_is_sent_once() {
    let small =
        frame(&event(7, &EventBody::PlannerNote { text: "hi".into() }), &RunFacts::default(), &Catalogue::default())
            .unwrap();
    let payload = json!({"seq": 7, "type": "planner_note", "text": "hi", "data": {"text": "hi"}});
    assert_eq!(small.sse(), format!("id: 7\nevent: planner_note\ndata: {payload}\n\n"));
    let large = frame(
        &event(7, &EventBody::PlannerNote { text: "x".repeat(9000) }),
        &RunFacts::default(),
        &Catalogue::default(),
    )
    .unwrap();
    assert_eq!(large.json().get("data"), None);
}

proptest! {
    /// Whatever is in the log comes out as one frame that a client's parser takes apart again.
    #[test]
    fn any_event_is_one_frame(kind in "[a-z_\\r\\n]{1,20}", text in "\\PC{0,40}|[\\r\\n\\u{2028}]{0,5}", seq in 1_u64..1000) {
        let known = ["tool_result", "local_tool_call", "local_tool_result_in", "result", "error", "cancelled", "assistant_message"];
        for kind in known.into_iter().map(str::to_owned).chain([kind]) {
            let data = json!({"text": text, "model": text, "usage": text, "args": text, "name": text, "error": {"message": text}});
            let event = Event { seq, at: Timestamp(0), key: "k".into(), kind: kind.clone(), data };
            let frame = frame(&event, &facts(), &Catalogue::default()).unwrap();
            let sse = frame.sse();
            let lines: Vec<&str> = sse.split('\n').collect();
            prop_assert_eq!(lines.len(), 5, "{:?}", &sse);
            prop_assert_eq!(lines[0], format!("id: {seq}"));
            let payload: Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
            prop_assert_eq!(payload["seq"].as_u64(), Some(seq));
            prop_assert_eq!(payload["type"].as_str(), Some(kind.as_str()));
        }
    }
}
