//! What becomes of a turn, for every reason a model can stop for.

use serde_json::{Value, json};

use super::bench::{Bench, bench, result_words, results};
use crate::{
    awaits::AwaitKind,
    envelope::{AnswerBody, AnswerStatus, AwaitRequest, FinalizeReason, OutboxMessage, SteerRequest},
    run::{Order, Outcome, Run, Step},
    stop::StopReason,
};

/// What the model asks for in its turn, and whether it was asked for its last answer.
struct Asked {
    calls: &'static [&'static str],
    awaits: fn() -> Value,
    finalizing: bool,
    /// The calls of the turn, in the order of their results.
    uses: &'static [&'static str],
}

const NOTHING: Asked = Asked { calls: &[], awaits: || json!([]), finalizing: false, uses: &[] };

/// The columns of the table, in order.
const ASKED: [Asked; 6] = [
    NOTHING,
    Asked { calls: &["read", "pay", "form"], uses: &["call-0-0", "call-0-1", "call-0-2"], ..NOTHING },
    Asked {
        calls: &["read"],
        awaits: || {
            let phone = json!({"toolCallId": "call-0-2", "name": "phone", "payload": null, "payloadBytes": 4,
                               "payloadDigest": "0".repeat(64)});
            json!([
                {"kind": "questions", "toolCallId": "call-0-1", "toolName": "ask", "questions": []},
                {"kind": "external_tools", "calls": [phone]},
                {"kind": "clarification", "question": "which?"},
            ])
        },
        uses: &["call-0-0", "call-0-1", "call-0-2"],
        ..NOTHING
    },
    Asked { awaits: || json!([{"kind": "clarification", "question": "which?"}]), ..NOTHING },
    Asked { finalizing: true, ..NOTHING },
    Asked { calls: &["read", "pay"], finalizing: true, uses: &["call-0-0", "call-0-1"], ..NOTHING },
];

/// What became of the turn, and the results of its calls.
fn becomes(asked: &Asked, stop: &str, known_flaw: bool) -> (String, Vec<String>) {
    let mut bench = bench(json!({"timeBudgetMs": if asked.finalizing { 0 } else { 1_000 }}), json!({}));
    bench.begin();
    let calls: Vec<(&str, Value)> = asked.calls.iter().map(|name| (*name, json!({}))).collect();
    let awaits: Vec<AwaitRequest> = serde_json::from_value((asked.awaits)()).unwrap();
    bench.says_and_stops(&calls, awaits, Some(StopReason::from(stop)), known_flaw);
    let first = bench.step();
    let results = settle(&mut bench);
    let became = match (first, &bench.run.state().outcome) {
        (Step::Finish, Some(Outcome::Completed { finalized: None })) => "answer".to_owned(),
        (Step::Finish, Some(Outcome::Completed { finalized: Some(FinalizeReason::TimeBudget) })) => {
            "last answer".to_owned()
        }
        (Step::Finish, Some(Outcome::Failed { failure })) => failure.code().to_owned(),
        (Step::Dispatch, None) => "runs".to_owned(),
        (Step::Wait, None) => "waits".to_owned(),
        (Step::Plan, None) => "next turn".to_owned(),
        other => format!("{other:?}"),
    };
    (became, results)
}

