//! A cache of agent definitions with their compiled schemas.
//!
//! A definition is addressed by its digest, so an entry is never out of date.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use windlass_core::{
    agent::{AgentDefinition, ToolSpec},
    canonical::{CanonicalJson, Digest},
    envelope::{RetryHint, ToolErrorKind},
    ids::ToolName,
    schema::{ArgumentCheck, ResultCheck},
};
use windlass_models::ToolDeclaration;
use windlass_tools::ToolFailure;

/// The number of cached definitions. Few workers have more agents, and reading one again is cheap.
const MOST: usize = 256;

/// A definition, and what is prepared from it once.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) definition: AgentDefinition,
    declarations: Arc<[ToolDeclaration]>,
    checks: HashMap<ToolName, ArgumentCheck>,
    results: HashMap<ToolName, ResultCheck>,
}

impl Prepared {
    pub(crate) fn new(definition: AgentDefinition) -> Self {
        let declare = |tool: &ToolSpec| ToolDeclaration {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.schema(),
        };
        let mut declarations: Vec<_> = definition.tools.iter().map(declare).collect();
        // The prompt's prefix has the same bytes however the definition orders its tools.
        declarations.sort_by(|a, b| a.name.cmp(&b.name));
        let declarations: Arc<[_]> = declarations.into();
        let check = |tool: &ToolDeclaration| (tool.name.clone(), ArgumentCheck::of(tool.input_schema.clone()));
        let checks = declarations.iter().map(check).collect();
        let result = |tool: &ToolSpec| Some((tool.name.clone(), ResultCheck::of(tool.output_schema.as_ref()?)));
        let results = definition.tools.iter().filter_map(result).collect();
        Self { definition, declarations, checks, results }
    }

    /// The tools the model is shown.
    pub(crate) fn offered(&self, only: Option<&[ToolName]>) -> Arc<[ToolDeclaration]> {
        match only {
            None => Arc::clone(&self.declarations),
            Some(only) => self.declarations.iter().filter(|tool| only.contains(&tool.name)).cloned().collect(),
        }
    }

    /// The arguments of a call, as far as its tool is known.
    pub(crate) fn check(&self, tool: &ToolName, args: Value) -> Result<Value, Box<RetryHint>> {
        match self.checks.get(tool) {
            Some(check) => check.apply(args),
            None => Ok(args),
        }
    }
}

impl Prepared {
    /// A result must be what its tool's definition says; the model relies on it.
    pub(crate) fn check_result(&self, tool: &ToolName, result: &CanonicalJson) -> Result<(), ToolFailure> {
        let Some(check) = self.results.get(tool) else { return Ok(()) };
        check.apply(&result.to_value()).map_err(|problem| {
            let message = format!("the result of `{tool}` does not satisfy its output schema: {problem}");
            ToolFailure::new(ToolErrorKind::ToolFailed, message)
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Definitions {
    kept: Mutex<HashMap<Digest, Arc<Prepared>>>,
}

impl Definitions {
    pub(crate) fn get(&self, digest: Digest) -> Option<Arc<Prepared>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }

    pub(crate) fn keep(&self, digest: Digest, definition: AgentDefinition) -> Arc<Prepared> {
        let prepared = Arc::new(Prepared::new(definition));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(digest, Arc::clone(&prepared));
        prepared
    }
}
