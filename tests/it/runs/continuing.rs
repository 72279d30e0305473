//! Continue-as-new: clients never notice.

use serde_json::json;
use windlass_core::{
    envelope::{AnswerBody, Tuning, WorkflowOptions},
    message::Message,
};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

#[test]
fn a_run_continues_as_new_with_its_awaits_counters_and_log() {
    block_on(async {
        let mut turns: Vec<_> = (0..6).map(|n| calls(&[("echo", json!({"n": n}))])).collect();
        turns.push(json!({"await": {"kind": "clarification", "question": "city?"}}));
        turns.extend((6..12).map(|n| calls(&[("echo", json!({"n": n}))])));
        turns.push(says("{{all_tool_results}} {{last_user}}"));
        let world = World::new(scripts([("long", script(&turns))])).await;
        let run = world
            .start_with(agent("long", json!([{"name": "echo"}])), "go", |start| {
                start.tuning = Some(Tuning { continue_as_new_events: Some(40), ..Tuning::default() });
                start.workflow_options = Some(WorkflowOptions {
                    memo: [("ticket".to_owned(), json!("T-7"))].into(),
                    ..WorkflowOptions::default()
                });
            })
            .await;
        let item = world.opened(&run, 1).await;
        world.give(&run, &item, AnswerBody::Clarification { answer: "Oslo".into() }).await;
        let output = world.result(&run).await.unwrap();
        let results: Vec<String> = (0..12).map(|n| format!("{{\"n\":{n}}}")).collect();
        assert_eq!(output.final_message, Some(Message::assistant(format!("{} Oslo", results.join("|")))));
        assert_eq!((output.turns, output.tool_calls), (14, 12));
        let seqs: Vec<u64> = world.events(&run).await.into_iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
        let handle = world.ops.client().get_workflow_handle::<temporalio_client::UntypedWorkflow>(run.to_string());
        let description = handle.describe(Default::default()).await.unwrap();
        let info = description.raw().workflow_execution_info.clone().unwrap();
        assert_ne!(info.first_run_id, info.execution.unwrap().run_id, "it did continue as new");
        let memo = info.memo.unwrap().fields;
        assert_eq!(String::from_utf8_lossy(&memo["ticket"].data), "\"T-7\"");
        let attributes = info.search_attributes.unwrap().indexed_fields;
        let status = String::from_utf8_lossy(&attributes["WindlassStatus"].data).into_owned();
        assert_eq!(status, "\"completed\"");
    });
}
