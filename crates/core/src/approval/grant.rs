//! Grants: a person approved and said not to ask again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ApproverBar, AskTerms, CallFacts, approver_bar, compare::same};
use crate::{
    canonical::Digest,
    envelope::{Actor, Extra},
    ids::{AgentId, GrantId, RunId, SessionId, ToolName},
    time::Timestamp,
};

/// Calls that are not asked about again. A grant turns an `ask` into an `allow`; it has no effect on a `deny`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    pub id: GrantId,
    pub scope: ApprovalScope,
    pub tool: ToolName,
    pub shape: GrantShape,
    pub granted_by: Actor,
    pub granted_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
    /// Fields this build does not know. They may narrow the grant, so a grant with one does not apply here.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where a grant holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovalScope {
    Run {
        id: RunId,
    },
    Session {
        id: SessionId,
    },
    Agent {
        id: AgentId,
    },
    /// Of a newer build; it holds nowhere here.
    #[serde(other)]
    Unknown,
}

impl ApprovalScope {
    /// Everything that a call of this run is in.
    pub fn of(run: &RunId, session: Option<&SessionId>, agent: &AgentId) -> Vec<Self> {
        let session = session.map(|id| Self::Session { id: id.clone() });
        [Self::Run { id: run.clone() }, Self::Agent { id: agent.clone() }].into_iter().chain(session).collect()
    }
}

/// Which arguments a grant is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GrantShape {
    AnyArguments,
    /// Exactly these arguments.
    SameArguments {
        digest: Digest,
    },
    /// The values at these JSON pointers are equal; other values may differ.
    SameValues {
        values: BTreeMap<String, Value>,
    },
    /// Of a newer build; no arguments have it here.
    #[serde(other)]
    Unknown,
}

impl Grant {
    /// Why the grant does not answer this question, if it does not.
    pub(super) fn unmet(&self, call: &CallFacts<'_>, terms: &AskTerms, now: Timestamp) -> Option<String> {
        if self.revoked {
            return Some("it was revoked".to_owned());
        }
        if let Some(at) = self.expires_at.filter(|at| *at <= now) {
            return Some(format!("it expired at {}", at.rfc3339()));
        }
        if let Some(field) = self.extra.keys().next() {
            return Some(format!("it has the field {field:?}, which this build does not know"));
        }
        if self.tool != *call.tool {
            return Some(format!("it is for the tool {}", self.tool));
        }
        self.unmet_by_scope(call).or_else(|| self.shape.unmet(call)).or_else(|| self.unmet_by_giver(call, terms))
    }

    fn unmet_by_scope(&self, call: &CallFacts<'_>) -> Option<String> {
        match &self.scope {
            ApprovalScope::Run { id } => (id != call.run).then(|| format!("it is for the run {id}")),
            ApprovalScope::Session { id } => (Some(id) != call.session).then(|| format!("it is for the session {id}")),
            ApprovalScope::Agent { id } if id != call.agent => Some(format!("it is for the agent {id}")),
            ApprovalScope::Agent { id } => (!call.configured)
                .then(|| format!("it is for the configured tools of the agent {id}, and this is not one of them")),
            ApprovalScope::Unknown => Some("this build does not know its scope".to_owned()),
        }
    }

    /// The giver could have answered this question.
    fn unmet_by_giver(&self, call: &CallFacts<'_>, terms: &AskTerms) -> Option<String> {
        let bar = approver_bar(&terms.roles, terms.four_eyes, &self.granted_by, call.starter)?;
        Some(match bar {
            ApproverBar::Role => format!("its giver has none of the roles {}", terms.roles.join(", ")),
            ApproverBar::Starter => "the call takes a second person, and the starter of the run gave it".to_owned(),
            ApproverBar::UnknownStarter => {
                "the call takes a second person, and the run does not say who started it".to_owned()
            }
        })
    }
}

impl GrantShape {
    fn unmet(&self, call: &CallFacts<'_>) -> Option<String> {
        match self {
            Self::AnyArguments => None,
            Self::SameArguments { digest } if *digest == call.args_digest => None,
            Self::SameArguments { .. } => Some("it is for other arguments".to_owned()),
            // Without values it would be for any arguments, and that is written otherwise.
            Self::SameValues { values } if values.is_empty() => Some("it does not say which arguments".to_owned()),
            Self::SameValues { values } => {
                let Some(args) = call.args else { return Some("the arguments are too large to look into".to_owned()) };
                let differs =
                    |(at, value): &(&String, &Value)| !args.pointer(at).is_some_and(|found| same(found, value));
                values.iter().find(differs).map(|(at, _)| format!("it is for another value at {at:?}"))
            }
            Self::Unknown => Some("this build does not know which arguments it is for".to_owned()),
        }
    }
}
