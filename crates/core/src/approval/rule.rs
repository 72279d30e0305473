//! A rule: which calls it is about, and what becomes of them.

use serde::{Deserialize, Serialize};

use super::{ApprovalOutcome, ArgumentTest, AskTerms};
use crate::{cost::Cost, envelope::Extra};

/// A rule matches a call if all its conditions hold; a rule without conditions matches every call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRule {
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tool's name; `*` stands for any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool has at least one of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The kind of the tool's source, as definitions write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Whether the tool has the tag `read_only`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// All of these hold for the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<ArgumentTest>,
    /// The id of the run's starter; `*` stands for any text. A run without a starter does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The run has spent this or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_at_least: Option<Cost>,
    pub outcome: ApprovalOutcome,
    /// For the outcome `ask`.
    #[serde(flatten)]
    pub terms: AskTerms,
    /// Fields this build does not know. A definition is addressed by its content, so they must survive. They may be
    /// conditions: an `allow` with such a field matches nothing here.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ApprovalRule {
    /// A rule that matches every call.
    pub fn new(outcome: ApprovalOutcome) -> Self {
        Self {
            name: None,
            tool: None,
            tags: Vec::new(),
            source: None,
            read_only: None,
            when: Vec::new(),
            caller: None,
            cost_at_least: None,
            outcome,
            terms: AskTerms::default(),
            extra: Extra::new(),
        }
    }
}
