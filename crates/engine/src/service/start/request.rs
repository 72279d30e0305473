//! Checks of start requests.

use prost::Message as _;
use temporalio_protos::temporal::api::{common::v1::RetryPolicy, workflowservice::v1::StartWorkflowExecutionRequest};

use super::{Policies, callbacks, links};
use crate::{
    core::Core,
    run::{Inherited, StartSpec, cron, cron_initiator, overrides, retry, run_timeout, task_timeout},
    service::checks,
    service_error::ServiceError,
    time::{check_span, duration, span},
};

impl Core {
    /// Checks a request and fills in the defaults.
    pub(super) fn spec(
        &self,
        mut request: StartWorkflowExecutionRequest,
    ) -> Result<(StartSpec, Policies), ServiceError> {
        let limits = &self.limits;
        self.read_namespaces().named(&request.namespace)?;
        checks::workflow_id(&request.workflow_id, limits)?;
        if !request.cron_schedule.is_empty() && request.workflow_start_delay.is_some() {
            return Err(ServiceError::invalid("CronSchedule and WorkflowStartDelay may not be used together."));
        }
        check_retry_and_delay(request.retry_policy.as_mut(), &mut request.workflow_start_delay)?;
        cron::check(&request.cron_schedule, self.now())?;
        let kind = request.workflow_type.take().unwrap_or_default().name;
        if kind.is_empty() {
            return Err(ServiceError::invalid("WorkflowType is not set on request."));
        }
        if kind.len() > limits.id_length {
            return Err(ServiceError::invalid("WorkflowType length exceeds limit."));
        }
        let queue = checks::queue(request.task_queue.as_ref(), limits)?;
        check_timeouts([
            &mut request.workflow_execution_timeout,
            &mut request.workflow_run_timeout,
            &mut request.workflow_task_timeout,
        ])?;
        if request.request_id.len() > limits.id_length {
            return Err(ServiceError::invalid("RequestId length exceeds limit."));
        }
        let policies =
            Policies { reuse: request.workflow_id_reuse_policy(), conflict: request.workflow_id_conflict_policy() };
        let policies = policies.checked(true)?;
        let options = request.on_conflict_options;
        if options.is_some_and(|options| options.attach_completion_callbacks && !options.attach_request_id) {
            return Err(ServiceError::invalid("attaching request ID is required for attaching completion callbacks"));
        }
        if let Some(attributes) = &mut request.search_attributes {
            self.read_namespaces().check(&request.namespace, attributes)?;
        }
        checks::blob(request.input.as_ref(), limits)?;
        if request.memo.as_ref().is_some_and(|memo| memo.encoded_len() > limits.memo_bytes) {
            return Err(ServiceError::invalid("Memo size exceeds limit."));
        }
        if request.priority.as_ref().is_some_and(|priority| priority.priority_key < 0) {
            return Err(ServiceError::invalid("priority key can't be negative"));
        }
        callbacks::check(&mut request.completion_callbacks, limits.callbacks)?;
        let own = callbacks::without_links_of_callbacks(request.links, &request.completion_callbacks);
        links::check(own.iter().chain(request.completion_callbacks.iter().flat_map(|callback| &callback.links)))?;
        let given = request.versioning_override.take();
        let versioning_override = given.map(|given| overrides::checked(given, limits.id_length)).transpose()?;
        self.check_pinned(&request.namespace, &queue, versioning_override.as_ref())?;
        let execution = span(request.workflow_execution_timeout.as_ref());
        let run = run_timeout(span(request.workflow_run_timeout.as_ref()), execution);
        let had_run_timeout = request.workflow_run_timeout.is_some() || execution > 0;
        let spec = StartSpec {
            namespace: request.namespace,
            workflow_id: request.workflow_id,
            workflow_type: kind,
            task_queue: queue,
            input: request.input,
            header: request.header,
            execution_timeout: request.workflow_execution_timeout,
            run_timeout: had_run_timeout.then(|| duration(run)),
            task_timeout: Some(task_timeout(span(request.workflow_task_timeout.as_ref()), run)),
            identity: request.identity,
            request_id: match request.request_id {
                id if id.is_empty() => uuid::Uuid::new_v4().to_string(),
                id => id,
            },
            retry_policy: request.retry_policy,
            memo: crate::run::memo_without_empty_values(request.memo),
            search_attributes: crate::run::without_empty_values(request.search_attributes),
            user_metadata: request.user_metadata,
            priority: request.priority,
            first_task_backoff: Some(match request.workflow_start_delay {
                Some(delay) => delay,
                None => duration(cron::first_backoff(&request.cron_schedule, self.now())),
            }),
            initiator: cron_initiator(&request.cron_schedule),
            cron_schedule: request.cron_schedule,
            continued_failure: request.continued_failure,
            last_completion_result: request.last_completion_result,
            attempt: 1,
            completion_callbacks: request.completion_callbacks,
            links: own,
            inherited: Inherited { versioning_override, ..Inherited::default() },
            ..StartSpec::default()
        };
        Ok((spec, policies))
    }

    /// Checks the start of an update-with-start.
    pub(in crate::service) fn spec_for_update(
        &self,
        request: StartWorkflowExecutionRequest,
    ) -> Result<(StartSpec, Policies), ServiceError> {
        if !request.cron_schedule.is_empty() {
            return Err(ServiceError::invalid("CronSchedule is not allowed."));
        }
        let eager = request.request_eager_execution;
        let (spec, policies) = self.spec(request)?;
        if eager {
            return Err(ServiceError::invalid("RequestEagerExecution is not supported."));
        }
        if span(spec.first_task_backoff.as_ref()) > 0 {
            return Err(ServiceError::invalid("WorkflowStartDelay is not supported."));
        }
        Ok((spec, policies))
    }
}

/// Checks the execution, run and workflow task timeouts.
pub(in crate::service) fn check_timeouts(
    timeouts: [&mut Option<prost_wkt_types::Duration>; 3],
) -> Result<(), ServiceError> {
    let names = ["WorkflowExecutionTimeoutSeconds", "WorkflowRunTimeoutSeconds", "WorkflowTaskTimeoutSeconds"];
    for (name, timeout) in names.into_iter().zip(timeouts) {
        check_span(timeout).map_err(|problem| {
            ServiceError::invalid(format!("An invalid {name} is set on request. cause: {problem}"))
        })?;
    }
    Ok(())
}

pub(super) fn check_retry_and_delay(
    policy: Option<&mut RetryPolicy>,
    delay: &mut Option<prost_wkt_types::Duration>,
) -> Result<(), ServiceError> {
    if let Some(policy) = policy {
        retry::complete(policy);
        retry::check(policy)?;
    }
    check_span(delay).map_err(|problem| {
        ServiceError::invalid(format!("An invalid WorkflowStartDelaySeconds is set on request. cause: {problem}"))
    })
}
