//! Commands that schedule Nexus operations and request their cancellation.

use std::collections::HashMap;

use prost::Message as _;
use temporalio_protos::temporal::api::{
    command::v1::{RequestCancelNexusOperationCommandAttributes, ScheduleNexusOperationCommandAttributes},
    enums::v1::WorkflowTaskFailedCause as Cause,
    history::v1::{
        HistoryEvent, NexusOperationCancelRequestedEventAttributes, NexusOperationScheduledEventAttributes,
        history_event::Attributes,
    },
};

use super::{Batch, Rejected};
use crate::{
    run::{Env, Run, nexus::NexusOperation},
    time::{check_span, span},
};

const NAME_LENGTH: usize = 1000;
const HEADER_BYTES: usize = 8192;
/// Headers that the server sets itself.
const RESERVED_HEADERS: [&str; 9] = [
    "request-timeout",
    "xdc-redirection-api",
    "xdc-redirection",
    "xdc-redirection-source-cell",
    "caller-name",
    "caller-type",
    "call-initiation",
    "temporal-principal-type",
    "temporal-principal-name",
];

impl Run {
    pub(super) fn schedule_nexus_operation(
        &mut self,
        env: &Env<'_>,
        batch: &Batch<'_>,
        mut command: ScheduleNexusOperationCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadScheduleNexusOperationAttributes;
        let bad = |detail: String| Rejected::task(CAUSE, detail);
        let Some(endpoint) = (env.nexus_endpoint)("", &command.endpoint) else {
            return Err(bad(format!("endpoint {:?} not found", command.endpoint)));
        };
        for (name, value) in [("Service", &command.service), ("Operation", &command.operation)] {
            if value.len() > NAME_LENGTH {
                return Err(bad(format!(
                    "ScheduleNexusOperationCommandAttributes.{name} exceeds length limit of {NAME_LENGTH}"
                )));
            }
        }
        let timeouts = [
            ("ScheduleToCloseTimeout", &mut command.schedule_to_close_timeout),
            ("ScheduleToStartTimeout", &mut command.schedule_to_start_timeout),
            ("StartToCloseTimeout", &mut command.start_to_close_timeout),
        ];
        for (name, timeout) in timeouts {
            check_span(timeout).map_err(|problem| {
                bad(format!("ScheduleNexusOperationCommandAttributes.{name} is invalid: {problem}"))
            })?;
        }
        if command.input.as_ref().is_some_and(|input| input.encoded_len() > env.limits.blob_bytes) {
            let detail = "ScheduleNexusOperationCommandAttributes.Input exceeds size limit";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        let nexus_header = header(command.nexus_header).map_err(bad)?;
        let (pending, limit) = (self.state.nexus_operations.len(), env.limits.pending_nexus_operations);
        if pending >= limit {
            let detail =
                format!("workflow has reached the pending nexus operation limit of {limit} for this namespace");
            return Err(Rejected::task(Cause::PendingNexusOperationsLimitExceeded, detail));
        }
        let run_timeout = span(self.state.run_timeout.as_ref());
        let to_close = span(command.schedule_to_close_timeout.as_ref());
        if run_timeout > 0 && (to_close == 0 || to_close > run_timeout) {
            command.schedule_to_close_timeout = self.state.run_timeout;
        }
        let whole = command.schedule_to_close_timeout;
        for part in [&mut command.schedule_to_start_timeout, &mut command.start_to_close_timeout] {
            if span(whole.as_ref()) > 0 && span(part.as_ref()) > span(whole.as_ref()) {
                *part = whole;
            }
        }
        let attributes = NexusOperationScheduledEventAttributes {
            endpoint: command.endpoint,
            service: command.service,
            operation: command.operation,
            input: command.input,
            schedule_to_close_timeout: command.schedule_to_close_timeout,
            schedule_to_start_timeout: command.schedule_to_start_timeout,
            start_to_close_timeout: command.start_to_close_timeout,
            nexus_header,
            workflow_task_completed_event_id: batch.completed_id,
            request_id: (env.new_id)(),
            endpoint_id: endpoint.id,
        };
        let operation = NexusOperation::scheduled(env.now, &attributes);
        let scheduled_id = self.write(env, Attributes::NexusOperationScheduledEventAttributes(attributes));
        self.state.nexus_operations.insert(scheduled_id, operation);
        self.start_nexus_operation(env, scheduled_id);
        Ok(())
    }

    pub(super) fn request_cancel_nexus_operation(
        &mut self,
        env: &Env<'_>,
        batch: &Batch<'_>,
        command: RequestCancelNexusOperationCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadRequestCancelNexusOperationAttributes;
        let id = command.scheduled_event_id;
        let operation = self.state.nexus_operations.get(&id);
        // A worker cannot know of an end that is still buffered, so it may request the cancellation all the same.
        if operation.is_none() && !self.state.buffered.iter().any(|event| ended_operation(event) == Some(id)) {
            return Err(Rejected::task(
                CAUSE,
                format!(
                    "requested cancelation for a non-existing or already completed operation with scheduled event ID \
                     of {id}"
                ),
            ));
        }
        if operation.is_some_and(|operation| operation.cancellation.is_some()) {
            return Err(Rejected::task(
                CAUSE,
                format!("cancelation was already requested for an operation with scheduled event ID {id}"),
            ));
        }
        let attributes = NexusOperationCancelRequestedEventAttributes {
            scheduled_event_id: id,
            workflow_task_completed_event_id: batch.completed_id,
        };
        let requested_id = self.write(env, Attributes::NexusOperationCancelRequestedEventAttributes(attributes));
        if let Some(operation) = self.state.nexus_operations.get_mut(&id) {
            operation.request_cancel(env.now, requested_id);
            self.cancel_nexus_operation(env, id);
        }
        Ok(())
    }
}

/// Header names are stored in lower case.
fn header(given: HashMap<String, String>) -> Result<HashMap<String, String>, String> {
    let mut length = 0;
    let mut header = HashMap::with_capacity(given.len());
    for (name, value) in given {
        let lower = name.to_lowercase();
        if RESERVED_HEADERS.contains(&lower.as_str()) {
            return Err(format!(
                "ScheduleNexusOperationCommandAttributes.NexusHeader contains a disallowed header key: {name:?}"
            ));
        }
        length += lower.len() + value.len();
        header.insert(lower, value);
    }
    if length > HEADER_BYTES {
        return Err("ScheduleNexusOperationCommandAttributes.NexusHeader exceeds size limit".to_owned());
    }
    Ok(header)
}

/// The operation that an event ends.
fn ended_operation(event: &HistoryEvent) -> Option<i64> {
    match event.attributes.as_ref()? {
        Attributes::NexusOperationCompletedEventAttributes(it) => Some(it.scheduled_event_id),
        Attributes::NexusOperationFailedEventAttributes(it) => Some(it.scheduled_event_id),
        Attributes::NexusOperationCanceledEventAttributes(it) => Some(it.scheduled_event_id),
        Attributes::NexusOperationTimedOutEventAttributes(it) => Some(it.scheduled_event_id),
        _ => None,
    }
}
