//! Failures of the model, of the worker, and what is not paid for twice.

use serde_json::json;
use windlass_core::{
    envelope::{AnswerBody, SteerRequest},
    event::EventBody,
    message::Message,
};
use windlass_ops::RunEnd;

use crate::support::{World, agent, block_on, calls, checks, says, script, world::scripts};

#[test]
fn a_turn_that_fails_is_asked_again_and_says_so() {
    block_on(async {
        let turn = json!({"text": "fine", "error": {"error": "busy", "errorClass": "overloaded", "retryable": true, "times": 2}});
        let world = World::new(scripts([("flaky", script(&[turn]))])).await;
        let (run, output) = world.answer_of(agent("flaky", json!([])), "go").await;
        assert_eq!(output.final_message, Some(Message::assistant("fine")));
        let restarts: Vec<u32> = world
            .bodies(&run)
            .await
            .into_iter()
            .filter_map(|body| match body {
                EventBody::TurnRestarted { turn: 0, attempt } => Some(attempt),
                _ => None,
            })
            .collect();
        assert_eq!(restarts, [2, 3]);
    });
}

#[test]
fn a_model_that_refuses_fails_the_run_with_its_class() {
    block_on(async {
        let turn = json!({"error": {"error": "no credit", "errorClass": "auth", "retryable": false}});
        let world = World::new(scripts([("broke", script(&[turn]))])).await;
        let run = world.start(agent("broke", json!([])), "go").await;
        let end = world.result(&run).await.unwrap_err();
        assert!(
            matches!(&end, RunEnd::Failed { code, message } if code == "RUN0001" && message.contains("no credit")),
            "{end:?}"
        );
        let last = world.bodies(&run).await.pop().unwrap();
        assert!(matches!(last, EventBody::Error { error_class: Some(class), retryable: false, .. } if class == "auth"));
    });
}

#[test]
fn a_run_survives_its_worker_and_the_next_one_goes_on() {
    block_on(async {
        let turns = [
            calls(&[("echo", json!({"n": 1}))]),
            json!({"await": {"kind": "clarification", "question": "city?"}}),
            says("{{first_user}} {{last_user}} {{last_tool_result}}"),
        ];
        let world = World::new(scripts([("survivor", script(&turns))])).await;
        let run = world.start(agent("survivor", json!([{"name": "echo"}])), "go").await;
        let item = world.opened(&run, 1).await;
        world.stop_worker().await;
        world.start_worker();
        world.give(&run, &item, AnswerBody::Clarification { answer: "Oslo".into() }).await;
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("go Oslo {\"n\":1}")));
        assert_eq!(world.watch.count("echo"), 1);
        let turns =
            world.bodies(&run).await.into_iter().filter(|body| matches!(body, EventBody::AssistantMessage { .. }));
        assert_eq!(turns.count(), 3, "no turn was asked for twice");
    });
}

#[test]
fn a_turn_that_fails_for_good_loses_neither_results_nor_what_people_said() {
    block_on(async {
        let failing =
            json!({"delay_ms": 700, "error": {"error": "busy", "errorClass": "overloaded", "retryable": true}});
        let turns = [calls(&[("echo", json!({"n": 1}))]), failing];
        let world = World::new(scripts([("doomed", script(&turns))])).await;
        let run = world
            .start_with(agent("doomed", json!([{"name": "echo"}])), "go", |start| {
                start.tuning.as_mut().unwrap().plan_max_attempts = Some(2);
            })
            .await;
        // The turn's first attempt has written the result; the steer comes while the second is under way.
        world.event(&run, |body| matches!(body, EventBody::TurnRestarted { .. })).await;
        let steer = SteerRequest { text: "hurry".into(), ..SteerRequest::default() };
        world.ops.steer(&run, &steer).await.unwrap();
        let end = world.result(&run).await.unwrap_err();
        assert!(matches!(&end, RunEnd::Failed { code, .. } if code == "RUN0001"), "{end:?}");
        let transcript = world.transcript(&run).await;
        checks::every_call_has_one_result(&transcript);
        assert_eq!(transcript.last(), Some(&Message::user("hurry")));
        checks::log_is_gapless_with_one_terminal_event_at_its_end(&world.events(&run).await);
    });
}

#[test]
fn a_worker_that_shuts_down_in_the_middle_of_an_answer_costs_the_run_nothing() {
    block_on(async {
        let slow = json!({"deltas": ["one ", "two"], "delta_delay_ms": 3000});
        let mut world = World::without_worker(scripts([("slow", script(&[slow]))])).await;
        world.options.grace = std::time::Duration::from_millis(200);
        world.start_worker();
        let run = world.start(agent("slow", json!([])), "go").await;
        world.event(&run, |body| matches!(body, EventBody::AssistantDelta { .. })).await;
        world.stop_worker().await;
        world.start_worker();
        assert_eq!(world.result(&run).await.unwrap().final_message, Some(Message::assistant("one two")));
    });
}

#[test]
fn a_run_that_cannot_open_is_shown_as_failed() {
    block_on(async {
        let world = World::new(scripts([])).await;
        let run = world.start(agent("x", json!([{"name": "teleport"}])), "go").await;
        world.result(&run).await.unwrap_err();
        let handle = world.ops.client().get_workflow_handle::<temporalio_client::UntypedWorkflow>(run.to_string());
        let info = handle.describe(Default::default()).await.unwrap().into_raw().workflow_execution_info.unwrap();
        let attributes = info.search_attributes.unwrap().indexed_fields;
        assert_eq!(String::from_utf8_lossy(&attributes["WindlassStatus"].data), "\"failed\"");
    });
}

#[test]
fn a_call_cut_off_by_a_shutdown_is_tried_again_only_if_that_is_harmless() {
    block_on(async {
        let turns = script(&[calls(&[("gate", json!({}))]), says("{{last_tool_result}}")]);
        let mut world = World::without_worker(scripts([("again", turns.clone()), ("once", turns)])).await;
        world.options.grace = std::time::Duration::from_millis(200);
        world.start_worker();
        let again = world.start(agent("again", json!([{"name": "gate", "idempotent": true}])), "go").await;
        world.gate_begun().await;
        let once = world.start(agent("once", json!([{"name": "gate"}])), "go").await;
        world.gate_begun().await;
        world.stop_worker().await;
        world.start_worker();
        world.gate_begun().await;
        world.permits.add_permits(1);
        assert_eq!(world.result(&again).await.unwrap().final_message, Some(Message::assistant("through")));
        let text = world.result(&once).await.unwrap().final_message.unwrap().plain_text();
        assert!(text.starts_with("ERROR: ") && text.contains("stopped at the gate"), "{text}");
        assert_eq!(world.watch.count("gate"), 3);
    });
}
