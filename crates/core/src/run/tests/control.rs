//! What operators do to a run: pause, resume, steer, cancel.

use serde_json::json;

use super::bench::{Bench, bench, result_words, results, said, words};
use crate::{
    canonical::Digest,
    envelope::{CallStatus, OutboxMessage, PauseRequest, ResumeRequest, SteerRequest, ToolErrorKind},
    ids::RunId,
    message::Message,
    run::{Outcome, Phase, RunEnding, RunStatus, Step},
    time::Millis,
};

fn pause(bench: &mut Bench) {
    let request = PauseRequest { reason: "audit".into(), requested_by: "ann".into(), ..PauseRequest::default() };
    bench.run.pause(request, bench.now);
}

fn steer(bench: &mut Bench, text: &str) {
    bench.run.steer(SteerRequest { text: text.to_owned(), ..SteerRequest::default() });
}

#[test]
fn a_pause_lets_running_calls_end_and_begins_nothing() {
    let mut bench = bench(json!({"timeBudgetMs": 10_000}), json!({}));
    bench.turn(&[("read", json!({})), ("pay", json!({}))]);
    bench.dispatch();
    bench.log();
    pause(&mut bench);
    bench.approve("await-1");
    assert_eq!((bench.step(), bench.run.status()), (Step::Wait, RunStatus::Running));
    bench.pass(400);
    bench.ok("call-0-0");
    assert_eq!((bench.step(), bench.run.phase()), (Step::Wait, Phase::Paused));

    let left = bench.run.view(bench.now).remaining_ms;
    bench.pass(30 * 24 * 3_600_000);
    assert_eq!((bench.step(), bench.run.view(bench.now).remaining_ms), (Step::Wait, left));
    assert_eq!(left, Some(Millis(9_600)));

    bench.run.resume_from_pause(ResumeRequest { messages: vec![Message::user("go on")], ..ResumeRequest::default() });
    assert_eq!(bench.dispatch().len(), 1);
    assert_eq!(bench.log(), ["paused", "await-1 approved", "resumed"]);
    bench.ok("call-0-1");
    let input = bench.begin().input;
    assert_eq!(
        (results(&input), said(&input)),
        (vec!["call-0-0 ok".into(), "call-0-1 ok".into()], vec!["go on".into()])
    );
}

#[test]
fn awaits_expire_while_a_run_is_paused_but_nothing_is_planned() {
    let tools = json!([{"name": "form", "kind": "external", "expiresInMs": 1_000}]);
    let mut bench = bench(json!({}), json!({"tools": tools}));
    bench.turn(&[("form", json!({}))]);
    pause(&mut bench);
    bench.pass(1_000);
    assert_eq!(bench.step(), Step::Wait);
    bench.run.resume_from_pause(ResumeRequest::default());
    assert_eq!(results(&bench.begin().input), ["call-0-0 refused expired"]);
}

#[test]
fn a_steer_is_heard_by_the_next_plan_even_if_the_one_under_way_fails() {
    let mut bench = bench(json!({"timeBudgetMs": 1_000}), json!({}));
    steer(&mut bench, "be brief");
    assert_eq!(said(&bench.begin().input), ["be brief"]);
    steer(&mut bench, "in French");
    bench.says(&[("read", json!({}))], Vec::new());
    bench.dispatch();
    bench.ok("call-0-0");
    assert_eq!(said(&bench.begin().input), ["in French"]);
    steer(&mut bench, "no, in Latin");
    bench.pass(1_000);
    bench.plan_fails(true);
    assert_eq!(said(&bench.begin().input), ["in French", "no, in Latin"]);
}

#[test]
fn signals_that_are_not_in_order_change_nothing_and_are_recorded() {
    let elsewhere = Some(RunId::new("other"));
    let prepared = |script: fn(&mut Bench)| {
        let mut bench = bench(json!({}), json!({}));
        script(&mut bench);
        bench.log();
        bench
    };
    let forbidding = || bench(json!({"interruptsAllowed": false}), json!({}));
    let ended = || {
        prepared(|bench| {
            bench.turn(&[]);
        })
    };
    let user = |text: String| ResumeRequest { messages: vec![Message::user(text)], ..ResumeRequest::default() };
    type Act = Box<dyn Fn(&mut Bench)>;
    let cases: Vec<(Bench, Act, &str)> = vec![
        (prepared(pause), Box::new(pause), "windlass.pause rejected: the run is paused already"),
        (forbidding(), Box::new(pause), "windlass.pause rejected: this run's policy allows no interrupts"),
        (ended(), Box::new(pause), "windlass.pause rejected: the run has ended"),
        (
            prepared(|_| {}),
            Box::new(move |bench: &mut Bench| {
                bench.run.pause(PauseRequest { run_id: elsewhere.clone(), ..PauseRequest::default() }, bench.now);
            }),
            "windlass.pause rejected: it is addressed to run other",
        ),
        (
            prepared(|_| {}),
            Box::new(|bench: &mut Bench| bench.run.resume_from_pause(ResumeRequest::default())),
            "windlass.resume rejected: the run is not paused",
        ),
        (
            prepared(pause),
            Box::new(|bench: &mut Bench| {
                let messages = vec![Message::assistant("I said so")];
                bench.run.resume_from_pause(ResumeRequest { messages, ..ResumeRequest::default() });
            }),
            "windlass.resume rejected: its messages must be short user or system texts",
        ),
        (
            prepared(pause),
            Box::new(move |bench: &mut Bench| bench.run.resume_from_pause(user("x".repeat(65_537)))),
            "windlass.resume rejected: its messages must be short user or system texts",
        ),
        (
            forbidding(),
            Box::new(|bench: &mut Bench| steer(bench, "faster")),
            "windlass.steer rejected: this run's policy allows no interrupts",
        ),
        (
            prepared(|_| {}),
            Box::new(|bench: &mut Bench| steer(bench, " \n")),
            "windlass.steer rejected: its text must be 1 to 65536 bytes long",
        ),
    ];
    for (mut bench, act, recorded) in cases {
        let before = bench.run.digest();
        act(&mut bench);
        assert_eq!((bench.run.digest(), bench.log()), (before, vec![recorded.to_owned()]));
    }
}

