//! Which decisions of a worker must be safe before it goes on.
//!
//! A worker in the engine's own process ends with the engine, and what it causes by going on comes later in the same log:
//! a failure that takes the decision takes all of that too, and the workflow task is decided again. So such a worker need
//! not wait for the disk, unless somebody outside would be told of the decision or could see it twice.

use temporalio_protos::temporal::api::{
    command::v1::{Command, ScheduleActivityTaskCommandAttributes, command::Attributes},
    workflowservice::v1::RespondWorkflowTaskCompletedRequest,
};

/// Whether nobody but this worker would know if the decision were lost and made again.
pub(super) fn may_be_made_again(request: &RespondWorkflowTaskCompletedRequest) -> bool {
    // Messages answer updates.
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
        // The end of the run, and whatever concerns other runs.
        _ => false,
    }
}

/// An activity may begin before its schedule is safe if it may begin twice.
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
