//! Replies of handlers to requests.

#![allow(deprecated, reason = "older workers still send the older errors and names of tokens")]

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::Link,
    enums::v1::NexusOperationCancellationState as CancellationState,
    failure::v1::{CanceledFailureInfo, Failure, failure::FailureInfo},
    history::v1::{
        HistoryEvent, NexusOperationCancelRequestCompletedEventAttributes,
        NexusOperationCancelRequestFailedEventAttributes, NexusOperationStartedEventAttributes,
        history_event::Attributes,
    },
    nexus::v1::{HandlerError, Response, StartOperationResponse, response, start_operation_response::Variant},
};

use super::{
    NexusKey,
    ends::Outcome,
    failure::{call_error, from_handler_error, from_nexus_failure, handler_error, is_retryable, passed_on},
    links::parse_links,
};
use crate::{
    run::{Env, Run, events::new_event},
    service_error::ServiceError,
    time::Nanos,
};

/// What became of a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// The operation is done.
    Done(Outcome, Vec<Link>),
    Started {
        token: String,
        links: Vec<Link>,
    },
    /// A cancellation was received. Whether the operation is cancelled is known from its end.
    Received,
    /// The handler failed. Depending on the error, the request is made again.
    HandlerError(Failure),
    /// The request is given up.
    Refused(Failure),
}

impl Answer {
    /// What a completed task says.
    pub(crate) fn of(response: Option<Response>, cancel: bool) -> Self {
        let empty = || Self::HandlerError(handler_error("INTERNAL", "empty outcome"));
        match response.and_then(|response| response.variant) {
            Some(_) if cancel => Self::Received,
            Some(response::Variant::StartOperation(StartOperationResponse { variant: Some(variant) })) => match variant
            {
                Variant::SyncSuccess(done) => Self::Done(Outcome::Succeeded(done.payload), parse_links(&done.links)),
                Variant::AsyncSuccess(started) => {
                    let token =
                        if started.operation_token.is_empty() { started.operation_id } else { started.operation_token };
                    Self::Started { token, links: parse_links(&started.links) }
                }
                Variant::OperationError(error) => {
                    let failure = from_nexus_failure(error.failure.unwrap_or_default());
                    Self::Done(Outcome::unsuccessful(error.operation_state == "canceled", failure), Vec::new())
                }
                Variant::Failure(failure) => {
                    let cancelled = matches!(failure.failure_info, Some(FailureInfo::CanceledFailureInfo(_)));
                    Self::Done(Outcome::unsuccessful(cancelled, passed_on(failure)), Vec::new())
                }
            },
            _ => empty(),
        }
    }

    /// What a failed task says.
    pub(crate) fn of_failed(error: Option<HandlerError>, failure: Option<Failure>, cancel: bool) -> Self {
        let mut failure = match (error, failure) {
            (Some(error), _) => from_handler_error(error),
            (None, failure) => passed_on(failure.unwrap_or_default()),
        };
        if cancel && failure.cause.is_some() {
            // Errors about cancellations are sent in an older form, which has the message of the cause only.
            failure.message.clear();
        }
        Self::HandlerError(failure)
    }
}

impl Outcome {
    fn unsuccessful(cancelled: bool, failure: Failure) -> Self {
        if !cancelled {
            return Self::Failed(failure);
        }
        if matches!(failure.failure_info, Some(FailureInfo::CanceledFailureInfo(_))) {
            return Self::Canceled(failure);
        }
        // Older workers send another kind of failure for a cancelled operation.
        Self::Canceled(Failure {
            message: failure.message,
            stack_trace: failure.stack_trace,
            failure_info: Some(FailureInfo::CanceledFailureInfo(CanceledFailureInfo::default())),
            cause: failure.cause,
            ..Failure::default()
        })
    }
}

impl Run {
    /// A worker answers a request that was given to it.
    pub(crate) fn answer_nexus_request(
        &mut self,
        env: &Env<'_>,
        key: NexusKey,
        answer: Answer,
    ) -> Result<(), ServiceError> {
        let given = self.memory.nexus_given.remove(&key);
        if self.nexus_request(key).is_none() {
            // The operation has ended otherwise in the meantime. The worker need not know.
            return if given { Ok(()) } else { Err(task_not_found()) };
        }
        self.take_nexus_answer(env, key, limited(answer, env.limits.blob_bytes));
        Ok(())
    }

