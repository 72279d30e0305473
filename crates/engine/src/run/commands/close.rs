//! Commands that close the run. They fail while there are events that the worker has not seen.

use prost::Message as _;
use temporalio_protos::temporal::api::{
    command::v1::{
        CancelWorkflowExecutionCommandAttributes, CompleteWorkflowExecutionCommandAttributes,
        ContinueAsNewWorkflowExecutionCommandAttributes, FailWorkflowExecutionCommandAttributes,
    },
    common::v1::WorkflowType,
    enums::v1::{RetryState, WorkflowExecutionStatus as Status, WorkflowTaskFailedCause as Cause},
    history::v1::{
        WorkflowExecutionCanceledEventAttributes, WorkflowExecutionCompletedEventAttributes,
        WorkflowExecutionContinuedAsNewEventAttributes, WorkflowExecutionFailedEventAttributes,
        history_event::Attributes,
    },
};

use super::{
    Batch, Beginning, Rejected,
    activities::user_queue,
    properties::{memo_without_empty_values, without_empty_values},
};
use crate::{
    run::{
        Env, Run, retry,
        start::{run_timeout, task_timeout},
    },
    time::{check_span, duration, span},
};

/// This check comes before all others of a closing command.
pub(super) fn may_end(batch: &Batch<'_>) -> Result<(), Rejected> {
    if batch.has_new_events {
        return Err(Rejected::Task { cause: Cause::UnhandledCommand, detail: None, terminate: false });
    }
    Ok(())
}

impl Run {
    pub(super) fn complete_run(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: CompleteWorkflowExecutionCommandAttributes,
        beginning: Beginning<'_>,
    ) -> Result<(), Rejected> {
        may_end(batch)?;
        if command.result.as_ref().is_some_and(|result| result.encoded_len() > env.limits.blob_bytes) {
            let detail = "CompleteWorkflowExecutionCommandAttributes.Result exceeds size limit.";
            return Err(Rejected::fatal(Cause::BadScheduleActivityAttributes, detail));
        }
        let next = self.prepare_cron(env, beginning, command.result.clone(), None);
        self.state.successor_run_id = next.as_ref().map(|next| next.run_id.clone()).unwrap_or_default();
        let attributes = WorkflowExecutionCompletedEventAttributes {
            result: command.result,
            workflow_task_completed_event_id: batch.completed_id,
            new_execution_run_id: self.state.successor_run_id.clone(),
        };
        self.close(env, Status::Completed, Attributes::WorkflowExecutionCompletedEventAttributes(attributes));
        if let Some(next) = next {
            self.succeed(env, next);
        }
        Ok(())
    }

