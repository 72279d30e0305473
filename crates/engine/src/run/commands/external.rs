//! Commands about children and other workflow executions. Their messages are sent after the task's completion is
//! durable.

#![allow(deprecated, reason = "workers may still send a namespace or a control, and history contains them")]

use prost::Message as _;
use temporalio_protos::temporal::api::{
    command::v1::{
        RequestCancelExternalWorkflowExecutionCommandAttributes, SignalExternalWorkflowExecutionCommandAttributes,
        StartChildWorkflowExecutionCommandAttributes,
    },
    common::v1::WorkflowExecution,
    enums::v1::{ParentClosePolicy, WorkflowIdReusePolicy, WorkflowTaskFailedCause as Cause},
    history::v1::{
        RequestCancelExternalWorkflowExecutionInitiatedEventAttributes,
        SignalExternalWorkflowExecutionInitiatedEventAttributes, StartChildWorkflowExecutionInitiatedEventAttributes,
        history_event::Attributes,
    },
    sdk::v1::UserMetadata,
};

use super::{
    Batch, Rejected,
    activities::{too_many, user_queue},
    properties::{memo_without_empty_values, without_empty_values},
};
use crate::{
    run::{
        Env, Run, cron,
        outbox::{CancelRun, Content, SignalRun, StartChild},
        retry,
        start::{run_timeout, task_timeout},
        state::{Child, ExternalRequest},
    },
    time::{check_span, duration, span},
};

