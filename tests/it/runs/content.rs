//! What models write and tools return, through a whole run: parts in their order, stop reasons, progress.

use serde_json::{Value, json};
use windlass_core::{
    event::EventBody,
    message::{Content, Part, Role},
    stop::StopReason,
};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

/// An agent that thinks.
fn thinking(name: &str, tools: Value) -> windlass_core::agent::AgentDefinition {
    let mut agent = agent(name, tools);
    agent.reasoning_level = Some(50);
    agent
}

#[test]
fn parts_reach_the_transcript_in_the_order_in_which_the_model_wrote_them() {
    block_on(async {
        let parts = json!([
            {"kind": "thinking", "text": "first", "signature": "sig-1"},
            {"kind": "text", "text": "Looking. "},
            {"kind": "tool_use", "id": "toolu_a", "name": "echo", "input": {"n": 1},
             "providerItem": {"provider": "anthropic", "item": "{ \"type\" : \"tool_use\", \"id\": \"toolu_a\" }"}},
            {"kind": "thinking", "redacted": "AAEC"},
            {"kind": "provider_tool", "name": "web_search", "input": {"q": "tides"}, "output": [{"url": "u"}]},
            {"kind": "tool_use", "id": "toolu_b", "name": "echo", "input": {"n": 2}},
            {"kind": "hologram", "beam": [1, 2]},
            {"kind": "text", "text": "One moment."},
        ]);
        let turns = [json!({"parts": parts.clone(), "response_id": "resp_7"}), says("done {{all_tool_results}}")];
        let world = World::new(scripts([("mixed", script(&turns))])).await;
        let (run, _) = world.answer_of(thinking("mixed", json!([{"name": "echo"}])), "go").await;

        let transcript = world.transcript(&run).await;
        let said = &transcript[1];
        let mut expected = parts;
        // The run's own call ids; the provider's stay in its item.
        expected[2]["id"] = json!("call-0-0");
        expected[5]["id"] = json!("call-0-1");
        assert_eq!((said.role, serde_json::to_value(&said.parts).unwrap()), (Role::Assistant, expected));
        assert_eq!(said.meta["responseId"], json!("resp_7"));
        assert_eq!(transcript.last().unwrap().plain_text(), r#"done {"n":1}|{"n":2}"#);

        let streamed: Vec<(String, u32)> = world
            .bodies(&run)
            .await
            .into_iter()
            .filter_map(|body| match body {
                EventBody::AssistantDelta { text, turn: 0, part, .. } => Some((text, part)),
                EventBody::ThinkingDelta { text, turn: 0, part, .. } => Some((format!("({text})"), part)),
                EventBody::ProviderTool { name, turn: 0, part, .. } => Some((format!("<{name}>"), part)),
                _ => None,
            })
            .collect();
        let expected = [("(first)", 0), ("Looking. ", 1), ("()", 3), ("<web_search>", 4), ("One moment.", 7)];
        assert_eq!(streamed, expected.map(|(text, part)| (text.to_owned(), part)));
    });
}

#[test]
fn every_stop_reason_of_a_last_turn_has_its_outcome() {
    block_on(async {
        let outcomes = [
            ("end_turn", Ok(())),
            ("stop_sequence", Ok(())),
            ("something_new", Ok(())),
            ("max_tokens", Err("RUN0008")),
            ("refusal", Err("RUN0009")),
            ("malformed_function_call", Err("RUN0009")),
            ("content_filter", Err("RUN0014")),
            ("context_window", Err("RUN0001")),
        ];
        let named: Vec<(&str, Value)> =
            outcomes.iter().map(|(stop, _)| (*stop, script(&[json!({"text": "half", "stop": stop})]))).collect();
        let world = World::new(json!(named.into_iter().collect::<std::collections::BTreeMap<_, _>>())).await;
        for (stop, outcome) in outcomes {
            let run = world.start(agent(stop, json!([])), "go").await;
            let ended = world.result(&run).await;
            match outcome {
                Ok(()) => assert_eq!(ended.unwrap().finish_reason, Some(StopReason::from(stop))),
                Err(code) => {
                    let failure = ended.unwrap_err().to_string();
                    assert!(failure.contains(code), "{stop}: {failure}");
                }
            }
        }
    });
}

#[test]
fn a_paused_answer_goes_on_and_a_cut_off_call_is_not_executed() {
    block_on(async {
        let mut cut = calls(&[("echo", json!({"n": 1}))]);
        cut["stop"] = json!("max_tokens");
        let turns = [json!({"text": "Searching. ", "stop": "pause_turn"}), cut, says("{{last_tool_result}}")];
        let world = World::new(scripts([("paused", script(&turns))])).await;
        let (run, output) = world.answer_of(agent("paused", json!([{"name": "echo"}])), "go").await;
        assert_eq!((output.turns, output.tool_calls, world.watch.count("echo")), (3, 0, 0));
        let answer = world.transcript(&run).await.pop().unwrap().plain_text();
        assert!(answer.starts_with("ERROR:") && answer.contains("cut off at the output limit"), "{answer}");
    });
}

#[test]
fn a_tool_returns_parts_and_a_structured_result_and_reports_its_progress() {
    block_on(async {
        for pages in [1, 1000] {
            let turns = [calls(&[("report", json!({"pages": pages}))]), says("{{last_tool_result}} {{files}}")];
            let world = World::new(scripts([("report", script(&turns))])).await;
            world.set_secret("report.key", "hunter2").await;
            let (run, _) = world.answer_of(agent("report", json!([{"name": "report"}])), "go").await;
            let transcript = world.transcript(&run).await;
            let Content::ToolResult { content, parts, is_error: false, .. } = &transcript[2].parts[0].content else {
                panic!("{:?}", transcript[2]);
            };
            assert_eq!(*content, json!({"pages": pages, "keyLength": 7}));
            assert_eq!(parts[0], Part::text("Report. ".repeat(pages)));
            assert_eq!(serde_json::to_value(&parts[1]).unwrap()["bytes"], json!("iVBORw0KGgo="));
            assert!(transcript[3].plain_text().ends_with("image.png"), "{}", transcript[3].plain_text());

            let log = world.bodies(&run).await;
            let of_call = log.iter().filter_map(|body| match body {
                EventBody::ToolCall { .. } => Some("begun".to_owned()),
                EventBody::ToolProgress { message, progress, total, .. } => {
                    Some(format!("{} {progress:?} of {total:?}", message.as_deref().unwrap_or_default()))
                }
                EventBody::ToolResult { .. } => Some("done".to_owned()),
                _ => None,
            });
            assert_eq!(
                of_call.collect::<Vec<_>>(),
                ["begun", "reading Some(1.0) of Some(4.0)", "writing Some(3.0) of Some(4.0)", "done"]
            );
        }
    });
}

#[test]
fn a_result_that_its_output_schema_does_not_allow_is_a_failure() {
    block_on(async {
        let turns = [calls(&[("echo", json!({"n": 1}))]), says("{{last_tool_result}}")];
        let world = World::new(scripts([("checked", script(&turns))])).await;
        let tools = json!([{"name": "echo", "outputSchema": {"type": "object", "required": ["total"]}}]);
        let (_, output) = world.answer_of(agent("checked", tools), "go").await;
        let answer = output.final_message.unwrap().plain_text();
        assert!(answer.contains("does not satisfy its output schema"), "{answer}");
    });
}
