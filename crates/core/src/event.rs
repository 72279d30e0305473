//! The vocabulary of a run's event log.
//!
//! Where the agent-runs protocol has a word for something, the log uses it. Writers use [`EventBody`]; readers get an
//! [`Event`] with its data as JSON, so that a log written by a newer build can still be read.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    approval::{ApprovalOutcome, DecisionReason, Grant},
    awaits::AwaitView,
    canonical::{self, CanonicalJson, Digest},
    envelope::{
        Actor, AnswerStatus, BlobRef, CallStatus, Extra, FinalizeReason, Labels, RetryHint, TokenUsage, ToolError,
        ToolErrorKind, ToolTelemetry,
    },
    ids::{AgentId, AwaitId, CallId, RunId, SessionId, ToolName, WorkspaceId},
    run::{Phase, RunStatus},
    stop::StopReason,
    time::{Millis, Timestamp},
};

/// An event on its way into the log. Appending the same key twice is one append.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewEvent {
    pub key: String,
    #[serde(flatten)]
    pub body: EventBody,
}

impl NewEvent {
    pub fn new(key: impl Into<String>, body: EventBody) -> Self {
        Self { key: key.into(), body }
    }
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// 1 for the first event of a run, without gaps.
    pub seq: u64,
    pub at: Timestamp,
    pub key: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub data: Value,
}

impl Event {
    /// Whether nothing can follow this event.
    pub fn is_terminal(&self) -> bool {
        EventBody::TERMINAL.contains(&self.kind.as_str())
    }

