//! The id policies: what a start does if a run with the same workflow id exists. Pure functions.

#![allow(deprecated, reason = "clients may still use the deprecated conflict policy")]

use temporalio_protos::temporal::api::enums::v1::{
    WorkflowExecutionStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
};

use super::{Started, Then};
use crate::{
    run::{Run, StartSpec},
    service_error::ServiceError,
};

/// The id policies of a start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policies {
    pub(crate) reuse: WorkflowIdReusePolicy,
    pub(crate) conflict: WorkflowIdConflictPolicy,
}

/// The decision about a start.
pub(super) enum Verdict {
    New,
    Existing(Box<Started>),
    Replace,
}

/// Decides about a start, given the current run.
pub(super) fn judge(
    current: &Run,
    spec: &StartSpec,
    policies: Policies,
    then: &Then<'_>,
) -> Result<Verdict, ServiceError> {
    let state = &current.state;
    let existing = |started, attaches| {
        Verdict::Existing(Box::new(Started {
            run_id: state.run_id.clone(),
            first_run_id: state.first_run_id.clone(),
            started,
            status: state.status,
            attaches,
            attached: state.attached_requests.contains_key(&spec.request_id),
            eager: None,
        }))
    };
    // A signal has its own request id and is sent to the existing run.
    if !matches!(then, Then::Signal(_)) {
        if state.create_request_id == spec.request_id {
            return Ok(existing(true, false));
        }
        if state.attached_requests.contains_key(&spec.request_id) {
            return Ok(existing(false, false));
        }
    }
    let refused = |message: String| ServiceError::AlreadyStarted {
        message,
        start_request_id: state.create_request_id.clone(),
        run_id: state.run_id.clone(),
        first_run_id: state.first_run_id.clone(),
    };
    let (id, run_id) = (&state.workflow_id, &state.run_id);
    if state.is_running() {
        return match policies.conflict {
            WorkflowIdConflictPolicy::UseExisting => Ok(existing(false, true)),
            WorkflowIdConflictPolicy::TerminateExisting => Ok(Verdict::Replace),
            _ => Err(refused(format!("Workflow execution is already running. WorkflowId: {id}, RunId: {run_id}."))),
        };
    }
    match policies.reuse {
        WorkflowIdReusePolicy::RejectDuplicate => Err(refused(format!(
            "Workflow execution already finished. WorkflowId: {id}, RunId: {run_id}. Workflow Id reuse policy: reject \
             duplicate workflow Id."
        ))),
        WorkflowIdReusePolicy::AllowDuplicateFailedOnly
            if state.status == WorkflowExecutionStatus::Completed as i32 =>
        {
            Err(refused(format!(
                "Workflow execution already finished successfully. WorkflowId: {id}, RunId: {run_id}. Workflow Id \
                 reuse policy: allow duplicate workflow Id if last run failed."
            )))
        }
        _ => Ok(Verdict::New),
    }
}

impl Policies {
    /// Rejects contradicting policies and maps the deprecated policy to the new ones.
    pub(super) fn checked(self, with_default: bool) -> Result<Self, ServiceError> {
        use WorkflowIdConflictPolicy as Conflict;
        use WorkflowIdReusePolicy as Reuse;
        match (self.reuse, self.conflict) {
            (Reuse::TerminateIfRunning, Conflict::Unspecified) => {
                Ok(Self { reuse: Reuse::AllowDuplicate, conflict: Conflict::TerminateExisting })
            }
            (Reuse::TerminateIfRunning, _) => Err(ServiceError::invalid(
                "Invalid WorkflowIDReusePolicy: WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING cannot be used together \
                 with a WorkflowIDConflictPolicy",
            )),
            (Reuse::RejectDuplicate, Conflict::TerminateExisting) => Err(ServiceError::invalid(
                "Invalid WorkflowIDReusePolicy: WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE cannot be used together with \
                 WorkflowIdConflictPolicy WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING",
            )),
            (reuse, Conflict::Unspecified) if with_default => Ok(Self { reuse, conflict: Conflict::Fail }),
            (reuse, conflict) => Ok(Self { reuse, conflict }),
        }
    }
}
