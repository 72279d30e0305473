//! Writing history: event ids, and buffering of events while a workflow task is started.

use prost::Message;
use temporalio_protos::temporal::api::{
    enums::v1::EventType,
    history::v1::{HistoryEvent, history_event::Attributes},
};

use super::{Env, Run, RunState};
use crate::time::{Nanos, timestamp};

impl RunState {
    /// Records the event of a request, so that clients can find it.
    fn note_request(&mut self, event: &HistoryEvent) {
        let request = match &event.attributes {
            Some(Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(updated)) => &updated.attached_request_id,
            Some(Attributes::WorkflowExecutionSignaledEventAttributes(signaled)) => &signaled.request_id,
            _ => return,
        };
        if let Some(attached) = self.attached_requests.get_mut(request) {
            *attached = event.event_id;
        } else if *request == self.create_request_id && !request.is_empty() {
            self.create_request_event = event.event_id;
        }
    }
}

impl Run {
    /// Writes an event that is never buffered: from commands, of workflow tasks, or the closing event.
    pub(super) fn write(&mut self, env: &Env<'_>, attributes: Attributes) -> i64 {
        self.write_at(env.now, attributes)
    }

    pub(super) fn write_at(&mut self, at: Nanos, attributes: Attributes) -> i64 {
        let event = new_event(at, attributes);
        self.append(event)
    }

    /// The event that was written last.
    pub(super) fn last_written(&mut self) -> Option<&mut HistoryEvent> {
        self.changes.events.last_mut()
    }

    /// Buffers an event that comes from outside. It is written after the events of the started workflow task.
    pub(super) fn buffer_event(&mut self, env: &Env<'_>, attributes: Attributes) {
        self.buffer_event_at(env.now, attributes);
    }

    pub(super) fn buffer_event_at(&mut self, at: Nanos, attributes: Attributes) {
        self.buffer(new_event(at, attributes));
    }

    pub(super) fn buffer(&mut self, event: HistoryEvent) {
        self.state.buffered.push(event);
        self.touch();
    }

    /// Writes the buffered events.
    pub(super) fn flush(&mut self) {
        for event in in_order(std::mem::take(&mut self.state.buffered)) {
            self.append(event);
        }
    }

    pub(super) fn append(&mut self, mut event: HistoryEvent) -> i64 {
        let id = self.state.next_event_id;
        event.event_id = id;
        self.refer_to_start(&mut event);
        self.state.next_event_id += 1;
        self.state.history_size += i64::try_from(event.encoded_len()).unwrap_or(i64::MAX);
        if let Some(Attributes::ChildWorkflowExecutionStartedEventAttributes(started)) = &event.attributes
            && let Some(child) = self.state.children.get_mut(&started.initiated_event_id)
        {
            child.started_id = id;
        }
        self.state.note_request(&event);
        self.changes.events.push(event);
        self.touch();
        id
    }

    /// Changes an event that this operation has written.
    pub(super) fn amend(&mut self, index: usize, amend: impl FnOnce(&mut HistoryEvent)) {
        let Some(event) = self.changes.events.get_mut(index) else { return };
        let size = |event: &HistoryEvent| i64::try_from(event.encoded_len()).unwrap_or(i64::MAX);
        self.state.history_size -= size(event);
        amend(event);
        self.state.history_size += size(event);
    }

    /// Sets the started event's id in a finishing event. The id may be known only now.
    fn refer_to_start(&self, event: &mut HistoryEvent) {
        use Attributes as A;
        let Some(attributes) = &mut event.attributes else { return };
        let (reference, started) = match attributes {
            A::ActivityTaskCompletedEventAttributes(a) => (a.scheduled_event_id, &mut a.started_event_id),
            A::ActivityTaskFailedEventAttributes(a) => (a.scheduled_event_id, &mut a.started_event_id),
            A::ActivityTaskTimedOutEventAttributes(a) => (a.scheduled_event_id, &mut a.started_event_id),
            A::ActivityTaskCanceledEventAttributes(a) => (a.scheduled_event_id, &mut a.started_event_id),
            A::ChildWorkflowExecutionCompletedEventAttributes(a) => (a.initiated_event_id, &mut a.started_event_id),
            A::ChildWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, &mut a.started_event_id),
            A::ChildWorkflowExecutionCanceledEventAttributes(a) => (a.initiated_event_id, &mut a.started_event_id),
            A::ChildWorkflowExecutionTimedOutEventAttributes(a) => (a.initiated_event_id, &mut a.started_event_id),
            A::ChildWorkflowExecutionTerminatedEventAttributes(a) => (a.initiated_event_id, &mut a.started_event_id),
            _ => return,
        };
        let found = self.changes.events.iter().rev().find(|earlier| starts(earlier) == Some(reference));
        if let Some(earlier) = found {
            *started = earlier.event_id;
        }
    }
}

/// The scheduled or initiated event that a started event refers to.
fn starts(event: &HistoryEvent) -> Option<i64> {
    match event.attributes.as_ref()? {
        Attributes::ActivityTaskStartedEventAttributes(a) => Some(a.scheduled_event_id),
        Attributes::ChildWorkflowExecutionStartedEventAttributes(a) => Some(a.initiated_event_id),
        _ => None,
    }
}

pub(super) fn new_event(at: Nanos, attributes: Attributes) -> HistoryEvent {
    HistoryEvent {
        event_time: Some(timestamp(at)),
        event_type: attributes.event_type() as i32,
        attributes: Some(attributes),
        ..HistoryEvent::default()
    }
}

/// Finishing events of activities, children and Nexus operations come after all other buffered events.
pub(super) fn in_order(held_back: Vec<HistoryEvent>) -> impl Iterator<Item = HistoryEvent> {
    let (finishes, others): (Vec<_>, Vec<_>) = held_back.into_iter().partition(is_finish);
    others.into_iter().chain(finishes)
}

fn is_finish(event: &HistoryEvent) -> bool {
    matches!(
        event.event_type(),
        EventType::ActivityTaskCompleted
            | EventType::ActivityTaskFailed
            | EventType::ActivityTaskTimedOut
            | EventType::ActivityTaskCanceled
            | EventType::ChildWorkflowExecutionCompleted
            | EventType::ChildWorkflowExecutionFailed
            | EventType::ChildWorkflowExecutionTimedOut
            | EventType::ChildWorkflowExecutionCanceled
            | EventType::ChildWorkflowExecutionTerminated
            | EventType::NexusOperationCompleted
            | EventType::NexusOperationFailed
            | EventType::NexusOperationCanceled
            | EventType::NexusOperationTimedOut
    )
}
