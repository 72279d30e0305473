//! Identifiers. Each is its own type so that a session id cannot be passed where a run id is meant.
//!
//! Decoding accepts any string, because a history written long ago must decode; `parse` is what an edge calls on input
//! from outside.

use std::{borrow::Borrow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Why a string is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} is not valid: use 1 to {max} characters of A-Z a-z 0-9 and {marks}")]
pub struct InvalidId {
    what: &'static str,
    value: String,
    max: usize,
    marks: &'static str,
}

/// What an id may have beside letters and digits.
const MARKS: &str = ". _ - / : @";
const MARKS_OF_RUNS: &str = ". _ - / : @ ~";

fn check(what: &'static str, max: usize, marks: &'static str, value: &str) -> Result<(), InvalidId> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || (c != ' ' && marks.contains(c));
    if value.is_empty() || value.len() > max || !value.chars().all(allowed) {
        let value = value.chars().take(64).collect();
        return Err(InvalidId { what, value, max, marks });
    }
    Ok(())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $marks:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The longest that is taken from outside.
            pub const MAX_CHARS: usize = $max;

            /// Takes the string as it is; for values this system made itself.
            pub fn new(value: impl Into<String>) -> Self {
                Self(value.into())
            }

            /// Takes a string from outside.
            pub fn parse(value: &str) -> Result<Self, InvalidId> {
                check($what, $max, $marks, value)?;
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
    WorkspaceId, "workspace", 64, MARKS
);
id!(
    /// A conversation; it groups runs.
    SessionId, "session id", 128, MARKS
);
id!(
    /// One run; also its workflow id.
    RunId, "run id", 256, MARKS_OF_RUNS
);
id!(
    /// Which agent a run executes.
    AgentId, "agent id", 128, MARKS
);
id!(
    /// A tool's fully qualified name.
    ToolName, "tool name", 128, MARKS
);
id!(
    /// One tool call within a run; its idempotency key.
    CallId, "call id", 256, MARKS
);
id!(
    /// One await within a run.
    AwaitId, "await id", 128, MARKS
);

id!(
    /// A grant: calls that are not asked about again.
    GrantId, "grant id", 128, MARKS
);

id!(
    /// A store, and the namespaces whose runs it keeps.
    InstallationId, "installation id", 64, MARKS
);

/// Between a workspace and the id that a caller chose for a run in it. No workspace has it in its name, and no URL
/// escapes it.
const OF_WORKSPACE: char = '~';

impl RunId {
    /// The id of a run whose caller chose `chosen`: the same choice in another workspace is another run. What already
    /// has the workspace in front is left as it is.
    pub fn scoped(workspace: &WorkspaceId, chosen: &str) -> Result<Self, InvalidId> {
        let own = chosen.strip_prefix(workspace.as_str()).is_some_and(|rest| rest.starts_with(OF_WORKSPACE));
        if own { Self::parse(chosen) } else { Self::parse(&format!("{workspace}{OF_WORKSPACE}{chosen}")) }
    }

    /// The runs that a caller in this workspace may mean by `text`, the likelier first: one that a caller named, or one
    /// whose whole id it is.
    pub fn meant(workspace: &WorkspaceId, text: &str) -> Vec<Self> {
        let whole = Self::parse(text).ok();
        let scoped = Self::scoped(workspace, text).ok().filter(|scoped| Some(scoped) != whole.as_ref());
        let made_here = text
            .strip_prefix("run-")
            .is_some_and(|rest| rest.len() >= 32 && rest.bytes().take(32).all(|byte| byte.is_ascii_hexdigit()));
        if made_here { whole.into_iter().chain(scoped).collect() } else { scoped.into_iter().chain(whole).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_refuse_what_decoding_accepts() {
        assert_eq!(RunId::parse("run-1/child:2").unwrap().as_str(), "run-1/child:2");
        assert_eq!(
            RunId::parse("a b").unwrap_err().to_string(),
            "run id \"a b\" is not valid: use 1 to 256 characters of A-Z a-z 0-9 and . _ - / : @ ~"
        );
        assert!(WorkspaceId::parse(&"x".repeat(65)).is_err());
        assert!(WorkspaceId::parse("a~b").is_err(), "or a run could be named into another workspace");
        assert_eq!(serde_json::from_str::<RunId>("\"a b\"").unwrap(), RunId::new("a b"));
    }
    #[test]
    fn a_run_is_named_within_its_workspace() {
        let acme = WorkspaceId::new("acme");
        let cases = [("x", "acme~x"), ("acme~x", "acme~x"), ("other~x", "acme~other~x"), ("acmex", "acme~acmex")];
        for (chosen, id) in cases {
            assert_eq!(RunId::scoped(&acme, chosen).unwrap().as_str(), id);
        }
        assert!(RunId::scoped(&acme, &"x".repeat(252)).is_err());
        let made = format!("run-{}", "0".repeat(32));
        let cases = [
            ("x", vec!["acme~x".to_owned(), "x".to_owned()]),
            ("x/call-0", vec!["acme~x/call-0".to_owned(), "x/call-0".to_owned()]),
            ("acme~x", vec!["acme~x".to_owned()]),
            (made.as_str(), vec![made.clone(), format!("acme~{made}")]),
            ("a b", vec![]),
        ];
        for (text, meant) in cases {
            let ids: Vec<String> = RunId::meant(&acme, text).iter().map(RunId::to_string).collect();
            assert_eq!(ids, meant, "{text}");
        }
    }
}
