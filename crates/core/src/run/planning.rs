//! Model turns: the input of the plan activity, and what follows from its output.

use super::{CallSlot, CallState, Run};
use crate::{
    admission::{self, AdmissionContext, Verdict},
    approval::{ApprovalOutcome, DecisionReason},
    awaits::{AwaitKind, AwaitedCall, ExpiryOutcome, NewAwait},
    canonical::CanonicalJson,
    envelope::{
        AwaitRequest, CallStatus, Extra, FinalizeReason, Outbox, OutboxMessage, PlanActivityInput, PlanActivityOutput,
        PlanResult, RetryHint, RetryReason, RunContext, Termination, TokenUsage, ToolCallOutput, ToolError,
        ToolErrorKind, ToolRequest, VERSION,
    },
    event::EventBody,
    failure::{RunFailure, RunFailureKind},
    ids::ToolName,
    message::Message,
    stop::{AnswerFlaw, StopOutcome},
    time::{Millis, Timestamp},
};

/// A plan to execute: the activity's input and its time limits.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOrder {
    pub input: PlanActivityInput,
    /// For one attempt.
    pub timeout: Millis,
    /// For all attempts together; `None` without a time budget.
    pub deadline: Option<Millis>,
    /// How often the model is asked.
    pub attempts: u32,
    pub summary: String,
}

/// A plan that failed permanently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFailure {
    pub timed_out: bool,
    pub message: String,
    pub error_class: Option<String>,
    pub retryable: bool,
    /// The provider's HTTP status.
    pub api_status: Option<u16>,
    /// The provider's own code for the error, such as `insufficient_quota`.
    pub api_code: Option<String>,
    /// The model's text before it failed.
    pub partial_text: Option<String>,
    /// What all attempts of the turn cost.
    pub usage: TokenUsage,
}

impl PlanFailure {
    /// A failure with nothing but a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            timed_out: false,
            message: message.into(),
            error_class: None,
            retryable: false,
            api_status: None,
            api_code: None,
            partial_text: None,
            usage: TokenUsage::default(),
        }
    }
}

impl Run {
    /// Starts a turn. Its input includes the results of the batch and the pending messages. They are kept until the turn
    /// succeeds, because a turn that fails may have written them or not.
    pub fn begin_plan(&mut self, now: Timestamp) -> PlanOrder {
        let tool_outputs = self.state.batch_results().cloned().collect();
        let pending = self.state.pending_messages.clone();
        let messages = pending.into_iter().map(|message| OutboxMessage::Message { message }).collect();
        let outbox = Outbox { messages, events: self.outgoing.send() };
        self.state.messages_in_plan = self.state.pending_messages.len();
        self.state.planning = true;
        self.state.sync_clock(now);

        let remaining = self.state.clock.remaining(self.state.policy.time_budget, now);
        let finalize = self.state.finalize.map(|reason| Termination { reason, message: finalizer_instruction(reason) });
        let (timeout, deadline) = match (&finalize, remaining) {
            (Some(_), _) => (self.state.policy.finalizer_grace, Some(self.state.policy.finalizer_grace)),
            (None, Some(left)) => (self.state.policy.plan_timeout.min(left), Some(left)),
            (None, None) => (self.state.policy.plan_timeout, None),
        };
        let turn = self.state.turn;
        let summary = match &finalize {
            Some(end) => format!("turn {turn}: last answer ({})", end.reason.as_str()),
            None => format!("turn {turn}: ask the model"),
        };
        let input = PlanActivityInput {
            v: VERSION,
            agent_id: self.input.agent_id.clone(),
            run_id: self.input.run_id.clone(),
            messages: Vec::new(),
            run_context: self.context(),
            tool_outputs,
            finalize,
            turn,
            head: self.state.head,
            agent_digest: self.state.agent_digest,
            outbox,
            offered_tools: self.offered_tools(),
            inline_limit: self.tuning.inline_limit(),
            spent_usd: self.state.usage.cost_usd,
            extra: Extra::new(),
        };
        PlanOrder { input, timeout, deadline, attempts: self.plan_attempts(), summary }
    }

