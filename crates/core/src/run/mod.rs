//! A run: its state and every decision it takes, as functions of the state, an input and the time.
//!
//! The workflow calls [`Run::next`], executes the step and reports the result. Nothing here waits or performs IO.
//! Events to write are collected in [`Outgoing`]. That is not part of the state, so recording a rejected answer does not
//! change the state's digest.

mod answers;
mod calls;
mod children;
mod control;
mod fallback;
mod finish;
mod last_answer;
mod outgoing;
mod outside;
mod plan_size;
mod planning;
mod rounds;
mod state;
mod step;

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::{
    calls::{CallLoss, LossVerdict, Order, TemporalOrder, ToolOrder, after_loss},
    children::{ChildOrder, ChildReport},
    finish::{Outcome, RunEnding},
    outgoing::Outgoing,
    planning::{NUDGE_MARK, PlanFailure, PlanOrder, REPAIR_MARK},
    rounds::read_inputs,
    state::{CallSlot, CallState, ChildLease, Pause, RunState},
    step::Step,
};
use crate::{
    canonical::Digest,
    envelope::{OpenOutput, RunInput, RunStatusView, Tuning, VERSION},
    failure::{RunFailure, RunFailureKind},
    policy::Policy,
    time::Timestamp,
};

/// How deep agents may call agents.
pub const MAX_DEPTH: u32 = 8;

/// A run's status, as lists show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted and not yet started. Only a run's row has this status.
    Queued,
    Running,
    /// For an answer to an await.
    Waiting,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl RunStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The current phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Planning,
    ExecutingTools,
    Waiting,
    Paused,
    Finalizing,
    Done,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::ExecutingTools => "executing_tools",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Finalizing => "finalizing",
            Self::Done => "done",
        }
    }
}

/// A run: its input, its state and the events that are not yet written.
#[derive(Debug, Clone)]
pub struct Run {
    input: RunInput,
    tuning: Tuning,
    state: RunState,
    outgoing: Outgoing,
}

/// What the next execution receives when a run continues as new.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Carry {
    pub state: RunState,
    pub outgoing: Outgoing,
}

impl Run {
    /// A new run, after the `open` activity.
    pub fn open(mut input: RunInput, opened: OpenOutput) -> Self {
        let policy = Policy::resolve(
            &opened.policy,
            input.policy.as_ref(),
            input.guards.as_ref(),
            input.budget_ceiling.as_ref(),
        );
        // The store has them now. They do not travel any further.
        input.messages.clear();
        input.messages_ref = None;
        input.tool_args = None;
        let state = RunState::new(policy, opened);
        Self::assemble(input, state, Outgoing::default())
    }

    /// Checks a run's input before anything is executed or written.
    pub fn check(input: &RunInput, workflow_id: &str) -> Result<(), RunFailure> {
        if input.run_id.as_str() != workflow_id {
            let message =
                format!("run id {} is not the workflow id {workflow_id}; start it with both the same", input.run_id);
            return Err(RunFailure::new(RunFailureKind::OpenFailed, message));
        }
        if input.depth > MAX_DEPTH {
            let message = format!("agents call agents more than {MAX_DEPTH} levels deep; look for a cycle");
            return Err(RunFailure::new(RunFailureKind::TooDeep, message));
        }
        Ok(())
    }

    /// The run that continued as new, if the input has its state.
    pub fn resume(mut input: RunInput) -> Result<Self, Box<RunInput>> {
        match input.carry.take() {
            Some(carry) => Ok(Self::assemble(input, carry.state, carry.outgoing)),
            None => Err(Box::new(input)),
        }
    }

    fn assemble(input: RunInput, state: RunState, outgoing: Outgoing) -> Self {
        let tuning = input.tuning.clone().unwrap_or_default();
        Self { input, tuning, state, outgoing }
    }

    /// The input of the next execution of this run.
    pub fn continue_as_new(&self) -> RunInput {
        let carry = Carry { state: self.state.clone(), outgoing: self.outgoing.clone() };
        RunInput { carry: Some(Box::new(carry)), ..self.input.clone() }
    }

    pub fn input(&self) -> &RunInput {
        &self.input
    }

    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    pub fn state(&self) -> &RunState {
        &self.state
    }

    pub fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    /// The digest of the state, which all decisions depend on.
    pub fn digest(&self) -> Digest {
        // The state is built from JSON types only, so it always serialises.
        Digest::of(&self.state).unwrap_or_default()
    }

    pub fn status(&self) -> RunStatus {
        if let Some(outcome) = &self.state.outcome {
            return outcome.status();
        }
        if self.state.pause.is_some() && !self.state.is_working() {
            return RunStatus::Paused;
        }
        if !self.state.awaits.is_empty() && !self.state.is_working() {
            return RunStatus::Waiting;
        }
        RunStatus::Running
    }

    pub fn phase(&self) -> Phase {
        match self.status() {
            RunStatus::Queued => Phase::Planning,
            RunStatus::Paused => Phase::Paused,
            RunStatus::Waiting => Phase::Waiting,
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => Phase::Done,
            RunStatus::Running if self.state.finalize.is_some() => Phase::Finalizing,
            RunStatus::Running if self.state.planning || self.state.batch.is_empty() => Phase::Planning,
            RunStatus::Running => Phase::ExecutingTools,
        }
    }

    pub fn view(&self, now: Timestamp) -> RunStatusView {
        RunStatusView {
            v: VERSION,
            run_id: self.input.run_id.clone(),
            agent_id: self.input.agent_id.clone(),
            status: self.status(),
            phase: self.phase(),
            turn: self.state.turn,
            tool_calls: self.state.executed,
            pending_awaits: u32::try_from(self.state.awaits.pending().len()).unwrap_or(u32::MAX),
            paused_by: self.state.pause.as_ref().map(|pause| pause.requested_by.to_string()),
            remaining_ms: self.state.clock.remaining(self.state.policy.time_budget, now),
            transcript: self.state.head,
            usage: self.state.usage.clone(),
            state_digest: self.digest(),
        }
    }
}
