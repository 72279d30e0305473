//! The boundary of one tool call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BlobRef, Continuation, Extra, Resumption, TranscriptHead, version};
use crate::{
    body::Body,
    canonical::{CanonicalJson, Digest},
    event::EventBody,
    ids::{AgentId, CallId, RunId, SessionId, ToolName, WorkspaceId},
    time::Millis,
};

/// Why a body was left out of an envelope.
pub const OMITTED_FOR_BUDGET: &str = "workflow_budget";

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    #[default]
    Ok,
    /// The tool ran and failed, or never could run.
    Failed,
    /// A guard, a policy or a person did not let it run.
    Refused,
    /// It was stopped because the run ended.
    Cancelled,
    /// The call may or may not have run.
    OutcomeUnknown,
}

/// Input of the tool activity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub agent_id: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset_name: Option<String>,
    pub tool_name: ToolName,
    pub tool_call_id: CallId,
    /// The arguments, when they are small enough to travel.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    pub payload: Option<CanonicalJson>,
    pub payload_digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_ref: Option<BlobRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<CallId>,
    pub workspace: WorkspaceId,
    pub turn: u32,
    /// How often this call was handed out; a later number fences off an earlier one.
    pub dispatch: u32,
    /// Whether a repeat is harmless.
    pub idempotent: bool,
    pub agent_digest: Digest,
    /// The largest body the output may carry.
    pub inline_limit: u64,
    /// For the second and later rounds of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumption: Option<Resumption>,
    /// A person changed the arguments, so they are checked again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolInput {
    pub fn args(&self) -> Option<Body> {
        Body::from_fields(self.payload.as_ref(), self.payload_ref)
    }

    /// Names this round of the call in the journal: rounds begin and end one by one.
    pub fn journal_id(&self) -> CallId {
        match &self.resumption {
            None => self.tool_call_id.clone(),
            Some(resumption) => CallId::new(format!("{}~{}", self.tool_call_id, resumption.round)),
        }
    }
}

/// Input of the activity that follows the heartbeats of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub tool_name: ToolName,
    /// The call, which is also the id of its activity.
    pub call_id: CallId,
    /// How often the activity must send a heartbeat.
    pub heartbeat_timeout_ms: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowOutput {
    #[serde(default = "version")]
    pub v: u32,
}

/// Input of the activity that reads a stored body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub stored: BlobRef,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadOutput {
    #[serde(default = "version")]
    pub v: u32,
    pub text: CanonicalJson,
}

/// Input of the activity that takes the result of a call that the workflow itself scheduled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiveInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub tool_name: ToolName,
    pub tool_call_id: CallId,
    pub agent_digest: Digest,
    /// The largest body the output may carry.
    pub inline_limit: u64,
    pub result: CanonicalJson,
}

/// Output of the tool activity. A result that does not travel is already in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    #[serde(default = "version")]
    pub v: u32,
    pub status: CallStatus,
    /// With the next four fields: see [`Self::result`].
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    payload: Option<CanonicalJson>,
    #[serde(default)]
    pub result_bytes: u64,
    #[serde(default)]
    result_omitted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_omitted_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_ref: Option<BlobRef>,
    /// With `content_ref`: see [`Self::content`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<CanonicalJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_ref: Option<BlobRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<ToolTelemetry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_hint: Option<RetryHint>,
    /// The call is not over. Builds that do not know this read `status` and `error`: the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Continuation>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolOutput {
    pub fn new(status: CallStatus) -> Self {
        Self {
            v: version(),
            status,
            payload: None,
            result_bytes: 0,
            result_omitted: false,
            result_omitted_reason: None,
            result_ref: None,
            content: None,
            content_ref: None,
            server_data: None,
            bounds: None,
            telemetry: None,
            error: None,
            retry_hint: None,
            continuation: None,
            extra: Extra::new(),
        }
    }

    #[must_use]
    pub fn with_result(mut self, result: &Body) -> Self {
        self.payload = result.inline().cloned();
        self.result_bytes = result.bytes();
        self.result_ref = result.stored();
        self.result_omitted = self.result_ref.is_some();
        self.result_omitted_reason = self.result_omitted.then(|| OMITTED_FOR_BUDGET.to_owned());
        self
    }

    /// Parts beside the structured result, as a JSON array.
    #[must_use]
    pub fn with_content(mut self, content: Option<&Body>) -> Self {
        self.content = content.and_then(Body::inline).cloned();
        self.content_ref = content.and_then(Body::stored);
        self
    }

    pub fn result(&self) -> Option<Body> {
        Body::from_fields(self.payload.as_ref(), self.result_ref)
    }

    /// Where the result is, if it does not travel.
    pub fn result_ref(&self) -> Option<BlobRef> {
        self.result_ref
    }

    #[must_use]
    pub fn with_error(mut self, error: ToolError) -> Self {
        self.error = Some(error);
        self
    }
}

