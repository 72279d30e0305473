//! Rebuilds the state of a run from its history.
//!
//! A reset goes back to an earlier event of a run, and only history has the state of that time. History does not
//! contain
//!
//! - the identity of the run: namespace, ids, the request that created it, and other events of that request,
//! - what has no event: attempts, heartbeats and starts of activities, retried workflow tasks and their failures,
//!   pending queries and updates, buffered events, outbox messages and their request ids,
//! - what a reset changed: the new start time, the deadlines that count from it, and the dropped request ids of earlier
//!   signals.
//!
//! Activities are rebuilt as just scheduled, and a failed workflow task as one to be retried. The caller fills in the
//! rest.

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::{SearchAttributes, WorkflowExecution},
    enums::v1::{TimeoutType, WorkflowExecutionStatus as Status, WorkflowTaskFailedCause},
    history::v1::{
        ActivityTaskScheduledEventAttributes, HistoryEvent, StartChildWorkflowExecutionInitiatedEventAttributes,
        WorkflowExecutionStartedEventAttributes, history_event::Attributes,
    },
};

use super::{
    callbacks::Callback,
    commands::{merge_attributes, merge_memo},
    state::{Activity, Child, ExternalRequest, Parent, RunState, Timer, UpdateRecord, WorkflowTask},
};
use crate::{
    limits::Limits,
    time::{Nanos, moment, span},
};

/// The search attribute with the id of the schedule that started a run.
pub(crate) const SCHEDULED_BY_ID: &str = "TemporalScheduledById";

/// The identity of a run, which history does not contain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    pub(crate) namespace: String,
    pub(crate) run_id: String,
    pub(crate) create_request_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("history cannot be read from event {event_id} on: {problem}")]
pub(crate) struct Unreadable {
    event_id: i64,
    problem: &'static str,
}

/// The state of the run after these events.
pub(crate) fn rebuild<'e>(
    identity: &Identity,
    events: impl IntoIterator<Item = &'e HistoryEvent>,
    limits: &Limits,
) -> Result<RunState, Unreadable> {
    let mut events = events.into_iter();
    let first = events.next().and_then(|event| match &event.attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => Some((event, started)),
        _ => None,
    });
    let Some((event, started)) = first else {
        return Err(Unreadable { event_id: 1, problem: "it does not begin with the start of a run" });
    };
    let mut state = begun(identity, event, started);
    state.count(event)?;
    for event in events {
        state.count(event)?;
        state.follow(event, limits).map_err(|problem| Unreadable { event_id: event.event_id, problem })?;
    }
    Ok(state)
}

/// The state of a run before its first event is counted.
pub(super) fn begun(
    identity: &Identity,
    event: &HistoryEvent,
    started: &WorkflowExecutionStartedEventAttributes,
) -> RunState {
    let inherited = started;
    let started = started.clone();
    let at = moment(event.event_time.as_ref());
    let backoff = span(started.first_workflow_task_backoff.as_ref());
    let execution_time = at + backoff;
    let execution_expires = moment(started.workflow_execution_expiration_time.as_ref());
    let parent = started.parent_workflow_execution.map(|parent| Parent {
        namespace: started.parent_workflow_namespace,
        workflow_id: parent.workflow_id,
        run_id: parent.run_id,
        initiated_id: started.parent_initiated_event_id,
    });
    let schedule_id = scheduled_by(started.search_attributes.as_ref());
    let root = started.root_workflow_execution.unwrap_or_else(|| WorkflowExecution {
        workflow_id: started.workflow_id.clone(),
        run_id: identity.run_id.clone(),
    });
    let mut state = RunState {
        namespace: identity.namespace.clone(),
        workflow_id: started.workflow_id,
        run_id: identity.run_id.clone(),
        first_run_id: started.first_execution_run_id,
        original_run_id: started.original_execution_run_id,
        workflow_type: started.workflow_type.unwrap_or_default().name,
        task_queue: started.task_queue.unwrap_or_default().name,
        status: Status::Running as i32,
        create_request_id: identity.create_request_id.clone(),
        next_event_id: 1,
        start_time: at,
        execution_time,
        execution_timeout: started.workflow_execution_timeout,
        run_timeout: started.workflow_run_timeout,
        task_timeout: started.workflow_task_timeout,
        execution_expires,
        run_expires: run_expires(execution_time, span(started.workflow_run_timeout.as_ref()), execution_expires),
        first_task_due: if backoff > 0 { execution_time } else { 0 },
        attempt: started.attempt,
        retry_policy: started.retry_policy,
        parent,
        root_workflow_id: root.workflow_id,
        root_run_id: root.run_id,
        memo: started.memo,
        search_attributes: started.search_attributes,
        user_metadata: event.user_metadata.clone(),
        priority: started.priority,
        callbacks: Callback::attached(&started.completion_callbacks, &identity.create_request_id, at).collect(),
        cron_schedule: started.cron_schedule,
        schedule_id,
        reset_points: started.prev_auto_reset_points.unwrap_or_default().points,
        task_attempt: 1,
        ..RunState::default()
    };
    state.inherit(inherited);
    state
}

