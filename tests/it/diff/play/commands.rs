//! The commands and messages of a completion, and what they will cause later.

use std::time::Instant;

use prost::{Message as _, Name};
use temporalio_protos::temporal::api::{
    command::v1::{
        CancelTimerCommandAttributes, CancelWorkflowExecutionCommandAttributes, Command, CommandAttributesExt as _,
        CompleteWorkflowExecutionCommandAttributes, ContinueAsNewWorkflowExecutionCommandAttributes,
        FailWorkflowExecutionCommandAttributes, ModifyWorkflowPropertiesCommandAttributes,
        ProtocolMessageCommandAttributes, RecordMarkerCommandAttributes, RequestCancelActivityTaskCommandAttributes,
        RequestCancelExternalWorkflowExecutionCommandAttributes, ScheduleActivityTaskCommandAttributes,
        SignalExternalWorkflowExecutionCommandAttributes, StartChildWorkflowExecutionCommandAttributes,
        StartTimerCommandAttributes, UpsertWorkflowSearchAttributesCommandAttributes, command::Attributes,
    },
    common::v1::Memo,
    enums::v1::{CommandType, ParentClosePolicy, WorkflowIdReusePolicy},
    protocol::v1::Message,
    update::v1::{Acceptance, Outcome, Rejection, Request, Response, outcome},
};

use super::{
    Player,
    clients::metadata,
    names::{
        ACTIVITY_TYPE, ATTRIBUTE, activity_type, attributes, failure, header, memo, null_payload, number_payload,
        payload, payloads, priority, retry, seconds, workflow_type,
    },
    state::{Echo, Task},
};
use crate::diff::{
    peer::NAMESPACE,
    script::{
        ActivityExtra, AttributeChange, Completion, Do, MemoChange, Start, StartExtra, TimerLength, UpdateAnswer, Who,
    },
};

#[expect(deprecated, reason = "workers still name the namespace, and it ends up in the history")]
impl Player {
    /// Acceptances come first, completions of earlier updates last, as a worker would do it.
    pub(super) fn commands(&mut self, who: Who, task: &Task, with: &Completion) -> (Vec<Command>, Vec<Message>) {
        let mut commands = Vec::new();
        let mut messages = Vec::new();
        for request in &task.messages {
            for message in update_answers(request, with.updates) {
                // A rejection leaves no trace in the history, so no command refers to it.
                if with.updates != UpdateAnswer::Reject {
                    commands.push(protocol_message(&message.id));
                }
                messages.push(message);
            }
        }
        let accepted = self.memory.accepted.get(&who).cloned().unwrap_or_default();
        for update in accepted.iter().filter(|_| with.finish_updates) {
            let message = completed(update, None);
            commands.push(protocol_message(&message.id));
            messages.push(message);
        }
        commands.extend(with.commands.iter().map(|command| self.command(who, command)));
        (commands, messages)
    }

