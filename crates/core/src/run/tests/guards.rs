//! The loop guard and the failure cap, as a model meets them.

use serde_json::json;

use super::bench::{bench, results, said};
use crate::{
    envelope::{CallStatus, FinalizeReason, OutboxMessage, ToolErrorKind},
    message::Message,
    run::{NUDGE_MARK, Order, Step},
};

#[test]
fn a_model_that_repeats_itself_is_nudged_once_and_cut_off_at_the_seventh_call() {
    let mut bench = bench(json!({}), json!({}));
    let (mut handled, mut heard) = (0, Vec::new());
    for turn in 0..6 {
        let input = bench.turn(&[("read", json!({"page": 1}))]);
        heard.push((results(&input), said(&input).len()));
        if bench.step() == Step::Dispatch {
            handled += bench.run.dispatch(bench.now).len();
            bench.ok(&format!("call-{turn}-0"));
        }
    }
    let seventh = bench.begin().input;
    assert_eq!(seventh.finalize.as_ref().map(|end| end.reason), Some(FinalizeReason::Loop));
    assert_eq!(handled, 2);
    let given = |result: &str, words: usize| (vec![result.to_owned()], words);
    assert_eq!(
        heard,
        [
            (Vec::new(), 0),
            given("call-0-0 ok", 0),
            given("call-1-0 ok", 0),
            given("call-2-0 refused loop_detected", 1),
            given("call-3-0 refused loop_detected", 0),
            given("call-4-0 refused loop_detected", 0),
        ]
    );
    assert_eq!(results(&seventh), ["call-5-0 refused loop_detected"]);
    assert!(said(&seventh).is_empty());
}

#[test]
fn the_nudge_can_be_told_from_what_people_say() {
    let mut bench = bench(json!({}), json!({}));
    for turn in 0..3 {
        bench.turn(&[("read", json!({}))]);
        if turn < 2 {
            bench.dispatch();
            bench.ok(&format!("call-{turn}-0"));
        }
    }
    assert_eq!(bench.log(), ["call-2-0 not admitted: loop_detected", "call-2-0 refused loop_detected", "loop of 3"]);
    let input = bench.begin().input;
    let [OutboxMessage::Message { message }] = &input.outbox.messages[..] else { panic!() };
    let mut nudge = Message::user(
        "You have made the same tool calls several times in a row. They will not be executed again. \
         Use the results you have, try something different, or answer now.",
    );
    nudge.meta.insert(NUDGE_MARK.to_owned(), json!(true));
    assert_eq!(*message, nudge);
}

#[test]
fn a_call_above_its_budget_gets_a_result_first_and_then_an_event() {
    let budgets = |budgets: serde_json::Value| json!({"guards": {"toolBudgets": budgets}});
    let recalls = |agent: serde_json::Value| {
        let mut bench = bench(json!({}), agent);
        bench.turn(&[("read", json!(1)), ("read", json!(2)), ("read", json!(3))]);
        bench.log()
    };
    assert_eq!(
        recalls(budgets(json!({"read": {"maxCalls": 1}}))),
        [
            "call-0-1 not admitted: tool_budget_exceeded",
            "call-0-1 refused tool_budget_exceeded",
            "read budget 1, attempt 2",
            "call-0-2 not admitted: tool_budget_exceeded",
            "call-0-2 refused tool_budget_exceeded",
            "read budget 1, attempt 3",
        ]
    );
    assert!(recalls(budgets(json!({}))).is_empty());
}

#[test]
fn without_the_loop_guard_the_turns_with_tools_still_end() {
    let mut bench = bench(json!({"maxToolTurns": 8}), json!({"guards": {"loopDetection": false}}));
    for turn in 0..8 {
        bench.turn(&[("read", json!({"page": 1}))]);
        bench.dispatch();
        bench.ok(&format!("call-{turn}-0"));
    }
    let last = bench.begin().input;
    assert_eq!(last.finalize.map(|end| end.reason), Some(FinalizeReason::ToolTurns));
}

/// What becomes of the calls of one batch, by call order.
#[derive(Clone, Copy)]
enum End {
    Ok,
    Failed,
    Unknown,
    Invalid,
    NoSuchTool,
    Denied,
}

#[test]
fn failures_in_a_row_are_counted_in_call_order_whatever_order_calls_end_in() {
    use End::{Denied, Failed, Invalid, NoSuchTool, Ok, Unknown};
    let cases: [(&[End], u32); 9] = [
        (&[Failed, Failed, Ok], 0),
        (&[Ok, Failed, Failed], 2),
        (&[Failed, Ok, Failed], 1),
        (&[Failed, Denied, Failed], 2),
        (&[Unknown, Failed], 2),
        (&[Ok, Invalid, NoSuchTool], 2),
        (&[Invalid, NoSuchTool, Ok], 0),
        (&[Denied], 0),
        (&[Failed, Denied], 1),
    ];
    for (ends, streak) in cases {
        let cap = streak.max(1);
        let mut bench = bench(json!({"maxConsecutiveFailedToolCalls": cap}), json!({}));
        let calls = ends.iter().enumerate().map(|(index, end)| match end {
            Ok | Failed | Unknown => ("read", json!({"n": index})),
            Invalid => ("read", json!(null)),
            NoSuchTool => ("nope", json!({})),
            Denied => ("pay", json!({})),
        });
        bench.turn(&calls.collect::<Vec<_>>());
        if bench.step() == Step::Dispatch {
            bench.run.dispatch(bench.now);
        }
        // The last call ends first.
        for (index, end) in ends.iter().enumerate().rev() {
            let call = format!("call-0-{index}");
            match end {
                Ok => bench.ok(&call),
                Failed => bench.fails(&call, ToolErrorKind::ToolFailed, CallStatus::Failed),
                Unknown => bench.fails(&call, ToolErrorKind::OutcomeUnknown, CallStatus::OutcomeUnknown),
                Invalid | NoSuchTool => {}
                Denied => {
                    let no = crate::envelope::AnswerBody::denial(None);
                    bench.answer("await-1", no);
                }
            }
        }
        let reached = (streak >= cap).then_some(FinalizeReason::FailureCap);
        assert_eq!((bench.run.state().failure_streak, bench.run.state().finalize), (streak, reached));
    }
}

#[test]
fn the_streak_goes_on_across_turns_until_something_works() {
    let mut bench = bench(json!({"maxConsecutiveFailedToolCalls": 3}), json!({}));
    for (turn, works) in [false, false, true, false, false, false].into_iter().enumerate() {
        assert_eq!(bench.run.state().finalize, None, "turn {turn}");
        bench.turn(&[("read", json!({"n": turn}))]);
        bench.dispatch();
        let call = format!("call-{turn}-0");
        if works { bench.ok(&call) } else { bench.fails(&call, ToolErrorKind::Timeout, CallStatus::Failed) }
    }
    assert_eq!(bench.run.state().finalize, Some(FinalizeReason::FailureCap));
}

#[test]
fn a_denied_call_gives_its_place_under_the_cap_back() {
    let mut bench = bench(json!({"maxToolCalls": 1}), json!({}));
    bench.turn(&[("pay", json!({}))]);
    bench.answer("await-1", crate::envelope::AnswerBody::denial(None));
    bench.turn(&[("read", json!({}))]);
    assert!(matches!(&bench.dispatch()[..], [Order::Tool(_)]));
}
