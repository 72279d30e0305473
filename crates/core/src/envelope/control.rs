//! Signals that steer a run, named as in loom-mcp's runtime.

use serde::{Deserialize, Serialize};

use super::{Actor, BlobRef, Bounds, Extra, Labels, RetryHint, ToolError};
use crate::{
    body::Body,
    canonical::{CanonicalJson, Digest},
    ids::{AwaitId, CallId, RunId, ToolName},
    message::Message,
};

/// Payload of `windlass.pause`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PauseRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "Actor::is_empty")]
    pub requested_by: Actor,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(skip_serializing_if = "Extra::is_empty")]
    pub metadata: Extra,
}

/// Payload of `windlass.resume`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResumeRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
    #[serde(skip_serializing_if = "Actor::is_empty")]
    pub requested_by: Actor,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Messages to the model before its next turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
}

/// Payload of `windlass.steer`: a user message before the model's next turn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SteerRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    #[serde(skip_serializing_if = "Actor::is_empty")]
    pub requested_by: Actor,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// Payload of `windlass.provide_clarification`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationAnswer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub id: AwaitId,
    pub answer: String,
    #[serde(default, skip_serializing_if = "Actor::is_empty")]
    pub requested_by: Actor,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// Payload of `windlass.provide_confirmation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmationDecision {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub id: AwaitId,
    pub approved: bool,
    pub requested_by: Actor,
    /// The digest of the arguments that were shown. An approval without it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The reason, for the log and, after a denial, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub metadata: Extra,
}

/// Payload of `windlass.provide_tool_results`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultsSet {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub id: AwaitId,
    pub results: Vec<ProvidedToolResult>,
    #[serde(default, skip_serializing_if = "Actor::is_empty")]
    pub requested_by: Actor,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// One result from outside: exactly one of `result`, `resultRef` and `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvidedToolResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ToolName>,
    pub tool_call_id: CallId,
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    pub result: Option<CanonicalJson>,
    /// A reference to a result in the store, for results above the inline limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<BlobRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_hint: Option<RetryHint>,
}

impl ProvidedToolResult {
    pub fn new(tool_call_id: CallId) -> Self {
        Self { name: None, tool_call_id, result: None, result_ref: None, bounds: None, error: None, retry_hint: None }
    }

    #[must_use]
    pub fn with_result(mut self, result: &Body) -> Self {
        self.result = result.inline().cloned();
        self.result_ref = result.stored();
        self
    }

    pub fn body(&self) -> Option<Body> {
        Body::from_fields(self.result.as_ref(), self.result_ref)
    }
}