    /// The event as this build understands it.
    pub fn body(&self) -> Result<EventBody, serde_json::Error> {
        let mut tagged = self.data.clone();
        if let Value::Object(fields) = &mut tagged {
            fields.insert("type".to_owned(), Value::String(self.kind.clone()));
        }
        serde_json::from_value(tagged)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum EventBody {
    Started {
        agent_id: AgentId,
        workspace: WorkspaceId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<RunId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<CallId>,
        model_id: String,
        #[serde(default, skip_serializing_if = "Labels::is_empty")]
        labels: Labels,
        #[serde(default, skip_serializing_if = "Extra::is_empty")]
        metadata: Extra,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_by: Option<Actor>,
    },
    /// Text as the model produces it. Only `assistant_message` is canonical.
    AssistantDelta {
        text: String,
        turn: u32,
        attempt: u32,
        /// Which part of the message it belongs to.
        #[serde(default, skip_serializing_if = "is_zero")]
        part: u32,
    },
    ThinkingDelta {
        text: String,
        turn: u32,
        attempt: u32,
        #[serde(default, skip_serializing_if = "is_zero")]
        part: u32,
    },
    /// The provider executed a tool of its own while it answered.
    ProviderTool {
        name: String,
        turn: u32,
        attempt: u32,
        part: u32,
    },
    /// The deltas of earlier attempts of this turn are void.
    TurnRestarted {
        turn: u32,
        attempt: u32,
    },
    /// An attempt of a turn failed. The next attempt, the next model or the run's failure follows.
    AttemptFailed {
        turn: u32,
        attempt: u32,
        model: String,
        error_class: String,
        error: String,
        /// Whether this model is asked again for this turn, if attempts are left.
        retryable: bool,
        /// How long the provider asks to wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<Millis>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        api_status: Option<u16>,
        /// What the provider charges for it. It is part of the turn's `usage`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<TokenUsage>,
    },
    /// The provider of the run's model does not answer: the run goes on with another model.
    ModelFallback {
        error_class: String,
        /// The model that is asked from now on.
        model: String,
        primary_model_id: String,
        fallback_model_id: String,
        turn: u32,
    },
    /// The conversation was larger than the model's context window: parts of it were left out of this turn's request. The
    /// transcript has all of it.
    ContextTrimmed {
        turn: u32,
        /// Tool results that were replaced by a short text.
        results: u32,
        /// Images and documents that were replaced by a short text.
        files: u32,
        tokens_before: u64,
        tokens_after: u64,
        context_window: u64,
    },
    AssistantMessage {
        text: String,
        turn: u32,
        finish_reason: Option<StopReason>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<CallSummary>,
        model: String,
    },
    PlannerNote {
        text: String,
    },
    Usage {
        turn: u32,
        usage: TokenUsage,
    },
    /// A call begins.
    ToolCall {
        tool_use_id: CallId,
        name: ToolName,
        input: Option<CanonicalJson>,
        digest: Digest,
        turn: u32,
    },
    /// A call that is executed externally.
    LocalToolCall {
        tool_use_id: CallId,
        name: ToolName,
        /// The executor needs them: arguments above the inline limit are filled in when the event is written.
        args: Option<CanonicalJson>,
        await_id: AwaitId,
        /// The reference to arguments above the inline limit, until they are filled in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args_ref: Option<BlobRef>,
    },
    /// The result of an externally executed call was accepted.
    LocalToolResultIn {
        tool_use_id: CallId,
        /// Absent when it is larger than an event may be; the transcript has it.
        #[serde(default, deserialize_with = "crate::envelope::present", skip_serializing_if = "Option::is_none")]
        output: Option<CanonicalJson>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        result_bytes: u64,
    },
    /// How far a call is, as its tool reports it.
    ToolProgress {
        tool_use_id: CallId,
        name: ToolName,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// How much is done, in the unit of `total`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
    },
    ToolResult {
        tool_use_id: CallId,
        name: ToolName,
        ok: bool,
        status: CallStatus,
        /// Absent when it is larger than an event may be; the transcript has it.
        #[serde(default, deserialize_with = "crate::envelope::present", skip_serializing_if = "Option::is_none")]
        result: Option<CanonicalJson>,
        result_bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ToolError>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_hint: Option<RetryHint>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        telemetry: Option<ToolTelemetry>,
    },
    /// A guard or a policy refused a call.
    CallRefused {
        tool_use_id: CallId,
        name: ToolName,
        reason: ToolErrorKind,
    },
    LoopDetected {
        consecutive_count: u32,
        hard_cutoff: bool,
        tools: Vec<ToolName>,
    },
    ToolBudgetExceeded {
        tool: ToolName,
        max_calls: u32,
        call_index: u32,
    },
    ChildRunLinked {
        tool_use_id: CallId,
        name: ToolName,
        child_run_id: RunId,
        child_agent_id: AgentId,
    },
    AwaitOpened {
        item: AwaitView,
    },
    AwaitClosed {
        await_id: AwaitId,
        outcome: AwaitClosure,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        actor: Option<Actor>,
        /// The words of the person who answered, cut to [`EventBody::WORDS_BYTES`]: the text, or the reason for a
        /// decision. Results are in `local_tool_result_in`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    },
    /// A sub-agent asks a person. Its root's log says so, because a person follows the root.
    ChildAwaitOpened {
        item: AwaitView,
    },
    ChildAwaitClosed {
        await_id: AwaitId,
        outcome: AwaitClosure,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        actor: Option<Actor>,
    },
    /// A rule or a grant decided about a call, without a person.
    ApprovalDecided {
        tool_use_id: CallId,
        name: ToolName,
        outcome: ApprovalOutcome,
        reason: DecisionReason,
    },
    /// A person approved a call and said not to ask again.
    ApprovalGranted {
        grant: Grant,
    },
    /// A person approved a call with other arguments.
    ArgumentsEdited {
        tool_use_id: CallId,
        name: ToolName,
        /// The digest of the model's arguments.
        before: Digest,
        digest: Digest,
        /// The new arguments, unless they are too large for an event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<CanonicalJson>,
    },
    /// An answer that changed nothing.
    AnswerRejected {
        await_id: AwaitId,
        status: AnswerStatus,
        message: String,
        actor: Actor,
    },
    /// A signal that could not be read or was not allowed. It changed nothing.
    SignalRejected {
        signal: String,
        message: String,
    },
    Paused {
        reason: String,
        requested_by: Actor,
    },
    Resumed {
        notes: String,
        requested_by: Actor,
    },
    Steered {
        text: String,
        requested_by: Actor,
    },
    Finalizing {
        reason: FinalizeReason,
    },
    /// What an operator sees of the run changed; a run's row follows these.
    Status {
        status: RunStatus,
        phase: Phase,
    },
    /// Terminal: the run answered; with another subtype than `success` it failed, as the protocol requires.
    Result {
        text: String,
        subtype: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_class: Option<String>,
        finish_reason: Option<StopReason>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finalized: Option<FinalizeReason>,
        turns: u32,
        tool_calls: u32,
        active_ms: Millis,
        usage: TokenUsage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured_output: Option<StructuredOutput>,
    },
    /// Terminal: the run failed.
    Error {
        /// The class of error where there is one, else the failure's own code.
        code: String,
        error: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_class: Option<String>,
        /// The failure's own code, which has a page in `docs/errors`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
        retryable: bool,
        /// The provider's HTTP status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        api_status: Option<u16>,
        /// The provider's own code for the error, such as `insufficient_quota`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        api_code: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finish_reason: Option<StopReason>,
        /// The model's text before it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial_text: Option<String>,
        turns: u32,
        tool_calls: u32,
        active_ms: Millis,
        usage: TokenUsage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured_output: Option<StructuredOutput>,
    },
    /// Terminal: the run was cancelled.
    Cancelled {
        reason: String,
        turns: u32,
        tool_calls: u32,
        active_ms: Millis,
        usage: TokenUsage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured_output: Option<StructuredOutput>,
    },
}

impl EventBody {
    /// The subtype of a `result` that is one.
    pub const SUCCESS: &'static str = "success";

    /// The subtype of a `result` that says that the caller did not answer a call in time.
    pub const LOCAL_TOOL_TIMEOUT: &'static str = "error_local_tool_timeout";

    /// The largest body an event shows; the transcript has it whole.
    pub const SHOWN_BYTES: u64 = 16 * 1024;

    /// The longest text of a person in an event that travels through history.
    pub const WORDS_BYTES: usize = crate::limits::REASON_BYTES;

    /// The types after which nothing may follow.
    pub const TERMINAL: [&'static str; 3] = ["result", "error", "cancelled"];

    /// The event's type and its data, as the log stores them.
    pub fn split(&self) -> Result<(&'static str, Value), serde_json::Error> {
        let mut data = serde_json::to_value(self)?;
        if let Some(fields) = data.as_object_mut() {
            fields.remove("type");
        }
        Ok((self.kind(), data))
    }

    /// The event's data as canonical JSON.
    pub fn data_text(&self) -> Result<String, serde_json::Error> {
        canonical::text_without("type", self)
    }

    /// The event's type as the log names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::AssistantDelta { .. } => "assistant_delta",
            Self::ThinkingDelta { .. } => "thinking_delta",
            Self::ProviderTool { .. } => "provider_tool",
            Self::TurnRestarted { .. } => "turn_restarted",
            Self::AttemptFailed { .. } => "attempt_failed",
            Self::ModelFallback { .. } => "model_fallback",
            Self::ContextTrimmed { .. } => "context_trimmed",
            Self::AssistantMessage { .. } => "assistant_message",
            Self::PlannerNote { .. } => "planner_note",
            Self::Usage { .. } => "usage",
            Self::ToolCall { .. } => "tool_call",
            Self::LocalToolCall { .. } => "local_tool_call",
            Self::LocalToolResultIn { .. } => "local_tool_result_in",
            Self::ToolProgress { .. } => "tool_progress",
            Self::ToolResult { .. } => "tool_result",
            Self::CallRefused { .. } => "call_refused",
            Self::LoopDetected { .. } => "loop_detected",
            Self::ToolBudgetExceeded { .. } => "tool_budget_exceeded",
            Self::ChildRunLinked { .. } => "child_run_linked",
            Self::AwaitOpened { .. } => "await_opened",
            Self::AwaitClosed { .. } => "await_closed",
            Self::ChildAwaitOpened { .. } => "child_await_opened",
            Self::ChildAwaitClosed { .. } => "child_await_closed",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::ApprovalGranted { .. } => "approval_granted",
            Self::ArgumentsEdited { .. } => "arguments_edited",
            Self::AnswerRejected { .. } => "answer_rejected",
            Self::SignalRejected { .. } => "signal_rejected",
            Self::Paused { .. } => "paused",
            Self::Resumed { .. } => "resumed",
            Self::Steered { .. } => "steered",
            Self::Finalizing { .. } => "finalizing",
            Self::Status { .. } => "status",
            Self::Result { .. } => "result",
            Self::Error { .. } => "error",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Result { .. } | Self::Error { .. } | Self::Cancelled { .. })
    }
}

fn is_zero(part: &u32) -> bool {
    *part == 0
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallSummary {
    pub id: CallId,
    pub name: ToolName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<CanonicalJson>,
}

/// Whether a schema was requested for the answer, and how it was enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StructuredOutput {
    pub schema_requested: bool,
    /// Whether the provider enforced the schema, natively or by a synthetic tool. Checking the answer afterwards does not
    /// count.
    pub schema_enforced: bool,
    pub enforcement_mechanism: EnforcementMechanism,
    /// The model was asked without the schema after all.
    pub unconstrained_fallback_occurred: bool,
}

/// How the provider enforced a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementMechanism {
    /// The provider constrained the model's output to the schema.
    NativeSchema,
    /// The answer is the arguments of a tool whose input schema is the output schema.
    SyntheticTool,
    /// Not enforced by the provider; the answer may match anyway.
    #[default]
    None,
}

/// How an await ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitClosure {
    Answered,
    Approved,
    Denied,
    Expired,
    /// The run ended first.
    Abandoned,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_splits_into_type_and_data_and_back() {
        let body = EventBody::AssistantDelta { text: "hi".into(), turn: 1, attempt: 2, part: 0 };
        let (kind, data) = body.split().unwrap();
        assert_eq!((kind, &data), ("assistant_delta", &json!({"text": "hi", "turn": 1, "attempt": 2})));
        assert_eq!(body.data_text().unwrap(), r#"{"attempt":2,"text":"hi","turn":1}"#);
        let event = Event { seq: 1, at: Timestamp(5), key: "k".into(), kind: kind.to_owned(), data };
        assert_eq!(event.body().unwrap(), body);
        assert!(!event.is_terminal());
    }

    #[test]
    fn an_event_type_of_a_newer_build_can_be_read_as_data() {
        let text = r#"{"seq":3,"at":9,"key":"k","type":"hologram","data":{"x":1}}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert_eq!(event.kind, "hologram");
        assert!(event.body().is_err());
    }
}