/// Lets everything that was begun end well; the results that reach the transcript, in words.
fn settle(bench: &mut Bench) -> Vec<String> {
    loop {
        match bench.step() {
            Step::Plan => return results(&bench.begin().input),
            Step::Finish => {
                let messages = bench.run.end(bench.now).record.outbox.messages;
                let results = messages.iter().filter_map(|message| match message {
                    OutboxMessage::ToolResults { results } => Some(results.iter().map(result_words)),
                    OutboxMessage::Message { .. } => None,
                });
                return results.flatten().collect();
            }
            Step::Dispatch => {
                for order in bench.dispatch() {
                    let Order::Tool(order) = order else { panic!("{order:?}") };
                    bench.ok(order.input.tool_call_id.as_str());
                }
            }
            Step::Wait => {
                let item = bench.run.state().awaits.pending()[0].clone();
                let status = match item.kind {
                    AwaitKind::Confirmation => bench.approve(item.id.as_str()),
                    AwaitKind::Clarification | AwaitKind::Input => {
                        bench.answer(item.id.as_str(), AnswerBody::Clarification { answer: "this".to_owned() })
                    }
                    AwaitKind::Questions | AwaitKind::ExternalTools => {
                        let result = |call: &str| json!({"toolCallId": call, "result": 1});
                        let results = item.calls.iter().map(|call| result(call.tool_call_id.as_str())).collect();
                        bench.provide(item.id.as_str(), Value::Array(results))
                    }
                };
                assert_eq!(status, AnswerStatus::Accepted);
            }
            step @ (Step::HandOut | Step::ContinueAsNew) => panic!("the bench does not stop at {step:?}"),
        }
    }
}

#[test]
fn every_reason_decides_what_becomes_of_the_turn_and_every_call_gets_one_result() {
    // In the columns of `ASKED`: no call · calls · calls and awaits · a question to a person · and of the last answer:
    // no call · calls.
    let proceeds = ["answer", "runs", "runs", "waits", "last answer", "last answer"];
    let table = [
        ("end_turn", proceeds),
        ("tool_use", proceeds),
        ("stop_sequence", proceeds),
        ("recitation", proceeds),
        ("", proceeds),
        ("pause_turn", ["next turn", "runs", "runs", "waits", "last answer", "last answer"]),
        ("max_tokens", ["RUN0008", "next turn", "next turn", "RUN0008", "RUN0008", "RUN0008"]),
        ("malformed_function_call", ["RUN0009", "next turn", "next turn", "RUN0009", "RUN0009", "RUN0009"]),
        ("refusal", ["RUN0009"; 6]),
        ("content_filter", ["RUN0014"; 6]),
        ("context_window", ["RUN0001"; 6]),
    ];
    for (stop, expected) in table {
        for (asked, expected) in ASKED.iter().zip(expected) {
            let result = match expected {
                "runs" => "ok",
                "next turn" => "refused tool_input_invalid",
                _ => "refused policy_denied",
            };
            let results: Vec<String> = asked.uses.iter().map(|call| format!("{call} {result}")).collect();
            // Whether the activity names a flaw as well, which only older runs need, changes nothing.
            for known_flaw in [false, true] {
                let became = becomes(asked, stop, known_flaw);
                assert_eq!(became, (expected.to_owned(), results.clone()), "{stop} {:?}", asked.calls);
            }
        }
    }
}

#[test]
fn calls_of_a_turn_that_was_cut_off_do_not_run_and_the_model_learns_why() {
    let cases = [
        (
            "max_tokens",
            "not executed: this turn was cut off at the output limit, so its calls may be incomplete; repeat them, with \
             less text",
        ),
        (
            "malformed_function_call",
            "not executed: a call of this turn could not be read; write the calls again as valid JSON",
        ),
    ];
    for (stop, why) in cases {
        let mut bench = bench(json!({}), json!({}));
        bench.begin();
        bench.says_and_stops(&[("read", json!({})), ("pay", json!({}))], Vec::new(), Some(stop.into()), true);
        let told = bench.begin().input.tool_outputs;
        let told: Vec<&str> = told.iter().map(|output| output.error.as_ref().unwrap().message.as_str()).collect();
        assert_eq!((told, bench.run.state().executed), (vec![why, why], 0), "{stop}");
    }
}

#[test]
fn turns_that_are_cut_off_count_for_every_guard() {
    let cases = [
        (json!({"maxToolTurns": 3}), 3, FinalizeReason::ToolTurns),
        (json!({"maxConsecutiveFailedToolCalls": 2}), 2, FinalizeReason::FailureCap),
        // The same calls again and again, without any cap.
        (json!({}), 6, FinalizeReason::Loop),
    ];
    for (policy, turns, reason) in cases {
        let mut bench = bench(policy, json!({}));
        for turn in 0..turns {
            assert_eq!(bench.begin().input.finalize, None, "turn {turn} of {reason:?}");
            bench.says_and_stops(&[("read", json!({}))], Vec::new(), Some(StopReason::MaxTokens), true);
        }
        assert_eq!(bench.begin().input.finalize.map(|end| end.reason), Some(reason));
    }
}

