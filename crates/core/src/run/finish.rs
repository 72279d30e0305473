//! How a run ends: its last record and its output.

use serde::{Deserialize, Serialize};

use super::{Run, RunStatus, children::answer_body};
use crate::{
    envelope::{
        CallStatus, Extra, FinalFacts, FinalizeReason, Outbox, OutboxMessage, RecordInput, RunOutput, ToolCallOutput,
        ToolError, ToolErrorKind, ToolOutput, TranscriptHead, VERSION,
    },
    event::{EnforcementMechanism, EventBody, StructuredOutput},
    failure::{RunFailure, RunFailureKind},
    message::Message,
    time::Timestamp,
};

/// How the run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Outcome {
    Completed { finalized: Option<FinalizeReason> },
    Failed { failure: RunFailure },
    Cancelled { reason: String },
}

impl Outcome {
    pub fn status(&self) -> RunStatus {
        match self {
            Self::Completed { .. } => RunStatus::Completed,
            Self::Failed { .. } => RunStatus::Failed,
            Self::Cancelled { .. } => RunStatus::Cancelled,
        }
    }
}

/// The end of a run: first `record` is written, then the workflow returns `output` or the failure of `outcome`.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnding {
    pub record: RecordInput,
    pub outcome: Outcome,
    pub output: RunOutput,
}

impl Run {
    /// The input of a `record` activity between turns.
    pub fn record_input(&mut self) -> RecordInput {
        let events = self.outgoing.take();
        self.record_of(Outbox { messages: Vec::new(), events })
    }

    /// Takes over the transcript head that `record` returned.
    pub fn recorded(&mut self, head: TranscriptHead) {
        self.state.head = head;
    }

    fn record_of(&self, outbox: Outbox) -> RecordInput {
        RecordInput {
            v: VERSION,
            run_id: self.input.run_id.clone(),
            head: self.state.head,
            outbox,
            status: self.status(),
            phase: self.phase(),
            final_ref: None,
            closes_session_turn: false,
        }
    }

    /// Ends the run: every open call gets its result, and the terminal event goes last.
    pub fn end(&mut self, now: Timestamp) -> RunEnding {
        let outcome = self.state.outcome.clone().unwrap_or(Outcome::Completed { finalized: None });
        let error = ToolError::new(ToolErrorKind::Cancelled, "not executed: the run has ended");
        self.refuse_unstarted(&error, CallStatus::Cancelled, now);
        self.state.clock.stop(now);
        let output = self.output(&outcome, now);
        self.outgoing.event(self.terminal_event(&outcome, now));

        let results = self.take_results();
        let pending = std::mem::take(&mut self.state.pending_messages);
        let mut outbox = Outbox { messages: Vec::new(), events: self.outgoing.take() };
        if !results.is_empty() {
            outbox.messages.push(OutboxMessage::ToolResults { results });
        }
        outbox.messages.extend(pending.into_iter().map(|message| OutboxMessage::Message { message }));

        let mut record = self.record_of(outbox);
        let completed = matches!(outcome, Outcome::Completed { .. });
        let has_answer = !matches!(outcome, Outcome::Cancelled { .. });
        record.final_ref = output.final_ref.filter(|_| has_answer && output.final_message.is_none());
        record.closes_session_turn = completed && self.input.depth == 0 && self.input.session_id.is_some();
        RunEnding { record, outcome, output }
    }

