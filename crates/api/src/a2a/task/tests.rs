use windlass_core::{awaits::ExpiryOutcome, canonical::Digest, envelope::TokenUsage, time::Millis};

use super::*;

fn ids() -> Ids {
    Ids { task: "r1".to_owned(), context: "c1".to_owned() }
}

fn item(document: Value) -> AwaitView {
    let mut whole = json!({"openedAt": 0, "onExpiry": ExpiryOutcome::Replan});
    whole.as_object_mut().unwrap().extend(document.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn clarification() -> AwaitView {
    item(json!({"id": "await-1", "kind": "clarification", "title": "Missing: city.", "prompt": "Which city?"}))
}

fn external() -> AwaitView {
    item(json!({"id": "await-2", "kind": "external_tools", "prompt": "Results wanted for crm"}))
}

fn event(body: EventBody) -> Event {
    let (kind, data) = body.split().unwrap();
    Event { seq: 7, at: Timestamp(1_500), key: "end".to_owned(), kind: kind.to_owned(), data }
}

fn result(text: &str, subtype: &str, structured: bool) -> Event {
    let mut ending = event(EventBody::Result {
        text: text.to_owned(),
        subtype: subtype.to_owned(),
        error: (subtype != "success").then(|| "a tool was not answered".to_owned()),
        error_class: None,
        finish_reason: None,
        finalized: None,
        turns: 1,
        tool_calls: 0,
        active_ms: Millis(5),
        usage: TokenUsage::default(),
        model: None,
        structured_output: None,
    });
    if structured {
        ending.data["structuredOutput"] = json!({
            "schemaRequested": true, "schemaEnforced": false, "enforcementMechanism": "none",
            "unconstrainedFallbackOccurred": false,
        });
    }
    ending
}

fn shown(event: &Event) -> (Value, Value) {
    let Ending { status, artifact } = Ending::of(&ids(), event).unwrap();
    (json!(status), json!(artifact))
}

#[test]
fn a_run_that_waits_for_a_person_requires_input_and_any_other_open_run_works() {
    let cases = [
        (RunStatus::Queued, vec![], TaskState::Submitted),
        (RunStatus::Running, vec![], TaskState::Working),
        (RunStatus::Running, vec![clarification()], TaskState::Working),
        (RunStatus::Paused, vec![], TaskState::Working),
        (RunStatus::Waiting, vec![clarification()], TaskState::InputRequired),
        (RunStatus::Waiting, vec![external(), clarification()], TaskState::InputRequired),
        (RunStatus::Waiting, vec![external()], TaskState::Working),
    ];
    for (status, awaits, expected) in cases {
        assert_eq!(open_state(status, &awaits), expected, "{status:?} {awaits:?}");
    }
}

#[test]
fn a_request_for_input_has_the_prompt_and_the_call_that_waits_for_an_approval() {
    let digest = Digest::of_json(&json!({"x": 1}));
    let confirmation = item(json!({
        "id": "await-3", "kind": "confirmation", "title": "Keep it?", "prompt": "",
        "calls": [{"toolCallId": "call-1", "name": "echo", "digest": digest, "args": {"x": 1}}],
    }));
    let awaits = [external(), clarification(), confirmation];
    let status = open_status(&ids(), RunStatus::Waiting, &awaits, Timestamp(1_500));
    let about = |id: &str, kind: &str| json!({"awaitId": id, "kind": kind});
    let expected = json!({
        "state": "TASK_STATE_INPUT_REQUIRED",
        "timestamp": "1970-01-01T00:00:01.500Z",
        "message": {
            "messageId": "r1.await-1.await-3", "contextId": "c1", "taskId": "r1", "role": "ROLE_AGENT",
            "parts": [
                {"text": "Missing: city.\nWhich city?", "metadata": about("await-1", "clarification")},
                {"text": "Keep it?", "metadata": about("await-3", "confirmation")},
                {"data": {"toolName": "echo", "arguments": {"x": 1}, "digest": digest}, "metadata": about("await-3", "confirmation")},
            ],
        },
    });
    assert_eq!(json!(status), expected);
}

#[test]
fn an_answer_is_an_artifact_and_with_a_schema_a_value() {
    let artifact = |part: Value| json!({"artifactId": "answer", "name": "answer", "parts": [part]});
    let completed = json!({"state": "TASK_STATE_COMPLETED", "timestamp": "1970-01-01T00:00:01.500Z"});
    let cases = [
        (result("{\"a\":1}", "success", false), json!({"text": "{\"a\":1}"})),
        (result("{\"a\":1}", "success", true), json!({"data": {"a": 1}, "mediaType": "application/json"})),
        (result("no JSON", "success", true), json!({"text": "no JSON"})),
    ];
    for (event, part) in cases {
        assert_eq!(shown(&event), (completed.clone(), artifact(part)));
    }
}

#[test]
fn a_failure_has_its_code_and_its_sentence_and_a_cancellation_its_reason() {
    let failed = event(EventBody::Error {
        code: "rate_limit".to_owned(),
        error: "the provider refused the request".to_owned(),
        error_class: Some("rate_limit".to_owned()),
        failure: Some("RUN0004".to_owned()),
        retryable: false,
        api_status: None,
        api_code: None,
        finish_reason: None,
        partial_text: None,
        turns: 1,
        tool_calls: 0,
        active_ms: Millis(5),
        usage: TokenUsage::default(),
        model: None,
        structured_output: None,
    });
    let cancelled = event(EventBody::Cancelled {
        reason: "enough".to_owned(),
        turns: 1,
        tool_calls: 0,
        active_ms: Millis(5),
        usage: TokenUsage::default(),
        model: None,
        structured_output: None,
    });
    let message = |id: &str, text: &str, code: Option<&str>| {
        let mut message = json!({
            "messageId": format!("r1.{id}"), "contextId": "c1", "taskId": "r1", "role": "ROLE_AGENT",
            "parts": [{"text": text}],
        });
        if let Some(code) = code {
            message["metadata"] = json!({"code": code});
        }
        message
    };
    let cases = [
        (failed, "FAILED", message("failed", "the provider refused the request", Some("RUN0004"))),
        (
            result("", "error_local_tool_timeout", false),
            "FAILED",
            message("failed", "a tool was not answered", Some("error_local_tool_timeout")),
        ),
        (cancelled, "CANCELED", message("cancelled", "enough", None)),
    ];
    for (event, state, message) in cases {
        let timestamp = "1970-01-01T00:00:01.500Z";
        let expected = json!({"state": format!("TASK_STATE_{state}"), "message": message, "timestamp": timestamp});
        assert_eq!(shown(&event), (expected, Value::Null));
    }
}

#[test]
fn history_has_texts_of_both_sides_and_the_senders_message_id() {
    let mut asked = message::Message::user("hello");
    asked.meta.insert(MESSAGE_ID.to_owned(), json!("m-1"));
    let stored = [
        message::Message::text(message::Role::System, "Be kind."),
        asked,
        message::Message::new(message::Role::Assistant, Vec::new()),
        message::Message::assistant("hi"),
    ];
    let shown: Vec<_> =
        stored.iter().enumerate().filter_map(|(index, stored)| history_message(&ids(), index as u64, stored)).collect();
    let message = |id: &str, role: &str, text: &str| json!({"messageId": id, "contextId": "c1", "taskId": "r1", "role": role, "parts": [{"text": text}]});
    assert_eq!(json!(shown), json!([message("m-1", "ROLE_USER", "hello"), message("r1.3", "ROLE_AGENT", "hi")]));
}
