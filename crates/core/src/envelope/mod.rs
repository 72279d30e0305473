//! What crosses a boundary of a run: start input, activity input and output, signals, updates, queries and results.
//!
//! These types are a promise to histories that live for months. The rules: camelCase JSON; every top-level envelope has
//! a version `v`; fields are only ever added, as options or with defaults; fields this build does not know are kept in
//! `extra` and survive a round trip; an override is an `Option`, where absent inherits and a value replaces; a span is a
//! whole number of milliseconds and its field's name ends in `Ms`.
//!
//! Conversations do not travel here. Messages and bodies live in the store; what travels is a [`TranscriptHead`], a
//! [`BlobRef`] and bodies no larger than the inline limit.

mod actor;
mod answer;
mod continuation;
mod control;
mod loom_mcp;
mod plan;
mod push;
mod record;
mod run;
mod tool;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    actor::Actor,
    answer::{Answer, AnswerBody, AnswerReply, AnswerStatus, CallAnswer},
    continuation::{Continuation, InputAction, InputRequest, InputResponse, Resumption},
    control::{
        ClarificationAnswer, ConfirmationDecision, PauseRequest, ProvidedToolResult, ResumeRequest, SteerRequest,
        ToolResultsSet,
    },
    loom_mcp::from_go_names,
    plan::{
        AwaitRequest, FinalFacts, ModelFailureFacts, PlanActivityInput, PlanActivityOutput, PlanResult, PlannerNote,
        Question, QuestionOption, RunContext, SchemaFit, Termination, ToolRequest,
    },
    push::{EndPushInput, EndPushOutput, PushCursor, PushInput, PushOutput},
    record::{
        OpenInput, OpenOutput, Outbox, OutboxMessage, RecordInput, RecordOutput, SettleInput, SettleOutput,
        SettlePlanInput, SettlePlanOutput,
    },
    run::{
        BudgetCeiling, GuardOverrides, LoopDetection, LoopThresholds, PolicyOverrides, RetryPolicy, RunInput,
        RunOutput, RunStatusView, ToolBudget, Tuning, WorkflowOptions,
    },
    tool::{
        Bounds, CallStatus, FieldIssue, FollowInput, FollowOutput, LoadInput, LoadOutput, OMITTED_FOR_BUDGET,
        ReceiveInput, RetryHint, RetryReason, RunLink, ToolCallOutput, ToolError, ToolErrorKind, ToolInput, ToolOutput,
        ToolTelemetry,
    },
};
use crate::{
    canonical::{CanonicalJson, Digest},
    cost::Cost,
};

/// The version this build writes.
pub const VERSION: u32 = 1;

pub(crate) fn version() -> u32 {
    VERSION
}

/// Keeps an explicit `null` apart from an absent field: a tool may well return null.
pub(crate) fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Fields a build does not know. They are carried along untouched.
pub type Extra = BTreeMap<String, Value>;

/// String labels attached by callers.
pub type Labels = BTreeMap<String, String>;

/// Where a conversation stands: how many messages it has and a digest that commits to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TranscriptHead {
    pub len: u64,
    pub digest: Digest,
}

impl TranscriptHead {
    /// The head after one more message.
    #[must_use]
    pub fn push(self, message: Digest) -> Self {
        Self { len: self.len + 1, digest: self.digest.chain(message) }
    }
}

/// A body in the store, addressed by the digest of its canonical bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    pub digest: Digest,
    pub bytes: u64,
}

impl BlobRef {
    pub fn of(json: &CanonicalJson) -> Self {
        Self { digest: json.digest(), bytes: json.bytes() }
    }
}

/// Tokens a model reported.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// Kept in a sum only while all parts agree on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub reasoning_tokens: u64,
    /// What it cost, by the prices of the worker that called the model. A sum has the calls whose price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Cost>,
}

impl TokenUsage {
    pub fn add(&mut self, other: &Self) {
        // Nothing was used, so it says nothing about the model either.
        if *other == Self::default() {
            return;
        }
        let first = *self == Self::default();
        if first {
            self.model.clone_from(&other.model);
        } else if self.model != other.model {
            self.model = None;
        }
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.total_tokens += other.total_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(own), Some(other)) => Some(own + other),
            (own, other) => own.or(other),
        };
    }

    /// The share of the input that the provider read from its cache.
    #[expect(clippy::cast_precision_loss, reason = "numbers of tokens are far below 2^53")]
    pub fn cache_hit_ratio(&self) -> Option<f64> {
        (self.input_tokens > 0).then(|| self.cache_read_tokens as f64 / self.input_tokens as f64)
    }
}

/// Why a run ended early and was asked for a last, tools-disabled answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalizeReason {
    TimeBudget,
    ToolCap,
    FailureCap,
    Loop,
    ToolTurns,
    /// The limit of money or of tokens is reached.
    CostBudget,
}

impl FinalizeReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TimeBudget => "time_budget",
            Self::ToolCap => "tool_cap",
            Self::FailureCap => "failure_cap",
            Self::Loop => "loop",
            Self::ToolTurns => "tool_turns",
            Self::CostBudget => "cost_budget",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_keeps_the_model_while_all_parts_agree_and_adds_what_is_known_of_the_cost() {
        let used = |model: &str, cost: Option<u64>| TokenUsage {
            model: Some(model.to_owned()),
            total_tokens: 1,
            cost_usd: cost.map(Cost::from_nanos),
            ..TokenUsage::default()
        };
        let mut sum = TokenUsage::default();
        sum.add(&used("a", Some(5)));
        sum.add(&TokenUsage::default());
        sum.add(&used("a", None));
        assert_eq!((sum.model.as_deref(), sum.cost_usd, sum.total_tokens), (Some("a"), Some(Cost::from_nanos(5)), 2));
        sum.add(&used("b", Some(2)));
        assert_eq!((sum.model, sum.cost_usd), (None, Some(Cost::from_nanos(7))));
    }
}
