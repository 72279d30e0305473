//! Applies the commands of a completed workflow task.
//!
//! An invalid command fails the whole task, and none of its commands is applied. The error texts are the real server's,
//! because workers and people know them.

mod activities;
mod close;
mod external;
mod nexus;
mod properties;

use std::collections::BTreeSet;

use temporalio_protos::temporal::api::{
    command::v1::{Command, command::Attributes as Decision},
    enums::v1::{CommandType, WorkflowTaskFailedCause},
    history::v1::WorkflowExecutionStartedEventAttributes,
    protocol::v1::Message,
};

pub(crate) use self::activities::text;
pub(super) use self::activities::{activity_timeouts, user_queue};
use self::close::may_end;
pub(crate) use self::properties::{memo_without_empty_values, without_empty_values};
pub(super) use self::properties::{merge_attributes, merge_memo};
use super::{Env, Run, StartedActivity};
use crate::service_error::ServiceError;

/// Why a completion is rejected.
#[derive(Debug)]
pub(super) enum Rejected {
    /// The request is invalid; nothing changes.
    Request(ServiceError),
    /// A command is invalid; the task fails.
    Task { cause: WorkflowTaskFailedCause, detail: Option<String>, terminate: bool },
}

impl Rejected {
    fn task(cause: WorkflowTaskFailedCause, detail: impl Into<String>) -> Self {
        Self::Task { cause, detail: Some(detail.into()), terminate: false }
    }

    /// The run is terminated, too.
    fn fatal(cause: WorkflowTaskFailedCause, detail: impl Into<String>) -> Self {
        Self::Task { cause, detail: Some(detail.into()), terminate: true }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::Request(error) => error.to_string(),
            Self::Task { cause, detail: None, .. } => cause_name(*cause),
            Self::Task { cause, detail: Some(detail), .. } => format!("{}: {detail}", cause_name(*cause)),
        }
    }
}

/// `WORKFLOW_TASK_FAILED_CAUSE_BAD_BINARY` as `BadBinary`.
pub(super) fn cause_name(cause: WorkflowTaskFailedCause) -> String {
    let name = cause.as_str_name();
    camel_case(name.strip_prefix("WORKFLOW_TASK_FAILED_CAUSE_").unwrap_or(name))
}

fn camel_case(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            [first.to_owned(), rest.to_ascii_lowercase()]
        })
        .collect()
}

/// The result of the commands.
#[derive(Debug, Default)]
pub(super) struct Decided {
    pub(super) eager: Vec<StartedActivity>,
    /// There are events that the worker has not seen.
    pub(super) has_new_events: bool,
}

/// State shared by the commands of one task.
struct Batch<'a> {
    completed_id: i64,
    identity: &'a str,
    has_new_events: bool,
    cancelled_unstarted: bool,
    /// Activities to start eagerly for this worker.
    eager: Vec<i64>,
    /// Children started by the same task.
    children: BTreeSet<String>,
    messages: Vec<Message>,
    /// Ids of messages that a command referred to. Each may be referred to once.
    said: BTreeSet<String>,
}

type Beginning<'a> = &'a mut dyn FnMut() -> Option<WorkflowExecutionStartedEventAttributes>;

impl Run {
    pub(super) fn apply_commands(
        &mut self,
        env: &Env<'_>,
        completed_id: i64,
        commands: Vec<Command>,
        messages: Vec<Message>,
        identity: &str,
        beginning: Beginning<'_>,
    ) -> Result<Decided, Rejected> {
        check_sequence(&commands)?;
        let mut batch = Batch {
            completed_id,
            identity,
            has_new_events: !self.state.buffered.is_empty(),
            cancelled_unstarted: false,
            eager: Vec::new(),
            children: BTreeSet::new(),
            messages,
            said: BTreeSet::new(),
        };
        for command in commands {
            let written = self.changes.events.len();
            let (metadata, markers) = (command.user_metadata, command.event_group_markers);
            let Some(decision) = command.attributes else {
                let kind = CommandType::try_from(command.command_type).unwrap_or_default();
                if closes(kind) {
                    may_end(&batch)?;
                }
                return Err(missing_attributes(kind));
            };
            self.decide(env, &mut batch, decision, metadata.clone(), &mut *beginning)?;
            if metadata.is_some() || !markers.is_empty() {
                self.amend(written, |event| {
                    event.user_metadata = metadata;
                    event.event_group_markers = markers;
                });
            }
        }
        for message in std::mem::take(&mut batch.messages) {
            self.apply_message(env, &message)?;
        }
        let mut decided =
            Decided { has_new_events: batch.has_new_events || batch.cancelled_unstarted, ..Decided::default() };
        for scheduled_id in batch.eager {
            let request_id = (env.new_id)();
            let version = self.state.version();
            let started = self.start_activity(env, scheduled_id, (1, 0), identity, &request_id, version.as_ref());
            decided.eager.extend(started);
        }
        Ok(decided)
    }

