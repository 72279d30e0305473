//! The state of a run survives continue-as-new unchanged.

use serde_json::{Value, json};

use super::bench::{Bench, bench};
use crate::{
    envelope::{AwaitRequest, RunInput},
    run::{Run, Step},
};

/// The run after a trip through JSON, as its next execution finds it.
fn next_execution(run: &Run) -> Run {
    let input: RunInput = serde_json::from_str(&serde_json::to_string(&run.continue_as_new()).unwrap()).unwrap();
    Run::resume(input).unwrap()
}

fn carried(run: &Run) -> Value {
    serde_json::to_value(run.continue_as_new()).unwrap()
}

/// A call from outside whose arguments and result are null: null is a value, not an absence.
fn with_nulls() -> Bench {
    let mut bench = bench(json!({}), json!({}));
    bench.begin();
    let call = |n: u32| json!({"toolCallId": format!("call-0-{n}"), "name": "ring", "payload": null, "payloadBytes": 4, "payloadDigest": "0".repeat(64)});
    let awaits =
        json!([{"kind": "external_tools", "calls": [call(0)]}, {"kind": "external_tools", "calls": [call(1)]}]);
    let awaits: Vec<AwaitRequest> = serde_json::from_value(awaits).unwrap();
    bench.says(&[], awaits);
    bench.provide("await-1", json!([{"toolCallId": "call-0-0", "result": null}]));
    bench
}

#[test]
fn pending_messages_keep_their_wire_names() {
    let mut bench = bench(json!({}), json!({}));
    bench.run.steer(serde_json::from_value(json!({"text": "be brief"})).unwrap());
    bench.begin();
    let carried = carried(&bench.run);
    let state = &carried["carry"]["state"];
    assert_eq!((&state["said"][0]["parts"][0]["text"], &state["saidToPlanner"]), (&json!("be brief"), &json!(1)));
}

#[test]
fn nulls_are_carried_as_nulls() {
    let bench = with_nulls();
    let next = next_execution(&bench.run);
    assert_eq!(next.digest(), bench.run.digest());
    assert_eq!(next.state(), bench.run.state());
    assert_eq!(carried(&next), carried(&bench.run));
    let carry = carried(&bench.run)["carry"].clone();
    assert_eq!(carry["state"]["awaits"]["open"][0]["calls"][0].get("args"), Some(&Value::Null));
    let events = carry["outgoing"]["events"].as_array().unwrap();
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert_eq!(result.get("result"), Some(&Value::Null));
}

#[test]
fn the_next_execution_goes_on_where_the_last_one_stopped() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("read", json!({})), ("pay", json!({}))]);
    bench.run = next_execution(&bench.run);
    assert_eq!(bench.dispatch().len(), 1);
    bench.ok("call-0-0");
    bench.run = next_execution(&bench.run);
    assert_eq!(bench.approve("await-1"), crate::envelope::AnswerStatus::Accepted);
    bench.run = next_execution(&bench.run);
    assert_eq!(bench.dispatch().len(), 1);
    bench.ok("call-0-1");
    let input = bench.begin().input;
    let keys: Vec<&str> = input.outbox.events.iter().map(|event| event.key.as_str()).collect();
    assert_eq!((input.tool_outputs.len(), keys), (2, vec!["w/1", "w/2"]));
}

#[test]
fn a_run_continues_as_new_only_when_nothing_is_in_flight_and_it_goes_on() {
    let mut bench = bench(json!({}), json!({}));
    let enough = bench.run.tuning().continue_as_new_events();
    assert_eq!((bench.run.next(enough - 1), bench.run.next(enough)), (Step::Plan, Step::ContinueAsNew));
    bench.turn(&[("read", json!({}))]);
    assert_eq!(bench.run.next(enough), Step::ContinueAsNew);
    bench.dispatch();
    assert_eq!(bench.run.next(enough), Step::Wait);
    bench.ok("call-0-0");
    assert_eq!(bench.run.next(enough), Step::ContinueAsNew);
    bench.turn(&[]);
    assert_eq!(bench.run.next(enough), Step::Finish);
}
