//! The caller's own tools: whose turn it is, what a result does, and what happens when none comes.

use serde_json::{Value, json};

use super::bench::{Bench, bench, results, words};
use crate::{
    canonical::Digest,
    envelope::{AnswerBody, AnswerStatus, PauseRequest, ResumeRequest},
    event::EventBody,
    failure::{RunFailure, RunFailureKind},
    run::{Order, Outcome, Step},
};

/// An agent whose tools `a` and `b` change something, while `look` and `peek` do not.
fn caller(tool: Value) -> Bench {
    let own = |name: &str, fields: Value| {
        let mut tool = json!({"name": name, "kind": "external", "client": {"kind": "local"}, "expiresInMs": 1_000});
        tool.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        tool
    };
    let tools = json!([
        own("a", tool.clone()), own("b", tool), own("sign", json!({"confirmation": {}})),
        own("look", json!({"readOnly": true})), own("peek", json!({"readOnly": true})),
        {"name": "read"}, {"name": "form", "kind": "external"},
    ]);
    bench(json!({}), json!({"tools": tools}))
}

fn turn(bench: &mut Bench, tools: &[&str]) {
    let calls: Vec<(&str, Value)> = tools.iter().enumerate().map(|(n, tool)| (*tool, json!({"n": n}))).collect();
    bench.turn(&calls);
}

/// Which calls are out, by their place in the batch.
fn out(bench: &mut Bench) -> String {
    bench.step();
    let pending = bench.run.state().awaits.pending().iter().flat_map(|item| &item.calls);
    pending.map(|call| call.tool_call_id.as_str().rsplit_once('-').unwrap().1.to_owned()).collect()
}

#[test]
fn calls_are_handed_out_in_call_order_and_those_that_change_nothing_together() {
    /// The tools called, what is out after each result, and what is out at first.
    type Case = (&'static [&'static str], &'static [(&'static str, &'static str)], &'static str);
    let cases: [Case; 8] = [
        (&["a"], &[("0", "")], "0"),
        (&["a", "b", "a"], &[("0", "1"), ("1", "2"), ("2", "")], "0"),
        (&["look", "peek", "look"], &[("1", "02"), ("2", "0"), ("0", "")], "012"),
        (&["a", "look", "peek", "b"], &[("0", "12"), ("2", "1"), ("1", "3"), ("3", "")], "0"),
        (&["look", "a", "peek"], &[("0", "1"), ("1", "2"), ("2", "")], "0"),
        (&["read", "a", "read", "b"], &[("1", "3"), ("3", "")], "1"),
        (&["nope", "a", "b"], &[("1", "2"), ("2", "")], "1"),
        (&["form", "a", "form", "b"], &[("2", "01"), ("1", "03"), ("0", "3"), ("3", "")], "021"),
    ];
    for (tools, steps, first) in cases {
        let mut bench = caller(json!({}));
        turn(&mut bench, tools);
        assert_eq!(out(&mut bench), first, "{tools:?}");
        for (answered, then) in steps {
            assert_eq!(
                bench.result_of(&format!("call-0-{answered}"), json!({"result": "x"})),
                AnswerStatus::Accepted,
                "{tools:?} {answered}"
            );
            assert_eq!(out(&mut bench), *then, "{tools:?} after {answered}");
        }
    }
}

#[test]
fn calls_of_this_side_run_beside_the_one_that_is_out() {
    let mut bench = caller(json!({}));
    turn(&mut bench, &["a", "read", "b"]);
    assert!(matches!(&bench.dispatch()[..], [Order::Tool(_)]));
    bench.result_of("call-0-0", json!({"result": "x"}));
    assert_eq!((out(&mut bench).as_str(), bench.step()), ("2", Step::Wait));
    bench.ok("call-0-1");
    bench.result_of("call-0-2", json!({"error": {"kind": "tool_failed", "message": "no"}}));
    assert_eq!(
        bench.log(),
        [
            "await-1 opened",
            "call-0-0 handed out",
            "await-1 answered",
            "call-0-0 result in",
            "call-0-0 ok",
            "await-2 opened",
            "call-0-2 handed out",
            "await-2 answered",
            "call-0-2 result in",
            "call-0-2 failed tool_failed",
        ]
    );
    assert_eq!(results(&bench.begin().input), ["call-0-0 ok", "call-0-1 ok", "call-0-2 failed tool_failed"]);
}

