//! The newer requests to pause, unpause, reset and change one activity. They also name standalone activities, which the
//! engine does not have: those have no workflow id.

use std::sync::Arc;

use prost_wkt_types::{Duration, FieldMask};
use temporalio_protos::temporal::api::{
    activity::v1::ActivityOptions,
    common::v1::WorkflowExecution,
    workflowservice::v1::{
        PauseActivityExecutionRequest, PauseActivityExecutionResponse, PauseActivityRequest,
        ResetActivityExecutionRequest, ResetActivityExecutionResponse, ResetActivityRequest,
        UnpauseActivityExecutionRequest, UnpauseActivityExecutionResponse, UnpauseActivityRequest,
        UpdateActivityExecutionOptionsRequest, UpdateActivityExecutionOptionsResponse, UpdateActivityOptionsRequest,
        pause_activity_request, reset_activity_request, unpause_activity_request, update_activity_options_request,
    },
};

use super::{activity_operations::check_priority, checks};
use crate::{core::Core, limits::Limits, run::mask_fields, run::retry, service_error::ServiceError, time::check_span};

const FIELDS: [&str; 15] = [
    "taskQueue.name",
    "scheduleToCloseTimeout",
    "scheduleToStartTimeout",
    "startToCloseTimeout",
    "heartbeatTimeout",
    "priority",
    "priority.priorityKey",
    "priority.fairnessKey",
    "priority.fairnessWeight",
    "retryPolicy",
    "retryPolicy.initialInterval",
    "retryPolicy.backoffCoefficient",
    "retryPolicy.maximumInterval",
    "retryPolicy.maximumAttempts",
    "startDelay",
];

/// The activity of a request.
struct Named<'a> {
    workflow_id: &'a str,
    run_id: &'a str,
    activity_id: &'a str,
    identity: &'a str,
    request_id: &'a str,
}

impl Core {
    pub(super) async fn pause_activity_execution(
        self: &Arc<Self>,
        request: PauseActivityExecutionRequest,
    ) -> Result<PauseActivityExecutionResponse, ServiceError> {
        let execution = Named {
            workflow_id: &request.workflow_id,
            run_id: &request.run_id,
            activity_id: &request.activity_id,
            identity: &request.identity,
            request_id: &request.request_id,
        }
        .checked(&self.limits)?;
        if request.reason.len() > self.limits.blob_bytes {
            return Err(ServiceError::invalid("reason exceeds length limit"));
        }
        let request_id = match request.request_id {
            id if id.is_empty() => uuid::Uuid::new_v4().to_string(),
            id => id,
        };
        let request = PauseActivityRequest {
            namespace: request.namespace,
            execution,
            identity: request.identity,
            activity: Some(pause_activity_request::Activity::Id(request.activity_id)),
            reason: request.reason,
            request_id,
        };
        self.pause_activity(request).await?;
        Ok(PauseActivityExecutionResponse {})
    }

    pub(super) async fn unpause_activity_execution(
        self: &Arc<Self>,
        mut request: UnpauseActivityExecutionRequest,
    ) -> Result<UnpauseActivityExecutionResponse, ServiceError> {
        let execution = Named {
            workflow_id: &request.workflow_id,
            run_id: &request.run_id,
            activity_id: &request.activity_id,
            identity: &request.identity,
            request_id: &request.request_id,
        }
        .checked(&self.limits)?;
        check_jitter(&mut request.jitter)?;
        let request = UnpauseActivityRequest {
            namespace: request.namespace,
            execution,
            identity: request.identity,
            activity: Some(unpause_activity_request::Activity::Id(request.activity_id)),
            jitter: request.jitter,
            ..UnpauseActivityRequest::default()
        };
        self.unpause_activity(request).await?;
        Ok(UnpauseActivityExecutionResponse {})
    }

    pub(super) async fn reset_activity_execution(
        self: &Arc<Self>,
        mut request: ResetActivityExecutionRequest,
    ) -> Result<ResetActivityExecutionResponse, ServiceError> {
        let execution = Named {
            workflow_id: &request.workflow_id,
            run_id: &request.run_id,
            activity_id: &request.activity_id,
            identity: &request.identity,
            request_id: &request.request_id,
        }
        .checked(&self.limits)?;
        check_jitter(&mut request.jitter)?;
        let request = ResetActivityRequest {
            namespace: request.namespace,
            execution,
            identity: request.identity,
            activity: Some(reset_activity_request::Activity::Id(request.activity_id)),
            reset_heartbeat: request.reset_heartbeat,
            keep_paused: request.keep_paused,
            jitter: request.jitter,
            restore_original_options: request.restore_original_options,
        };
        self.reset_activity(request).await?;
        Ok(ResetActivityExecutionResponse {})
    }

