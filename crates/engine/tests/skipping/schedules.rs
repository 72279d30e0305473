//! Schedules and cron over weeks, with restarts of the engine in between.

use std::{collections::HashMap, sync::Arc};

use temporalio_protos::temporal::api::{
    common::v1::{Payload, Payloads, WorkflowType},
    enums::v1::{ContinueAsNewInitiator, ScheduleOverlapPolicy as Policy, WorkflowExecutionStatus as Status},
    history::v1::{WorkflowExecutionStartedEventAttributes, history_event::Attributes},
    schedule::v1::{
        BackfillRequest, IntervalSpec, Schedule, ScheduleAction, ScheduleInfo, SchedulePatch, SchedulePolicies,
        ScheduleSpec, TriggerImmediatelyRequest, schedule_action::Action,
    },
    workflow::v1::NewWorkflowExecutionInfo,
    workflowservice::v1::{
        CreateScheduleRequest, CreateScheduleResponse, DescribeScheduleRequest, DescribeScheduleResponse,
        PatchScheduleRequest, PatchScheduleResponse, PollWorkflowTaskQueueResponse, StartWorkflowExecutionRequest,
        StartWorkflowExecutionResponse,
    },
};
use windlass_engine::{Clock as _, SkippingClock};

use crate::rig::{DAY, Rig, SECOND, WEEK, assert_span, complete, complete_with, nanos, queue, span, unlocked};

const ID: &str = "weekly";

fn schedule(policy: Policy, interval: i64) -> Schedule {
    let interval = IntervalSpec { interval: Some(span(interval)), phase: None };
    let action = NewWorkflowExecutionInfo {
        workflow_id: ID.into(),
        workflow_type: Some(WorkflowType { name: "test".into() }),
        task_queue: Some(queue(ID)),
        workflow_task_timeout: Some(span(100 * SECOND)),
        ..NewWorkflowExecutionInfo::default()
    };
    Schedule {
        spec: Some(ScheduleSpec { interval: vec![interval], ..ScheduleSpec::default() }),
        action: Some(ScheduleAction { action: Some(Action::StartWorkflow(action)) }),
        policies: Some(SchedulePolicies { overlap_policy: policy as i32, ..SchedulePolicies::default() }),
        state: None,
    }
}

impl Rig {
    async fn create_schedule(&self, schedule: Schedule) {
        let request = CreateScheduleRequest {
            namespace: "default".into(),
            schedule_id: ID.into(),
            schedule: Some(schedule),
            request_id: "create".into(),
            ..CreateScheduleRequest::default()
        };
        let _: CreateScheduleResponse = self.workflows("CreateSchedule", &request).await;
    }

    async fn info(&self) -> ScheduleInfo {
        let request = DescribeScheduleRequest { namespace: "default".into(), schedule_id: ID.into() };
        let described: DescribeScheduleResponse = self.workflows("DescribeSchedule", &request).await;
        described.info.unwrap()
    }

    /// What is described as soon as it is as expected; after five seconds, what it is then.
    async fn info_once(&self, expected: impl Fn(&ScheduleInfo) -> bool) -> ScheduleInfo {
        for _ in 0..500 {
            let info = self.info().await;
            if expected(&info) {
                return info;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        self.info().await
    }

    async fn patch(&self, request_id: &str, patch: SchedulePatch) {
        let request = PatchScheduleRequest {
            namespace: "default".into(),
            schedule_id: ID.into(),
            patch: Some(patch),
            request_id: request_id.into(),
            ..PatchScheduleRequest::default()
        };
        let _: PatchScheduleResponse = self.workflows("PatchSchedule", &request).await;
    }

    async fn trigger(&self, request_id: &str, at: i64) {
        let at = prost_wkt_types::Timestamp { seconds: at, nanos: 0 };
        let trigger = TriggerImmediatelyRequest { overlap_policy: Policy::BufferAll as i32, scheduled_time: Some(at) };
        self.patch(request_id, SchedulePatch { trigger_immediately: Some(trigger), ..SchedulePatch::default() }).await;
    }
}

fn began(task: &PollWorkflowTaskQueueResponse) -> WorkflowExecutionStartedEventAttributes {
    match task.history.clone().unwrap().events.remove(0).attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(began)) => began,
        other => panic!("{other:?}"),
    }
}

fn text(text: &str) -> Payloads {
    let metadata = HashMap::from([("encoding".to_owned(), b"json/plain".to_vec())]);
    Payloads { payloads: vec![Payload { metadata, data: text.into(), ..Payload::default() }] }
}

#[tokio::test]
async fn a_schedule_acts_every_week_and_carries_results_on() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let start = clock.now();
    rig.create_schedule(schedule(Policy::Skip, WEEK)).await;
    for week in 0..5 {
        let task = rig.task(ID).await;
        let expected = (week > 0).then(|| text(&(week - 1).to_string()));
        assert_eq!(began(&task).last_completion_result, expected);
        rig.decide(&task, [complete_with(text(&week.to_string()))]).await;
    }
    assert!(clock.now() - start > 4 * WEEK && clock.now() - start < 6 * WEEK);
    let info = rig.info().await;
    assert!(info.action_count >= 5);
    let first = &info.recent_actions[0];
    assert_eq!(first.start_workflow_status, Status::Completed as i32);
    assert_eq!(first.schedule_time.unwrap().seconds % (WEEK / SECOND), 0);
    rig.close().await;
}

