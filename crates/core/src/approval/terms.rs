//! How a person is asked, and who may answer.

use serde::{Deserialize, Serialize};

use crate::{agent::ConfirmationSpec, awaits::ExpiryOutcome, envelope::Actor, time::Millis};

/// The terms of one question.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AskTerms {
    /// Who may answer: an actor with one of these roles. Empty is every actor that is allowed to approve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<ExpiryOutcome>,
    /// The starter of the run may not approve.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
    /// The approver may edit the arguments.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edit: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Shown to the person; `{name}` stands for a top-level argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

impl AskTerms {
    pub(crate) fn of(confirmation: &ConfirmationSpec) -> Self {
        let ConfirmationSpec { title, prompt, expires_in_ms, on_expiry, four_eyes } = confirmation.clone();
        Self { roles: Vec::new(), expires_in_ms, on_expiry, four_eyes, edit: false, title, prompt }
    }

    /// The terms of two rules that both ask: restrictions add up. `None` if no role may answer both.
    ///
    /// The earlier texts stay, because a later layer may be the caller's, and a person decides by what they read.
    pub(super) fn joined(&self, later: &Self) -> Option<Self> {
        let (expires_in_ms, on_expiry) = match (self.expires_in_ms, later.expires_in_ms) {
            (Some(earlier), Some(own)) if own < earlier => (Some(own), later.on_expiry),
            (None, Some(own)) => (Some(own), later.on_expiry),
            (earlier, _) => (earlier, self.on_expiry),
        };
        Some(Self {
            roles: common(&self.roles, &later.roles)?,
            expires_in_ms,
            on_expiry,
            four_eyes: self.four_eyes || later.four_eyes,
            edit: self.edit && later.edit,
            title: self.title.clone().or_else(|| later.title.clone()),
            prompt: self.prompt.clone().or_else(|| later.prompt.clone()),
        })
    }
}

/// The roles that are in both lists; an empty list is all roles.
fn common(earlier: &[String], later: &[String]) -> Option<Vec<String>> {
    if earlier.is_empty() || later.is_empty() {
        return Some([earlier, later].concat());
    }
    let both: Vec<String> = earlier.iter().filter(|role| later.contains(role)).cloned().collect();
    (!both.is_empty()).then_some(both)
}

/// Why an actor may not approve a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApproverBar {
    /// It has none of the roles.
    Role,
    /// The call takes a second person, and the actor started the run.
    Starter,
    /// The call takes a second person, and the run does not say who started it.
    UnknownStarter,
}

/// Whether one of the actor's roles is asked for. No roles are every actor's.
pub fn has_role(roles: &[String], actor: &Actor) -> bool {
    roles.is_empty() || roles.iter().any(|role| actor.roles.contains(role))
}

/// Why the actor may not approve, if it may not. Only authenticated ids are compared: a claimed name does not make an
/// actor a different person. That the actor may approve at all is checked at the edge.
pub fn approver_bar(roles: &[String], four_eyes: bool, actor: &Actor, starter: Option<&Actor>) -> Option<ApproverBar> {
    if !has_role(roles, actor) {
        return Some(ApproverBar::Role);
    }
    match starter {
        _ if !four_eyes => None,
        None => Some(ApproverBar::UnknownStarter),
        Some(starter) => (starter.id == actor.id || actor.is_empty()).then_some(ApproverBar::Starter),
    }
}
