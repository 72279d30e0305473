//! Weeks of waiting for people, and for a model that is away.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_core::{
    envelope::{AnswerBody, Tuning},
    event::{AwaitClosure, EventBody},
    message::Message,
    time::Millis,
};
use windlass_engine::Clock as _;

use super::{DAY, Rig, THREE_WEEKS, assert_passed};
use crate::support::{
    agent, block_on, calls, checks::log_is_gapless_with_one_terminal_event_at_its_end, says, script, world::scripts,
};

/// A wait of three weeks, which the test skips.
const AT_ONCE: Duration = Duration::from_secs(5);

fn ask(extra: Value) -> Value {
    let mut question =
        json!({"kind": "clarification", "question": "Which city?", "expires_in_ms": 21 * 24 * 3600 * 1000});
    question.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"await": question})
}

fn opened(body: &EventBody) -> bool {
    matches!(body, EventBody::AwaitOpened { .. })
}

fn closed(body: &EventBody) -> bool {
    matches!(body, EventBody::AwaitClosed { .. })
}

#[test]
fn an_await_of_three_weeks_expires_at_once() {
    block_on(async {
        let asks = |extra: Value| script(&[ask(extra), says("{{last_user}}")]);
        let approve = script(&[calls(&[("echo", json!({"a": 1}))]), says("{{last_tool_result}}")]);
        let rig = Rig::new(scripts([
            ("default", asks(json!({"on_expiry": "default", "default_answer": "Bergen"}))),
            ("replan", asks(json!({"on_expiry": "replan"}))),
            ("fail", asks(json!({"on_expiry": "fail"}))),
            ("deny", approve),
        ]))
        .await;
        rig.clock.unlock().unwrap();
        let began = (Instant::now(), rig.clock.now());

        let (run, output) = rig.world.answer_of(agent("default", json!([])), "go").await;
        assert_eq!(output.final_message, Some(Message::assistant("Bergen")));
        assert!(began.0.elapsed() < AT_ONCE, "{:?}", began.0.elapsed());
        assert_passed(Duration::from_nanos((rig.clock.now() - began.1) as u64), THREE_WEEKS);
        assert_passed(rig.between(&run, opened, closed).await, THREE_WEEKS);
        assert_passed(output.active_ms.as_duration(), Duration::ZERO);

        let (_, output) = rig.world.answer_of(agent("replan", json!([])), "go").await;
        assert!(output.final_message.unwrap().plain_text().starts_with("No answer to the question"));
        let failing = rig.world.start(agent("fail", json!([])), "go").await;
        let end = rig.world.result(&failing).await.unwrap_err();
        assert_eq!(end.to_string(), "RUN0004: await-1 (Which city?) was not answered in time");
        let tools = json!([{"name": "echo", "confirmation": {"expiresInMs": 21 * 24 * 3600 * 1000}}]);
        let (denied, output) = rig.world.answer_of(agent("deny", tools), "go").await;
        assert!(output.final_message.unwrap().plain_text().contains("no answer within the time limit"));
        assert_eq!(rig.world.watch.seen(), []);
        let outcome = rig.world.event(&denied, closed).await;
        assert!(matches!(outcome, EventBody::AwaitClosed { outcome: AwaitClosure::Expired, actor: None, .. }));
        rig.close().await;
    });
}

#[test]
fn an_answer_on_the_last_day_counts() {
    block_on(async {
        let rig = Rig::new(scripts([("ask", script(&[ask(json!({})), says("{{last_user}}")]))])).await;
        let began = Instant::now();
        let run = rig.world.start(agent("ask", json!([])), "go").await;
        let item = rig.world.opened(&run, 1).await;
        rig.clock.unlock_with_sleep(THREE_WEEKS - DAY).await.unwrap();
        rig.world.give(&run, &item, AnswerBody::Clarification { answer: "Oslo".into() }).await;
        let output = rig.world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("Oslo")));
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        assert_passed(rig.between(&run, opened, closed).await, THREE_WEEKS - DAY);
        assert_passed(output.active_ms.as_duration(), Duration::ZERO);
        rig.close().await;
    });
}

#[test]
fn a_year_of_waits_one_after_another() {
    block_on(async {
        const WAITS: u32 = 18;
        let mut turns = vec![ask(json!({"on_expiry": "replan"})); WAITS as usize];
        turns.push(says("I gave up after {{user_count}}."));
        let rig = Rig::new(scripts([("patient", script(&turns))])).await;
        rig.clock.unlock().unwrap();
        let began = rig.clock.now();
        let (run, output) = rig.world.answer_of(agent("patient", json!([])), "go").await;
        assert_eq!(output.final_message, Some(Message::assistant("I gave up after 19.")));
        assert_passed(Duration::from_nanos((rig.clock.now() - began) as u64), THREE_WEEKS * WAITS);
        let ended = |body: &EventBody| matches!(body, EventBody::Result { .. });
        assert_passed(rig.between(&run, opened, ended).await, THREE_WEEKS * WAITS);
        rig.close().await;
    });
}

#[test]
fn attempts_that_wait_minutes_for_each_other() {
    block_on(async {
        let busy = json!({"error": "busy", "errorClass": "overloaded", "times": 5});
        let rig = Rig::new(scripts([("busy", script(&[json!({"text": "fine", "error": busy})]))])).await;
        rig.clock.unlock().unwrap();
        let began = (Instant::now(), rig.clock.now());
        let run = rig
            .world
            .start_with(agent("busy", json!([])), "go", |start| {
                let interval = Some(Millis::from_secs(15));
                start.tuning = Some(Tuning { plan_retry_interval_ms: interval, ..Tuning::default() });
            })
            .await;
        let output = rig.world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("fine")));
        assert!(began.0.elapsed() < AT_ONCE, "{:?}", began.0.elapsed());
        // 15, 30, and then no longer than 60 seconds at a time.
        let waited = Duration::from_secs(15 + 30 + 60 + 60 + 60);
        assert_passed(Duration::from_nanos((rig.clock.now() - began.1) as u64), waited);
        rig.close().await;
    });
}

#[test]
fn a_store_that_stays_in_the_present_does_not_mind() {
    block_on(async {
        let turns = [ask(json!({"on_expiry": "replan"})), ask(json!({})), says("{{last_user}}")];
        let rig = Rig::with_store(scripts([("ask", script(&turns))]), |_, _| {}).await;
        let run = rig.world.start(agent("ask", json!([])), "go").await;
        rig.world.opened(&run, 1).await;
        rig.clock.unlock_with_sleep(THREE_WEEKS + DAY).await.unwrap();
        let item = rig.world.opened(&run, 2).await;
        rig.world.give(&run, &item, AnswerBody::Clarification { answer: "Oslo".into() }).await;
        let output = rig.world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("Oslo")));
        assert_passed(output.active_ms.as_duration(), Duration::ZERO);
        assert_passed(rig.between(&run, opened, closed).await, Duration::ZERO);
        log_is_gapless_with_one_terminal_event_at_its_end(&rig.world.events(&run).await);
        rig.close().await;
    });
}
