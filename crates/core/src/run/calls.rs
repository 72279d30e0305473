//! The calls of a turn: dispatch, lost activities, results, and what follows when the whole batch is done.

use super::{CallSlot, CallState, ChildLease, ChildOrder, Run};
use crate::{
    agent::{TemporalSource, ToolDispatch, ToolEntry},
    approval::AskTerms,
    awaits::{AwaitKind, ExpiryOutcome, NewAwait},
    canonical::CanonicalJson,
    envelope::{
        CallStatus, Extra, FinalizeReason, Resumption, SettleOutput, ToolCallOutput, ToolError, ToolErrorKind,
        ToolInput, ToolOutput, ToolRequest, VERSION,
    },
    event::EventBody,
    ids::{CallId, ToolName},
    time::{Millis, Timestamp},
};

/// How often a call is dispatched if its journal shows that it never started.
const MAX_DISPATCHES: u32 = 4;

/// A call to start now.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    Tool(Box<ToolOrder>),
    Child(Box<ChildOrder>),
    Temporal(Box<TemporalOrder>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolOrder {
    pub input: ToolInput,
    /// For one attempt.
    pub timeout: Millis,
    /// For all attempts together; `None` without a time budget.
    pub deadline: Option<Millis>,
}

/// A call of an activity or a workflow on another task queue. Temporal's history is its journal.
#[derive(Debug, Clone, PartialEq)]
pub struct TemporalOrder {
    pub input: ToolInput,
    pub source: Box<TemporalSource>,
    /// For one attempt.
    pub timeout: Millis,
    /// For all attempts together; `None` without a time budget.
    pub deadline: Option<Millis>,
}

/// How an activity that returned no output ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallLoss {
    TimedOut,
    Cancelled,
    Failed,
}

/// What to do with a call whose activity returned no output.
#[derive(Debug, Clone, PartialEq)]
pub enum LossVerdict {
    /// The journal shows that it never started: dispatch it again.
    Again,
    Conclude(Box<ToolOutput>),
}

/// Decides what happens to a call whose activity returned no output, from the call's journal.
pub fn after_loss(loss: CallLoss, settled: SettleOutput, dispatch: u32, time_left: bool) -> LossVerdict {
    let conclude = |status, kind, message: &str| {
        LossVerdict::Conclude(Box::new(ToolOutput::new(status).with_error(ToolError::new(kind, message))))
    };
    match (settled, loss) {
        (SettleOutput::Finished { output }, _) => LossVerdict::Conclude(output),
        (SettleOutput::Unknown, _) => conclude(
            CallStatus::OutcomeUnknown,
            ToolErrorKind::OutcomeUnknown,
            "outcome unknown: the call began but its result was lost; it may or may not have taken effect",
        ),
        (SettleOutput::NeverStarted, CallLoss::Cancelled) => {
            conclude(CallStatus::Cancelled, ToolErrorKind::Cancelled, "not executed: the run was cancelled")
        }
        (SettleOutput::NeverStarted, _) if dispatch < MAX_DISPATCHES && time_left => LossVerdict::Again,
        (SettleOutput::NeverStarted, _) => {
            conclude(CallStatus::Failed, ToolErrorKind::Timeout, "not executed: no worker began the call in time")
        }
    }
}

impl Run {
    /// Adds an admitted call to the batch. It counts against the caps from now on.
    pub(super) fn accept(&mut self, request: ToolRequest, now: Timestamp) {
        self.state.executed += 1;
        self.place(request, now);
    }

    pub(super) fn ask_for_confirmation(&mut self, request: ToolRequest, now: Timestamp) {
        self.state.executed += 1;
        // The decision joins the tool's own terms with those of the rules.
        let terms = match request.approval.as_ref().and_then(|decision| decision.ask.clone()) {
            Some(terms) => terms,
            None => {
                let own = self.state.tools.get(&request.name).and_then(|tool| tool.confirmation.as_ref());
                own.map(AskTerms::of).unwrap_or_default()
            }
        };
        let entry = self.state.tools.get(&request.name);
        let activity = entry.is_some_and(|tool| tool.dispatch == ToolDispatch::Activity);
        let prompt = match &terms.prompt {
            Some(template) => render(template, &request),
            None => format!("Allow {}?", request.name),
        };
        let new = NewAwait {
            kind: AwaitKind::Confirmation,
            title: terms.title,
            prompt,
            calls: vec![super::planning::awaited(&request)],
            questions: Vec::new(),
            inputs: Vec::new(),
            expires_in: terms.expires_in_ms,
            on_expiry: terms.on_expiry.unwrap_or(ExpiryOutcome::Deny),
            default_answer: None,
            roles: terms.roles,
            four_eyes: terms.four_eyes,
            // The tool activity checks them against the schema again; no other way of executing a call does.
            edit: terms.edit && activity,
        };
        let await_id = self.open_await(new, now);
        self.state.batch.push(CallSlot::new(request, CallState::Confirming { await_id }));
    }

