//! The catalogues: which models, tools and agents this process has.
//!
//! There is one source of each. The worker executes what is here, and the API lists it and checks requests against it, so
//! they cannot disagree.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use windlass_activities::AgentCatalog;
use windlass_api::models::{Catalogue, ModelInfo};
use windlass_core::{agent::AgentDefinition, secret::SecretRef};
use windlass_models::{
    Model, ModelRegistry, ModelSpec,
    script::{SCHEME, ScriptModel},
};
use windlass_store::{Store, Vault};
use windlass_tools::{Egress, EgressError, EgressRules, HttpGetOptions, ToolRegistry, Toolbox};

use super::{SecretKeys, providers};
use crate::{
    config::Config,
    failure::{Failure, usage},
};

/// The model that is used if a request names none, provided that it exists.
const PREFERRED: &str = "demo";

/// What runs can use: the store and the catalogues.
#[derive(Clone)]
pub struct Ports {
    pub store: Arc<dyn Store>,
    /// The secrets that runs may read. `None` if this process has no key.
    pub vault: Option<Vault>,
    pub models: ModelCatalogue,
    pub tools: Toolbox,
    pub agents: AgentCatalog,
}

/// Where the catalogues come from.
#[derive(Debug, Clone, Default)]
pub struct CatalogueOptions {
    /// Scripts for `script:` models. They replace kept and built-in scripts of the same name.
    pub scripts: Option<PathBuf>,
    /// Scripts that the data directory keeps from earlier runs. They replace built-in scripts of the same name.
    pub kept_scripts: Option<PathBuf>,
    /// Whether `http_get` may reach loopback and private addresses.
    pub http_allow_private: bool,
    /// Providers, models and other names of models.
    pub config: Arc<Config>,
}

impl CatalogueOptions {
    pub fn load(
        &self,
        store: Arc<dyn Store>,
        agents: Vec<AgentDefinition>,
        keys: &SecretKeys,
    ) -> Result<Ports, Failure> {
        let http = HttpGetOptions { allow_private: self.http_allow_private, ..HttpGetOptions::default() };
        let builtins = ToolRegistry::with_builtins(store.clone(), http)?;
        let allow = self.config.egress.iter().map(|entry| entry.parse()).collect::<Result<_, EgressError>>()?;
        if let Some(tool) = self.config.tools.iter().find(|tool| builtins.get(&tool.name).is_some()) {
            let file = self.config.file.as_deref().unwrap_or_else(|| Path::new("windlass.toml")).display();
            return Err(usage(format!(
                "{file}: tools.{}: this is the name of a built-in tool; choose another",
                tool.name
            )));
        }
        let tools = Toolbox::new(builtins, Egress::new(EgressRules { allow })?, self.config.mcp.clone())
            .with_configured(self.config.tools.iter().cloned());
        let vault = keys.vault(store.clone())?;
        Ok(Ports {
            store,
            vault,
            models: self.models()?,
            tools,
            agents: AgentCatalog::from_iter(agents).with_approvals(self.config.approvals.clone()),
        })
    }

    /// The scripts and the models of the config.
    pub fn models(&self) -> Result<ModelCatalogue, Failure> {
        let given = self.scripts.as_deref().map(read_scripts).transpose()?;
        let kept = self.kept_scripts.as_deref().map(read_scripts).transpose()?;
        let given_names: Option<Vec<String>> = given.as_ref().map(names);
        let layers = [kept, given].into_iter().flatten();
        let scripts = layers.fold(ScriptModel::demos()?, |below, layer| layer.beside(below));
        let all = names(&scripts);
        // The default is one of the scripts that were given with this command, then the model of the config, then a demo.
        let preferred =
            |names: &[String]| names.iter().find(|name| *name == PREFERRED).or_else(|| names.first()).cloned();
        let scripted = preferred(given_names.as_ref().unwrap_or(&all));
        let catalogue = ModelCatalogue::new().with(SCHEME, Arc::new(scripts), all, scripted.as_deref());
        let mut catalogue = providers::add(catalogue, &self.config)?;
        if let (None, Some(model)) = (given_names, &self.config.default_model) {
            catalogue.listing.default_model_id = Some(model.clone());
        }
        catalogue.check_names(&self.config)?;
        Ok(catalogue)
    }
}

fn read_scripts(path: &Path) -> Result<ScriptModel, Failure> {
    ScriptModel::from_file(path).map_err(|error| usage(format!("{}: {error}", path.display())))
}

