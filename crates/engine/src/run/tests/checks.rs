//! Invariants that hold after every step of a run.

use std::collections::BTreeMap;

use temporalio_protos::temporal::api::{
    enums::v1::{EventType, NexusOperationCancellationState as CancellationState},
    history::v1::history_event::Attributes,
};

use super::world::World;
use crate::run::{
    RunState,
    events::in_order,
    nexus::Request,
    rebuild::rebuild,
    state::{Activity, WorkflowTask},
};

type Judged = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}

impl World {
    pub(super) fn judge(&self) -> Judged {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        self.history_holds_together().map_err(|why| format!("{why}\n{}", self.told()))?;
        self.nothing_is_left_lying()?;
        self.history_tells_the_state().map_err(|why| format!("{why}\n{}", self.told()))
    }

    fn told(&self) -> String {
        let lines =
            self.history.iter().map(|event| format!("{} {}\n", event.event_id, event.event_type().as_str_name()));
        lines.collect()
    }

    fn history_holds_together(&self) -> Judged {
        let kinds: BTreeMap<i64, EventType> =
            self.history.iter().map(|event| (event.event_id, event.event_type())).collect();
        let mut open = None;
        let mut closed = false;
        for (event, id) in self.history.iter().zip(1..) {
            let kind = event.event_type();
            ensure!(event.event_id == id, "event {} stands in place {id}", event.event_id);
            ensure!(event.event_time.is_some(), "event {id} has no time");
            let attributes = event.attributes.as_ref().ok_or_else(|| format!("event {id} has no attributes"))?;
            ensure!(attributes.event_type() == kind, "event {id} is not of its kind");
            ensure!(!closed, "event {id} comes after the end");
            for (reference, wanted) in references(attributes) {
                ensure!(reference < id, "event {id} refers to {reference}, which comes later");
                let found = kinds.get(&reference).copied();
                ensure!(found == Some(wanted), "event {id} refers to {reference}, a {found:?}, as a {wanted:?}");
            }
            match kind {
                EventType::WorkflowTaskScheduled => {
                    ensure!(open.is_none(), "event {id} schedules a second task");
                    open = Some(EventType::WorkflowTaskScheduled);
                }
                EventType::WorkflowTaskStarted => open = Some(EventType::WorkflowTaskStarted),
                EventType::WorkflowTaskCompleted | EventType::WorkflowTaskFailed | EventType::WorkflowTaskTimedOut => {
                    open = None;
                }
                _ if is_end(kind) => closed = true,
                _ => {
                    let deciding = open == Some(EventType::WorkflowTaskStarted);
                    ensure!(!deciding, "event {id} was written while a worker decided");
                }
            }
        }
        ensure!(closed != self.run.state.is_running(), "history and the run disagree about its end");
        Ok(())
    }

    fn nothing_is_left_lying(&self) -> Judged {
        let state = &self.run.state;
        let deciding = self.run.has_started_task();
        ensure!(deciding || state.buffered.is_empty(), "events are buffered without a started workflow task");
        ensure!(
            state.is_running() || self.run.next_wakeup().is_none(),
            "a run that has ended still waits for something"
        );
        Ok(())
    }

    fn history_tells_the_state(&self) -> Judged {
        let live = &self.run.state;
        let identity = self.identity();
        let written = rebuild(&identity, &self.history, &self.limits).map_err(|unreadable| unreadable.to_string())?;
        let counts = |state: &RunState| (state.next_event_id, state.history_size, state.previous_started_id);
        ensure!(counts(&written) == counts(live), "history counts {:?}, the run {:?}", counts(&written), counts(live));
        // Buffered events are part of the state already.
        let mut all = self.history.clone();
        for mut event in in_order(live.buffered.clone()) {
            event.event_id = all.len() as i64 + 1;
            all.push(event);
        }
        let told = rebuild(&identity, &all, &self.limits).map_err(|unreadable| unreadable.to_string())?;
        let (told, live) = (reduced(told, live), reduced(live.clone(), live));
        ensure!(told == live, "history tells\n{}\nbut the run is\n{}", lacking(&told, &live), lacking(&live, &told));
        Ok(())
    }
}

/// The lines of one state that the other does not have.
fn lacking(here: &RunState, there: &RunState) -> String {
    let there = format!("{there:#?}");
    let there: Vec<_> = there.lines().collect();
    format!("{here:#?}").lines().filter(|line| !there.contains(line)).map(|line| format!("{line}\n")).collect()
}