/// The events of a ending in words, its results in words, and how it ended.
fn told(ending: &RunEnding) -> (Vec<String>, Vec<String>, Outcome) {
    let outbox = &ending.record.outbox;
    let results = outbox.messages.iter().flat_map(|entry| match entry {
        OutboxMessage::ToolResults { results } => results.iter().map(result_words).collect(),
        OutboxMessage::Message { message } => vec![message.plain_text()],
    });
    (outbox.events.iter().map(|event| words(&event.body)).collect(), results.collect(), ending.outcome.clone())
}

#[test]
fn a_cancelled_run_waits_for_its_running_calls_and_gives_every_call_a_result() {
    let mut bench = bench(json!({"maxToolCalls": 9}), json!({}));
    let calls = ["read", "helper", "pay", "form", "read"].map(|tool| (tool, json!({"of": tool})));
    bench.turn(&calls);
    bench.dispatch();
    bench.log();
    steer(&mut bench, "stop soon");
    bench.run.cancel("enough", bench.now);
    bench.run.cancel("again", bench.now);
    assert_eq!(bench.step(), Step::Wait);
    assert_eq!(
        bench.log(),
        [
            "steered",
            "await-1 abandoned",
            "await-2 abandoned",
            "call-0-2 cancelled cancelled",
            "call-0-3 cancelled cancelled"
        ]
    );
    bench.fails("call-0-4", ToolErrorKind::OutcomeUnknown, CallStatus::OutcomeUnknown);
    bench.run.child_finished(&"call-0-1".into(), crate::run::ChildReport::Cancelled, bench.now);
    assert_eq!(bench.step(), Step::Wait);
    bench.ok("call-0-0");
    assert_eq!((bench.step(), bench.run.status()), (Step::Finish, RunStatus::Cancelled));

    let (events, written, outcome) = told(&bench.run.end(bench.now));
    assert_eq!(events, ["call-0-4 outcome_unknown outcome_unknown", "call-0-1 cancelled cancelled", "cancelled"]);
    assert_eq!(
        written,
        [
            "call-0-0 ok",
            "call-0-1 cancelled cancelled",
            "call-0-2 cancelled cancelled",
            "call-0-3 cancelled cancelled",
            "call-0-4 outcome_unknown outcome_unknown",
            "stop soon",
        ]
    );
    assert_eq!(outcome, Outcome::Cancelled { reason: "enough".to_owned() });
}

#[test]
fn a_plan_that_answers_a_cancelled_run_leaves_no_call_open() {
    let mut bench = bench(json!({}), json!({}));
    bench.begin();
    bench.run.cancel("enough", bench.now);
    bench.says(&[("read", json!({})), ("pay", json!({}))], Vec::new());
    assert_eq!(bench.step(), Step::Finish);
    let (events, written, _) = told(&bench.run.end(bench.now));
    assert_eq!(events, ["call-0-0 cancelled cancelled", "call-0-1 cancelled cancelled", "cancelled"]);
    assert_eq!(written, ["call-0-0 cancelled cancelled", "call-0-1 cancelled cancelled"]);
}

#[test]
fn a_plan_that_fails_a_cancelled_run_takes_nothing_with_it() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("read", json!({}))]);
    bench.dispatch();
    bench.ok("call-0-0");
    steer(&mut bench, "be brief");
    let given = bench.begin().input;
    bench.run.cancel("enough", bench.now);
    bench.plan_fails(false);
    let ending = bench.run.end(bench.now);
    assert_eq!(ending.record.head, given.head);
    assert_eq!(told(&ending).1, ["call-0-0 ok", "be brief"]);
    assert_eq!(ending.record.outbox.events[..given.outbox.events.len()], given.outbox.events);
    assert_ne!(ending.record.head.digest, Digest::ZERO);
}
