//! Why and how a run is asked for its last answer.

use serde_json::json;

use super::bench::{Bench, bench, result_words, results};
use crate::{
    envelope::{AnswerBody, AwaitRequest, CallStatus, FinalizeReason, OutboxMessage, Termination, ToolErrorKind},
    failure::RunFailureKind,
    run::{Outcome, PlanOrder, Step},
    time::Millis,
};

/// Leads a run to a cap; the finaliser's order comes back.
type Script = fn(&mut Bench) -> PlanOrder;

#[test]
fn every_cap_ends_in_one_plan_without_tools_that_takes_no_longer_than_the_grace() {
    let cases: [(_, _, Script, _, &str); 5] = [
        (
            json!({"timeBudgetMs": 100}),
            FinalizeReason::TimeBudget,
            |bench| {
                bench.begin();
                bench.pass(100);
                bench.says(&[("read", json!({}))], Vec::new());
                bench.begin()
            },
            "The time for this task is used up.",
            "call-0-0 refused time_budget",
        ),
        (
            json!({"maxToolCalls": 0}),
            FinalizeReason::ToolCap,
            |bench| {
                bench.turn(&[("read", json!({}))]);
                bench.begin()
            },
            "The number of tool calls for this task is used up.",
            "call-0-0 refused tool_cap",
        ),
        (
            json!({"maxConsecutiveFailedToolCalls": 1}),
            FinalizeReason::FailureCap,
            |bench| {
                bench.turn(&[("read", json!({}))]);
                bench.dispatch();
                bench.fails("call-0-0", ToolErrorKind::ToolFailed, CallStatus::Failed);
                bench.begin()
            },
            "Too many tool calls in a row have failed.",
            "call-0-0 failed tool_failed",
        ),
        (
            json!({}),
            FinalizeReason::Loop,
            |bench| {
                bench.turn(&[("read", json!({}))]);
                bench.dispatch();
                bench.ok("call-0-0");
                bench.turn(&[("read", json!({}))]);
                bench.turn(&[("read", json!({}))]);
                bench.begin()
            },
            "The same tool calls were made again and again.",
            "call-2-0 refused loop_detected",
        ),
        (
            json!({"maxToolTurns": 2}),
            FinalizeReason::ToolTurns,
            |bench| {
                for turn in 0..2 {
                    bench.turn(&[("read", json!({"turn": turn}))]);
                    bench.dispatch();
                    bench.ok(&format!("call-{turn}-0"));
                }
                bench.begin()
            },
            "The number of turns with tool calls for this task is used up.",
            "call-1-0 ok",
        ),
    ];
    for (mut policy, reason, script, why, result) in cases {
        policy["finalizerGraceMs"] = json!(700);
        let guards = json!({"loopDetection": {"consecutiveThreshold": 2, "hardCutoffThreshold": 3}});
        let mut bench = bench(policy, json!({"guards": guards}));
        let order = script(&mut bench);
        let message =
            format!("{why} Give your best final answer now, from what you know. No tool can be called any more.");
        assert_eq!(order.input.finalize, Some(Termination { reason, message }));
        assert_eq!((order.timeout, order.deadline), (Millis(700), Some(Millis(700))), "{reason:?}");
        assert_eq!(results(&order.input), [result], "{reason:?}");

        bench.says(&[("read", json!({"x": 1}))], Vec::new());
        assert_eq!(bench.step(), Step::Finish);
        let ending = bench.run.end(bench.now);
        assert_eq!(ending.outcome, Outcome::Completed { finalized: Some(reason) });
        let [OutboxMessage::ToolResults { results }] = &ending.record.outbox.messages[..] else { panic!() };
        let turn = order.input.turn;
        let last: Vec<String> = results.iter().map(result_words).collect();
        assert_eq!(last, [format!("call-{turn}-0 refused policy_denied")], "{reason:?}");
    }
}

#[test]
fn turns_with_tools_are_counted_whatever_became_of_their_calls_and_others_are_not() {
    let mut bench = bench(json!({"maxToolTurns": 2}), json!({"guards": {"loopDetection": false}}));
    bench.turn(&[("nope", json!({}))]);
    bench.begin();
    let question = json!([{"kind": "clarification", "question": "which?"}]);
    bench.says(&[], serde_json::from_value(question.clone()).unwrap());
    bench.answer("await-1", AnswerBody::Clarification { answer: "this".to_owned() });
    // The last turn with tools also asks something: that is waited for.
    bench.begin();
    bench.says(&[("read", json!({}))], serde_json::from_value(question).unwrap());
    bench.dispatch();
    bench.ok("call-2-0");
    assert_eq!((bench.step(), bench.run.state().finalize), (Step::Wait, None));
    bench.answer("await-2", AnswerBody::Clarification { answer: "that".to_owned() });
    let finaliser = bench.begin().input;
    assert_eq!(finaliser.finalize.map(|end| end.reason), Some(FinalizeReason::ToolTurns));
}

