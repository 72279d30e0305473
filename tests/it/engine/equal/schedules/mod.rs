//! Schedules: the times of random specs, actions and their overlap, lists, and errors.

mod actions;
mod errors;
mod specs;

use temporalio_protos::temporal::api::{
    common::v1::WorkflowType,
    schedule::v1::{
        IntervalSpec, Schedule, ScheduleAction, SchedulePatch, ScheduleSpec, TriggerImmediatelyRequest,
        schedule_action::Action,
    },
    workflow::v1::NewWorkflowExecutionInfo,
    workflowservice::v1::{
        CreateScheduleRequest, CreateScheduleResponse, DescribeScheduleRequest, DescribeScheduleResponse,
        PatchScheduleRequest, PatchScheduleResponse,
    },
};
use tonic::Status;
use uuid::Uuid;

use super::Peer;
use crate::engine::client::{NAMESPACE, queue};

/// 2030-01-01: nothing that a test does not ask for happens before.
const FAR: i64 = 1_893_456_000;

fn at(seconds: i64) -> prost_wkt_types::Timestamp {
    prost_wkt_types::Timestamp { seconds, nanos: 0 }
}

fn span(seconds: i64) -> prost_wkt_types::Duration {
    prost_wkt_types::Duration { seconds, nanos: 0 }
}

/// Every hour from 2030 on, a workflow on the queue of this name.
fn schedule(peer: &Peer, name: &str) -> Schedule {
    let action = NewWorkflowExecutionInfo {
        workflow_id: peer.id(name),
        workflow_type: Some(WorkflowType { name: "test".to_owned() }),
        task_queue: queue(&peer.id(name)),
        ..NewWorkflowExecutionInfo::default()
    };
    let interval = IntervalSpec { interval: Some(span(3600)), phase: None };
    Schedule {
        spec: Some(ScheduleSpec { interval: vec![interval], start_time: Some(at(FAR)), ..ScheduleSpec::default() }),
        action: Some(ScheduleAction { action: Some(Action::StartWorkflow(action)) }),
        ..Schedule::default()
    }
}

fn creation(peer: &Peer, name: &str, schedule: Schedule) -> CreateScheduleRequest {
    CreateScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        schedule_id: peer.id(name),
        schedule: Some(schedule),
        request_id: Uuid::new_v4().to_string(),
        identity: "client".to_owned(),
        ..CreateScheduleRequest::default()
    }
}

fn trigger(time: i64, policy: i32) -> SchedulePatch {
    let trigger = TriggerImmediatelyRequest { overlap_policy: policy, scheduled_time: Some(at(time)) };
    SchedulePatch { trigger_immediately: Some(trigger), ..SchedulePatch::default() }
}

impl Peer {
    async fn create(&self, request: CreateScheduleRequest) -> Result<CreateScheduleResponse, Status> {
        self.stub.clone().create_schedule(request).await.map(tonic::Response::into_inner)
    }

    async fn described(&self, name: &str) -> Result<DescribeScheduleResponse, Status> {
        let request = DescribeScheduleRequest { namespace: NAMESPACE.to_owned(), schedule_id: self.id(name) };
        self.stub.clone().describe_schedule(request).await.map(tonic::Response::into_inner)
    }

    async fn patch(&self, name: &str, patch: SchedulePatch) -> Result<PatchScheduleResponse, Status> {
        let request = PatchScheduleRequest {
            namespace: NAMESPACE.to_owned(),
            schedule_id: self.id(name),
            patch: Some(patch),
            request_id: Uuid::new_v4().to_string(),
            ..PatchScheduleRequest::default()
        };
        self.stub.clone().patch_schedule(request).await.map(tonic::Response::into_inner)
    }
}
