//! The planner boundary: what the plan activity is given and the facts it returns.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    BlobRef, Extra, FinalizeReason, Labels, Outbox, RetryHint, TokenUsage, ToolCallOutput, TranscriptHead, version,
};
use crate::{
    approval::ApprovalDecision,
    awaits::ExpiryOutcome,
    body::Body,
    canonical::{CanonicalJson, Digest},
    cost::Cost,
    event::EnforcementMechanism,
    ids::{AgentId, CallId, RunId, SessionId, ToolName, WorkspaceId},
    message::Message,
    stop::{AnswerFlaw, StopOutcome, StopReason},
    time::Millis,
};

/// Input of the plan activity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanActivityInput {
    #[serde(default = "version")]
    pub v: u32,
    pub agent_id: AgentId,
    pub run_id: RunId,
    /// Always empty in this runtime: the conversation is read from the store up to `head`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    pub run_context: RunContext,
    /// The calls of the turn before this one, in call order; their results are appended before the model is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_outputs: Vec<ToolCallOutput>,
    /// Asks for a last answer without tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalize: Option<Termination>,
    pub turn: u32,
    pub head: TranscriptHead,
    pub agent_digest: Digest,
    /// Messages and events of the workflow that are written with the plan, which saves an activity.
    #[serde(default, skip_serializing_if = "Outbox::is_empty")]
    pub outbox: Outbox,
    /// Tools the policy lets through; `None` offers all of the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_tools: Option<Vec<ToolName>>,
    pub inline_limit: u64,
    /// What the run has spent so far; absent if its models have no prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_usd: Option<Cost>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The run's workspace, session, parent and labels.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunContext {
    pub workspace: WorkspaceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The run's own model, while `model_id` is a fallback for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_model_id: Option<String>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Working time that is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<Millis>,
}

/// The request for a last answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    pub reason: FinalizeReason,
    pub message: String,
}

/// Output of the plan activity: facts, never bodies above the inline limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanActivityOutput {
    #[serde(default = "version")]
    pub v: u32,
    pub result: PlanResult,
    /// Always empty in this runtime: the assistant's message is in the store, `head` includes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transcript: Vec<Message>,
    #[serde(default)]
    pub usage: TokenUsage,
    pub head: TranscriptHead,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<StopReason>,
    /// How the provider enforced the output schema; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforced: Option<EnforcementMechanism>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl PlanActivityOutput {
    pub fn stop_outcome(&self) -> StopOutcome {
        self.finish_reason.as_ref().map_or(StopOutcome::Proceed, StopReason::outcome)
    }
}

/// What the model wants next: calls, awaits, or neither, which makes it the final answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanResult {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolRequest>,
    #[serde(rename = "await", skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<AwaitRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_response: Option<FinalFacts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<PlannerNote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_hint: Option<RetryHint>,
}

/// The final message: inline when it fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinalFacts {
    /// The message, if it is within the inline limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    pub message_ref: BlobRef,
    /// Why the message cannot be the answer. Only what [`StopReason::known_flaw`] names: older workers read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaw: Option<AnswerFlaw>,
    /// Whether it fits the schema that the agent's definition asks for; absent if it asks for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_fit: Option<SchemaFit>,
}

/// The details of a plan activity's failure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelFailureFacts {
    /// The provider's HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_status: Option<u16>,
    /// The provider's own code for the error, such as `insufficient_quota`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_code: Option<String>,
    /// The model's text before it failed, up to the inline limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_text: Option<String>,
    /// What all attempts of the turn cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
}

/// Whether an answer matches the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SchemaFit {
    Fits,
    /// The answer is not JSON, or does not match the schema.
    Misfit {
        problem: String,
    },
    /// The schema itself cannot be used.
    Unusable {
        problem: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannerNote {
    pub text: String,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// One call the model asked for, with what the activity found out about its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequest {
    pub tool_call_id: CallId,
    pub name: ToolName,
    /// With `payload_ref`: see [`Self::args`].
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    payload: Option<CanonicalJson>,
    payload_bytes: u64,
    /// Commits to the coerced arguments; an approval is bound to it.
    pub payload_digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_ref: Option<BlobRef>,
    /// What the schema says about the arguments; `None` means they are valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<RetryHint>,
    /// What the approval rules say of the call; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<ApprovalDecision>>,
    /// A person changed the arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

impl ToolRequest {
    /// A call with its coerced arguments.
    pub fn new(tool_call_id: CallId, name: ToolName, args: &Body) -> Self {
        Self {
            payload: args.inline().cloned(),
            payload_bytes: args.bytes(),
            payload_digest: args.digest(),
            payload_ref: args.stored(),
            ..Self::without_args(tool_call_id, name)
        }
    }

    /// A call that stands for questions to a person. It has no arguments to admit or approve.
    pub fn without_args(tool_call_id: CallId, name: ToolName) -> Self {
        Self {
            tool_call_id,
            name,
            payload: None,
            payload_bytes: 0,
            payload_digest: Digest::ZERO,
            payload_ref: None,
            invalid: None,
            approval: None,
            edited: false,
        }
    }

    /// The coerced, canonical arguments.
    pub fn args(&self) -> Option<Body> {
        Body::from_fields(self.payload.as_ref(), self.payload_ref)
    }

    /// The arguments, if they are within the inline limit.
    pub fn inline_args(&self) -> Option<&CanonicalJson> {
        self.payload.as_ref()
    }
}

/// An external answer or result that the planner asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AwaitRequest {
    /// A question whose answer becomes a user message.
    Clarification {
        question: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missing_fields: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restrict_to_tool: Option<ToolName>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example_input: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clarifying_prompt: Option<String>,
        /// The answer an expiry with outcome `default` uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default_answer: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_in_ms: Option<Millis>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_expiry: Option<ExpiryOutcome>,
    },
    /// Structured questions; the answer is the result of a tool call.
    Questions {
        tool_call_id: CallId,
        tool_name: ToolName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        questions: Vec<Question>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_in_ms: Option<Millis>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_expiry: Option<ExpiryOutcome>,
    },
    /// Externally executed calls, answered as one exact set.
    ExternalTools {
        calls: Vec<ToolRequest>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_in_ms: Option<Millis>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_expiry: Option<ExpiryOutcome>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    pub id: String,
    pub prompt: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    #[serde(default)]
    pub allow_multiple: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionOption {
    pub id: String,
    pub label: String,
}
