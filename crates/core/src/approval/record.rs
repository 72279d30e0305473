//! What is known of one call's approval: what happened then, and what the rules say now.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ApprovalOutcome, DecisionReason, Explanation};
use crate::{
    envelope::Actor,
    event::AwaitClosure,
    ids::{AwaitId, CallId},
};

/// The approval of a call. Its `Display` is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallApproval {
    pub call: CallId,
    /// What happened when the model asked for the call, in order. Empty if neither a rule nor a person had a say.
    #[serde(default)]
    pub recorded: Vec<ApprovalStep>,
    /// What the rules and grants of now say of it. They may have changed since, and what the run had spent then is not
    /// known: rules with `costAtLeast` are judged as if it had spent nothing.
    pub now: Explanation,
}

/// One entry of the run's log about the approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ApprovalStep {
    Decided {
        outcome: ApprovalOutcome,
        reason: DecisionReason,
    },
    Asked {
        await_id: AwaitId,
    },
    Answered {
        await_id: AwaitId,
        outcome: AwaitClosure,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        actor: Option<Actor>,
    },
}

impl fmt::Display for CallApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.recorded.is_empty() {
            writeln!(f, "{}: no rule and no person decided about it", self.call)?;
        }
        for step in &self.recorded {
            writeln!(f, "{}: {step}", self.call)?;
        }
        write!(f, "\nnow:\n{}", self.now)
    }
}

impl fmt::Display for ApprovalStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided { outcome, reason } => write!(f, "{outcome}, {reason}"),
            Self::Asked { await_id } => write!(f, "asked in {await_id}"),
            Self::Answered { await_id, outcome, actor } => {
                let outcome = match outcome {
                    AwaitClosure::Answered => "answered",
                    AwaitClosure::Approved => "approved",
                    AwaitClosure::Denied => "denied",
                    AwaitClosure::Expired => "not answered in time",
                    AwaitClosure::Abandoned => "open when the run ended",
                };
                write!(f, "{await_id} was {outcome}")?;
                actor.as_ref().map_or(Ok(()), |actor| write!(f, " by {actor}"))
            }
        }
    }
}