/// Removes what history does not contain.
fn reduced(mut state: RunState, live: &RunState) -> RunState {
    state.next_event_id = 0;
    state.history_size = 0;
    state.state_transitions = 0;
    if live.reset_time != 0 {
        state = RunState {
            start_time: 0,
            execution_time: 0,
            original_start_time: 0,
            execution_expires: 0,
            run_expires: 0,
            reset_time: 0,
            ..state
        };
        state.activities.values_mut().for_each(|activity| activity.first_scheduled_time = 0);
        // A reset drops the request ids of earlier signals.
        state.signal_request_ids.iter_mut().for_each(String::clear);
        // Reapplied updates that were rejected later.
        state.updates.retain(|_, update| update.accepted_id != 0);
    }
    state.reset_run_id.clear();
    state.cancel_request_id.clear();
    state.create_request_event = 0;
    state.buffered.clear();
    state.outbox.clear();
    state.last_message_id = 0;
    state.task.take_if(|task| task.speculative);
    if let Some(task) = &mut state.task {
        task.original_scheduled_time = 0;
        if task.attempt > 1 {
            *task = WorkflowTask { scheduled_id: task.scheduled_id, ..WorkflowTask::default() };
        }
    }
    state.task_attempt = state.task_attempt.min(2);
    state.task_failures = 0;
    state.task_problem.clear();
    if let Some(attributes) = &mut state.search_attributes {
        attributes.indexed_fields.remove("TemporalReportedProblems");
        attributes.indexed_fields.remove("TemporalPauseInfo");
    }
    state.search_attributes.take_if(|attributes| attributes.indexed_fields.is_empty());
    for activity in state.activities.values_mut() {
        *activity = Activity {
            attempt: 0,
            scheduled_time: 0,
            backing_off: false,
            started_time: 0,
            start_request_id: String::new(),
            started_identity: String::new(),
            last_failure: None,
            heartbeat_details: None,
            last_heartbeat: 0,
            last_attempt_complete_time: 0,
            last_worker_identity: String::new(),
            pause: None,
            reset: false,
            reset_heartbeats: false,
            stamp: 0,
            retries_until: None,
            task_queue: String::new(),
            ..activity.clone()
        };
    }
    for operation in state.nexus_operations.values_mut() {
        operation.start = Request::default();
        if let Some(cancellation) = &mut operation.cancellation {
            cancellation.request = Request::default();
            // A buffered start stands after the request to cancel in history.
            cancellation.requested_time = 0;
            if cancellation.state() == CancellationState::BackingOff {
                cancellation.set_state(CancellationState::Scheduled);
            }
        }
    }
    for child in state.children.values_mut() {
        child.create_request_id.clear();
        if child.started_id >= live.next_event_id {
            child.started_id = 0;
        }
    }
    for request in state.signals_out.values_mut().chain(state.cancels_out.values_mut()) {
        request.request_id.clear();
    }
    if !state.is_running() {
        // After the closing event, buffered events, pending work and later results are dropped.
        state.task = None;
        state.task_attempt = 0;
        state.activities.clear();
        state.timers.clear();
        state.children.clear();
        state.signals_out.clear();
        state.cancels_out.clear();
        state.nexus_operations.clear();
        state.reset_points.iter_mut().for_each(|point| point.expire_time = None);
    }
    state
}

fn is_end(kind: EventType) -> bool {
    use EventType as E;
    matches!(
        kind,
        E::WorkflowExecutionCompleted
            | E::WorkflowExecutionFailed
            | E::WorkflowExecutionTimedOut
            | E::WorkflowExecutionCanceled
            | E::WorkflowExecutionTerminated
            | E::WorkflowExecutionContinuedAsNew
    )
}

