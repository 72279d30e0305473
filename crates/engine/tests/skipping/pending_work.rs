//! Time is not skipped while work is pending.

use std::sync::Arc;

use temporalio_protos::temporal::api::workflowservice::v1::{
    RespondActivityTaskCompletedRequest, RespondActivityTaskCompletedResponse, SignalWorkflowExecutionRequest,
    SignalWorkflowExecutionResponse,
};
use temporalio_protos::temporal::api::{common::v1::WorkflowExecution, enums::v1::EventType};
use windlass_engine::{Clock as _, SkippingClock};

use crate::rig::{Rig, WEEK, activity, assert_span, complete, continue_as_new, timer, unlocked};

#[tokio::test]
async fn a_pending_workflow_task_stops_time_skipping() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("works").await;
    rig.start("waits").await;
    rig.turn("waits", [timer("timer", WEEK)]).await;
    assert_span(began, clock.now(), 0);
    let task = rig.task("works").await;
    assert_span(began, clock.now(), 0);
    rig.decide(&task, [complete()]).await;
    rig.turn("waits", [complete()]).await;
    assert_span(began, clock.now(), WEEK);
    rig.close().await;
}

#[tokio::test]
async fn a_pending_activity_stops_time_skipping() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("acts").await;
    rig.turn("acts", [activity("acts"), timer("timer", WEEK)]).await;
    assert_span(began, clock.now(), 0);
    let task = rig.activity("acts").await;
    assert_span(began, clock.now(), 0);
    let done = RespondActivityTaskCompletedRequest { task_token: task.task_token, ..Default::default() };
    let _: RespondActivityTaskCompletedResponse = rig.workflows("RespondActivityTaskCompleted", &done).await;
    rig.turn("acts", []).await;
    rig.turn("acts", [complete()]).await;
    assert_span(began, clock.now(), WEEK);
    rig.close().await;
}

#[tokio::test]
async fn continue_as_new_stops_time_skipping_until_it_is_done() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("goes on").await;
    rig.start("waits").await;
    rig.turn("waits", [timer("timer", WEEK)]).await;
    rig.turn("goes on", [continue_as_new("goes on")]).await;
    assert_span(began, clock.now(), 0);
    rig.turn("goes on", [complete()]).await;
    rig.turn("waits", [complete()]).await;
    assert_span(began, clock.now(), WEEK);
    rig.close().await;
}

#[tokio::test]
async fn a_signal_on_the_last_day_arrives_before_the_timeout() {
    let clock = Arc::new(SkippingClock::new());
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("asks").await;
    rig.turn("asks", [timer("patience", 3 * WEEK)]).await;
    clock.unlock_with_sleep(std::time::Duration::from_nanos((3 * WEEK - WEEK / 7) as u64)).await.unwrap();
    let signal = SignalWorkflowExecutionRequest {
        namespace: "default".into(),
        workflow_execution: Some(WorkflowExecution { workflow_id: "asks".into(), ..Default::default() }),
        signal_name: "answer".into(),
        ..Default::default()
    };
    let _: SignalWorkflowExecutionResponse = rig.workflows("SignalWorkflowExecution", &signal).await;
    rig.turn("asks", [complete()]).await;
    assert_span(began, rig.time_of("asks", EventType::WorkflowExecutionSignaled).await, 3 * WEEK - WEEK / 7);
    clock.unlock().unwrap();
    assert_span(began, clock.now(), 3 * WEEK - WEEK / 7);
    rig.close().await;
}

#[tokio::test]
async fn pending_tasks_and_timers_survive_a_restart() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let began = clock.now();
    rig.start("works").await;
    rig.start("waits").await;
    rig.turn("waits", [timer("timer", WEEK)]).await;
    let task = rig.task("works").await;
    let dir = rig.close().await;

    let clock = Arc::new(SkippingClock::starting_at(clock.now()));
    clock.unlock().unwrap();
    let rig = Rig::on(dir, clock.clone()).await;
    assert_span(began, clock.now(), 0);
    rig.decide(&task, [complete()]).await;
    rig.turn("waits", [complete()]).await;
    assert_span(began, rig.time_of("waits", EventType::TimerFired).await, WEEK);
    rig.close().await;
}
