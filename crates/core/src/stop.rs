//! Stop reasons of models, and what a run does with each.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

/// A model's reason for stopping, in the words of the agent-runs protocol. Providers have their own words; adapters map
/// them to these.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>", into = "String")]
pub enum StopReason {
    /// The model finished its answer.
    #[default]
    EndTurn,
    /// The model waits for results of its calls.
    ToolUse,
    /// The output reached its limit and was cut off.
    MaxTokens,
    StopSequence,
    /// The model refused to answer.
    Refusal,
    /// The provider withheld the answer.
    ContentFilter,
    /// The model wrote a call that cannot be read.
    MalformedCall,
    /// The provider wants to be asked again to go on with the same answer.
    PauseTurn,
    /// The conversation is larger than the model can read.
    ContextWindow,
    /// A reason that this build does not know.
    Other(String),
}

/// What a run does with a turn that stopped for a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// The turn counts: its calls run; without calls it is the answer.
    Proceed,
    /// The same answer goes on with the next turn.
    Continue,
    /// The turn's calls may be incomplete and do not run; the model learns why. Without calls the run fails.
    Incomplete(AnswerFlaw),
    /// The turn does not count: its calls do not run and the run fails.
    Reject(AnswerFlaw),
    /// The answer does not match the output schema: the model is told why and answers once more.
    Repair,
}

/// The flaw of a message that its stop reason implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFlaw {
    /// Truncated at the output limit.
    Truncated,
    /// The model refused to answer.
    Refused,
    /// The model wrote a tool call that cannot be read.
    MalformedCall,
    /// The provider withheld it.
    Filtered,
    /// The conversation did not fit the model's context window.
    ContextWindow,
}

impl StopReason {
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::ContentFilter => "content_filter",
            Self::MalformedCall => "malformed_function_call",
            Self::PauseTurn => "pause_turn",
            Self::ContextWindow => "context_window",
            Self::Other(reason) => reason,
        }
    }

    /// The flaws that every released build knows.
    pub fn known_flaw(&self) -> Option<AnswerFlaw> {
        match self {
            Self::MaxTokens => Some(AnswerFlaw::Truncated),
            Self::Refusal => Some(AnswerFlaw::Refused),
            Self::MalformedCall => Some(AnswerFlaw::MalformedCall),
            _ => None,
        }
    }

    pub fn outcome(&self) -> StopOutcome {
        match self {
            Self::EndTurn | Self::ToolUse | Self::StopSequence | Self::Other(_) => StopOutcome::Proceed,
            Self::PauseTurn => StopOutcome::Continue,
            Self::MaxTokens => StopOutcome::Incomplete(AnswerFlaw::Truncated),
            Self::MalformedCall => StopOutcome::Incomplete(AnswerFlaw::MalformedCall),
            Self::Refusal => StopOutcome::Reject(AnswerFlaw::Refused),
            Self::ContentFilter => StopOutcome::Reject(AnswerFlaw::Filtered),
            Self::ContextWindow => StopOutcome::Reject(AnswerFlaw::ContextWindow),
        }
    }
}

impl From<Cow<'_, str>> for StopReason {
    fn from(reason: Cow<'_, str>) -> Self {
        Self::from(&*reason)
    }
}

impl From<&str> for StopReason {
    fn from(reason: &str) -> Self {
        match reason {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "refusal" => Self::Refusal,
            "content_filter" => Self::ContentFilter,
            "malformed_function_call" => Self::MalformedCall,
            "pause_turn" => Self::PauseTurn,
            "context_window" => Self::ContextWindow,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl From<StopReason> for String {
    fn from(reason: StopReason) -> Self {
        reason.as_str().to_owned()
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_reason_has_a_word_and_an_outcome() {
        use AnswerFlaw::{ContextWindow, Filtered, MalformedCall, Refused, Truncated};
        use StopOutcome::{Continue, Incomplete, Proceed, Reject};

        let table = [
            ("end_turn", Proceed),
            ("tool_use", Proceed),
            ("stop_sequence", Proceed),
            ("max_tokens", Incomplete(Truncated)),
            ("malformed_function_call", Incomplete(MalformedCall)),
            ("refusal", Reject(Refused)),
            ("content_filter", Reject(Filtered)),
            ("context_window", Reject(ContextWindow)),
            ("pause_turn", Continue),
            ("recitation", Proceed),
        ];
        for (word, outcome) in table {
            let reason: StopReason = serde_json::from_value(json!(word)).unwrap();
            assert_eq!((reason.as_str(), json!(reason), reason.outcome()), (word, json!(word), outcome));
        }
    }
}
