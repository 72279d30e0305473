//! What people send cannot grow what a run carries without bounds.

use serde_json::{Value, json};

use super::bench::bench;
use crate::{
    body::Body,
    envelope::{Answer, AnswerBody, AnswerReply, AnswerStatus, PlanActivityInput, SteerRequest},
    event::EventBody,
    run::answers::clip,
};

fn bytes(input: &PlanActivityInput) -> usize {
    serde_json::to_string(input).unwrap().len()
}

/// What an envelope may be.
const LIMIT: usize = 2 * 1024 * 1024;

#[test]
fn steers_that_pile_up_stay_within_an_envelope() {
    let mut bench = bench(json!({}), json!({}));
    for _ in 0..40 {
        bench.run.steer(SteerRequest { text: "x".repeat(60 * 1024), ..SteerRequest::default() });
    }
    let log = bench.log();
    let rejected = "windlass.steer rejected: too many messages wait for the model's next turn; send this one after it";
    assert_eq!((log.len(), log[39].as_str()), (40, rejected));
    let input = bench.turn(&[("read", json!({}))]);
    assert!(bytes(&input) < LIMIT, "{}", bytes(&input));
    // The model has heard them: there is room again.
    bench.run.steer(SteerRequest { text: "x".repeat(60 * 1024), ..SteerRequest::default() });
    assert_eq!(bench.log(), ["steered"]);
}

#[test]
fn results_that_pile_up_stay_within_an_envelope_and_small_ones_still_come_through() {
    let mut bench = bench(json!({}), json!({}));
    let calls: Vec<(&str, Value)> = (0..12).map(|n| ("form", json!({"n": n}))).collect();
    bench.turn(&calls);
    let result = |n: u32, value: Value| json!([{"toolCallId": format!("call-0-{}", n - 1), "result": value}]);
    let large = Value::from("x".repeat(200 * 1024));
    let replies: Vec<AnswerStatus> =
        (1..=12).map(|n| bench.provide(&format!("await-{n}"), result(n, large.clone()))).collect();
    let accepted = replies.iter().filter(|status| **status == AnswerStatus::Accepted).count();
    assert_eq!(replies[accepted..], vec![AnswerStatus::Invalid; 12 - accepted]);
    assert_eq!(accepted, 5);
    for n in 6..=12 {
        assert_eq!(bench.provide(&format!("await-{n}"), result(n, json!("small"))), AnswerStatus::Accepted);
    }
    let carried = serde_json::to_string(&bench.run.continue_as_new()).unwrap().len();
    assert!(carried < LIMIT, "{carried}");
    assert!(bytes(&bench.begin().input) < LIMIT);
}

#[test]
fn an_error_cannot_carry_what_a_result_may_not() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("form", json!({}))]);
    let cause = json!({"kind": "tool_failed", "message": "x".repeat(300 * 1024)});
    let error = json!({"kind": "tool_failed", "message": "no", "cause": cause});
    assert_eq!(bench.provide("await-1", json!([{"toolCallId": "call-0-0", "error": error}])), AnswerStatus::Invalid);
}

#[test]
fn a_body_that_may_not_travel_is_not_reported_either() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("form", json!(1)), ("form", json!(2))]);
    let long = "x".repeat(3_000);
    bench.provide("await-1", json!([{"toolCallId": "call-0-0", "result": long}]));
    bench.provide("await-2", json!([{"toolCallId": "call-0-1", "result": "short"}]));
    let reported = serde_json::to_value(&bench.run.state().reported).unwrap();
    let output = |call: &str, fields: Value| {
        let mut output = json!({"name": "form", "toolCallId": call, "status": "ok"});
        output.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        output
    };
    let omitted = json!({"resultBytes": 3_002, "resultOmitted": true, "resultOmittedReason": "workflow_budget"});
    let kept = json!({"result": "short", "resultBytes": 7, "resultOmitted": false});
    assert_eq!(reported, json!([output("call-0-0", omitted), output("call-0-1", kept)]));
    let told = bench.begin().input.tool_outputs[0].result();
    assert_eq!(told, Some(Body::Inline(json!("x".repeat(3_000)).into())));
}

#[test]
fn a_rejection_quotes_only_the_beginning_of_what_was_sent() {
    let mut bench = bench(json!({}), json!({}));
    let id = "i".repeat(100_000);
    let answer = Answer::new(id.as_str().into(), "a".repeat(100_000), AnswerBody::Clarification { answer: "?".into() });
    let reply = bench.run.answer(answer, bench.now);
    let message = clip(&format!("this run has no await {id}; list its pending awaits"));
    assert_eq!(reply, AnswerReply::new(AnswerStatus::Unknown, message.clone()));
    let events = bench.run.record_input().outbox.events;
    let body = EventBody::AnswerRejected {
        await_id: clip(&id).as_str().into(),
        status: AnswerStatus::Unknown,
        message,
        actor: crate::envelope::Actor::from("a".repeat(100_000)).clipped(clip),
    };
    assert_eq!(events.into_iter().map(|event| event.body).collect::<Vec<_>>(), [body]);
}
