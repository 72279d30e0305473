//! Which model answers to which id.

use std::{collections::BTreeMap, fmt, sync::Arc};

use windlass_core::secret::SecretRef;

use crate::{Model, ModelSpec};

/// Providers by name, models of which something is known, and aliases: `fast` may stand for `anthropic:claude-haiku-4-5`.
#[derive(Clone, Default)]
pub struct ModelRegistry {
    providers: BTreeMap<String, Provider>,
    specs: BTreeMap<String, Arc<ModelSpec>>,
    aliases: BTreeMap<String, String>,
    unknown: Arc<ModelSpec>,
}

#[derive(Clone)]
struct Provider {
    model: Arc<dyn Model>,
    key: Option<SecretRef>,
}

/// A model and everything a call of it needs.
#[derive(Clone)]
pub struct Resolved {
    pub model: Arc<dyn Model>,
    /// The provider's name in the config.
    pub provider: String,
    /// The provider's name of the model.
    pub name: String,
    pub spec: Arc<ModelSpec>,
    /// The key that the config has for the provider.
    pub key: Option<SecretRef>,
}

impl Resolved {
    /// The model's id without aliases.
    pub fn id(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }
}

/// No registered model answers to this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no model answers to {id:?}: use <provider>:<model> or an alias; there are the providers {}{}", providers.join(", "), also(aliases))]
pub struct UnknownModel {
    /// The id that was asked for, cut to a length fit for a message.
    pub id: String,
    pub providers: Vec<String>,
    pub aliases: Vec<String>,
}

fn also(aliases: &[String]) -> String {
    if aliases.is_empty() { String::new() } else { format!(" and the aliases {}", aliases.join(", ")) }
}

impl ModelRegistry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider without a key; a later one takes over the name.
    #[must_use]
    pub fn with(self, provider: impl Into<String>, model: Arc<dyn Model>) -> Self {
        self.with_provider(provider, model, None)
    }

    #[must_use]
    pub fn with_provider(mut self, name: impl Into<String>, model: Arc<dyn Model>, key: Option<SecretRef>) -> Self {
        self.providers.insert(name.into(), Provider { model, key });
        self
    }

    /// Adds what is known of a model, by its id.
    #[must_use]
    pub fn with_spec(mut self, id: impl Into<String>, spec: ModelSpec) -> Self {
        self.specs.insert(id.into(), Arc::new(spec));
        self
    }

    /// Adds another name for a model. The id must not be an alias itself.
    #[must_use]
    pub fn with_alias(mut self, alias: impl Into<String>, id: impl Into<String>) -> Self {
        self.aliases.insert(alias.into(), id.into());
        self
    }

    pub fn resolve(&self, id: &str) -> Result<Resolved, UnknownModel> {
        let full = self.aliases.get(id).map_or(id, String::as_str);
        let split = full.split_once(':').filter(|(_, name)| !name.is_empty());
        let found = split.and_then(|(provider, name)| Some((provider, name, self.providers.get(provider)?)));
        let (provider, name, Provider { model, key }) = found.ok_or_else(|| UnknownModel {
            id: id.chars().take(UnknownModel::MAX_ID).collect(),
            providers: self.providers.keys().cloned().collect(),
            aliases: self.aliases.keys().cloned().collect(),
        })?;
        Ok(Resolved {
            model: Arc::clone(model),
            provider: provider.to_owned(),
            name: name.to_owned(),
            spec: Arc::clone(self.specs.get(full).unwrap_or(&self.unknown)),
            key: key.clone(),
        })
    }
}

impl UnknownModel {
    const MAX_ID: usize = 128;
}

impl fmt::Debug for ModelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.providers.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptModel;

    fn registry() -> ModelRegistry {
        let scripts = || Arc::new(ScriptModel::demos().unwrap());
        let key = Some(SecretRef::Env("KEY".into()));
        let spec = ModelSpec { context_window: Some(9), ..ModelSpec::default() };
        ModelRegistry::new()
            .with("script", scripts())
            .with_provider("other", scripts(), key)
            .with_spec("other:large", spec)
            .with_alias("best", "other:large")
    }

    #[test]
    fn the_provider_ends_at_the_first_colon() {
        let found = registry().resolve("script:demo:v2").unwrap();
        assert_eq!((found.provider.as_str(), found.name.as_str(), found.key), ("script", "demo:v2", None));
        assert_eq!(*found.spec, ModelSpec::default());
    }

    #[test]
    fn an_alias_stands_for_a_model_with_its_key_and_its_facts() {
        let found = registry().resolve("best").unwrap();
        assert_eq!((found.id().as_str(), found.spec.context_window), ("other:large", Some(9)));
        assert_eq!(found.key, Some(SecretRef::Env("KEY".into())));
    }

    #[test]
    fn an_unknown_model_is_told_what_there_is() {
        for id in ["claude:x", "demo", "script:", ""] {
            let error = registry().resolve(id).err().unwrap();
            let (providers, aliases) = (vec!["other".into(), "script".into()], vec!["best".into()]);
            assert_eq!(error, UnknownModel { id: id.into(), providers, aliases });
        }
        assert_eq!(
            registry().resolve("demo").err().unwrap().to_string(),
            "no model answers to \"demo\": use <provider>:<model> or an alias; there are the providers other, script and the aliases best"
        );
        assert_eq!(registry().resolve(&"x".repeat(500)).err().unwrap().id.len(), 128);
    }
}
