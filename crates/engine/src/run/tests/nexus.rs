//! Answers of handlers of Nexus operations.

use temporalio_protos::temporal::api::{
    common::v1::Link,
    enums::v1::NexusHandlerErrorRetryBehavior as Retry,
    failure::v1::{CanceledFailureInfo, Failure, NexusHandlerFailureInfo, failure::FailureInfo},
    nexus::v1::{
        Response, StartOperationResponse, response,
        start_operation_response::{Async, Variant},
    },
};

use super::{script::NexusAnswer, world::World};
use crate::run::nexus::{Answer, Completion, NexusKey, Outcome};

impl World {
    pub(super) fn answer_nexus(&mut self, which: usize, answer: NexusAnswer) {
        if matches!(answer, NexusAnswer::EndOfRun) {
            return self.end_operation(which);
        }
        let waiting: Vec<NexusKey> = self.run.waiting_nexus_requests().collect();
        let Some(key) = waiting.get(which % waiting.len().max(1)).copied() else { return };
        self.act(|run, env| run.give_nexus_request(env, key));
        if self.run.waiting_nexus_requests().any(|again| again == key) {
            self.broken = Some("a request is given to two workers".to_owned());
        }
        let answer = match answer {
            NexusAnswer::Done => success(Variant::SyncSuccess(Default::default()), key),
            NexusAnswer::Started => {
                let started = Async { operation_token: "token".to_owned(), ..Async::default() };
                success(Variant::AsyncSuccess(started), key)
            }
            NexusAnswer::Failed | NexusAnswer::EndOfRun => success(Variant::Failure(Failure::default()), key),
            NexusAnswer::Cancelled => {
                let info = Some(FailureInfo::CanceledFailureInfo(CanceledFailureInfo::default()));
                success(Variant::Failure(Failure { failure_info: info, ..Failure::default() }), key)
            }
            NexusAnswer::HandlerError { retryable } => {
                let retry_behavior = if retryable { Retry::Retryable } else { Retry::NonRetryable } as i32;
                let info = NexusHandlerFailureInfo { r#type: "INTERNAL".to_owned(), retry_behavior };
                let failure_info = Some(FailureInfo::NexusHandlerFailureInfo(info));
                Answer::of_failed(None, Some(Failure { failure_info, ..Failure::default() }), key.cancel)
            }
        };
        let taken = self.attempt(|run, env| run.answer_nexus_request(env, key, answer.clone()));
        if taken.is_some() && self.attempt(|run, env| run.answer_nexus_request(env, key, answer)).is_some() {
            self.broken = Some("a request was answered twice".to_owned());
        }
    }

    fn end_operation(&mut self, which: usize) {
        let operations: Vec<_> = self.run.state.nexus_operations.iter().collect();
        let Some((scheduled_id, operation)) = operations.get(which % operations.len().max(1)) else { return };
        let completion = Completion {
            scheduled_id: **scheduled_id,
            request_id: operation.request_id.clone(),
            started: self.now,
            link: Link::default(),
            outcome: Outcome::Succeeded(None),
        };
        let ended = self.attempt(|run, env| run.complete_operation(env, completion.clone()));
        if ended.is_some() && self.attempt(|run, env| run.complete_operation(env, completion)).is_some() {
            self.broken = Some("an operation has ended twice".to_owned());
        }
    }
}

fn success(variant: Variant, key: NexusKey) -> Answer {
    let started = StartOperationResponse { variant: Some(variant) };
    let response = Response { variant: Some(response::Variant::StartOperation(started)) };
    Answer::of(Some(response), key.cancel)
}
