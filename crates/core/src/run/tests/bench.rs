//! A run on the bench: the test plays the model, the tools and the people, and reads what the run says in words.

use serde_json::{Value, json};

use crate::{
    agent::{AgentDefinition, ToolTable},
    body::Body,
    canonical::Digest,
    envelope::{
        Answer, AnswerBody, AnswerStatus, AwaitRequest, CallStatus, Extra, FinalFacts, OpenOutput, OutboxMessage,
        PlanActivityInput, PlanActivityOutput, PlanResult, RunInput, RunOutput, TokenUsage, ToolCallOutput, ToolError,
        ToolErrorKind, ToolOutput, ToolRequest, TranscriptHead, VERSION,
    },
    event::EventBody,
    ids::{AgentId, CallId, RunId},
    message::Message,
    policy::AgentPolicy,
    run::{ChildReport, Order, PlanFailure, PlanOrder, Run, Step},
    stop::StopReason,
    time::{Millis, Timestamp},
};

pub(super) struct Bench {
    pub(super) run: Run,
    pub(super) now: Timestamp,
    usage: TokenUsage,
}

/// A run whose start says `policy`, of an agent with these tools and the fields of `agent`.
pub(super) fn bench(policy: Value, agent: Value) -> Bench {
    let mut definition = json!({
        "id": "agent", "model": "script:test",
        "tools": [
            {"name": "read"},
            {"name": "pay", "confirmation": {"prompt": "Pay {amount} to {to}?"}},
            {"name": "form", "kind": "external"},
            {"name": "sign", "kind": "external", "confirmation": {}},
            {"name": "helper", "kind": "agent", "agent": "helper"},
        ],
        "agents": [{"id": "helper", "model": "script:test"}],
    });
    definition.as_object_mut().unwrap().extend(agent.as_object().unwrap().clone());
    let definition: AgentDefinition = serde_json::from_value(definition).unwrap();
    let input = RunInput {
        policy: Some(serde_json::from_value(policy).unwrap()),
        ..RunInput::new(AgentId::new("agent"), RunId::new("run"))
    };
    let opened = OpenOutput {
        v: VERSION,
        agent_digest: Digest::ZERO,
        tools: ToolTable::of(&definition).unwrap(),
        policy: AgentPolicy { policy: definition.policy, guards: definition.guards },
        head: TranscriptHead::default(),
        model_id: Some(definition.model),
        enforcement: definition.output_schema.map(|output| output.enforcement),
        fallback: definition.fallback,
        primary_model_id: None,
    };
    Bench { run: Run::open(input, opened), now: Timestamp(1_000), usage: TokenUsage::default() }
}

impl Bench {
    /// The same run, if this actor had started it.
    pub(super) fn start_as(&mut self, actor: &str) {
        let input = RunInput { started_by: Some(actor.into()), ..self.run.continue_as_new() };
        self.run = Run::resume(input).unwrap();
    }

    /// What the loop would do next.
    pub(super) fn step(&mut self) -> Step {
        loop {
            self.run.tick(self.now);
            match self.run.next(0) {
                Step::HandOut => self.run.hand_out_due(self.now),
                step => return step,
            }
        }
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(Millis(millis));
    }

    /// Begins a turn; what the model is given comes back.
    pub(super) fn begin(&mut self) -> PlanOrder {
        assert_eq!(self.step(), Step::Plan);
        self.run.begin_plan(self.now)
    }

    /// One turn in which the model asks for these calls.
    pub(super) fn turn(&mut self, calls: &[(&str, Value)]) -> PlanActivityInput {
        let order = self.begin();
        self.says(calls, Vec::new());
        order.input
    }

    /// The turn that was begun: the model asks for these calls and awaits, or, without any, answers.
    pub(super) fn says(&mut self, calls: &[(&str, Value)], awaits: Vec<AwaitRequest>) {
        self.says_and_stops(calls, awaits, None, true);
    }

