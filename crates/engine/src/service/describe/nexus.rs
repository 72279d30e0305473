//! Nexus operations and completion callbacks in descriptions.

use temporalio_protos::temporal::api::{
    enums::v1::PendingNexusOperationState as State,
    workflow::v1::{
        CallbackInfo, NexusOperationCancellationInfo, PendingNexusOperationInfo,
        callback_info::{Trigger, WorkflowClosed, trigger},
    },
};

use crate::{
    run::{
        callbacks::Callback,
        nexus::{Cancellation, NexusOperation, Request},
    },
    time::{Nanos, duration, optional_timestamp, timestamp},
};

#[allow(deprecated, reason = "tools still read the older name of tokens")]
pub(super) fn pending_operation(scheduled_event_id: i64, operation: &NexusOperation) -> PendingNexusOperationInfo {
    let Request { attempt, last_attempt_time, last_failure, backing_off, due, .. } = &operation.start;
    let state = match (operation.is_started(), backing_off) {
        (true, _) => State::Started,
        (false, true) => State::BackingOff,
        (false, false) => State::Scheduled,
    };
    let timeout = |span: Nanos| (span > 0).then(|| duration(span));
    PendingNexusOperationInfo {
        endpoint: operation.endpoint.clone(),
        service: operation.service.clone(),
        operation: operation.operation.clone(),
        operation_id: operation.token.clone(),
        operation_token: operation.token.clone(),
        scheduled_event_id,
        scheduled_time: Some(timestamp(operation.scheduled_time)),
        schedule_to_close_timeout: timeout(operation.schedule_to_close),
        schedule_to_start_timeout: timeout(operation.schedule_to_start),
        start_to_close_timeout: timeout(operation.start_to_close),
        state: state as i32,
        attempt: *attempt,
        last_attempt_complete_time: optional_timestamp(*last_attempt_time),
        last_attempt_failure: last_failure.clone(),
        next_attempt_schedule_time: backing_off.then(|| timestamp(*due)),
        cancellation_info: operation.cancellation.as_ref().map(cancellation),
        ..PendingNexusOperationInfo::default()
    }
}

fn cancellation(cancellation: &Cancellation) -> NexusOperationCancellationInfo {
    let Request { attempt, last_attempt_time, last_failure, backing_off, due, .. } = &cancellation.request;
    NexusOperationCancellationInfo {
        requested_time: optional_timestamp(cancellation.requested_time),
        state: cancellation.state,
        attempt: *attempt,
        last_attempt_complete_time: optional_timestamp(*last_attempt_time),
        last_attempt_failure: last_failure.clone(),
        next_attempt_schedule_time: backing_off.then(|| timestamp(*due)),
        ..NexusOperationCancellationInfo::default()
    }
}

pub(super) fn callback_info(callback: &Callback) -> CallbackInfo {
    CallbackInfo {
        callback: callback.target.clone(),
        trigger: Some(Trigger { variant: Some(trigger::Variant::WorkflowClosed(WorkflowClosed {})) }),
        registration_time: Some(timestamp(callback.registered)),
        state: callback.state,
        attempt: callback.attempt,
        last_attempt_complete_time: optional_timestamp(callback.last_attempt_time),
        last_attempt_failure: callback.last_failure.clone(),
        ..CallbackInfo::default()
    }
}
