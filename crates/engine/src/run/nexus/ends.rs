//! Ends of operations.

#![allow(deprecated, reason = "history has the older name of tokens, too")]

use temporalio_protos::temporal::api::{
    common::v1::{Link, Payload},
    enums::v1::TimeoutType,
    failure::v1::{
        CanceledFailureInfo, Failure, NexusOperationFailureInfo, TerminatedFailureInfo, TimeoutFailureInfo,
        failure::FailureInfo,
    },
    history::v1::{
        HistoryEvent, NexusOperationCanceledEventAttributes, NexusOperationCompletedEventAttributes,
        NexusOperationFailedEventAttributes, NexusOperationTimedOutEventAttributes, history_event::Attributes,
    },
};

use super::{NexusOperation, failure::passed_on};
use crate::{
    run::{Env, Run, events::new_event},
    service_error::ServiceError,
    time::{Nanos, SECOND},
};

/// How an operation ended.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Succeeded(Option<Payload>),
    Failed(Failure),
    Canceled(Failure),
}

/// The end of an asynchronous operation, as its handler's run reports it.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    pub(crate) scheduled_id: i64,
    pub(crate) request_id: String,
    /// When the handler's run started, and a link to its start: needed if it ends before the handler has answered.
    pub(crate) started: Nanos,
    pub(crate) link: Link,
    pub(crate) outcome: Outcome,
}

impl Outcome {
    /// The outcome of an operation whose handler's run has ended with this event; `None` for another event.
    pub(crate) fn of_run(end: &HistoryEvent) -> Option<Self> {
        use Attributes as A;
        Some(match end.attributes.clone()? {
            A::WorkflowExecutionCompletedEventAttributes(it) => {
                Self::Succeeded(it.result.and_then(|result| result.payloads.into_iter().next()))
            }
            A::WorkflowExecutionFailedEventAttributes(it) => Self::Failed(passed_on(it.failure.unwrap_or_default())),
            A::WorkflowExecutionCanceledEventAttributes(it) => {
                let info = CanceledFailureInfo { details: it.details, ..CanceledFailureInfo::default() };
                Self::Canceled(failure("operation canceled", FailureInfo::CanceledFailureInfo(info)))
            }
            A::WorkflowExecutionTerminatedEventAttributes(_) => {
                let info = TerminatedFailureInfo::default();
                Self::Failed(failure("operation terminated", FailureInfo::TerminatedFailureInfo(info)))
            }
            A::WorkflowExecutionTimedOutEventAttributes(_) => {
                let info = TimeoutFailureInfo::default();
                Self::Failed(failure("operation exceeded internal timeout", FailureInfo::TimeoutFailureInfo(info)))
            }
            _ => return None,
        })
    }
}

impl Run {
    /// Ends an operation.
    pub(super) fn end_operation(&mut self, env: &Env<'_>, scheduled_id: i64, outcome: Outcome, links: Vec<Link>) {
        let Some(operation) = self.take_operation(scheduled_id) else { return };
        let request_id = operation.request_id.clone();
        let failed = |cause: Failure| Some(operation_failure(&operation, scheduled_id, cause));
        let attributes = match outcome {
            Outcome::Succeeded(result) => {
                Attributes::NexusOperationCompletedEventAttributes(NexusOperationCompletedEventAttributes {
                    scheduled_event_id: scheduled_id,
                    result: Some(result.unwrap_or_else(nothing)),
                    request_id,
                })
            }
            Outcome::Failed(cause) => {
                Attributes::NexusOperationFailedEventAttributes(NexusOperationFailedEventAttributes {
                    scheduled_event_id: scheduled_id,
                    failure: failed(cause),
                    request_id,
                })
            }
            Outcome::Canceled(cause) => {
                Attributes::NexusOperationCanceledEventAttributes(NexusOperationCanceledEventAttributes {
                    scheduled_event_id: scheduled_id,
                    failure: failed(cause),
                    request_id,
                })
            }
        };
        self.buffer(HistoryEvent { links, ..new_event(env.now, attributes) });
        self.ensure_task(env);
    }

    pub(super) fn time_out_operation(&mut self, env: &Env<'_>, scheduled_id: i64, kind: TimeoutType) {
        let Some(operation) = self.take_operation(scheduled_id) else { return };
        let info = TimeoutFailureInfo { timeout_type: kind as i32, ..TimeoutFailureInfo::default() };
        let cause = failure("operation timed out", FailureInfo::TimeoutFailureInfo(info));
        let attributes = Attributes::NexusOperationTimedOutEventAttributes(NexusOperationTimedOutEventAttributes {
            scheduled_event_id: scheduled_id,
            failure: Some(operation_failure(&operation, scheduled_id, cause)),
            request_id: operation.request_id,
        });
        self.buffer_event(env, attributes);
        self.ensure_task(env);
    }

    /// The handler's run has ended. A completion that comes twice finds no operation.
    pub(crate) fn complete_operation(&mut self, env: &Env<'_>, completion: Completion) -> Result<(), ServiceError> {
        self.must_run()?;
        let id = completion.scheduled_id;
        let operation = self.state.nexus_operations.get(&id);
        let Some(operation) = operation.filter(|operation| operation.request_id == completion.request_id) else {
            return Err(ServiceError::not_found("operation not found"));
        };
        if !operation.is_started() {
            // The run has ended before its handler has answered the request.
            let started = completion.started - completion.started.rem_euclid(SECOND);
            self.operation_started(env, id, started, "", vec![completion.link]);
        }
        self.end_operation(env, id, completion.outcome, Vec::new());
        Ok(())
    }

    fn take_operation(&mut self, scheduled_id: i64) -> Option<NexusOperation> {
        let taken = self.state.nexus_operations.remove(&scheduled_id);
        if taken.is_some() {
            self.touch();
        }
        taken
    }
}

/// What an operation without a result has as its result.
fn nothing() -> Payload {
    Payload { metadata: [("encoding".to_owned(), b"binary/null".to_vec())].into(), ..Payload::default() }
}

fn failure(message: &str, info: FailureInfo) -> Failure {
    Failure { message: message.to_owned(), failure_info: Some(info), ..Failure::default() }
}

fn operation_failure(operation: &NexusOperation, scheduled_event_id: i64, cause: Failure) -> Failure {
    let info = NexusOperationFailureInfo {
        scheduled_event_id,
        endpoint: operation.endpoint.clone(),
        service: operation.service.clone(),
        operation: operation.operation.clone(),
        operation_id: operation.token.clone(),
        operation_token: operation.token.clone(),
    };
    Failure {
        message: "nexus operation completed unsuccessfully".to_owned(),
        failure_info: Some(FailureInfo::NexusOperationExecutionFailureInfo(info)),
        cause: Some(Box::new(cause)),
        ..Failure::default()
    }
}
