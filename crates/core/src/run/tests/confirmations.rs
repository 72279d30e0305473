//! Approvals: what a person is shown, and that exactly this runs, once.

use serde_json::json;

use super::bench::{bench, results};
use crate::{
    body::Body,
    canonical::Digest,
    envelope::{Actor, Answer, AnswerBody, AnswerStatus, ToolError, ToolErrorKind},
    event::EventBody,
    run::{Order, Step},
};

#[test]
fn a_prompt_is_filled_in_one_pass_so_an_argument_cannot_pose_as_another() {
    let cases = [
        ("Pay {amount} to {to}?", json!({"amount": 5, "to": "ann"}), "Pay 5 to ann?"),
        ("Pay {amount} to {to}?", json!({"amount": 900, "to": "{amount}"}), "Pay 900 to {amount}?"),
        ("Pay {amount} to {to}?", json!({"amount": "{to}", "to": "eve"}), "Pay {to} to eve?"),
        ("{a}{b}", json!({"a": "{", "b": "a}"}), "{a}"),
        ("{a}", json!({"a": {"b": [1, null]}}), "{\"b\":[1,null]}"),
        ("{missing} stays", json!({}), "{missing} stays"),
        ("{missing} {a}", json!({"a": 1}), "{missing} 1"),
        ("{{a}}", json!({"a": 1}), "{1}"),
        ("open { and {a", json!({"a": 1}), "open { and {a"),
        ("{a}", json!("not an object"), "{a}"),
    ];
    for (template, args, shown) in cases {
        let tools = json!([{"name": "pay", "confirmation": {"prompt": template}}]);
        let mut bench = bench(json!({}), json!({"tools": tools}));
        bench.turn(&[("pay", args.clone())]);
        assert_eq!(bench.run.state().awaits.pending()[0].prompt, shown, "{template} {args}");
    }
}

#[test]
fn without_a_prompt_the_tool_is_named() {
    let mut bench = bench(json!({}), json!({"tools": [{"name": "wipe", "confirmation": {"title": "Careful"}}]}));
    bench.turn(&[("wipe", json!({}))]);
    let item = &bench.run.state().awaits.pending()[0];
    assert_eq!((item.title.as_deref(), item.prompt.as_str()), (Some("Careful"), "Allow wipe?"));
}

#[test]
fn a_decision_of_loom_mcp_is_bound_by_its_await_id() {
    let mut bench = bench(json!({}), json!({}));
    let (cheap, dear) = (json!({"amount": 1}), json!({"amount": 900}));
    bench.turn(&[("pay", cheap.clone()), ("pay", dear.clone())]);
    let shown = |bench: &super::bench::Bench, id: &str| bench.run.digest_shown_by(&id.into());
    assert_eq!(shown(&bench, "await-1"), Some(Digest::of_json(&cheap)));
    assert_eq!(shown(&bench, "await-2"), Some(Digest::of_json(&dear)));
    assert_eq!(shown(&bench, "await-3"), None);

    let crossed =
        AnswerBody::Confirmation { approved: true, digest: shown(&bench, "await-1"), reason: None, grant: None };
    assert_eq!(bench.answer("await-2", crossed), AnswerStatus::Invalid);
    assert_eq!(bench.approve("await-1"), AnswerStatus::Accepted);
    assert_eq!(shown(&bench, "await-1"), None);
    let orders = bench.dispatch();
    let [Order::Tool(order)] = &orders[..] else { panic!() };
    assert_eq!(
        (order.input.args(), order.input.payload_digest),
        (Some(Body::Inline(cheap.clone().into())), Digest::of_json(&cheap))
    );
}

#[test]
fn a_denial_tells_the_model_that_it_was_denied_and_not_by_whom() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("pay", json!({}))]);
    let actor = Actor { id: "key-1f".into(), name: Some("ci".into()), claimed: Some("Anna".into()), roles: Vec::new() };
    let no = AnswerBody::denial(None);
    let reply = bench.run.answer(Answer::new("await-1".into(), actor.clone(), no), bench.now);
    assert_eq!(reply.status, AnswerStatus::Accepted);
    let closed = bench.run.record_input().outbox.events.into_iter().find_map(|event| match event.body {
        EventBody::AwaitClosed { actor, .. } => actor,
        _ => None,
    });
    assert_eq!(closed, Some(actor));
    let told = bench.begin().input.tool_outputs[0].error.clone().unwrap();
    assert_eq!(told, ToolError::new(ToolErrorKind::Denied, "not executed: a person denied it"));
}

#[test]
fn four_eyes_refuse_the_starter_and_leave_the_run_as_it_was() {
    let tools = json!([{"name": "pay", "confirmation": {"fourEyes": true}}]);
    let mut bench = bench(json!({}), json!({"tools": tools}));
    bench.start_as("ann");
    bench.turn(&[("pay", json!({}))]);
    let before = bench.run.digest();
    assert_eq!(bench.approve("await-1"), AnswerStatus::Invalid, "ann started it");
    assert_eq!(
        (bench.run.digest(), bench.log()),
        (before, vec!["await-1 opened".into(), "await-1 rejected: invalid".into()])
    );
    let digest = bench.run.digest_shown_by(&"await-1".into());
    let yes = AnswerBody::Confirmation { approved: true, digest, reason: None, grant: None };
    let reply = bench.run.answer(Answer::new("await-1".into(), "bob", yes), bench.now);
    assert_eq!(reply.status, AnswerStatus::Accepted);
}

#[test]
fn an_approval_is_used_once() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("pay", json!({}))]);
    let digest = bench.run.digest_shown_by(&"await-1".into());
    let yes = AnswerBody::Confirmation { approved: true, digest, reason: None, grant: None };
    assert_eq!(bench.answer("await-1", yes.clone()), AnswerStatus::Accepted);
    assert_eq!(bench.dispatch().len(), 1);
    assert_eq!(bench.answer("await-1", yes.clone()), AnswerStatus::Duplicate);
    let no = AnswerBody::denial(None);
    assert_eq!(bench.answer("await-1", no), AnswerStatus::Stale);
    assert_eq!(bench.step(), Step::Wait);
    bench.ok("call-0-0");
    assert_eq!(bench.answer("await-1", yes), AnswerStatus::Duplicate);
    assert_eq!(bench.step(), Step::Plan);
}

#[test]
fn an_approved_external_call_keeps_its_position() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("read", json!(1)), ("sign", json!(2)), ("read", json!(3))]);
    bench.dispatch();
    assert_eq!(bench.approve("await-1"), AnswerStatus::Accepted);
    assert_eq!(bench.log(), ["await-1 opened", "await-1 approved", "await-2 opened", "call-0-1 handed out"]);
    bench.ok("call-0-2");
    bench.ok("call-0-0");
    let results_set = json!([{"toolCallId": "call-0-1", "result": "signed"}]);
    assert_eq!(bench.provide("await-2", results_set), AnswerStatus::Accepted);
    assert_eq!(bench.run.state().executed, 3);
    assert_eq!(results(&bench.begin().input), ["call-0-0 ok", "call-0-1 ok", "call-0-2 ok"]);
}

#[test]
fn a_result_from_outside_cannot_claim_this_runs_cap() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("form", json!({}))]);
    let error = json!({"kind": "tool_cap", "message": "their own cap"});
    assert_eq!(bench.provide("await-1", json!([{"toolCallId": "call-0-0", "error": error}])), AnswerStatus::Accepted);
    let input = bench.begin().input;
    assert_eq!((input.finalize.as_ref(), results(&input)), (None, vec!["call-0-0 failed tool_cap".to_owned()]));
}
