use serde_json::{Value, json};
use windlass_client::{Client, Error, EventBody, RunFilter, RunSpec, Tools};
use windlass_core::{
    agent::AgentDefinition,
    awaits::AwaitView,
    canonical::Digest,
    envelope::{Actor, AnswerBody, AnswerReply, AnswerStatus},
    ids::RunId,
    limits::RESULT_BYTES,
    run::RunStatus,
};

use super::{ask, client, event, options, until};
use crate::{
    api::rig::Rig,
    support::{
        agents::agent,
        world::{scripts, within},
    },
};

fn waiting() -> Value {
    let question = json!({"kind": "clarification", "question": "Which city?"});
    scripts([
        ("ask", json!({"turns": [{"await": question}, {"text": "{{last_user}}"}]})),
        (
            "keep",
            json!({"turns": [{"tool_calls": [{"name": "echo", "args": {"x": 1}}]}, {"text": "{{last_tool_result}}"}]}),
        ),
        ("outside", json!({"turns": [{"tool_calls": [{"name": "browser", "args": {}}]}, {"text": "{{last_user}}"}]})),
        ("steered", json!({"turns": [{"await": question}, {"text": "{{last_user}}"}]})),
    ])
}

/// A client with an actor name.
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

async fn closed_by(client: &Client, run: &RunId) -> Actor {
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
    let named = Actor { name: Some("tests".into()), claimed: Some("ann".into()), ..rig.key.id().into() };
    assert_eq!(closed_by(&client, &run).await, named);
    assert_eq!(client.answer(&run, &item.id, "Oslo").await.unwrap_err().status(), Some(409));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_needs_the_digest_of_the_shown_arguments() {
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
    assert_eq!((item.calls[0].args.clone(), item.title.as_deref()), (Some(json!({"x": 1}).into()), Some("Keep it?")));
    let other = Digest::of_json(&json!({"x": 2}));
    assert_eq!(client.confirm(&run, &item.id, Some(other)).await.unwrap_err().status(), Some(400));
    let approved = client.confirm(&run, &item.id, Some(item.calls[0].digest)).await.unwrap();
    assert_eq!(approved, AnswerStatus::Accepted);
    within("the end", client.attach(&run, &Tools::new(), |_| {})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_steered_and_cancelled() {
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

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_what_the_store_keeps_and_what_the_workflow_says() {
    let rig = Rig::new(waiting()).await;
    let client = client(&rig);
    let run = client.start(&ask("ask"), &Tools::new()).await.unwrap();
    let item = asked(&client, &run).await;
    let kept = rig.store().run(&run).await.unwrap().unwrap();
    let log = rig.store().events(&run, 0, 100).await.unwrap();
    let in_state = async |state: &str| {
        let filter = RunFilter { state: Some(state.to_owned()), ..RunFilter::default() };
        client.rows(&filter).await.unwrap().rows
    };
    assert_eq!(client.row(&run).await.unwrap(), kept);
    assert_eq!(in_state("waiting").await, std::slice::from_ref(&kept));
    assert_eq!(in_state("running").await, [], "it is exactly that");
    assert_eq!(client.log_so_far(&run, 0).await.unwrap(), log);
    assert_eq!(client.log_so_far(&run, 2).await.unwrap(), log[2..]);
    let look = client.look(&run).await.unwrap();
    assert_eq!((look.row, look.live.map(|live| live.status)), (kept.clone(), Some(RunStatus::Waiting)));

    // Without a worker there is what the store knows.
    rig.world.stop_worker().await;
    let look = client.look(&run).await.unwrap();
    assert_eq!((look.row, look.live), (kept, None));
    assert_eq!(client.awaits(&run).await.unwrap(), [item]);
    let unknown = RunId::new("run-none");
    assert_eq!(client.row(&unknown).await.unwrap_err().status(), Some(404));
    assert_eq!(client.log_so_far(&unknown, 0).await.unwrap_err().status(), Some(404));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_replies_in_its_own_words_to_every_answer() {
    let rig = Rig::new(waiting()).await;
    let client = client(&rig);
    let run = client.start(&ask("ask"), &Tools::new()).await.unwrap();
    let item = asked(&client, &run).await;
    let answer = |text: &str| AnswerBody::Clarification { answer: text.to_owned() };
    let denial = AnswerBody::denial(None);
    let submit = async |id: &str, body: &AnswerBody| client.submit(&run, &id.into(), body).await.unwrap();
    let reply = |status, message: &str| AnswerReply::new(status, message);
    let id = item.id.as_str();
    assert_eq!(
        submit("await-9", &answer("x")).await,
        reply(AnswerStatus::Unknown, "this run has no await await-9; list its pending awaits")
    );
    assert_eq!(submit(id, &denial).await, reply(AnswerStatus::Invalid, "await-1 waits for a text"));
    assert_eq!(submit(id, &answer("Bergen")).await, reply(AnswerStatus::Accepted, "accepted"));
    within("the end", client.attach(&run, &Tools::new(), |_| {})).await.unwrap();
    assert_eq!(submit(id, &answer("Oslo")).await, reply(AnswerStatus::Stale, "the run has ended"));
    let unknown = client.submit(&"run-none".into(), &item.id, &answer("x")).await;
    assert_eq!(unknown.unwrap_err().status(), Some(404), "no run replied");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_says_why_and_the_conversation_shows_it() {
    let rig = Rig::new(waiting()).await;
    let client = ann(&rig);
    let keeper = agent("keep", json!([{"name": "echo", "confirmation": {"title": "Keep it?"}}]));
    let mut spec = RunSpec::new("go");
    spec.definition = Some(Box::new(keeper));
    let run = client.start(&spec, &Tools::new()).await.unwrap();
    let item = asked(&client, &run).await;
    let denial = |reason: &str| AnswerBody::denial(Some(reason.into()));
    let refused = client.submit(&run, &item.id, &denial(&"x".repeat(3_000))).await.unwrap();
    assert_eq!(refused.status, AnswerStatus::Invalid, "{refused:?}");
    assert_eq!(client.submit(&run, &item.id, &denial("not today")).await.unwrap().status, AnswerStatus::Accepted);
    let outcome = within("the end", client.attach(&run, &Tools::new(), |_| {})).await.unwrap();
    assert!(outcome.text.contains(" denied it: not today"), "the model read it: {}", outcome.text);
    let why = |body: &EventBody| match body {
        EventBody::AwaitClosed { answer, .. } => answer.clone(),
        _ => None,
    };
    assert_eq!(until(&client, &run, why).await, "not today");
    let transcript = client.transcript(&run).await.unwrap();
    assert_eq!((transcript.opening, transcript.earlier), (1, 0));
    assert_eq!(transcript.messages, rig.world.transcript(&run).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_one_largest_size_on_every_way() {
    let rig = Rig::new(waiting()).await;
    let client = client(&rig);
    let mut spec = RunSpec::new("go");
    spec.definition = Some(Box::new(agent("outside", json!([{"name": "browser", "kind": "external"}]))));
    let run = client.start(&spec, &Tools::new()).await.unwrap();
    let item = asked(&client, &run).await;
    let result = json!({"toolCallId": item.calls[0].tool_call_id, "result": "x".repeat(RESULT_BYTES + 1)});
    let results = vec![serde_json::from_value(result).unwrap()];
    let Err(Error::Refused(refusal)) = client.answer_calls(&run, &item.id, &results).await else { panic!("too large") };
    assert_eq!((refusal.status, refusal.field.as_deref()), (400, Some("results[0].result")));
    assert!(refusal.message.ends_with("; send at most 2097152"), "{}", refusal.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_above_the_inline_limit_arrive() {
    let rig = Rig::new(waiting()).await;
    let client = client(&rig);
    let mut spec = RunSpec::new("go");
    spec.definition = Some(Box::new(agent("outside", json!([{"name": "browser", "kind": "external"}]))));
    let run = client.start(&spec, &Tools::new()).await.unwrap();
    let item = asked(&client, &run).await;
    let page = json!({"page": "x".repeat(300_000)});
    let result = json!({"toolCallId": item.calls[0].tool_call_id, "result": page});
    let results = vec![serde_json::from_value(result).unwrap()];
    assert_eq!(client.answer_calls(&run, &item.id, &results).await.unwrap(), AnswerStatus::Accepted);
    within("the end", client.attach(&run, &Tools::new(), |_| {})).await.unwrap();
    assert_eq!(rig.store().blob(&Digest::of_json(&page)).await.unwrap(), Some(page.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_resumed_with_a_message_and_cancelled_with_a_reason() {
    let rig = Rig::new(waiting()).await;
    let client = ann(&rig);
    let run = client.start(&ask("ask"), &Tools::new()).await.unwrap();
    let item = asked(&client, &run).await;
    client.pause(&run, "").await.unwrap();
    client.resume_with(&run, "back", "Say it in Norwegian.").await.unwrap();
    client.answer(&run, &item.id, "Bergen").await.unwrap();
    within("the answer", client.attach(&run, &Tools::new(), |_| {})).await.unwrap();
    let said = rig.world.transcript(&run).await;
    assert!(said.iter().any(|message| message.plain_text() == "Say it in Norwegian."), "{said:?}");

    let run = client.start(&ask("ask"), &Tools::new()).await.unwrap();
    asked(&client, &run).await;
    client.cancel_because(&run, "changed my mind").await.unwrap();
    let Err(Error::Run(error)) = within("the end", client.attach(&run, &Tools::new(), |_| {})).await else {
        panic!("it was cancelled")
    };
    assert_eq!(error.message, "changed my mind");
}