    fn command(&mut self, who: Who, command: &Do) -> Command {
        let attributes = match command {
            Do::Schedule { activity, extras } => {
                Attributes::ScheduleActivityTaskCommandAttributes(self.activity(who, *activity, extras))
            }
            Do::CancelActivity(activity) => {
                let scheduled_event_id = self.memory.scheduled.get(&(who, *activity)).copied().unwrap_or(9999);
                RequestCancelActivityTaskCommandAttributes { scheduled_event_id }.into()
            }
            Do::StartTimer { timer, length } => StartTimerCommandAttributes {
                timer_id: timer_id(*timer),
                start_to_fire_timeout: Some(match length {
                    TimerLength::Long => seconds(3600),
                    TimerLength::Short => super::names::millis(50),
                    TimerLength::Zero => seconds(0),
                    TimerLength::Negative => seconds(-1),
                }),
            }
            .into(),
            Do::CancelTimer(timer) => CancelTimerCommandAttributes { timer_id: timer_id(*timer) }.into(),
            Do::Marker { named } => RecordMarkerCommandAttributes {
                marker_name: if *named { "marker".to_owned() } else { String::new() },
                details: [("detail".to_owned(), payloads("marked"))].into(),
                header: Some(header()),
                ..Default::default()
            }
            .into(),
            Do::Attributes(change) => upsert(*change).into(),
            Do::Memo(change) => modify(*change).into(),
            Do::StartChild { child, policy, reuse, extras } => {
                Attributes::StartChildWorkflowExecutionCommandAttributes(self.child(*child, *policy, *reuse, extras))
            }
            Do::SignalExternal { target, run, child_only } => SignalExternalWorkflowExecutionCommandAttributes {
                namespace: NAMESPACE.to_owned(),
                execution: Some(self.execution(*target, *run)),
                signal_name: "from outside".to_owned(),
                input: Some(payloads("external")),
                child_workflow_only: *child_only,
                header: Some(header()),
                ..Default::default()
            }
            .into(),
            Do::CancelExternal { target, run, child_only } => RequestCancelExternalWorkflowExecutionCommandAttributes {
                namespace: NAMESPACE.to_owned(),
                workflow_id: self.id(*target),
                run_id: self.run_id(*target, *run),
                child_workflow_only: *child_only,
                reason: "from outside".to_owned(),
                ..Default::default()
            }
            .into(),
            Do::Complete => CompleteWorkflowExecutionCommandAttributes { result: Some(payloads("done")) }.into(),
            Do::Fail { fatal, kind } => {
                FailWorkflowExecutionCommandAttributes { failure: kind.map(|kind| failure(kind, *fatal)) }.into()
            }
            Do::CancelSelf => CancelWorkflowExecutionCommandAttributes { details: Some(payloads("cancelled")) }.into(),
            Do::ContinueAsNew(extras) => {
                Attributes::ContinueAsNewWorkflowExecutionCommandAttributes(self.continuation(who, extras))
            }
            Do::Hollow => {
                return Command { command_type: CommandType::CompleteWorkflowExecution as i32, ..Default::default() };
            }
            Do::AbsentMessage => return protocol_message("absent"),
        };
        let summary = matches!(command, Do::Schedule { extras, .. } if extras.contains(&ActivityExtra::Summary));
        Command { user_metadata: summary.then(metadata), ..command_of(attributes) }
    }

    fn activity(&self, who: Who, activity: u8, extras: &[ActivityExtra]) -> ScheduleActivityTaskCommandAttributes {
        let mut attributes = ScheduleActivityTaskCommandAttributes {
            activity_id: format!("a{activity}"),
            activity_type: Some(activity_type(ACTIVITY_TYPE)),
            task_queue: Some(self.activity_queue(who, activity)),
            schedule_to_close_timeout: Some(seconds(500)),
            schedule_to_start_timeout: Some(seconds(400)),
            start_to_close_timeout: Some(seconds(300)),
            ..Default::default()
        };
        for extra in extras {
            match extra {
                ActivityExtra::Input => attributes.input = Some(payloads("input")),
                ActivityExtra::Header => attributes.header = Some(header()),
                ActivityExtra::NoRetry => attributes.retry_policy = Some(retry(1, &[])),
                ActivityExtra::RetryOnce => attributes.retry_policy = Some(retry(2, &[])),
                ActivityExtra::RetryUnlessFatal => attributes.retry_policy = Some(retry(3, &["Fatal"])),
                ActivityExtra::InvalidRetry => attributes.retry_policy = Some(retry(-1, &[])),
                ActivityExtra::Heartbeat => attributes.heartbeat_timeout = Some(seconds(200)),
                ActivityExtra::Eager => attributes.request_eager_execution = true,
                ActivityExtra::NoType => attributes.activity_type = None,
                ActivityExtra::NoTimeouts => {
                    attributes.schedule_to_close_timeout = None;
                    attributes.start_to_close_timeout = None;
                }
                ActivityExtra::NegativeTimeout => attributes.start_to_close_timeout = Some(seconds(-1)),
                ActivityExtra::OnlyStartToClose => {
                    attributes.schedule_to_close_timeout = None;
                    attributes.schedule_to_start_timeout = None;
                }
                ActivityExtra::Priority => attributes.priority = Some(priority()),
                ActivityExtra::QueueTimeout => attributes.schedule_to_start_timeout = Some(seconds(1)),
                ActivityExtra::RunTimeout => attributes.start_to_close_timeout = Some(seconds(1)),
                ActivityExtra::HeartbeatTimeout => attributes.heartbeat_timeout = Some(seconds(1)),
                ActivityExtra::CloseTimeout => attributes.schedule_to_close_timeout = Some(seconds(1)),
                // Not an attribute but beside them.
                ActivityExtra::Summary => {}
            }
        }
        attributes
    }

