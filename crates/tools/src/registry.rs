//! The tools of a worker by name.

use std::{collections::BTreeMap, fmt, sync::Arc};

use windlass_core::{agent::ToolSpec, ids::ToolName};
use windlass_store::Notes;

use crate::{Clock, EgressError, HttpGet, HttpGetOptions, NotesAdd, NotesSearch, Tool};

/// The tools of a worker by name.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    by_name: BTreeMap<ToolName, Arc<dyn Tool>>,
}

impl ToolRegistry {
    pub fn new() -> Self {
        Self::default()
    }

    /// The tools every worker has.
    pub fn with_builtins(store: Arc<dyn Notes>, http: HttpGetOptions) -> Result<Self, EgressError> {
        Ok(Self::new()
            .with(Clock::system())
            .with(HttpGet::new(http)?)
            .with(NotesAdd::new(Arc::clone(&store)))
            .with(NotesSearch::new(store)))
    }

    /// Adds a tool under the name in its spec; a later one takes over the name.
    #[must_use]
    pub fn with(mut self, tool: impl Tool) -> Self {
        self.by_name.insert(tool.spec().name, Arc::new(tool));
        self
    }

    /// In alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.by_name.keys()
    }

    /// What each tool is, in alphabetical order.
    pub fn specs(&self) -> impl Iterator<Item = ToolSpec> {
        self.by_name.values().map(|tool| tool.spec())
    }

    pub fn get(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.by_name.get(name)
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_core::agent::ToolSource;
    use windlass_store::sqlite::{Options, SqliteStore};

    use super::*;
    use crate::fixtures::context;

    fn builtins(directory: &tempfile::TempDir) -> ToolRegistry {
        let store = SqliteStore::open(Options::new(directory.path().join("tools.db"))).unwrap();
        ToolRegistry::with_builtins(Arc::new(store), HttpGetOptions::default()).unwrap()
    }

    #[tokio::test]
    async fn the_builtins_are_listed_and_found_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let registry = builtins(&directory);
        let names: Vec<&str> = registry.names().map(ToolName::as_str).collect();
        assert_eq!(names, ["clock", "http_get", "notes.add", "notes.search"]);
        for name in registry.names() {
            assert_eq!(registry.get(name).unwrap().spec().name, *name);
        }
        assert!(registry.get(&"hammer".into()).is_none());
    }

    #[tokio::test]
    async fn every_builtin_says_what_an_agent_must_know() {
        let directory = tempfile::tempdir().unwrap();
        let registry = builtins(&directory);
        for name in registry.names() {
            let spec = registry.get(name).unwrap().spec();
            assert_eq!((&spec.source, spec.idempotent), (&ToolSource::Builtin, true), "{name}");
            assert!(!spec.description.is_empty() && !spec.tags.is_empty() && spec.timeout_ms.is_some(), "{name}");
            assert_eq!(spec.schema()["additionalProperties"], json!(false), "{name}");
            let undescribed = |(_, property): (&String, &Value)| property["description"].is_null();
            assert!(!spec.schema()["properties"].as_object().unwrap().iter().any(undescribed), "{name}");
        }
    }

    #[tokio::test]
    async fn a_later_tool_takes_over_a_name() {
        let frozen = Clock::new(|| chrono::DateTime::UNIX_EPOCH);
        let registry = ToolRegistry::new().with(Clock::system()).with(frozen);
        let told = registry.get(&"clock".into()).unwrap().call(context(), json!({}).into()).await.unwrap();
        assert_eq!(told.result, json!({"utc": "1970-01-01T00:00:00Z"}));
    }
}
