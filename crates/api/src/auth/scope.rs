//! Scopes: what an API key may do.

use std::fmt;

/// The scope of keys that may do everything.
const EVERYTHING: &str = "*";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    ModelsRead,
    RunsRead,
    /// Start, pause, resume, steer and cancel; results of the caller's own tools.
    RunsWrite,
    /// Answers to questions, and results of calls that are executed outside.
    RunsAnswer,
    /// Decisions about calls that wait for an approval.
    RunsApprove,
    SessionsRead,
    SessionsWrite,
    IdentityRead,
    /// Headers of tools that refer to secrets of the workspace.
    SecretsUse,
}

/// All scopes, for commands that create keys.
pub const ALL_SCOPES: [Scope; 9] = [
    Scope::ModelsRead,
    Scope::RunsRead,
    Scope::RunsWrite,
    Scope::RunsAnswer,
    Scope::RunsApprove,
    Scope::SessionsRead,
    Scope::SessionsWrite,
    Scope::IdentityRead,
    Scope::SecretsUse,
];

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ModelsRead => "models:read",
            Self::RunsRead => "runs:read",
            Self::RunsWrite => "runs:write",
            Self::RunsAnswer => "runs:answer",
            Self::RunsApprove => "runs:approve",
            Self::SessionsRead => "sessions:read",
            Self::SessionsWrite => "sessions:write",
            Self::IdentityRead => "identity:read",
            Self::SecretsUse => "secrets:use",
        }
    }

    /// Parses a scope; `*` stands for all.
    pub fn parse(text: &str) -> Result<String, String> {
        let known = ALL_SCOPES.map(Self::as_str);
        if text == EVERYTHING || known.contains(&text) {
            return Ok(text.to_owned());
        }
        Err(format!("there is no scope {text:?}; there are {} and {EVERYTHING} for all", known.join(", ")))
    }

    pub(super) fn is_in(self, scopes: &[String]) -> bool {
        scopes.iter().any(|scope| scope == EVERYTHING || scope == self.as_str())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
