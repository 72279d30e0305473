//! Waiting for people and for programs outside: every kind of await, in any order, and what happens when an await expires.

use serde_json::json;
use windlass_core::{
    awaits::AwaitKind,
    envelope::{AnswerBody, ProvidedToolResult},
    event::{AwaitClosure, EventBody},
    message::Message,
    run::RunStatus,
};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

fn results(items: serde_json::Value) -> AnswerBody {
    AnswerBody::ToolResults { results: serde_json::from_value::<Vec<ProvidedToolResult>>(items).unwrap() }
}

#[test]
fn a_clarification_becomes_a_user_message() {
    block_on(async {
        let turns = [
            json!({"text": "One moment.", "await": {"kind": "clarification", "question": "Which city?"}}),
            says("Weather for {{last_user}}."),
        ];
        let world = World::new(scripts([("ask", script(&turns))])).await;
        let run = world.start(agent("ask", json!([])), "weather please").await;
        let item = world.opened(&run, 1).await;
        assert_eq!((item.kind, item.prompt.as_str()), (AwaitKind::Clarification, "Which city?"));
        assert_eq!(world.ops.awaits(&run).await.unwrap(), std::slice::from_ref(&item));
        assert_eq!(world.ops.status(&run).await.unwrap().unwrap().status, RunStatus::Waiting);
        world.give(&run, &item, AnswerBody::Clarification { answer: "Oslo".into() }).await;
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("Weather for Oslo.")));
    });
}

#[test]
fn confirmations_are_answered_in_any_order_and_only_approved_calls_run() {
    block_on(async {
        let turns = [
            calls(&[("echo", json!({"pay": 1})), ("echo", json!({"pay": 2})), ("echo", json!({"pay": 3}))]),
            says("{{all_tool_results}}"),
        ];
        let world = World::new(scripts([("pay", script(&turns))])).await;
        let tools = json!([{"name": "echo", "confirmation": {"title": "Pay", "prompt": "Pay {pay}?"}}]);
        let run = world.start(agent("pay", tools), "go").await;
        let (first, second, third) =
            (world.opened(&run, 1).await, world.opened(&run, 2).await, world.opened(&run, 3).await);
        assert_eq!([&first.prompt, &second.prompt, &third.prompt], ["Pay 1?", "Pay 2?", "Pay 3?"]);
        world.approve(&run, &third).await;
        world.give(&run, &first, AnswerBody::denial(None)).await;
        world.approve(&run, &second).await;
        let output = world.result(&run).await.unwrap();
        let text = output.final_message.unwrap().plain_text();
        assert!(text.starts_with("ERROR: ") && text.ends_with("|{\"pay\":2}|{\"pay\":3}"), "{text}");
        let mut ran: Vec<_> = world.watch.seen().into_iter().map(|seen| seen.args).collect();
        ran.sort_by_key(|args| args["pay"].as_u64());
        assert_eq!(ran, [json!({"pay": 2}), json!({"pay": 3})]);
        assert_eq!(output.tool_calls, 2);
    });
}

#[test]
fn external_tools_and_questions_are_answered_from_outside() {
    block_on(async {
        let questions = json!({"kind": "questions", "tool_name": "survey", "title": "Two things", "questions": [
            {"id": "q1", "prompt": "Colour?", "options": [{"id": "r", "label": "red"}]},
            {"id": "q2", "prompt": "Size?"}
        ]});
        let turns = [
            calls(&[("browser", json!({"url": "a"})), ("browser", json!({"url": "b"})), ("echo", json!({"x": 1}))]),
            json!({"await": questions}),
            json!({"await": {"kind": "external_tools", "calls": [{"name": "scan", "args": {}}, {"name": "scan", "args": {"n": 2}}]}}),
            says("{{all_tool_results}}"),
        ];
        let world = World::new(scripts([("outside", script(&turns))])).await;
        let tools = json!([{"name": "browser", "kind": "external"}, {"name": "echo"}]);
        let run = world.start(agent("outside", tools), "go").await;

        let (a, b) = (world.opened(&run, 1).await, world.opened(&run, 2).await);
        world.give(&run, &b, results(json!([{"toolCallId": b.calls[0].tool_call_id, "result": "page b"}]))).await;
        let failed =
            json!([{"toolCallId": a.calls[0].tool_call_id, "error": {"kind": "tool_failed", "message": "no page"}}]);
        world.give(&run, &a, results(failed)).await;

        let survey = world.opened(&run, 3).await;
        assert_eq!(survey.questions.len(), 2);
        world
            .give(&run, &survey, results(json!([{"toolCallId": survey.calls[0].tool_call_id, "result": {"q1": "r"}}])))
            .await;

        let scan = world.opened(&run, 4).await;
        let both = json!([
            {"toolCallId": scan.calls[1].tool_call_id, "result": null},
            {"toolCallId": scan.calls[0].tool_call_id, "result": 7},
        ]);
        world.give(&run, &scan, results(both)).await;
        let text = world.result(&run).await.unwrap().final_message.unwrap().plain_text();
        assert!(text.starts_with("ERROR: "), "{text}");
        assert!(text.ends_with("|page b|{\"x\":1}|{\"q1\":\"r\"}|7|null"), "{text}");
    });
}