/// The schedule that has started the chain, by the attribute that schedules set.
fn scheduled_by(attributes: Option<&SearchAttributes>) -> String {
    let value = attributes.and_then(|attributes| attributes.indexed_fields.get(SCHEDULED_BY_ID));
    value.and_then(|value| serde_json::from_slice(&value.data).ok()).unwrap_or_default()
}

/// The time at which a run that starts at `from` times out; zero for never.
pub(super) fn run_expires(from: Nanos, run_timeout: Nanos, execution_expires: Nanos) -> Nanos {
    match (run_timeout, execution_expires) {
        (0, _) => 0,
        (run, 0) => from.saturating_add(run),
        (run, expires) => from.saturating_add(run).min(expires),
    }
}

impl RunState {
    fn count(&mut self, event: &HistoryEvent) -> Result<(), Unreadable> {
        let unreadable = |problem| Err(Unreadable { event_id: event.event_id, problem });
        if event.event_id != self.next_event_id {
            return unreadable("an event is missing");
        }
        if !self.is_running() {
            return unreadable("it goes on after the end of the run");
        }
        self.next_event_id += 1;
        self.history_size += i64::try_from(event.encoded_len()).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Applies an event to the state.
    #[allow(deprecated, reason = "unversioned workers still send their build here")]
    fn follow(&mut self, event: &HistoryEvent, limits: &Limits) -> Result<(), &'static str> {
        use Attributes as A;
        let (id, at) = (event.event_id, moment(event.event_time.as_ref()));
        let Some(attributes) = &event.attributes else { return Err("an event has no attributes") };
        match attributes {
            A::WorkflowTaskScheduledEventAttributes(it) => {
                self.first_task_due = 0;
                self.task_attempt = it.attempt;
                self.task = Some(WorkflowTask {
                    scheduled_id: id,
                    scheduled_time: at,
                    original_scheduled_time: at,
                    timeout: span(it.start_to_close_timeout.as_ref()),
                    attempt: it.attempt,
                    ..WorkflowTask::default()
                });
            }
            A::WorkflowTaskStartedEventAttributes(it) => {
                let task = self.task.as_mut().filter(|task| task.scheduled_id == it.scheduled_event_id);
                let task = task.ok_or("a workflow task starts that was not scheduled")?;
                task.started_id = id;
                task.started_time = at;
                task.request_id.clone_from(&it.request_id);
                task.history_size = it.history_size_bytes;
                task.suggest_continue_as_new.clone_from(&it.suggest_continue_as_new_reasons);
            }
            A::WorkflowTaskCompletedEventAttributes(it) => {
                self.end_task(it.scheduled_event_id)?;
                self.task_attempt = 1;
                self.previous_started_id = it.started_event_id;
                self.task_failures = 0;
                self.follow_version(it);
                self.remember_worker(at, id, it, limits.reset_points);
            }
            A::WorkflowTaskFailedEventAttributes(it) => {
                self.end_task(it.scheduled_event_id)?;
                self.task_failures += 1;
                self.repeat_task(at, it.cause() != WorkflowTaskFailedCause::ResetWorkflow);
            }
            A::WorkflowTaskTimedOutEventAttributes(it) => {
                self.end_task(it.scheduled_event_id)?;
                self.task_failures += i32::from(it.timeout_type() == TimeoutType::StartToClose);
                self.repeat_task(at, it.timeout_type() == TimeoutType::StartToClose);
            }

            A::ActivityTaskScheduledEventAttributes(it) => {
                self.activities.insert(id, scheduled(at, it));
            }
            A::ActivityTaskStartedEventAttributes(it) => {
                self.activities.get(&it.scheduled_event_id).ok_or("an activity starts that was not scheduled")?;
            }
            A::ActivityTaskCancelRequestedEventAttributes(it) => {
                if let Some(activity) = self.activities.get_mut(&it.scheduled_event_id) {
                    activity.cancel_requested = true;
                    activity.cancel_requested_id = id;
                }
            }
            A::ActivityTaskCompletedEventAttributes(it) => self.end_activity(it.scheduled_event_id)?,
            A::ActivityTaskFailedEventAttributes(it) => self.end_activity(it.scheduled_event_id)?,
            A::ActivityTaskTimedOutEventAttributes(it) => self.end_activity(it.scheduled_event_id)?,
            A::ActivityTaskCanceledEventAttributes(it) => self.end_activity(it.scheduled_event_id)?,

            A::TimerStartedEventAttributes(it) => {
                let fires = at.saturating_add(span(it.start_to_fire_timeout.as_ref()));
                self.timers.insert(it.timer_id.clone(), Timer { started_id: id, fires });
            }
            A::TimerFiredEventAttributes(it) => self.end_timer(&it.timer_id, it.started_event_id)?,
            A::TimerCanceledEventAttributes(it) => self.end_timer(&it.timer_id, it.started_event_id)?,

            A::StartChildWorkflowExecutionInitiatedEventAttributes(it) => {
                self.children.insert(id, initiated(it));
            }
            A::ChildWorkflowExecutionStartedEventAttributes(it) => {
                let child = self.children.get_mut(&it.initiated_event_id).filter(|child| child.started_id == 0);
                let child = child.ok_or("a child has started that was not initiated")?;
                child.started_id = id;
                child.run_id = it.workflow_execution.clone().unwrap_or_default().run_id;
            }
            A::StartChildWorkflowExecutionFailedEventAttributes(it) => self.end_child(it.initiated_event_id)?,
            A::ChildWorkflowExecutionCompletedEventAttributes(it) => self.end_child(it.initiated_event_id)?,
            A::ChildWorkflowExecutionFailedEventAttributes(it) => self.end_child(it.initiated_event_id)?,
            A::ChildWorkflowExecutionCanceledEventAttributes(it) => self.end_child(it.initiated_event_id)?,
            A::ChildWorkflowExecutionTimedOutEventAttributes(it) => self.end_child(it.initiated_event_id)?,
            A::ChildWorkflowExecutionTerminatedEventAttributes(it) => self.end_child(it.initiated_event_id)?,

            A::SignalExternalWorkflowExecutionInitiatedEventAttributes(_) => {
                self.signals_out.insert(id, ExternalRequest::default());
            }
            A::ExternalWorkflowExecutionSignaledEventAttributes(it) => self.end_signal(it.initiated_event_id)?,
            A::SignalExternalWorkflowExecutionFailedEventAttributes(it) => self.end_signal(it.initiated_event_id)?,
            A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(_) => {
                self.cancels_out.insert(id, ExternalRequest::default());
            }
            A::ExternalWorkflowExecutionCancelRequestedEventAttributes(it) => self.end_cancel(it.initiated_event_id)?,
            A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(it) => {
                self.end_cancel(it.initiated_event_id)?;
            }

            A::WorkflowExecutionSignaledEventAttributes(it) => self.signal_request_ids.push(it.request_id.clone()),
            A::WorkflowExecutionCancelRequestedEventAttributes(_) => self.cancel_requested = true,
            A::WorkflowExecutionUpdateAdmittedEventAttributes(it) => {
                let update_id = it.request.clone().unwrap_or_default().meta.unwrap_or_default().update_id;
                self.updates.insert(update_id, UpdateRecord { admitted_id: id, ..UpdateRecord::default() });
            }
            A::WorkflowExecutionUpdateAcceptedEventAttributes(it) => {
                let record = self.updates.entry(it.protocol_instance_id.clone()).or_default();
                record.accepted_id = id;
            }
            A::WorkflowExecutionUpdateCompletedEventAttributes(it) => {
                let record = self.updates.values_mut().find(|record| record.accepted_id == it.accepted_event_id);
                record.ok_or("an update is answered that was not accepted")?.completed_id = id;
            }

            A::WorkflowExecutionOptionsUpdatedEventAttributes(it) => {
                self.follow_options(it);
                let (request_id, callbacks) = (&it.attached_request_id, &it.attached_completion_callbacks);
                if !request_id.is_empty() {
                    self.attached_requests.insert(request_id.clone(), id);
                }
                self.callbacks.extend(Callback::attached(callbacks, request_id, at));
            }

            A::MarkerRecordedEventAttributes(_) => {}
            A::UpsertWorkflowSearchAttributesEventAttributes(it) => {
                merge_attributes(&mut self.search_attributes, &it.search_attributes.clone().unwrap_or_default());
            }
            A::WorkflowPropertiesModifiedEventAttributes(it) => {
                self.memo = merge_memo(self.memo.take(), &it.upserted_memo.clone().unwrap_or_default());
            }

            A::WorkflowExecutionCompletedEventAttributes(it) => {
                self.end(at, Status::Completed, &it.new_execution_run_id);
            }
            A::WorkflowExecutionFailedEventAttributes(it) => self.end(at, Status::Failed, &it.new_execution_run_id),
            A::WorkflowExecutionTimedOutEventAttributes(it) => self.end(at, Status::TimedOut, &it.new_execution_run_id),
            A::WorkflowExecutionCanceledEventAttributes(_) => self.end(at, Status::Canceled, ""),
            A::WorkflowExecutionTerminatedEventAttributes(_) => self.end(at, Status::Terminated, ""),
            A::WorkflowExecutionContinuedAsNewEventAttributes(it) => {
                self.end(at, Status::ContinuedAsNew, &it.new_execution_run_id);
            }
            other if self.follow_nexus(id, at, other)? => {}
            _ => return Err("the engine does not write events of this kind"),
        }
        Ok(())
    }

