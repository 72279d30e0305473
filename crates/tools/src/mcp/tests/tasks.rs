//! Calls that the server works on as tasks.

use std::time::Instant;

use rmcp::model::{ElicitRequest, InputRequest as Asked, TaskPayload};
use tokio_util::sync::CancellationToken;

use super::{server::form, *};
use crate::{Progress, ProgressSink};

fn completed(text: &str) -> TaskPayload {
    let result = json!({"content": [{"type": "text", "text": text}]});
    TaskPayload::Completed { result: result.as_object().unwrap().clone() }
}

fn asks(key: &str) -> TaskPayload {
    let asked = Asked::Elicitation(ElicitRequest::new(form()));
    TaskPayload::InputRequired { input_requests: [(key.to_owned(), asked)].into() }
}

/// A server whose task shows these states, one after the other.
async fn server(payloads: impl IntoIterator<Item = TaskPayload>) -> Server {
    let server = Server::start(Revision::Stateless).await;
    server.shared.task.lock().unwrap().extend(payloads);
    server
}

/// The next thing that happens to the task.
async fn event(server: &mut Server) -> String {
    loop {
        let event = server.event().await;
        if event != "subscribed" {
            return event;
        }
    }
}

/// The continuation of a call that has become a task.
async fn begun(server: &Server) -> Continuation {
    continuation(call(&McpServers::default(), server.endpoint(), "task", &context(), json!({})).await)
}

fn continuation(reply: Result<ToolReply, ToolFailure>) -> Continuation {
    match reply {
        Ok(ToolReply::Continue(continuation)) => continuation,
        other => panic!("{other:?}"),
    }
}

/// The next round, in which a person may have answered.
fn next(continuation: &Continuation, answer: Option<(&str, Value)>) -> CallContext {
    let responses = answer.into_iter().map(|(key, content)| {
        (key.to_owned(), InputResponse { action: InputAction::Accept, content: Some(content.into()) })
    });
    let resumption = Resumption {
        round: 2,
        state: continuation.state.clone(),
        responses: responses.collect(),
        repeatable: continuation.repeatable,
    };
    CallContext { resumption: Some(resumption), ..context() }
}

#[tokio::test]
async fn the_run_keeps_the_task_before_anything_waits_and_any_worker_goes_on_with_it() {
    let mut server = server([TaskPayload::Working, TaskPayload::Working, completed("done")]).await;
    let begun = begun(&server).await;
    let expected = Continuation { state: json!(["task", {"id": "task-1"}]).into(), inputs: vec![], repeatable: true };
    assert_eq!(begun, expected);
    let (progress, reports) = ProgressSink::new();
    let context = CallContext { progress, ..next(&begun, None) };
    let reply = call(&McpServers::default(), server.endpoint(), "task", &context, json!({})).await;
    assert_eq!(reply, done(json!("done")));
    let read = [event(&mut server).await, event(&mut server).await, event(&mut server).await];
    assert_eq!(read, ["read Working", "read Working", "read Completed"]);
    assert_eq!(reports.next().await, Progress::message("works on it"));
}

#[tokio::test]
async fn a_task_asks_a_person_once_for_each_key() {
    let mut server = server([TaskPayload::Working, asks("name")]).await;
    let servers = McpServers::default();
    let begun = begun(&server).await;
    let asked = continuation(call(&servers, server.endpoint(), "task", &next(&begun, None), json!({})).await);
    let keys: Vec<&str> = asked.inputs.iter().map(|input| input.key.as_str()).collect();
    assert_eq!((keys, asked.repeatable), (vec!["name"], true));
    assert_eq!(asked.state, json!(["task", {"id": "task-1", "asked": ["name"]}]));

    // The server still shows the question for a while.
    *server.shared.task.lock().unwrap() = [asks("name"), asks("name"), completed("thanks")].into();
    let answered = next(&asked, Some(("name", json!({"name": "Ada"}))));
    assert_eq!(call(&servers, server.endpoint(), "task", &answered, json!({})).await, done(json!("thanks")));
    let mut events = Vec::new();
    while events.last().is_none_or(|event| event != "read Completed") {
        events.push(event(&mut server).await);
    }
    let updated = r#"updated {"name":{"action":"accept","content":{"name":"Ada"}}}"#;
    assert_eq!(
        events,
        ["read Working", "read InputRequired", updated, "read InputRequired", "read InputRequired", "read Completed"]
    );
}

#[tokio::test]
async fn a_task_that_takes_longer_than_a_round_goes_on_in_the_next() {
    let server = server([TaskPayload::Working]).await;
    let begun = begun(&server).await;
    let deadline = Some(Instant::now() + Duration::from_millis(400));
    let context = CallContext { deadline, ..next(&begun, None) };
    let reply = call(&McpServers::default(), server.endpoint(), "task", &context, json!({})).await;
    assert_eq!(reply, Ok(ToolReply::Continue(begun)));
}

#[tokio::test]
async fn a_cancelled_call_cancels_its_task_unless_only_its_worker_ends() {
    for draining in [false, true] {
        let mut server = server([TaskPayload::Working]).await;
        let begun = begun(&server).await;
        let servers = McpServers::default();
        let context =
            CallContext { cancel: CancellationToken::new(), draining: CancellationToken::new(), ..next(&begun, None) };
        let endpoint = server.endpoint();
        let round = call(&servers, endpoint, "task", &context, json!({}));
        let cancel = async {
            assert_eq!(event(&mut server).await, "read Working");
            if draining {
                context.draining.cancel();
            }
            context.cancel.cancel();
        };
        let (reply, ()) = tokio::join!(round, cancel);
        assert_eq!(reply, Err(ToolFailure::new(ToolErrorKind::Cancelled, "the call was cancelled")));
        // Requests are answered in order of their arrival, so a cancellation would come before this reading ends.
        *server.shared.task.lock().unwrap() = [completed("late")].into();
        if draining {
            call(&servers, server.endpoint(), "task", &next(&begun, None), json!({})).await.unwrap();
        }
        let last = loop {
            let event = event(&mut server).await;
            if event != "read Working" {
                break event;
            }
        };
        assert_eq!(last, if draining { "read Completed" } else { "cancelled task-1" });
    }
}

#[tokio::test]
async fn a_task_without_a_result_is_a_failed_call() {
    let error = json!({"code": -32603, "message": "out of paper"}).as_object().unwrap().clone();
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    let sampling = [("s".to_owned(), serde_json::from_value(sampling).unwrap())].into();
    let odd = json!({"content": 7}).as_object().unwrap().clone();
    let invalid = ToolFailure::new(
        ToolErrorKind::ToolInputInvalid,
        "the MCP server refused the request (-32602): there is no such task",
    );
    let cases = [
        (vec![TaskPayload::Failed { error }], failed("the MCP server's task failed (-32603): out of paper")),
        (vec![TaskPayload::Cancelled], failed("the MCP server cancelled the task")),
        (
            vec![TaskPayload::Completed { result: odd }],
            failed("the result of the MCP server's task is no result of a tool"),
        ),
        (
            vec![TaskPayload::InputRequired { input_requests: sampling }],
            failed("the MCP server asks for sampling, which this client does not offer"),
        ),
        (vec![], invalid),
    ];
    for (payloads, expected) in cases {
        let server = server(payloads).await;
        let begun = begun(&server).await;
        let reply = call(&McpServers::default(), server.endpoint(), "task", &next(&begun, None), json!({})).await;
        assert_eq!(reply, Err(expected));
    }
}