impl Run {
    pub(super) fn start_child(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        mut command: StartChildWorkflowExecutionCommandAttributes,
        user_metadata: Option<UserMetadata>,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadStartChildExecutionAttributes;
        let namespace = self.target_namespace(&command.namespace, env)?;
        let (id, kind) = (command.workflow_id.clone(), command.workflow_type.clone().unwrap_or_default().name);
        let context = format!("WorkflowId={id} WorkflowType={kind} Namespace={namespace}");
        let bad = |detail: String| Err(Rejected::task(CAUSE, detail));
        if id.is_empty() {
            return bad(format!(
                "Required field WorkflowId is not set on StartChildWorkflowExecutionCommand. WorkflowType={kind} \
                 Namespace={namespace}"
            ));
        }
        if kind.is_empty() {
            return bad(format!(
                "Required field WorkflowType is not set on StartChildWorkflowExecutionCommand. WorkflowId={id} \
                 Namespace={namespace}"
            ));
        }
        let limit = env.limits.id_length;
        if id.len() > limit {
            return bad(format!(
                "WorkflowId on StartChildWorkflowExecutionCommand exceeds length limit. WorkflowId={id} Length={} \
                 Limit={limit} WorkflowType={kind} Namespace={namespace}",
                id.len()
            ));
        }
        if kind.len() > limit {
            return bad(format!(
                "WorkflowType on StartChildWorkflowExecutionCommand exceeds length limit. WorkflowId={id} \
                 WorkflowType={kind} Length={} Limit={limit} Namespace={namespace}",
                kind.len()
            ));
        }
        let spans = [
            ("WorkflowExecutionTimeout", &mut command.workflow_execution_timeout),
            ("WorkflowRunTimeout", &mut command.workflow_run_timeout),
            ("WorkflowTaskTimeout", &mut command.workflow_task_timeout),
        ];
        for (name, timeout) in spans {
            if let Err(problem) = check_span(timeout) {
                return bad(format!("Invalid {name} on StartChildWorkflowExecutionCommand: {problem}. {context}"));
            }
        }
        if let Some(policy) = &mut command.retry_policy {
            retry::complete(policy);
            if let Err(error) = retry::check(policy) {
                return bad(format!(
                    "invalid WorkflowRetryPolicy on StartChildWorkflowExecutionCommand: {error}. {context}"
                ));
            }
        }
        if let Err(error) = cron::check(&command.cron_schedule, env.now) {
            return bad(format!("invalid CronSchedule on StartChildWorkflowExecutionCommand: {error}. {context}"));
        }
        if let Some(attributes) = &mut command.search_attributes
            && let Err(error) = (env.check_attributes)(attributes)
        {
            return Err(Rejected::task(Cause::BadSearchAttributes, error.to_string()));
        }
        let queue = match user_queue(command.task_queue.as_ref(), &self.state.task_queue, env) {
            Ok(queue) => queue,
            Err(problem) => {
                return bad(format!("invalid TaskQueue on StartChildWorkflowExecutionCommand: {problem}. {context}"));
            }
        };
        let oversized = command.input.as_ref().is_some_and(|input| input.encoded_len() > env.limits.blob_bytes);
        if oversized {
            let detail = "StartChildWorkflowExecutionCommandAttributes. Input exceeds size limit.";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        if command.memo.as_ref().is_some_and(|memo| memo.encoded_len() > env.limits.memo_bytes) {
            let detail = "StartChildWorkflowExecutionCommandAttributes.Memo exceeds size limit.";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        let (pending, limit) = (self.state.children.len(), env.limits.pending_children);
        if pending >= limit {
            let detail = too_many("child workflow executions", pending, limit);
            return Err(Rejected::task(Cause::PendingChildWorkflowsLimitExceeded, detail));
        }

        let versioning_override = command
            .versioning_override
            .take()
            .map(|given| crate::run::overrides::checked(given, env.limits.id_length))
            .transpose()
            .map_err(|error| Rejected::task(CAUSE, error.to_string()))?;

        let close_policy = match command.parent_close_policy() {
            ParentClosePolicy::Unspecified => ParentClosePolicy::Terminate,
            policy => policy,
        };
        let reuse_policy = match command.workflow_id_reuse_policy() {
            WorkflowIdReusePolicy::Unspecified => WorkflowIdReusePolicy::AllowDuplicate,
            policy => policy,
        };
        let run =
            run_timeout(span(command.workflow_run_timeout.as_ref()), span(command.workflow_execution_timeout.as_ref()));
        let attributes = StartChildWorkflowExecutionInitiatedEventAttributes {
            namespace_id: (env.namespace_id)(&namespace).unwrap_or_default(),
            namespace: namespace.clone(),
            workflow_id: id.clone(),
            workflow_type: command.workflow_type,
            task_queue: Some(queue),
            input: command.input,
            workflow_execution_timeout: command.workflow_execution_timeout,
            workflow_run_timeout: Some(duration(run)),
            workflow_task_timeout: Some(task_timeout(span(command.workflow_task_timeout.as_ref()), run)),
            parent_close_policy: close_policy as i32,
            workflow_task_completed_event_id: batch.completed_id,
            workflow_id_reuse_policy: reuse_policy as i32,
            retry_policy: command.retry_policy,
            cron_schedule: command.cron_schedule,
            header: command.header,
            memo: memo_without_empty_values(command.memo),
            search_attributes: without_empty_values(command.search_attributes),
            inherit_build_id: command.inherit_build_id,
            priority: command.priority,
            versioning_override,
            ..StartChildWorkflowExecutionInitiatedEventAttributes::default()
        };
        let child = attributes.clone();
        let initiated_id = self.write(env, Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(attributes));
        let request_id = self.child_request_id(initiated_id);
        self.state.children.insert(
            initiated_id,
            Child {
                namespace,
                workflow_id: id.clone(),
                workflow_type: kind,
                parent_close_policy: close_policy as i32,
                create_request_id: request_id.clone(),
                ..Child::default()
            },
        );
        batch.children.insert(id);
        self.send(Content::StartChild(StartChild {
            initiated_id,
            request_id,
            child: Some(child),
            user_metadata,
            may_be_running: false,
        }));
        Ok(())
    }

    /// The request id of a child's start.
    pub(in crate::run) fn child_request_id(&self, initiated_id: i64) -> String {
        const VERSION: i64 = 0;
        format!("{}:{initiated_id}:{VERSION}", self.state.run_id)
    }

    pub(super) fn signal_external(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: SignalExternalWorkflowExecutionCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadSignalWorkflowExecutionAttributes;
        let given = command.namespace.clone();
        let namespace = self.target_namespace(&given, env)?;
        let bad = |detail: String| Err(Rejected::task(CAUSE, detail));
        let Some(target) = command.execution else {
            return bad("Execution is not set on SignalExternalWorkflowExecutionCommand.".to_owned());
        };
        let (id, run_id, name) = (&target.workflow_id, &target.run_id, &command.signal_name);
        if id.is_empty() {
            return bad(format!(
                "WorkflowId is not set on SignalExternalWorkflowExecutionCommand. Namespace={given} RunId={run_id} \
                 SignalName={name}"
            ));
        }
        if !run_id.is_empty() && uuid::Uuid::try_parse(run_id).is_err() {
            return bad(format!(
                "Invalid RunId set on SignalExternalWorkflowExecutionCommand. WorkflowId={id} Namespace={given} \
                 RunId={run_id} SignalName={name}"
            ));
        }
        if name.is_empty() {
            return bad(format!(
                "SignalName is not set on SignalExternalWorkflowExecutionCommand. WorkflowId={id} Namespace={given} \
                 RunId={run_id}"
            ));
        }
        let (pending, limit) = (self.state.signals_out.len(), env.limits.pending_signals);
        if pending >= limit {
            let detail = too_many("signals to external workflows", pending, limit);
            return Err(Rejected::task(Cause::PendingSignalsLimitExceeded, detail));
        }
        if command.input.as_ref().is_some_and(|input| input.encoded_len() > env.limits.blob_bytes) {
            let detail = "SignalExternalWorkflowExecutionCommandAttributes.Input exceeds size limit.";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        let attributes = SignalExternalWorkflowExecutionInitiatedEventAttributes {
            workflow_task_completed_event_id: batch.completed_id,
            namespace_id: (env.namespace_id)(&namespace).unwrap_or_default(),
            namespace: given_or_own(given, namespace),
            workflow_execution: Some(target),
            signal_name: command.signal_name,
            input: command.input,
            control: command.control,
            child_workflow_only: command.child_workflow_only,
            header: command.header,
        };
        let signal = attributes.clone();
        let request_id = (env.new_id)();
        let initiated_id =
            self.write(env, Attributes::SignalExternalWorkflowExecutionInitiatedEventAttributes(attributes));
        self.state.signals_out.insert(initiated_id, ExternalRequest { request_id: request_id.clone() });
        self.send(Content::Signal(SignalRun { initiated_id, request_id, signal: Some(signal) }));
        Ok(())
    }

    pub(super) fn request_cancel_external(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: RequestCancelExternalWorkflowExecutionCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadRequestCancelExternalWorkflowExecutionAttributes;
        let given = command.namespace.clone();
        let namespace = self.target_namespace(&given, env)?;
        let bad = |detail: String| Err(Rejected::task(CAUSE, detail));
        let (id, run_id) = (&command.workflow_id, &command.run_id);
        if id.is_empty() {
            return bad(format!(
                "WorkflowId is not set on RequestCancelExternalWorkflowExecutionCommand. Namespace={given} \
                 RunId={run_id}"
            ));
        }
        if !run_id.is_empty() && uuid::Uuid::try_parse(run_id).is_err() {
            return bad(format!(
                "Invalid RunId set on RequestCancelExternalWorkflowExecutionCommand. WorkflowId={id} RunId={run_id} \
                 Namespace={given}"
            ));
        }
        if batch.children.contains(id) {
            return bad(format!(
                "Start and RequestCancel for child workflow is not allowed in same workflow task. WorkflowId={id} \
                 RunId={run_id} Namespace={given}"
            ));
        }
        let (pending, limit) = (self.state.cancels_out.len(), env.limits.pending_cancels);
        if pending >= limit {
            let detail = too_many("requests to cancel external workflows", pending, limit);
            return Err(Rejected::task(Cause::PendingRequestCancelLimitExceeded, detail));
        }
        let attributes = RequestCancelExternalWorkflowExecutionInitiatedEventAttributes {
            workflow_task_completed_event_id: batch.completed_id,
            namespace_id: (env.namespace_id)(&namespace).unwrap_or_default(),
            namespace: given_or_own(given, namespace),
            workflow_execution: Some(WorkflowExecution { workflow_id: command.workflow_id, run_id: command.run_id }),
            control: command.control,
            child_workflow_only: command.child_workflow_only,
            reason: command.reason,
        };
        let cancel = attributes.clone();
        let request_id = (env.new_id)();
        let initiated_id =
            self.write(env, Attributes::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(attributes));
        self.state.cancels_out.insert(initiated_id, ExternalRequest { request_id: request_id.clone() });
        self.send(Content::Cancel(CancelRun { initiated_id, request_id, cancel: Some(cancel) }));
        Ok(())
    }

    /// The namespace of a command, which must exist.
    fn target_namespace(&self, given: &str, env: &Env<'_>) -> Result<String, Rejected> {
        let namespace = if given.is_empty() { self.state.namespace.as_str() } else { given };
        match (env.namespace_id)(namespace) {
            Some(_) => Ok(namespace.to_owned()),
            None => Err(Rejected::Request(crate::service_error::ServiceError::NamespaceNotFound(namespace.to_owned()))),
        }
    }
}

fn given_or_own(given: String, own: String) -> String {
    if given.is_empty() { own } else { given }
}
