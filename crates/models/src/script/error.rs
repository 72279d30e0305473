//! Why a set of scripts cannot be used.

use std::{io, path::Path};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScriptError {
    pub kind: ScriptErrorKind,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptErrorKind {
    /// The file could not be read.
    Unreadable,
    /// The text is not a JSON object of scripts.
    Malformed,
    /// One of the scripts does not follow the grammar.
    InvalidScript,
}

impl ScriptError {
    pub(super) fn unreadable(path: &Path, source: &io::Error) -> Self {
        let message = format!("cannot read the scripts in {}: {source}", path.display());
        Self { kind: ScriptErrorKind::Unreadable, message }
    }

    pub(super) fn malformed(source: &serde_json::Error) -> Self {
        let message = format!("scripts are one JSON object, {{\"name\": {{\"turns\": […]}}, …}}: {source}");
        Self { kind: ScriptErrorKind::Malformed, message }
    }

    pub(super) fn invalid(script: &str, turn: Option<usize>, source: &serde_json::Error) -> Self {
        let place = turn.map_or_else(String::new, |turn| format!(", turns[{turn}]"));
        let message = format!("script `{script}`{place}: {source}");
        Self { kind: ScriptErrorKind::InvalidScript, message }
    }
}