    /// The model answered. `stop` is what the turn means for this run; see [`Run::turn_outcome`].
    pub fn plan_succeeded(&mut self, output: PlanActivityOutput, stop: StopOutcome, now: Timestamp) {
        self.state.planning = false;
        self.outgoing.sent();
        self.state.pending_messages.drain(..self.state.messages_in_plan);
        self.state.messages_in_plan = 0;
        self.take_results();
        self.state.turn += 1;
        self.state.head = output.head;
        self.state.usage.add(&output.usage);
        self.state.enforced = output.enforced;
        self.state.finish_reason = output.finish_reason;
        // An answer that was to be repaired is replaced by whatever the model wrote next.
        self.state.last_answer = None;
        self.state.sync_clock(now);
        let PlanResult { mut tool_calls, awaits, final_response, notes, .. } = output.result;
        self.state.notes = notes;
        if self.state.outcome.is_some() {
            // Cancelled in the meantime: the message is in the transcript, so its calls need results.
            let error = ToolError::new(ToolErrorKind::Cancelled, "not executed: the run was cancelled");
            self.refuse_all(tool_calls, awaits, CallStatus::Cancelled, &error, now);
            return;
        }
        let rejected = match stop {
            StopOutcome::Reject(flaw) => Some(flaw),
            // The finalizer runs once, and without calls there is no result that could tell the model.
            StopOutcome::Incomplete(flaw) => {
                let calls = !tool_calls.is_empty() || awaits.iter().any(has_calls);
                (self.state.finalize.is_some() || !calls).then_some(flaw)
            }
            StopOutcome::Proceed | StopOutcome::Continue | StopOutcome::Repair => None,
        };
        if let Some(flaw) = rejected {
            let error = ToolError::new(ToolErrorKind::PolicyDenied, "not executed: the model's turn was rejected");
            self.refuse_all(tool_calls, awaits, CallStatus::Refused, &error, now);
            return self.reject_answer_for(flaw, final_response);
        }
        let asks = !tool_calls.is_empty() || !awaits.is_empty();
        if stop == StopOutcome::Continue && !asks && self.state.finalize.is_none() {
            return self.continue_answer(final_response);
        }
        self.state.paused_turns = 0;
        if let Some(reason) = self.state.finalize {
            let error = ToolError::new(ToolErrorKind::PolicyDenied, "not executed: no tool may be called any more");
            self.refuse_all(tool_calls, awaits, CallStatus::Refused, &error, now);
            return self.take_answer(final_response, Some(reason));
        }
        if !asks {
            return match stop {
                StopOutcome::Repair => self.ask_for_repair(final_response),
                _ => self.take_answer(final_response, None),
            };
        }
        if !tool_calls.is_empty() {
            self.state.tool_turns += 1;
        }
        let incomplete = match stop {
            StopOutcome::Incomplete(flaw) => Some(incomplete(flaw)),
            _ => None,
        };
        if let Some(why) = incomplete {
            // The calls count for every guard, but none of them runs.
            let hint = RetryHint { message: Some(why.to_owned()), ..RetryHint::new(RetryReason::MalformedResponse) };
            tool_calls.iter_mut().for_each(|call| call.invalid = Some(hint.clone()));
        }
        self.admit(tool_calls, now);
        if self.state.finalize.is_some() {
            // This turn reached a cap: no await is opened.
            let error = ToolError::new(ToolErrorKind::PolicyDenied, "not executed: the run has reached a limit");
            self.refuse_all(Vec::new(), awaits, CallStatus::Refused, &error, now);
            return;
        }
        match incomplete {
            Some(why) => {
                let error = ToolError::new(ToolErrorKind::ToolInputInvalid, why);
                self.refuse_all(Vec::new(), awaits, CallStatus::Refused, &error, now);
            }
            None => awaits.into_iter().for_each(|request| self.open_planned_await(request, now)),
        }
        self.settle_if_done(now);
    }

