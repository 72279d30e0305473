//! How a decision came about, as data and as plain text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ApprovalDecision, ApprovalOutcome, AskTerms, DecisionReason, Layer, RuleRef};
use crate::{
    awaits::ExpiryOutcome,
    ids::{GrantId, ToolName},
    time::friendly,
};

/// The trace of one decision. Its `Display` is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub tool: ToolName,
    /// Before any rule: `ask` if the tool has a confirmation, else `allow`.
    pub start: ApprovalOutcome,
    /// In the order in which they were applied.
    #[serde(default)]
    pub layers: Vec<LayerTrace>,
    /// Empty if the rules did not end in `ask`: no grant was looked at.
    #[serde(default)]
    pub grants: Vec<GrantTrace>,
    pub decision: ApprovalDecision,
}

/// What one layer did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerTrace {
    pub layer: Layer,
    pub may_relax: bool,
    #[serde(default)]
    pub rules: Vec<RuleTrace>,
    /// The rule that decided for the layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides: Option<usize>,
    pub effect: LayerEffect,
}

/// What a layer's decision did to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerEffect {
    /// No rule matched.
    NoMatch,
    /// The outcome was the same already, or a deny.
    Unchanged,
    Stricter,
    Relaxed,
    /// It was looser, and the layer may not relax.
    MayNotRelax,
    /// Both ask, and the terms add up.
    Added,
    /// Both ask, and no role may answer both.
    NoApprover,
}

/// Whether one rule matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleTrace {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub outcome: ApprovalOutcome,
    /// Absent if the rule matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Unmet>,
}

/// The first condition of a rule that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unmet {
    /// As files write it: `tool`, `when[0]`.
    pub field: String,
    pub why: String,
}

/// Whether one grant applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantTrace {
    pub id: GrantId,
    /// Why it did not apply; absent if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmet: Option<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = match self.start {
            ApprovalOutcome::Allow => "the tool has no confirmation",
            ApprovalOutcome::Ask | ApprovalOutcome::Deny => "the tool has a confirmation",
        };
        writeln!(f, "call of {}", self.tool)?;
        writeln!(f, "start: {}, {own}", self.start)?;
        for layer in &self.layers {
            layer.fmt(f)?;
        }
        for grant in &self.grants {
            match &grant.unmet {
                None => writeln!(f, "grant {}: applies", grant.id)?,
                Some(why) => writeln!(f, "grant {}: does not apply, {why}", grant.id)?,
            }
        }
        write!(f, "outcome: {}, {}", self.decision.outcome, self.decision.reason)?;
        match &self.decision.ask {
            Some(terms) => write_terms(terms, f),
            None => Ok(()),
        }
    }
}

/// Each term on a line of its own, after the outcome.
fn write_terms(terms: &AskTerms, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match terms.roles.as_slice() {
        [] => write!(f, "\n  who may answer: every actor that may approve")?,
        roles => write!(f, "\n  who may answer: {}", roles.join(", "))?,
    }
    if terms.four_eyes {
        write!(f, "; not the starter of the run")?;
    }
    let edit = if terms.edit { "the approver may edit them" } else { "as they are" };
    write!(f, "\n  arguments: {edit}")?;
    let Some(span) = terms.expires_in_ms else { return write!(f, "\n  expires: never") };
    let then = match terms.on_expiry.unwrap_or(ExpiryOutcome::Deny) {
        ExpiryOutcome::Deny => "deny",
        ExpiryOutcome::Default => "default",
        ExpiryOutcome::Replan => "replan",
        ExpiryOutcome::Fail => "fail",
    };
    write!(f, "\n  expires: after {}, then {then}", friendly::print(span.as_duration()))
}

impl fmt::Display for LayerTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = if self.may_relax { "may relax" } else { "may only narrow" };
        writeln!(f, "{} layer, {power}:", self.layer)?;
        for (index, rule) in self.rules.iter().enumerate() {
            write!(f, "  rule {index}{} {}: ", Named(rule.name.as_deref()), rule.outcome)?;
            match &rule.unmet {
                None => writeln!(f, "matches")?,
                Some(Unmet { field, why }) => writeln!(f, "does not match, {field}: {why}")?,
            }
        }
        f.write_str("  ")?;
        if let Some((index, rule)) = self.decides.and_then(|index| Some((index, self.rules.get(index)?))) {
            write!(f, "the layer decides {} by rule {index}: ", rule.outcome)?;
        }
        writeln!(f, "{}", self.effect)
    }
}

impl fmt::Display for LayerEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMatch => "no rule matches, nothing changes",
            Self::Unchanged => "the outcome does not change",
            Self::Stricter => "stricter than before, so it holds",
            Self::Relaxed => "looser than before, and the layer may relax, so it holds",
            Self::MayNotRelax => "looser than before, and the layer may not relax, so the outcome does not change",
            Self::Added => "asked for already, so its terms are added",
            Self::NoApprover => "no role may answer this and what was asked for before, so the call is denied",
        })
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "by {rule}"),
            Self::NoApprover(rule) => write!(f, "because {rule} leaves no role that may answer"),
            Self::Grant { id } => write!(f, "by grant {id}"),
            Self::Confirmation => f.write_str("by the tool's own confirmation"),
            Self::Default => f.write_str("by default"),
        }
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}{} of the {} layer", self.index, Named(self.name.as_deref()), self.layer)
    }
}

/// A rule's name after its number. It is quoted, because a caller may have chosen it.
struct Named<'a>(Option<&'a str>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, " {name:?}"))
    }
}

impl fmt::Display for ApprovalOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workspace => "workspace",
            Self::Agent => "agent",
            Self::Session => "session",
            Self::Run => "run",
        })
    }
}
