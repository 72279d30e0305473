//! Writing history: numbering, and holding back what happens while a worker decides.

use prost::Message;
use temporalio_protos::temporal::api::{
    enums::v1::EventType,
    history::v1::{HistoryEvent, history_event::Attributes},
};

use super::{Env, Run, RunState};
use crate::time::{Nanos, timestamp};

impl RunState {
    /// Callers find the event that came of their request.
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
    /// Writes an event that is never held back: a worker's decision, a workflow task's own events, an end.
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

    /// Writes an event of the outside world, after those a worker is about to decide.
    pub(super) fn buffer_event(&mut self, env: &Env<'_>, attributes: Attributes) {
        self.buffer_event_at(env.now, attributes);
    }

    pub(super) fn buffer_event_at(&mut self, at: Nanos, attributes: Attributes) {
        self.state.buffered.push(new_event(at, attributes));
        self.touch();
    }

    /// Gives the held-back events their numbers.
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

    /// Adds something to an event that this operation has written.
    pub(super) fn amend(&mut self, index: usize, amend: impl FnOnce(&mut HistoryEvent)) {
        let Some(event) = self.changes.events.get_mut(index) else { return };
        let size = |event: &HistoryEvent| i64::try_from(event.encoded_len()).unwrap_or(i64::MAX);
        self.state.history_size -= size(event);
        amend(event);
        self.state.history_size += size(event);
    }

    /// A finish names the event of its start, whose number may have become known only now.
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

/// What a started event starts.
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

/// Finishes of activities and children come after everything else that was held back.
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
    )
}
