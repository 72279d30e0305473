//! Reset: a new run that shares the history of another one up to an event.
//!
//! The workflow task at that event fails in the new run. Later signals, updates and child events of the old run are
//! applied to the new one again.

use std::{collections::BTreeMap, sync::Arc};

use temporalio_protos::temporal::api::{
    enums::v1::{EventType, UpdateAdmittedEventOrigin, WorkflowTaskFailedCause},
    failure::v1::{Failure, ResetWorkflowFailureInfo, failure::FailureInfo},
    history::v1::{
        HistoryEvent, WorkflowExecutionOptionsUpdatedEventAttributes, WorkflowExecutionSignaledEventAttributes,
        WorkflowExecutionUpdateAdmittedEventAttributes, WorkflowTaskFailedEventAttributes, history_event::Attributes,
    },
    update::v1::Request,
};

use super::{
    Attached, Changes, Env, Memory, Run, Worker,
    events::new_event,
    outbox::{CancelRun, Content, SignalRun, StartChild},
    rebuild::{Identity, Unreadable, rebuild, run_expires},
    state::{RunState, UpdateRecord, WorkflowTask},
    task::started_attributes,
};
use crate::{service_error::ServiceError, time::span};

/// The identity that terminates an open run that is reset.
pub(super) const RESETTER: &str = "history-resetter";
const SERVICE: &str = "history-service";
/// The request id of a task that no worker has polled.
const NO_REQUEST: &str = "emptyUuid";

/// What a new run is made from.
#[derive(Debug)]
pub(crate) struct Fork {
    pub(crate) number: i64,
    pub(crate) identity: Identity,
    pub(crate) base_run_id: String,
    pub(crate) reason: String,
    /// The events both runs share, in the batches in which they were written.
    pub(crate) shared: Vec<Vec<HistoryEvent>>,
}

/// What is not reapplied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Excluded {
    pub(crate) signals: bool,
    pub(crate) updates: bool,
    pub(crate) nexus: bool,
}

/// Splits history after an event. Events of one batch are split only after a workflow task started event.
pub(crate) fn part(
    batches: Vec<Vec<HistoryEvent>>,
    after: i64,
) -> Result<(Vec<Vec<HistoryEvent>>, Vec<HistoryEvent>), ServiceError> {
    let (mut shared, mut later) = (Vec::new(), Vec::new());
    for mut batch in batches {
        let rest = batch.split_off(batch.partition_point(|event| event.event_id <= after));
        let splits = batch.last().is_some_and(|last| last.event_type() != EventType::WorkflowTaskStarted);
        if splits && !rest.is_empty() {
            return Err(ServiceError::InvalidArgument(format!(
                "StateRebuilder unable to Rebuild mutable state to event ID: {after}, version: 0, this event must be \
                 at the boundary"
            )));
        }
        if !batch.is_empty() {
            shared.push(batch);
        }
        later.extend(rest);
    }
    Ok((shared, later))
}

impl Run {
    /// The new run, up to its failed workflow task.
    pub(crate) fn fork(env: &Env<'_>, fork: Fork) -> Result<Self, ServiceError> {
        let unreadable = |unreadable: Unreadable| ServiceError::Internal(unreadable.to_string());
        let state = rebuild(&fork.identity, fork.shared.iter().flatten(), env.limits).map_err(unreadable)?;
        let Some(task) = state.task.clone() else {
            return Err(ServiceError::InvalidArgument(format!(
                "Can only reset workflow to event ID in range [WorkflowTaskScheduled +1, WorkflowTaskStarted + 1]: {}",
                state.next_event_id
            )));
        };
        let state = restart_times(env, state);
        let changes = Changes { listing: true, dirty: true, inherited: fork.shared, ..Changes::default() };
        let mut run = Self { number: fork.number, state, memory: Memory::default(), changes };
        run.fail_task_of_old(env, task, fork.base_run_id, fork.reason);
        run.reschedule_activities(env);
        Ok(run)
    }

