//! Wrong answers: the run goes on, its state is unchanged, each is recorded.

use serde_json::{Value, json};
use temporalio_client::UntypedSignal;
use temporalio_common::data_converters::RawValue;
use temporalio_protos::temporal::api::common::v1::Payload;
use windlass_core::{
    canonical::Digest,
    envelope::{Answer, AnswerBody, AnswerStatus},
    event::EventBody,
    ids::{AwaitId, RunId},
    message::Message,
};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

async fn state_digest(world: &World, run: &RunId) -> Digest {
    world.ops.status(run).await.unwrap().unwrap().state_digest
}

/// Sends any bytes as a signal, as a careless tool would.
pub(super) async fn signal(world: &World, run: &RunId, name: &str, encoding: &str, data: &[u8]) {
    let payload = Payload {
        metadata: [("encoding".to_owned(), encoding.as_bytes().to_vec())].into(),
        data: data.to_vec(),
        ..Payload::default()
    };
    let handle = world.ops.client().get_workflow_handle::<temporalio_client::UntypedWorkflow>(run.to_string());
    handle.signal(UntypedSignal::new(name), RawValue::new(vec![payload]), Default::default()).await.unwrap();
}

#[test]
fn wrong_answers_leave_the_state_as_it_was_and_are_recorded() {
    block_on(async {
        let turns = [calls(&[("echo", json!({"pay": 1}))]), says("done: {{last_tool_result}}")];
        let world = World::new(scripts([("pay", script(&turns))])).await;
        let run = world.start(agent("pay", json!([{"name": "echo", "confirmation": {}}])), "go").await;
        let item = world.opened(&run, 1).await;
        let before = state_digest(&world, &run).await;

        let approve = |digest| AnswerBody::Confirmation { approved: true, digest, reason: None, grant: None };
        let right = item.calls[0].digest;
        let wrong = Digest::of_json(&json!({"pay": 1_000_000}));
        let cases = [
            (Answer::new(AwaitId::new("await-9"), "ann", approve(Some(right))), AnswerStatus::Unknown),
            (Answer::new(item.id.clone(), "ann", approve(Some(wrong))), AnswerStatus::Invalid),
            (Answer::new(item.id.clone(), "ann", approve(None)), AnswerStatus::Invalid),
            (Answer::new(item.id.clone(), "", approve(Some(right))), AnswerStatus::Invalid),
            (
                Answer::new(item.id.clone(), "ann", AnswerBody::Clarification { answer: "yes".into() }),
                AnswerStatus::Invalid,
            ),
        ];
        for (answer, expected) in &cases {
            assert_eq!(world.ops.answer(&run, answer).await.unwrap().status, *expected, "{answer:?}");
            assert_eq!(state_digest(&world, &run).await, before, "{answer:?}");
        }

        for (name, encoding, data) in [
            ("windlass.provide_confirmation", "binary/plain", &b"\xff\xfe\x00garbage"[..]),
            ("windlass.provide_confirmation", "json/plain", b"{\"id\": 7}"),
            ("windlass.provide_tool_results", "json/plain", b"[[["),
            ("windlass.pause", "json/plain", b"\"now\""),
            ("windlass.pause", "json/plain", b"{\"runId\": \"another-run\"}"),
            ("windlass.resume", "json/plain", b"{}"),
            ("loom_mcp.runtime.provide.clarification", "json/plain", b"{\"ID\": \"await-1\", \"Answer\": \"x\"}"),
            ("no.such.signal", "json/plain", b"{}"),
        ] {
            signal(&world, &run, name, encoding, data).await;
        }
        assert_eq!(state_digest(&world, &run).await, before);

        world.approve(&run, &item).await;
        let duplicate = world.reply(&run, &item, approve(Some(right))).await;
        let late = world.reply(&run, &item, AnswerBody::denial(None)).await;
        // The run may have ended by now; both answers come too late either way.
        assert!([AnswerStatus::Duplicate, AnswerStatus::Stale].contains(&duplicate.status), "{duplicate:?}");
        assert_eq!(late.status, AnswerStatus::Stale);
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("done: {\"pay\":1}")));

        let rejected = world.bodies(&run).await;
        let answers: Vec<AnswerStatus> = rejected
            .iter()
            .filter_map(|body| match body {
                EventBody::AnswerRejected { status, .. } => Some(*status),
                _ => None,
            })
            .collect();
        assert_eq!(answers[..5], cases.map(|(_, status)| status), "each is in the log, in order");
        let mut signals: Vec<&str> = rejected
            .iter()
            .filter_map(|body| match body {
                EventBody::SignalRejected { signal, .. } => Some(signal.as_str()),
                _ => None,
            })
            .collect();
        let expected = [
            "windlass.provide_confirmation",
            "windlass.provide_confirmation",
            "windlass.provide_tool_results",
            "windlass.pause",
            "windlass.pause",
            "windlass.resume",
        ];
        // The worker logs this one when it arrives, the run the others when it next writes.
        assert_eq!(signals.extract_if(.., |signal| *signal == "no.such.signal").count(), 1);
        assert_eq!(signals, expected);
    });
}

