//! The shapes a run's history can have.

use std::{future::Future, pin::Pin};

use serde_json::{Value, json};
use temporalio_client::UntypedWorkflow;
use temporalio_protos::temporal::api::enums::v1::PendingActivityState;
use windlass_core::{
    envelope::{AnswerBody, PauseRequest, PolicyOverrides, PushCursor, PushInput, ResumeRequest, Tuning},
    event::EventBody,
    ids::RunId,
    time::Millis,
};
use windlass_store::{NewPushConfig, PushTarget};

use crate::support::{
    World,
    a2a_peer::{Language, Peer},
    agent, agent_with, calls, own_tool,
    receiver::{Receiver, reach_receivers},
    says, script,
    sdk_workers::{node_programs, node_worker, python_worker, queue},
    server,
    world::{scripts, within},
};

pub(crate) type Shape = for<'a> fn(&'a World) -> Pin<Box<dyn Future<Output = RunId> + 'a>>;

pub(crate) const SHAPES: [(&str, Shape); 23] = [
    ("answer", |world| Box::pin(answer(world))),
    ("tools", |world| Box::pin(tools(world))),
    ("awaits", |world| Box::pin(awaits(world))),
    ("expiry", |world| Box::pin(expiry(world))),
    ("children", |world| Box::pin(children(world))),
    ("continued", |world| Box::pin(continued(world))),
    ("finalized", |world| Box::pin(finalized(world))),
    ("paused", |world| Box::pin(paused(world))),
    ("cancelled", |world| Box::pin(cancelled(world))),
    ("lost_call", |world| Box::pin(lost_call(world))),
    ("client_tools", |world| Box::pin(client_tools(world))),
    ("local_timeout", |world| Box::pin(local_timeout(world))),
    ("truncated", |world| Box::pin(truncated(world))),
    ("tool_turns", |world| Box::pin(tool_turns(world))),
    ("stop_outcomes", |world| Box::pin(stop_outcomes(world))),
    ("repaired", |world| Box::pin(repaired(world))),
    ("fallback", |world| Box::pin(fallback(world))),
    ("temporal_tools", |world| Box::pin(temporal_tools(world))),
    ("heartbeats", |world| Box::pin(heartbeats(world))),
    ("rounds", |world| Box::pin(rounds(world))),
    ("pushed", |world| Box::pin(pushed(world))),
    ("push_given_up", |world| Box::pin(push_given_up(world))),
    ("push_deleted", |world| Box::pin(push_deleted(world))),
];