    fn child(
        &self,
        child: Who,
        policy: ParentClosePolicy,
        reuse: WorkflowIdReusePolicy,
        extras: &[StartExtra],
    ) -> StartChildWorkflowExecutionCommandAttributes {
        let request = self.start_request(&Start { extras: extras.to_vec(), ..Start::new(child) });
        StartChildWorkflowExecutionCommandAttributes {
            namespace: NAMESPACE.to_owned(),
            workflow_id: request.workflow_id,
            workflow_type: request.workflow_type,
            task_queue: request.task_queue,
            input: request.input,
            workflow_execution_timeout: request.workflow_execution_timeout,
            workflow_run_timeout: request.workflow_run_timeout,
            workflow_task_timeout: request.workflow_task_timeout,
            parent_close_policy: policy as i32,
            workflow_id_reuse_policy: reuse as i32,
            retry_policy: request.retry_policy,
            header: request.header,
            memo: request.memo,
            search_attributes: request.search_attributes,
            priority: request.priority,
            ..Default::default()
        }
    }

    fn continuation(&self, who: Who, extras: &[StartExtra]) -> ContinueAsNewWorkflowExecutionCommandAttributes {
        let request = self.start_request(&Start { extras: extras.to_vec(), ..Start::new(who) });
        ContinueAsNewWorkflowExecutionCommandAttributes {
            workflow_type: request.workflow_type.map(|_| workflow_type("Next")),
            task_queue: request.task_queue,
            input: request.input,
            workflow_run_timeout: request.workflow_run_timeout,
            workflow_task_timeout: request.workflow_task_timeout,
            retry_policy: request.retry_policy,
            header: request.header,
            memo: request.memo,
            search_attributes: request.search_attributes,
            ..Default::default()
        }
    }

    /// What the server will do on its own because of these commands.
    pub(super) fn expect_echoes(&mut self, who: Who, run: String, commands: &[Do]) {
        if commands.iter().any(Do::closes) {
            return;
        }
        for command in commands {
            let run = run.clone();
            let echo = match command {
                Do::SignalExternal { .. } | Do::CancelExternal { .. } => Echo::External { who, run },
                Do::StartTimer { timer, length: TimerLength::Short | TimerLength::Zero } => {
                    Echo::Timer { who, run, timer: timer_id(*timer), since: Instant::now() }
                }
                Do::Schedule { activity, extras } if extras.contains(&ActivityExtra::QueueTimeout) => {
                    Echo::QueueTimeout { who, run, activity: format!("a{activity}") }
                }
                Do::Schedule { activity, extras } if extras.contains(&ActivityExtra::CloseTimeout) => {
                    Echo::CloseTimeout { who, run, activity: format!("a{activity}") }
                }
                Do::Schedule { activity, extras }
                    if extras.contains(&ActivityExtra::RunTimeout)
                        || extras.contains(&ActivityExtra::HeartbeatTimeout) =>
                {
                    self.memory.hurried.insert((who, *activity));
                    continue;
                }
                _ => continue,
            };
            self.memory.echoes.push(echo);
        }
    }

    /// Remembers which updates are accepted and still open.
    pub(super) fn settle_updates(&mut self, who: Who, messages: &[Message], with: &Completion) {
        let accepted = self.memory.accepted.entry(who).or_default();
        if with.finish_updates {
            accepted.clear();
        }
        if with.updates == UpdateAnswer::Accept {
            accepted.extend(messages.iter().map(|message| message.protocol_instance_id.clone()));
        }
        if with.commands.iter().any(Do::closes) {
            accepted.clear();
        }
    }
}

