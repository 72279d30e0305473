//! Pause, resume, steer, cancel.

use serde_json::json;
use windlass_core::{
    envelope::{AnswerBody, PauseRequest, PolicyOverrides, ResumeRequest, SteerRequest},
    event::EventBody,
    message::Message,
    run::RunStatus,
};
use windlass_ops::RunEnd;

use super::answers::signal;
use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

fn pause() -> PauseRequest {
    PauseRequest { reason: "lunch".into(), requested_by: "ann".into(), ..PauseRequest::default() }
}

#[test]
fn a_paused_run_begins_nothing_until_it_is_resumed() {
    block_on(async {
        let turns = [calls(&[("gate", json!({}))]), says("{{last_user}}")];
        let world = World::new(scripts([("pausing", script(&turns))])).await;
        let run = world.start(agent("pausing", json!([{"name": "gate"}])), "go").await;
        world.gate_begun().await;
        world.ops.pause(&run, &pause()).await.unwrap();
        world.event(&run, |body| matches!(body, EventBody::Paused { .. })).await;
        // What runs may end; the next turn does not begin.
        world.permits.add_permits(1);
        world.event(&run, |body| matches!(body, EventBody::Status { status: RunStatus::Paused, .. })).await;
        let status = world.ops.status(&run).await.unwrap().unwrap();
        assert_eq!((status.status, status.turn, status.paused_by.as_deref()), (RunStatus::Paused, 1, Some("ann")));
        let messages = vec![Message::user("carry on, in French")];
        let resume = ResumeRequest { requested_by: "ann".into(), messages, ..ResumeRequest::default() };
        world.ops.resume(&run, &resume).await.unwrap();
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("carry on, in French")));
    });
}

#[test]
fn steering_reaches_the_model_after_the_results_it_was_waiting_for() {
    block_on(async {
        let turns = [calls(&[("gate", json!({}))]), says("{{last_tool_result}} / {{last_user}}")];
        let world = World::new(scripts([("steered", script(&turns))])).await;
        let run = world.start(agent("steered", json!([{"name": "gate"}])), "go").await;
        world.gate_begun().await;
        let steer = SteerRequest { text: "be brief".into(), requested_by: "ann".into(), ..SteerRequest::default() };
        world.ops.steer(&run, &steer).await.unwrap();
        world.event(&run, |body| matches!(body, EventBody::Steered { .. })).await;
        world.permits.add_permits(1);
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("through / be brief")));
    });
}

#[test]
fn a_run_that_allows_no_interrupts_says_so() {
    block_on(async {
        let turns = [json!({"await": {"kind": "clarification", "question": "city?"}}), says("{{last_user}}")];
        let world = World::new(scripts([("firm", script(&turns))])).await;
        let run = world
            .start_with(agent("firm", json!([])), "go", |start| {
                start.policy = Some(PolicyOverrides { interrupts_allowed: Some(false), ..PolicyOverrides::default() });
            })
            .await;
        let item = world.opened(&run, 1).await;
        world.ops.pause(&run, &pause()).await.unwrap();
        let rejected = world.event(&run, |body| matches!(body, EventBody::SignalRejected { .. })).await;
        let message = "this run's policy allows no interrupts".to_owned();
        assert_eq!(rejected, EventBody::SignalRejected { signal: "windlass.pause".into(), message });
        world.give(&run, &item, AnswerBody::Clarification { answer: "Oslo".into() }).await;
        assert_eq!(world.result(&run).await.unwrap().final_message, Some(Message::assistant("Oslo")));
    });
}

#[test]
fn a_signal_with_an_unknown_name_is_logged_once_however_often_the_run_is_replayed() {
    block_on(async {
        let turns = [json!({"await": {"kind": "clarification", "question": "city?"}}), says("{{last_user}}")];
        let world = World::without_worker(scripts([("misspelt", script(&turns))])).await;
        let run = world.start(agent("misspelt", json!([])), "go").await;
        signal(&world, &run, "windlass.paws", "json/plain", b"{}").await;
        world.start_worker();
        let item = world.opened(&run, 1).await;
        signal(&world, &run, "windlass.resum", "json/plain", b"{}").await;
        world
            .event(&run, |body| matches!(body, EventBody::SignalRejected { signal, .. } if signal.ends_with("resum")))
            .await;
        world.stop_worker().await;
        world.start_worker();
        world.give(&run, &item, AnswerBody::Clarification { answer: "Oslo".into() }).await;
        assert_eq!(world.result(&run).await.unwrap().final_message, Some(Message::assistant("Oslo")));

        let message = "a run has no signal of this name; it has windlass.pause, windlass.resume, windlass.steer, \
                       windlass.provide_clarification, windlass.provide_tool_results, windlass.provide_confirmation";
        let rejected = |name: &str| EventBody::SignalRejected { signal: name.to_owned(), message: message.to_owned() };
        let mut logged = world.bodies(&run).await;
        logged.retain(|body| matches!(body, EventBody::SignalRejected { .. }));
        assert_eq!(logged, [rejected("windlass.paws"), rejected("windlass.resum")]);
    });
}

#[test]
fn cancellation_stops_tools_and_closes_the_log() {
    block_on(async {
        let turns = [calls(&[("gate", json!({})), ("echo", json!({"a": 1}))]), says("never")];
        let world = World::new(scripts([("stopped", script(&turns))])).await;
        let tools = json!([{"name": "gate"}, {"name": "echo", "confirmation": {}}]);
        let run = world.start(agent("stopped", tools), "go").await;
        world.gate_begun().await;
        world.opened(&run, 1).await;
        world.ops.cancel(&run, "changed my mind").await.unwrap();
        assert_eq!(world.result(&run).await.unwrap_err(), RunEnd::Cancelled);
        let bodies = world.bodies(&run).await;
        assert!(matches!(bodies.last(), Some(EventBody::Cancelled { reason, .. }) if reason == "changed my mind"));
        let results = bodies.iter().filter(|body| matches!(body, EventBody::ToolResult { .. })).count();
        assert_eq!(results, 2, "each call has its one result: {bodies:#?}");
        assert_eq!(world.watch.names(), ["gate"]);
        let transcript = world.transcript(&run).await;
        assert_eq!(transcript.last().unwrap().parts.len(), 2, "both results are in the conversation");
    });
}

#[test]
fn a_run_waiting_for_a_person_can_be_cancelled() {
    block_on(async {
        let turns = [json!({"await": {"kind": "clarification", "question": "city?"}})];
        let world = World::new(scripts([("waiting", script(&turns))])).await;
        let run = world.start(agent("waiting", json!([])), "go").await;
        world.opened(&run, 1).await;
        world.ops.cancel(&run, "").await.unwrap();
        assert_eq!(world.result(&run).await.unwrap_err(), RunEnd::Cancelled);
        assert_eq!(world.kinds(&run).await.last().map(String::as_str), Some("cancelled"));
        assert_eq!(world.ops.store().run(&run).await.unwrap().unwrap().status, RunStatus::Cancelled);
    });
}