    fn output(&self, outcome: &Outcome, now: Timestamp) -> RunOutput {
        let answer = self.state.last_answer.clone();
        let finalized = match outcome {
            Outcome::Completed { finalized } => *finalized,
            _ => None,
        };
        RunOutput {
            v: VERSION,
            agent_id: self.input.agent_id.clone(),
            run_id: self.input.run_id.clone(),
            final_message: answer.as_ref().and_then(|answer| answer.message.clone()),
            final_ref: answer.as_ref().map(|answer| answer.message_ref),
            final_tool_result: self.as_tool_result(answer.as_ref()),
            tool_events: self.state.reported.iter().cloned().collect(),
            notes: self.state.notes.clone(),
            usage: Some(self.state.usage.clone()),
            finish_reason: self.state.finish_reason.clone(),
            finalized,
            turns: self.state.turn,
            tool_calls: self.state.executed,
            active_ms: self.state.clock.used(now),
            transcript: self.state.head,
            extra: Extra::new(),
        }
    }

    /// The result of the parent's call; `None` for a run without a parent.
    fn as_tool_result(&self, answer: Option<&FinalFacts>) -> Option<ToolCallOutput> {
        let (name, call) = (self.input.tool.clone()?, self.input.parent_tool_call_id.clone()?);
        let mut output = ToolOutput::new(CallStatus::Ok);
        if let Some(answer) = answer {
            output = output.with_result(&answer_body(answer.message.as_ref(), Some(answer.message_ref)));
        }
        Some(ToolCallOutput::from_output(name, call, output))
    }

    fn terminal_event(&self, outcome: &Outcome, now: Timestamp) -> EventBody {
        let (turns, tool_calls, active_ms) = (self.state.turn, self.state.executed, self.state.clock.used(now));
        let (usage, model) = (self.state.usage.clone(), self.state.model_id.clone());
        let structured_output = self.structured_output();
        // The model's last text; `record` fills it in if it is above the inline limit.
        let last_text = self
            .state
            .last_answer
            .as_ref()
            .map(|answer| answer.message.as_ref().map(Message::plain_text).unwrap_or_default());
        let result = |text, subtype: &str, failure: Option<&RunFailure>, finalized| EventBody::Result {
            text,
            subtype: subtype.to_owned(),
            error: failure.map(|failure| failure.message.clone()),
            error_class: failure.and_then(|failure| failure.error_class.clone()),
            finish_reason: self.state.finish_reason.clone(),
            finalized,
            turns,
            tool_calls,
            active_ms,
            usage: usage.clone(),
            model: model.clone(),
            structured_output,
        };
        match outcome {
            Outcome::Completed { finalized } => {
                result(last_text.unwrap_or_default(), EventBody::SUCCESS, None, *finalized)
            }
            Outcome::Failed { failure } if failure.kind == RunFailureKind::LocalToolTimedOut => {
                result(String::new(), EventBody::LOCAL_TOOL_TIMEOUT, Some(failure), None)
            }
            Outcome::Failed { failure } => EventBody::Error {
                code: failure.error_class.clone().unwrap_or_else(|| failure.code().to_owned()),
                error: failure.message.clone(),
                error_class: failure.error_class.clone(),
                failure: Some(failure.code().to_owned()),
                retryable: failure.retryable,
                api_status: failure.api_status,
                api_code: failure.api_code.clone(),
                // The stop reason of a rejected last answer; a turn that failed has none.
                finish_reason: self.state.finish_reason.clone().filter(|_| last_text.is_some()),
                partial_text: last_text.or_else(|| failure.partial_text.clone()),
                turns,
                tool_calls,
                active_ms,
                usage,
                model,
                structured_output,
            },
            Outcome::Cancelled { reason } => EventBody::Cancelled {
                reason: reason.clone(),
                turns,
                tool_calls,
                active_ms,
                usage,
                model,
                structured_output,
            },
        }
    }

    /// What the provider did with the schema in the last turn. The check of the answer afterwards is not enforcement.
    fn structured_output(&self) -> Option<StructuredOutput> {
        let mechanism = self.state.enforced.unwrap_or_default();
        self.state.enforcement.map(|_| StructuredOutput {
            schema_requested: true,
            schema_enforced: mechanism != EnforcementMechanism::None,
            enforcement_mechanism: mechanism,
            unconstrained_fallback_occurred: false,
        })
    }
}