    fn end_task(&mut self, scheduled_id: i64) -> Result<(), &'static str> {
        match self.task.take_if(|task| task.scheduled_id == scheduled_id) {
            Some(_) => Ok(()),
            None => Err("a workflow task ends that was not scheduled"),
        }
    }

    /// The next attempt is not in history before it completes.
    fn repeat_task(&mut self, at: Nanos, counts: bool) {
        self.task_attempt = if counts { self.task_attempt + 1 } else { 1 };
        self.task = self.is_transient().then(|| WorkflowTask {
            scheduled_id: self.next_event_id,
            scheduled_time: at,
            original_scheduled_time: at,
            timeout: span(self.task_timeout.as_ref()),
            attempt: self.task_attempt,
            ..WorkflowTask::default()
        });
    }

    fn end_activity(&mut self, scheduled_id: i64) -> Result<(), &'static str> {
        self.activities.remove(&scheduled_id).map(drop).ok_or("an activity ends that was not scheduled")
    }

    fn end_timer(&mut self, id: &str, started_id: i64) -> Result<(), &'static str> {
        let timer = self.timers.remove(id).filter(|timer| timer.started_id == started_id);
        timer.map(drop).ok_or("a timer ends that was not started")
    }

    fn end_child(&mut self, initiated_id: i64) -> Result<(), &'static str> {
        self.children.remove(&initiated_id).map(drop).ok_or("a child has ended that was not initiated")
    }

    fn end_signal(&mut self, initiated_id: i64) -> Result<(), &'static str> {
        self.signals_out.remove(&initiated_id).map(drop).ok_or("a signal arrives that was not sent")
    }

    fn end_cancel(&mut self, initiated_id: i64) -> Result<(), &'static str> {
        self.cancels_out.remove(&initiated_id).map(drop).ok_or("a cancellation arrives that was not sent")
    }

    fn end(&mut self, at: Nanos, status: Status, successor: &str) {
        self.status = status as i32;
        self.close_time = at;
        self.task = None;
        successor.clone_into(&mut self.successor_run_id);
    }
}

fn scheduled(at: Nanos, scheduled: &ActivityTaskScheduledEventAttributes) -> Activity {
    let it = scheduled.clone();
    Activity {
        id: it.activity_id,
        kind: it.activity_type.unwrap_or_default().name,
        task_queue: it.task_queue.unwrap_or_default().name,
        attempt: 1,
        first_scheduled_time: at,
        scheduled_time: at,
        schedule_to_close: span(it.schedule_to_close_timeout.as_ref()),
        schedule_to_start: span(it.schedule_to_start_timeout.as_ref()),
        start_to_close: span(it.start_to_close_timeout.as_ref()),
        heartbeat_timeout: span(it.heartbeat_timeout.as_ref()),
        retry_policy: it.retry_policy,
        priority: it.priority,
        ..Activity::default()
    }
}

fn initiated(initiated: &StartChildWorkflowExecutionInitiatedEventAttributes) -> Child {
    Child {
        namespace: initiated.namespace.clone(),
        workflow_id: initiated.workflow_id.clone(),
        workflow_type: initiated.workflow_type.clone().unwrap_or_default().name,
        parent_close_policy: initiated.parent_close_policy,
        ..Child::default()
    }
}
