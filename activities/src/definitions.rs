//! Agent definitions this worker has used lately, ready to be used again: read once, their schemas compiled once.
//!
//! A definition is known by its digest, so what is kept here is never out of date.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use windlass_core::{
    agent::AgentDefinition, canonical::Digest, envelope::RetryHint, ids::ToolName, schema::ArgumentCheck,
};
use windlass_models::ToolDeclaration;

/// So many are kept. Few workers have more agents, and reading one again costs little.
const MOST: usize = 256;

/// A definition, and what turns make of it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) definition: AgentDefinition,
    declarations: Arc<[ToolDeclaration]>,
    checks: HashMap<ToolName, ArgumentCheck>,
}

impl Prepared {
    pub(crate) fn new(definition: AgentDefinition) -> Self {
        let declare = |tool: &windlass_core::agent::ToolSpec| ToolDeclaration {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.schema(),
        };
        let declarations: Arc<[_]> = definition.tools.iter().map(declare).collect();
        let check = |tool: &ToolDeclaration| (tool.name.clone(), ArgumentCheck::of(tool.input_schema.clone()));
        let checks = declarations.iter().map(check).collect();
        Self { definition, declarations, checks }
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