    /// The plan activity failed permanently.
    pub fn plan_failed(&mut self, failure: PlanFailure, now: Timestamp) {
        self.state.planning = false;
        self.state.messages_in_plan = 0;
        let turn = self.state.turn;
        // The next plan gets another turn number, so that an attempt that is still running is not mistaken for it.
        self.state.turn += 1;
        self.state.usage.add(&failure.usage);
        self.state.sync_clock(now);
        if self.state.outcome.is_some() {
            return;
        }
        if self.fall_back(&failure, turn) {
            return;
        }
        if self.state.finalize.is_none() && failure.timed_out && self.state.out_of_time(now) {
            self.finalize(FinalizeReason::TimeBudget, now);
            return;
        }
        if self.keep_unrepaired_answer() {
            return;
        }
        let kind = match (self.state.finalize, failure.timed_out) {
            (Some(_), _) => RunFailureKind::FinalizerFailed,
            (None, true) => RunFailureKind::ModelTimedOut,
            (None, false) => RunFailureKind::ModelFailed,
        };
        let partial_text = failure.partial_text.filter(|text| !text.is_empty());
        if let Some(text) = &partial_text {
            self.outgoing.event(EventBody::AssistantMessage {
                text: text.clone(),
                turn,
                finish_reason: None,
                tool_calls: Vec::new(),
                model: self.state.model_id.clone().unwrap_or_default(),
            });
        }
        let timed_out = failure.timed_out.then(|| "timeout".to_owned());
        self.fail(RunFailure {
            kind,
            message: failure.message,
            error_class: failure.error_class.or(timed_out),
            retryable: failure.retryable,
            api_status: failure.api_status,
            api_code: failure.api_code,
            partial_text,
        });
    }

    /// What the plan activity reads. loom-mcp's other fields stay empty: every turn's event would repeat them.
    fn context(&self) -> RunContext {
        RunContext {
            workspace: self.input.workspace(),
            session_id: self.input.session_id.clone(),
            model_id: self
                .state
                .primary_model_id
                .as_ref()
                .map_or(&self.input.model_id, |_| &self.state.model_id)
                .clone(),
            primary_model_id: self.state.primary_model_id.clone(),
            ..RunContext::default()
        }
    }

    /// The tools that the policy allows; `None` if it allows all.
    fn offered_tools(&self) -> Option<Vec<ToolName>> {
        let allowed = |(name, tool): (&ToolName, _)| self.state.policy.allows(name, tool).is_ok().then(|| name.clone());
        let offered: Vec<ToolName> = self.state.tools.iter().filter_map(allowed).collect();
        (offered.len() < self.state.tools.iter().count()).then_some(offered)
    }

    fn admit(&mut self, calls: Vec<ToolRequest>, now: Timestamp) {
        if calls.is_empty() {
            return;
        }
        let state = &mut self.state;
        let run = AdmissionContext {
            policy: &state.policy,
            tools: &state.tools,
            calls_left: state.policy.max_tool_calls.map(|max| max.saturating_sub(state.executed + state.lent)),
            out_of_time: state.clock.remaining(state.policy.time_budget, now) == Some(Millis::ZERO),
        };
        let admission = admission::admit(&run, &mut state.loops, &mut state.budgets, &calls);
        for (request, verdict) in calls.into_iter().zip(admission.verdicts) {
            self.announce_decision(&request);
            match verdict {
                Verdict::Run => self.accept(request, now),
                Verdict::Confirm => self.ask_for_confirmation(request, now),
                Verdict::Refuse(refusal) => self.refuse(request, refusal, now),
            }
        }
        if let Some(notice) = admission.loop_notice {
            let (consecutive_count, hard_cutoff) = (notice.count, notice.hard);
            self.outgoing.event(EventBody::LoopDetected { consecutive_count, hard_cutoff, tools: notice.tools });
            if !hard_cutoff {
                let mut nudge = Message::user(NUDGE);
                nudge.meta.insert(NUDGE_MARK.to_owned(), true.into());
                self.state.pending_messages.push(nudge);
            }
        }
        if let Some(reason) = admission.finalize {
            self.finalize_after_batch(reason, now);
        }
    }

