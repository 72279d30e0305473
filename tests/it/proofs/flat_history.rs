//! Flat history: step one thousand costs what step one did, however long the conversation.

use prost::Message as _;
use serde_json::json;
use temporalio_client::{Client, UntypedWorkflow, WorkflowExecutionInfo, WorkflowHandle};
use temporalio_protos::temporal::api::history::v1::{HistoryEvent, history_event::Attributes};
use windlass_core::{ids::RunId, message::Message, time::Millis};

use super::scale;
use crate::support::{World, agent, block_on, calls, meter::Meter, server, world::scripts};

/// About 200,000 tokens.
const CONVERSATION_CHARS: usize = 800_000;
const RESULT_BYTES: u64 = 5_000;

#[test]
fn a_thousand_turns_cost_the_same_each() {
    let turns = scale("WINDLASS_FLAT_TURNS", 60);
    block_on(async {
        // Every turn asks for something new, so that the loop guard has nothing to say.
        let mut script_turns: Vec<_> =
            (0..turns - 1).map(|turn| calls(&[("echo", json!({"bytes": RESULT_BYTES, "turn": turn}))])).collect();
        script_turns.push(json!({"text": "finished"}));
        let meter = Meter::in_front_of(&server::shared().address).await;
        let world = World::at(&meter.address, scripts([("long", json!({"turns": script_turns}))])).await;
        world.start_worker();
        let conversation: Vec<Message> = (0..200)
            .map(|n| {
                let text = format!("{n} {}", "word ".repeat(CONVERSATION_CHARS / 200 / 5));
                if n % 2 == 0 { Message::user(text) } else { Message::assistant(text) }
            })
            .chain([Message::user("go")])
            .collect();
        let before = meter.sent();
        let run = world
            .start_with(agent("long", json!([{"name": "echo"}])), "", |start| {
                start.messages = conversation;
                if let Some(tuning) = &mut start.tuning {
                    tuning.heartbeat_timeout_ms = Some(Millis::from_secs(30));
                }
            })
            .await;
        let begun = std::time::Instant::now();
        let output = tokio::time::timeout(std::time::Duration::from_secs(1500), world.ops.result(&run)).await;
        let output = output.expect("the run finishes").unwrap();
        let took = begun.elapsed();
        assert_eq!((output.turns as usize, output.tool_calls as usize), (turns, turns - 1));
        let shipped = meter.sent() - before;

        let (executions, events) = whole_history(world.ops.client(), &run).await;
        let per_turn = bytes_per_turn(&events);
        assert_eq!(per_turn.len(), turns);
        let total: usize = events.iter().map(HistoryEvent::encoded_len).sum();
        let at = |turn: usize| per_turn[turn.min(turns - 2)];
        let marks = [10, turns / 2, turns - 10];
        println!(
            "flat history: {turns} turns over a conversation of {} tokens, tool results of {RESULT_BYTES} bytes, {:.0?}",
            CONVERSATION_CHARS / 4,
            took
        );
        for mark in marks {
            println!("  history bytes of turn {mark:>4}: {}", at(mark));
        }
        println!("  history in all: {total} bytes in {} events over {executions} executions", events.len());
        println!("  shipped to the server: {shipped} bytes ({} per turn)", shipped / turns as u64);
        println!("  resending the conversation each turn would ship {} bytes", resent(turns));

        // Numbers grow by a digit now and then; nothing else may.
        let (early, late) = (at(marks[0]), at(marks[2]));
        assert!(late <= early + early / 10, "turn {} costs {late} bytes, turn 10 {early}", marks[2]);
    });
}

/// What a planner that is sent the whole conversation with every call would ship.
fn resent(turns: usize) -> usize {
    (0..turns).map(|turn| CONVERSATION_CHARS + turn * (RESULT_BYTES as usize + 100)).sum()
}

/// The events of every execution of the run, oldest first, and how many executions there were.
async fn whole_history(client: &Client, run: &RunId) -> (usize, Vec<HistoryEvent>) {
    let mut executions = Vec::new();
    let latest = client.get_workflow_handle::<UntypedWorkflow>(run.to_string());
    let mut events = history(&latest).await;
    loop {
        let previous = match events.first().and_then(|event| event.attributes.clone()) {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(start)) => start.continued_execution_run_id,
            _ => String::new(),
        };
        executions.push(events);
        if previous.is_empty() {
            break;
        }
        let info = WorkflowExecutionInfo::builder().namespace("default").workflow_id(run.to_string()).run_id(previous);
        events = history(&WorkflowHandle::<_, UntypedWorkflow>::new(client.clone(), info.build())).await;
    }
    let count = executions.len();
    (count, executions.into_iter().rev().flatten().collect())
}

async fn history(handle: &WorkflowHandle<Client, UntypedWorkflow>) -> Vec<HistoryEvent> {
    handle.fetch_history(Default::default()).into_events().await.unwrap()
}

/// The history bytes from one plan to the next. What an execution carries over to its successor is not part of a turn.
fn bytes_per_turn(events: &[HistoryEvent]) -> Vec<usize> {
    let mut turns: Vec<usize> = Vec::new();
    for event in events {
        match &event.attributes {
            Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled))
                if scheduled.activity_type.as_ref().is_some_and(|kind| kind.name == "windlass.plan") =>
            {
                turns.push(0);
            }
            Some(
                Attributes::WorkflowExecutionStartedEventAttributes(_)
                | Attributes::WorkflowExecutionContinuedAsNewEventAttributes(_),
            ) => continue,
            _ => {}
        }
        if let Some(turn) = turns.last_mut() {
            *turn += event.encoded_len();
        }
    }
    turns
}
