//! The model's last message: whether it is the run's answer, and what speaks against it if it is not.

use super::{Outcome, Run};
use crate::{
    agent::Enforcement,
    envelope::{AnswerFlaw, FinalFacts, FinalizeReason, SchemaFit},
    failure::{RunFailure, RunFailureKind},
};

impl Run {
    /// The model's last message: the run's answer, unless something speaks against it.
    pub(super) fn take_answer(&mut self, answer: Option<FinalFacts>, finalized: Option<FinalizeReason>) {
        let failure = answer.as_ref().and_then(|answer| objection(answer, self.state.enforcement));
        self.state.last_answer = answer;
        self.state.outcome = Some(match failure {
            Some(failure) => Outcome::Failed { failure },
            None => Outcome::Completed { finalized },
        });
    }
}

/// Why a last message is no answer.
fn objection(answer: &FinalFacts, enforcement: Option<Enforcement>) -> Option<RunFailure> {
    let strict = enforcement == Some(Enforcement::Strict);
    Some(match (answer.flaw, &answer.schema_fit) {
        (Some(AnswerFlaw::Truncated), _) => RunFailure::new(
            RunFailureKind::AnswerTruncated,
            "Model output was truncated (stop_reason=max_tokens). Ask for a shorter answer, or allow more output.",
        )
        .of_class("truncation"),
        (Some(AnswerFlaw::Refused), _) => {
            RunFailure::new(RunFailureKind::AnswerRefused, "The model refused to answer (stop_reason=refusal).")
                .of_class("unknown")
        }
        (Some(AnswerFlaw::MalformedCall), _) => RunFailure {
            retryable: true,
            ..RunFailure::new(
                RunFailureKind::AnswerRefused,
                "The model wrote a tool call that cannot be read (stop_reason=malformed_function_call).",
            )
            .of_class("unknown")
        },
        (None, Some(SchemaFit::Misfit { problem })) if strict => {
            let message = format!("The answer does not fit the output schema: {problem}");
            RunFailure::new(RunFailureKind::OutputMisfit, message).of_class("structured_output_not_enforced")
        }
        (None, Some(SchemaFit::Unusable { problem })) if strict => {
            let message = format!("The output schema cannot be used: {problem}");
            RunFailure::new(RunFailureKind::OutputMisfit, message).of_class("structured_output_schema_rejected")
        }
        _ => return None,
    })
}