    pub(super) async fn update_activity_execution_options(
        self: &Arc<Self>,
        mut request: UpdateActivityExecutionOptionsRequest,
    ) -> Result<UpdateActivityExecutionOptionsResponse, ServiceError> {
        let execution = Named {
            workflow_id: &request.workflow_id,
            run_id: &request.run_id,
            activity_id: &request.activity_id,
            identity: &request.identity,
            request_id: &request.request_id,
        }
        .checked(&self.limits)?;
        let mask = request.update_mask.as_ref();
        if request.restore_original {
            if mask.is_some_and(|mask| !mask.paths.is_empty()) {
                return Err(ServiceError::invalid("Both UpdateMask and RestoreOriginal are provided"));
            }
        } else {
            let options = request.activity_options.as_mut();
            check_change(
                options.ok_or_else(|| ServiceError::invalid("ActivityOptions are not provided"))?,
                mask.ok_or_else(|| ServiceError::invalid("UpdateMask is not provided"))?,
                &self.limits,
            )?;
        }
        let request = UpdateActivityOptionsRequest {
            namespace: request.namespace,
            execution,
            identity: request.identity,
            activity_options: request.activity_options,
            update_mask: request.update_mask,
            activity: Some(update_activity_options_request::Activity::Id(request.activity_id)),
            restore_original: request.restore_original,
        };
        let activity_options = self.update_activity_options(request).await?.activity_options;
        Ok(UpdateActivityExecutionOptionsResponse { activity_options })
    }
}

impl Named<'_> {
    fn checked(&self, limits: &Limits) -> Result<Option<WorkflowExecution>, ServiceError> {
        if self.workflow_id.is_empty() {
            return Err(ServiceError::Unimplemented("standalone activities".to_owned()));
        }
        let within = |what: &str, value: &str| match (value.len(), limits.id_length) {
            (length, limit) if length > limit => {
                Err(ServiceError::invalid(format!("{what} exceeds length limit. Length={length} Limit={limit}")))
            }
            _ => Ok(()),
        };
        within("request ID", self.request_id)?;
        if self.activity_id.is_empty() {
            return Err(ServiceError::invalid("activity ID is required"));
        }
        within("activity ID", self.activity_id)?;
        within("identity", self.identity)?;
        if !self.run_id.is_empty() && uuid::Uuid::try_parse(self.run_id).is_err() {
            return Err(ServiceError::invalid("invalid run id: must be a valid UUID"));
        }
        Ok(Some(WorkflowExecution { workflow_id: self.workflow_id.to_owned(), run_id: self.run_id.to_owned() }))
    }
}

fn check_jitter(jitter: &mut Option<Duration>) -> Result<(), ServiceError> {
    check_span(jitter).map_err(|problem| ServiceError::InvalidArgument(format!("invalid jitter: {problem}")))
}

/// Refuses fields that cannot be changed and values that no activity can have.
fn check_change(options: &mut ActivityOptions, mask: &FieldMask, limits: &Limits) -> Result<(), ServiceError> {
    if mask.paths.is_empty() {
        return Err(ServiceError::invalid("UpdateMask must specify at least one path"));
    }
    for path in &mask.paths {
        let field = mask_fields(&FieldMask { paths: vec![path.clone()] });
        if !field.iter().any(|field| FIELDS.contains(&field.as_str())) {
            return Err(ServiceError::invalid(format!("unsupported update_mask path: {path:?}")));
        }
    }
    let fields = mask_fields(mask);
    let changes = |field: &str| fields.contains(field);
    if changes("taskQueue.name") {
        checks::queue(options.task_queue.as_ref(), limits)?;
    }
    for (field, name, timeout) in [
        ("scheduleToCloseTimeout", "ScheduleToCloseTimeout", &mut options.schedule_to_close_timeout),
        ("scheduleToStartTimeout", "ScheduleToStartTimeout", &mut options.schedule_to_start_timeout),
        ("startToCloseTimeout", "StartToCloseTimeout", &mut options.start_to_close_timeout),
        ("heartbeatTimeout", "HeartbeatTimeout", &mut options.heartbeat_timeout),
    ] {
        if changes(field) {
            check_span(timeout)
                .map_err(|problem| ServiceError::InvalidArgument(format!("invalid {name}: {problem}")))?;
        }
    }
    if fields.iter().any(|field| field.starts_with("priority")) {
        check_priority(options.priority.as_ref())?;
    }
    if changes("retryPolicy") {
        let policy = options.retry_policy.get_or_insert_default();
        retry::complete(policy);
        retry::check(policy)?;
    }
    let attempts = options.retry_policy.as_ref().map_or(0, |policy| policy.maximum_attempts);
    if changes("retryPolicy.maximumAttempts") && attempts < 0 {
        return Err(ServiceError::invalid("MaximumAttempts cannot be negative on retry policy."));
    }
    Ok(())
}