#[test]
fn a_run_without_turns_for_tools_is_asked_for_its_last_answer_at_once() {
    let mut bench = bench(json!({"maxToolTurns": 0}), json!({}));
    assert_eq!(bench.begin().input.finalize.map(|end| end.reason), Some(FinalizeReason::ToolTurns));
}

#[test]
fn a_cap_on_part_of_a_batch_lets_the_rest_run_first() {
    let mut bench = bench(json!({"maxToolCalls": 1}), json!({}));
    bench.turn(&[("read", json!(1)), ("read", json!(2))]);
    assert_eq!(bench.dispatch().len(), 1);
    assert_eq!(bench.step(), Step::Wait);
    bench.ok("call-0-0");
    let finaliser = bench.begin().input;
    assert_eq!(finaliser.finalize.as_ref().map(|end| end.reason), Some(FinalizeReason::ToolCap));
    assert_eq!(results(&finaliser), ["call-0-0 ok", "call-0-1 refused tool_cap"]);
}

#[test]
fn what_has_not_begun_when_the_time_is_up_will_not_begin_and_what_runs_may_end() {
    let mut bench = bench(json!({"timeBudgetMs": 1_000}), json!({}));
    bench.turn(&[("read", json!({})), ("pay", json!({})), ("form", json!({}))]);
    bench.dispatch();
    bench.pass(1_000);
    assert_eq!(bench.step(), Step::Wait);
    assert_eq!(
        bench.log(),
        [
            "await-1 opened",
            "await-2 opened",
            "call-0-2 handed out",
            "finalizing time_budget",
            "await-1 abandoned",
            "await-2 abandoned",
            "call-0-1 refused time_budget",
            "call-0-2 refused time_budget",
        ]
    );
    bench.ok("call-0-0");
    let finaliser = bench.begin().input;
    assert_eq!(results(&finaliser), ["call-0-0 ok", "call-0-1 refused time_budget", "call-0-2 refused time_budget"]);
}

#[test]
fn a_run_that_reaches_a_cap_closes_its_awaits() {
    let mut bench = bench(json!({"maxToolCalls": 0}), json!({}));
    bench.begin();
    let awaits = json!([
        {"kind": "clarification", "question": "which?"},
        {"kind": "questions", "toolCallId": "call-0-1", "toolName": "ask", "questions": []},
    ]);
    let awaits: Vec<AwaitRequest> = serde_json::from_value(awaits).unwrap();
    bench.says(&[("read", json!({}))], awaits);
    assert_eq!(
        bench.log(),
        [
            "call-0-0 not admitted: tool_cap",
            "call-0-0 refused tool_cap",
            "finalizing tool_cap",
            "call-0-1 refused policy_denied"
        ]
    );
    assert_eq!(bench.step(), Step::Plan);
}

#[test]
fn a_plan_that_uses_up_the_budget_is_followed_by_a_finaliser_that_is_given_all_it_was_given() {
    let mut bench = bench(json!({"timeBudgetMs": 500}), json!({}));
    bench.turn(&[("read", json!({}))]);
    bench.dispatch();
    bench.ok("call-0-0");
    let lost = bench.begin().input;
    bench.pass(500);
    bench.plan_fails(true);
    let finaliser = bench.begin().input;
    assert_eq!(finaliser.finalize.as_ref().map(|end| end.reason), Some(FinalizeReason::TimeBudget));
    assert_eq!((finaliser.head, finaliser.tool_outputs), (lost.head, lost.tool_outputs));
    assert_eq!(finaliser.outbox.events[..lost.outbox.events.len()], lost.outbox.events);
}

#[test]
fn plans_that_fail_for_good_fail_the_run() {
    let cases = [
        (json!({}), false, RunFailureKind::ModelFailed),
        (json!({}), true, RunFailureKind::ModelTimedOut),
        (json!({"timeBudgetMs": 0}), false, RunFailureKind::FinalizerFailed),
        (json!({"timeBudgetMs": 0}), true, RunFailureKind::FinalizerFailed),
    ];
    for (policy, timed_out, expected) in cases {
        let mut bench = bench(policy, json!({}));
        bench.begin();
        bench.plan_fails(timed_out);
        assert_eq!(bench.step(), Step::Finish);
        let Outcome::Failed { failure } = bench.run.end(bench.now).outcome else { panic!() };
        assert_eq!(failure.kind, expected);
    }
}
