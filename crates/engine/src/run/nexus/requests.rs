//! Requests to handlers: to start an operation and to cancel it.

use temporalio_protos::temporal::api::enums::v1::{NexusOperationCancellationState as CancellationState, TimeoutType};

use super::{
    EndpointTarget, NexusOperation,
    answers::Answer,
    failure::{call_error, handler_error},
    state::{NexusDue, Unsent},
};
use crate::{
    run::{Dispatch, Env, Run},
    time::Nanos,
};

/// One attempt of a request. Its answer must name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NexusKey {
    pub(crate) scheduled_id: i64,
    /// To cancel the operation, not to start it.
    pub(crate) cancel: bool,
    /// Attempts before this one.
    pub(crate) attempt: i32,
}

/// What a worker needs of a request, beside the scheduled event.
#[derive(Debug, Clone)]
pub(crate) struct NexusRequest {
    pub(crate) operation: NexusOperation,
    pub(crate) key: NexusKey,
    /// How long the worker has.
    pub(crate) time: Nanos,
    /// What it is told of the time for the whole operation.
    pub(crate) time_to_complete: Option<Nanos>,
}

impl Run {
    /// Makes the first attempt to start an operation that was just scheduled, or was rebuilt.
    pub(in crate::run) fn start_nexus_operation(&mut self, env: &Env<'_>, scheduled_id: i64) {
        self.send_nexus(env, scheduled_id, false);
    }

    /// Makes an attempt to cancel an operation, if that is pending.
    pub(in crate::run) fn cancel_nexus_operation(&mut self, env: &Env<'_>, scheduled_id: i64) {
        self.send_nexus(env, scheduled_id, true);
    }

    fn send_nexus(&mut self, env: &Env<'_>, scheduled_id: i64, cancel: bool) {
        let Some(operation) = self.state.nexus_operations.get_mut(&scheduled_id) else { return };
        let endpoint = (env.nexus_endpoint)(&operation.endpoint_id, &operation.endpoint);
        let (time, _) = if cancel { operation.time_to_cancel(env.now) } else { operation.time_to_start(env.now) };
        let starts = !cancel && !operation.is_started();
        let request = match &mut operation.cancellation {
            Some(cancellation) if cancel && cancellation.is_pending() => {
                cancellation.set_state(CancellationState::Scheduled);
                &mut cancellation.request
            }
            _ if starts => &mut operation.start,
            _ => return,
        };
        match endpoint.map(|endpoint| endpoint.target) {
            Some(EndpointTarget::Worker { namespace, task_queue }) => {
                request.make(env.now, time);
                if request.unsent() == Unsent::No {
                    let key = NexusKey { scheduled_id, cancel, attempt: request.attempt };
                    self.changes.dispatches.push(Dispatch::Nexus { namespace, queue: task_queue, key });
                }
            }
            Some(EndpointTarget::External) => request.give_up(env.now, Unsent::External),
            None => request.give_up(env.now, Unsent::NotRegistered),
        }
        self.touch();
    }

    /// Processes what is due for an operation.
    pub(in crate::run) fn nexus_due(&mut self, env: &Env<'_>, scheduled_id: i64, due: NexusDue) {
        let cancel = due == NexusDue::Cancel;
        if let NexusDue::TimeOut(kind) = due {
            return self.time_out_operation(env, scheduled_id, TimeoutType::try_from(kind).unwrap_or_default());
        }
        let Some(operation) = self.state.nexus_operations.get(&scheduled_id) else { return };
        let Some(request) = operation.pending(cancel) else { return };
        if request.backing_off {
            return self.send_nexus(env, scheduled_id, cancel);
        }
        let (_, limit) = if cancel { operation.time_to_cancel(env.now) } else { operation.time_to_start(env.now) };
        let (key, unsent) = (NexusKey { scheduled_id, cancel, attempt: request.attempt }, request.unsent());
        self.memory.nexus_given.remove(&key);
        let answer = match unsent {
            Unsent::No => Answer::HandlerError(handler_error("UPSTREAM_TIMEOUT", "upstream timeout")),
            Unsent::NotRegistered => Answer::HandlerError(handler_error("NOT_FOUND", "endpoint not registered")),
            Unsent::External => Answer::HandlerError(handler_error(
                "NOT_IMPLEMENTED",
                "the embedded engine does not call endpoints with an external target",
            )),
            Unsent::TooLate if !cancel => return self.time_out_operation(env, scheduled_id, limit),
            Unsent::TooLate => Answer::Refused(call_error(format!(
                "not enough time to execute another request before {} timeout",
                timeout_name(limit)
            ))),
        };
        self.take_nexus_answer(env, key, answer);
    }

