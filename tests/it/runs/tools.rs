//! Tools: arguments, retries, large results.

use serde_json::json;
use windlass_core::{envelope::CallStatus, event::EventBody, message::Message};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

#[test]
fn arguments_are_coerced_checked_and_explained() {
    block_on(async {
        let turns = [
            calls(&[("echo", json!({"n": "5"})), ("echo", json!({"n": "many"})), ("nope", json!({}))]),
            says("{{all_tool_results}}"),
        ];
        let world = World::new(scripts([("args", script(&turns))])).await;
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let (_, output) = world.answer_of(agent("args", json!([{"name": "echo", "inputSchema": schema}])), "go").await;
        let text = output.final_message.unwrap().plain_text();
        let parts: Vec<&str> = text.split('|').collect();
        assert_eq!(parts[0], "{\"n\":5}");
        assert!(parts[1].starts_with("ERROR: ") && parts[1].contains("tool_input_invalid"), "{text}");
        assert!(parts[2].contains("there is no tool named `nope`"), "{text}");
        assert_eq!((world.watch.seen().len(), output.tool_calls), (1, 1));
    });
}

#[test]
fn an_idempotent_tool_is_tried_again_and_a_broken_one_is_reported() {
    block_on(async {
        let turns = [calls(&[("fail", json!({"times": 2})), ("fail", json!({}))]), says("{{all_tool_results}}")];
        let world = World::new(scripts([("again", script(&turns))])).await;
        let (run, output) = world.answer_of(agent("again", json!([{"name": "fail"}])), "go").await;
        let text = output.final_message.unwrap().plain_text();
        assert!(text.starts_with("at last|ERROR: ") && text.contains("it is broken"), "{text}");
        let attempts: Vec<u32> =
            world.watch.seen().into_iter().filter(|seen| seen.args != json!({})).map(|seen| seen.attempt).collect();
        assert_eq!(attempts, [1, 2, 3]);
        let results = world.bodies(&run).await.into_iter().filter_map(|body| match body {
            EventBody::ToolResult { status, .. } => Some(status),
            _ => None,
        });
        let mut results: Vec<CallStatus> = results.collect();
        results.sort_by_key(|status| *status == CallStatus::Ok);
        assert_eq!(results, [CallStatus::Failed, CallStatus::Ok]);
    });
}

#[test]
fn a_large_result_reaches_the_model_but_not_the_history() {
    block_on(async {
        let turns = [calls(&[("echo", json!({"bytes": 200_000}))]), says("{{last_tool_result}}")];
        let world = World::new(scripts([("large", script(&turns))])).await;
        let (run, output) = world.answer_of(agent("large", json!([{"name": "echo"}])), "go").await;
        let event = &output.tool_events[0];
        assert_eq!(
            (event.result_bytes, json!(event)["resultOmitted"].clone(), json!(event)["resultOmittedReason"].clone()),
            (200_002, json!(true), json!("workflow_budget"))
        );
        let answer = Message::assistant("x".repeat(200_000));
        assert_eq!(world.transcript(&run).await.pop(), Some(answer));
        let handle = world.ops.client().get_workflow_handle::<temporalio_client::UntypedWorkflow>(run.to_string());
        let description = handle.describe(Default::default()).await.unwrap();
        let bytes = description.raw().workflow_execution_info.as_ref().unwrap().history_size_bytes;
        assert!(bytes < 20_000, "the history has {bytes} bytes");
    });
}
