//! Agents as tools: child runs, their links, their budgets.

use serde_json::json;
use windlass_core::{envelope::PolicyOverrides, event::EventBody, ids::RunId, message::Message, time::Millis};
use windlass_ops::RunEnd;

use crate::support::{World, agent_with, block_on, calls, says, script, world::scripts};

fn parent(fields: serde_json::Value) -> windlass_core::agent::AgentDefinition {
    let mut definition = json!({
        "tools": [{"name": "ask", "kind": "agent", "agent": "helper", "inputSchema": {
            "type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]
        }}],
        "agents": [{"id": "helper", "model": "script:helper", "tools": [{"name": "echo"}, {"name": "gate"}]}],
    });
    definition.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    agent_with("parent", definition)
}

#[test]
fn an_agent_answers_as_a_tool_and_both_runs_know_of_each_other() {
    block_on(async {
        let world = World::new(scripts([
            (
                "parent",
                script(&[calls(&[("ask", json!({"question": "why?"}))]), says("It said: {{last_tool_result}}")]),
            ),
            (
                "helper",
                script(&[
                    calls(&[("echo", json!({"n": 1}))]),
                    says("because of {{last_tool_result}} ({{first_user}})"),
                ]),
            ),
        ]))
        .await;
        let (run, output) = world.answer_of(parent(json!({})), "go").await;
        assert_eq!(output.final_message, Some(Message::assistant("It said: because of {\"n\":1} (why?)")));
        assert_eq!(output.tool_calls, 2, "the child's call is counted too");
        let child = RunId::new(format!("{run}/call-0-0"));
        let linked = world.event(&run, |body| matches!(body, EventBody::ChildRunLinked { .. })).await;
        assert!(matches!(linked, EventBody::ChildRunLinked { child_run_id, .. } if child_run_id == child));
        let store = world.ops.store();
        assert_eq!(store.run(&run).await.unwrap().unwrap().children, std::slice::from_ref(&child));
        assert_eq!(store.run(&child).await.unwrap().unwrap().parent, Some(run.clone()));
        let call = &output.tool_events[0];
        assert_eq!((call.children_count, &call.run_link.as_ref().unwrap().run_id), (1, &child));
        let answer = world.result(&child).await.unwrap().final_tool_result.unwrap();
        assert_eq!((answer.name.as_str(), &answer.result()), ("ask", &call.result()));
    });
}

#[test]
fn children_share_what_their_parent_has_left() {
    block_on(async {
        let helper = json!({"turns": [calls(&[("echo", json!({"n": 1})), ("echo", json!({"n": 2})), ("echo", json!({"n": 3}))]), says("ok")], "finalize": "cut short"});
        let two = calls(&[("ask", json!({"question": "a"})), ("ask", json!({"question": "b"}))]);
        let world =
            World::new(scripts([("parent", script(&[two, says("{{all_tool_results}}")])), ("helper", helper)])).await;
        let run = world
            .start_with(parent(json!({})), "go", |start| {
                start.policy = Some(PolicyOverrides {
                    max_tool_calls: Some(6),
                    time_budget_ms: Some(Millis::from_secs(3600)),
                    ..PolicyOverrides::default()
                });
            })
            .await;
        let output = world.result(&run).await.unwrap();
        // Six calls: two for the agents themselves, two for each of them.
        assert_eq!(output.final_message, Some(Message::assistant("cut short|cut short")));
        assert_eq!((output.tool_calls, world.watch.count("echo")), (6, 4));
    });
}

#[test]
fn cancelling_the_parent_cancels_the_child() {
    block_on(async {
        let world = World::new(scripts([
            ("parent", script(&[calls(&[("ask", json!({"question": "a"}))]), says("never")])),
            ("helper", script(&[calls(&[("gate", json!({}))]), says("never")])),
        ]))
        .await;
        let run = world.start(parent(json!({})), "go").await;
        world.gate_begun().await;
        world.ops.cancel(&run, "stop").await.unwrap();
        assert_eq!(world.result(&run).await.unwrap_err(), RunEnd::Cancelled);
        let child = RunId::new(format!("{run}/call-0-0"));
        assert_eq!(world.result(&child).await.unwrap_err(), RunEnd::Cancelled);
        assert_eq!(world.kinds(&child).await.last().map(String::as_str), Some("cancelled"));
    });
}

#[test]
fn a_child_that_fails_is_a_failed_call_not_a_failed_parent() {
    block_on(async {
        let error = json!({"error": {"error": "no credit", "errorClass": "auth", "retryable": false}});
        let world = World::new(scripts([
            ("parent", script(&[calls(&[("ask", json!({"question": "a"}))]), says("{{last_tool_result}}")])),
            ("helper", script(&[error])),
        ]))
        .await;
        let (_, output) = world.answer_of(parent(json!({})), "go").await;
        let text = output.final_message.unwrap().plain_text();
        assert!(text.starts_with("ERROR: ") && text.contains("RUN0001"), "{text}");
    });
}