    /// The requests that wait for a worker.
    pub(crate) fn waiting_nexus_requests(&self) -> impl Iterator<Item = NexusKey> {
        let operations = self.state.nexus_operations.iter().filter(|_| self.state.is_running());
        let keys = operations.flat_map(|(scheduled_id, operation)| {
            [false, true].into_iter().filter_map(|cancel| {
                let request = operation.pending(cancel)?;
                let key = NexusKey { scheduled_id: *scheduled_id, cancel, attempt: request.attempt };
                (!request.backing_off && request.unsent() == Unsent::No).then_some(key)
            })
        });
        keys.filter(|key| !self.memory.nexus_given.contains(key))
    }

    /// The dispatches of the requests that wait for a worker.
    pub(crate) fn waiting_nexus(&self, env: &Env<'_>) -> Vec<Dispatch> {
        let dispatch = |key: NexusKey| {
            let operation = self.state.nexus_operations.get(&key.scheduled_id)?;
            match (env.nexus_endpoint)(&operation.endpoint_id, &operation.endpoint)?.target {
                EndpointTarget::Worker { namespace, task_queue } => {
                    Some(Dispatch::Nexus { namespace, queue: task_queue, key })
                }
                EndpointTarget::External => None,
            }
        };
        self.waiting_nexus_requests().filter_map(dispatch).collect()
    }

    /// Gives a request to a worker. `None` if the task is stale.
    pub(crate) fn give_nexus_request(&mut self, env: &Env<'_>, key: NexusKey) -> Option<NexusRequest> {
        let operation = self.nexus_request(key)?;
        let request = operation.pending(key.cancel)?;
        let request = NexusRequest {
            key,
            time: request.due - env.now,
            time_to_complete: operation.time_to_complete(env.now).filter(|_| !key.cancel),
            operation: operation.clone(),
        };
        let first = self.memory.nexus_given.insert(key);
        (first && request.time > 0).then_some(request)
    }

    pub(in crate::run) fn awaits_nexus_answer(&self, key: NexusKey) -> bool {
        self.nexus_request(key).is_some()
    }

    /// The operation of a request that is not answered yet.
    pub(super) fn nexus_request(&self, key: NexusKey) -> Option<&NexusOperation> {
        let operation = self.state.nexus_operations.get(&key.scheduled_id).filter(|_| self.state.is_running())?;
        let request = operation.pending(key.cancel)?;
        let waits = !request.backing_off && request.unsent() == Unsent::No && request.attempt == key.attempt;
        waits.then_some(operation)
    }
}

impl NexusOperation {
    /// A request was made and is not answered.
    pub(crate) fn awaits_handler(&self) -> bool {
        let made = |request: &super::Request| !request.backing_off && request.unsent() == Unsent::No;
        [false, true].into_iter().any(|cancel| self.pending(cancel).is_some_and(made))
    }

    /// The request that is pending: made, not made or backing off.
    pub(super) fn pending(&self, cancel: bool) -> Option<&super::Request> {
        if cancel {
            let pending = self.cancellation.as_ref().filter(|cancellation| cancellation.is_pending());
            return pending.map(|cancellation| &cancellation.request);
        }
        (!self.is_started()).then_some(&self.start)
    }
}

fn timeout_name(kind: TimeoutType) -> &'static str {
    match kind {
        TimeoutType::Unspecified => "Unspecified",
        TimeoutType::StartToClose => "StartToClose",
        TimeoutType::ScheduleToStart => "ScheduleToStart",
        TimeoutType::ScheduleToClose => "ScheduleToClose",
        TimeoutType::Heartbeat => "Heartbeat",
    }
}