/// The events that an event refers to, and their types.
fn references(attributes: &Attributes) -> Vec<(i64, EventType)> {
    use Attributes as A;
    use EventType as E;
    let decided = |id: i64| vec![(id, E::WorkflowTaskCompleted)];
    let activity = |scheduled: i64, started: i64| {
        let started = (started != 0).then_some((started, E::ActivityTaskStarted));
        [(scheduled, E::ActivityTaskScheduled)].into_iter().chain(started).collect()
    };
    let child = |initiated: i64, started: i64| {
        vec![(initiated, E::StartChildWorkflowExecutionInitiated), (started, E::ChildWorkflowExecutionStarted)]
    };
    match attributes {
        A::WorkflowTaskStartedEventAttributes(a) => vec![(a.scheduled_event_id, E::WorkflowTaskScheduled)],
        A::WorkflowTaskCompletedEventAttributes(a) => {
            vec![(a.scheduled_event_id, E::WorkflowTaskScheduled), (a.started_event_id, E::WorkflowTaskStarted)]
        }
        A::WorkflowTaskFailedEventAttributes(a) => {
            vec![(a.scheduled_event_id, E::WorkflowTaskScheduled), (a.started_event_id, E::WorkflowTaskStarted)]
        }
        A::WorkflowTaskTimedOutEventAttributes(a) => {
            let started = (a.started_event_id != 0).then_some((a.started_event_id, E::WorkflowTaskStarted));
            [(a.scheduled_event_id, E::WorkflowTaskScheduled)].into_iter().chain(started).collect()
        }
        A::ActivityTaskScheduledEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::ActivityTaskStartedEventAttributes(a) => activity(a.scheduled_event_id, 0),
        A::ActivityTaskCompletedEventAttributes(a) => activity(a.scheduled_event_id, a.started_event_id),
        A::ActivityTaskFailedEventAttributes(a) => activity(a.scheduled_event_id, a.started_event_id),
        A::ActivityTaskTimedOutEventAttributes(a) => activity(a.scheduled_event_id, a.started_event_id),
        A::ActivityTaskCanceledEventAttributes(a) => {
            let asked = (a.latest_cancel_requested_event_id, E::ActivityTaskCancelRequested);
            let mut all: Vec<_> = activity(a.scheduled_event_id, a.started_event_id);
            all.push(asked);
            all
        }
        A::ActivityTaskCancelRequestedEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::TimerStartedEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::TimerFiredEventAttributes(a) => vec![(a.started_event_id, E::TimerStarted)],
        A::TimerCanceledEventAttributes(a) => {
            vec![(a.started_event_id, E::TimerStarted), (a.workflow_task_completed_event_id, E::WorkflowTaskCompleted)]
        }
        A::MarkerRecordedEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::StartChildWorkflowExecutionInitiatedEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::StartChildWorkflowExecutionFailedEventAttributes(a) => {
            vec![(a.initiated_event_id, E::StartChildWorkflowExecutionInitiated)]
        }
        A::ChildWorkflowExecutionStartedEventAttributes(a) => {
            vec![(a.initiated_event_id, E::StartChildWorkflowExecutionInitiated)]
        }
        A::ChildWorkflowExecutionCompletedEventAttributes(a) => child(a.initiated_event_id, a.started_event_id),
        A::ChildWorkflowExecutionFailedEventAttributes(a) => child(a.initiated_event_id, a.started_event_id),
        A::ChildWorkflowExecutionCanceledEventAttributes(a) => child(a.initiated_event_id, a.started_event_id),
        A::ChildWorkflowExecutionTimedOutEventAttributes(a) => child(a.initiated_event_id, a.started_event_id),
        A::ChildWorkflowExecutionTerminatedEventAttributes(a) => child(a.initiated_event_id, a.started_event_id),
        A::SignalExternalWorkflowExecutionInitiatedEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::ExternalWorkflowExecutionSignaledEventAttributes(a) => {
            vec![(a.initiated_event_id, E::SignalExternalWorkflowExecutionInitiated)]
        }
        A::SignalExternalWorkflowExecutionFailedEventAttributes(a) => {
            vec![(a.initiated_event_id, E::SignalExternalWorkflowExecutionInitiated)]
        }
        A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(a) => {
            decided(a.workflow_task_completed_event_id)
        }
        A::ExternalWorkflowExecutionCancelRequestedEventAttributes(a) => {
            vec![(a.initiated_event_id, E::RequestCancelExternalWorkflowExecutionInitiated)]
        }
        A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(a) => {
            vec![(a.initiated_event_id, E::RequestCancelExternalWorkflowExecutionInitiated)]
        }
        A::NexusOperationScheduledEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::NexusOperationCancelRequestedEventAttributes(a) => {
            vec![
                (a.scheduled_event_id, E::NexusOperationScheduled),
                (a.workflow_task_completed_event_id, E::WorkflowTaskCompleted),
            ]
        }
        A::NexusOperationStartedEventAttributes(a) => vec![(a.scheduled_event_id, E::NexusOperationScheduled)],
        A::NexusOperationCompletedEventAttributes(a) => vec![(a.scheduled_event_id, E::NexusOperationScheduled)],
        A::NexusOperationFailedEventAttributes(a) => vec![(a.scheduled_event_id, E::NexusOperationScheduled)],
        A::NexusOperationCanceledEventAttributes(a) => vec![(a.scheduled_event_id, E::NexusOperationScheduled)],
        A::NexusOperationTimedOutEventAttributes(a) => vec![(a.scheduled_event_id, E::NexusOperationScheduled)],
        A::NexusOperationCancelRequestCompletedEventAttributes(a) => {
            vec![(a.requested_event_id, E::NexusOperationCancelRequested)]
        }
        A::NexusOperationCancelRequestFailedEventAttributes(a) => {
            vec![(a.requested_event_id, E::NexusOperationCancelRequested)]
        }
        A::UpsertWorkflowSearchAttributesEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::WorkflowPropertiesModifiedEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::WorkflowExecutionUpdateCompletedEventAttributes(a) => {
            vec![(a.accepted_event_id, E::WorkflowExecutionUpdateAccepted)]
        }
        A::WorkflowExecutionCompletedEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::WorkflowExecutionFailedEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::WorkflowExecutionCanceledEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        A::WorkflowExecutionContinuedAsNewEventAttributes(a) => decided(a.workflow_task_completed_event_id),
        _ => Vec::new(),
    }
}
