//! Caps, budgets, guards, the time budget and the finaliser.

use serde_json::{Value, json};
use windlass_core::{
    envelope::{FinalizeReason, GuardOverrides, PolicyOverrides, RunOutput},
    event::EventBody,
    message::Message,
};

use crate::support::{World, agent, block_on, calls, checks, says, script, world::scripts};

/// Runs script `it` with the echo, fail and gate tools under this policy and these guards.
async fn run_under(world: &World, policy: Value, guards: Value) -> (windlass_core::ids::RunId, RunOutput) {
    let tools = json!([{"name": "echo"}, {"name": "fail"}, {"name": "gate"}]);
    let run = world
        .start_with(agent("it", tools), "go", |start| {
            start.policy = Some(serde_json::from_value::<PolicyOverrides>(policy).unwrap());
            start.guards = Some(serde_json::from_value::<GuardOverrides>(guards).unwrap());
        })
        .await;
    let output = world.result(&run).await.unwrap();
    (run, output)
}

fn endless(turn: Value) -> Value {
    scripts([("it", json!({"turns": [turn], "repeat_last": true, "finalize": "final words"}))])
}

#[test]
fn the_loop_guard_nudges_once_and_cuts_off() {
    block_on(async {
        let world = World::new(endless(calls(&[("echo", json!({"same": 1}))]))).await;
        let (run, output) = run_under(&world, json!({}), json!({})).await;
        assert_eq!(output.final_message, Some(Message::assistant("final words")));
        assert_eq!((output.finalized, output.turns, world.watch.count("echo")), (Some(FinalizeReason::Loop), 7, 2));
        let loops: Vec<(u32, bool)> = world
            .bodies(&run)
            .await
            .into_iter()
            .filter_map(|body| match body {
                EventBody::LoopDetected { consecutive_count, hard_cutoff, .. } => {
                    Some((consecutive_count, hard_cutoff))
                }
                _ => None,
            })
            .collect();
        assert_eq!(loops, [(3, false), (6, true)]);
        let nudges = world.transcript(&run).await.into_iter().filter(|message| !message.meta.is_empty()).count();
        assert_eq!(nudges, 1);
    });
}

#[test]
fn the_total_cap_executes_what_it_allows_and_then_finalises() {
    block_on(async {
        let batch = calls(&[("echo", json!({"n": 1})), ("echo", json!({"n": 2}))]);
        let world = World::new(endless(batch)).await;
        let (run, output) = run_under(&world, json!({"maxToolCalls": 3}), json!({"loopDetection": false})).await;
        assert_eq!((output.finalized, output.tool_calls), (Some(FinalizeReason::ToolCap), 3));
        assert_eq!(world.watch.count("echo"), 3);
        let refused = world.bodies(&run).await.into_iter().filter(|body| matches!(body, EventBody::CallRefused { .. }));
        assert_eq!(refused.count(), 1);
    });
}

#[test]
fn failures_in_a_row_finalise() {
    block_on(async {
        let world = World::new(endless(calls(&[("fail", json!({}))]))).await;
        let policy = json!({"maxConsecutiveFailedToolCalls": 2});
        let (_, output) = run_under(&world, policy, json!({"loopDetection": false})).await;
        assert_eq!((output.finalized, world.watch.count("fail")), (Some(FinalizeReason::FailureCap), 2));
    });
}

#[test]
fn the_time_budget_stops_a_tool_and_the_finaliser_still_answers() {
    block_on(async {
        let world = World::new(endless(calls(&[("gate", json!({}))]))).await;
        let (run, output) = run_under(&world, json!({"timeBudgetMs": 700}), json!({})).await;
        assert_eq!(output.finalized, Some(FinalizeReason::TimeBudget));
        assert_eq!(output.final_message, Some(Message::assistant("final words")));
        assert_eq!(world.kinds(&run).await.last().map(String::as_str), Some("result"));
        assert!(output.active_ms.0 >= 700, "{:?}", output.active_ms);
    });
}