    /// Fails the pending task. History must have its started event first.
    fn fail_task_of_old(&mut self, env: &Env<'_>, mut task: WorkflowTask, base_run_id: String, reason: String) {
        if task.started_id == 0 {
            task.request_id = NO_REQUEST.to_owned();
            if task.attempt > 1 {
                // A retry of a failed task is not in history yet.
                task = self
                    .write_task(WorkflowTask { attempt: 1, scheduled_time: env.now, ..task }, Worker::unknown(SERVICE));
            }
            task.history_size = self.state.history_size;
            task.started_id = self.write(env, started_attributes(&task, Worker::unknown(SERVICE), false));
        }
        let failure = Failure {
            message: reason,
            failure_info: Some(FailureInfo::ResetWorkflowFailureInfo(ResetWorkflowFailureInfo::default())),
            ..Failure::default()
        };
        let attributes = WorkflowTaskFailedEventAttributes {
            scheduled_event_id: task.scheduled_id,
            started_event_id: task.started_id,
            cause: WorkflowTaskFailedCause::ResetWorkflow as i32,
            failure: Some(failure),
            identity: SERVICE.to_owned(),
            base_run_id,
            new_run_id: self.state.run_id.clone(),
            ..WorkflowTaskFailedEventAttributes::default()
        };
        self.write(env, Attributes::WorkflowTaskFailedEventAttributes(attributes));
        self.note_failure(WorkflowTaskFailedCause::ResetWorkflow);
        self.count_failed_task();
        self.state.task = None;
        self.state.task_attempt = 1;
    }