/// The record of one call that travels to the planner and into the transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallOutput {
    pub name: ToolName,
    pub tool_call_id: CallId,
    /// Older builds leave it out of the results that a run reports.
    #[serde(default)]
    pub status: CallStatus,
    /// With the next four fields: see [`Self::result`].
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    result: Option<CanonicalJson>,
    #[serde(default)]
    pub result_bytes: u64,
    #[serde(default)]
    result_omitted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_omitted_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_ref: Option<BlobRef>,
    /// With `content_ref`: see [`Self::content`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<CanonicalJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_ref: Option<BlobRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_hint: Option<RetryHint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<ToolTelemetry>,
    /// How many calls a nested run made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_link: Option<RunLink>,
    #[serde(flatten)]
    pub extra: Extra,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl ToolCallOutput {
    pub fn from_output(name: ToolName, tool_call_id: CallId, output: ToolOutput) -> Self {
        Self {
            name,
            tool_call_id,
            status: output.status,
            result: output.payload,
            result_bytes: output.result_bytes,
            result_omitted: output.result_omitted,
            result_omitted_reason: output.result_omitted_reason,
            result_ref: output.result_ref,
            content: output.content,
            content_ref: output.content_ref,
            server_data: output.server_data,
            bounds: output.bounds,
            error: output.error,
            retry_hint: output.retry_hint,
            telemetry: output.telemetry,
            children_count: 0,
            run_link: None,
            extra: Extra::new(),
        }
    }

    /// A call that produced no result of its own.
    pub fn without_result(name: ToolName, tool_call_id: CallId, status: CallStatus, error: ToolError) -> Self {
        Self::from_output(name, tool_call_id, ToolOutput::new(status).with_error(error))
    }

    pub fn result(&self) -> Option<Body> {
        Body::from_fields(self.result.as_ref(), self.result_ref)
    }

    /// Parts that the tool returned beside its structured result, as a JSON array.
    pub fn content(&self) -> Option<Body> {
        Body::from_fields(self.content.as_ref(), self.content_ref)
    }

    /// The result as an event shows it: absent if it is too large for that or did not travel.
    pub fn shown_result(&self) -> Option<CanonicalJson> {
        self.result.clone().filter(|_| self.result_bytes <= EventBody::SHOWN_BYTES)
    }

    /// The record as the run's own output has it: a body that a person or an edge put in whole may be too large for that.
    #[must_use]
    pub(crate) fn without_large_result(mut self, inline_limit: u64) -> Self {
        if self.result_bytes > inline_limit {
            self.result_omitted = true;
            self.result_omitted_reason = Some(OMITTED_FOR_BUDGET.to_owned());
            self.result = None;
        }
        self.content = None;
        self
    }
}

/// The run that answered a call, and the call that started the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunLink {
    pub run_id: RunId,
    pub agent_id: AgentId,
    pub parent_run_id: RunId,
    pub parent_tool_call_id: CallId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<TranscriptHead>,
}

/// A failure the model can read. `kind` is for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    pub kind: ToolErrorKind,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<ToolError>>,
}

impl ToolError {
    /// Longer messages are cut: an error must not become a way to smuggle a body through history.
    const MAX_MESSAGE: usize = 1024;

    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > Self::MAX_MESSAGE {
            let mut end = Self::MAX_MESSAGE;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
            message.push('…');
        }
        Self { kind, message, cause: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorKind {
    /// The arguments do not satisfy the tool's schema.
    ToolInputInvalid,
    /// No such tool.
    ToolUnknown,
    /// The tool could not be reached.
    ToolUnavailable,
    /// The tool ran and said no.
    ToolFailed,
    RateLimited,
    Timeout,
    /// It may have happened.
    OutcomeUnknown,
    PerTurnCap,
    ToolCap,
    TimeBudget,
    LoopDetected,
    ToolBudgetExceeded,
    PolicyDenied,
    /// A person said no.
    Denied,
    /// No person answered in time.
    Expired,
    Cancelled,
    Internal,
}

/// How a result was cut out of a larger one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bounds {
    pub returned: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refinement_hint: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolTelemetry {
    pub duration_ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_used: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Extra::is_empty")]
    pub extra: Extra,
}

/// How the model can do better next time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryHint {
    pub reason: RetryReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    #[serde(default)]
    pub restrict_to_tool: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_fields: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<FieldIssue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example_input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarifying_question: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl RetryHint {
    /// A hint that says no more than its reason.
    pub fn new(reason: RetryReason) -> Self {
        Self {
            reason,
            tool: None,
            restrict_to_tool: false,
            missing_fields: Vec::new(),
            issues: Vec::new(),
            example_input: None,
            prior_input: None,
            clarifying_question: None,
            message: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryReason {
    InvalidArguments,
    MissingFields,
    MalformedResponse,
    Timeout,
    RateLimited,
    ToolUnavailable,
}

/// One thing wrong with the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldIssue {
    /// JSON pointer.
    pub field: String,
    /// The schema keyword that was not satisfied.
    pub constraint: String,
    pub message: String,
}
