//! The caller's own tools: handed out in turn, answered by call, and not waited for for ever.

use serde_json::json;
use windlass_core::{
    envelope::{AnswerStatus, ToolErrorKind},
    event::EventBody,
    run::RunStatus,
};
use windlass_ops::RunEnd;

use crate::support::{World, agent, block_on, calls, own_tool, says, script, world::scripts};

#[test]
fn calls_go_out_one_after_another_and_results_come_back_by_call() {
    block_on(async {
        let turns = [
            calls(&[("add", json!({"n": 1})), ("echo", json!({"n": 0})), ("add", json!({"n": 2}))]),
            says("{{all_tool_results}}"),
        ];
        let world = World::new(scripts([("local", script(&turns))])).await;
        let run = world.start(agent("local", json!([own_tool("add", json!({})), {"name": "echo"}])), "go").await;
        world.handed_out(&run, "call-0-0").await;
        let early = world.give_result(&run, "call-0-2", json!({"result": "early"})).await;
        assert_eq!(early.status, AnswerStatus::Unknown);
        let taken = world.give_result(&run, "call-0-0", json!({"result": "one"})).await;
        assert_eq!(taken.status, AnswerStatus::Accepted);
        world.handed_out(&run, "call-0-2").await;
        let again = world.give_result(&run, "call-0-0", json!({"result": "one"})).await;
        assert_eq!(again.status, AnswerStatus::Duplicate);
        let error = json!({"error": {"kind": "tool_failed", "message": "Local tool 'add' failed: no"}});
        world.give_result(&run, "call-0-2", error).await;
        let output = world.result(&run).await.unwrap();
        let text = output.final_message.unwrap().plain_text();
        assert_eq!(text, r#"one|{"n":0}|ERROR: Local tool 'add' failed: no"#);

        let local = ["local_tool_call", "local_tool_result_in"];
        let kinds: Vec<String> =
            world.kinds(&run).await.into_iter().filter(|kind| local.contains(&kind.as_str())).collect();
        assert_eq!(kinds, [local[0], local[1], local[0], local[1]]);
    });
}

#[test]
fn calls_that_change_nothing_go_out_together() {
    block_on(async {
        let turns = [calls(&[("look", json!({"n": 1})), ("look", json!({"n": 2}))]), says("{{all_tool_results}}")];
        let world = World::new(scripts([("reads", script(&turns))])).await;
        let run = world.start(agent("reads", json!([own_tool("look", json!({"readOnly": true}))])), "go").await;
        world.handed_out(&run, "call-0-0").await;
        world.handed_out(&run, "call-0-1").await;
        for (call, result) in [("call-0-1", "b"), ("call-0-0", "a")] {
            let reply = world.give_result(&run, call, json!({"result": result})).await;
            assert_eq!(reply.status, AnswerStatus::Accepted);
        }
        assert_eq!(world.result(&run).await.unwrap().final_message.unwrap().plain_text(), "a|b");
    });
}

#[test]
fn arguments_too_large_to_travel_reach_the_caller_whole() {
    block_on(async {
        let args = json!({"n": 1, "note": "x".repeat(5_000)});
        let turns = [calls(&[("add", args.clone())]), says("{{last_tool_result}}")];
        let world = World::new(scripts([("large", script(&turns))])).await;
        let run = world.start(agent("large", json!([own_tool("add", json!({}))])), "go").await;
        let handed = world.event(&run, |body| matches!(body, EventBody::LocalToolCall { .. })).await;
        let EventBody::LocalToolCall { args: given, .. } = handed else { panic!("{handed:?}") };
        assert_eq!(given, Some(args.into()));
        world.give_result(&run, "call-0-0", json!({"result": "y".repeat(20_000)})).await;
        let text = world.result(&run).await.unwrap().final_ref.unwrap();
        assert!(text.bytes > 20_000);
    });
}

#[test]
fn arguments_that_do_not_fit_never_leave_the_house() {
    block_on(async {
        let turns = [calls(&[("add", json!({"n": "many"}))]), says("{{last_tool_result}}")];
        let world = World::new(scripts([("wrong", script(&turns))])).await;
        let (run, output) = world.answer_of(agent("wrong", json!([own_tool("add", json!({}))])), "go").await;
        let bodies = world.bodies(&run).await;
        assert!(!bodies.iter().any(|body| matches!(body, EventBody::LocalToolCall { .. })));
        let refused = bodies.iter().find_map(|body| match body {
            EventBody::ToolResult { ok, error: Some(error), retry_hint: Some(hint), .. } => {
                Some((*ok, error.kind, hint.issues[0].field.as_str()))
            }
            _ => None,
        });
        assert_eq!(refused, Some((false, ToolErrorKind::ToolInputInvalid, "/n")));
        let text = output.final_message.unwrap().plain_text();
        assert!(text.starts_with("ERROR: ") && text.contains("tool_input_invalid"), "{text}");
    });
}

#[test]
fn a_caller_that_never_answers_ends_the_run() {
    block_on(async {
        let turns = [calls(&[("add", json!({"n": 1}))]), says("never")];
        let world = World::new(scripts([("late", script(&turns))])).await;
        let run = world.start(agent("late", json!([own_tool("add", json!({"expiresInMs": 200}))])), "go").await;
        let end = world.result(&run).await.unwrap_err();
        assert!(matches!(&end, RunEnd::Failed { code, .. } if code == "RUN0011"), "{end:?}");
        let last = world.bodies(&run).await.pop().unwrap();
        let EventBody::Result { subtype, error, turns, model, .. } = last else { panic!("{last:?}") };
        assert_eq!(
            (subtype.as_str(), error.as_deref(), turns, model.as_deref()),
            ("error_local_tool_timeout", Some("Timed out waiting for local tool result: add"), 1, Some("script:late"))
        );
        assert_eq!(world.ops.store().run(&run).await.unwrap().unwrap().status, RunStatus::Failed);
    });
}

#[test]
fn a_run_that_is_cancelled_takes_no_more_results() {
    block_on(async {
        let turns = [calls(&[("add", json!({"n": 1})), ("add", json!({"n": 2}))]), says("never")];
        let world = World::new(scripts([("stopped", script(&turns))])).await;
        let run = world.start(agent("stopped", json!([own_tool("add", json!({}))])), "go").await;
        world.handed_out(&run, "call-0-0").await;
        world.ops.cancel(&run, "enough").await.unwrap();
        world.result(&run).await.unwrap_err();
        let late = serde_json::from_value(json!({"toolCallId": "call-0-0", "result": 1})).unwrap();
        assert!(world.ops.tool_result(&run, &late).await.is_err(), "the run has ended");
        let results: Vec<bool> = world
            .bodies(&run)
            .await
            .into_iter()
            .filter_map(|body| if let EventBody::ToolResult { ok, .. } = body { Some(ok) } else { None })
            .collect();
        assert_eq!(results, [false, false]);
    });
}
