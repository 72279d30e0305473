//! The worker's commands and messages for each action.

use prost_wkt_types::{Any, Duration};
use temporalio_protos::temporal::api::{
    command::v1::{
        CancelTimerCommandAttributes, CancelWorkflowExecutionCommandAttributes, Command,
        CompleteWorkflowExecutionCommandAttributes, ContinueAsNewWorkflowExecutionCommandAttributes,
        FailWorkflowExecutionCommandAttributes, ModifyWorkflowPropertiesCommandAttributes,
        ProtocolMessageCommandAttributes, RecordMarkerCommandAttributes, RequestCancelActivityTaskCommandAttributes,
        RequestCancelExternalWorkflowExecutionCommandAttributes, RequestCancelNexusOperationCommandAttributes,
        ScheduleActivityTaskCommandAttributes, ScheduleNexusOperationCommandAttributes,
        SignalExternalWorkflowExecutionCommandAttributes, StartChildWorkflowExecutionCommandAttributes,
        StartTimerCommandAttributes, UpsertWorkflowSearchAttributesCommandAttributes, command::Attributes,
    },
    common::v1::{
        ActivityType, Memo, Payload, Payloads, RetryPolicy, SearchAttributes, WorkflowExecution, WorkflowType,
    },
    enums::v1::CommandType,
    failure::v1::Failure,
    history::v1::history_event::Attributes as Event,
    protocol::v1::Message,
    sdk::v1::UserMetadata,
    taskqueue::v1::TaskQueue,
    update::v1::{Acceptance, Meta, Outcome, Rejection, Request, Response, outcome},
};

use super::script::Do;
use crate::run::Run;

pub(super) fn command(run: &Run, what: Do, serial: &mut u64) -> Command {
    *serial += 1;
    let fresh = *serial;
    let (kind, attributes) = match what {
        Do::ScheduleActivity { attempts, eager, heartbeat, whole_seconds } => (
            CommandType::ScheduleActivityTask,
            Attributes::ScheduleActivityTaskCommandAttributes(ScheduleActivityTaskCommandAttributes {
                activity_id: format!("activity {fresh}"),
                activity_type: Some(ActivityType { name: "work".to_owned() }),
                task_queue: queue("activities"),
                start_to_close_timeout: seconds(10),
                schedule_to_close_timeout: seconds(whole_seconds),
                heartbeat_timeout: seconds(i64::from(heartbeat) * 4),
                retry_policy: Some(RetryPolicy { maximum_attempts: attempts, ..RetryPolicy::default() }),
                request_eager_execution: eager,
                ..ScheduleActivityTaskCommandAttributes::default()
            }),
        ),
        Do::CancelActivity(which) => {
            let ids: Vec<i64> = run.state.activities.keys().copied().collect();
            let Some(scheduled_event_id) = pick(which, &ids) else { return command(run, Do::RecordMarker, serial) };
            (
                CommandType::RequestCancelActivityTask,
                Attributes::RequestCancelActivityTaskCommandAttributes(RequestCancelActivityTaskCommandAttributes {
                    scheduled_event_id,
                }),
            )
        }
        Do::StartTimer { seconds: after } => (
            CommandType::StartTimer,
            Attributes::StartTimerCommandAttributes(StartTimerCommandAttributes {
                timer_id: format!("timer {fresh}"),
                start_to_fire_timeout: seconds(after),
            }),
        ),
        Do::CancelTimer(which) => {
            let Some(timer_id) = pick(which, &timers(run)) else { return command(run, Do::RecordMarker, serial) };
            (
                CommandType::CancelTimer,
                Attributes::CancelTimerCommandAttributes(CancelTimerCommandAttributes { timer_id }),
            )
        }
        Do::RecordMarker => (
            CommandType::RecordMarker,
            Attributes::RecordMarkerCommandAttributes(RecordMarkerCommandAttributes {
                marker_name: "marker".to_owned(),
                ..RecordMarkerCommandAttributes::default()
            }),
        ),
        Do::StartChild { policy } => (
            CommandType::StartChildWorkflowExecution,
            Attributes::StartChildWorkflowExecutionCommandAttributes(StartChildWorkflowExecutionCommandAttributes {
                workflow_id: format!("child {fresh}"),
                workflow_type: Some(WorkflowType { name: "kid".to_owned() }),
                parent_close_policy: policy,
                ..StartChildWorkflowExecutionCommandAttributes::default()
            }),
        ),
        Do::ScheduleOperation { whole_seconds, run_seconds } => (
            CommandType::ScheduleNexusOperation,
            Attributes::ScheduleNexusOperationCommandAttributes(ScheduleNexusOperationCommandAttributes {
                endpoint: "endpoint".to_owned(),
                service: "service".to_owned(),
                operation: "operation".to_owned(),
                schedule_to_close_timeout: seconds(whole_seconds),
                start_to_close_timeout: seconds(run_seconds),
                ..ScheduleNexusOperationCommandAttributes::default()
            }),
        ),
        Do::CancelOperation(which) => {
            let operations = run.state.nexus_operations.iter();
            let ids: Vec<i64> =
                operations.filter(|(_, operation)| operation.cancellation.is_none()).map(|(id, _)| *id).collect();
            let Some(scheduled_event_id) = pick(which, &ids) else { return command(run, Do::RecordMarker, serial) };
            (
                CommandType::RequestCancelNexusOperation,
                Attributes::RequestCancelNexusOperationCommandAttributes(
                    RequestCancelNexusOperationCommandAttributes { scheduled_event_id },
                ),
            )
        }
        Do::SignalOther => (
            CommandType::SignalExternalWorkflowExecution,
            Attributes::SignalExternalWorkflowExecutionCommandAttributes(
                SignalExternalWorkflowExecutionCommandAttributes {
                    execution: Some(WorkflowExecution {
                        workflow_id: "other".to_owned(),
                        ..WorkflowExecution::default()
                    }),
                    signal_name: "hello".to_owned(),
                    ..SignalExternalWorkflowExecutionCommandAttributes::default()
                },
            ),
        ),
        Do::CancelOther => (
            CommandType::RequestCancelExternalWorkflowExecution,
            Attributes::RequestCancelExternalWorkflowExecutionCommandAttributes(
                RequestCancelExternalWorkflowExecutionCommandAttributes {
                    workflow_id: "other".to_owned(),
                    ..RequestCancelExternalWorkflowExecutionCommandAttributes::default()
                },
            ),
        ),
        Do::Attribute { key, nothing } => (
            CommandType::UpsertWorkflowSearchAttributes,
            Attributes::UpsertWorkflowSearchAttributesCommandAttributes(
                UpsertWorkflowSearchAttributesCommandAttributes {
                    search_attributes: Some(SearchAttributes {
                        indexed_fields: [(format!("key {key}"), value(nothing, fresh))].into(),
                    }),
                },
            ),
        ),
        Do::Memo { key, nothing } => (
            CommandType::ModifyWorkflowProperties,
            Attributes::ModifyWorkflowPropertiesCommandAttributes(ModifyWorkflowPropertiesCommandAttributes {
                upserted_memo: Some(Memo { fields: [(format!("key {key}"), value(nothing, fresh))].into() }),
            }),
        ),
        Do::Complete => (
            CommandType::CompleteWorkflowExecution,
            Attributes::CompleteWorkflowExecutionCommandAttributes(
                CompleteWorkflowExecutionCommandAttributes::default(),
            ),
        ),
        Do::Fail => (
            CommandType::FailWorkflowExecution,
            Attributes::FailWorkflowExecutionCommandAttributes(FailWorkflowExecutionCommandAttributes {
                failure: Some(Failure { message: "failed".to_owned(), ..Failure::default() }),
            }),
        ),
        Do::Cancel => (
            CommandType::CancelWorkflowExecution,
            Attributes::CancelWorkflowExecutionCommandAttributes(CancelWorkflowExecutionCommandAttributes::default()),
        ),
        Do::ContinueAsNew { delay_seconds } => (
            CommandType::ContinueAsNewWorkflowExecution,
            Attributes::ContinueAsNewWorkflowExecutionCommandAttributes(
                ContinueAsNewWorkflowExecutionCommandAttributes {
                    backoff_start_interval: seconds(delay_seconds),
                    ..ContinueAsNewWorkflowExecutionCommandAttributes::default()
                },
            ),
        ),
        Do::Nonsense => {
            (CommandType::StartTimer, Attributes::StartTimerCommandAttributes(StartTimerCommandAttributes::default()))
        }
    };
    Command { command_type: kind as i32, attributes: Some(attributes), ..Command::default() }
}

