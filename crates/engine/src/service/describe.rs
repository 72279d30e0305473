//! DescribeWorkflowExecution, and the run's row in lists.

mod nexus;

use std::{collections::HashMap, sync::Arc};

use prost::Message as _;
use temporalio_protos::temporal::api::{
    activity::v1::ActivityOptions,
    common::v1::{ActivityType, RetryPolicy, WorkflowExecution, WorkflowType},
    enums::v1::{EventType, PendingActivityState, PendingWorkflowTaskState, TaskQueueKind, WorkflowExecutionStatus},
    taskqueue::v1::TaskQueue,
    workflow::v1::{
        PendingActivityInfo, PendingChildExecutionInfo, PendingWorkflowTaskInfo, RequestIdInfo, ResetPoints,
        WorkflowExecutionConfig, WorkflowExecutionExtendedInfo, WorkflowExecutionInfo,
        pending_activity_info::{PauseInfo, pause_info},
    },
    workflowservice::v1::{DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse},
};

use super::checks;
use crate::{
    core::Core,
    deployments::Version,
    run::{
        Run, RunState, retries_until,
        state::{Activity, Pause},
    },
    service_error::ServiceError,
    time::{duration, optional_timestamp, timestamp},
    visibility::{index, sql::VisibilityRow},
};

impl Core {
    pub(super) async fn describe_workflow(
        self: &Arc<Self>,
        request: DescribeWorkflowExecutionRequest,
    ) -> Result<DescribeWorkflowExecutionResponse, ServiceError> {
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.execution)?;
        let parent_namespace_id = self.read_namespaces().id(&request.namespace).unwrap_or_default();
        let known = self.read_namespaces().attributes(&request.namespace);
        let done = self.with_run(&target, |run, _| Ok(described(run, &parent_namespace_id)))?;
        let mut described = done.value();
        let info = described.workflow_execution_info.as_mut();
        // An attribute that was removed from the namespace is not shown.
        if let Some(attributes) = info.and_then(|info| info.search_attributes.as_mut()) {
            attributes.indexed_fields.retain(|name, _| known.has(name));
        }
        Ok(described)
    }

    /// The run's row in lists.
    pub(crate) fn listing(&self, run: &Run) -> VisibilityRow {
        let state = &run.state;
        let known = self.read_namespaces().attributes(&state.namespace);
        let given = state.search_attributes.clone().unwrap_or_default();
        // The attributes were checked when they were set. One that was removed from the namespace since is not listed.
        let indexed = index::index_kept(&given, &known);
        VisibilityRow {
            run: run.number,
            namespace: state.namespace.clone(),
            workflow_id: state.workflow_id.clone(),
            run_id: state.run_id.clone(),
            workflow_type: state.workflow_type.clone(),
            task_queue: state.task_queue.clone(),
            status: state.status,
            start_time: state.start_time,
            execution_time: state.execution_time,
            close_time: (state.close_time != 0).then_some(state.close_time),
            history_length: state.next_event_id - 1,
            history_size: state.history_size,
            parent_workflow_id: state.parent.as_ref().map(|parent| parent.workflow_id.clone()),
            parent_run_id: state.parent.as_ref().map(|parent| parent.run_id.clone()),
            root_workflow_id: state.root_workflow_id.clone(),
            root_run_id: state.root_run_id.clone(),
            memo: state.memo.as_ref().map(|memo| memo.encode_to_vec()),
            search_attributes: Some(indexed.shown.encode_to_vec()),
            attributes: if indexed.json.is_empty() { "{}".to_owned() } else { indexed.json },
            state_transitions: state.state_transitions,
        }
    }
}