fn timer_id(timer: u8) -> String {
    format!("t{timer}")
}

fn upsert(change: AttributeChange) -> UpsertWorkflowSearchAttributesCommandAttributes {
    let search_attributes = match change {
        AttributeChange::Set => Some(attributes(ATTRIBUTE, payload("changed"))),
        AttributeChange::Remove => Some(attributes(ATTRIBUTE, null_payload())),
        AttributeChange::Unknown => Some(attributes("Nope", payload("changed"))),
        AttributeChange::IllTyped => Some(attributes(ATTRIBUTE, number_payload(5))),
        AttributeChange::Nothing => None,
    };
    UpsertWorkflowSearchAttributesCommandAttributes { search_attributes }
}

fn modify(change: MemoChange) -> ModifyWorkflowPropertiesCommandAttributes {
    let upserted_memo = match change {
        MemoChange::Set => Some(memo("changed")),
        MemoChange::Remove => Some(Memo { fields: [("note".to_owned(), null_payload())].into() }),
        MemoChange::Nothing => None,
    };
    ModifyWorkflowPropertiesCommandAttributes { upserted_memo }
}

fn command_of(attributes: Attributes) -> Command {
    Command { command_type: attributes.as_type() as i32, attributes: Some(attributes), ..Default::default() }
}

fn protocol_message(id: &str) -> Command {
    command_of(ProtocolMessageCommandAttributes { message_id: id.to_owned() }.into())
}

fn update_answers(request: &Message, answer: UpdateAnswer) -> Vec<Message> {
    let update = &request.protocol_instance_id;
    let body = request.body.as_ref().map(|body| body.value.as_slice()).unwrap_or_default();
    let body = Request::decode(body).expect("an update's message carries its request");
    let accept = |body| {
        let acceptance = Acceptance {
            accepted_request_message_id: request.id.clone(),
            accepted_request_sequencing_event_id: sequencing_event(request),
            accepted_request: Some(body),
        };
        message(update, "accept", &acceptance)
    };
    match answer {
        UpdateAnswer::Ignore => Vec::new(),
        UpdateAnswer::Accept => vec![accept(body)],
        UpdateAnswer::Complete => vec![accept(body), completed(update, None)],
        UpdateAnswer::CompleteWithFailure => vec![accept(body), completed(update, Some("Update"))],
        UpdateAnswer::Reject => {
            let rejection = Rejection {
                rejected_request_message_id: request.id.clone(),
                rejected_request_sequencing_event_id: sequencing_event(request),
                rejected_request: Some(body),
                failure: Some(failure("Rejected", false)),
            };
            vec![message(update, "reject", &rejection)]
        }
    }
}

fn sequencing_event(request: &Message) -> i64 {
    use temporalio_protos::temporal::api::protocol::v1::message::SequencingId;
    match request.sequencing_id {
        Some(SequencingId::EventId(event)) => event,
        _ => 0,
    }
}

fn completed(update: &str, failed: Option<&str>) -> Message {
    let value = match failed {
        Some(kind) => outcome::Value::Failure(failure(kind, false)),
        None => outcome::Value::Success(payloads("updated")),
    };
    let meta = temporalio_protos::temporal::api::update::v1::Meta {
        update_id: update.to_owned(),
        identity: super::names::CLIENT.to_owned(),
    };
    let response = Response { meta: Some(meta), outcome: Some(Outcome { value: Some(value) }) };
    message(update, "complete", &response)
}

fn message<M: prost::Message + Name>(update: &str, step: &str, body: &M) -> Message {
    Message {
        id: format!("{update}/{step}"),
        protocol_instance_id: update.to_owned(),
        body: Some(prost_wkt_types::Any {
            type_url: format!("type.googleapis.com/{}", M::full_name()),
            value: body.encode_to_vec(),
        }),
        ..Default::default()
    }
}