    /// Takes back the count of a call that will not run.
    pub(super) fn release(&mut self, call: &CallId) {
        let counted = self.state.slot(call).is_some_and(|slot| {
            // A later round: the call has run.
            slot.resumption.is_none()
                && matches!(slot.state, CallState::Ready | CallState::Queued | CallState::Confirming { .. })
        });
        if counted {
            self.state.executed = self.state.executed.saturating_sub(1);
        }
    }

    /// Starts the calls that are ready.
    pub fn dispatch(&mut self, now: Timestamp) -> Vec<Order> {
        let ready: Vec<(ToolRequest, Option<Resumption>)> = self
            .state
            .batch
            .iter()
            .filter(|slot| matches!(slot.state, CallState::Ready))
            .map(|slot| (slot.request.clone(), slot.resumption.clone()))
            .collect();
        let mut children = ready.iter().filter(|(request, _)| self.is_child(&request.name)).count();
        let siblings = children as u64;
        let mut orders = Vec::new();
        for (request, resumption) in ready {
            let call = request.tool_call_id.clone();
            let entry = self.state.tools.get(&request.name).cloned();
            let (order, child) = match entry {
                Some(ToolEntry { dispatch: ToolDispatch::Child { agent_id, agent_digest }, .. }) => {
                    let share = self.state.calls_left().map(|left| left / u32::try_from(children).unwrap_or(1).max(1));
                    children -= 1;
                    let lease = ChildLease { lent_calls: share.unwrap_or(0), used_before: self.state.clock.used(now) };
                    self.state.lent += lease.lent_calls;
                    let input = self.child_input(&request, &agent_id, agent_digest, share, siblings, now);
                    self.link_child(&request, &input);
                    (Order::Child(Box::new(ChildOrder { call: call.clone(), input })), Some(lease))
                }
                Some(ToolEntry { dispatch: ToolDispatch::Temporal(ref source), .. }) => {
                    let source = source.clone();
                    let ToolOrder { input, timeout, deadline } = self.tool_order(&request, entry.as_ref(), None, now);
                    self.announce_call(&request);
                    (Order::Temporal(Box::new(TemporalOrder { input, source, timeout, deadline })), None)
                }
                entry => (Order::Tool(Box::new(self.tool_order(&request, entry.as_ref(), resumption, now))), None),
            };
            if let Some(slot) = self.state.slot(&call) {
                slot.state = CallState::Running { child };
            }
            orders.push(order);
        }
        self.state.sync_clock(now);
        orders
    }

    fn is_child(&self, name: &ToolName) -> bool {
        self.state.tools.get(name).is_some_and(|tool| matches!(tool.dispatch, ToolDispatch::Child { .. }))
    }

    fn tool_order(
        &self,
        request: &ToolRequest,
        entry: Option<&ToolEntry>,
        resumption: Option<Resumption>,
        now: Timestamp,
    ) -> ToolOrder {
        let remaining = self.state.clock.remaining(self.state.policy.time_budget, now);
        let timeout = entry
            .map_or(self.state.policy.tool_timeout_default, |tool| self.state.policy.tool_timeout(&request.name, tool));
        ToolOrder {
            timeout: remaining.map_or(timeout, |left| timeout.min(left)),
            deadline: remaining,
            input: ToolInput {
                v: VERSION,
                run_id: self.input.run_id.clone(),
                agent_id: self.input.agent_id.clone(),
                toolset_name: request.name.as_str().rsplit_once('.').map(|(toolset, _)| toolset.to_owned()),
                tool_name: request.name.clone(),
                tool_call_id: request.tool_call_id.clone(),
                payload: request.inline_args().cloned(),
                payload_digest: request.payload_digest,
                payload_ref: request.args().and_then(|args| args.stored()),
                session_id: self.input.session_id.clone(),
                turn_id: self.input.turn_id.clone(),
                parent_tool_call_id: self.input.parent_tool_call_id.clone(),
                workspace: self.input.workspace(),
                turn: self.state.turn.saturating_sub(1),
                dispatch: 1,
                idempotent: entry.is_some_and(|tool| tool.idempotent)
                    || resumption.as_ref().is_some_and(|resumption| resumption.repeatable),
                resumption,
                edited: request.edited,
                agent_digest: self.state.agent_digest,
                inline_limit: self.tuning.inline_limit(),
                extra: Extra::new(),
            },
        }
    }