#[test]
fn a_call_that_needs_approval_holds_up_those_behind_it() {
    let no = || AnswerBody::denial(None);
    let mut bench = caller(json!({}));
    turn(&mut bench, &["sign", "a"]);
    assert_eq!(out(&mut bench), "0");
    bench.approve("await-1");
    assert_eq!(out(&mut bench), "0");
    bench.result_of("call-0-0", json!({"result": 1}));
    assert_eq!(out(&mut bench), "1");

    let mut bench = caller(json!({}));
    turn(&mut bench, &["sign", "a"]);
    bench.answer("await-1", no());
    assert_eq!(out(&mut bench), "1");
    assert_eq!(bench.run.state().executed, 1, "a denied call does not count");
}

#[test]
fn nothing_is_handed_out_while_the_run_is_paused() {
    let mut bench = caller(json!({}));
    turn(&mut bench, &["a", "b"]);
    out(&mut bench);
    bench.run.pause(PauseRequest::default(), bench.now);
    bench.result_of("call-0-0", json!({"result": 1}));
    assert_eq!((out(&mut bench).as_str(), bench.step()), ("", Step::Wait));
    bench.run.resume_from_pause(ResumeRequest::default());
    assert_eq!(out(&mut bench), "1");
}

#[test]
fn the_time_of_a_call_runs_from_its_own_hand_out_and_ends_the_run() {
    let mut bench = caller(json!({}));
    turn(&mut bench, &["a", "b", "a"]);
    out(&mut bench);
    bench.pass(900);
    bench.result_of("call-0-0", json!({"result": 1}));
    out(&mut bench);
    bench.pass(900);
    assert_eq!(bench.step(), Step::Wait);
    bench.log();
    bench.pass(100);
    assert_eq!(bench.step(), Step::Finish);
    assert_eq!(bench.result_of("call-0-1", json!({"result": 1})), AnswerStatus::Stale);

    let ending = bench.run.end(bench.now);
    let message = "Timed out waiting for local tool result: b";
    let failure = RunFailure::new(RunFailureKind::LocalToolTimedOut, message).of_class("local_timeout");
    assert_eq!(ending.outcome, Outcome::Failed { failure });
    let events = &ending.record.outbox.events;
    assert_eq!(
        events.iter().map(|event| words(&event.body)).collect::<Vec<_>>(),
        [
            "await-2 expired",
            "call-0-1 rejected: stale",
            "call-0-1 cancelled cancelled",
            "call-0-2 cancelled cancelled",
            "result"
        ]
    );
    let (kind, data) = events.last().unwrap().body.split().unwrap();
    assert_eq!(
        (kind, data),
        (
            "result",
            json!({
                "text": "", "subtype": "error_local_tool_timeout", "error": message, "errorClass": "local_timeout", "finishReason": null, "turns": 1,
                "toolCalls": 2, "activeMs": 0, "model": "script:test",
                "usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0, "cacheReadTokens": 0,
                          "cacheWriteTokens": 0, "reasoningTokens": 0},
            })
        )
    );
}

#[test]
fn a_definition_may_want_another_end_of_the_wait() {
    let mut bench = caller(json!({"onExpiry": "replan"}));
    turn(&mut bench, &["a", "b"]);
    out(&mut bench);
    bench.pass(1_000);
    assert_eq!(out(&mut bench), "1");
    assert_eq!(bench.result_of("call-0-0", json!({"result": 1})), AnswerStatus::Expired);
    bench.result_of("call-0-1", json!({"result": 1}));
    assert_eq!(results(&bench.begin().input), ["call-0-0 refused expired", "call-0-1 ok"]);
}

#[test]
fn every_result_is_told_what_became_of_it() {
    let error = json!({"error": {"kind": "tool_failed", "message": "no"}});
    let both = json!({"result": 1, "error": {"kind": "tool_failed", "message": "no"}});
    let steps = [
        ("call-0-9", json!({"result": 1}), AnswerStatus::Unknown),
        ("call-0-1", json!({"result": 1}), AnswerStatus::Unknown),
        ("call-0-0", json!({}), AnswerStatus::Invalid),
        ("call-0-0", both, AnswerStatus::Invalid),
        ("call-0-0", json!({"result": "x".repeat(300_000)}), AnswerStatus::Invalid),
        ("call-0-0", json!({"name": "b", "result": 1}), AnswerStatus::Invalid),
        ("call-0-0", json!({"result": null}), AnswerStatus::Accepted),
        ("call-0-0", json!({"result": null}), AnswerStatus::Duplicate),
        ("call-0-0", json!({"result": 1}), AnswerStatus::Stale),
        ("call-0-1", error, AnswerStatus::Accepted),
        ("call-0-2", json!({"result": 1}), AnswerStatus::Unknown),
    ];
    let mut bench = caller(json!({}));
    turn(&mut bench, &["a", "b", "read"]);
    bench.dispatch();
    for (call, fields, expected) in steps {
        bench.step();
        let before = bench.run.digest();
        assert_eq!(bench.result_of(call, fields), expected, "{call}");
        assert_eq!(bench.run.digest() == before, expected != AnswerStatus::Accepted, "{call} {expected:?}");
    }
    bench.run.cancel("enough", bench.now);
    assert_eq!(bench.result_of("call-0-0", json!({"result": null})), AnswerStatus::Stale);
}

