//! The activities a run calls: their names, inputs and outputs. `windlass-activities` implements them and the compiler
//! checks it against this file. A name is a promise to histories; it never changes.

use temporalio_common::ActivityDefinition;
use windlass_core::envelope::{
    EndPushInput, EndPushOutput, FollowInput, FollowOutput, LoadInput, LoadOutput, OpenInput, OpenOutput,
    PlanActivityInput, PlanActivityOutput, PushInput, PushOutput, ReceiveInput, RecordInput, RecordOutput, SettleInput,
    SettleOutput, SettlePlanInput, SettlePlanOutput, ToolInput, ToolOutput,
};

use crate::wire::Wire;

/// The workflow type of a run.
pub const RUN_WORKFLOW: &str = "windlass.run";

/// The workflow type that sends the updates of a run to one receiver.
pub const PUSH_WORKFLOW: &str = "windlass.push";

macro_rules! activity {
    ($(#[$doc:meta])* $marker:ident = $name:literal: $input:ty => $output:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $marker;

        impl ActivityDefinition for $marker {
            type Input = Wire<$input>;
            type Output = Wire<$output>;

            fn name(&self) -> &str {
                $name
            }
        }
    };
}

activity!(
    /// Finds the agent, creates the run in the store and seeds its transcript.
    Open = "windlass.open": OpenInput => OpenOutput
);
activity!(
    /// Asks the model for the next turn.
    Plan = "windlass.plan": PlanActivityInput => PlanActivityOutput
);
activity!(
    /// Executes one tool call.
    Tool = "windlass.tool": ToolInput => ToolOutput
);
activity!(
    /// Writes the workflow's messages and events.
    Record = "windlass.record": RecordInput => RecordOutput
);
activity!(
    /// Reads from the journal whether a turn whose activity was lost has a response.
    SettlePlan = "windlass.settle_plan": SettlePlanInput => SettlePlanOutput
);
activity!(
    /// Reads from the journal how a call whose activity was lost ended.
    Settle = "windlass.settle": SettleInput => SettleOutput
);
activity!(
    /// Reads a stored body, for a call that the workflow itself schedules.
    Load = "windlass.load": LoadInput => LoadOutput
);
activity!(
    /// Checks and stores the result of a call that the workflow itself scheduled.
    Receive = "windlass.receive": ReceiveInput => ToolOutput
);
activity!(
    /// Shows the heartbeats of a call that the workflow itself scheduled, until it is cancelled.
    FollowHeartbeats = "windlass.follow_heartbeats": FollowInput => FollowOutput
);
activity!(
    /// Waits for the next update of a run and sends it to a receiver.
    Push = "windlass.push": PushInput => PushOutput
);
activity!(
    /// Notes that nothing more is sent to a receiver, and why.
    EndPush = "windlass.end_push": EndPushInput => EndPushOutput
);
