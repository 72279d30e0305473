//! Which model answers to which id.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::Model;

/// Models by the scheme of their ids: `script:demo` is answered by the model registered for `script`.
#[derive(Clone, Default)]
pub struct ModelRegistry {
    by_scheme: BTreeMap<String, Arc<dyn Model>>,
}

/// No registered model answers to this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no model answers to {id:?}: use <scheme>:<name>, where the scheme is one of: {}", schemes.join(", "))]
pub struct UnknownModel {
    /// The id that was asked for, cut to a length fit for a message.
    pub id: String,
    /// The schemes that exist.
    pub schemes: Vec<String>,
}

impl ModelRegistry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a model; a later one takes over the scheme.
    #[must_use]
    pub fn with(mut self, scheme: impl Into<String>, model: Arc<dyn Model>) -> Self {
        self.by_scheme.insert(scheme.into(), model);
        self
    }

    /// The model for an id, and the id without its scheme.
    pub fn resolve(&self, id: &str) -> Result<(Arc<dyn Model>, String), UnknownModel> {
        id.split_once(':')
            .filter(|(_, name)| !name.is_empty())
            .and_then(|(scheme, name)| Some((Arc::clone(self.by_scheme.get(scheme)?), name.to_owned())))
            .ok_or_else(|| UnknownModel {
                id: id.chars().take(UnknownModel::MAX_ID).collect(),
                schemes: self.by_scheme.keys().cloned().collect(),
            })
    }
}

impl UnknownModel {
    const MAX_ID: usize = 128;
}

impl fmt::Debug for ModelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_scheme.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptModel;

    fn registry() -> ModelRegistry {
        let scripts = || Arc::new(ScriptModel::demos().unwrap());
        ModelRegistry::new().with("script", scripts()).with("other", scripts())
    }

    #[test]
    fn the_scheme_ends_at_the_first_colon() {
        let scripts: Arc<dyn Model> = Arc::new(ScriptModel::demos().unwrap());
        let registry = ModelRegistry::new().with("script", Arc::clone(&scripts));
        let (model, name) = registry.resolve("script:demo:v2").unwrap();
        assert_eq!(name, "demo:v2");
        assert!(Arc::ptr_eq(&model, &scripts));
    }

    #[test]
    fn an_unknown_model_is_told_which_schemes_exist() {
        for id in ["claude:x", "demo", "script:", ""] {
            let error = registry().resolve(id).err().unwrap();
            assert_eq!(error, UnknownModel { id: id.into(), schemes: vec!["other".into(), "script".into()] });
        }
        assert_eq!(
            registry().resolve("demo").err().unwrap().to_string(),
            "no model answers to \"demo\": use <scheme>:<name>, where the scheme is one of: other, script"
        );
        assert_eq!(registry().resolve(&"x".repeat(500)).err().unwrap().id.len(), 128);
    }
}