    /// The event of a decision that a rule or a grant took without a person.
    fn announce_decision(&mut self, request: &ToolRequest) {
        let Some(decision) = request.approval.as_deref() else { return };
        let by_rule = !matches!(decision.reason, DecisionReason::Default | DecisionReason::Confirmation);
        if by_rule && decision.outcome != ApprovalOutcome::Ask {
            self.outgoing.event(EventBody::ApprovalDecided {
                tool_use_id: request.tool_call_id.clone(),
                name: request.name.clone(),
                outcome: decision.outcome,
                reason: decision.reason.clone(),
            });
        }
    }

    /// If a cap refused only part of a batch, the admitted calls run first.
    fn finalize_after_batch(&mut self, reason: FinalizeReason, now: Timestamp) {
        if self.state.batch_is_done() {
            self.finalize(reason, now);
        }
    }

    fn refuse(&mut self, request: ToolRequest, refusal: admission::Refusal, now: Timestamp) {
        let (call, name) = (request.tool_call_id.clone(), request.name.clone());
        self.outgoing.event(EventBody::CallRefused {
            tool_use_id: call.clone(),
            name: name.clone(),
            reason: refusal.kind,
        });
        let error = ToolError::new(refusal.kind, refusal.message);
        let mut output = ToolCallOutput::without_result(name.clone(), call, CallStatus::Refused, error);
        output.retry_hint = refusal.hint.map(|hint| *hint);
        self.push_done(request, output, now);
        if let Some(exceeded) = refusal.budget {
            let (max_calls, call_index) = (exceeded.max_calls, exceeded.call_index);
            self.outgoing.event(EventBody::ToolBudgetExceeded { tool: name, max_calls, call_index });
        }
    }

    fn refuse_all(
        &mut self,
        calls: Vec<ToolRequest>,
        awaits: Vec<AwaitRequest>,
        status: CallStatus,
        error: &ToolError,
        now: Timestamp,
    ) {
        for request in calls.into_iter().chain(awaits.into_iter().flat_map(awaited_calls)) {
            let (name, call) = (request.name.clone(), request.tool_call_id.clone());
            let output = ToolCallOutput::without_result(name, call, status, error.clone());
            self.push_done(request, output, now);
        }
    }

    fn push_done(&mut self, request: ToolRequest, output: ToolCallOutput, now: Timestamp) {
        let call = request.tool_call_id.clone();
        self.state.batch.push(CallSlot::new(request, CallState::Ready));
        self.conclude(&call, output, true, now);
    }

