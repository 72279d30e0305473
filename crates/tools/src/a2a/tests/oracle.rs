//! The types of the A2A project read what we send and write what we read.

use a2a::{
    AgentCapabilities, AgentCard, Artifact, Message, Part, Role, SendMessageRequest, StreamResponse, Task, TaskState,
    TaskStatus,
};

use super::*;

fn oracle_task(state: TaskState) -> Task {
    let artifact = Artifact {
        artifact_id: "a1".to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text("hi"), Part::data(json!({"n": 1})), Part::url("https://x").with_filename("x")],
        metadata: None,
        extensions: None,
    };
    let message = Message::new(Role::Agent, vec![Part::text("soon")]);
    Task {
        id: "t1".to_owned(),
        context_id: "c1".to_owned(),
        status: TaskStatus { state, message: Some(message), timestamp: Some(chrono::DateTime::UNIX_EPOCH) },
        artifacts: Some(vec![artifact]),
        history: None,
        metadata: None,
    }
}

#[tokio::test]
async fn tasks_of_the_official_types_are_read() {
    let task = |state| Answer::Result(json!(oracle_task(state)));
    let peer = TestPeer::polled(Dialect::JsonRpc)
        .await
        .on_send(task(TaskState::Working))
        .on_get(task(TaskState::Submitted))
        .on_get(task(TaskState::Unspecified))
        .on_get(task(TaskState::Completed));
    assert_eq!(Caller::of(&peer).finish().await, Ok(done("hi\n{\"n\":1}\nx: https://x")));
    for (state, begins) in [
        (TaskState::Failed, "the peer's task failed: soon"),
        (TaskState::Rejected, "the peer rejected the task: soon"),
        (TaskState::Canceled, "the peer's task was cancelled there: soon"),
    ] {
        let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(task(state));
        assert_eq!(Caller::of(&peer).round().await, Err(failed(begins)));
    }
    for state in [TaskState::InputRequired, TaskState::AuthRequired] {
        let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(task(state));
        assert_eq!(continuation(Caller::of(&peer).round().await).inputs[0].prompt, "soon");
    }
}

#[tokio::test]
async fn a_card_of_the_official_type_is_read() {
    let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(completed("hi")));
    let card = AgentCard {
        name: "Echo".to_owned(),
        description: String::new(),
        version: "1".to_owned(),
        supported_interfaces: vec![a2a::AgentInterface::new(peer.url("/a2a"), "JSONRPC")],
        capabilities: AgentCapabilities::default(),
        default_input_modes: Vec::new(),
        default_output_modes: Vec::new(),
        skills: Vec::new(),
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: None,
        security_requirements: None,
        signatures: None,
    };
    let peer = peer.with_card(Answer::Result(json!(card)));
    assert_eq!(Caller::of(&peer).round().await, Ok(done("hi")));
}

#[tokio::test]
async fn the_official_type_reads_our_message() {
    let mut peer = TestPeer::polled(Dialect::HttpJson).await.on_send(Answer::Result(completed("hi")));
    Caller::of(&peer).round().await.unwrap();
    let sent: SendMessageRequest = serde_json::from_value(peer.next("send").await.params).unwrap();
    let mut message = Message::new(Role::User, vec![Part::text("hello")]);
    (message.message_id, message.context_id) = ("run-1/call_0_0/1".to_owned(), Some("session-1".to_owned()));
    assert_eq!(sent.message, message);
    assert_eq!(sent.configuration.unwrap().return_immediately, Some(true));
}

#[test]
fn events_of_the_official_type_and_of_0_3_are_the_same_events() {
    let event = json!(StreamResponse::Task(oracle_task(TaskState::Working)));
    let read: super::super::wire::Event = serde_json::from_value(event.clone()).unwrap();
    let flat: super::super::wire::Event03 = serde_json::from_value(Legacy(event).event()).unwrap();
    assert_eq!(flat.0, read);
}