#[tokio::test]
async fn buffered_actions_survive_restarts_and_are_taken_once() {
    let clock = Arc::new(SkippingClock::new());
    let rig = Rig::new(&clock).await;
    rig.create_schedule(schedule(Policy::Skip, 1000 * WEEK)).await;
    // The repeated request is the same one.
    for (request_id, at) in [("a", 1000), ("b", 2000), ("b", 2000), ("c", 3000)] {
        rig.trigger(request_id, at).await;
    }
    let mut dir = rig.close().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let rig = Rig::on(dir, clock.clone()).await;
        let task = rig.task(ID).await;
        ids.push(task.workflow_execution.clone().unwrap().workflow_id);
        rig.decide(&task, [complete()]).await;
        dir = rig.close().await;
    }
    let rig = Rig::on(dir, clock.clone()).await;
    let times = ["1970-01-01T00:16:40Z", "1970-01-01T00:33:20Z", "1970-01-01T00:50:00Z"];
    assert_eq!(ids, times.map(|time| format!("{ID}-{time}")));
    // The last stop may have come after the start of the workflow and before the schedule knew of it: then it starts it
    // again, which finds the same workflow.
    let info = rig.info_once(|info| info.action_count >= 3 && info.running_workflows.is_empty()).await;
    assert_eq!((info.action_count, info.buffer_size, info.overlap_skipped), (3, 0, 0));
    assert!(info.running_workflows.is_empty());
    rig.close().await;
}

#[tokio::test]
async fn times_that_passed_while_the_engine_was_down_are_caught_up() {
    let clock = Arc::new(SkippingClock::new());
    let rig = Rig::new(&clock).await;
    let mut windowed = schedule(Policy::BufferAll, DAY);
    windowed.policies.as_mut().unwrap().catchup_window = Some(span(3 * DAY));
    rig.create_schedule(windowed).await;
    let created = clock.now();
    let dir = rig.close().await;

    let later = created / DAY * DAY + 10 * DAY + DAY / 2;
    let rig = Rig::on(dir, Arc::new(SkippingClock::starting_at(later))).await;
    for _ in 0..3 {
        rig.turn(ID, [complete()]).await;
    }
    let info = rig.info().await;
    assert_eq!((info.action_count, info.missed_catchup_window, info.buffer_size), (3, 7, 0));
    rig.close().await;
}

#[tokio::test]
async fn a_long_backfill_is_taken_in_parts() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    rig.create_schedule(schedule(Policy::Skip, WEEK)).await;
    let at = |nanos: i64| Some(prost_wkt_types::Timestamp { seconds: nanos / SECOND, nanos: 0 });
    let range = BackfillRequest {
        start_time: at(100 * WEEK),
        end_time: at(124 * WEEK),
        overlap_policy: Policy::AllowAll as i32,
    };
    rig.patch("backfill", SchedulePatch { backfill_request: vec![range], ..SchedulePatch::default() }).await;
    for _ in 0..25 {
        rig.turn(ID, [complete()]).await;
    }
    assert!(rig.info().await.action_count >= 25);
    rig.close().await;
}

#[tokio::test]
async fn a_cron_workflow_runs_every_day_over_restarts() {
    let clock = unlocked();
    let rig = Rig::new(&clock).await;
    let request = StartWorkflowExecutionRequest {
        namespace: "default".into(),
        workflow_id: "cron".into(),
        workflow_type: Some(WorkflowType { name: "test".into() }),
        task_queue: Some(queue("cron")),
        cron_schedule: "0 12 * * *".into(),
        request_id: "cron".into(),
        ..StartWorkflowExecutionRequest::default()
    };
    let _: StartWorkflowExecutionResponse = rig.workflows("StartWorkflowExecution", &request).await;
    let mut dir = rig.close().await;
    let mut last = None;
    for day in 0..4 {
        let rig = Rig::on(dir, clock.clone()).await;
        let task = rig.task("cron").await;
        let started = began(&task);
        assert_eq!(started.initiator(), ContinueAsNewInitiator::CronSchedule);
        assert_eq!(started.cron_schedule, "0 12 * * *");
        assert_eq!(started.last_completion_result, (day > 0).then(|| text(&(day - 1).to_string())));
        let at = nanos(task.started_time.unwrap());
        assert_span(at / DAY * DAY, at, DAY / 2);
        assert!(last.is_none_or(|last| at / DAY == last + 1), "a day is left out");
        last = Some(at / DAY);
        rig.decide(&task, [complete_with(text(&day.to_string()))]).await;
        dir = rig.close().await;
    }
}
