//! Calls that are not over when their activity returns: a tool asks a person for input, or works on elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::CanonicalJson;

/// How a call goes on. The run executes the tool again with `state`; if there are `inputs`, after a person answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continuation {
    /// For the tool; the run does not look into it. It is in history, so it holds no secret.
    pub state: CanonicalJson,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputRequest>,
    /// The next round only reads, so it may be repeated if its report is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeatable: bool,
}

impl Continuation {
    /// What one may have in all; more is a failure of the tool.
    pub const MAX_BYTES: u64 = 32 * 1024;
}

/// What a tool asks a person for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequest {
    /// Names the input among those of one continuation.
    pub key: String,
    pub prompt: String,
    /// JSON Schema of the content; any text without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// A page where the person does what is asked, for example to sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What a person did with a request for input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputResponse {
    pub action: InputAction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<CanonicalJson>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputAction {
    Accept,
    Decline,
    /// Closed without a decision.
    Cancel,
}

/// A later round of a call: the tool's own state, and what the person gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resumption {
    /// From 2.
    pub round: u32,
    pub state: CanonicalJson,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub responses: BTreeMap<String, InputResponse>,
    /// The round may be repeated even if the tool is not idempotent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeatable: bool,
}
