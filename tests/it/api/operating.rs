use std::time::Duration;

use serde_json::{Value, json};

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
async fn an_answer_that_no_worker_judges_is_refused_in_time_and_may_be_sent_again() {
    let rig = Rig::with(waiting(), |options| options.limits.judged_within = Duration::from_millis(300)).await;
    let run = rig.run(ask("ask", "x")).await;
    let mut stream = rig.stream(&run, None).await;
    let opened = stream.until("await_opened").await;
    rig.world.stop_worker().await;
    let answers = format!("/agent-runs/{run}/answers");
    let answer = json!({"awaitId": opened["item"]["id"], "answer": "Bergen"});
    let refused = rig.post(&answers, answer.clone()).await;
    assert_eq!((refused.refusal(), refused.header("retry-after")), ((503, "unavailable"), Some("1")), "{refused:?}");

    rig.world.start_worker();
    // Whether the first one was judged after all, once there was somebody to do so, is chance.
    within("a judgement", async {
        while rig.post(&answers, answer.clone()).await.refusal() == (503, "unavailable") {}
    })
    .await;
    assert_eq!(stream.until("result").await["text"], "Bergen");
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
async fn a_model_at_work_is_cancelled() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask("slow", "x")).await;
    let mut stream = rig.stream(&run, None).await;
    stream.until("assistant_delta").await;
    rig.post(&format!("/agent-runs/{run}/cancel"), json!({})).await;
    assert_eq!(stream.rest().await.pop().unwrap()["type"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_told_something_and_goes_on() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask_with_tool("wait", json!({"kind": "local", "name": "probe"}))).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    rig.post(&format!("/agent-runs/{run}/pause"), json!({"reason": "lunch"})).await;
    assert_eq!(stream.until("paused").await["reason"], "lunch");
    rig.post(&format!("/agent-runs/{run}/tool-results"), json!({"toolUseId": call["toolUseId"], "result": "x"})).await;
    assert_eq!(
        rig.post(&format!("/agent-runs/{run}/steer"), json!({"text": ""})).await.refusal(),
        (400, "invalid_request")
    );
    rig.post(&format!("/agent-runs/{run}/steer"), json!({"text": "Be brief."})).await;
    stream.until("steered").await;
    rig.post(&format!("/agent-runs/{run}/resume"), json!({})).await;
    assert_eq!(stream.until("result").await["text"], "Be brief.");
}
