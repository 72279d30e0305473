//! Whether a provider's key is there.

use std::fmt;

use windlass_core::secret::SecretRef;

use crate::config::Provider;

/// What is known of a provider's key without calling it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyState {
    /// The provider takes none, or goes without one.
    NotNeeded,
    /// The variable is set.
    Set(String),
    /// The variable is not set.
    Missing(String),
    /// In the store, by its name in the run's workspace. It is read when a run uses it.
    Secret(String),
}

impl KeyState {
    pub(crate) fn of(provider: &Provider, is_set: impl Fn(&str) -> bool) -> Self {
        if let Some(missing) = provider.missing_variable(&is_set) {
            return Self::Missing(missing.to_owned());
        }
        match &provider.key {
            Some(SecretRef::Secret(name)) => Self::Secret(name.clone()),
            Some(SecretRef::Env(name)) if is_set(name) => Self::Set(name.clone()),
            _ => Self::NotNeeded,
        }
    }

    /// One word for programs.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::NotNeeded => "not_needed",
            Self::Set(_) => "set",
            Self::Missing(_) => "missing",
            Self::Secret(_) => "secret",
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::NotNeeded => None,
            Self::Set(name) | Self::Missing(name) | Self::Secret(name) => Some(name),
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("not needed"),
            Self::Set(name) => write!(f, "${name}"),
            Self::Missing(name) => write!(f, "no key: set {name}"),
            Self::Secret(name) => write!(f, "secret {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_key_is_set_missing_secret_or_not_needed() {
        let text = "[providers.openai]\nkey = \"${secret:o}\"\n[providers.xai.headers]\nx-a = \"${env:XA}\"\n";
        let config = Config::parse(Some(("windlass.toml".as_ref(), text))).unwrap();
        let cases: [(&str, &[&str], &str); 7] = [
            ("anthropic", &["ANTHROPIC_API_KEY"], "$ANTHROPIC_API_KEY"),
            ("anthropic", &[], "no key: set ANTHROPIC_API_KEY"),
            ("openai", &[], "secret o"),
            ("ollama", &[], "not needed"),
            ("litellm", &[], "not needed"),
            ("litellm", &["LITELLM_API_KEY"], "$LITELLM_API_KEY"),
            ("xai", &["XAI_API_KEY"], "no key: set XA"),
        ];
        for (provider, set, expected) in cases {
            let state = KeyState::of(&config.providers[provider], |name| set.contains(&name));
            assert_eq!(state.to_string(), expected, "{provider} {set:?}");
        }
    }
}