    /// A tool activity ended. `recorded`: its result event is already in the log.
    pub fn tool_finished(&mut self, call: &CallId, mut output: ToolOutput, recorded: bool, now: Timestamp) {
        if let Some(continuation) = output.continuation.take() {
            return self.continue_call(call, continuation, now);
        }
        let Some(name) = self.state.slot(call).map(|slot| slot.request.name.clone()) else { return };
        let output = ToolCallOutput::from_output(name, call.clone(), output);
        self.conclude(call, output, !recorded, now);
        self.settle_if_done(now);
    }

    pub(super) fn conclude_without_result(
        &mut self,
        call: &CallId,
        status: CallStatus,
        error: ToolError,
        now: Timestamp,
    ) {
        let Some(name) = self.state.slot(call).map(|slot| slot.request.name.clone()) else { return };
        let output = ToolCallOutput::without_result(name, call.clone(), status, error);
        self.conclude(call, output, true, now);
    }

    /// Sets a call's result. A call has exactly one; later ones are ignored.
    pub(super) fn conclude(&mut self, call: &CallId, output: ToolCallOutput, announce: bool, now: Timestamp) {
        let is_open = |slot: &mut CallSlot| !matches!(slot.state, CallState::Done { .. });
        if !self.state.slot(call).is_some_and(is_open) {
            return;
        }
        if announce {
            self.outgoing.event(EventBody::ToolResult {
                tool_use_id: output.tool_call_id.clone(),
                name: output.name.clone(),
                ok: output.status == CallStatus::Ok,
                status: output.status,
                result: output.shown_result(),
                result_bytes: output.result_bytes,
                error: output.error.clone(),
                retry_hint: output.retry_hint.clone(),
                telemetry: output.telemetry.clone(),
            });
        }
        self.state.report(output.clone().without_large_result(self.tuning.inline_limit()));
        if let Some(slot) = self.state.slot(call) {
            slot.state = CallState::Done { output: Box::new(output) };
        }
        self.state.sync_clock(now);
    }

    /// Updates the failure streak and the caps once every call of the batch has its result.
    pub(super) fn settle_if_done(&mut self, now: Timestamp) {
        if self.state.settled || self.state.batch.is_empty() || !self.state.batch_is_done() {
            return;
        }
        self.state.settled = true;
        let failures = self.state.batch_results().filter_map(counts);
        self.state.failure_streak =
            failures.fold(self.state.failure_streak, |streak, failed| if failed { streak + 1 } else { 0 });
        let cap = self.state.policy.max_consecutive_failed_tool_calls;
        // Only this run's own refusals count: an external result may use the same error kind.
        let overflowed = self.state.batch_results().any(|output| {
            output.status == CallStatus::Refused
                && output.error.as_ref().is_some_and(|error| error.kind == ToolErrorKind::ToolCap)
        });
        if overflowed {
            self.finalize(FinalizeReason::ToolCap, now);
        } else if cap.is_some_and(|cap| self.state.failure_streak >= cap) {
            self.finalize(FinalizeReason::FailureCap, now);
        }
    }

    pub(super) fn take_results(&mut self) -> Vec<ToolCallOutput> {
        self.state.settled = false;
        let outputs = self.state.batch.drain(..).filter_map(|slot| match slot.state {
            CallState::Done { output } => Some(*output),
            _ => None,
        });
        outputs.collect()
    }
}

/// Whether a result is a failure (`Some(true)`), a success (`Some(false)`), or counts as neither.
fn counts(output: &ToolCallOutput) -> Option<bool> {
    match output.status {
        CallStatus::Ok => Some(false),
        CallStatus::Failed | CallStatus::OutcomeUnknown => Some(true),
        CallStatus::Cancelled => None,
        CallStatus::Refused => {
            let kind = output.error.as_ref().map(|error| error.kind);
            matches!(kind, Some(ToolErrorKind::ToolInputInvalid | ToolErrorKind::ToolUnknown)).then_some(true)
        }
    }
}

/// Replaces `{name}` by the call's top-level arguments, in one pass: text inside an argument is never read as a
/// placeholder. Otherwise the prompt could differ from what is approved.
fn render(template: &str, request: &ToolRequest) -> String {
    let args = request.inline_args().map(CanonicalJson::to_value);
    let shown = |name: &str| {
        let value = args.as_ref().and_then(|args| args.get(name))?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}').and_then(|(name, after)| Some((shown(name)?, after))) {
            Some((value, after)) => {
                text.push_str(&value);
                rest = after;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}
