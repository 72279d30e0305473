//! Timers of weeks are skipped.

use temporalio_protos::temporal::api::{
    enums::v1::EventType,
    failure::v1::Failure,
    workflowservice::v1::{
        RespondActivityTaskCompletedRequest, RespondActivityTaskCompletedResponse, RespondActivityTaskFailedRequest,
        RespondActivityTaskFailedResponse,
    },
};
use windlass_engine::Clock as _;

use crate::rig::{DAY, Rig, WEEK, activity, assert_span, child, complete, nanos, timer, unlocked};

#[tokio::test]
async fn a_chain_of_timers_is_skipped_and_history_has_the_full_times() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("chain").await;
    for n in 1..=10 {
        rig.turn("chain", [timer(&format!("timer-{n}"), 3 * WEEK), timer(&format!("late-{n}"), 1000 * WEEK)]).await;
    }
    rig.turn("chain", [complete()]).await;
    assert_span(began, clock.now(), 30 * WEEK);
    let events = rig.history("chain").await;
    let fired = events.iter().filter(|event| event.event_type() == EventType::TimerFired);
    let times: Vec<i64> = fired.map(|event| nanos(event.event_time.unwrap())).collect();
    assert_eq!(times.len(), 10);
    for (n, at) in (1..).zip(times) {
        assert_span(began, at, n * 3 * WEEK);
    }
    rig.close().await;
}

#[tokio::test]
async fn retries_of_an_activity_keep_their_backoff_when_skipped() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("retry").await;
    rig.turn("retry", [activity("retry")]).await;
    for (attempt, days) in [(1, 0), (2, 1), (3, 3), (4, 7)] {
        let task = rig.activity("retry").await;
        assert_eq!(task.attempt, attempt);
        assert_span(began, nanos(task.started_time.unwrap()), days * DAY);
        let failed = RespondActivityTaskFailedRequest {
            task_token: task.task_token,
            failure: Some(Failure { message: "not yet".into(), ..Failure::default() }),
            ..RespondActivityTaskFailedRequest::default()
        };
        let _: RespondActivityTaskFailedResponse = rig.workflows("RespondActivityTaskFailed", &failed).await;
    }
    let task = rig.activity("retry").await;
    let done = RespondActivityTaskCompletedRequest { task_token: task.task_token, ..Default::default() };
    let _: RespondActivityTaskCompletedResponse = rig.workflows("RespondActivityTaskCompleted", &done).await;
    rig.turn("retry", [complete()]).await;
    assert_span(began, rig.time_of("retry", EventType::ActivityTaskCompleted).await, 15 * DAY);
    rig.close().await;
}

#[tokio::test]
async fn a_parent_gets_its_childs_result_while_time_is_skipped() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("parent").await;
    rig.turn("parent", [child("child"), timer("patience", 4 * WEEK)]).await;
    // The parent gets the event that its child has started.
    rig.turn("parent", []).await;
    rig.turn("child", [timer("work", 3 * WEEK)]).await;
    rig.turn("child", [complete()]).await;
    rig.turn("parent", [complete()]).await;
    assert_span(began, rig.time_of("parent", EventType::ChildWorkflowExecutionCompleted).await, 3 * WEEK);
    assert_span(began, clock.now(), 3 * WEEK);
    rig.close().await;
}

#[tokio::test]
async fn a_cancelled_timer_is_not_waited_for() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("over").await;
    rig.turn("over", [timer("never", WEEK), complete()]).await;
    rig.start("other").await;
    assert_span(began, clock.now(), 0);
    rig.close().await;
}
