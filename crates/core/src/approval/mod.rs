//! Approval: whether one tool call runs, waits for a person, or is refused.
//!
//! Rules come in layers: workspace, agent, session, run. [`decide`] starts from the tool's own confirmation and goes
//! through the layers in this order. A stricter decision replaces the current one; a looser one does so only in a layer
//! that may relax. A `deny` that matches anywhere is final. Last, a [`Grant`] may turn an `ask` into an `allow`.
//!
//! [`explain`] returns the same decision with its whole trace. `docs/guides/approvals.md` is the guide.

mod argument;
mod check;
mod compare;
mod evaluate;
mod explain;
mod grant;
mod matching;
mod record;
mod request;
mod rule;
mod shape;
mod terms;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    argument::{ArgumentOp, ArgumentTest},
    check::{check_rules, read_rules},
    evaluate::{decide, explain},
    explain::{Explanation, GrantTrace, LayerEffect, LayerTrace, RuleTrace, Unmet},
    grant::{ApprovalScope, Grant, GrantShape},
    record::{ApprovalStep, CallApproval},
    request::{GrantArguments, GrantLevel, GrantRequest},
    rule::ApprovalRule,
    shape::{APPROVAL_RULE, parse_rules_file},
    terms::{ApproverBar, AskTerms, approver_bar, has_role},
};
use crate::{
    agent::{AgentDefinition, ConfirmationSpec, ToolSource, ToolSpec, Toolset},
    canonical::Digest,
    cost::Cost,
    envelope::{Actor, Extra},
    ids::{AgentId, GrantId, RunId, SessionId, ToolName},
    time::Timestamp,
};

/// What becomes of a call. The order is by strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOutcome {
    Allow,
    /// A person must approve it first.
    Ask,
    Deny,
}

/// Where rules come from, in the order in which they are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    Workspace,
    Agent,
    Session,
    Run,
}

/// The rules of one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalLayer {
    pub layer: Layer,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ApprovalRule>,
    /// Its decisions may be looser than those before it. A layer that a caller writes without authority only narrows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_relax: bool,
    /// Who set the rules of a session or a run. They relax a question only if this actor could have answered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_by: Option<Actor>,
}

/// The rules of a session or of a run, as they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnRules {
    pub rules: Vec<ApprovalRule>,
    pub set_by: Actor,
    pub set_at: Timestamp,
    /// The actor was allowed to approve calls; the rules of another one only narrow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_relax: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

impl OwnRules {
    pub fn layer(self, layer: Layer) -> ApprovalLayer {
        ApprovalLayer { layer, rules: self.rules, may_relax: self.may_relax, set_by: Some(self.set_by) }
    }
}

/// The layers of a run: the operator's rules for all agents, those of its agent, and those of its session and of the run
/// itself (`own`). `operators` is the operator's agent of the same id: an agent with other rules is a caller's, and does
/// not relax what the operator says of all agents.
pub fn layers(
    workspace: &[ApprovalRule],
    agent: &AgentDefinition,
    operators: Option<&AgentDefinition>,
    own: Vec<ApprovalLayer>,
) -> Vec<ApprovalLayer> {
    let configured = operators.is_some_and(|operators| operators.approvals == agent.approvals);
    let mut layers = vec![
        ApprovalLayer { layer: Layer::Workspace, rules: workspace.to_vec(), may_relax: true, set_by: None },
        ApprovalLayer {
            layer: Layer::Agent,
            rules: agent.approvals.clone(),
            may_relax: configured || workspace.is_empty(),
            set_by: None,
        },
    ];
    layers.extend(own);
    layers
}

/// Whether the operator's agent has this tool of a run's agent: the same tool, or one of the same MCP server.
pub fn is_configured(operators: &AgentDefinition, agent: &AgentDefinition, tool: &ToolSpec) -> bool {
    let toolset = |definition: &AgentDefinition, name: &str| {
        let found = definition.toolsets.iter().find(|toolset| toolset.name == name);
        found.map(|toolset| Toolset { resolved: None, ..toolset.clone() })
    };
    match &tool.source {
        ToolSource::Mcp(source) => {
            let configured = toolset(operators, &source.toolset);
            configured.is_some() && configured == toolset(agent, &source.toolset)
        }
        // What the agent leaves out of a built-in tool, the worker adds.
        ToolSource::Builtin => {
            operators.tools.iter().any(|own| own.source == ToolSource::Builtin && own.name == tool.name)
        }
        // A tool without a time-out has the server's.
        _ => operators
            .tools
            .iter()
            .any(|own| ToolSpec { timeout_ms: own.timeout_ms.or(tool.timeout_ms), ..own.clone() } == *tool),
    }
}

/// What is known of a call when it is decided.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    pub tool: &'a ToolName,
    pub tags: &'a [String],
    /// The kind of the tool's source, as definitions write it: `builtin`, `http` and so on.
    pub source: &'a str,
    /// `None` if the arguments are too large to look into: an `allow` with tests does not match then, a `deny` or an
    /// `ask` does.
    pub args: Option<&'a Value>,
    pub args_digest: Digest,
    /// The tool's own confirmation.
    pub confirmation: Option<&'a ConfirmationSpec>,
    /// Who started the run.
    pub starter: Option<&'a Actor>,
    /// What the run has spent so far.
    pub cost: Cost,
    pub run: &'a RunId,
    pub session: Option<&'a SessionId>,
    pub agent: &'a AgentId,
    /// The operator's agent of this id has this tool. A caller can send another agent with the same id, so a grant for an
    /// agent holds for its configured tools only.
    pub configured: bool,
}

/// The decision about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecision {
    pub outcome: ApprovalOutcome,
    pub reason: DecisionReason,
    /// How the person is asked; only with the outcome `ask`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskTerms>,
}

/// What made the outcome what it is. A later rule that adds to an `ask` is not its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DecisionReason {
    Rule(RuleRef),
    /// Denied: the roles of this rule and those of the rules before it have none in common, so no person could approve.
    NoApprover(RuleRef),
    Grant {
        id: GrantId,
    },
    /// The tool's own confirmation.
    Confirmation,
    /// The tool has no confirmation, and no rule says otherwise.
    Default,
}

/// One rule of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleRef {
    pub layer: Layer,
    /// In the layer, from 0.
    pub index: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[cfg(test)]
mod tests;