fn pick<T: Clone>(which: usize, all: &[T]) -> Option<T> {
    all.get(which % all.len().max(1)).cloned()
}

/// Timers that are pending, or have fired without the worker knowing.
fn timers(run: &Run) -> Vec<String> {
    let fired = run.state.buffered.iter().filter_map(|event| match &event.attributes {
        Some(Event::TimerFiredEventAttributes(fired)) => Some(fired.timer_id.clone()),
        _ => None,
    });
    run.state.timers.keys().cloned().chain(fired).collect()
}

pub(super) fn metadata() -> UserMetadata {
    UserMetadata { summary: Some(value(false, 1)), ..UserMetadata::default() }
}

pub(super) fn say(message: &Message) -> Command {
    Command {
        command_type: CommandType::ProtocolMessage as i32,
        attributes: Some(Attributes::ProtocolMessageCommandAttributes(ProtocolMessageCommandAttributes {
            message_id: message.id.clone(),
        })),
        ..Command::default()
    }
}

pub(super) fn accept(update_id: &str, sequencing_id: i64) -> Message {
    let acceptance = Acceptance {
        accepted_request_sequencing_event_id: sequencing_id,
        accepted_request: Some(request(update_id)),
        ..Acceptance::default()
    };
    message(update_id, "Acceptance", &acceptance)
}

pub(super) fn reject(update_id: &str) -> Message {
    let rejection = Rejection {
        rejected_request: Some(request(update_id)),
        failure: Some(Failure { message: "no".to_owned(), ..Failure::default() }),
        ..Rejection::default()
    };
    message(update_id, "Rejection", &rejection)
}

pub(super) fn answer(update_id: &str) -> Message {
    let response = Response {
        meta: Some(Meta { update_id: update_id.to_owned(), ..Meta::default() }),
        outcome: Some(Outcome { value: Some(outcome::Value::Success(Payloads::default())) }),
    };
    message(update_id, "Response", &response)
}

pub(super) fn request(update_id: &str) -> Request {
    Request { meta: Some(Meta { update_id: update_id.to_owned(), ..Meta::default() }), ..Request::default() }
}

fn message(update_id: &str, kind: &str, body: &impl prost::Message) -> Message {
    Message {
        id: format!("{update_id}/{kind}"),
        protocol_instance_id: update_id.to_owned(),
        body: Some(Any {
            type_url: format!("type.googleapis.com/temporal.api.update.v1.{kind}"),
            value: body.encode_to_vec(),
        }),
        ..Message::default()
    }
}

fn value(nothing: bool, serial: u64) -> Payload {
    let data = if nothing { "null".to_owned() } else { serial.to_string() };
    Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: data.into_bytes(),
        ..Payload::default()
    }
}

pub(super) fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

fn queue(name: &str) -> Option<TaskQueue> {
    Some(TaskQueue { name: name.to_owned(), ..TaskQueue::default() })
}
