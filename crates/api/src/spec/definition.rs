//! From a spec to the agent definition that a run executes.

use std::collections::HashSet;

use windlass_core::{
    agent::{AgentDefinition, fits},
    envelope::{GuardOverrides, PolicyOverrides},
    ids::{AgentId, ToolName},
};

use super::{
    Invalid, Spec,
    guards::MAX_TOOL_TURNS,
    tools::{self, Toolbox},
    whole,
};
use crate::models::Catalogue;

/// The agent of runs that name none.
const AD_HOC: &str = "ad-hoc";

/// What a server has that a spec may refer to.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub models: &'a Catalogue,
    pub agents: &'a [AgentDefinition],
    pub toolbox: Toolbox<'a>,
    /// The only agents the caller may name; any if absent.
    pub allowed_agents: Option<&'a [AgentId]>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Model(#[from] UnknownModel),
    #[error("agentId: this server has no agent {0}; GET /agents lists those it has")]
    UnknownAgent(AgentId),
    /// A key that is bound to agents does not learn which others there are.
    #[error("agentId: this key may not start agent {0}; GET /agents lists those it may start")]
    Agent(AgentId),
    /// A key that is bound to agents must name one of them.
    #[error("this key may only start the agents it was made for; send agentId")]
    AgentRequired,
}

/// No model of this server answers to the id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("modelId: {}", match id { Some(id) => format!("no model answers to {id:?}"), None => "is required, there is no default model".to_owned() })]
pub struct UnknownModel {
    pub id: Option<String>,
    pub candidates: Vec<String>,
}

impl Spec {
    /// The definition of a run of this spec; `system` is what its system messages said.
    pub fn resolve(&self, system: &[String], around: Surroundings<'_>) -> Result<AgentDefinition, SpecError> {
        let stored = self.stored(around)?;
        let model = match (&self.model_id, stored) {
            (None, Some(stored)) => stored.model.clone(),
            (wanted, _) => around.models.resolve(wanted.as_deref())?,
        };
        let mut definition = stored.cloned().unwrap_or_else(|| blank(AD_HOC));
        definition.model = model;
        if definition.system_prompt.is_empty() {
            definition.system_prompt = self.system_prompt.clone().unwrap_or_default();
        }
        for text in system.iter().filter(|text| !text.trim().is_empty()) {
            let gap = if definition.system_prompt.is_empty() { "" } else { "\n\n" };
            definition.system_prompt = format!("{}{gap}{text}", definition.system_prompt);
        }
        if self.name.is_some() {
            definition.name.clone_from(&self.name);
        }
        if self.reasoning_level.is_some() {
            definition.reasoning_level = self.reasoning_level;
        }
        if self.output_schema.is_some() {
            definition.output_schema.clone_from(&self.output_schema);
        }
        let tools = tools::resolve(&self.tools, around.toolbox)?;
        let named: HashSet<&ToolName> = tools.iter().map(|tool| &tool.name).collect();
        definition.tools.retain(|stored| !named.contains(&stored.name));
        definition.tools.extend(tools);
        lay_over(&mut definition.guards, &self.guards);
        let ceiling = definition.policy.max_tool_turns.unwrap_or(MAX_TOOL_TURNS);
        definition.policy.max_tool_turns = Some(self.max_tool_turns.unwrap_or(ceiling).min(ceiling));
        carried(&definition)?;
        Ok(definition)
    }

    /// The agent the spec names, or brings along.
    fn stored<'a>(&'a self, around: Surroundings<'a>) -> Result<Option<&'a AgentDefinition>, SpecError> {
        if let (Some(definition), None) = (&self.definition, around.allowed_agents) {
            whole::check_models(definition, "definition", around.models)?;
            return Ok(Some(definition));
        }
        let Some(id) = &self.agent_id else {
            return if around.allowed_agents.is_some() { Err(SpecError::AgentRequired) } else { Ok(None) };
        };
        if around.allowed_agents.is_some_and(|allowed| !allowed.contains(id)) {
            return Err(SpecError::Agent(id.clone()));
        }
        let known = around.agents.iter().find(|agent| agent.id == *id);
        known.map(Some).ok_or_else(|| SpecError::UnknownAgent(id.clone()))
    }
}

/// What no run can carry is refused here, by the limit it exceeds; later its run would only be ended.
fn carried(definition: &AgentDefinition) -> Result<(), Invalid> {
    fits(definition).map_err(|problem| {
        let field = if problem.path.is_empty() { "tools" } else { problem.path.trim_start_matches('/') };
        Invalid::new(field.replace('/', "."), problem.message)
    })
}

fn blank(id: &str) -> AgentDefinition {
    AgentDefinition {
        id: AgentId::new(id),
        name: None,
        description: String::new(),
        model: String::new(),
        system_prompt: String::new(),
        reasoning_level: None,
        output_schema: None,
        tools: Vec::new(),
        policy: PolicyOverrides::default(),
        guards: GuardOverrides::default(),
        agents: Vec::new(),
    }
}

fn lay_over(guards: &mut GuardOverrides, over: &GuardOverrides) {
    if over.loop_detection.is_some() {
        guards.loop_detection = over.loop_detection;
    }
    if over.tool_budgets.is_some() {
        guards.tool_budgets.clone_from(&over.tool_budgets);
    }
}
