//! Nexus events when the state of a run is rebuilt from its history.

use temporalio_protos::temporal::api::{failure::v1::Failure, history::v1::history_event::Attributes};

use super::NexusOperation;
use crate::{run::RunState, time::Nanos};

impl RunState {
    /// Applies an event, if it is one about an operation. Requests are rebuilt as not made yet.
    pub(in crate::run) fn follow_nexus(
        &mut self,
        id: i64,
        at: Nanos,
        attributes: &Attributes,
    ) -> Result<bool, &'static str> {
        use Attributes as A;
        match attributes {
            A::NexusOperationScheduledEventAttributes(it) => {
                self.nexus_operations.insert(id, NexusOperation::scheduled(at, it));
            }
            A::NexusOperationStartedEventAttributes(it) => {
                let operation = self.nexus_operations.get_mut(&it.scheduled_event_id);
                let operation = operation.filter(|operation| !operation.is_started());
                operation.ok_or("a Nexus operation starts that was not scheduled")?.started(at, &it.operation_token);
            }
            A::NexusOperationCompletedEventAttributes(it) => self.end_nexus_operation(it.scheduled_event_id)?,
            A::NexusOperationFailedEventAttributes(it) => self.end_nexus_operation(it.scheduled_event_id)?,
            A::NexusOperationCanceledEventAttributes(it) => self.end_nexus_operation(it.scheduled_event_id)?,
            A::NexusOperationTimedOutEventAttributes(it) => self.end_nexus_operation(it.scheduled_event_id)?,
            A::NexusOperationCancelRequestedEventAttributes(it) => {
                // The operation's end may have been buffered.
                if let Some(operation) = self.nexus_operations.get_mut(&it.scheduled_event_id) {
                    operation.request_cancel(at, id);
                }
            }
            A::NexusOperationCancelRequestCompletedEventAttributes(it) => {
                self.end_nexus_cancellation(it.scheduled_event_id, at, None);
            }
            A::NexusOperationCancelRequestFailedEventAttributes(it) => {
                self.end_nexus_cancellation(it.scheduled_event_id, at, it.failure.clone());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end_nexus_operation(&mut self, scheduled_id: i64) -> Result<(), &'static str> {
        self.nexus_operations.remove(&scheduled_id).map(drop).ok_or("a Nexus operation ends that was not scheduled")
    }

    fn end_nexus_cancellation(&mut self, scheduled_id: i64, at: Nanos, failure: Option<Failure>) {
        let operation = self.nexus_operations.get_mut(&scheduled_id);
        if let Some(cancellation) = operation.and_then(|operation| operation.cancellation.as_mut()) {
            cancellation.end(at, failure);
        }
    }
}