fn described(run: &Run, parent_namespace_id: &str) -> DescribeWorkflowExecutionResponse {
    let state = &run.state;
    DescribeWorkflowExecutionResponse {
        execution_config: Some(WorkflowExecutionConfig {
            task_queue: Some(TaskQueue {
                name: state.task_queue.clone(),
                kind: TaskQueueKind::Normal as i32,
                ..TaskQueue::default()
            }),
            workflow_execution_timeout: state.execution_timeout,
            workflow_run_timeout: state.run_timeout,
            default_workflow_task_timeout: state.task_timeout,
            user_metadata: state.user_metadata.clone(),
        }),
        workflow_execution_info: Some(info(state, parent_namespace_id)),
        pending_activities: state.activities.values().map(pending_activity).collect(),
        pending_children: state
            .children
            .iter()
            .map(|(initiated_id, child)| PendingChildExecutionInfo {
                workflow_id: child.workflow_id.clone(),
                run_id: child.run_id.clone(),
                workflow_type_name: child.workflow_type.clone(),
                initiated_id: *initiated_id,
                parent_close_policy: child.parent_close_policy,
            })
            .collect(),
        pending_nexus_operations: state
            .nexus_operations
            .iter()
            .map(|(scheduled_id, operation)| nexus::pending_operation(*scheduled_id, operation))
            .collect(),
        callbacks: state.callbacks.iter().map(nexus::callback_info).collect(),
        pending_workflow_task: state.task.as_ref().map(|task| PendingWorkflowTaskInfo {
            state: if task.started_id != 0 {
                PendingWorkflowTaskState::Started as i32
            } else {
                PendingWorkflowTaskState::Scheduled as i32
            },
            scheduled_time: Some(timestamp(task.scheduled_time)),
            original_scheduled_time: Some(timestamp(task.original_scheduled_time)),
            started_time: optional_timestamp(task.started_time),
            attempt: task.attempt,
        }),
        workflow_extended_info: Some(WorkflowExecutionExtendedInfo {
            execution_expiration_time: optional_timestamp(state.execution_expires),
            run_expiration_time: optional_timestamp(state.run_expires),
            cancel_requested: state.cancel_requested,
            original_start_time: Some(timestamp(match state.original_start_time {
                0 => state.start_time,
                earlier => earlier,
            })),
            reset_run_id: state.reset_run_id.clone(),
            last_reset_time: optional_timestamp(state.reset_time),
            request_id_infos: requests(state),
            ..WorkflowExecutionExtendedInfo::default()
        }),
    }
}

/// The requests that have an event in history.
fn requests(state: &RunState) -> HashMap<String, RequestIdInfo> {
    let info = |event_type: EventType, event_id: i64| RequestIdInfo {
        event_type: event_type as i32,
        event_id,
        buffered: event_id == 0,
    };
    let attached = state.attached_requests.iter();
    let attached =
        attached.map(|(id, event_id)| (id.clone(), info(EventType::WorkflowExecutionOptionsUpdated, *event_id)));
    attached
        .chain([(
            state.create_request_id.clone(),
            info(EventType::WorkflowExecutionStarted, state.create_request_event.max(1)),
        )])
        .collect()
}

#[allow(deprecated, reason = "unversioned workers still send their build here")]
fn info(state: &RunState, parent_namespace_id: &str) -> WorkflowExecutionInfo {
    let execution = |workflow_id: &str, run_id: &str| WorkflowExecution {
        workflow_id: workflow_id.to_owned(),
        run_id: run_id.to_owned(),
    };
    let closed = state.status != WorkflowExecutionStatus::Running as i32;
    WorkflowExecutionInfo {
        execution: Some(execution(&state.workflow_id, &state.run_id)),
        r#type: Some(WorkflowType { name: state.workflow_type.clone() }),
        start_time: Some(timestamp(state.start_time)),
        close_time: optional_timestamp(state.close_time),
        status: state.status,
        history_length: state.next_event_id - 1,
        parent_namespace_id: state.parent.as_ref().map(|_| parent_namespace_id.to_owned()).unwrap_or_default(),
        parent_execution: state.parent.as_ref().map(|parent| execution(&parent.workflow_id, &parent.run_id)),
        execution_time: Some(timestamp(state.execution_time)),
        memo: Some(state.memo.clone().unwrap_or_default()),
        search_attributes: Some(state.search_attributes.clone().unwrap_or_default()),
        auto_reset_points: Some(ResetPoints { points: state.reset_points.clone() }),
        task_queue: state.task_queue.clone(),
        state_transition_count: state.state_transitions,
        history_size_bytes: state.history_size,
        execution_duration: closed.then(|| duration(state.close_time - state.execution_time)),
        root_execution: Some(execution(&state.root_workflow_id, &state.root_run_id)),
        first_run_id: state.first_run_id.clone(),
        priority: state.priority.clone(),
        versioning_info: state.described_versioning(),
        worker_deployment_name: state.worker_deployment_name.clone(),
        most_recent_worker_version_stamp: state.most_recent_build.clone(),
        ..WorkflowExecutionInfo::default()
    }
}

