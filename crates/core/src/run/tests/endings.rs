//! How a run says that it ended: answers that are none, models that fail, schemas that are not met.

use serde_json::{Value, json};

use super::bench::{Bench, bench, last_message, words};
use crate::{
    envelope::{FinalFacts, SchemaFit},
    event::EventBody,
    run::{PlanFailure, Step},
    stop::{AnswerFlaw, StopReason},
};

fn strict() -> Value {
    json!({"outputSchema": {"schema": {}, "enforcement": "strict"}})
}

fn best_effort() -> Value {
    json!({"outputSchema": {"schema": {}}})
}

/// The run ends; its last events in words, and the data of the terminal one without its counts.
fn end(bench: &mut Bench) -> (Vec<String>, Value) {
    assert_eq!(bench.step(), Step::Finish);
    let events = bench.run.end(bench.now).record.outbox.events;
    let mut data = events.last().unwrap().body.split().unwrap().1;
    let fields = data.as_object_mut().unwrap();
    for count in ["turns", "toolCalls", "activeMs", "usage"] {
        assert!(fields.remove(count).is_some(), "{count}");
    }
    assert_eq!(fields.remove("model"), Some(json!("script:test")));
    (events.iter().map(|event| words(&event.body)).collect(), data)
}

/// No model of these tests enforces a schema; the run only checks the answer.
fn not_enforced() -> Value {
    json!({"schemaRequested": true, "schemaEnforced": false, "enforcementMechanism": "none",
           "unconstrainedFallbackOccurred": false})
}

#[test]
fn an_answer_that_was_cut_off_or_refused_fails_the_run_and_is_not_lost() {
    let cases = [
        (
            AnswerFlaw::Truncated,
            "max_tokens",
            "Model output was truncated (stop_reason=max_tokens). Ask for a shorter answer, or allow more output.",
            ("truncation", "RUN0008", false),
        ),
        (
            AnswerFlaw::Refused,
            "refusal",
            "The model refused to answer (stop_reason=refusal).",
            ("unknown", "RUN0009", false),
        ),
        (
            AnswerFlaw::MalformedCall,
            "malformed_function_call",
            "The model wrote a tool call that cannot be read (stop_reason=malformed_function_call).",
            ("unknown", "RUN0009", true),
        ),
    ];
    for (flaw, stop, message, (class, code, retryable)) in cases {
        assert_eq!(StopReason::from(stop).known_flaw(), Some(flaw));
        for finalising in [false, true] {
            let mut bench = bench(json!({"timeBudgetMs": if finalising { 0 } else { 1_000 }}), json!({}));
            bench.begin();
            bench.log();
            bench.answers(FinalFacts { flaw: Some(flaw), ..last_message("half an ans") }, stop);
            let expected = json!({
                "code": class, "errorClass": class, "failure": code, "error": message, "retryable": retryable,
                "finishReason": stop, "partialText": "half an ans",
            });
            assert_eq!(end(&mut bench), (vec!["error".to_owned()], expected), "{stop}");
        }
    }
    for stop in ["end_turn", "tool_use", "stop_sequence", "stop", ""] {
        assert_eq!(StopReason::from(stop).known_flaw(), None, "{stop}");
    }
}

#[test]
fn record_reads_a_final_answer_above_the_inline_limit_from_the_store() {
    for flaw in [None, Some(AnswerFlaw::Truncated)] {
        let mut bench = bench(json!({}), json!({}));
        bench.begin();
        let answer = FinalFacts { message: None, flaw, ..last_message("long") };
        bench.answers(answer.clone(), "stop");
        let record = bench.run.end(bench.now).record;
        assert_eq!(record.final_ref, Some(answer.message_ref), "{flaw:?}");
        let (EventBody::Result { text, .. } | EventBody::Error { partial_text: Some(text), .. }) =
            &record.outbox.events.last().unwrap().body
        else {
            panic!("no text to fill in")
        };
        assert_eq!(text, "");
        assert!(!record.closes_session_turn);
    }
}

#[test]
fn only_a_strict_schema_fails_an_answer_that_does_not_fit() {
    let misfit = || SchemaFit::Misfit { problem: "/n: no".to_owned() };
    let unusable = || SchemaFit::Unusable { problem: "no type".to_owned() };
    let ok =
        || json!({"text": "{}", "subtype": "success", "finishReason": "end_turn", "structuredOutput": not_enforced()});
    let failed = |class: &str, message: &str| {
        json!({
            "code": class, "errorClass": class, "failure": "RUN0010", "error": message, "retryable": false,
            "finishReason": "end_turn", "partialText": "{}", "structuredOutput": not_enforced(),
        })
    };
    let cases = [
        (best_effort(), SchemaFit::Fits, ok()),
        (best_effort(), misfit(), ok()),
        (best_effort(), unusable(), ok()),
        (strict(), SchemaFit::Fits, ok()),
        (
            strict(),
            misfit(),
            failed("structured_output_not_enforced", "The answer does not fit the output schema: /n: no"),
        ),
        (
            strict(),
            unusable(),
            failed("structured_output_schema_rejected", "The output schema cannot be used: no type"),
        ),
    ];
    for (agent, fit, expected) in cases {
        let mut bench = bench(json!({}), agent);
        bench.begin();
        let answer = || FinalFacts { schema_fit: Some(fit.clone()), ..last_message("{}") };
        bench.answers(answer(), "end_turn");
        if matches!(fit, SchemaFit::Misfit { .. }) {
            bench.begin();
            bench.answers(answer(), "end_turn");
        }
        assert_eq!(end(&mut bench).1, expected, "{fit:?}");
    }
}

#[test]
fn a_model_that_fails_says_why_and_what_it_had_said() {
    let failure = PlanFailure {
        error_class: Some("overloaded".to_owned()),
        retryable: true,
        api_status: Some(529),
        api_code: Some("overloaded_error".to_owned()),
        partial_text: Some("I was about".to_owned()),
        ..PlanFailure::new("busy")
    };
    let mut bench = bench(json!({}), strict());
    bench.turn(&[("read", json!({}))]);
    bench.dispatch();
    bench.ok("call-0-0");
    bench.begin();
    bench.run.plan_failed(failure, bench.now);
    let expected = json!({
        "code": "overloaded", "errorClass": "overloaded", "failure": "RUN0001", "error": "busy", "retryable": true,
        "apiStatus": 529, "apiCode": "overloaded_error", "partialText": "I was about", "structuredOutput": not_enforced(),
    });
    assert_eq!(end(&mut bench), (vec!["assistant_message".to_owned(), "error".to_owned()], expected));
}

#[test]
fn a_model_that_fails_without_a_word_leaves_no_message() {
    for (timed_out, class, code) in [(false, None, "RUN0001"), (true, Some("timeout"), "RUN0002")] {
        let mut bench = bench(json!({}), json!({}));
        bench.begin();
        let silent = PlanFailure { timed_out, partial_text: Some(String::new()), ..PlanFailure::new("no") };
        bench.run.plan_failed(silent, bench.now);
        let mut expected = json!({"code": class.unwrap_or(code), "failure": code, "error": "no", "retryable": false});
        if let Some(class) = class {
            expected["errorClass"] = json!(class);
        }
        assert_eq!(end(&mut bench), (vec!["error".to_owned()], expected));
    }
}

#[test]
fn a_cancelled_run_says_that_a_schema_was_wanted() {
    let mut bench = bench(json!({}), best_effort());
    bench.run.cancel("enough", bench.now);
    let expected = json!({"reason": "enough", "structuredOutput": not_enforced()});
    assert_eq!(end(&mut bench), (vec!["cancelled".to_owned()], expected));
}