    /// As [`Self::says`], and the model stops for this reason; `named` if its last message names the flaw in that.
    pub(super) fn says_and_stops(
        &mut self,
        calls: &[(&str, Value)],
        awaits: Vec<AwaitRequest>,
        stop: Option<StopReason>,
        named: bool,
    ) {
        let turn = self.run.state().turn;
        let tool_calls: Vec<ToolRequest> =
            calls.iter().enumerate().map(|(index, (name, args))| request(turn, index, name, args)).collect();
        let is_final = self.run.state().finalize.is_some() || (tool_calls.is_empty() && awaits.is_empty());
        let flaw = stop.as_ref().and_then(StopReason::known_flaw).filter(|_| named);
        let final_response = is_final.then(|| FinalFacts { flaw, ..last_message("done") });
        self.planned(PlanResult { tool_calls, awaits, final_response, ..PlanResult::default() }, stop);
    }

    /// The turn that was begun: the model asks for these calls.
    pub(super) fn calls(&mut self, tool_calls: Vec<ToolRequest>) {
        self.planned(PlanResult { tool_calls, ..PlanResult::default() }, None);
    }

    /// The turn that was begun: the model gives this last message, and stops for this reason.
    pub(super) fn answers(&mut self, facts: FinalFacts, stop: &str) {
        self.planned(PlanResult { final_response: Some(facts), ..PlanResult::default() }, Some(stop.into()));
    }

    /// The turn that was begun: the model asks for these calls, and has used this much.
    pub(super) fn says_for(&mut self, calls: &[(&str, Value)], usage: TokenUsage) {
        self.usage = usage;
        self.says(calls, Vec::new());
        self.usage = TokenUsage::default();
    }

    fn planned(&mut self, result: PlanResult, finish_reason: Option<StopReason>) {
        let output = PlanActivityOutput {
            v: VERSION,
            result,
            transcript: Vec::new(),
            usage: self.usage.clone(),
            head: self.run.state().head.push(Digest::ZERO),
            finish_reason,
            enforced: None,
            extra: Extra::new(),
        };
        let stop = self.run.turn_outcome(&output);
        self.run.plan_succeeded(output, stop, self.now);
    }

    pub(super) fn plan_fails(&mut self, timed_out: bool) {
        let failure = PlanFailure { timed_out, ..PlanFailure::new("no answer") };
        self.run.plan_failed(failure, self.now);
    }

    /// Begins what may begin.
    pub(super) fn dispatch(&mut self) -> Vec<Order> {
        assert_eq!(self.step(), Step::Dispatch);
        self.run.dispatch(self.now)
    }

    pub(super) fn ok(&mut self, call: &str) {
        let output = ToolOutput::new(CallStatus::Ok).with_result(&Body::Inline(json!(call).into()));
        self.run.tool_finished(&call.into(), output, true, self.now);
    }

    pub(super) fn fails(&mut self, call: &str, kind: ToolErrorKind, status: CallStatus) {
        let output = ToolOutput::new(status).with_error(ToolError::new(kind, "no"));
        self.run.tool_finished(&call.into(), output, false, self.now);
    }

    /// A child run of this call ends well, after this much work.
    pub(super) fn child_ends(&mut self, call: &str, tool_calls: u32, active: u64) {
        let output = RunOutput {
            v: VERSION,
            agent_id: "helper".into(),
            run_id: RunId::new(format!("run/{call}")),
            final_message: Some(Message::assistant("found")),
            final_ref: None,
            final_tool_result: None,
            tool_events: Vec::new(),
            notes: Vec::new(),
            usage: None,
            finish_reason: None,
            finalized: None,
            turns: 1,
            tool_calls,
            active_ms: Millis(active),
            transcript: TranscriptHead::default(),
            extra: Extra::new(),
        };
        self.run.child_finished(&call.into(), ChildReport::Finished(Box::new(output)), self.now);
    }

    pub(super) fn answer(&mut self, id: &str, body: AnswerBody) -> AnswerStatus {
        self.run.answer(Answer::new(id.into(), "ann", body), self.now).status
    }

    pub(super) fn approve(&mut self, id: &str) -> AnswerStatus {
        let digest = self.run.digest_shown_by(&id.into());
        self.answer(id, AnswerBody::Confirmation { approved: true, digest, reason: None, grant: None })
    }