    pub(super) fn fail_run(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: FailWorkflowExecutionCommandAttributes,
        beginning: Beginning<'_>,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadFailWorkflowExecutionAttributes;
        may_end(batch)?;
        let Some(failure) = command.failure else {
            return Err(Rejected::task(CAUSE, "Failure is not set on FailWorkflowExecutionCommand."));
        };
        if failure.encoded_len() > env.limits.blob_bytes {
            let detail = "FailWorkflowExecutionCommandAttributes.Failure exceeds size limit.";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        let retry = match &self.state.retry_policy {
            None => Err(RetryState::RetryPolicyNotSet),
            Some(policy) => retry::backoff(
                retry::Retried::Run,
                policy,
                self.state.attempt,
                Some(&failure),
                env.now,
                self.state.execution_expires,
            ),
        };
        let next = match retry {
            Ok(wait) => {
                beginning().map(|beginning| self.prepare_retry(env, beginning, wait, Some(failure.clone()), None))
            }
            Err(_) => self.prepare_cron(env, beginning, None, Some(failure.clone())),
        };
        let retry_state = match (&next, retry) {
            (_, Err(state)) => state,
            (Some(_), Ok(_)) => RetryState::InProgress,
            (None, Ok(_)) => RetryState::InternalServerError,
        };
        self.state.successor_run_id = next.as_ref().map(|next| next.run_id.clone()).unwrap_or_default();
        let attributes = WorkflowExecutionFailedEventAttributes {
            failure: Some(failure),
            retry_state: retry_state as i32,
            workflow_task_completed_event_id: batch.completed_id,
            new_execution_run_id: self.state.successor_run_id.clone(),
        };
        self.close(env, Status::Failed, Attributes::WorkflowExecutionFailedEventAttributes(attributes));
        if let Some(next) = next {
            self.succeed(env, next);
        }
        Ok(())
    }

    pub(super) fn cancel_run(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: CancelWorkflowExecutionCommandAttributes,
    ) -> Result<(), Rejected> {
        may_end(batch)?;
        let attributes = WorkflowExecutionCanceledEventAttributes {
            workflow_task_completed_event_id: batch.completed_id,
            details: command.details,
        };
        self.close(env, Status::Canceled, Attributes::WorkflowExecutionCanceledEventAttributes(attributes));
        Ok(())
    }

    pub(super) fn continue_as_new(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        mut command: ContinueAsNewWorkflowExecutionCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadContinueAsNewAttributes;
        may_end(batch)?;
        self.complete_continuation(env, &mut command)?;
        if command.input.as_ref().is_some_and(|input| input.encoded_len() > env.limits.blob_bytes) {
            let detail = "ContinueAsNewWorkflowExecutionCommandAttributes. Input exceeds size limit.";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        if command.memo.as_ref().is_some_and(|memo| memo.encoded_len() > env.limits.memo_bytes) {
            let detail = "ContinueAsNewWorkflowExecutionCommandAttributes. Memo exceeds size limit.";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        let next = self.prepare_continuation(env, command.clone());
        next.run_id.clone_into(&mut self.state.successor_run_id);
        #[allow(deprecated, reason = "workers may still send it, and history contains it")]
        let attributes = WorkflowExecutionContinuedAsNewEventAttributes {
            new_execution_run_id: next.run_id.clone(),
            workflow_type: command.workflow_type,
            task_queue: command.task_queue,
            input: command.input,
            workflow_run_timeout: command.workflow_run_timeout,
            workflow_task_timeout: command.workflow_task_timeout,
            workflow_task_completed_event_id: batch.completed_id,
            backoff_start_interval: command.backoff_start_interval,
            initiator: command.initiator,
            failure: command.failure,
            last_completion_result: command.last_completion_result,
            header: command.header,
            memo: command.memo,
            search_attributes: command.search_attributes,
            initial_versioning_behavior: command.initial_versioning_behavior,
            ..WorkflowExecutionContinuedAsNewEventAttributes::default()
        };
        let close = Attributes::WorkflowExecutionContinuedAsNewEventAttributes(attributes);
        self.close(env, Status::ContinuedAsNew, close);
        self.succeed(env, next);
        Ok(())
    }

    /// Fills in what the command leaves to the previous run, and checks the rest.
    fn complete_continuation(
        &self,
        env: &Env<'_>,
        command: &mut ContinueAsNewWorkflowExecutionCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadContinueAsNewAttributes;
        let kind = command.workflow_type.get_or_insert_with(WorkflowType::default);
        if kind.name.is_empty() {
            kind.name.clone_from(&self.state.workflow_type);
        }
        let kind = kind.name.clone();
        let limit = env.limits.id_length;
        if kind.len() > limit {
            let detail = format!(
                "WorkflowType on ContinueAsNewWorkflowExecutionCommand exceeds length limit. WorkflowType={kind} \
                 Length={} Limit={limit}",
                kind.len()
            );
            return Err(Rejected::task(CAUSE, detail));
        }
        let queue = user_queue(command.task_queue.as_ref(), &self.state.task_queue, env).map_err(|problem| {
            let detail = format!(
                "error validating ContinueAsNewWorkflowExecutionCommand TaskQueue: {problem}. WorkflowType={kind} \
                 TaskQueue="
            );
            Rejected::task(CAUSE, detail)
        })?;
        // The real server prints the queue in the text format of protobuf.
        let context = format!("WorkflowType={kind} TaskQueue=name:\"{}\"  kind:TASK_QUEUE_KIND_NORMAL", queue.name);
        command.task_queue = Some(queue);
        let spans = [
            ("WorkflowRunTimeout", &mut command.workflow_run_timeout),
            ("WorkflowTaskTimeout", &mut command.workflow_task_timeout),
            ("BackoffStartInterval", &mut command.backoff_start_interval),
        ];
        for (name, timeout) in spans {
            check_span(timeout).map_err(|problem| {
                let detail = format!("Invalid {name} on ContinueAsNewWorkflowExecutionCommand: {problem}. {context}");
                Rejected::task(CAUSE, detail)
            })?;
        }
        let given_or =
            |given: Option<&prost_wkt_types::Duration>, own: Option<&prost_wkt_types::Duration>| match span(given) {
                0 => span(own),
                given => given,
            };
        let run = run_timeout(
            given_or(command.workflow_run_timeout.as_ref(), self.state.run_timeout.as_ref()),
            span(self.state.execution_timeout.as_ref()),
        );
        let task = given_or(command.workflow_task_timeout.as_ref(), self.state.task_timeout.as_ref());
        command.workflow_run_timeout = Some(duration(run));
        command.workflow_task_timeout = Some(task_timeout(task, run));
        if let Some(policy) = &mut command.retry_policy {
            retry::complete(policy);
            retry::check(policy).map_err(|error| {
                let detail =
                    format!("invalid WorkflowRetryPolicy on ContinueAsNewWorkflowExecutionCommand: {error}. {context}");
                Rejected::task(CAUSE, detail)
            })?;
        }
        if let Some(attributes) = &mut command.search_attributes {
            (env.check_attributes)(attributes)
                .map_err(|error| Rejected::task(Cause::BadSearchAttributes, error.to_string()))?;
        }
        command.memo = memo_without_empty_values(command.memo.take());
        command.search_attributes = without_empty_values(command.search_attributes.take());
        Ok(())
    }
}
