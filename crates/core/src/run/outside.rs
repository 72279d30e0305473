//! Externally executed calls. Calls of the caller's own tools are handed out in turn, all others at once.
//!
//! Their answers and expiries are in `answers`.

use super::{CallSlot, CallState, Run};
use crate::{
    agent::{HandOut, ToolDispatch},
    awaits::{AwaitKind, ExpiryOutcome, NewAwait},
    envelope::ToolRequest,
    event::EventBody,
    failure::{RunFailure, RunFailureKind},
    ids::{CallId, ToolName},
    time::Timestamp,
};

impl Run {
    /// Adds a call that may be executed to the batch.
    pub(super) fn place(&mut self, request: ToolRequest, now: Timestamp) {
        match self.outside(&request.name) {
            None => self.state.batch.push(CallSlot::new(request, CallState::Ready)),
            Some(Outside { client: Some(_), .. }) => {
                self.state.batch.push(CallSlot::new(request, CallState::Queued));
            }
            Some(outside) => {
                let new = outside.wait_for(&request);
                self.hand_out(vec![request], new, now);
            }
        }
    }

    /// Hands out externally executed calls under one await.
    pub(super) fn hand_out(&mut self, calls: Vec<ToolRequest>, new: NewAwait, now: Timestamp) {
        let await_id = self.open_await(new, now);
        for request in calls {
            self.outgoing.event(EventBody::LocalToolCall {
                tool_use_id: request.tool_call_id.clone(),
                name: request.name.clone(),
                args: request.inline_args().cloned(),
                await_id: await_id.clone(),
                args_ref: request.args().and_then(|args| args.stored()),
            });
            self.state.batch.push(CallSlot::new(request, CallState::External { await_id: await_id.clone() }));
        }
    }

    /// Hands out the caller's own calls that are due.
    pub fn hand_out_due(&mut self, now: Timestamp) {
        for index in self.due_calls() {
            let request = self.state.batch[index].request.clone();
            let Some(outside) = self.outside(&request.name) else { continue };
            // The call keeps its position in call order.
            let after = self.state.batch.split_off(index + 1);
            self.state.batch.pop();
            self.hand_out(vec![request.clone()], outside.wait_for(&request), now);
            self.state.batch.extend(after);
        }
    }

    /// Positions in the batch of the caller's own calls that are due. A call waits for those before it; read-only calls do
    /// not wait for one another. A paused run hands out nothing.
    pub(super) fn due_calls(&self) -> Vec<usize> {
        let mut due = Vec::new();
        if self.state.pause.is_some() {
            return due;
        }
        let (mut any_open, mut change_open) = (false, false);
        for (index, slot) in self.state.batch.iter().enumerate() {
            let Some(Outside { client: Some(how), .. }) = self.outside(&slot.request.name) else { continue };
            if matches!(slot.state, CallState::Done { .. }) {
                continue;
            }
            let waits = match how {
                HandOut::Together => change_open,
                HandOut::InTurn => any_open,
            };
            if matches!(slot.state, CallState::Queued) && !waits {
                due.push(index);
            }
            any_open = true;
            change_open |= how == HandOut::InTurn;
        }
        due
    }

    /// The call was approved: it may start, or is handed out if it is executed externally.
    pub(super) fn approve(&mut self, call: &CallId, now: Timestamp) {
        let Some(index) = self.state.batch.iter().position(|slot| slot.request.tool_call_id == *call) else { return };
        let after = self.state.batch.split_off(index + 1);
        if let Some(slot) = self.state.batch.pop() {
            self.place(slot.request, now);
        }
        self.state.batch.extend(after);
    }

    /// The failure of an expired call of the caller's own tool, if one of these tools is.
    pub(super) fn timed_out_locally<'a>(&self, mut tools: impl Iterator<Item = &'a ToolName>) -> Option<RunFailure> {
        let own = |name: &&ToolName| self.outside(name).is_some_and(|outside| outside.client.is_some());
        let message = format!("Timed out waiting for local tool result: {}", tools.find(own)?);
        Some(RunFailure::new(RunFailureKind::LocalToolTimedOut, message).of_class("local_timeout"))
    }

    fn outside(&self, name: &ToolName) -> Option<Outside> {
        match self.state.tools.get(name)?.dispatch {
            ToolDispatch::External { expires_in_ms, on_expiry, client } => {
                Some(Outside { expires_in: expires_in_ms, on_expiry, client })
            }
            _ => None,
        }
    }
}

/// How a run waits for the result of an externally executed tool.
struct Outside {
    expires_in: Option<crate::time::Millis>,
    on_expiry: Option<ExpiryOutcome>,
    client: Option<HandOut>,
}

impl Outside {
    fn wait_for(&self, request: &ToolRequest) -> NewAwait {
        let unanswered = if self.client.is_some() { ExpiryOutcome::Fail } else { ExpiryOutcome::Replan };
        NewAwait {
            kind: AwaitKind::ExternalTools,
            title: None,
            prompt: format!("Result wanted for {}", request.name),
            calls: vec![super::planning::awaited(request)],
            questions: Vec::new(),
            inputs: Vec::new(),
            expires_in: self.expires_in,
            on_expiry: self.on_expiry.unwrap_or(unanswered),
            default_answer: None,
            roles: Vec::new(),
            four_eyes: false,
            edit: false,
        }
    }
}
