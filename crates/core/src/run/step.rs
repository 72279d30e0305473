//! The next step of a run.

use super::{CallState, Run, RunState, rounds::unfinished};
use crate::{
    envelope::{CallStatus, FinalizeReason, ToolError, ToolErrorKind},
    event::{AwaitClosure, EventBody},
    time::Timestamp,
};

/// One step of the run's loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Ask the model.
    Plan,
    /// Hand out the caller's own calls that are due.
    HandOut,
    /// Start the calls that are ready.
    Dispatch,
    /// Wait for a call to end, an answer, an expiry or a resume.
    Wait,
    /// Continue as new.
    ContinueAsNew,
    /// The outcome is decided.
    Finish,
}

impl Run {
    /// The next step. `history_events` is the length of the history.
    pub fn next(&self, history_events: u32) -> Step {
        let state = &self.state;
        if state.outcome.is_some() {
            return if state.is_working() { Step::Wait } else { Step::Finish };
        }
        if !self.due_calls().is_empty() {
            return Step::HandOut;
        }
        if !state.is_working() && history_events >= self.tuning.continue_as_new_events() {
            return Step::ContinueAsNew;
        }
        let paused = state.pause.is_some();
        let any = |wanted: fn(&CallState) -> bool| state.batch.iter().any(|slot| wanted(&slot.state));
        if any(|call| matches!(call, CallState::Ready)) && !paused {
            return Step::Dispatch;
        }
        if state.is_working() || !state.awaits.is_empty() || paused {
            return Step::Wait;
        }
        Step::Plan
    }

    /// When the next await expires.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.state.awaits.next_expiry()
    }

    /// Expires awaits, and starts the finaliser when a budget is used up.
    pub fn tick(&mut self, now: Timestamp) {
        if self.state.outcome.is_some() {
            return;
        }
        for id in self.state.awaits.overdue(now) {
            self.expire(&id, now);
        }
        if self.state.finalize.is_none() && self.state.out_of_time(now) {
            self.finalize(FinalizeReason::TimeBudget, now);
        }
        if self.used_all_tool_turns() {
            self.finalize(FinalizeReason::ToolTurns, now);
        }
        if self.used_all_money() {
            self.finalize(FinalizeReason::CostBudget, now);
        }
    }

    /// Whether the next step would be a model turn although the limit of money or tokens is reached. A turn that ends
    /// the run does not need another one, so a run may go over its limit by one turn and the finaliser.
    fn used_all_money(&self) -> bool {
        let RunState { policy, usage, .. } = &self.state;
        let cost = usage.cost_usd.unwrap_or_default();
        let over = policy.max_cost.is_some_and(|max| cost >= max)
            || policy.max_tokens.is_some_and(|max| usage.total_tokens >= max);
        over && self.is_idle()
    }

    /// Whether nothing is in flight, awaited or about to start.
    fn is_idle(&self) -> bool {
        let state = &self.state;
        !state.is_working() && state.awaits.is_empty() && state.batch_is_done()
    }

    /// Whether the next step would be a model turn although the maximum of turns with tool calls is reached.
    fn used_all_tool_turns(&self) -> bool {
        let state = &self.state;
        self.is_idle() && state.policy.max_tool_turns.is_some_and(|max| state.tool_turns >= max)
    }

    /// Starts the finaliser. Calls that have not started never start; calls in flight may finish.
    pub(super) fn finalize(&mut self, reason: FinalizeReason, now: Timestamp) {
        if self.state.finalize.is_some() || self.state.outcome.is_some() {
            return;
        }
        self.state.finalize = Some(reason);
        self.outgoing.event(EventBody::Finalizing { reason });
        let (kind, why) = match reason {
            FinalizeReason::TimeBudget => (ToolErrorKind::TimeBudget, "the run's time budget is used up"),
            FinalizeReason::ToolCap => (ToolErrorKind::ToolCap, "the run has used all its tool calls"),
            FinalizeReason::FailureCap => (ToolErrorKind::Cancelled, "too many calls in a row have failed"),
            FinalizeReason::Loop => (ToolErrorKind::LoopDetected, "the run repeats itself"),
            FinalizeReason::ToolTurns => (ToolErrorKind::ToolCap, "the run has used all its turns with tool calls"),
            FinalizeReason::CostBudget => (ToolErrorKind::ToolCap, "the run's budget of money or tokens is used up"),
        };
        self.refuse_unstarted(&ToolError::new(kind, format!("not executed: {why}")), CallStatus::Refused, now);
    }

    /// Closes every await, and gives every call that has not started a result.
    pub(super) fn refuse_unstarted(&mut self, error: &ToolError, status: CallStatus, now: Timestamp) {
        let pending: Vec<_> = self.state.awaits.pending().iter().map(|item| item.id.clone()).collect();
        for id in pending {
            self.close_await(&id, AwaitClosure::Abandoned, None);
        }
        let unstarted = |state: &RunState| -> Vec<_> {
            let open = state
                .batch
                .iter()
                .filter(|slot| !matches!(slot.state, CallState::Running { .. } | CallState::Done { .. }));
            open.map(|slot| slot.request.tool_call_id.clone()).collect()
        };
        for call in unstarted(&self.state) {
            self.release(&call);
            let began = self.state.slot(&call).is_some_and(|slot| slot.resumption.is_some());
            let (status, error) = if began { (CallStatus::Cancelled, unfinished()) } else { (status, error.clone()) };
            self.conclude_without_result(&call, status, error, now);
        }
    }
}