    /// Dispatches the pending activities again, from their first attempt.
    fn reschedule_activities(&mut self, env: &Env<'_>) {
        for event in self.changes.inherited.iter().flatten() {
            if let Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled)) = &event.attributes
                && let Some(activity) = self.state.activities.get_mut(&event.event_id)
            {
                activity.scheduled_time = env.now;
                activity.first_scheduled_time = env.now;
                self.memory.scheduled.insert(event.event_id, Arc::new(scheduled.clone()));
            }
        }
        let pending: Vec<i64> = self.state.activities.keys().copied().collect();
        pending.into_iter().for_each(|scheduled_id| self.dispatch_activity(scheduled_id));
    }

    /// Reapplies events of the old run and of the runs that continued it.
    pub(crate) fn reapply(&mut self, env: &Env<'_>, events: &[HistoryEvent], excluded: Excluded) {
        use Attributes as A;
        for event in events {
            match event.attributes.clone() {
                Some(A::WorkflowExecutionSignaledEventAttributes(signal)) if !excluded.signals => {
                    self.reapply_signal(env, signal, event);
                }
                Some(A::WorkflowExecutionUpdateAdmittedEventAttributes(update)) if !excluded.updates => {
                    self.reapply_update(env, update.request.clone(), update.origin());
                }
                // An accepted update without its request was reapplied by an earlier reset and has an admitted event.
                Some(A::WorkflowExecutionUpdateAcceptedEventAttributes(update)) if !excluded.updates => {
                    self.reapply_update(env, update.accepted_request, UpdateAdmittedEventOrigin::Reapply);
                }
                Some(A::WorkflowExecutionOptionsUpdatedEventAttributes(updated))
                    if updated.versioning_override.is_some() || updated.unset_versioning_override =>
                {
                    self.apply_options(env, updated);
                }
                Some(A::WorkflowExecutionOptionsUpdatedEventAttributes(attached)) => {
                    self.reapply_attachment(env, attached, event);
                }
                Some(attributes) if is_nexus(&attributes) && !excluded.nexus => {
                    self.reapply_nexus_event(env, attributes)
                }
                Some(attributes) => self.reapply_child_event(env, attributes),
                None => {}
            }
        }
    }

    fn reapply_signal(
        &mut self,
        env: &Env<'_>,
        signal: WorkflowExecutionSignaledEventAttributes,
        event: &HistoryEvent,
    ) {
        self.state.signal_request_ids.push(String::new());
        let signal = WorkflowExecutionSignaledEventAttributes { external_workflow_execution: None, ..signal };
        let mut again = new_event(env.now, Attributes::WorkflowExecutionSignaledEventAttributes(signal));
        again.links.clone_from(&event.links);
        self.append(again);
    }

    fn reapply_update(&mut self, env: &Env<'_>, request: Option<Request>, origin: UpdateAdmittedEventOrigin) {
        let Some(request) = request else { return };
        let update_id = request.meta.clone().unwrap_or_default().update_id;
        if self.state.updates.contains_key(&update_id) {
            return;
        }
        let attributes =
            WorkflowExecutionUpdateAdmittedEventAttributes { request: Some(request), origin: origin as i32 };
        let admitted_id = self.write(env, Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(attributes));
        self.state.updates.insert(update_id, UpdateRecord { admitted_id, ..UpdateRecord::default() });
    }

    /// Reapplies what another start attached to the old run.
    fn reapply_attachment(
        &mut self,
        env: &Env<'_>,
        attached: WorkflowExecutionOptionsUpdatedEventAttributes,
        event: &HistoryEvent,
    ) {
        let (request_id, callbacks) = (attached.attached_request_id, attached.attached_completion_callbacks);
        let known =
            self.state.attached_requests.contains_key(&request_id) || request_id == self.state.create_request_id;
        if !callbacks.is_empty() && !request_id.is_empty() && known {
            return;
        }
        self.attach(env, &Attached { request_id, callbacks, links: event.links.clone() });
        self.flush();
    }

    /// Reapplies the start or the end of a Nexus operation that this run has, too.
    fn reapply_nexus_event(&mut self, env: &Env<'_>, attributes: Attributes) {
        use Attributes as A;
        let (scheduled_id, request_id) = match &attributes {
            A::NexusOperationStartedEventAttributes(it) => (it.scheduled_event_id, &it.request_id),
            A::NexusOperationCompletedEventAttributes(it) => (it.scheduled_event_id, &it.request_id),
            A::NexusOperationFailedEventAttributes(it) => (it.scheduled_event_id, &it.request_id),
            A::NexusOperationCanceledEventAttributes(it) => (it.scheduled_event_id, &it.request_id),
            A::NexusOperationTimedOutEventAttributes(it) => (it.scheduled_event_id, &it.request_id),
            // Events of commands and what belongs to them: the workflow makes its commands again.
            _ => return,
        };
        let operation = self.state.nexus_operations.get_mut(&scheduled_id);
        let Some(operation) = operation.filter(|operation| operation.request_id == *request_id) else { return };
        if let A::NexusOperationStartedEventAttributes(it) = &attributes {
            if operation.is_started() {
                return;
            }
            operation.started(env.now, &it.operation_token);
        } else {
            self.state.nexus_operations.remove(&scheduled_id);
        }
        self.write(env, attributes);
    }

    /// Reapplies events of children that this run has, too.
    fn reapply_child_event(&mut self, env: &Env<'_>, mut attributes: Attributes) {
        use Attributes as A;
        if let A::ChildWorkflowExecutionStartedEventAttributes(it) = &attributes {
            let child = self.state.children.get_mut(&it.initiated_event_id).filter(|child| child.run_id.is_empty());
            if let Some(child) = child {
                child.run_id = it.workflow_execution.clone().unwrap_or_default().run_id;
                self.write(env, attributes);
            }
            return;
        }
        let (initiated_id, started_id) = match &mut attributes {
            A::StartChildWorkflowExecutionFailedEventAttributes(it) => (it.initiated_event_id, &mut 0),
            A::ChildWorkflowExecutionCompletedEventAttributes(it) => (it.initiated_event_id, &mut it.started_event_id),
            A::ChildWorkflowExecutionFailedEventAttributes(it) => (it.initiated_event_id, &mut it.started_event_id),
            A::ChildWorkflowExecutionCanceledEventAttributes(it) => (it.initiated_event_id, &mut it.started_event_id),
            A::ChildWorkflowExecutionTimedOutEventAttributes(it) => (it.initiated_event_id, &mut it.started_event_id),
            A::ChildWorkflowExecutionTerminatedEventAttributes(it) => (it.initiated_event_id, &mut it.started_event_id),
            _ => return,
        };
        if let Some(child) = self.state.children.remove(&initiated_id) {
            *started_id = child.started_id;
            self.write(env, attributes);
        }
    }

    /// Sends unanswered requests to other runs again and schedules a workflow task.
    pub(crate) fn resume_after_reset(&mut self, env: &Env<'_>) {
        let shared = std::mem::take(&mut self.changes.inherited);
        let by_id: BTreeMap<i64, &HistoryEvent> =
            shared.iter().flatten().map(|event| (event.event_id, event)).collect();
        let unstarted = self.state.children.iter().filter(|(_, child)| child.run_id.is_empty()).map(|(id, _)| *id);
        let asked =
            unstarted.chain(self.state.signals_out.keys().copied()).chain(self.state.cancels_out.keys().copied());
        let mut asked: Vec<i64> = asked.collect();
        asked.sort_unstable();
        for event in asked.into_iter().filter_map(|id| by_id.get(&id).copied()) {
            self.resend_request(env, event);
        }
        self.changes.inherited = shared;
        let operations: Vec<i64> = self.state.nexus_operations.keys().copied().collect();
        for scheduled_id in operations {
            self.start_nexus_operation(env, scheduled_id);
            self.cancel_nexus_operation(env, scheduled_id);
        }
        self.ensure_task(env);
    }

    fn resend_request(&mut self, env: &Env<'_>, event: &HistoryEvent) {
        use Attributes as A;
        let (initiated_id, mut request_id) = (event.event_id, (env.new_id)());
        let message = match event.attributes.clone() {
            Some(A::StartChildWorkflowExecutionInitiatedEventAttributes(child)) => {
                request_id = self.child_request_id(initiated_id);
                if let Some(child) = self.state.children.get_mut(&initiated_id) {
                    child.create_request_id.clone_from(&request_id);
                }
                let user_metadata = event.user_metadata.clone();
                // The old run may have started it already.
                let message =
                    StartChild { initiated_id, request_id, child: Some(child), user_metadata, may_be_running: true };
                Content::StartChild(message)
            }
            Some(A::SignalExternalWorkflowExecutionInitiatedEventAttributes(signal)) => {
                if let Some(request) = self.state.signals_out.get_mut(&initiated_id) {
                    request.request_id.clone_from(&request_id);
                }
                Content::Signal(SignalRun { initiated_id, request_id, signal: Some(signal) })
            }
            Some(A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(cancel)) => {
                if let Some(request) = self.state.cancels_out.get_mut(&initiated_id) {
                    request.request_id.clone_from(&request_id);
                }
                Content::Cancel(CancelRun { initiated_id, request_id, cancel: Some(cancel) })
            }
            _ => return,
        };
        self.send(message);
    }

    /// Records the run that a reset made from this one.
    pub(crate) fn reset_to(&mut self, run_id: &str) {
        run_id.clone_into(&mut self.state.reset_run_id);
        self.touch();
    }

    /// Terminates an open run because of a reset.
    pub(crate) fn end_for_reset(&mut self, env: &Env<'_>, reason: &str) -> Result<Vec<HistoryEvent>, ServiceError> {
        self.terminate(env, reason, None, RESETTER)?;
        self.release_queries();
        Ok(self.written_events())
    }
}

fn is_nexus(attributes: &Attributes) -> bool {
    use Attributes as A;
    matches!(
        attributes,
        A::NexusOperationStartedEventAttributes(_)
            | A::NexusOperationCompletedEventAttributes(_)
            | A::NexusOperationFailedEventAttributes(_)
            | A::NexusOperationCanceledEventAttributes(_)
            | A::NexusOperationTimedOutEventAttributes(_)
    )
}

/// Times count from the reset.
fn restart_times(env: &Env<'_>, old: RunState) -> RunState {
    let execution_timeout = span(old.execution_timeout.as_ref());
    let execution_expires = match execution_timeout {
        0 => old.execution_expires,
        timeout => env.now.saturating_add(timeout),
    };
    RunState {
        start_time: env.now,
        execution_time: env.now + (old.execution_time - old.start_time),
        execution_expires,
        run_expires: run_expires(env.now, span(old.run_timeout.as_ref()), execution_expires),
        original_start_time: old.start_time,
        reset_time: env.now,
        state_transitions: 1,
        // The count is kept, but not the request ids, so a repeated request is a new signal.
        signal_request_ids: vec![String::new(); old.signal_request_ids.len()],
        ..old
    }
}