    pub(super) fn provide(&mut self, id: &str, results: Value) -> AnswerStatus {
        self.answer(id, AnswerBody::ToolResults { results: serde_json::from_value(results).unwrap() })
    }

    /// Gives a result, addressed by its call.
    pub(super) fn result_of(&mut self, call: &str, fields: Value) -> AnswerStatus {
        let mut answer = json!({"toolCallId": call, "actor": "sdk"});
        answer.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.run.answer_call(serde_json::from_value(answer).unwrap(), self.now).status
    }

    /// The events since the last look, in words.
    pub(super) fn log(&mut self) -> Vec<String> {
        self.run.record_input().outbox.events.iter().map(|event| words(&event.body)).collect()
    }
}

/// A last message that nothing speaks against.
pub(super) fn last_message(text: &str) -> FinalFacts {
    let message = Message::assistant(text);
    let message_ref = crate::envelope::BlobRef { digest: Digest::of(&message).unwrap(), bytes: 70 };
    FinalFacts { message: Some(message), message_ref, flaw: None, schema_fit: None }
}

/// A call's arguments always travel; `null` stands for arguments that do not fit the tool's schema.
fn request(turn: u32, index: usize, name: &str, args: &Value) -> ToolRequest {
    let invalid = args.is_null().then(|| serde_json::from_value(json!({"reason": "invalid_arguments"})).unwrap());
    let call = CallId::new(format!("call-{turn}-{index}"));
    let mut request = ToolRequest::new(call, name.into(), &Body::Inline(args.into()));
    request.invalid = invalid;
    request
}

/// The results a plan is given, in words.
pub(super) fn results(input: &PlanActivityInput) -> Vec<String> {
    input.tool_outputs.iter().map(result_words).collect()
}

/// What people said, as a plan is given it.
pub(super) fn said(input: &PlanActivityInput) -> Vec<String> {
    let texts = input.outbox.messages.iter().map(|entry| match entry {
        OutboxMessage::Message { message } => message.plain_text(),
        OutboxMessage::ToolResults { .. } => "results".to_owned(),
    });
    texts.collect()
}

pub(super) fn result_words(output: &ToolCallOutput) -> String {
    let (status, error) = (output.status, output.error.as_ref().map(|error| error.kind));
    format!("{} {}", output.tool_call_id, outcome(status, error))
}

fn outcome(status: CallStatus, error: Option<ToolErrorKind>) -> String {
    match error {
        Some(kind) => format!("{} {}", word(&status), word(&kind)),
        None => word(&status),
    }
}

pub(super) fn words(event: &EventBody) -> String {
    match event {
        EventBody::ToolResult { tool_use_id, status, error, .. } => {
            format!("{tool_use_id} {}", outcome(*status, error.as_ref().map(|error| error.kind)))
        }
        EventBody::CallRefused { tool_use_id, reason, .. } => format!("{tool_use_id} not admitted: {}", word(reason)),
        EventBody::Finalizing { reason } => format!("finalizing {}", reason.as_str()),
        EventBody::LoopDetected { consecutive_count, hard_cutoff, .. } => {
            format!("loop of {consecutive_count}{}", if *hard_cutoff { ", cut off" } else { "" })
        }
        EventBody::ToolBudgetExceeded { tool, max_calls, call_index } => {
            format!("{tool} budget {max_calls}, attempt {call_index}")
        }
        EventBody::AwaitOpened { item } => format!("{} opened", item.id),
        EventBody::AwaitClosed { await_id, outcome, .. } => format!("{await_id} {}", word(outcome)),
        EventBody::LocalToolCall { tool_use_id, .. } => format!("{tool_use_id} handed out"),
        EventBody::LocalToolResultIn { tool_use_id, .. } => format!("{tool_use_id} result in"),
        EventBody::ChildRunLinked { child_run_id, .. } => format!("{child_run_id} begun"),
        EventBody::SignalRejected { signal, message } => format!("{signal} rejected: {message}"),
        EventBody::AnswerRejected { await_id, status, .. } => format!("{await_id} rejected: {}", word(status)),
        other => other.kind().to_owned(),
    }
}

/// A value's name on the wire.
pub(super) fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}
