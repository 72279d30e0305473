//! `kill -9` of the engine's process while a schedule has buffered actions: each is taken once, in order.

use temporalio_protos::temporal::api::{
    common::v1::WorkflowType,
    enums::v1::ScheduleOverlapPolicy,
    schedule::v1::{
        Schedule, ScheduleAction, SchedulePatch, ScheduleState, TriggerImmediatelyRequest, schedule_action::Action,
    },
    workflow::v1::NewWorkflowExecutionInfo,
    workflowservice::v1::{
        CreateScheduleRequest, DescribeScheduleRequest, PatchScheduleRequest, PollWorkflowTaskQueueRequest,
        RespondWorkflowTaskCompletedRequest,
    },
};

use super::{
    client::{Client, NAMESPACE, QUEUE, patient, queue},
    equal::starts::complete,
    kill::Engines,
};
use crate::support::block_on;

const ID: &str = "killed";
const ACTIONS: i64 = 12;

#[test]
fn buffered_actions_survive_kills_and_are_taken_once() {
    block_on(async {
        let mut engines = Engines::new();
        engines.start();
        let client = Client::new(engines.port, engines.up.subscribe());
        create(&client).await;
        for number in 1..=ACTIONS {
            trigger(&client, number).await;
            if number % 4 == 0 {
                engines.kill();
                engines.start();
            }
        }
        let mut taken = Vec::new();
        while taken.len() < usize::try_from(ACTIONS).unwrap() {
            let poll = PollWorkflowTaskQueueRequest {
                namespace: NAMESPACE.to_owned(),
                task_queue: queue(QUEUE),
                ..PollWorkflowTaskQueueRequest::default()
            };
            let send =
                async |stub: &mut super::client::Stub, poll| stub.poll_workflow_task_queue(patient(poll, 30)).await;
            let task = client.insist(poll, send).await.0.unwrap();
            let Some(execution) = task.workflow_execution.clone() else { continue };
            if taken.len() % 3 == 1 {
                // The task is lost with the process, and comes again.
                engines.kill();
                engines.start();
            }
            let done = RespondWorkflowTaskCompletedRequest {
                task_token: task.task_token,
                commands: vec![complete()],
                ..RespondWorkflowTaskCompletedRequest::default()
            };
            let send = async |stub: &mut super::client::Stub, done| stub.respond_workflow_task_completed(done).await;
            let answered = client.insist(done, send).await.0;
            if taken.len() % 3 == 2 {
                engines.kill();
                engines.start();
            }
            if answered.is_ok() {
                taken.push(execution.workflow_id);
            }
        }
        let expected: Vec<String> = (1..=ACTIONS).map(|number| format!("{ID}-1970-01-01T00:00:{number:02}Z")).collect();
        assert_eq!(taken, expected);
        let describe = DescribeScheduleRequest { namespace: NAMESPACE.to_owned(), schedule_id: ID.to_owned() };
        let send = async |stub: &mut super::client::Stub, describe| stub.describe_schedule(describe).await;
        let info = client.insist(describe, send).await.0.unwrap().info.unwrap();
        assert_eq!((info.action_count, info.buffer_size, info.overlap_skipped), (ACTIONS, 0, 0));
        engines.kill();
    });
}

async fn create(client: &Client) {
    let action = NewWorkflowExecutionInfo {
        workflow_id: ID.to_owned(),
        workflow_type: Some(WorkflowType { name: "test".to_owned() }),
        task_queue: queue(QUEUE),
        ..NewWorkflowExecutionInfo::default()
    };
    let schedule = Schedule {
        action: Some(ScheduleAction { action: Some(Action::StartWorkflow(action)) }),
        state: Some(ScheduleState { paused: true, ..ScheduleState::default() }),
        ..Schedule::default()
    };
    let request = CreateScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        schedule_id: ID.to_owned(),
        schedule: Some(schedule),
        request_id: "create".to_owned(),
        ..CreateScheduleRequest::default()
    };
    let send = async |stub: &mut super::client::Stub, request| stub.create_schedule(request).await;
    client.insist(request, send).await.0.unwrap();
}

async fn trigger(client: &Client, number: i64) {
    let trigger = TriggerImmediatelyRequest {
        overlap_policy: ScheduleOverlapPolicy::BufferAll as i32,
        scheduled_time: Some(prost_wkt_types::Timestamp { seconds: number, nanos: 0 }),
    };
    let request = PatchScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        schedule_id: ID.to_owned(),
        patch: Some(SchedulePatch { trigger_immediately: Some(trigger), ..SchedulePatch::default() }),
        request_id: format!("trigger {number}"),
        ..PatchScheduleRequest::default()
    };
    let send = async |stub: &mut super::client::Stub, request| stub.patch_schedule(request).await;
    client.insist(request, send).await.0.unwrap();
}