/// Each shape runs the script of its own name.
pub(crate) fn scripts_of(name: &str) -> Value {
    let ask = || json!({"await": {"kind": "clarification", "question": "city?", "expires_in_ms": 60_000}});
    let turns = match name {
        "answer" => script(&[says("hello")]),
        "tools" => script(&[
            calls(&[
                ("echo", json!({"n": 1})),
                ("fail", json!({})),
                ("echo", json!({"bytes": 5000})),
                ("nope", json!({})),
            ]),
            says("done"),
        ]),
        "awaits" => script(&[calls(&[("echo", json!({"n": 1})), ("browser", json!({}))]), ask(), says("done")]),
        "expiry" => script(&[
            json!({"await": {"kind": "clarification", "question": "city?", "expires_in_ms": 200, "on_expiry": "default", "default_answer": "Oslo"}}),
            says("{{last_user}}"),
        ]),
        "children" => script(&[calls(&[("ask", json!({"question": "why?"}))]), says("done")]),
        "continued" => {
            let mut turns: Vec<Value> = (0..8).map(|n| calls(&[("echo", json!({"n": n}))])).collect();
            turns.push(says("done"));
            script(&turns)
        }
        "finalized" => {
            json!({"turns": [calls(&[("echo", json!({"n": 1}))])], "repeat_last": true, "finalize": "enough"})
        }
        "paused" => script(&[ask(), calls(&[("echo", json!({"n": 1}))]), says("done")]),
        "client_tools" => script(&[
            calls(&[
                ("add", json!({"n": 1})),
                ("echo", json!({"n": 0})),
                ("look", json!({"n": 2})),
                ("look", json!({"n": 3})),
                ("add", json!({"n": 4})),
            ]),
            says("done"),
        ]),
        "local_timeout" => script(&[calls(&[("add", json!({"n": 1})), ("add", json!({"n": 2}))]), says("never")]),
        "stop_outcomes" => {
            let mut cut = calls(&[("echo", json!({"n": 1}))]);
            cut["stop"] = json!("max_tokens");
            script(&[json!({"text": "One moment. ", "stop": "pause_turn"}), cut, says("done")])
        }
        "truncated" => script(&[json!({"text": "half an ans", "stop": "max_tokens"})]),
        "tool_turns" => {
            let turns: Vec<Value> = (0..5).map(|n| calls(&[("echo", json!({"n": n}))])).collect();
            json!({"turns": turns, "finalize": "enough"})
        }
        "repaired" => script(&[says("not JSON"), says("{\"n\": 1}")]),
        "fallback" => {
            let busy = json!({"error": "busy", "errorClass": "overloaded"});
            script(&[json!({"error": busy}), says("never")])
        }
        // One at a time: debug builds of the SDK panic if a run is evicted while a local activity and other commands of
        // one task are under way.
        "temporal_tools" => script(&[
            calls(&[("digest", json!({"text": "x".repeat(5000)}))]),
            calls(&[("large", json!({"letter": "x", "bytes": 5000}))]),
            calls(&[("refuse", json!({"city": "Atlantis"}))]),
            calls(&[("journey", json!({"days": 1}))]),
            says("done"),
        ]),
        "heartbeats" => script(&[calls(&[("climb", json!({"steps": 1, "until": enough()}))]), says("done")]),
        "rounds" => script(&[calls(&[("peer", json!({"message": "ask"}))]), says("done")]),
        "pushed" | "push_given_up" | "push_deleted" => script(&[ask(), says("done")]),
        "cancelled" | "lost_call" => script(&[calls(&[("gate", json!({}))]), says("done")]),
        other => panic!("no script for {other}"),
    };
    // The turn that failed has a number, too.
    let other = script(&[says("never"), calls(&[("echo", json!({"n": 1}))]), says("from another")]);
    scripts([(name, turns), ("helper", script(&[says("because")])), ("other", other)])
}

async fn finished(world: &World, run: RunId) -> RunId {
    world.result(&run).await.unwrap();
    run
}

async fn answer(world: &World) -> RunId {
    let run = world.start(agent("answer", json!([])), "go").await;
    finished(world, run).await
}

async fn tools(world: &World) -> RunId {
    let run = world.start(agent("tools", json!([{"name": "echo"}, {"name": "fail"}])), "go").await;
    finished(world, run).await
}

async fn awaits(world: &World) -> RunId {
    let tools = json!([{"name": "echo", "confirmation": {}}, {"name": "browser", "kind": "external"}]);
    let run = world.start(agent("awaits", tools), "go").await;
    let (confirm, external) = (world.opened(&run, 1).await, world.opened(&run, 2).await);
    let results = json!([{"toolCallId": external.calls[0].tool_call_id, "result": {"page": 1}}]);
    let results = AnswerBody::ToolResults { results: serde_json::from_value(results).unwrap() };
    world.give(&run, &external, results).await;
    world.approve(&run, &confirm).await;
    let city = world.opened(&run, 3).await;
    world.give(&run, &city, AnswerBody::Clarification { answer: "Oslo".into() }).await;
    finished(world, run).await
}

async fn expiry(world: &World) -> RunId {
    let run = world.start(agent("expiry", json!([])), "go").await;
    finished(world, run).await
}

async fn children(world: &World) -> RunId {
    let definition = json!({
        "tools": [{"name": "ask", "kind": "agent", "agent": "helper"}],
        "agents": [{"id": "helper", "model": "script:helper"}],
    });
    let run = world.start(agent_with("children", definition), "go").await;
    finished(world, run).await
}

async fn continued(world: &World) -> RunId {
    let run = world
        .start_with(agent("continued", json!([{"name": "echo"}])), "go", |start| {
            start.tuning = Some(Tuning { continue_as_new_events: Some(30), ..Tuning::default() });
        })
        .await;
    finished(world, run).await
}

async fn finalized(world: &World) -> RunId {
    let run = world
        .start_with(agent("finalized", json!([{"name": "echo"}])), "go", |start| {
            start.policy = Some(PolicyOverrides {
                max_tool_calls: Some(2),
                time_budget_ms: Some(Millis::from_secs(3600)),
                ..PolicyOverrides::default()
            });
        })
        .await;
    finished(world, run).await
}

