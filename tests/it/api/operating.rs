use std::time::Duration;

use serde_json::{Value, json};
use temporalio_client::NamespacedClient as _;
use temporalio_protos::temporal::api::{
    enums::v1::WorkflowTaskFailedCause,
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{PollWorkflowTaskQueueRequest, RespondWorkflowTaskFailedRequest},
};
use tonic::IntoRequest as _;

use super::rig::{Rig, ask, ask_with_tool};
use crate::support::world::{scripts, within};

fn waiting() -> Value {
    scripts([
        (
            "ask",
            json!({"turns": [{"await": {"kind": "clarification", "question": "Which city?"}}, {"text": "{{last_user}}"}]}),
        ),
        ("slow", json!({"turns": [{"deltas": ["a", "b"], "delta_delay_ms": 60_000}]})),
        ("wait", json!({"turns": [{"tool_calls": [{"name": "probe", "args": {}}]}, {"text": "{{last_user}}"}]})),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask("ask", "x")).await;
    let mut stream = rig.stream(&run, None).await;
    let opened = stream.until("await_opened").await;
    let awaits = rig.get(&format!("/agent-runs/{run}/awaits")).await.body;
    assert_eq!(
        (&awaits["awaits"][0]["id"], &awaits["awaits"][0]["prompt"]),
        (&opened["item"]["id"], &json!("Which city?"))
    );
    let answers = format!("/agent-runs/{run}/answers");
    assert_eq!(rig.post(&answers, json!({"awaitId": "await-99", "answer": "x"})).await.refusal(), (404, "not_found"));
    assert_eq!(rig.post(&answers, json!({"answer": "x"})).await.refusal(), (400, "invalid_request"));
    let reply = rig.post(&answers, json!({"awaitId": opened["item"]["id"], "answer": "Bergen"})).await;
    assert_eq!((reply.status, &reply.body["status"]), (200, &json!("accepted")));
    assert_eq!(stream.until("result").await["text"], "Bergen");
    assert_eq!(
        rig.post(&answers, json!({"awaitId": opened["item"]["id"], "answer": "Oslo"})).await.refusal(),
        (409, "run_terminal")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_worker_gets_503_in_time_and_may_be_repeated() {
    let rig = Rig::with(waiting(), |options| options.limits.worker_reply_timeout = Duration::from_millis(300)).await;
    let run = rig.run(ask("ask", "x")).await;
    let mut stream = rig.stream(&run, None).await;
    let opened = stream.until("await_opened").await;
    rig.world.stop_worker().await;
    let answers = format!("/agent-runs/{run}/answers");
    let answer = json!({"awaitId": opened["item"]["id"], "answer": "Bergen"});
    let refused = rig.post(&answers, answer.clone()).await;
    assert_eq!((refused.refusal(), refused.header("retry-after")), ((503, "unavailable"), Some("1")), "{refused:?}");

    rig.world.start_worker();
    // The worker may or may not have handled the first request in the meantime.
    within("a judgement", async {
        while rig.post(&answers, answer.clone()).await.refusal() == (503, "unavailable") {}
    })
    .await;
    assert_eq!(stream.until("result").await["text"], "Bergen");
}

/// Takes workflow tasks and fails them, until the server gives up updates of the run.
async fn fail_workflow_tasks(rig: &Rig) {
    const GIVEN_UP_AFTER: i32 = 3;
    let client = rig.world.ops.client();
    let mut service = client.connection().workflow_service();
    let mut attempt = 0;
    while attempt < GIVEN_UP_AFTER {
        let poll = PollWorkflowTaskQueueRequest {
            namespace: client.namespace(),
            task_queue: Some(TaskQueue { name: rig.world.ops.task_queue().to_owned(), ..TaskQueue::default() }),
            ..PollWorkflowTaskQueueRequest::default()
        };
        let task = service.poll_workflow_task_queue(poll.into_request()).await.unwrap().into_inner();
        attempt = task.attempt;
        let failed = RespondWorkflowTaskFailedRequest {
            namespace: client.namespace(),
            task_token: task.task_token,
            cause: WorkflowTaskFailedCause::NonDeterministicError as i32,
            ..RespondWorkflowTaskFailedRequest::default()
        };
        service.respond_workflow_task_failed(failed.into_request()).await.unwrap();
    }
}

/// As under a worker of the wrong version, or one that is killed again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_a_run_with_failing_workflow_tasks_may_be_repeated() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask_with_tool("wait", json!({"kind": "local", "name": "probe"}))).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    rig.world.stop_worker().await;
    let path = |verb: &str| format!("/agent-runs/{run}/{verb}");
    assert_eq!(rig.post(&path("pause"), json!({})).await.status, 200);
    within("failed tasks", fail_workflow_tasks(&rig)).await;

    let result = json!({"toolUseId": call["toolUseId"], "result": "x"});
    let refused = rig.post(&path("tool-results"), result.clone()).await;
    assert_eq!((refused.refusal(), refused.header("retry-after")), ((503, "unavailable"), Some("1")), "{refused:?}");
    let refused = rig.post(&path("answers"), json!({"awaitId": "await-1", "answer": "x"})).await;
    assert_eq!(refused.refusal(), (503, "unavailable"), "{refused:?}");
    // Without a worker the awaits come from the log.
    let awaits = rig.get(&path("awaits")).await.body;
    let open: Vec<_> =
        awaits["awaits"].as_array().unwrap().iter().map(|item| &item["calls"][0]["toolCallId"]).collect();
    assert_eq!(open, [&call["toolUseId"]], "{awaits}");

    rig.world.start_worker();
    assert_eq!(rig.post(&path("resume"), json!({})).await.status, 200);
    within("a judgement", async {
        while rig.post(&path("tool-results"), result.clone()).await.refusal() == (503, "unavailable") {}
    })
    .await;
    assert_eq!(stream.until("result").await["text"], "go");
}

/// No worker has seen the first cancellation yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_may_be_cancelled_twice() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask_with_tool("wait", json!({"kind": "local", "name": "probe"}))).await;
    let mut stream = rig.stream(&run, None).await;
    stream.until("local_tool_call").await;
    rig.world.stop_worker().await;
    let cancel = format!("/agent-runs/{run}/cancel");
    for _ in 0..2 {
        let answer = rig.post(&cancel, json!({})).await;
        assert_eq!((answer.status, &answer.body["ok"]), (200, &json!(true)), "{answer:?}");
    }
    rig.world.start_worker();
    assert_eq!(stream.rest().await.pop().unwrap()["type"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_takes_no_more_results() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask_with_tool("wait", json!({"kind": "local", "name": "probe"}))).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    let cancel = format!("/agent-runs/{run}/cancel");
    assert_eq!(rig.post(&cancel, json!({})).await.body, json!({"ok": true, "status": "cancelled"}));
    assert_eq!(stream.rest().await.pop().unwrap()["type"], "cancelled");
    assert_eq!(rig.post(&cancel, json!({})).await.body, json!({"ok": true, "status": "cancelled"}));
    let late = rig
        .post(&format!("/agent-runs/{run}/tool-results"), json!({"toolUseId": call["toolUseId"], "result": "late"}))
        .await;
    assert_eq!(late.refusal(), (409, "run_terminal"));
    assert_eq!(rig.get(&format!("/agent-runs/{run}")).await.body["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_model_call_is_cancelled() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask("slow", "x")).await;
    let mut stream = rig.stream(&run, None).await;
    stream.until("assistant_delta").await;
    let cancelled = rig.post(&format!("/agent-runs/{run}/cancel"), json!({})).await;
    assert_eq!((cancelled.status, cancelled.body), (200, json!({"ok": true, "status": "cancelled"})));
    let rest = stream.rest().await;
    let deltas = rest.iter().filter(|frame| frame["type"] == "assistant_delta").count();
    assert_eq!((deltas, &rest.last().unwrap()["type"]), (0, &json!("cancelled")), "no delta follows the cancellation");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_steered_and_resumed() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask_with_tool("wait", json!({"kind": "local", "name": "probe"}))).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    let ok = |answer: crate::api::http::Answer| assert_eq!((answer.status, answer.body), (200, json!({"ok": true})));
    ok(rig.post(&format!("/agent-runs/{run}/pause"), json!({"reason": "lunch"})).await);
    assert_eq!(stream.until("paused").await["reason"], "lunch");
    let result = json!({"toolUseId": call["toolUseId"], "result": "x"});
    ok(rig.post(&format!("/agent-runs/{run}/tool-results"), result).await);
    assert_eq!(
        rig.post(&format!("/agent-runs/{run}/steer"), json!({"text": ""})).await.refusal(),
        (400, "invalid_request")
    );
    ok(rig.post(&format!("/agent-runs/{run}/steer"), json!({"text": "Be brief."})).await);
    assert_eq!(stream.until("steered").await["text"], "Be brief.");
    ok(rig.post(&format!("/agent-runs/{run}/resume"), json!({})).await);
    assert_eq!(stream.until("result").await["text"], "Be brief.");
}
