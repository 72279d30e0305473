//! Calls of several rounds: what a tool asks a person for, and what it gets.

use serde_json::{Value, json};

use super::bench::{Bench, bench};
use crate::{
    awaits::{AwaitKind, AwaitView},
    envelope::{
        AnswerBody, AnswerStatus, CallStatus, Continuation, InputAction, InputRequest, InputResponse, Resumption,
        ToolErrorKind, ToolOutput,
    },
    run::{Order, Step, read_inputs},
};

fn asks(schema: Option<Value>) -> Continuation {
    let input = InputRequest { key: "name".into(), prompt: "Which name?".into(), schema, url: None };
    Continuation { state: json!({"s": 1}).into(), inputs: vec![input], repeatable: false }
}

fn ends_a_round(bench: &mut Bench, continuation: Continuation) {
    let mut output = ToolOutput::new(CallStatus::Failed);
    output.continuation = Some(continuation);
    bench.run.tool_finished(&"call-0-0".into(), output, true, bench.now);
}

/// A run whose call of `read` is in its first round.
fn reading() -> Bench {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("read", json!({}))]);
    bench.dispatch();
    bench
}

fn resumption(orders: &[Order]) -> Option<Resumption> {
    let [Order::Tool(order)] = orders else { panic!("{orders:?}") };
    order.input.resumption.clone()
}

#[test]
fn what_a_person_answers_is_given_to_the_next_round() {
    let mut bench = reading();
    ends_a_round(&mut bench, asks(None));
    assert_eq!(bench.step(), Step::Wait);
    let item = bench.run.state().awaits.pending()[0].clone();
    assert_eq!((item.kind, item.prompt.as_str()), (AwaitKind::Input, "Which name?"));
    let given = AnswerBody::Clarification { answer: "Ann".to_owned() };
    assert_eq!(bench.answer("await-1", given), AnswerStatus::Accepted);
    let response = InputResponse { action: InputAction::Accept, content: Some(json!("Ann").into()) };
    let expected = Resumption {
        round: 2,
        state: json!({"s": 1}).into(),
        responses: [("name".to_owned(), response)].into(),
        repeatable: false,
    };
    assert_eq!(resumption(&bench.dispatch()), Some(expected));
    bench.ok("call-0-0");
    assert_eq!(bench.run.state().executed, 1);
}

#[test]
fn a_denial_declines_and_another_kind_of_answer_changes_nothing() {
    let mut bench = reading();
    ends_a_round(&mut bench, asks(None));
    let decision = |approved| AnswerBody::Confirmation { approved, digest: None, reason: None, grant: None };
    assert_eq!(bench.answer("await-1", decision(true)), AnswerStatus::Invalid);
    assert_eq!(bench.answer("await-1", AnswerBody::Clarification { answer: " ".into() }), AnswerStatus::Invalid);
    assert_eq!(bench.answer("await-1", decision(false)), AnswerStatus::Accepted);
    let declined = InputResponse { action: InputAction::Decline, content: None };
    let responses = resumption(&bench.dispatch()).unwrap().responses;
    assert_eq!(responses, [("name".to_owned(), declined)].into());
}

#[test]
fn a_call_that_works_on_elsewhere_goes_on_at_once_and_may_be_repeated() {
    let mut bench = reading();
    ends_a_round(&mut bench, Continuation { inputs: Vec::new(), repeatable: true, ..asks(None) });
    let orders = bench.dispatch();
    let [Order::Tool(order)] = orders.as_slice() else { panic!("{orders:?}") };
    assert!(order.input.idempotent);
    assert_eq!(order.input.resumption.as_ref().map(|next| next.round), Some(2));
}

#[test]
fn a_run_that_is_cancelled_does_not_go_on_with_a_call_that_began() {
    let mut bench = reading();
    ends_a_round(&mut bench, asks(None));
    bench.run.cancel("enough", bench.now);
    assert_eq!(bench.step(), Step::Finish);
    let ending = bench.run.end(bench.now);
    let call = &ending.output.tool_events[0];
    assert_eq!(
        (call.status, call.error.as_ref().map(|error| error.kind)),
        (CallStatus::Cancelled, Some(ToolErrorKind::Cancelled))
    );
    assert_eq!(ending.output.tool_calls, 1, "its first round ran");
}

#[test]
fn a_text_is_read_as_the_input_wants_it() {
    let one = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let two =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}, "required": ["a"]});
    let item = |inputs: Vec<(&str, Option<&Value>)>| -> AwaitView {
        let inputs: Vec<Value> = inputs
            .into_iter()
            .map(|(key, schema)| match schema {
                Some(schema) => json!({"key": key, "prompt": "?", "schema": schema}),
                None => json!({"key": key, "prompt": "?"}),
            })
            .collect();
        serde_json::from_value(json!({
            "id": "await-1", "kind": "input", "prompt": "?", "inputs": inputs, "openedAt": 0, "onExpiry": "replan",
        }))
        .unwrap()
    };
    let cases = [
        (item(vec![("k", None)]), "hi", Ok(json!({"k": "hi"}))),
        (item(vec![("k", Some(&one))]), "3", Ok(json!({"k": {"n": 3}}))),
        (item(vec![("k", Some(&one))]), "{\"n\": 3}", Ok(json!({"k": {"n": 3}}))),
        (item(vec![("k", Some(&one))]), "three", Err(())),
        (item(vec![("k", Some(&two))]), "{\"a\": \"x\", \"b\": true}", Ok(json!({"k": {"a": "x", "b": true}}))),
        (item(vec![("k", Some(&two))]), "x", Err(())),
        (item(vec![("k", None), ("l", Some(&one))]), "{\"k\": \"x\", \"l\": 4}", Ok(json!({"k": "x", "l": {"n": 4}}))),
        (item(vec![("k", None), ("l", Some(&one))]), "{\"k\": \"x\"}", Err(())),
        (item(vec![("k", None), ("l", None)]), "{\"k\": \"x\", \"l\": \"y\", \"m\": 1}", Err(())),
        (item(vec![("k", None), ("l", None)]), "x", Err(())),
    ];
    for (item, text, expected) in cases {
        let read = read_inputs(&item, text).map_err(|_| ()).map(|responses| {
            let contents = responses.into_iter().map(|(key, response)| (key, response.content.unwrap().to_value()));
            Value::Object(contents.collect())
        });
        assert_eq!(read, expected, "{text}");
    }
}
