//! The runs that a schedule starts: starting them, looking at them, ending them.

use std::{collections::HashMap, sync::Arc};

use prost::Message as _;
use serde_json::Value;
use temporalio_protos::temporal::api::{
    common::v1::{Payload, Payloads, WorkflowExecution},
    enums::v1::{WorkflowExecutionStatus as Status, WorkflowIdReusePolicy},
    history::v1::{HistoryEvent, history_event::Attributes},
    workflowservice::v1::{
        RequestCancelWorkflowExecutionRequest, StartWorkflowExecutionRequest, TerminateWorkflowExecutionRequest,
    },
};

use crate::{
    core::{Core, Target},
    run::{Run, SCHEDULED_BY_ID},
    schedule::{DecidedStart, Ended, Machine},
    service_error::ServiceError,
    time::{Nanos, SECOND},
    zone::Zone,
};

const SCHEDULED_START_TIME: &str = "TemporalScheduledStartTime";
/// Results and failures that are larger, less what a record needs besides, are not carried on.
const RECORD: usize = 1024;

/// What is known of a run of a chain.
struct Seen {
    first_run_id: String,
    successor: String,
    status: Status,
    number: i64,
    last_event: i64,
    /// The closing event, if it is in memory.
    end: Option<HistoryEvent>,
}

impl Core {
    /// Executes the decided starts and records their results. Returns whether one was refused.
    pub(super) async fn start_decided(self: &Arc<Self>, machine: &mut Machine) -> Result<bool, ServiceError> {
        let mut refused = false;
        for decided in machine.state.starting.clone() {
            let Some(request) = start_request(machine, &decided) else {
                machine.forget_start(&decided.request_id);
                continue;
            };
            let workflow_id = request.workflow_id.clone();
            match self.start_scheduled(request).await {
                Ok(run_id) => machine.started(&decided, workflow_id, run_id, self.now()),
                Err(
                    error @ (ServiceError::Unavailable(_)
                    | ServiceError::Exhausted { .. }
                    | ServiceError::DataLoss(_)
                    | ServiceError::Internal(_)),
                ) => return Err(error),
                Err(error) => {
                    let schedule = &machine.state.schedule_id;
                    tracing::warn!(%error, schedule, workflow_id, "a schedule could not start a workflow");
                    machine.forget_start(&decided.request_id);
                    refused = true;
                }
            }
        }
        Ok(refused)
    }

    /// Records which of the running workflows have ended. Returns whether one has.
    pub(super) fn look_at_runs(self: &Arc<Self>, machine: &mut Machine) -> Result<bool, ServiceError> {
        let mut changed = false;
        for running in machine.running() {
            if let Some(ended) = self.look_at(&machine.state.namespace, &running)? {
                machine.ended(&running.workflow_id, ended);
                changed = true;
            }
        }
        Ok(changed)
    }

    /// How the chain ended that began with this run; `None` while it runs.
    fn look_at(self: &Arc<Self>, namespace: &str, first: &WorkflowExecution) -> Result<Option<Ended>, ServiceError> {
        // The current run of the workflow id is almost always the one.
        let mut seen = self.see(&Target::new(namespace, &first.workflow_id, ""))?;
        if seen.as_ref().is_some_and(|seen| seen.first_run_id != first.run_id) {
            seen = self.see(&Target::new(namespace, &first.workflow_id, &first.run_id))?;
        }
        loop {
            let Some(run) = seen else { return Ok(Some(Ended::default())) };
            if matches!(run.status, Status::Running | Status::Paused) {
                return Ok(None);
            }
            if run.successor.is_empty() {
                return Ok(Some(self.end_of(run)?));
            }
            seen = self.see(&Target::new(namespace, &first.workflow_id, &run.successor))?;
        }
    }