async fn paused(world: &World) -> RunId {
    let run = world.start(agent("paused", json!([{"name": "echo"}])), "go").await;
    let city = world.opened(&run, 1).await;
    world.ops.pause(&run, &PauseRequest { requested_by: "ann".into(), ..PauseRequest::default() }).await.unwrap();
    world.event(&run, |body| matches!(body, EventBody::Paused { .. })).await;
    world.give(&run, &city, AnswerBody::Clarification { answer: "Oslo".into() }).await;
    world.ops.resume(&run, &ResumeRequest { requested_by: "ann".into(), ..ResumeRequest::default() }).await.unwrap();
    finished(world, run).await
}

async fn cancelled(world: &World) -> RunId {
    let run = world.start(agent("cancelled", json!([{"name": "gate"}])), "go").await;
    world.gate_begun().await;
    world.ops.cancel(&run, "enough").await.unwrap();
    world.result(&run).await.unwrap_err();
    run
}

async fn lost_call(world: &World) -> RunId {
    let definition = json!([{"name": "gate", "timeoutMs": 300}]);
    let run = world.start(agent("lost_call", definition), "go").await;
    finished(world, run).await
}

/// The caller's own tools: in turn, together, and beside a call of this side.
async fn client_tools(world: &World) -> RunId {
    let tools = json!([own_tool("add", json!({})), own_tool("look", json!({"readOnly": true})), {"name": "echo"}]);
    let run = world.start(agent("client_tools", tools), "go").await;
    for call in ["call-0-0", "call-0-3", "call-0-2", "call-0-4"] {
        world.handed_out(&run, call).await;
        world.give_result(&run, call, json!({"result": call})).await;
    }
    finished(world, run).await
}

async fn local_timeout(world: &World) -> RunId {
    let tools = json!([own_tool("add", json!({"expiresInMs": 300}))]);
    let run = world.start(agent("local_timeout", tools), "go").await;
    world.handed_out(&run, "call-0-0").await;
    world.give_result(&run, "call-0-0", json!({"result": 1})).await;
    world.result(&run).await.unwrap_err();
    run
}

async fn truncated(world: &World) -> RunId {
    let run = world.start(agent("truncated", json!([])), "go").await;
    world.result(&run).await.unwrap_err();
    run
}

async fn tool_turns(world: &World) -> RunId {
    let run = world
        .start_with(agent("tool_turns", json!([{"name": "echo"}])), "go", |start| {
            start.policy = Some(PolicyOverrides { max_tool_turns: Some(2), ..PolicyOverrides::default() });
        })
        .await;
    finished(world, run).await
}

async fn stop_outcomes(world: &World) -> RunId {
    let run = world.start(agent("stop_outcomes", json!([{"name": "echo"}])), "go").await;
    finished(world, run).await
}

/// The first answer does not match the schema and is sent back.
async fn repaired(world: &World) -> RunId {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let definition = json!({"outputSchema": {"schema": schema, "enforcement": "strict"}});
    let run = world.start(agent_with("repaired", definition), "go").await;
    finished(world, run).await
}

/// The model's provider does not answer; the run goes on with another model.
async fn fallback(world: &World) -> RunId {
    let definition = json!({"fallback": ["script:other"], "tools": [{"name": "echo"}]});
    let run = world.start(agent_with("fallback", definition), "go").await;
    finished(world, run).await
}

/// Activities and a workflow on other task queues: large arguments, a large result, a failure.
async fn temporal_tools(world: &World) -> RunId {
    let (python, node) = (queue("python"), queue("node"));
    let (address, programs) = (&server::shared().address, node_programs());
    let _workers = (python_worker(address, &python), node_worker(&programs, address, &node, "none"));
    let tool = |name: &str, source: Value| json!({"name": name, "kind": "temporal", "temporal": source});
    let activity = |name: &str| tool(name, json!({"activity": name, "taskQueue": python}));
    let journey = tool("journey", json!({"workflow": "journey", "taskQueue": node}));
    let tools = json!([activity("digest"), activity("large"), activity("refuse"), journey]);
    let run = world.start(agent("temporal_tools", tools), "go").await;
    finished(world, run).await
}

/// The file that ends the activity of `heartbeats`.
fn enough() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("windlass-it-enough-{}", std::process::id()))
}

