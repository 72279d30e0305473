//! Plan, tools, answer.

use serde_json::json;
use windlass_core::{event::EventBody, message::Message};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

#[test]
fn a_run_without_tools_answers() {
    block_on(async {
        let world = World::new(scripts([("hello", script(&[says("Hello, {{last_user}}.")]))])).await;
        let (run, output) = world.answer_of(agent("hello", json!([])), "world").await;
        assert_eq!(output.final_message, Some(Message::assistant("Hello, world.")));
        assert_eq!((output.turns, output.tool_calls), (1, 0));
        assert_eq!(world.kinds(&run).await, ["started", "assistant_delta", "assistant_message", "usage", "result"]);
        assert_eq!(world.transcript(&run).await, [Message::user("world"), Message::assistant("Hello, world.")]);
    });
}

#[test]
fn calls_of_a_turn_run_in_parallel_and_their_results_come_back_in_call_order() {
    block_on(async {
        let turns = [
            calls(&[("gate", json!({"n": 1})), ("gate", json!({"n": 2})), ("echo", json!({"n": 3}))]),
            says("{{all_tool_results}}"),
        ];
        let world = World::new(scripts([("par", script(&turns))])).await;
        let tools = json!([{"name": "gate"}, {"name": "echo"}]);
        let run = world.start(agent("par", tools), "go").await;
        // Both are inside before either may leave.
        let mut inside = [world.gate_begun().await, world.gate_begun().await];
        inside.sort();
        assert_eq!(inside.map(|call| call.to_string()), ["call-0-0", "call-0-1"]);
        world.permits.add_permits(2);
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("through|through|{\"n\":3}")));
        let results: Vec<String> = world
            .bodies(&run)
            .await
            .into_iter()
            .filter_map(|body| match body {
                EventBody::ToolResult { tool_use_id, ok: true, .. } => Some(tool_use_id.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(results.len(), 3);
    });
}
