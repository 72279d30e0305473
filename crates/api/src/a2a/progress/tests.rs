use serde_json::{Value, json};

use super::*;

fn progress() -> Progress {
    Progress::new(Ids { task: "r1".to_owned(), context: "c1".to_owned() }, Timestamp(0))
}

fn event(kind: &str, data: Value) -> Event {
    Event { seq: 1, at: Timestamp(1_000), key: "k".to_owned(), kind: kind.to_owned(), data }
}

fn started() -> Event {
    event("started", json!({"agentId": "desk", "workspace": "acme", "modelId": "script:echo"}))
}

fn status(status: &str) -> Event {
    event("status", json!({"status": status, "phase": "planning"}))
}

fn opened(id: &str) -> Event {
    let item = json!({"id": id, "kind": "clarification", "prompt": "Which city?", "openedAt": 0, "onExpiry": "replan"});
    event("await_opened", json!({"item": item}))
}

fn closed(id: &str) -> Event {
    event("await_closed", json!({"awaitId": id, "outcome": "answered"}))
}

fn delta(text: &str, turn: u32, attempt: u32) -> Event {
    event("assistant_delta", json!({"text": text, "turn": turn, "attempt": attempt}))
}

fn answered(text: &str) -> Event {
    let usage = windlass_core::envelope::TokenUsage::default();
    let data = json!({
        "text": text, "subtype": "success", "finishReason": null, "turns": 1, "toolCalls": 0, "activeMs": 1, "usage": usage,
    });
    event("result", data)
}

/// The updates of a log, shortened: states, and chunks as text, append and last.
fn updates(log: &[Event]) -> Vec<String> {
    let mut progress = progress();
    let short = |update: StreamResponse| match update {
        StreamResponse::StatusUpdate(update) => json!(update.status.state).as_str().unwrap().replace("TASK_STATE_", ""),
        StreamResponse::ArtifactUpdate(update) => {
            let text = update.artifact.parts[0].as_text().unwrap_or_default();
            format!("{text}/{}/{}", update.append.unwrap(), update.last_chunk.unwrap())
        }
        other => panic!("{other:?}"),
    };
    log.iter().flat_map(|event| progress.take(event)).map(short).collect()
}

#[test]
fn deltas_are_chunks_of_the_answer_and_its_last_chunk_replaces_them() {
    let log = [started(), delta("Ber", 1, 1), delta("gen", 1, 1), answered("Bergen.")];
    assert_eq!(updates(&log), ["WORKING", "Ber/false/false", "gen/true/false", "Bergen./false/true", "COMPLETED"]);
}

#[test]
fn the_text_of_another_turn_or_attempt_replaces_the_draft() {
    let restarted = event("turn_restarted", json!({"turn": 2, "attempt": 2}));
    let log = [delta("a", 1, 1), delta("b", 2, 1), restarted, delta("c", 2, 2), delta("d", 2, 2)];
    assert_eq!(updates(&log), ["a/false/false", "b/false/false", "c/false/false", "d/true/false"]);
}

#[test]
fn a_status_update_is_sent_when_the_state_or_what_is_asked_changes() {
    let log = [
        started(),
        status("running"),
        opened("await-1"),
        status("waiting"),
        opened("await-2"),
        closed("await-1"),
        closed("await-2"),
        status("running"),
        event("hologram", json!({})),
    ];
    assert_eq!(updates(&log), ["WORKING", "INPUT_REQUIRED", "INPUT_REQUIRED", "INPUT_REQUIRED", "WORKING"]);
}

#[test]
fn what_a_sub_agent_asks_is_asked_by_the_task_although_its_run_does_not_wait() {
    let mut asks = opened("call-0-0:await-1");
    asks.kind = "child_await_opened".to_owned();
    asks.data["item"]["child"] = json!({"runId": "r1/call-0-0", "path": ["desk", "clerk"]});
    let answered = event("child_await_closed", json!({"awaitId": "call-0-0:await-1", "outcome": "answered"}));
    assert_eq!(updates(&[started(), asks, answered]), ["WORKING", "INPUT_REQUIRED", "WORKING"]);
}

#[test]
fn an_await_that_has_its_answer_is_not_asked_again() {
    let mut progress = progress();
    for event in [started(), opened("await-1"), status("waiting")] {
        progress.take(&event);
    }
    assert_eq!(progress.status().state, TaskState::InputRequired);
    progress.answered(&"await-1".into());
    assert_eq!(progress.status().state, TaskState::Working);
    assert_eq!(progress.take(&closed("await-1")), []);
    assert_eq!(progress.take(&opened("await-2")).len(), 1);
}

#[test]
fn a_task_has_the_draft_until_it_has_the_answer() {
    let mut progress = progress();
    let text = |progress: &Progress| {
        let artifacts = progress.task().artifacts.unwrap_or_default();
        artifacts.iter().map(|artifact| artifact.parts[0].as_text().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((progress.status().state, text(&progress)), (TaskState::Submitted, vec![]));
    for event in [started(), delta("Ber", 1, 1), delta("g", 1, 1)] {
        progress.take(&event);
    }
    assert_eq!((progress.status().state, text(&progress)), (TaskState::Working, vec!["Berg".to_owned()]));
    progress.take(&answered("Bergen."));
    assert_eq!((progress.status().state, text(&progress)), (TaskState::Completed, vec!["Bergen.".to_owned()]));
}
