//! Which completions must be durable before the worker continues.
//!
//! A local worker ends with the engine's process, and everything it causes is later in the same log: a crash that loses
//! the completion loses that too, and the workflow task is executed again. So a local worker need not wait for the
//! disk, unless a client or another run could see the completion.

use temporalio_protos::temporal::api::{
    command::v1::{Command, ScheduleActivityTaskCommandAttributes, command::Attributes},
    workflowservice::v1::RespondWorkflowTaskCompletedRequest,
};

/// Whether the completion could be lost and repeated without being visible to anyone else.
pub(super) fn may_be_made_again(request: &RespondWorkflowTaskCompletedRequest) -> bool {
    // Messages answer updates, so a client would see them.
    request.messages.is_empty() && request.commands.iter().all(stays_inside)
}

fn stays_inside(command: &Command) -> bool {
    match &command.attributes {
        Some(Attributes::ScheduleActivityTaskCommandAttributes(activity)) => may_be_repeated(activity),
        Some(
            Attributes::RequestCancelActivityTaskCommandAttributes(_)
            | Attributes::StartTimerCommandAttributes(_)
            | Attributes::CancelTimerCommandAttributes(_)
            | Attributes::RecordMarkerCommandAttributes(_)
            | Attributes::UpsertWorkflowSearchAttributesCommandAttributes(_)
            | Attributes::ModifyWorkflowPropertiesCommandAttributes(_),
        ) => true,
        // Commands that close the run or concern other runs.
        _ => false,
    }
}

/// An activity may start before its scheduled event is durable if it may be executed twice.
fn may_be_repeated(activity: &ScheduleActivityTaskCommandAttributes) -> bool {
    activity.retry_policy.as_ref().is_none_or(|policy| policy.maximum_attempts != 1)
}

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::{
        command::v1::{
            CompleteWorkflowExecutionCommandAttributes, ScheduleActivityTaskCommandAttributes,
            SignalExternalWorkflowExecutionCommandAttributes, StartChildWorkflowExecutionCommandAttributes,
            StartTimerCommandAttributes,
        },
        common::v1::RetryPolicy,
        protocol::v1::Message,
    };

    use super::*;

    fn decided(commands: impl IntoIterator<Item = Attributes>) -> RespondWorkflowTaskCompletedRequest {
        let commands =
            commands.into_iter().map(|attributes| Command { attributes: Some(attributes), ..Command::default() });
        RespondWorkflowTaskCompletedRequest { commands: commands.collect(), ..Default::default() }
    }

    fn activity(maximum_attempts: Option<i32>) -> Attributes {
        let policy =
            maximum_attempts.map(|maximum_attempts| RetryPolicy { maximum_attempts, ..RetryPolicy::default() });
        Attributes::ScheduleActivityTaskCommandAttributes(ScheduleActivityTaskCommandAttributes {
            retry_policy: policy,
            ..ScheduleActivityTaskCommandAttributes::default()
        })
    }

    fn timer() -> Attributes {
        Attributes::StartTimerCommandAttributes(StartTimerCommandAttributes::default())
    }

    #[test]
    fn only_commands_without_external_effects_may_be_repeated() {
        let child = StartChildWorkflowExecutionCommandAttributes::default();
        let signal = SignalExternalWorkflowExecutionCommandAttributes::default();
        let end = CompleteWorkflowExecutionCommandAttributes::default();
        let cases = [
            (decided([]), true),
            (decided([timer(), activity(None), activity(Some(0)), activity(Some(5))]), true),
            (decided([activity(None), activity(Some(1))]), false),
            (decided([timer(), Attributes::StartChildWorkflowExecutionCommandAttributes(child)]), false),
            (decided([Attributes::SignalExternalWorkflowExecutionCommandAttributes(signal)]), false),
            (decided([Attributes::CompleteWorkflowExecutionCommandAttributes(end)]), false),
            (RespondWorkflowTaskCompletedRequest { messages: vec![Message::default()], ..decided([timer()]) }, false),
            (RespondWorkflowTaskCompletedRequest { commands: vec![Command::default()], ..decided([]) }, false),
        ];
        for (request, expected) in cases {
            assert_eq!(may_be_made_again(&request), expected, "{request:?}");
        }
    }
}
