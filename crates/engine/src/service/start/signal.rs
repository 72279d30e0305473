//! Signal-with-start: the signal goes to the existing run, or to a new one before its first task.

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    common::v1::link,
    enums::v1::{EventType, WorkflowIdConflictPolicy},
    workflowservice::v1::{
        SignalWithStartWorkflowExecutionRequest, SignalWithStartWorkflowExecutionResponse,
        StartWorkflowExecutionRequest,
    },
};

use super::{
    Policies, Then,
    links::event_link,
    request::{check_retry_and_delay, check_timeouts},
};
use crate::{
    core::Core,
    run::{Signal, cron},
    service::checks,
    service_error::ServiceError,
};

impl Core {
    pub(in crate::service) async fn signal_with_start(
        self: &Arc<Self>,
        request: SignalWithStartWorkflowExecutionRequest,
    ) -> Result<SignalWithStartWorkflowExecutionResponse, ServiceError> {
        let mut request = request;
        self.read_namespaces().must_take_runs(&request.namespace)?;
        cron::check(&request.cron_schedule, self.now())?;
        let policies = self.check_signal_with_start(&mut request)?;
        let signal = Signal {
            name: request.signal_name.clone(),
            input: request.signal_input.clone(),
            header: request.header.clone(),
            identity: request.identity.clone(),
            ..Signal::default()
        };
        checks::blob(signal.input.as_ref(), &self.limits)?;
        let (spec, _) = self.spec(start_part(request))?;
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        let request_id = spec.request_id.clone();
        let signal = Signal { request_id: request_id.clone(), ..signal };
        let started = self.start_new(spec, policies, &Then::Signal(signal))?.acknowledged().await?;
        let signal_link = event_link(
            &namespace,
            &workflow_id,
            &started.run_id,
            link::workflow_event::Reference::RequestIdRef(link::workflow_event::RequestIdReference {
                request_id,
                event_type: EventType::WorkflowExecutionSignaled as i32,
            }),
        );
        Ok(SignalWithStartWorkflowExecutionResponse {
            run_id: started.run_id,
            started: started.started,
            signal_link: Some(signal_link),
            first_execution_run_id: started.first_run_id,
        })
    }

    /// The checks have another order than those of a plain start.
    fn check_signal_with_start(
        &self,
        request: &mut SignalWithStartWorkflowExecutionRequest,
    ) -> Result<Policies, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        checks::workflow_id(&request.workflow_id, &self.limits)?;
        if request.signal_name.is_empty() {
            return Err(ServiceError::invalid("signal not set"));
        }
        if request.workflow_type.as_ref().is_none_or(|kind| kind.name.is_empty()) {
            return Err(ServiceError::invalid("workflow type not set"));
        }
        checks::queue(request.task_queue.as_ref(), &self.limits)?;
        check_timeouts([
            &mut request.workflow_execution_timeout,
            &mut request.workflow_run_timeout,
            &mut request.workflow_task_timeout,
        ])?;
        check_retry_and_delay(request.retry_policy.as_mut(), &mut request.workflow_start_delay)?;
        let policies =
            Policies { reuse: request.workflow_id_reuse_policy(), conflict: request.workflow_id_conflict_policy() };
        let policies = policies.checked(false)?;
        match policies.conflict {
            WorkflowIdConflictPolicy::Fail => Err(ServiceError::invalid(
                "Invalid WorkflowIDConflictPolicy: WORKFLOW_ID_CONFLICT_POLICY_FAIL is not supported for this operation.",
            )),
            WorkflowIdConflictPolicy::Unspecified => {
                Ok(Policies { conflict: WorkflowIdConflictPolicy::UseExisting, ..policies })
            }
            _ => Ok(policies),
        }
    }
}

fn start_part(request: SignalWithStartWorkflowExecutionRequest) -> StartWorkflowExecutionRequest {
    StartWorkflowExecutionRequest {
        namespace: request.namespace,
        workflow_id: request.workflow_id,
        workflow_type: request.workflow_type,
        task_queue: request.task_queue,
        input: request.input,
        workflow_execution_timeout: request.workflow_execution_timeout,
        workflow_run_timeout: request.workflow_run_timeout,
        workflow_task_timeout: request.workflow_task_timeout,
        identity: request.identity,
        request_id: request.request_id,
        retry_policy: request.retry_policy,
        cron_schedule: request.cron_schedule,
        memo: request.memo,
        search_attributes: request.search_attributes,
        header: request.header,
        workflow_start_delay: request.workflow_start_delay,
        user_metadata: request.user_metadata,
        priority: request.priority,
        ..StartWorkflowExecutionRequest::default()
    }
}
