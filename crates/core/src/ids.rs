//! Identifiers. Each is its own type so that a session id cannot be passed where a run id is meant.
//!
//! Decoding accepts any string, because a history written long ago must decode; `parse` is what an edge calls on input
//! from outside.

use std::{borrow::Borrow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Why a string is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} is not valid: use 1 to {max} characters of A-Z a-z 0-9 and . _ - / : @")]
pub struct InvalidId {
    what: &'static str,
    value: String,
    max: usize,
}

fn check(what: &'static str, max: usize, value: &str) -> Result<(), InvalidId> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    if value.is_empty() || value.len() > max || !value.chars().all(allowed) {
        let value = value.chars().take(64).collect();
        return Err(InvalidId { what, value, max });
    }
    Ok(())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the string as it is; for values this system made itself.
            pub fn new(value: impl Into<String>) -> Self {
                Self(value.into())
            }

            /// Takes a string from outside.
            pub fn parse(value: &str) -> Result<Self, InvalidId> {
                check($what, $max, value)?;
                Ok(Self(value.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(value: &str) -> Result<Self, InvalidId> {
                Self::parse(value)
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self::new(value)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id!(
    /// The tenant a run belongs to.
    WorkspaceId, "workspace", 64
);
id!(
    /// A conversation; it groups runs.
    SessionId, "session id", 128
);
id!(
    /// One run; also its workflow id.
    RunId, "run id", 256
);
id!(
    /// Which agent a run executes.
    AgentId, "agent id", 128
);
id!(
    /// A tool's fully qualified name.
    ToolName, "tool name", 128
);
id!(
    /// One tool call within a run; its idempotency key.
    CallId, "call id", 256
);
id!(
    /// One await within a run.
    AwaitId, "await id", 128
);

id!(
    /// A store, and the namespaces whose runs it keeps.
    InstallationId, "installation id", 64
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_refuse_what_decoding_accepts() {
        assert_eq!(RunId::parse("run-1/child:2").unwrap().as_str(), "run-1/child:2");
        assert_eq!(
            RunId::parse("a b").unwrap_err().to_string(),
            "run id \"a b\" is not valid: use 1 to 256 characters of A-Z a-z 0-9 and . _ - / : @"
        );
        assert!(WorkspaceId::parse(&"x".repeat(65)).is_err());
        assert_eq!(serde_json::from_str::<RunId>("\"a b\"").unwrap(), RunId::new("a b"));
    }
}