/// A call whose heartbeats are followed until it ends.
async fn heartbeats(world: &World) -> RunId {
    let python = queue("python");
    let _worker = python_worker(&server::shared().address, &python);
    let source = json!({"activity": "climb", "taskQueue": python, "heartbeatTimeoutMs": 1000});
    let tools = json!([{"name": "climb", "kind": "temporal", "temporal": source}]);
    let run = world.start(agent("heartbeats", tools), "go").await;
    world.event(&run, |body| matches!(body, EventBody::ToolProgress { .. })).await;
    std::fs::write(enough(), "").unwrap();
    let run = finished(world, run).await;
    std::fs::remove_file(enough()).unwrap();
    run
}

/// A call of several rounds: its peer asks a person.
async fn rounds(world: &World) -> RunId {
    let peer = Peer::start(Language::Python, &[]);
    let source = json!({"agentCardUrl": peer.url(), "allowPrivate": true});
    let run = world.start(agent("rounds", json!([{"name": "peer", "kind": "a2a", "a2a": source}])), "go").await;
    let city = world.opened(&run, 1).await;
    world.give(&run, &city, AnswerBody::Clarification { answer: "Oslo".into() }).await;
    finished(world, run).await
}

/// Sends the updates of a run there. The history is that of the push workflow, so its id is returned in place of a run's.
pub(crate) async fn push_to(world: &World, run: &RunId, url: String) -> RunId {
    let (workspace, vault) = (world.ops.workspace().clone(), world.ports.vault.as_ref().unwrap());
    let target = PushTarget { url, token: None, scheme: None, credentials: None };
    let secret = vault.seal_push_target(&workspace, run, &target).await.unwrap();
    let (id, version) = ("c".to_owned(), "1.0".to_owned());
    let config = NewPushConfig { run: run.clone(), id, workspace, version, secret };
    world.ops.store().put_push_config(config).await.unwrap();
    world.ops.start_push(run, "c", PushCursor::default()).await.unwrap();
    RunId::new(PushInput::workflow_id(run, "c"))
}

async fn push_ended(world: &World, workflow: RunId) -> RunId {
    let handle = world.ops.client().get_workflow_handle::<UntypedWorkflow>(workflow.to_string());
    within("the end of the push workflow", handle.get_result(Default::default())).await.unwrap();
    workflow
}

/// Waits until the activity that looks for the third notification has begun.
async fn push_waits(world: &World, workflow: &RunId) {
    let handle = world.ops.client().get_workflow_handle::<UntypedWorkflow>(workflow.to_string());
    within("the activity", async {
        loop {
            let pending = handle.describe(Default::default()).await.unwrap().raw_description.pending_activities;
            if pending.iter().any(|it| it.activity_id == "3" && it.state() == PendingActivityState::Started) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Notifications, one of them on the second attempt, and a worker that ends while there is nothing to send.
async fn pushed(world: &World) -> RunId {
    reach_receivers(world).await;
    let mut receiver = Receiver::answering(&[500, 200]).await;
    let run = world.start(agent("pushed", json!([])), "go").await;
    let city = world.opened(&run, 1).await;
    let workflow = push_to(world, &run, receiver.url("/")).await;
    receiver.until("INPUT_REQUIRED").await;
    push_waits(world, &workflow).await;
    reach_receivers(world).await;
    world.give(&run, &city, AnswerBody::Clarification { answer: "Oslo".into() }).await;
    receiver.until("COMPLETED").await;
    push_ended(world, workflow).await
}

/// The worker may not reach the receiver.
async fn push_given_up(world: &World) -> RunId {
    let run = world.start(agent("push_given_up", json!([])), "go").await;
    world.opened(&run, 1).await;
    let workflow = push_to(world, &run, "http://127.0.0.1:9/".to_owned()).await;
    push_ended(world, workflow).await
}

/// The config is deleted while nothing happens.
async fn push_deleted(world: &World) -> RunId {
    reach_receivers(world).await;
    let mut receiver = Receiver::answering(&[200]).await;
    let run = world.start(agent("push_deleted", json!([])), "go").await;
    world.opened(&run, 1).await;
    let workflow = push_to(world, &run, receiver.url("/")).await;
    receiver.until("INPUT_REQUIRED").await;
    push_waits(world, &workflow).await;
    world.ops.cancel_push(&run, "c").await.unwrap();
    let handle = world.ops.client().get_workflow_handle::<UntypedWorkflow>(workflow.to_string());
    within("the end of the push workflow", handle.get_result(Default::default())).await.unwrap_err();
    workflow
}
