use a2a::SendMessageRequest;

use super::*;

#[test]
fn a_message_of_0_3_is_read_as_one_of_1_0() {
    let sent = json!({
        "message": {"kind": "message", "messageId": "m", "role": "user", "parts": [
            {"kind": "text", "text": "hello"},
            {"kind": "data", "data": {"a": 1}},
            {"kind": "file", "file": {"bytes": "aGk=", "name": "a.txt", "mimeType": "text/plain"}},
            {"kind": "file", "file": {"uri": "https://example.com/a.png"}},
        ]},
        "configuration": {"blocking": false, "historyLength": 2},
    });
    let read: SendMessageRequest = serde_json::from_value(params(Operation::SendMessage, sent)).unwrap();
    let expected = json!({
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [
            {"text": "hello"},
            {"data": {"a": 1}},
            {"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain"},
            {"url": "https://example.com/a.png"},
        ]},
        "configuration": {"returnImmediately": true, "historyLength": 2},
    });
    assert_eq!(json!(read), expected);
}

#[test]
fn a_task_has_the_kinds_and_states_of_0_3() {
    let sent = json!({"task": {
        "id": "r1", "contextId": "c1",
        "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {
            "messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Which city?"}]}},
        "artifacts": [{"artifactId": "answer", "parts": [{"data": [1]}, {"data": {"a": 1}}]}],
        "history": [{"messageId": "h", "role": "ROLE_USER", "parts": [{"text": "hello"}]}],
    }});
    let expected = json!({
        "kind": "task", "id": "r1", "contextId": "c1",
        "status": {"state": "input-required", "message": {
            "kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "Which city?"}]}},
        "artifacts": [{"artifactId": "answer", "parts": [
            {"kind": "data", "data": {"value": [1]}}, {"kind": "data", "data": {"a": 1}}]}],
        "history": [{"kind": "message", "messageId": "h", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}],
    });
    assert_eq!(result(Operation::SendMessage, sent.clone(), true), expected);
    assert_eq!(result(Operation::GetTask, sent["task"].clone(), true), expected);
}

#[test]
fn updates_have_their_kind_and_the_last_status_is_final() {
    let status =
        json!({"statusUpdate": {"taskId": "r1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}});
    let expected = json!({
        "kind": "status-update", "taskId": "r1", "contextId": "c1", "status": {"state": "completed"}, "final": true,
    });
    assert_eq!(result(Operation::SendStreamingMessage, status, true), expected);
    let artifact = json!({"artifactUpdate": {
        "taskId": "r1", "contextId": "c1", "append": true, "artifact": {"artifactId": "answer", "parts": [{"text": "a"}]}}});
    let expected = json!({
        "kind": "artifact-update", "taskId": "r1", "contextId": "c1", "append": true,
        "artifact": {"artifactId": "answer", "parts": [{"kind": "text", "text": "a"}]},
    });
    assert_eq!(result(Operation::SubscribeToTask, artifact, false), expected);
}