/// One turn that the provider pauses.
fn pause(bench: &mut Bench) {
    bench.begin();
    bench.says_and_stops(&[], Vec::new(), Some(StopReason::PauseTurn), true);
}

#[test]
fn an_answer_that_the_provider_pauses_goes_on_in_the_next_turn() {
    let mut bench = bench(json!({}), json!({}));
    pause(&mut bench);
    let head = bench.run.state().head;
    bench.run.steer(SteerRequest { text: "be brief".to_owned(), ..SteerRequest::default() });
    let next = bench.begin().input;
    assert_eq!((next.turn, next.head, next.tool_outputs.len(), next.outbox.messages.len()), (1, head, 0, 1));
    bench.says_and_stops(&[], Vec::new(), Some(StopReason::EndTurn), true);
    assert_eq!(bench.step(), Step::Finish);
    let ending = bench.run.end(bench.now);
    assert_eq!(ending.outcome, Outcome::Completed { finalized: None });
    assert_eq!(ending.output.final_message.unwrap().plain_text(), "done");
}

#[test]
fn an_answer_that_the_provider_pauses_17_times_in_a_row_fails_the_run_and_is_not_lost() {
    let mut bench = bench(json!({}), json!({}));
    for _ in 0..16 {
        pause(&mut bench);
    }
    // The count goes along to the next execution.
    bench.run = Run::resume(bench.run.continue_as_new()).unwrap();
    pause(&mut bench);
    assert_eq!(bench.step(), Step::Finish);
    let event = bench.run.end(bench.now).record.outbox.events.pop().unwrap();
    let mut data = event.body.split().unwrap().1;
    for count in ["turns", "toolCalls", "activeMs", "usage", "model"] {
        assert!(data.as_object_mut().unwrap().remove(count).is_some(), "{count}");
    }
    let expected = json!({
        "code": "unknown", "errorClass": "unknown", "failure": "RUN0015", "retryable": false,
        "error": "The provider paused one answer more than 16 times (stop_reason=pause_turn).",
        "finishReason": "pause_turn", "partialText": "done",
    });
    assert_eq!(data, expected);
}

#[test]
fn a_turn_that_proceeds_restarts_the_count_of_pauses() {
    // The provider stops for calls, and pauses with calls: both are turns that proceed.
    for stop in [StopReason::ToolUse, StopReason::PauseTurn] {
        let mut bench = bench(json!({}), json!({}));
        for _ in 0..16 {
            pause(&mut bench);
        }
        bench.begin();
        bench.says_and_stops(&[("read", json!({}))], Vec::new(), Some(stop.clone()), true);
        bench.dispatch();
        bench.ok("call-16-0");
        for _ in 0..16 {
            pause(&mut bench);
        }
        assert_eq!(bench.step(), Step::Plan, "{stop}");
        pause(&mut bench);
        assert_eq!(bench.step(), Step::Finish, "{stop}");
    }
}

#[test]
fn a_run_that_was_cancelled_while_the_model_answered_ends_cancelled_whatever_the_reason() {
    for stop in ["end_turn", "max_tokens", "content_filter", "pause_turn"] {
        let mut bench = bench(json!({}), json!({}));
        bench.begin();
        bench.run.cancel("enough", bench.now);
        bench.says_and_stops(&[("read", json!({}))], Vec::new(), Some(stop.into()), true);
        assert_eq!(settle(&mut bench), ["call-0-0 cancelled cancelled"], "{stop}");
        assert_eq!(bench.run.state().outcome, Some(Outcome::Cancelled { reason: "enough".to_owned() }), "{stop}");
    }
}