    pub(super) fn take_nexus_answer(&mut self, env: &Env<'_>, key: NexusKey, answer: Answer) {
        let id = key.scheduled_id;
        match answer {
            Answer::Done(outcome, links) if !key.cancel => self.end_operation(env, id, outcome, links),
            Answer::Started { token, links } if !key.cancel => {
                self.operation_started(env, id, env.now, &token, links);
                self.ensure_task(env);
            }
            Answer::Done(..) | Answer::Started { .. } | Answer::Received => self.cancellation_ended(env, id, None),
            Answer::HandlerError(failure) if is_retryable(&failure) => {
                let Some(operation) = self.state.nexus_operations.get_mut(&id) else { return };
                if !key.cancel {
                    operation.start.back_off(env.now, failure, env.chance);
                } else if let Some(cancellation) = &mut operation.cancellation {
                    cancellation.set_state(CancellationState::BackingOff);
                    cancellation.request.back_off(env.now, failure, env.chance);
                }
                self.touch();
            }
            Answer::HandlerError(failure) | Answer::Refused(failure) if key.cancel => {
                self.cancellation_ended(env, id, Some(failure));
            }
            Answer::HandlerError(failure) | Answer::Refused(failure) => {
                self.end_operation(env, id, Outcome::Failed(failure), Vec::new());
            }
        }
    }

    /// The caller schedules the workflow task.
    pub(super) fn operation_started(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        at: Nanos,
        token: &str,
        links: Vec<Link>,
    ) {
        let Some(operation) = self.state.nexus_operations.get_mut(&scheduled_id) else { return };
        operation.started(env.now, token);
        let attributes = NexusOperationStartedEventAttributes {
            scheduled_event_id: scheduled_id,
            operation_id: token.to_owned(),
            operation_token: token.to_owned(),
            request_id: operation.request_id.clone(),
        };
        let attributes = Attributes::NexusOperationStartedEventAttributes(attributes);
        self.buffer(HistoryEvent { links, ..new_event(at, attributes) });
        self.cancel_nexus_operation(env, scheduled_id);
    }

    fn cancellation_ended(&mut self, env: &Env<'_>, scheduled_id: i64, failure: Option<Failure>) {
        let Some(operation) = self.state.nexus_operations.get_mut(&scheduled_id) else { return };
        let Some(cancellation) = &mut operation.cancellation else { return };
        let requested_event_id = cancellation.requested_event_id;
        cancellation.end(env.now, failure.clone());
        let attributes = match failure {
            None => Attributes::NexusOperationCancelRequestCompletedEventAttributes(
                NexusOperationCancelRequestCompletedEventAttributes {
                    scheduled_event_id: scheduled_id,
                    requested_event_id,
                    ..NexusOperationCancelRequestCompletedEventAttributes::default()
                },
            ),
            Some(failure) => Attributes::NexusOperationCancelRequestFailedEventAttributes(
                NexusOperationCancelRequestFailedEventAttributes {
                    scheduled_event_id: scheduled_id,
                    requested_event_id,
                    failure: Some(failure),
                    ..NexusOperationCancelRequestFailedEventAttributes::default()
                },
            ),
        };
        self.buffer(HistoryEvent { worker_may_ignore: true, ..new_event(env.now, attributes) });
        self.ensure_task(env);
    }
}

impl super::Cancellation {
    /// The request was answered or is given up.
    pub(in crate::run) fn end(&mut self, at: Nanos, failure: Option<Failure>) {
        self.set_state(if failure.is_none() { CancellationState::Succeeded } else { CancellationState::Failed });
        self.request.end_attempt(at, failure);
        self.request.due = 0;
        self.request.backing_off = false;
    }
}

/// A result that is too large for history fails the operation.
fn limited(answer: Answer, blob_bytes: usize) -> Answer {
    match answer {
        Answer::Done(Outcome::Succeeded(Some(payload)), _) if payload.encoded_len() > blob_bytes => {
            Answer::Refused(call_error("http: response body too large".to_owned()))
        }
        answer => answer,
    }
}

pub(crate) fn task_not_found() -> ServiceError {
    ServiceError::not_found("Nexus task not found or already expired")
}
