use serde_json::{Value, json};
use windlass_client::{Client, Error, EventBody, RunSpec, Tools};
use windlass_core::{agent::AgentDefinition, awaits::AwaitView, envelope::AnswerStatus, ids::RunId};

use super::{ask, client, event, options, until};
use crate::{
    api::rig::Rig,
    support::world::{scripts, within},
};

fn waiting() -> Value {
    let question = json!({"kind": "clarification", "question": "Which city?"});
    scripts([
        ("ask", json!({"turns": [{"await": question}, {"text": "{{last_user}}"}]})),
        (
            "keep",
            json!({"turns": [{"tool_calls": [{"name": "echo", "args": {"x": 1}}]}, {"text": "{{last_tool_result}}"}]}),
        ),
        ("steered", json!({"turns": [{"await": question}, {"text": "{{last_user}}"}]})),
    ])
}

/// Somebody with a name.
fn ann(rig: &Rig) -> Client {
    Client::new(options(rig.address, rig.key.reveal()).actor("ann")).unwrap()
}

async fn asked(client: &Client, run: &RunId) -> AwaitView {
    until(client, run, |body| match body {
        EventBody::AwaitOpened { item } => Some(item.clone()),
        _ => None,
    })
    .await
}

async fn closed_by(client: &Client, run: &RunId) -> String {
    let closed = |body: &EventBody| match body {
        EventBody::AwaitClosed { actor, .. } => actor.clone(),
        _ => None,
    };
    until(client, run, closed).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_name() {
    let rig = Rig::new(waiting()).await;
    let client = ann(&rig);
    let run = client.start(&ask("ask"), &Tools::new()).await.unwrap();
    let item = asked(&client, &run).await;
    assert_eq!(client.awaits(&run).await.unwrap(), std::slice::from_ref(&item));
    assert_eq!(client.answer(&run, &"await-9".into(), "x").await.unwrap_err().status(), Some(404));
    assert_eq!(client.answer(&run, &item.id, "Bergen").await.unwrap(), AnswerStatus::Accepted);
    let outcome = within("the answer", client.attach(&run, &Tools::new(), |_| {})).await.unwrap();
    assert_eq!(outcome.text, "Bergen");
    assert_eq!(closed_by(&client, &run).await, format!("ann ({})", rig.key.id()));
    assert_eq!(client.answer(&run, &item.id, "Oslo").await.unwrap_err().status(), Some(409));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_bound_to_what_was_shown() {
    let rig = Rig::new(waiting()).await;
    let client = ann(&rig);
    let keeper: AgentDefinition = serde_json::from_value(json!({
        "id": "keeper", "model": "script:keep", "tools": [{"name": "echo", "confirmation": {"title": "Keep it?"}}],
    }))
    .unwrap();
    let mut spec = RunSpec::new("go");
    spec.definition = Some(Box::new(keeper));
    let run = client.start(&spec, &Tools::new()).await.unwrap();
    let item = asked(&client, &run).await;
    assert_eq!((item.calls[0].args.clone(), item.title.as_deref()), (Some(json!({"x": 1})), Some("Keep it?")));
    let other = windlass_core::canonical::Digest::of_json(&json!({"x": 2}));
    assert_eq!(client.confirm(&run, &item.id, Some(other)).await.unwrap_err().status(), Some(400));
    let approved = client.confirm(&run, &item.id, Some(item.calls[0].digest)).await.unwrap();
    assert_eq!(approved, AnswerStatus::Accepted);
    within("the end", client.attach(&run, &Tools::new(), |_| {})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_held_told_something_and_stopped() {
    let rig = Rig::new(waiting()).await;
    let client = client(&rig);
    let run = client.start(&ask("steered"), &Tools::new()).await.unwrap();
    asked(&client, &run).await;
    client.pause(&run, "lunch").await.unwrap();
    client.steer(&run, "Be brief.").await.unwrap();
    client.resume(&run, "").await.unwrap();
    client.cancel(&run).await.unwrap();
    let (mut kinds, none) = (Vec::new(), Tools::new());
    let ended = client.attach(&run, &none, |update| kinds.extend(event(update.clone()).map(|event| event.kind)));
    let Err(Error::Run(error)) = within("the end", ended).await else { panic!("it was cancelled") };
    assert!(error.cancelled);
    kinds.retain(|kind| ["paused", "steered", "resumed", "cancelled"].contains(&kind.as_str()));
    assert_eq!(kinds, ["paused", "steered", "resumed", "cancelled"]);
    assert_eq!(client.pause(&run, "").await.unwrap_err().status(), Some(409));
}
