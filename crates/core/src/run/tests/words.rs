//! What people say to a run: the model reads it, and the log keeps it.

use serde_json::json;

use super::bench::{bench, said};
use crate::{
    envelope::{AnswerBody, AnswerStatus, PlanActivityInput, ToolErrorKind},
    event::{AwaitClosure, EventBody},
};

fn denial(reason: &str) -> AnswerBody {
    AnswerBody::denial(Some(reason.to_owned()))
}

/// How the first await was closed, as the log says it.
fn closed(input: PlanActivityInput) -> EventBody {
    let bodies = input.outbox.events.into_iter().map(|event| event.body);
    bodies.into_iter().find(|body| matches!(body, EventBody::AwaitClosed { .. })).unwrap()
}

fn closure(outcome: AwaitClosure, answer: Option<&str>) -> EventBody {
    let answer = answer.map(str::to_owned);
    EventBody::AwaitClosed { await_id: "await-1".into(), outcome, actor: Some("ann".into()), answer }
}

#[test]
fn a_denial_says_why_to_the_model_and_to_the_log() {
    for (reason, told, logged) in [
        (" not on a Friday\n", "not executed: a person denied it: not on a Friday", Some("not on a Friday")),
        ("  ", "not executed: a person denied it", None),
    ] {
        let mut bench = bench(json!({}), json!({}));
        bench.turn(&[("pay", json!({}))]);
        assert_eq!(bench.answer("await-1", denial(reason)), AnswerStatus::Accepted);
        let input = bench.begin().input;
        let [output] = &input.tool_outputs[..] else { panic!("{:?}", input.tool_outputs) };
        let error = output.error.as_ref().unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ToolErrorKind::Denied, told));
        assert_eq!(closed(input), closure(AwaitClosure::Denied, logged));
    }
}

#[test]
fn a_reason_that_is_too_long_for_the_log_changes_nothing() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("pay", json!({}))]);
    assert_eq!(bench.answer("await-1", denial(&"x".repeat(EventBody::WORDS_BYTES + 1))), AnswerStatus::Invalid);
    assert_eq!(bench.answer("await-1", denial(&"x".repeat(EventBody::WORDS_BYTES))), AnswerStatus::Accepted);
}

#[test]
fn an_answer_is_in_the_log_and_a_long_one_is_cut_there() {
    let long = "é".repeat(5_000);
    let shown = format!("{}…", "é".repeat((EventBody::WORDS_BYTES - 3) / 2));
    assert!(shown.len() <= EventBody::WORDS_BYTES);
    for (answer, logged) in [("the team", "the team"), (&long, &shown)] {
        let mut bench = bench(json!({}), json!({}));
        bench.begin();
        bench.says(&[], vec![serde_json::from_value(json!({"kind": "clarification", "question": "who?"})).unwrap()]);
        let body = AnswerBody::Clarification { answer: answer.to_owned() };
        assert_eq!(bench.answer("await-1", body), AnswerStatus::Accepted);
        let input = bench.begin().input;
        assert_eq!(said(&input), [answer], "the model reads all of it");
        assert_eq!(closed(input), closure(AwaitClosure::Answered, Some(logged)));
    }
}