#[test]
fn a_set_of_calls_is_answered_as_a_set() {
    let mut bench = bench(json!({}), json!({}));
    bench.begin();
    let call = |id: &str| json!({"toolCallId": id, "name": "ring", "payloadBytes": 2, "payloadDigest": "0".repeat(64)});
    let awaits = json!([{"kind": "external_tools", "calls": [call("call-0-0"), call("call-0-1")]}]);
    bench.says(&[], serde_json::from_value(awaits).unwrap());
    assert_eq!(bench.result_of("call-0-0", json!({"result": 1})), AnswerStatus::Invalid);
    let both = json!([{"toolCallId": "call-0-0", "result": 1}, {"toolCallId": "call-0-1", "result": 2}]);
    assert_eq!(bench.provide("await-1", both), AnswerStatus::Accepted);
    assert_eq!(bench.result_of("call-0-0", json!({"result": 1})), AnswerStatus::Stale);
}

#[test]
fn a_result_is_announced_with_as_much_of_it_as_an_event_shows() {
    let (long, digest) = ("x".repeat(20_000), Digest::ZERO);
    let cases = [
        (json!({"result": {"n": 1}}), json!({"output": {"n": 1}, "resultBytes": 7})),
        (json!({"result": null}), json!({"output": null, "resultBytes": 4})),
        (json!({"result": long}), json!({"resultBytes": 20_002})),
        (json!({"resultRef": {"digest": digest, "bytes": 9}}), json!({"resultBytes": 9})),
        (json!({"error": {"kind": "tool_failed", "message": "no"}}), json!({"error": "no", "resultBytes": 0})),
    ];
    for (given, mut shown) in cases {
        let mut bench = caller(json!({}));
        turn(&mut bench, &["a"]);
        out(&mut bench);
        bench.log();
        assert_eq!(bench.result_of("call-0-0", given), AnswerStatus::Accepted);
        let events = bench.run.record_input().outbox.events;
        let announced = events.iter().find(|event| matches!(event.body, EventBody::LocalToolResultIn { .. }));
        shown["toolUseId"] = json!("call-0-0");
        assert_eq!(announced.unwrap().body.split().unwrap(), ("local_tool_result_in", shown));
    }
}

#[test]
fn a_call_with_arguments_that_do_not_fit_is_never_handed_out() {
    let mut bench = caller(json!({}));
    bench.turn(&[("a", json!(null)), ("b", json!({}))]);
    assert_eq!(out(&mut bench), "1");
    assert_eq!(
        bench.log(),
        [
            "call-0-0 not admitted: tool_input_invalid",
            "call-0-0 refused tool_input_invalid",
            "await-1 opened",
            "call-0-1 handed out"
        ]
    );
}

#[test]
fn a_run_that_is_cancelled_asks_for_nothing_any_more() {
    let mut bench = caller(json!({}));
    turn(&mut bench, &["a", "b", "look"]);
    out(&mut bench);
    bench.log();
    bench.run.cancel("enough", bench.now);
    assert_eq!((out(&mut bench).as_str(), bench.step()), ("", Step::Finish));
    let ending = bench.run.end(bench.now);
    let events: Vec<String> = ending.record.outbox.events.iter().map(|event| words(&event.body)).collect();
    assert_eq!(
        events,
        [
            "await-1 abandoned",
            "call-0-0 cancelled cancelled",
            "call-0-1 cancelled cancelled",
            "call-0-2 cancelled cancelled",
            "cancelled"
        ]
    );
    assert_eq!(ending.output.tool_calls, 1, "only the call that was handed out counts");
}

#[test]
fn a_sender_limited_to_own_tools_cannot_answer_other_calls() {
    let mut bench = caller(json!({}));
    turn(&mut bench, &["a", "form"]);
    out(&mut bench);
    let before = bench.run.digest();
    let result = json!({"result": "x", "ownToolsOnly": true});
    assert_eq!(bench.result_of("call-0-1", result.clone()), AnswerStatus::Invalid);
    assert_eq!(bench.run.digest(), before);
    assert_eq!(bench.result_of("call-0-0", result), AnswerStatus::Accepted);
    assert_eq!(bench.result_of("call-0-1", json!({"result": "x"})), AnswerStatus::Accepted);
}
