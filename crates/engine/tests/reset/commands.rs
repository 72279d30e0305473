//! Commands and messages of the worker.

use prost_wkt_types::{Any, Duration};
use temporalio_protos::temporal::api::{
    command::v1::{
        Command, CompleteWorkflowExecutionCommandAttributes, ContinueAsNewWorkflowExecutionCommandAttributes,
        ProtocolMessageCommandAttributes, ScheduleActivityTaskCommandAttributes,
        StartChildWorkflowExecutionCommandAttributes, StartTimerCommandAttributes, command::Attributes,
    },
    common::v1::{ActivityType, WorkflowType},
    enums::v1::CommandType,
    protocol::v1::Message,
    update::v1::{Acceptance, Request},
};

use crate::client::queue;

fn command(kind: CommandType, attributes: Attributes) -> Command {
    Command { command_type: kind as i32, attributes: Some(attributes), ..Command::default() }
}

fn hour() -> Option<Duration> {
    Some(Duration { seconds: 3600, nanos: 0 })
}

pub(crate) fn timer(id: &str) -> Command {
    let attributes = StartTimerCommandAttributes { timer_id: id.to_owned(), start_to_fire_timeout: hour() };
    command(CommandType::StartTimer, Attributes::StartTimerCommandAttributes(attributes))
}

pub(crate) fn activity(id: &str) -> Command {
    let attributes = ScheduleActivityTaskCommandAttributes {
        activity_id: id.to_owned(),
        activity_type: Some(ActivityType { name: "work".to_owned() }),
        task_queue: queue("activities"),
        start_to_close_timeout: hour(),
        ..ScheduleActivityTaskCommandAttributes::default()
    };
    command(CommandType::ScheduleActivityTask, Attributes::ScheduleActivityTaskCommandAttributes(attributes))
}

pub(crate) fn child(id: &str) -> Command {
    let attributes = StartChildWorkflowExecutionCommandAttributes {
        workflow_id: id.to_owned(),
        workflow_type: Some(WorkflowType { name: "kid".to_owned() }),
        task_queue: queue("children"),
        ..StartChildWorkflowExecutionCommandAttributes::default()
    };
    let attributes = Attributes::StartChildWorkflowExecutionCommandAttributes(attributes);
    command(CommandType::StartChildWorkflowExecution, attributes)
}

pub(crate) fn complete() -> Command {
    let attributes = CompleteWorkflowExecutionCommandAttributes::default();
    command(CommandType::CompleteWorkflowExecution, Attributes::CompleteWorkflowExecutionCommandAttributes(attributes))
}

pub(crate) fn continue_as_new() -> Command {
    let attributes = ContinueAsNewWorkflowExecutionCommandAttributes::default();
    let attributes = Attributes::ContinueAsNewWorkflowExecutionCommandAttributes(attributes);
    command(CommandType::ContinueAsNewWorkflowExecution, attributes)
}

/// Accepts an update at the position of the command.
pub(crate) fn accept(request: &Request, sequencing_id: i64) -> (Command, Message) {
    let update_id = request.meta.clone().unwrap_or_default().update_id;
    let acceptance = Acceptance {
        accepted_request_message_id: format!("{update_id}/request"),
        accepted_request_sequencing_event_id: sequencing_id,
        accepted_request: Some(request.clone()),
    };
    let message = Message {
        id: format!("{update_id}/accept"),
        protocol_instance_id: update_id,
        body: Some(Any {
            type_url: "type.googleapis.com/temporal.api.update.v1.Acceptance".to_owned(),
            value: prost::Message::encode_to_vec(&acceptance),
        }),
        ..Message::default()
    };
    let attributes = ProtocolMessageCommandAttributes { message_id: message.id.clone() };
    (command(CommandType::ProtocolMessage, Attributes::ProtocolMessageCommandAttributes(attributes)), message)
}