    fn open_planned_await(&mut self, request: AwaitRequest, now: Timestamp) {
        match request {
            AwaitRequest::Clarification {
                question,
                default_answer,
                expires_in_ms,
                on_expiry,
                clarifying_prompt,
                missing_fields,
                restrict_to_tool,
                example_input,
            } => {
                let tool = restrict_to_tool.map(|tool| format!("For the tool {tool}."));
                let missing = (!missing_fields.is_empty()).then(|| format!("Missing: {}.", missing_fields.join(", ")));
                let example = example_input.map(|example| format!("For example: {}", CanonicalJson::from(example)));
                let notes: Vec<String> = [clarifying_prompt, tool, missing, example].into_iter().flatten().collect();
                self.open_await(
                    NewAwait {
                        kind: AwaitKind::Clarification,
                        title: (!notes.is_empty()).then(|| notes.join("\n")),
                        prompt: question,
                        calls: Vec::new(),
                        questions: Vec::new(),
                        inputs: Vec::new(),
                        expires_in: expires_in_ms,
                        on_expiry: on_expiry.unwrap_or(ExpiryOutcome::Replan),
                        default_answer,
                        roles: Vec::new(),
                        four_eyes: false,
                        edit: false,
                    },
                    now,
                );
            }
            AwaitRequest::Questions { title, questions, expires_in_ms, on_expiry, tool_call_id, tool_name } => {
                let prompt = questions.iter().map(|question| question.prompt.as_str()).collect::<Vec<_>>().join("\n");
                let request = ToolRequest::without_args(tool_call_id, tool_name);
                let new = NewAwait {
                    kind: AwaitKind::Questions,
                    title,
                    prompt,
                    calls: vec![awaited(&request)],
                    questions,
                    inputs: Vec::new(),
                    expires_in: expires_in_ms,
                    on_expiry: on_expiry.unwrap_or(ExpiryOutcome::Replan),
                    default_answer: None,
                    roles: Vec::new(),
                    four_eyes: false,
                    edit: false,
                };
                self.hand_out(vec![request], new, now);
            }
            AwaitRequest::ExternalTools { calls, expires_in_ms, on_expiry } => {
                let names = calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ");
                let new = NewAwait {
                    kind: AwaitKind::ExternalTools,
                    title: None,
                    prompt: format!("Results wanted for {names}"),
                    calls: calls.iter().map(awaited).collect(),
                    questions: Vec::new(),
                    inputs: Vec::new(),
                    expires_in: expires_in_ms,
                    on_expiry: on_expiry.unwrap_or(ExpiryOutcome::Replan),
                    default_answer: None,
                    roles: Vec::new(),
                    four_eyes: false,
                    edit: false,
                };
                self.hand_out(calls, new, now);
            }
        }
    }
}

/// The message to a model that repeats its calls.
const NUDGE: &str = "You have made the same tool calls several times in a row. They will not be executed again. \
                     Use the results you have, try something different, or answer now.";

/// Marks the nudge in a message's `meta`, to distinguish it from messages of users.
pub const NUDGE_MARK: &str = "loopNudge";

/// Marks the message that asks for a repair of the answer in its `meta`.
pub const REPAIR_MARK: &str = "schemaRepair";

/// The finalizer's instruction to the model.
fn finalizer_instruction(reason: FinalizeReason) -> String {
    let why = match reason {
        FinalizeReason::TimeBudget => "The time for this task is used up.",
        FinalizeReason::ToolCap => "The number of tool calls for this task is used up.",
        FinalizeReason::FailureCap => "Too many tool calls in a row have failed.",
        FinalizeReason::Loop => "The same tool calls were made again and again.",
        FinalizeReason::ToolTurns => "The number of turns with tool calls for this task is used up.",
        FinalizeReason::CostBudget => "The budget for this task is used up.",
    };
    format!("{why} Give your best final answer now, from what you know. No tool can be called any more.")
}

pub(super) fn awaited(request: &ToolRequest) -> AwaitedCall {
    AwaitedCall {
        tool_call_id: request.tool_call_id.clone(),
        name: request.name.clone(),
        digest: request.payload_digest,
        args: request.inline_args().cloned(),
    }
}

/// The result, for the model, of calls that may be incomplete.
fn incomplete(flaw: AnswerFlaw) -> &'static str {
    match flaw {
        AnswerFlaw::MalformedCall => {
            "not executed: a call of this turn could not be read; write the calls again as valid JSON"
        }
        _ => {
            "not executed: this turn was cut off at the output limit, so its calls may be incomplete; repeat them, with less text"
        }
    }
}

fn has_calls(request: &AwaitRequest) -> bool {
    match request {
        AwaitRequest::Clarification { .. } => false,
        AwaitRequest::Questions { .. } => true,
        AwaitRequest::ExternalTools { calls, .. } => !calls.is_empty(),
    }
}

fn awaited_calls(request: AwaitRequest) -> Vec<ToolRequest> {
    match request {
        AwaitRequest::Clarification { .. } => Vec::new(),
        AwaitRequest::Questions { tool_call_id, tool_name, .. } => {
            vec![ToolRequest::without_args(tool_call_id, tool_name)]
        }
        AwaitRequest::ExternalTools { calls, .. } => calls,
    }
}
