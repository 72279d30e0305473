//! The updates that answer a run and reply at once: one for every kind of await, and one for a single call.

use serde::{Deserialize, Serialize};

use super::{Actor, ClarificationAnswer, ConfirmationDecision, Extra, ProvidedToolResult, ToolResultsSet, version};
use crate::{
    approval::GrantRequest,
    canonical::{CanonicalJson, Digest},
    ids::AwaitId,
};

/// An answer to an await.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    #[serde(default = "version")]
    pub v: u32,
    pub await_id: AwaitId,
    /// Who answers.
    pub actor: Actor,
    pub body: AnswerBody,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AnswerBody {
    Clarification {
        answer: String,
    },
    Confirmation {
        approved: bool,
        /// The digest of the arguments that were shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// The reason, for the log and, after a denial, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// With an approval: later calls like this one are not asked about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<GrantRequest>,
    },
    /// An approval of the call with other arguments than those that were shown.
    EditedApproval {
        /// The digest of the arguments that were shown.
        digest: Digest,
        arguments: CanonicalJson,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    ToolResults {
        results: Vec<ProvidedToolResult>,
    },
}

impl AnswerBody {
    /// The call with exactly these arguments is approved.
    pub fn approval(digest: Digest) -> Self {
        Self::Confirmation { approved: true, digest: Some(digest), reason: None, grant: None }
    }

    pub fn denial(reason: Option<String>) -> Self {
        Self::Confirmation { approved: false, digest: None, reason, grant: None }
    }

    /// The words of the person who answered: the text, or the reason for a decision. Results have none.
    pub fn words(&self) -> Option<&str> {
        let words = match self {
            Self::Clarification { answer } => Some(answer.as_str()),
            Self::Confirmation { reason, .. } | Self::EditedApproval { reason, .. } => reason.as_deref(),
            Self::ToolResults { .. } => None,
        };
        words.map(str::trim).filter(|words| !words.is_empty())
    }
}

impl Answer {
    pub fn new(await_id: AwaitId, actor: impl Into<Actor>, body: AnswerBody) -> Self {
        Self { v: version(), await_id, actor: actor.into(), body, extra: Extra::new() }
    }
}

impl From<ClarificationAnswer> for Answer {
    fn from(signal: ClarificationAnswer) -> Self {
        Self::new(signal.id, signal.requested_by, AnswerBody::Clarification { answer: signal.answer })
    }
}

impl From<ConfirmationDecision> for Answer {
    fn from(signal: ConfirmationDecision) -> Self {
        let ConfirmationDecision { approved, digest, reason, .. } = signal;
        let body = AnswerBody::Confirmation { approved, digest, reason, grant: None };
        Self::new(signal.id, signal.requested_by, body)
    }
}

impl From<ToolResultsSet> for Answer {
    fn from(signal: ToolResultsSet) -> Self {
        Self::new(signal.id, signal.requested_by, AnswerBody::ToolResults { results: signal.results })
    }
}

/// The result of one externally executed call, addressed by the call's id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallAnswer {
    #[serde(default = "version")]
    pub v: u32,
    /// Who answers.
    #[serde(default, skip_serializing_if = "Actor::is_empty")]
    pub actor: Actor,
    /// The sender may answer calls of the caller's own tools and no others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_tools_only: bool,
    #[serde(flatten)]
    pub result: ProvidedToolResult,
}

impl CallAnswer {
    pub fn new(actor: impl Into<Actor>, result: ProvidedToolResult) -> Self {
        Self { v: version(), actor: actor.into(), own_tools_only: false, result }
    }
}

/// The result of an answer. Only `Accepted` changed the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerStatus {
    Accepted,
    /// The same answer was accepted before.
    Duplicate,
    /// The await is closed; another answer or the end of the run came first.
    Stale,
    /// This run never had such an await.
    Unknown,
    /// The answer does not fit the await.
    Invalid,
    /// The await's time ran out.
    Expired,
}

const RUN_ENDED: &str = "the run has ended";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerReply {
    #[serde(default = "version")]
    pub v: u32,
    pub status: AnswerStatus,
    /// For people: why, and what to do next.
    pub message: String,
}

impl AnswerReply {
    pub fn new(status: AnswerStatus, message: impl Into<String>) -> Self {
        Self { v: version(), status, message: message.into() }
    }

    /// The reply to an answer after the run has ended.
    pub fn run_ended() -> Self {
        Self::new(AnswerStatus::Stale, RUN_ENDED)
    }

    /// Whether nothing can be answered any more, rather than this one await.
    pub fn is_run_ended(&self) -> bool {
        self.status == AnswerStatus::Stale && self.message == RUN_ENDED
    }

    pub fn accepted(&self) -> bool {
        self.status == AnswerStatus::Accepted
    }
}
