use windlass_core::{envelope::TokenUsage, time::Timestamp};

use super::*;

fn event(kind: &str, data: Value) -> Event {
    Event { seq: 1, at: Timestamp(1_000), key: "k".to_owned(), kind: kind.to_owned(), data }
}

/// A run that is asked something, writes its answer in two pieces and ends.
fn log() -> Vec<Event> {
    let item =
        json!({"id": "await-1", "kind": "clarification", "prompt": "Which city?", "openedAt": 0, "onExpiry": "replan"});
    vec![
        event("started", json!({"agentId": "desk", "workspace": "acme", "modelId": "script:echo"})),
        event("await_opened", json!({"item": item})),
        event("status", json!({"status": "waiting", "phase": "waiting"})),
        event("await_closed", json!({"awaitId": "await-1", "outcome": "answered"})),
        event("status", json!({"status": "running", "phase": "planning"})),
        event("assistant_delta", json!({"text": "Ber", "turn": 1, "attempt": 1})),
        event("assistant_delta", json!({"text": "gen", "turn": 1, "attempt": 1})),
        event(
            "result",
            json!({"text": "Bergen", "subtype": "success", "finishReason": null, "turns": 1, "toolCalls": 0, "activeMs": 1,
                "usage": TokenUsage::default()}),
        ),
    ]
}

fn sent(version: &str) -> (&'static str, Vec<Vec<Value>>) {
    let ids = Ids { task: "r1".to_owned(), context: "c1".to_owned() };
    let (media_type, updates) = rendered(Progress::new(ids, Timestamp(0)), version);
    (media_type, log().iter().map(updates).collect())
}

#[test]
fn notifications_are_the_updates_of_a_stream_without_pieces_of_the_answer() {
    let (media_type, sent) = sent("1.0");
    assert_eq!(media_type, "application/a2a+json");
    let state = |update: &Value| update["statusUpdate"]["status"]["state"].clone();
    let per_event: Vec<usize> = sent.iter().map(Vec::len).collect();
    assert_eq!(per_event, [1, 0, 1, 1, 0, 0, 0, 2]);
    let flat: Vec<&Value> = sent.iter().flatten().collect();
    let states: Vec<Value> = flat.iter().map(|update| state(update)).collect();
    let expected = ["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"].map(|state| json!(state));
    assert_eq!(states[..3], expected);
    let answer = json!({"artifactUpdate": {"taskId": "r1", "contextId": "c1", "append": false, "lastChunk": true,
        "artifact": {"artifactId": "answer", "name": "answer", "parts": [{"text": "Bergen"}]}}});
    assert_eq!((flat[3], &states[4]), (&answer, &json!("TASK_STATE_COMPLETED")));
}

#[test]
fn a_receiver_of_0_3_gets_the_task() {
    let (media_type, sent) = sent("0.3");
    assert_eq!(media_type, "application/json");
    let per_event: Vec<usize> = sent.iter().map(Vec::len).collect();
    assert_eq!(per_event, [1, 0, 1, 1, 0, 0, 0, 1]);
    let last = sent.last().unwrap()[0].clone();
    let expected = json!({"kind": "task", "id": "r1", "contextId": "c1",
        "status": {"state": "completed", "timestamp": last["status"]["timestamp"]},
        "artifacts": [{"artifactId": "answer", "name": "answer", "parts": [{"kind": "text", "text": "Bergen"}]}]});
    assert_eq!(last, expected);
}