#[test]
fn tool_budgets_refuse_and_say_so() {
    block_on(async {
        let turns = [
            calls(&[("echo", json!({"n": 1})), ("echo", json!({"n": 2}))]),
            calls(&[("echo", json!({"n": 3}))]),
            says("{{all_tool_results}}"),
        ];
        let world = World::new(scripts([("it", script(&turns))])).await;
        let guards = json!({"toolBudgets": {"echo": {"maxCalls": 1}}});
        let (run, output) = run_under(&world, json!({"perTurnMaxToolCalls": 5}), guards).await;
        assert_eq!(world.watch.count("echo"), 1);
        assert!(output.final_message.unwrap().plain_text().starts_with("{\"n\":1}|ERROR: "));
        let exceeded: Vec<u32> = world
            .bodies(&run)
            .await
            .into_iter()
            .filter_map(|body| match body {
                EventBody::ToolBudgetExceeded { call_index, max_calls: 1, .. } => Some(call_index),
                _ => None,
            })
            .collect();
        assert_eq!(exceeded, [2, 3]);
    });
}

#[test]
fn policy_filters_what_is_offered_and_what_is_admitted_alike() {
    block_on(async {
        let turns = [calls(&[("gate", json!({})), ("echo", json!({"n": 1}))]), says("{{tools}} {{all_tool_results}}")];
        let world = World::new(scripts([("it", script(&turns))])).await;
        let (_, output) =
            run_under(&world, json!({"deniedTags": ["write"], "perToolTimeoutMs": {"ec*": 5000}}), json!({})).await;
        let text = output.final_message.unwrap().plain_text();
        assert!(text.starts_with("echo,fail ERROR: ") && text.ends_with("|{\"n\":1}"), "{text}");
        assert_eq!(world.watch.names(), ["echo"]);
    });
}

#[test]
fn a_tool_that_is_too_slow_is_timed_out_and_its_outcome_is_unknown() {
    block_on(async {
        let turns = [calls(&[("gate", json!({}))]), says("{{last_tool_result}}")];
        let world = World::new(scripts([("it", script(&turns))])).await;
        let (_, output) = run_under(&world, json!({"perToolTimeoutMs": {"ga*": 300}}), json!({})).await;
        let text = output.final_message.unwrap().plain_text();
        assert!(text.starts_with("ERROR: ") && text.contains("outcome unknown"), "{text}");
        assert_eq!(world.watch.count("gate"), 1, "it is not tried again");
    });
}

#[test]
fn a_budget_that_ends_in_the_middle_of_an_answer_leads_to_the_finaliser() {
    block_on(async {
        let slow = json!({"deltas": ["one ", "two ", "three"], "delta_delay_ms": 3000});
        let world = World::new(scripts([("it", json!({"turns": [slow], "finalize": "final words"}))])).await;
        let (run, output) = run_under(&world, json!({"timeBudgetMs": 1000}), json!({})).await;
        assert_eq!(output.final_message, Some(Message::assistant("final words")));
        assert_eq!((output.finalized, output.turns), (Some(FinalizeReason::TimeBudget), 2));
        assert!(world.kinds(&run).await.contains(&"finalizing".to_owned()));
    });
}

#[test]
fn an_answer_that_came_just_too_late_is_not_mixed_into_the_finaliser() {
    block_on(async {
        // The answers come at about the moment the budget ends; whichever wins, the conversation stays whole.
        let turns = [json!({"delay_ms": 1000, "tool_calls": [{"name": "echo", "args": {"n": 1}}]})];
        let world =
            World::new(scripts([("it", json!({"turns": turns, "repeat_last": true, "finalize": "final words"}))]))
                .await;
        let runs = (0..8).map(|n| run_under(&world, json!({"timeBudgetMs": 980 + 10 * n}), json!({})));
        for (run, output) in futures_util::future::join_all(runs).await {
            assert_eq!(output.final_message, Some(Message::assistant("final words")));
            assert_eq!(output.finalized, Some(FinalizeReason::TimeBudget));
            checks::every_call_has_one_result(&world.transcript(&run).await);
            checks::log_is_gapless_with_one_terminal_event_at_its_end(&world.events(&run).await);
        }
    });
}