#[test]
fn an_answer_after_the_expiry_is_expired() {
    block_on(async {
        let turns = [
            json!({"await": [
                {"kind": "clarification", "question": "first?", "expires_in_ms": 200},
                {"kind": "clarification", "question": "second?"}
            ]}),
            says("{{user_count}}"),
        ];
        let world = World::new(scripts([("slow", script(&turns))])).await;
        let run = world.start(agent("slow", json!([])), "go").await;
        let (first, second) = (world.opened(&run, 1).await, world.opened(&run, 2).await);
        world.event(&run, |body| matches!(body, EventBody::AwaitClosed { .. })).await;
        let before = state_digest(&world, &run).await;
        let answer = || AnswerBody::Clarification { answer: "here".into() };
        assert_eq!(world.reply(&run, &first, answer()).await.status, AnswerStatus::Expired);
        assert_eq!(state_digest(&world, &run).await, before);
        world.give(&run, &second, answer()).await;
        assert_eq!(world.result(&run).await.unwrap().final_message, Some(Message::assistant("3")));
    });
}

#[test]
fn signals_of_loom_mcp_work_under_their_names_and_with_go_field_names() {
    block_on(async {
        let turns = [
            json!({"await": {"kind": "clarification", "question": "city?"}}),
            calls(&[("echo", json!({"a": 1})), ("browser", json!({}))]),
            says("{{first_user}} {{all_tool_results}}"),
        ];
        let world = World::new(scripts([("loom", script(&turns))])).await;
        let tools = json!([{"name": "echo", "confirmation": {}}, {"name": "browser", "kind": "external"}]);
        let run = world.start(agent("loom", tools), "go").await;
        let send = |name: &'static str, body: Value| {
            let (world, run) = (&world, run.clone());
            async move { signal(world, &run, name, "json/plain", body.to_string().as_bytes()).await }
        };
        let city = world.opened(&run, 1).await;
        send("loom_mcp.runtime.pause", json!({"RunID": run, "Reason": "lunch", "RequestedBy": "ann"})).await;
        world.event(&run, |body| matches!(body, EventBody::Paused { .. })).await;
        send("loom_mcp.runtime.provide.clarification", json!({"RunID": run, "ID": city.id, "Answer": "Oslo"})).await;
        send("loom_mcp.runtime.resume", json!({"RunID": run, "RequestedBy": "ann", "Labels": null})).await;
        let (confirm, external) = (world.opened(&run, 2).await, world.opened(&run, 3).await);
        let decision = json!({"RunID": run, "ID": confirm.id, "Approved": true, "RequestedBy": "ann"});
        send("loom_mcp.runtime.provide.confirmation", decision).await;
        let call = &external.calls[0].tool_call_id;
        let results =
            json!({"ID": external.id, "Results": [{"Name": "browser", "ToolCallID": call, "Result": {"PageID": 1}}]});
        send("loom_mcp.runtime.provide.toolresults", results).await;
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("go {\"a\":1}|{\"PageID\":1}")));
    });
}