    fn decide(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        decision: Decision,
        metadata: Option<temporalio_protos::temporal::api::sdk::v1::UserMetadata>,
        beginning: Beginning<'_>,
    ) -> Result<(), Rejected> {
        match decision {
            Decision::ScheduleActivityTaskCommandAttributes(it) => self.schedule_activity(env, batch, it),
            Decision::RequestCancelActivityTaskCommandAttributes(it) => self.request_cancel_activity(env, batch, it),
            Decision::StartTimerCommandAttributes(it) => self.start_timer(env, batch, it),
            Decision::CancelTimerCommandAttributes(it) => self.cancel_timer(env, batch, it),
            Decision::RecordMarkerCommandAttributes(it) => self.record_marker(env, batch, it),
            Decision::StartChildWorkflowExecutionCommandAttributes(it) => self.start_child(env, batch, it, metadata),
            Decision::SignalExternalWorkflowExecutionCommandAttributes(it) => self.signal_external(env, batch, it),
            Decision::RequestCancelExternalWorkflowExecutionCommandAttributes(it) => {
                self.request_cancel_external(env, batch, it)
            }
            Decision::UpsertWorkflowSearchAttributesCommandAttributes(it) => self.upsert_attributes(env, batch, it),
            Decision::ModifyWorkflowPropertiesCommandAttributes(it) => self.modify_memo(env, batch, it),
            Decision::ProtocolMessageCommandAttributes(it) => self.apply_message_command(env, batch, &it.message_id),
            Decision::CompleteWorkflowExecutionCommandAttributes(it) => self.complete_run(env, batch, it, beginning),
            Decision::FailWorkflowExecutionCommandAttributes(it) => self.fail_run(env, batch, it, beginning),
            Decision::CancelWorkflowExecutionCommandAttributes(it) => self.cancel_run(env, batch, it),
            Decision::ContinueAsNewWorkflowExecutionCommandAttributes(it) => self.continue_as_new(env, batch, it),
            Decision::ScheduleNexusOperationCommandAttributes(it) => self.schedule_nexus_operation(env, batch, it),
            Decision::RequestCancelNexusOperationCommandAttributes(it) => {
                self.request_cancel_nexus_operation(env, batch, it)
            }
        }
    }

    /// Applies a protocol message at the position of its command.
    fn apply_message_command(&mut self, env: &Env<'_>, batch: &mut Batch<'_>, id: &str) -> Result<(), Rejected> {
        const CAUSE: WorkflowTaskFailedCause = WorkflowTaskFailedCause::BadUpdateWorkflowExecutionMessage;
        if id.is_empty() {
            return Err(Rejected::task(CAUSE, "MessageID is not set on ProtocolMessageCommand."));
        }
        match batch.messages.iter().position(|message| message.id == id) {
            Some(index) if batch.said.insert(id.to_owned()) => {
                let message = batch.messages.remove(index);
                self.apply_message(env, &message)
            }
            _ => Err(Rejected::task(CAUSE, format!("ProtocolMessageCommand referenced absent message ID {id}"))),
        }
    }

    fn apply_message(&mut self, env: &Env<'_>, message: &Message) -> Result<(), Rejected> {
        self.update_message(env, message)
            .map_err(|bad| Rejected::task(WorkflowTaskFailedCause::BadUpdateWorkflowExecutionMessage, bad.0))
    }
}