#[test]
fn expiry_has_its_own_outcome() {
    block_on(async {
        let ask = |extra: serde_json::Value| {
            let mut await_item = json!({"kind": "clarification", "question": "Which city?", "expires_in_ms": 300});
            await_item.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            script(&[json!({"await": await_item}), says("{{last_user}}")])
        };
        let approve = script(&[calls(&[("echo", json!({"a": 1}))]), says("{{last_tool_result}}")]);
        let world = World::new(scripts([
            ("default", ask(json!({"on_expiry": "default", "default_answer": "Bergen"}))),
            ("replan", ask(json!({"on_expiry": "replan"}))),
            ("fail", ask(json!({"on_expiry": "fail"}))),
            ("deny", approve),
        ]))
        .await;
        let tools = json!([{"name": "echo", "confirmation": {"expiresInMs": 300}}]);

        let (_, output) = world.answer_of(agent("default", json!([])), "go").await;
        assert_eq!(output.final_message, Some(Message::assistant("Bergen")));
        let (_, output) = world.answer_of(agent("replan", json!([])), "go").await;
        assert!(output.final_message.unwrap().plain_text().starts_with("No answer to the question"));
        let failing = world.start(agent("fail", json!([])), "go").await;
        let end = world.result(&failing).await.unwrap_err();
        assert_eq!(end.to_string(), "RUN0004: await-1 (Which city?) was not answered in time");
        let (denied, output) = world.answer_of(agent("deny", tools), "go").await;
        assert!(output.final_message.unwrap().plain_text().contains("no answer within the time limit"));
        assert_eq!(world.watch.seen(), []);
        let closed = world.bodies(&denied).await.into_iter().find_map(|body| match body {
            EventBody::AwaitClosed { outcome, actor, .. } => Some((outcome, actor)),
            _ => None,
        });
        assert_eq!(closed, Some((AwaitClosure::Expired, None)));
    });
}

#[test]
fn a_large_result_from_outside_travels_by_reference() {
    block_on(async {
        let turns = [calls(&[("browser", json!({}))]), says("{{last_tool_result}}")];
        let world = World::new(scripts([("big", script(&turns))])).await;
        let run = world.start(agent("big", json!([{"name": "browser", "kind": "external"}])), "go").await;
        let item = world.opened(&run, 1).await;
        let page = "p".repeat(300_000);
        let call = &item.calls[0].tool_call_id;
        let refused = world.reply(&run, &item, results(json!([{"toolCallId": call, "result": page}]))).await;
        assert!(refused.message.contains("send its resultRef"), "{refused:?}");
        let stored = world.ops.store().put_blob(json!(page).into()).await.unwrap();
        world.give(&run, &item, results(json!([{"toolCallId": call, "resultRef": stored}]))).await;
        let output = world.result(&run).await.unwrap();
        let final_ref = output.final_ref.unwrap();
        assert_eq!((output.final_message, final_ref.bytes > 300_000), (None, true));
        let last = world.bodies(&run).await.pop().unwrap();
        assert!(matches!(last, EventBody::Result { text, .. } if text == page));
    });
}
