//! Updates: requests that a worker accepts or rejects and later completes.
//!
//! An admitted update is kept in memory only; after a restart its caller sends it again under the same id. Accepted and
//! completed updates are in history. Callers that wait are notified by [`UpdateChange`] after the change is durable.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_wkt_types::Any;
use temporalio_protos::temporal::api::{
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    history::v1::{
        WorkflowExecutionUpdateAcceptedEventAttributes, WorkflowExecutionUpdateCompletedEventAttributes,
        history_event::Attributes,
    },
    protocol::v1::{Message, message::SequencingId},
    update::v1::{Acceptance, Outcome, Rejection, Request, Response, outcome},
};

use super::{Env, Run, state::UpdateRecord, task::Delivery};
use crate::service_error::ServiceError;

const REQUEST: &str = "type.googleapis.com/temporal.api.update.v1.Request";

/// From this attempt of the workflow task on, updates are rejected.
const FAILING_ATTEMPT: i32 = 3;

/// The stage of an update.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Progress {
    Admitted,
    /// Still admitted, after the real server lost it from memory and got it again from its caller.
    Readmitted,
    Accepted,
    /// Accepted; callers that wait for the result must ask again.
    WaiterDropped,
    Completed(Box<Outcome>),
    /// Not processed by this run. The caller may retry if the error is retryable.
    Aborted(ServiceError),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UpdateChange {
    pub(crate) update_id: String,
    pub(crate) progress: Progress,
}

/// Updates that a worker has not accepted or rejected yet.
#[derive(Debug, Default, Clone)]
pub(crate) struct Registry {
    open: BTreeMap<String, Open>,
    admitted: u64,
    /// Updates that a reset reapplied and that the worker of the pending task has seen.
    reapplied_seen: BTreeSet<String>,
    /// Updates that were aborted when the run closed. A repeated request gets the same error.
    aborted: BTreeMap<String, ServiceError>,
}

#[derive(Debug, Clone)]
struct Open {
    order: u64,
    request: Request,
    sent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbortReason {
    Completed,
    Continuing,
    TaskFailed,
}

/// An invalid message of a worker.
pub(super) struct BadMessage(pub(super) String);

impl Registry {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Clears which updates were aborted when the run closed, and which reapplied updates a worker has seen.
    pub(crate) fn clear_aborted_and_seen(&mut self) {
        self.aborted.clear();
        self.reapplied_seen.clear();
    }

    fn has_unsent(&self) -> bool {
        self.open.values().any(|open| !open.sent)
    }

    fn in_order(&mut self) -> Vec<(&String, &mut Open)> {
        let mut all: Vec<_> = self.open.iter_mut().collect();
        all.sort_by_key(|(_, open)| open.order);
        all
    }
}

impl Run {
    /// When the real server rejects a request, it loses the updates that are only in memory, and their callers send
    /// them again: sent updates count as not sent, and aborted ones as unknown.
    pub(super) fn readmit_updates(&mut self) {
        let registry = &mut self.memory.updates;
        registry.open.values_mut().for_each(|open| open.sent = false);
        registry.clear_aborted_and_seen();
        let open: Vec<String> = registry.open.keys().cloned().collect();
        open.iter().for_each(|id| self.tell(id, Progress::Readmitted));
    }