fn closes(kind: CommandType) -> bool {
    matches!(
        kind,
        CommandType::ContinueAsNewWorkflowExecution
            | CommandType::CompleteWorkflowExecution
            | CommandType::FailWorkflowExecution
            | CommandType::CancelWorkflowExecution
    )
}

/// A command that closes the run must be the last.
fn check_sequence(commands: &[Command]) -> Result<(), Rejected> {
    let refuse = |message: String| Err(Rejected::Request(ServiceError::InvalidArgument(message)));
    let name = |command: &Command| {
        let kind = CommandType::try_from(command.command_type).unwrap_or_default();
        camel_case(kind.as_str_name().strip_prefix("COMMAND_TYPE_").unwrap_or_default())
    };
    let mut ending = None;
    for command in commands {
        if let Some(ending) = ending {
            let all: Vec<String> = commands.iter().map(name).collect();
            return refuse(format!(
                "invalid command sequence: [{}], command {} must be the last command.",
                all.join(", "),
                name(ending)
            ));
        }
        match CommandType::try_from(command.command_type) {
            Ok(kind) if closes(kind) => ending = Some(command),
            Ok(CommandType::Unspecified) | Err(_) => return refuse(format!("unknown command type: {}", name(command))),
            Ok(_) => {}
        }
    }
    Ok(())
}

fn missing_attributes(kind: CommandType) -> Rejected {
    use CommandType as K;
    use WorkflowTaskFailedCause as C;
    let (cause, name) = match kind {
        K::ScheduleActivityTask => (C::BadScheduleActivityAttributes, "ScheduleActivityTask"),
        K::RequestCancelActivityTask => (C::BadRequestCancelActivityAttributes, "RequestCancelActivityTask"),
        K::StartTimer => (C::BadStartTimerAttributes, "StartTimer"),
        K::CancelTimer => (C::BadCancelTimerAttributes, "CancelTimer"),
        K::RecordMarker => (C::BadRecordMarkerAttributes, "RecordMarker"),
        K::CompleteWorkflowExecution => (C::BadCompleteWorkflowExecutionAttributes, "CompleteWorkflowExecution"),
        K::FailWorkflowExecution => (C::BadFailWorkflowExecutionAttributes, "FailWorkflowExecution"),
        K::CancelWorkflowExecution => (C::BadCancelWorkflowExecutionAttributes, "CancelWorkflowExecution"),
        K::ContinueAsNewWorkflowExecution => (C::BadContinueAsNewAttributes, "ContinueAsNewWorkflowExecution"),
        K::StartChildWorkflowExecution => (C::BadStartChildExecutionAttributes, "StartChildWorkflowExecution"),
        K::SignalExternalWorkflowExecution => {
            (C::BadSignalWorkflowExecutionAttributes, "SignalExternalWorkflowExecution")
        }
        K::RequestCancelExternalWorkflowExecution => {
            (C::BadRequestCancelExternalWorkflowExecutionAttributes, "RequestCancelExternalWorkflowExecution")
        }
        K::UpsertWorkflowSearchAttributes => (C::BadSearchAttributes, "UpsertWorkflowSearchAttributes"),
        K::ModifyWorkflowProperties => (C::BadModifyWorkflowPropertiesAttributes, "ModifyWorkflowProperties"),
        K::ProtocolMessage => (C::BadUpdateWorkflowExecutionMessage, "ProtocolMessage"),
        K::ScheduleNexusOperation => {
            let detail = "empty ScheduleNexusOperationCommandAttributes";
            return Rejected::task(C::BadScheduleNexusOperationAttributes, detail);
        }
        K::RequestCancelNexusOperation => {
            let detail = "empty CancelNexusOperationCommandAttributes";
            return Rejected::task(C::BadRequestCancelNexusOperationAttributes, detail);
        }
        _ => return Rejected::Request(ServiceError::invalid("unknown command type: Unspecified")),
    };
    Rejected::task(cause, format!("{name}CommandAttributes is not set on {name}Command."))
}
