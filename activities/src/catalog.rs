//! Agents by id, for runs that name an agent without a version.

use std::{collections::BTreeMap, sync::Arc};

use windlass_core::{agent::AgentDefinition, approval::ApprovalRule, ids::AgentId};

/// The agent definitions of a worker, and the approval rules for all of them.
#[derive(Debug, Clone, Default)]
pub struct AgentCatalog {
    agents: BTreeMap<AgentId, Arc<AgentDefinition>>,
    approvals: Arc<[ApprovalRule]>,
}

impl AgentCatalog {
    /// With the rules of the workspace's operator, which come before those of an agent.
    #[must_use]
    pub fn with_approvals(mut self, rules: Vec<ApprovalRule>) -> Self {
        self.approvals = rules.into();
        self
    }

    pub fn approvals(&self) -> &[ApprovalRule] {
        &self.approvals
    }

    pub fn get(&self, id: &AgentId) -> Option<&Arc<AgentDefinition>> {
        self.agents.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<AgentDefinition>> {
        self.agents.values()
    }

    pub fn ids(&self) -> impl Iterator<Item = &AgentId> {
        self.agents.keys()
    }
}

impl FromIterator<AgentDefinition> for AgentCatalog {
    fn from_iter<I: IntoIterator<Item = AgentDefinition>>(definitions: I) -> Self {
        let agents = definitions.into_iter().map(|definition| (definition.id.clone(), Arc::new(definition))).collect();
        Self { agents, approvals: Arc::default() }
    }
}
