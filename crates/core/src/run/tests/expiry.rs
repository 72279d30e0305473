//! Awaits that expire: each kind, each outcome.

use serde_json::{Value, json};

use super::bench::{Bench, bench, results, said};
use crate::{
    envelope::{AnswerBody, AnswerStatus, AwaitRequest, CallStatus, FinalizeReason, ToolErrorKind},
    failure::{RunFailure, RunFailureKind},
    run::{Outcome, Step},
    time::Timestamp,
};

const OUTCOMES: [&str; 4] = ["deny", "default", "replan", "fail"];

/// A run with one await that expires after a second.
fn waiting(kind: &str, outcome: &str, default: Option<&str>) -> Bench {
    let expiry = json!({"expiresInMs": 1_000, "onExpiry": outcome});
    let tools = json!([
        {"name": "pay", "confirmation": expiry},
        {"name": "form", "kind": "external", "expiresInMs": 1_000, "onExpiry": outcome},
    ]);
    let mut bench = bench(json!({}), json!({"tools": tools}));
    bench.begin();
    let planned = |fields: Value| -> Vec<AwaitRequest> {
        let mut request = json!({"kind": kind, "expiresInMs": 1_000, "onExpiry": outcome});
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        vec![serde_json::from_value(request).unwrap()]
    };
    match kind {
        "clarification" => bench.says(&[], planned(json!({"question": "which?", "defaultAnswer": default}))),
        "questions" => {
            let question = json!({"id": "q", "prompt": "which?"});
            let fields = json!({"toolCallId": "call-0-0", "toolName": "ask", "questions": [question]});
            bench.says(&[], planned(fields));
        }
        "external_tools" => {
            let call =
                json!({"toolCallId": "call-0-0", "name": "ring", "payloadBytes": 2, "payloadDigest": "0".repeat(64)});
            bench.says(&[], planned(json!({"calls": [call]})));
        }
        tool => bench.says(&[(tool, json!({}))], Vec::new()),
    }
    bench
}

#[test]
fn an_expired_question_is_reported_to_the_model_or_fails_the_run() {
    let unanswered = "No answer to the question \"which?\" within the time limit. Continue without it.";
    let cases = [
        ("deny", Some("the first"), unanswered),
        ("default", Some("the first"), "the first"),
        ("default", None, unanswered),
        ("replan", Some("the first"), unanswered),
    ];
    for (outcome, default, heard) in cases {
        let mut bench = waiting("clarification", outcome, default);
        bench.pass(999);
        assert_eq!(bench.step(), Step::Wait, "{outcome}");
        bench.pass(1);
        let input = bench.begin().input;
        assert_eq!((said(&input), results(&input)), (vec![heard.to_owned()], Vec::new()), "{outcome}");
    }
}

#[test]
fn an_expired_call_gets_an_error_result() {
    // Only what was never handed out gives its place under the caps back; calls of the planner's awaits never had one.
    for (kind, executed) in [("pay", 0), ("form", 1), ("questions", 0), ("external_tools", 0)] {
        for outcome in &OUTCOMES[..3] {
            let mut bench = waiting(kind, outcome, None);
            bench.pass(1_000);
            let input = bench.begin().input;
            assert_eq!(results(&input), ["call-0-0 refused expired"], "{kind} {outcome}");
            assert_eq!(bench.run.state().executed, executed, "{kind} {outcome}");
        }
    }
}

#[test]
fn a_batch_whose_last_call_expires_is_settled_like_any_other() {
    let tools = json!([{"name": "read"}, {"name": "form", "kind": "external", "expiresInMs": 1_000}]);
    let mut bench = bench(json!({"maxConsecutiveFailedToolCalls": 1}), json!({"tools": tools}));
    bench.turn(&[("read", json!({})), ("form", json!({}))]);
    bench.dispatch();
    bench.fails("call-0-0", ToolErrorKind::ToolFailed, CallStatus::Failed);
    assert_eq!((bench.step(), bench.run.state().finalize), (Step::Wait, None));
    bench.pass(1_000);
    let finaliser = bench.begin().input;
    assert_eq!(finaliser.finalize.map(|end| end.reason), Some(FinalizeReason::FailureCap));
}

#[test]
fn an_await_may_fail_its_run_and_its_call_still_gets_a_result() {
    for kind in ["clarification", "pay", "form", "questions", "external_tools"] {
        let mut bench = waiting(kind, "fail", None);
        bench.log();
        let prompt = bench.run.state().awaits.pending()[0].prompt.clone();
        bench.pass(1_000);
        assert_eq!(bench.step(), Step::Finish, "{kind}");
        let message = format!("await-1 ({prompt}) was not answered in time");
        let failure = RunFailure::new(RunFailureKind::AwaitExpired, message);
        let ending = bench.run.end(bench.now);
        assert_eq!(ending.outcome, Outcome::Failed { failure });
        let events: Vec<String> =
            ending.record.outbox.events.iter().map(|event| super::bench::words(&event.body)).collect();
        let expected: &[&str] = match kind {
            "clarification" => &["await-1 expired", "error"],
            _ => &["await-1 expired", "call-0-0 cancelled cancelled", "error"],
        };
        assert_eq!(events, expected, "{kind}");
    }
}

#[test]
fn an_answer_at_the_last_moment_counts_and_one_later_is_told_so() {
    let answer = || AnswerBody::Clarification { answer: "the second".to_owned() };
    let mut bench = waiting("clarification", "default", Some("the first"));
    assert_eq!(bench.run.next_deadline(), Some(Timestamp(2_000)));
    bench.pass(999);
    assert_eq!(bench.answer("await-1", answer()), AnswerStatus::Accepted);
    assert_eq!(said(&bench.begin().input), ["the second"]);

    let mut bench = waiting("clarification", "default", Some("the first"));
    bench.pass(1_000);
    // Before the run has looked at the clock, and after.
    assert_eq!(bench.answer("await-1", answer()), AnswerStatus::Expired);
    assert_eq!(said(&bench.begin().input), ["the first"]);
    assert_eq!(bench.answer("await-1", answer()), AnswerStatus::Expired);
}
