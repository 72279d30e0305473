//! Signals, cancellation requests, termination and timeouts of a run.

use temporalio_protos::temporal::api::{
    common::v1::{Header, Link, Payloads, WorkflowExecution},
    enums::v1::{RetryState, WorkflowExecutionStatus, WorkflowTaskFailedCause},
    history::v1::{
        HistoryEvent, WorkflowExecutionCancelRequestedEventAttributes, WorkflowExecutionOptionsUpdatedEventAttributes,
        WorkflowExecutionSignaledEventAttributes, WorkflowExecutionTerminatedEventAttributes,
        WorkflowExecutionTimedOutEventAttributes, history_event::Attributes,
    },
};

use super::{Env, Run, Worker, callbacks::Callback, events::new_event, updates::AbortReason};
use crate::{service_error::ServiceError, time::Nanos};

#[derive(Debug, Clone, Default)]
pub(crate) struct Signal {
    pub(crate) name: String,
    pub(crate) input: Option<Payloads>,
    pub(crate) header: Option<Header>,
    pub(crate) identity: String,
    pub(crate) request_id: String,
    /// The workflow execution that sent the signal, if any.
    pub(crate) sender: Option<WorkflowExecution>,
}

/// What a start attaches to a run that it found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attached {
    pub(crate) request_id: String,
    pub(crate) callbacks: Vec<temporalio_protos::temporal::api::common::v1::Callback>,
    pub(crate) links: Vec<Link>,
}

impl Run {
    pub(crate) fn signal(&mut self, env: &Env<'_>, signal: Signal) -> Result<(), ServiceError> {
        if !signal.request_id.is_empty() && self.state.signal_request_ids.contains(&signal.request_id) {
            return Ok(());
        }
        self.must_run()?;
        if self.state.signal_request_ids.len() >= env.limits.signals {
            return Err(ServiceError::InvalidArgument(
                "exceeded workflow execution limit for signal events".to_owned(),
            ));
        }
        self.must_not_be_closing()?;
        self.state.signal_request_ids.push(signal.request_id.clone());
        let attributes = WorkflowExecutionSignaledEventAttributes {
            signal_name: signal.name,
            input: signal.input,
            identity: signal.identity,
            header: signal.header,
            external_workflow_execution: signal.sender,
            request_id: signal.request_id,
            ..WorkflowExecutionSignaledEventAttributes::default()
        };
        self.buffer_event(env, Attributes::WorkflowExecutionSignaledEventAttributes(attributes));
        self.ensure_task(env);
        Ok(())
    }

    /// A signal of signal-with-start comes before the first workflow task in history.
    pub(crate) fn signal_before_first_task(&mut self, env: &Env<'_>, signal: Signal) -> Result<(), ServiceError> {
        let due = std::mem::replace(&mut self.state.first_task_due, Nanos::MAX);
        let signalled = self.signal(env, signal);
        self.state.first_task_due = due;
        signalled
    }

    /// Requests cancellation. A repeated request changes nothing.
    pub(crate) fn request_cancel(
        &mut self,
        env: &Env<'_>,
        request_id: &str,
        reason: &str,
        identity: &str,
        asked_by: Option<(WorkflowExecution, i64)>,
    ) -> Result<(), ServiceError> {
        self.must_run()?;
        if self.state.cancel_requested {
            return Ok(());
        }
        self.state.cancel_requested = true;
        request_id.clone_into(&mut self.state.cancel_request_id);
        let (external_workflow_execution, external_initiated_event_id) =
            asked_by.map_or((None, 0), |(run, initiated)| (Some(run), initiated));
        let attributes = WorkflowExecutionCancelRequestedEventAttributes {
            cause: reason.to_owned(),
            external_initiated_event_id,
            external_workflow_execution,
            identity: identity.to_owned(),
        };
        self.buffer_event(env, Attributes::WorkflowExecutionCancelRequestedEventAttributes(attributes));
        // Unlike a signal, it does not wait for the time of the first task.
        self.state.first_task_due = 0;
        self.ensure_task(env);
        Ok(())
    }

    /// Terminates the run.
    pub(crate) fn terminate(
        &mut self,
        env: &Env<'_>,
        reason: &str,
        details: Option<Payloads>,
        identity: &str,
    ) -> Result<(), ServiceError> {
        self.must_run()?;
        self.fail_started_task(env);
        let attributes = WorkflowExecutionTerminatedEventAttributes {
            reason: reason.to_owned(),
            details,
            identity: identity.to_owned(),
        };
        let close = Attributes::WorkflowExecutionTerminatedEventAttributes(attributes);
        self.close(env, WorkflowExecutionStatus::Terminated, close);
        self.abort_updates(AbortReason::Completed);
        Ok(())
    }

    pub(super) fn time_out(&mut self, env: &Env<'_>, retry_state: RetryState, new_run_id: &str) {
        self.fail_started_task(env);
        let attributes = WorkflowExecutionTimedOutEventAttributes {
            retry_state: retry_state as i32,
            new_execution_run_id: new_run_id.to_owned(),
        };
        let close = Attributes::WorkflowExecutionTimedOutEventAttributes(attributes);
        self.close(env, WorkflowExecutionStatus::TimedOut, close);
    }

    /// Fails a started workflow task and writes the buffered events.
    fn fail_started_task(&mut self, env: &Env<'_>) {
        if let Some(task) = self.state.task.clone().filter(|task| task.started_id != 0) {
            let worker = Worker::unknown("history-service");
            self.fail_task(env, task, WorkflowTaskFailedCause::ForceCloseCommand, None, worker, "");
            self.flush();
        }
    }

    /// Writes the closing event. Messages to other runs go to the outbox.
    pub(super) fn close(&mut self, env: &Env<'_>, status: WorkflowExecutionStatus, close: Attributes) {
        self.write(env, close);
        self.state.status = status as i32;
        self.state.close_time = env.now;
        // Queries of a closed run may go to any worker.
        self.memory.sticky = None;
        self.changes.listing = true;
        self.notify_parent_and_children();
    }

    pub(crate) fn must_run(&self) -> Result<(), ServiceError> {
        if self.state.is_running() {
            Ok(())
        } else {
            Err(ServiceError::not_found("workflow execution already completed"))
        }
    }

    /// A worker tried to close the run without having seen all events, and is processing the rest. More events would
    /// prevent the run from closing.
    pub(super) fn must_not_be_closing(&self) -> Result<(), ServiceError> {
        if self.memory.close_attempted && self.has_started_task() { Err(ServiceError::closing()) } else { Ok(()) }
    }

    /// Records what a start that found this run attaches to it.
    pub(crate) fn attach(&mut self, env: &Env<'_>, attached: &Attached) {
        let Attached { request_id, callbacks, links } = attached;
        if !request_id.is_empty() {
            self.state.attached_requests.insert(request_id.clone(), 0);
        }
        self.state.callbacks.extend(Callback::attached(callbacks, request_id, env.now));
        let attributes = WorkflowExecutionOptionsUpdatedEventAttributes {
            attached_request_id: request_id.clone(),
            attached_completion_callbacks: callbacks.clone(),
            ..WorkflowExecutionOptionsUpdatedEventAttributes::default()
        };
        let attributes = Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(attributes);
        let event = HistoryEvent { worker_may_ignore: true, links: links.clone(), ..new_event(env.now, attributes) };
        self.buffer(event);
    }
}
