//! Checks of schedules in requests. Texts and order are the real server's.

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::Memo,
    enums::v1::{TaskQueueKind, WorkflowIdReusePolicy},
    schedule::v1::{Schedule, schedule_action::Action},
    workflow::v1::NewWorkflowExecutionInfo,
};

use crate::{
    core::Core,
    schedule::{Times, check_durations},
    service::{checks, start::check_timeouts},
    service_error::ServiceError,
};

/// Begins the id of the workflow that is a schedule on the real server. Its errors show it.
pub(super) const WORKFLOW_ID_PREFIX: &str = "temporal-sys-scheduler:";
/// As long as the time that is appended to the ids of started workflows.
const TIME: &str = "-2009-11-10T23:00:00Z";

impl Core {
    pub(super) fn check_schedule_id(&self, schedule_id: &str) -> Result<(), ServiceError> {
        checks::workflow_id(&format!("{WORKFLOW_ID_PREFIX}{schedule_id}"), &self.limits)
    }

    /// Checks the spec and brings it into its canonical form.
    pub(super) fn canonicalize(schedule: &mut Schedule) -> Result<(), ServiceError> {
        let spec = schedule.spec.take().unwrap_or_default();
        let refused = |problem: String| ServiceError::invalid(format!("Invalid schedule spec: {problem}"));
        check_durations(&spec).map_err(refused)?;
        let times = Times::new(spec, String::new()).map_err(refused)?;
        schedule.spec = Some(times.into_canonical());
        Ok(())
    }

    /// Checks the workflow that a schedule is to start, and fills in the defaults.
    pub(super) fn check_action(&self, namespace: &str, schedule: &mut Schedule) -> Result<(), ServiceError> {
        let Some(action) = action_of(schedule) else { return Ok(()) };
        let limits = &self.limits;
        checks::workflow_id(&format!("{}{TIME}", action.workflow_id), limits)?;
        let kind = action.workflow_type.as_ref().map_or("", |kind| &kind.name);
        if kind.is_empty() {
            return Err(ServiceError::invalid("WorkflowType is not set on request."));
        }
        if kind.len() > limits.id_length {
            return Err(ServiceError::invalid("WorkflowType length exceeds limit."));
        }
        checks::queue(action.task_queue.as_ref(), limits)?;
        if let Some(queue) = &mut action.task_queue
            && queue.kind() == TaskQueueKind::Unspecified
        {
            queue.set_kind(TaskQueueKind::Normal);
        }
        check_timeouts([
            &mut action.workflow_execution_timeout,
            &mut action.workflow_run_timeout,
            &mut action.workflow_task_timeout,
        ])?;
        if !action.cron_schedule.is_empty() {
            return Err(ServiceError::invalid("Scheduled workflow must not contain CronSchedule"));
        }
        if !matches!(
            action.workflow_id_reuse_policy(),
            WorkflowIdReusePolicy::Unspecified | WorkflowIdReusePolicy::AllowDuplicate
        ) {
            return Err(ServiceError::invalid("Scheduled workflow must not contain WorkflowIDReusePolicy"));
        }
        if let Some(attributes) = &mut action.search_attributes {
            self.read_namespaces().check(namespace, attributes)?;
        }
        Ok(())
    }

    pub(super) fn check_payloads(&self, schedule: &mut Schedule, memo: Option<&Memo>) -> Result<(), ServiceError> {
        let Some(action) = action_of(schedule) else {
            return Err(ServiceError::invalid("Only StartWorkflow action is supported for schedules"));
        };
        let input = action.input.as_ref().map_or(0, |input| input.encoded_len());
        self.check_size(input + memo.map_or(0, |memo| memo.encoded_len()))
    }

    pub(super) fn check_size(&self, bytes: usize) -> Result<(), ServiceError> {
        if bytes > self.limits.blob_bytes {
            return Err(ServiceError::invalid("Blob data size exceeds limit."));
        }
        Ok(())
    }

    pub(super) fn check_request_id(&self, request_id: &str) -> Result<(), ServiceError> {
        if request_id.len() > self.limits.id_length {
            return Err(ServiceError::invalid("RequestId length exceeds limit."));
        }
        Ok(())
    }
}

fn action_of(schedule: &mut Schedule) -> Option<&mut NewWorkflowExecutionInfo> {
    match schedule.action.as_mut()?.action.as_mut()? {
        Action::StartWorkflow(action) => Some(action),
    }
}