#[allow(deprecated, reason = "clients still read the older field")]
fn pending_activity(activity: &Activity) -> PendingActivityInfo {
    let state = match (activity.is_started(), activity.cancel_requested) {
        // Also for one that a reset has dispatched again.
        (_, true) => PendingActivityState::CancelRequested,
        (true, false) if activity.pause.is_some() => PendingActivityState::PauseRequested,
        (true, false) => PendingActivityState::Started,
        (false, false) if activity.pause.is_some() => PendingActivityState::Paused,
        (false, false) => PendingActivityState::Scheduled,
    };
    let waits = activity.backing_off && activity.pause.is_none();
    let policy = activity.retry_policy.clone().unwrap_or_default();
    PendingActivityInfo {
        activity_id: activity.id.clone(),
        activity_type: Some(ActivityType { name: activity.kind.clone() }),
        state: state as i32,
        heartbeat_details: activity.heartbeat_details.clone(),
        last_heartbeat_time: optional_timestamp(activity.last_heartbeat),
        last_started_time: optional_timestamp(activity.started_time),
        attempt: activity.attempt,
        maximum_attempts: policy.maximum_attempts,
        scheduled_time: Some(timestamp(activity.scheduled_time)),
        expiration_time: optional_timestamp(retries_until(activity)),
        last_failure: activity.last_failure.clone(),
        last_worker_identity: activity.last_worker_identity.clone(),
        current_retry_interval: (waits && activity.last_attempt_complete_time != 0)
            .then(|| duration(activity.scheduled_time - activity.last_attempt_complete_time)),
        last_attempt_complete_time: optional_timestamp(activity.last_attempt_complete_time),
        next_attempt_schedule_time: waits.then(|| timestamp(activity.scheduled_time)),
        paused: activity.pause.is_some(),
        pause_info: activity.pause.as_ref().map(pause_info),
        priority: activity.priority.clone(),
        activity_options: Some(activity_options(activity, policy)),
        last_deployment_version: activity.last_version.as_ref().map(Version::to_api),
        last_worker_deployment_version: activity.last_version.as_ref().map(Version::dotted).unwrap_or_default(),
        ..PendingActivityInfo::default()
    }
}

fn pause_info(pause: &Pause) -> PauseInfo {
    let by = pause_info::Manual { identity: pause.identity.clone(), reason: pause.reason.clone() };
    PauseInfo { pause_time: Some(timestamp(pause.time)), paused_by: Some(pause_info::PausedBy::Manual(by)) }
}

fn activity_options(activity: &Activity, policy: RetryPolicy) -> ActivityOptions {
    ActivityOptions {
        task_queue: Some(TaskQueue {
            name: activity.task_queue.clone(),
            normal_name: activity.task_queue.clone(),
            ..TaskQueue::default()
        }),
        schedule_to_close_timeout: Some(duration(activity.schedule_to_close)),
        schedule_to_start_timeout: Some(duration(activity.schedule_to_start)),
        start_to_close_timeout: Some(duration(activity.start_to_close)),
        heartbeat_timeout: Some(duration(activity.heartbeat_timeout)),
        retry_policy: Some(RetryPolicy { non_retryable_error_types: Vec::new(), ..policy }),
        priority: activity.priority.clone(),
        ..ActivityOptions::default()
    }
}