    /// Admits a new update, or returns the stage of the one with this id.
    pub(crate) fn admit_update(&mut self, env: &Env<'_>, request: Request) -> Result<Progress, ServiceError> {
        let id = request.meta.as_ref().map(|meta| meta.update_id.clone()).unwrap_or_default();
        let known = self.update_progress(&id);
        if !self.state.is_running() {
            return known.ok_or_else(|| ServiceError::not_found("workflow execution already completed"));
        }
        // When the real server rejects an update, it loses the waiting ones and gets them again from their callers.
        if self.state.task_attempt >= FAILING_ATTEMPT {
            self.drop_transient_state();
            self.drop_update_waiters();
            self.abort_updates_of_failing_task();
            return Ok(Progress::Aborted(task_keeps_failing()));
        }
        self.must_not_be_closing().inspect_err(|_| self.readmit_updates())?;
        if let Some(progress) = known {
            return Ok(progress);
        }
        let limit = env.limits.updates_in_flight;
        if self.memory.updates.open.len() >= limit {
            return Err(ServiceError::Exhausted {
                message: format!("limit on number of concurrent in-flight updates has been reached ({limit})"),
                cause: temporalio_protos::temporal::api::enums::v1::ResourceExhaustedCause::ConcurrentLimit,
            });
        }
        let total = env.limits.updates_in_all;
        if self.memory.updates.open.len() + self.state.updates.len() >= total {
            return Err(ServiceError::FailedPrecondition(format!(
                "The limit on the total number of distinct updates in this workflow has been reached ({total}). Make \
                 sure any duplicate updates share an Update ID so the server can deduplicate them, and consider \
                 rejecting updates that you aren't going to process. You can also Continue-as-New to avoid this; we \
                 recommend you check Continue-as-New Suggested in your Workflow."
            )));
        }
        let registry = &mut self.memory.updates;
        registry.admitted += 1;
        registry.open.insert(id, Open { order: registry.admitted, request, sent: false });
        if self.state.task.is_none() && self.state.first_task_due == 0 {
            self.schedule_speculative_task(env, Delivery::Queue);
        }
        Ok(Progress::Admitted)
    }

    /// `None` for an unknown update. The outcome of a completed one is in history.
    pub(crate) fn update_progress(&self, id: &str) -> Option<Progress> {
        if self.memory.updates.open.contains_key(id) {
            return Some(Progress::Admitted);
        }
        if let Some(error) = self.memory.updates.aborted.get(id) {
            return Some(Progress::Aborted(error.clone()));
        }
        let record = self.state.updates.get(id)?;
        Some(match record {
            UpdateRecord { completed_id: 1.., .. } => Progress::Completed(Box::default()),
            UpdateRecord { accepted_id: 1.., .. } => Progress::Accepted,
            _ => Progress::Admitted,
        })
    }

    /// Whether there are updates that no worker has been sent.
    pub(crate) fn has_unsent_updates(&self) -> bool {
        let registry = &self.memory.updates;
        registry.has_unsent() || self.reapplied_updates().any(|id| !registry.reapplied_seen.contains(id))
    }

    /// Messages for the worker that starts a task. With `again`, those of an earlier attempt are repeated.
    pub(crate) fn update_messages(&mut self, started_id: i64, again: bool) -> Vec<Message> {
        // The worker finds these in history.
        self.memory.updates.reapplied_seen = self.reapplied_updates().cloned().collect();
        let mut messages = Vec::new();
        for (id, open) in self.memory.updates.in_order() {
            if open.sent && !again {
                continue;
            }
            open.sent = true;
            messages.push(Message {
                id: format!("{id}/request"),
                protocol_instance_id: id.clone(),
                sequencing_id: Some(SequencingId::EventId(started_id - 1)),
                body: Some(Any { type_url: REQUEST.to_owned(), value: open.request.encode_to_vec() }),
            });
        }
        messages
    }

    /// Applies a worker's message about an update.
    pub(super) fn update_message(&mut self, env: &Env<'_>, message: &Message) -> Result<(), BadMessage> {
        let id = &message.protocol_instance_id;
        let body =
            message.body.as_ref().ok_or_else(|| BadMessage(format!("Update {id} received message with nil body")))?;
        let kind = body.type_url.rsplit('/').next().unwrap_or_default();
        let garbled = |error: prost::DecodeError| BadMessage(format!("unable to unmarshal request: {error}"));
        match kind {
            "temporal.api.update.v1.Acceptance" => {
                self.accepted(env, id, Acceptance::decode(&*body.value).map_err(garbled)?)
            }
            "temporal.api.update.v1.Rejection" => {
                self.rejected(env, id, Rejection::decode(&*body.value).map_err(garbled)?)
            }
            "temporal.api.update.v1.Response" => {
                self.answered(env, id, Response::decode(&*body.value).map_err(garbled)?)
            }
            other => Err(BadMessage(format!("Message type {other} not supported"))),
        }
    }

