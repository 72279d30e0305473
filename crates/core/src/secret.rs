//! References to secrets. Definitions and specs hold these; the value exists only in the memory of the activity that uses
//! it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretRef {
    /// In the store, by its name in the run's workspace.
    Secret(String),
    /// In the environment of the worker. For definitions that the operator writes, not for those of API callers.
    Env(String),
}

/// The longest name of a secret.
pub const NAME_CHARS: usize = 128;

impl SecretRef {
    /// `${secret:NAME}` or `${env:NAME}`.
    pub fn parse(text: &str) -> Option<Self> {
        let (place, name) = text.strip_prefix("${")?.strip_suffix('}')?.split_once(':')?;
        let name = Some(name).filter(|name| is_name(name))?.to_owned();
        match place {
            "secret" => Some(Self::Secret(name)),
            "env" => Some(Self::Env(name)),
            _ => None,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Secret(name) | Self::Env(name) => name,
        }
    }
}

/// Whether this may be the name of a secret.
pub fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=NAME_CHARS).contains(&name.len()) && name.chars().all(allowed)
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(name) => write!(f, "${{secret:{name}}}"),
            Self::Env(name) => write!(f, "${{env:{name}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_is_read_and_written_in_both_forms() {
        let cases = [
            (SecretRef::Secret("model.key".into()), "${secret:model.key}", json!({"secret": "model.key"})),
            (SecretRef::Env("MODEL_KEY".into()), "${env:MODEL_KEY}", json!({"env": "MODEL_KEY"})),
        ];
        for (reference, text, json) in cases {
            assert_eq!((SecretRef::parse(text), reference.to_string()), (Some(reference.clone()), text.to_owned()));
            assert_eq!(serde_json::to_value(&reference).unwrap(), json);
        }
        for text in ["sk-live-1234", "${secret:}", "${secret:a b}", "${vault:x}", "${secret:x", "secret:x"] {
            assert_eq!(SecretRef::parse(text), None, "{text}");
        }
    }
}
