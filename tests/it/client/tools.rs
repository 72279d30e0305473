use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};
use tokio::sync::Barrier;
use windlass_client::{Error, EventBody, Tool, Tools};
use windlass_core::time::Millis;

use super::{ask, client, until};
use crate::{
    api::rig::Rig,
    support::world::{scripts, within},
};

fn calling() -> Value {
    let look = |key: &str| json!({"name": "look", "args": {"key": key}});
    scripts([
        ("pair", json!({"turns": [{"tool_calls": [look("a"), look("b")]}, {"text": "{{all_tool_results}}"}]})),
        ("one", json!({"turns": [{"tool_calls": [look("a")]}, {"text": "{{all_tool_results}}"}]})),
    ])
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_calls_are_executed_concurrently() {
    let rig = Rig::new(calling()).await;
    // Each waits for the other: one after the other they would never end.
    let both = Arc::new(Barrier::new(2));
    let look = move |args: Value| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            Ok::<_, String>(json!({"saw": args["key"]}))
        }
    };
    let tools = Tools::new().with(Tool::new("look", schema(), "Looks.", look).read_only());
    let outcome = within("the answer", client(&rig).run(&ask("pair"), &tools)).await.unwrap();
    assert_eq!(outcome.text, "{\"saw\":\"a\"}|{\"saw\":\"b\"}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handlers_error_reaches_the_model() {
    let rig = Rig::new(calling()).await;
    let tools = Tools::new().add("look", schema(), "Looks.", async |_: Value| Err::<(), _>("it is dark"));
    let outcome = client(&rig).run(&ask("one"), &tools).await.unwrap();
    assert!(outcome.text.contains("Local tool 'look' failed: it is dark"), "{}", outcome.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_executed_once_by_any_number_of_followers() {
    let rig = Rig::new(calling()).await;
    let client = client(&rig);
    let calls = Arc::new(AtomicU32::new(0));
    let (proceed, counted) = (Arc::new(Barrier::new(2)), Arc::clone(&calls));
    let gate = Arc::clone(&proceed);
    let look = move |_: Value| {
        counted.fetch_add(1, Ordering::SeqCst);
        let gate = Arc::clone(&gate);
        async move {
            gate.wait().await;
            Ok::<_, String>("seen")
        }
    };
    let tools = Tools::new().add("look", schema(), "Looks.", look);
    let run = client.start(&ask("one"), &tools).await.unwrap();
    let follow = |client: windlass_client::Client, tools: Tools| {
        let run = run.clone();
        tokio::spawn(async move { client.attach(&run, &tools, |_| {}).await })
    };
    let first = follow(client.clone(), tools.clone());
    until(&client, &run, |body| matches!(body, EventBody::LocalToolCall { .. }).then_some(())).await;
    // It receives a call that is already in progress.
    let second = follow(client.clone(), tools.clone());
    within("the handler", proceed.wait()).await;
    for follower in [first, second] {
        assert_eq!(within("the answer", follower).await.unwrap().unwrap().text, "seen");
    }
    // A client that attaches after the end makes no call.
    let late = client.attach(&run, &tools, |_| {}).await.unwrap();
    assert_eq!((late.text.as_str(), calls.load(Ordering::SeqCst)), ("seen", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_the_server_rejects_is_an_error_at_once() {
    let rig = Rig::new(calling()).await;
    let client = client(&rig);
    let tools = Tools::new().add("look", schema(), "Looks.", async |_: Value| Ok::<_, String>("x".repeat(3_000_000)));
    let ended = within("the error", client.run(&ask("one"), &tools)).await;
    let Err(Error::ToolResult { run, call, reason }) = ended else { panic!("{ended:?}") };
    let Error::Refused(refusal) = *reason else { panic!("{reason:?}") };
    assert_eq!(
        (call.as_str(), refusal.status, refusal.field.as_deref(), refusal.message.as_str()),
        ("call-0-0", 400, Some("result"), "result: is 3000000 bytes; send at most 2097152")
    );
    // The run waits on, and takes another result.
    client.tool_result(&run, &call, Ok("short")).await.unwrap();
    assert_eq!(within("the answer", client.attach(&run, &tools, |_| {})).await.unwrap().text, "short");
}

#[tokio::test(flavor = "multi_thread")]
async fn attaching_executes_the_calls_that_have_no_result_yet() {
    let rig = Rig::new(calling()).await;
    let client = client(&rig);
    let look = async |args: Value| Ok::<_, String>(format!("{} seen", args["key"].as_str().unwrap_or_default()));
    let tools = || Tools::new().with(Tool::new("look", schema(), "Looks.", look).read_only());
    let run = client.start(&ask("pair"), &tools()).await.unwrap();
    let first = until(&client, &run, |body| match body {
        EventBody::LocalToolCall { tool_use_id, .. } => Some(tool_use_id.clone()),
        _ => None,
    })
    .await;
    client.tool_result(&run, &first, Ok("a seen elsewhere")).await.unwrap();
    // From here on nothing happens in the run until the second call has its result.
    until(&client, &run, |body| matches!(body, EventBody::LocalToolResultIn { .. }).then_some(())).await;
    let outcome = within("the answer", client.attach(&run, &tools(), |_| {})).await.unwrap();
    assert_eq!(outcome.text, "a seen elsewhere|b seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_while_a_local_tool_is_still_executing() {
    let hasty = |options: &mut windlass_api::Options| options.limits.local_tool_timeout = Millis(200);
    let rig = Rig::with(calling(), hasty).await;
    let tools = Tools::new()
        .add("look", schema(), "Looks.", async |_: Value| std::future::pending::<Result<&str, String>>().await);
    let Err(Error::Run(error)) = within("the end", client(&rig).run(&ask("one"), &tools)).await else {
        panic!("the run did not fail")
    };
    assert_eq!(error.error_class.as_deref(), Some("local_timeout"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_for_an_answered_or_ended_call_is_no_error_while_following() {
    let rig = Rig::new(calling()).await;
    let client = client(&rig);
    let tools = Tools::new().add("look", schema(), "Looks.", async |_: Value| Ok::<_, String>("seen"));
    let run = client.start(&ask("one"), &tools).await.unwrap();
    let call = until(&client, &run, |body| match body {
        EventBody::LocalToolCall { tool_use_id, .. } => Some(tool_use_id.clone()),
        _ => None,
    })
    .await;
    let unknown = client.tool_result(&run, &"call-9-9".into(), Ok("x")).await.unwrap_err();
    assert_eq!(unknown.status(), Some(404));
    client.tool_result(&run, &call, Ok("seen elsewhere")).await.unwrap();
    let outcome = within("the answer", client.attach(&run, &tools, |_| {})).await.unwrap();
    assert_eq!(outcome.text, "seen elsewhere");
    assert_eq!(client.tool_result(&run, &call, Ok("x")).await.unwrap_err().status(), Some(409));
}
