//! `kill -9` of the worker while many runs have models and tools in flight.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use windlass_core::{
    envelope::{CallStatus, Tuning},
    event::{Event, EventBody},
    ids::{RunId, WorkspaceId},
    time::Millis,
};
use windlass_ops::{RunOps, StartRun};

use super::scale;
use crate::support::{
    agent, block_on, calls, checks,
    process::Workshop,
    says, script, server,
    tools::tally,
    world::{client, open_store, scripts},
};

const TURNS: usize = 3;

#[test]
fn a_killed_worker_costs_nothing_that_was_recorded() {
    let runs = scale("WINDLASS_CHAOS_RUNS", 24);
    let kills = 3;
    block_on(async {
        let mut turns: Vec<_> = (0..TURNS)
            .map(|turn| {
                let mut turn_calls =
                    calls(&[("once", json!({"ms": 150, "n": turn})), ("again", json!({"ms": 100, "n": turn}))]);
                turn_calls["deltas"] = json!(["think", "ing ", "of it"]);
                turn_calls["delta_delay_ms"] = json!(10);
                turn_calls
            })
            .collect();
        turns.push(says("done"));
        let workshop = Workshop::new(&server::shared().address, &scripts([("work", script(&turns))]));
        let store = std::sync::Arc::new(open_store(workshop.dir.path()));
        let ops = RunOps::new(client().await, store, workshop.task_queue.clone(), WorkspaceId::new("chaos"));
        let mut worker = workshop.spawn();
        let mut started = Vec::new();
        for _ in 0..runs {
            let mut start = StartRun::new(agent("work", json!([{"name": "once"}, {"name": "again"}])), "go");
            start.tuning = Some(Tuning {
                heartbeat_timeout_ms: Some(Millis(1500)),
                plan_retry_interval_ms: Some(Millis(100)),
                ..Tuning::default()
            });
            started.push(ops.start(start).await.unwrap());
        }
        for kill in 0..kills {
            // In the middle of it: some calls have begun, others have not.
            worker.wait_for(if kill % 2 == 0 { "begin-once" } else { "ask" }, runs / 3);
            drop(worker);
            worker = workshop.spawn();
        }
        let mut events = BTreeMap::new();
        for run in &started {
            let output = tokio::time::timeout(std::time::Duration::from_secs(300), ops.result(run)).await;
            let output = output.expect("every run finishes").unwrap();
            assert_eq!(output.turns as usize, TURNS + 1);
            events.insert(run.clone(), ops.store().events(run, 0, 100_000).await.unwrap());
            let row = ops.store().run(run).await.unwrap().unwrap();
            let transcript = ops.store().transcript(run, row.head).await.unwrap();
            checks::every_call_has_one_result(&transcript);
        }
        drop(worker);
        judge(&workshop, &events, kills);
    });
}

fn judge(workshop: &Workshop, events: &BTreeMap<RunId, Vec<Event>>, kills: usize) {
    let ledger = workshop.ledger();
    let mut unknown = BTreeSet::new();
    let mut journalled_at = BTreeMap::new();
    for (run, log) in events {
        checks::log_is_gapless_with_one_terminal_event_at_its_end(log);
        for event in log {
            match event.body().unwrap() {
                EventBody::ToolResult { tool_use_id, status: CallStatus::OutcomeUnknown, .. } => {
                    unknown.insert((run.to_string(), tool_use_id.to_string()));
                }
                EventBody::AssistantMessage { turn, .. } => {
                    journalled_at.insert((run.to_string(), turn.to_string()), event.at.0);
                }
                _ => {}
            }
        }
    }
    let of = |what: &str| ledger.iter().filter(|entry| entry.what == what).cloned().collect::<Vec<_>>();
    let key = |entry: &crate::support::process::Entry| (entry.run.clone(), entry.item.clone());

    // A non-idempotent call begins at most once; one that began and never ended has the status unknown.
    let begun = tally(of("begin-once").iter().map(key));
    let ended: BTreeSet<_> = of("end-once").iter().map(key).collect();
    for (call, times) in &begun {
        assert_eq!(*times, 1, "{call:?} ran {times} times");
        if !ended.contains(call) {
            assert!(unknown.contains(call), "{call:?} began, did not end, and is not reported as unknown");
        }
    }
    // A response that was journalled is not asked for again.
    let asks = of("ask");
    let paid_twice = asks.iter().filter(|ask| journalled_at.get(&key(ask)).is_some_and(|at| ask.at > *at)).count();
    assert_eq!(paid_twice, 0, "recorded responses were paid for again");

    let turns = events.len() * (TURNS + 1);
    println!(
        "chaos: {} runs, {kills} kills of the worker; all completed\n\
         model: {turns} turns, {} questions asked ({} lost before they were recorded), 0 recorded responses paid twice\n\
         tools: {} non-idempotent calls begun once each, {} of {} calls ended outcome_unknown, {} idempotent calls begun {} times\n\
         log:   {} events, every seq gapless, one terminal event each",
        events.len(),
        asks.len(),
        asks.len() - turns,
        begun.len(),
        unknown.len(),
        events.len() * TURNS * 2,
        events.len() * TURNS,
        of("begin-again").len(),
        events.values().map(Vec::len).sum::<usize>(),
    );
}
