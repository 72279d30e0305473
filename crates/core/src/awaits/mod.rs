//! Awaits: what a run waits for from the outside world, keyed by id and answered in any order.

mod child;
mod judge;
mod log;
mod table;

use serde::{Deserialize, Serialize};

pub use self::{
    child::{ChildAwait, addressed, id_seen_from},
    judge::Resolution,
    log::pending_in,
    table::{AwaitTable, NewAwait},
};
use crate::{
    canonical::{CanonicalJson, Digest},
    envelope::{InputRequest, Question},
    ids::{AwaitId, CallId, ToolName},
    time::Timestamp,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitKind {
    Clarification,
    Questions,
    ExternalTools,
    Confirmation,
    /// A tool that has begun asks a person for input.
    Input,
}

/// What happens when an await expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpiryOutcome {
    /// As a denial, with the error kind `expired`.
    Deny,
    /// The await's default answer; without one, as `replan`.
    Default,
    /// The model is told and plans again.
    Replan,
    /// The run fails.
    Fail,
}

/// An open await as people and programs see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitView {
    pub id: AwaitId,
    pub kind: AwaitKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub prompt: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<AwaitedCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// What a tool asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputRequest>,
    pub opened_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub on_expiry: ExpiryOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_answer: Option<String>,
    /// Who may approve or deny: an actor with one of these roles. Empty is every actor that may approve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The starter of the run may not approve.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
    /// Who approves may change the arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edit: bool,
    /// Set where a root run shows an await of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildAwait>,
}

/// A call an await is about. An approval is bound to `digest`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedCall {
    pub tool_call_id: CallId,
    pub name: ToolName,
    pub digest: Digest,
    /// The arguments, when they are small enough to travel.
    #[serde(default, deserialize_with = "crate::envelope::present", skip_serializing_if = "Option::is_none")]
    pub args: Option<CanonicalJson>,
}