    fn accepted(&mut self, env: &Env<'_>, id: &str, acceptance: Acceptance) -> Result<(), BadMessage> {
        let request = match self.memory.updates.open.remove(id) {
            Some(open) => Some(open.request),
            // The admitted event has the request.
            None if self.is_reapplied(id) => None,
            None => Some(self.request_of_forgotten(id, acceptance.accepted_request, "Acceptance")?),
        };
        if !self.state.is_running() {
            self.abort_update(id, aborted_by_closing());
            return Ok(());
        }
        let attributes = WorkflowExecutionUpdateAcceptedEventAttributes {
            protocol_instance_id: id.to_owned(),
            accepted_request_message_id: format!("{id}/request"),
            accepted_request_sequencing_event_id: acceptance.accepted_request_sequencing_event_id,
            accepted_request: request,
        };
        let accepted_id = self.write(env, Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(attributes));
        self.state.updates.entry(id.to_owned()).or_default().accepted_id = accepted_id;
        self.tell(id, Progress::Accepted);
        Ok(())
    }

    fn rejected(&mut self, _env: &Env<'_>, id: &str, rejection: Rejection) -> Result<(), BadMessage> {
        if self.is_reapplied(id) {
            self.state.updates.remove(id);
        } else if self.memory.updates.open.remove(id).is_none() {
            self.request_of_forgotten(id, rejection.rejected_request, "Rejection")?;
        }
        self.tell(id, failed(rejection.failure.unwrap_or_default()));
        Ok(())
    }

    fn answered(&mut self, env: &Env<'_>, id: &str, response: Response) -> Result<(), BadMessage> {
        let Some(record) = self.state.updates.get(id).cloned() else {
            return Err(match self.memory.updates.open.get(id) {
                Some(open) => wrong_state(id, "Response", if open.sent { "Sent" } else { "Admitted" }),
                None => unknown(id),
            });
        };
        if record.completed_id != 0 {
            return Err(wrong_state(id, "Response", "Completed"));
        }
        if record.accepted_id == 0 {
            let seen = self.memory.updates.reapplied_seen.contains(id);
            return Err(wrong_state(id, "Response", if seen { "Sent" } else { "Admitted" }));
        }
        if !self.state.is_running() {
            return Ok(());
        }
        let outcome = response.outcome.clone().unwrap_or_default();
        let attributes = WorkflowExecutionUpdateCompletedEventAttributes {
            meta: response.meta,
            accepted_event_id: record.accepted_id,
            outcome: response.outcome,
        };
        let completed_id = self.write(env, Attributes::WorkflowExecutionUpdateCompletedEventAttributes(attributes));
        self.state.updates.insert(id.to_owned(), UpdateRecord { completed_id, ..record });
        self.tell(id, Progress::Completed(Box::new(outcome)));
        Ok(())
    }

    /// Updates that a reset reapplied and that no worker has answered yet.
    fn reapplied_updates(&self) -> impl Iterator<Item = &String> {
        self.state.updates.iter().filter(|(_, record)| record.accepted_id == 0).map(|(id, _)| id)
    }

    fn reapplied_and_seen(&self) -> Vec<String> {
        self.reapplied_updates().filter(|id| self.memory.updates.reapplied_seen.contains(*id)).cloned().collect()
    }

    /// Whether a reset reapplied the update and no worker has answered it yet.
    fn is_reapplied(&self, id: &str) -> bool {
        self.state.updates.get(id).is_some_and(|record| record.accepted_id == 0)
    }

    /// The request of an update that a restart has dropped, from the worker's message.
    fn request_of_forgotten(&self, id: &str, request: Option<Request>, message: &str) -> Result<Request, BadMessage> {
        match self.state.updates.get(id) {
            Some(record) if record.completed_id != 0 => Err(wrong_state(id, message, "Completed")),
            Some(_) => Err(wrong_state(id, message, "Accepted")),
            None => request.ok_or_else(|| unknown(id)),
        }
    }

    /// A worker that completes a task must answer every update it was sent.
    pub(super) fn reject_unprocessed_updates(&mut self) {
        let silent: Vec<String> =
            self.memory.updates.open.iter().filter(|(_, open)| open.sent).map(|(id, _)| id.clone()).collect();
        for id in silent.into_iter().chain(self.reapplied_and_seen()) {
            self.memory.updates.open.remove(&id);
            self.state.updates.remove(&id);
            self.tell(&id, failed(unprocessed()));
        }
    }