    fn see(self: &Arc<Self>, target: &Target) -> Result<Option<Seen>, ServiceError> {
        match self.with_run(target, |run, _| Ok(Seen::of(run))) {
            Ok(seen) => Ok(Some(seen.value())),
            Err(ServiceError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn end_of(&self, run: Seen) -> Result<Ended, ServiceError> {
        let event = match run.end {
            Some(event) => Some(event),
            None => self.event(run.number, run.last_event)?,
        };
        let largest = self.limits.blob_bytes - RECORD;
        let (result, failure) = match event.and_then(|event| event.attributes) {
            Some(Attributes::WorkflowExecutionCompletedEventAttributes(end)) => (end.result, None),
            Some(Attributes::WorkflowExecutionFailedEventAttributes(end)) => (None, end.failure),
            _ => (None, None),
        };
        Ok(Ended {
            status: run.status,
            result: result.filter(|result: &Payloads| result.encoded_len() <= largest),
            failure: failure.filter(|failure| failure.encoded_len() <= largest),
        })
    }

    /// Cancels or terminates what runs. A failure is no problem: the buffered action that wants it is still there.
    pub(super) async fn end_runs(self: &Arc<Self>, machine: &Machine, terminate: bool) {
        for running in machine.running() {
            let namespace = machine.state.namespace.clone();
            let workflow_id = running.workflow_id.clone();
            let execution = Some(WorkflowExecution { workflow_id: running.workflow_id, ..Default::default() });
            let ended = if terminate {
                let request = TerminateWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: execution,
                    reason: "terminated by schedule overlap policy".to_owned(),
                    identity: identity(machine),
                    first_execution_run_id: running.run_id,
                    ..TerminateWorkflowExecutionRequest::default()
                };
                self.terminate_workflow(request).await.map(drop)
            } else {
                let request = RequestCancelWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: execution,
                    reason: "cancelled by schedule overlap policy".to_owned(),
                    identity: identity(machine),
                    request_id: uuid::Uuid::new_v4().to_string(),
                    first_execution_run_id: running.run_id,
                    ..RequestCancelWorkflowExecutionRequest::default()
                };
                self.cancel_workflow(request).await.map(drop)
            };
            if let Err(error) = ended {
                tracing::debug!(%error, workflow_id, "a schedule could not end a workflow");
            }
        }
    }
}

impl Seen {
    fn of(run: &mut Run) -> Self {
        let last_event = run.state.next_event_id - 1;
        Self {
            first_run_id: run.state.first_run_id.clone(),
            successor: run.state.successor_run_id.clone(),
            status: run.state.status(),
            number: run.number,
            last_event,
            end: run.memory.tail.last().filter(|event| event.event_id == last_event).cloned(),
        }
    }
}

fn identity(machine: &Machine) -> String {
    format!("temporal-scheduler-{}-{}", machine.state.namespace, machine.state.schedule_id)
}

fn start_request(machine: &Machine, decided: &DecidedStart) -> Option<StartWorkflowExecutionRequest> {
    let action = machine.action()?.clone();
    let at = whole_seconds(decided.start.nominal);
    let mut search_attributes = action.search_attributes.unwrap_or_default();
    let own = [(SCHEDULED_START_TIME, &at), (SCHEDULED_BY_ID, &machine.state.schedule_id)];
    search_attributes.indexed_fields.extend(own.map(|(name, value)| (name.to_owned(), json(&value.as_str().into()))));
    let (last_completion_result, continued_failure) = machine.carried(&decided.start);
    // A repeated start of the same time is refused, except when a client asks for it.
    let reuse = match decided.start.manual {
        true => WorkflowIdReusePolicy::AllowDuplicate,
        false => WorkflowIdReusePolicy::RejectDuplicate,
    };
    Some(StartWorkflowExecutionRequest {
        namespace: machine.state.namespace.clone(),
        workflow_id: format!("{}-{at}", action.workflow_id),
        workflow_type: action.workflow_type,
        task_queue: action.task_queue,
        input: action.input,
        workflow_execution_timeout: action.workflow_execution_timeout,
        workflow_run_timeout: action.workflow_run_timeout,
        workflow_task_timeout: action.workflow_task_timeout,
        identity: identity(machine),
        request_id: decided.request_id.clone(),
        workflow_id_reuse_policy: reuse as i32,
        retry_policy: action.retry_policy,
        memo: action.memo,
        search_attributes: Some(search_attributes),
        header: action.header,
        last_completion_result,
        continued_failure,
        user_metadata: action.user_metadata,
        priority: action.priority,
        ..StartWorkflowExecutionRequest::default()
    })
}

/// A time in RFC 3339, without fractions.
fn whole_seconds(at: Nanos) -> String {
    let at = Zone::UTC.civil(at.div_euclid(SECOND));
    format!("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", at.year, at.month, at.day, at.hour, at.minute, at.second)
}

pub(super) fn json(value: &Value) -> Payload {
    Payload {
        metadata: HashMap::from([("encoding".to_owned(), b"json/plain".to_vec())]),
        data: value.to_string().into_bytes(),
        ..Payload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_workflow_ids_are_whole_seconds() {
        assert_eq!(whole_seconds(1_792_888_200 * SECOND + 999_999_999), "2026-10-25T00:30:00Z");
    }
}
