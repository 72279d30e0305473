//! Whether the model's last message is the run's answer, and the failure if it is not.

use super::{Outcome, REPAIR_MARK, Run};
use crate::{
    agent::Enforcement,
    envelope::{FinalFacts, FinalizeReason, PlanActivityOutput, PlanResult, SchemaFit},
    failure::{RunFailure, RunFailureKind},
    message::Message,
    stop::{AnswerFlaw, StopOutcome},
};

/// How often in a row a provider may pause one answer. Each time is a paid call.
const MAX_PAUSED_TURNS: u32 = 16;

/// The longest description of a problem that the model is told.
const REPAIR_BYTES: usize = 1000;

impl Run {
    /// The model's last message becomes the run's answer, unless it is truncated, refused or does not match the schema.
    pub(super) fn take_answer(&mut self, answer: Option<FinalFacts>, finalized: Option<FinalizeReason>) {
        let failure = answer.as_ref().and_then(|answer| {
            // The activity sets `flaw` for runs that do not decide by the stop reason.
            answer.flaw.map(failure_of).or_else(|| misfit(answer.schema_fit.as_ref()?, self.state.enforcement))
        });
        self.state.last_answer = answer;
        self.state.outcome = Some(match failure {
            Some(failure) => Outcome::Failed { failure },
            None => Outcome::Completed { finalized },
        });
    }

    /// What a turn means for the run: by its stop reason, and by whether its answer matches the output schema.
    pub fn turn_outcome(&self, output: &PlanActivityOutput) -> StopOutcome {
        match output.stop_outcome() {
            StopOutcome::Proceed if self.needs_repair(&output.result) => StopOutcome::Repair,
            outcome => outcome,
        }
    }

    fn needs_repair(&self, result: &PlanResult) -> bool {
        let asks = !result.tool_calls.is_empty() || !result.awaits.is_empty();
        let fit = result.final_response.as_ref().and_then(|answer| answer.schema_fit.as_ref());
        let open = self.state.finalize.is_none() && self.state.outcome.is_none() && !self.state.repaired;
        open && !asks && matches!(fit, Some(SchemaFit::Misfit { .. }))
    }

    /// Tells the model why its answer does not match the schema. It is told once: a model that cannot do it twice will not
    /// do it the third time.
    pub(super) fn ask_for_repair(&mut self, answer: Option<FinalFacts>) {
        let fit = answer.as_ref().and_then(|answer| answer.schema_fit.as_ref());
        let Some(SchemaFit::Misfit { problem }) = fit else { return };
        let problem = &problem[..problem.floor_char_boundary(REPAIR_BYTES)];
        let mut message = Message::user(format!(
            "Your answer does not match the JSON Schema that is required: {problem}\nAnswer again with only the JSON document."
        ));
        message.meta.insert(REPAIR_MARK.to_owned(), true.into());
        self.state.pending_messages.push(message);
        self.state.repaired = true;
        self.state.last_answer = answer;
    }

    /// The turn that was to repair the answer failed: the answer stands as it was.
    pub(super) fn keep_unrepaired_answer(&mut self) -> bool {
        let awaits_repair = |answer: &mut FinalFacts| matches!(answer.schema_fit, Some(SchemaFit::Misfit { .. }));
        let unrepaired = self.state.last_answer.take_if(awaits_repair).filter(|_| self.state.repaired);
        let kept = unrepaired.is_some();
        if kept {
            self.take_answer(unrepaired, self.state.finalize);
        }
        kept
    }

    /// The model's last message cannot be the answer: the run fails.
    pub(super) fn reject_answer_for(&mut self, flaw: AnswerFlaw, answer: Option<FinalFacts>) {
        self.state.last_answer = answer;
        self.fail(failure_of(flaw));
    }

    /// The provider paused: the next turn continues the same answer.
    pub(super) fn continue_answer(&mut self, so_far: Option<FinalFacts>) {
        self.state.paused_turns += 1;
        if self.state.paused_turns > MAX_PAUSED_TURNS {
            self.state.last_answer = so_far;
            let message =
                format!("The provider paused one answer more than {MAX_PAUSED_TURNS} times (stop_reason=pause_turn).");
            self.fail(RunFailure::new(RunFailureKind::AnswerUnfinished, message).of_class("unknown"));
        }
    }
}

fn failure_of(flaw: AnswerFlaw) -> RunFailure {
    let (kind, class, message) = match flaw {
        AnswerFlaw::Truncated => (
            RunFailureKind::AnswerTruncated,
            "truncation",
            "Model output was truncated (stop_reason=max_tokens). Ask for a shorter answer, or allow more output.",
        ),
        AnswerFlaw::Refused => {
            (RunFailureKind::AnswerRefused, "unknown", "The model refused to answer (stop_reason=refusal).")
        }
        AnswerFlaw::MalformedCall => (
            RunFailureKind::AnswerRefused,
            "unknown",
            "The model wrote a tool call that cannot be read (stop_reason=malformed_function_call).",
        ),
        AnswerFlaw::Filtered => (
            RunFailureKind::AnswerFiltered,
            "unknown",
            "The provider withheld the answer (stop_reason=content_filter). Change the prompt or the provider's filter settings.",
        ),
        AnswerFlaw::ContextWindow => (
            RunFailureKind::ModelFailed,
            "context_window",
            "The conversation is larger than the model's context window (stop_reason=context_window). Use a model with a larger window, or a shorter conversation.",
        ),
    };
    // A retry may produce a correct call. The other failures repeat.
    let retryable = flaw == AnswerFlaw::MalformedCall;
    RunFailure { retryable, ..RunFailure::new(kind, message).of_class(class) }
}

/// The failure of an answer that does not match the output schema, if the schema is strict.
fn misfit(fit: &SchemaFit, enforcement: Option<Enforcement>) -> Option<RunFailure> {
    if enforcement != Some(Enforcement::Strict) {
        return None;
    }
    let (class, message) = match fit {
        SchemaFit::Fits => return None,
        SchemaFit::Misfit { problem } => {
            ("structured_output_not_enforced", format!("The answer does not fit the output schema: {problem}"))
        }
        SchemaFit::Unusable { problem } => {
            ("structured_output_schema_rejected", format!("The output schema cannot be used: {problem}"))
        }
    };
    Some(RunFailure::new(RunFailureKind::OutputMisfit, message).of_class(class))
}