    /// Aborts the updates that will not be completed.
    pub(super) fn abort_updates(&mut self, reason: AbortReason) {
        if reason == AbortReason::TaskFailed {
            return self.abort_sent_updates();
        }
        let running = self.state.updates.iter().filter(|(_, record)| record.completed_id == 0);
        let running: Vec<_> = running.map(|(id, record)| (id.clone(), record.accepted_id != 0)).collect();
        for (id, accepted) in running {
            let progress = if accepted { failed(run_ended_first()) } else { Progress::Aborted(aborted_by_closing()) };
            self.tell(&id, progress);
        }
        for id in std::mem::take(&mut self.memory.updates.open).into_keys() {
            let goes_on = reason == AbortReason::Continuing;
            let error = if goes_on { ServiceError::closing() } else { aborted_by_closing() };
            self.memory.updates.aborted.insert(id.clone(), error.clone());
            self.abort_update(&id, error);
        }
    }

    /// Aborts the updates that the failed worker was sent; the admitted events of reapplied ones stay in history. The
    /// others wait for the next task.
    fn abort_sent_updates(&mut self) {
        let brought = self.reapplied_and_seen();
        let sent = self.memory.updates.open.extract_if(.., |_, open| open.sent);
        for id in sent.map(|(id, _)| id).chain(brought).collect::<Vec<_>>() {
            self.abort_update(&id, task_failed("unexpected workflow task failure."));
        }
    }

    /// When the real server rejects a worker's commands, it drops the callers that wait for accepted updates.
    pub(super) fn drop_update_waiters(&mut self) {
        let open = |record: &UpdateRecord| record.accepted_id != 0 && record.completed_id == 0;
        let open = self.state.updates.iter().filter(|(_, record)| open(record)).map(|(id, _)| id.clone());
        open.collect::<Vec<_>>().iter().for_each(|id| self.tell(id, Progress::WaiterDropped));
    }

    /// Aborts the waiting updates when the workflow task keeps failing.
    pub(super) fn abort_updates_of_failing_task(&mut self) {
        if self.state.task_attempt >= FAILING_ATTEMPT {
            for id in std::mem::take(&mut self.memory.updates.open).into_keys() {
                self.abort_update(&id, task_keeps_failing());
            }
        }
    }

    fn abort_update(&mut self, id: &str, error: ServiceError) {
        self.tell(id, Progress::Aborted(error));
    }

    /// Only the last stage that an update reached in an operation is reported.
    fn tell(&mut self, id: &str, progress: Progress) {
        self.changes.updates.retain(|change| change.update_id != id);
        self.changes.updates.push(UpdateChange { update_id: id.to_owned(), progress });
    }
}

fn failed(failure: Failure) -> Progress {
    Progress::Completed(Box::new(Outcome { value: Some(outcome::Value::Failure(failure)) }))
}

fn wrong_state(id: &str, message: &str, state: &str) -> BadMessage {
    BadMessage(format!(
        "invalid state transition attempted for Update {id}: received *update.{message} message while in state {state}"
    ))
}

fn unknown(id: &str) -> BadMessage {
    BadMessage(format!(
        "update {id} wasn't found on the server. This is most likely a transient error which will be resolved \
         automatically by retries"
    ))
}

fn task_failed(why: &str) -> ServiceError {
    ServiceError::WorkflowNotReady(format!("Unable to perform workflow execution update due to {why}"))
}

/// The run's workflow task keeps failing.
pub(crate) fn task_keeps_failing() -> ServiceError {
    task_failed("Workflow Task in failed state.")
}

pub(crate) fn aborted_by_closing() -> ServiceError {
    ServiceError::not_found("workflow update was aborted by closing workflow")
}

fn unprocessed() -> Failure {
    server_failure(
        "Workflow Update is rejected because it wasn't processed by worker. Probably, Workflow Update is not supported \
         by the worker.",
        "UnprocessedUpdate",
    )
}

pub(crate) fn run_ended_first() -> Failure {
    server_failure(
        "Workflow Update failed because the Workflow completed before the Update completed.",
        "AcceptedUpdateCompletedWorkflow",
    )
}

fn server_failure(message: &str, kind: &str) -> Failure {
    Failure {
        message: message.to_owned(),
        source: "Server".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
            r#type: kind.to_owned(),
            non_retryable: true,
            ..ApplicationFailureInfo::default()
        })),
        ..Failure::default()
    }
}