fn names(scripts: &ScriptModel) -> Vec<String> {
    scripts.names().map(str::to_owned).collect()
}

/// The models: how the worker calls them and how the API lists them.
#[derive(Debug, Clone, Default)]
pub struct ModelCatalogue {
    registry: ModelRegistry,
    listing: Catalogue,
}

impl ModelCatalogue {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the models of one scheme. `default` is the name of the model that a request gets if it names none.
    #[must_use]
    pub fn with<N: AsRef<str>>(
        mut self,
        scheme: &str,
        model: Arc<dyn Model>,
        names: impl IntoIterator<Item = N>,
        default: Option<&str>,
    ) -> Self {
        self.registry = self.registry.with(scheme, model);
        self.listing.models.extend(names.into_iter().map(|name| ModelInfo::of(scheme, name.as_ref())));
        if let Some(name) = default {
            self.listing.default_model_id = Some(ModelInfo::of(scheme, name).id);
        }
        self
    }

    /// Adds a provider that can be asked for any model. `specs` has those of which something is known, by the provider's
    /// names.
    pub(super) fn with_provider<'m>(
        mut self,
        name: &str,
        model: Arc<dyn Model>,
        key: Option<SecretRef>,
        specs: impl IntoIterator<Item = (&'m str, &'m ModelSpec)>,
    ) -> Self {
        self.registry = self.registry.with_provider(name, model, key);
        for (vendor, spec) in specs {
            let info = providers::info(name, vendor, spec);
            self.registry = self.registry.with_spec(info.id.clone(), spec.clone());
            self.listing.models.push(info);
        }
        self.listing.open_providers.push(name.to_owned());
        self
    }

    /// Adds another name for a model.
    pub(super) fn with_alias(mut self, alias: &str, id: &str, info: ModelInfo) -> Self {
        self.registry = self.registry.with_alias(alias, id);
        self.listing.models.push(info);
        self
    }

    /// A config can name scripts, and only the catalogue knows which there are.
    fn check_names(&self, config: &Config) -> Result<(), Failure> {
        let targets = config.aliases.iter().map(|(alias, id)| (format!("models.{alias}.model"), id));
        let default = config.default_model.iter().map(|id| ("defaults.model".to_owned(), id));
        for (key, id) in targets.chain(default) {
            if self.listing.resolve(Some(id)).is_err() {
                let file = config.file.as_deref().unwrap_or_else(|| Path::new("windlass.toml")).display();
                return Err(usage(format!("{file}: {key}: there is no script {id:?}; add it with --scripts")));
            }
        }
        Ok(())
    }

    /// For the worker: resolves an id to the model that answers to it.
    pub fn registry(&self) -> &ModelRegistry {
        &self.registry
    }

    /// For the API: the models that callers may name.
    pub fn listing(&self) -> &Catalogue {
        &self.listing
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn listed(options: &CatalogueOptions) -> (Vec<String>, Option<String>) {
        let catalogue = options.models().unwrap();
        for model in &catalogue.listing().models {
            assert!(catalogue.registry().resolve(&model.id).is_ok(), "{} is listed, so it can be called", model.id);
        }
        let Catalogue { models, default_model_id, .. } = catalogue.listing().clone();
        (models.into_iter().map(|model| model.id).collect(), default_model_id)
    }

    #[test]
    fn the_default_model_is_a_given_script_before_the_demo() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            Some(path)
        };
        let built_in = CatalogueOptions::default();
        assert_eq!(listed(&built_in).1.as_deref(), Some("script:demo"));
        let kept_scripts = write("kept.json", r#"{"a-kept": {"turns": []}}"#);
        let kept = CatalogueOptions { kept_scripts, ..built_in };
        assert_eq!(listed(&kept).1.as_deref(), Some("script:demo"), "kept scripts do not change the default");
        let scripts = write("given.json", r#"{"mine": {"turns": []}, "other": {"turns": []}}"#);
        let given = CatalogueOptions { scripts, ..kept };
        let (models, default) = listed(&given);
        assert_eq!(default.as_deref(), Some("script:mine"));
        for expected in ["script:a-kept", "script:demo", "script:mine", "script:other"] {
            assert!(models.iter().any(|id| id == expected), "{expected} in {models:?}");
        }
    }

    #[test]
    fn a_script_file_that_cannot_be_read_is_named() {
        let options = CatalogueOptions { scripts: Some("no-such.json".into()), ..CatalogueOptions::default() };
        let said = options.models().unwrap_err().to_string();
        assert!(said.starts_with("no-such.json: "), "{said}");
    }
}
