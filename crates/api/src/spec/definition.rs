//! Resolves a spec into the agent definition that a run executes.

use windlass_core::{
    agent::{
        AgentDefinition, ModelParameters, fits,
        overrides::{Base, Effective, NotAllowed, Overrides, Trust, apply, may_use},
    },
    envelope::{Extra, GuardOverrides, PolicyOverrides},
    ids::AgentId,
};

use super::{
    Invalid, Spec,
    guards::{MAX_TOOL_TURNS, add_default_budgets},
    tools::{self, Toolbox},
    whole,
};
use crate::models::Catalogue;

/// The agent id of runs that name no agent.
const AD_HOC: &str = "ad-hoc";

/// What a spec may refer to: models, agents and tools of the server.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub models: &'a Catalogue,
    pub agents: &'a [AgentDefinition],
    pub toolbox: Toolbox<'a>,
    /// The only agents the caller's key may use; any if absent.
    pub bound_to: Option<&'a [AgentId]>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Model(#[from] UnknownModel),
    #[error("agentId: this server has no agent {0}; GET /agents lists its agents")]
    UnknownAgent(AgentId),
    /// A key that is bound to agents does not learn which others there are.
    #[error("agentId: this key may not start agent {0}; GET /agents lists the agents that it may start")]
    Agent(AgentId),
    /// The caller may not override this field of the agent.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
}

/// The server has no model with this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {}", match id { Some(id) => format!("this server has no model {id:?}; GET /models lists its models"), None => "is required, because this server has no default model".to_owned() })]
pub struct UnknownModel {
    /// The field that names it.
    pub field: &'static str,
    pub id: Option<String>,
    pub candidates: Vec<String>,
}

impl UnknownModel {
    fn of(mut self, field: &'static str) -> Self {
        self.field = field;
        self
    }
}

impl Spec {
    /// What a run of this spec executes. `system` has the texts of its system messages, `policy` the run's own
    /// limits.
    pub fn resolve(
        &self,
        system: &[String],
        policy: Option<PolicyOverrides>,
        around: Surroundings<'_>,
    ) -> Result<Effective, SpecError> {
        let base = self.base(around)?;
        let configured = matches!(base, Base::Configured(_));
        // A configured agent has its own tools, whatever this server has.
        let (tools, toolsets) = tools::resolve(&self.tools, around.toolbox, configured)?;
        let over = Overrides {
            name: self.name.clone(),
            system_prompt: self.system_prompt.clone(),
            system: system.to_vec(),
            model: self.model_id.clone(),
            fallback_model: self.fallback_model_id.clone(),
            reasoning_level: self.reasoning_level,
            output_schema: self.output_schema.clone(),
            tools,
            toolsets,
            guards: self.guards.clone(),
            max_tool_turns: Some(self.max_tool_turns.unwrap_or(MAX_TOOL_TURNS)),
            policy,
        };
        let trust = if around.bound_to.is_some() { Trust::Bound } else { Trust::Unbound };
        let mut effective = apply(base, over, trust)?;
        let definition = &mut effective.definition;
        if self.model_id.is_some() || definition.model.is_empty() {
            definition.model = around.models.resolve(self.model_id.as_deref())?;
        }
        if let Some(fallback) = &self.fallback_model_id {
            let fallback = around.models.resolve(Some(fallback)).map_err(|unknown| unknown.of("fallbackModelId"))?;
            if around.models.are_same(&fallback, &definition.model) {
                return Err(Invalid::new("fallbackModelId", "is the run's own model; name another one").into());
            }
            definition.fallback = vec![fallback];
        }
        add_default_budgets(definition);
        // The worker refuses a tool that neither it nor this server has.
        let builtins = around.toolbox.builtins;
        definition.complete_builtins(&|name| builtins.iter().find(|tool| tool.name == *name).cloned());
        carried(definition)?;
        Ok(effective)
    }

    /// The agent that the spec names, contains or describes.
    fn base<'a>(&'a self, around: Surroundings<'a>) -> Result<Base<'a>, SpecError> {
        if let (Some(definition), None) = (&self.definition, around.bound_to) {
            whole::check_models(definition, "definition", around.models)?;
            return Ok(Base::Own(definition.clone()));
        }
        let Some(id) = &self.agent_id else { return Ok(Base::Own(Box::new(blank(AD_HOC)))) };
        if !may_use(around.bound_to, Some(id)) {
            return Err(SpecError::Agent(id.clone()));
        }
        let known = around.agents.iter().find(|agent| agent.id == *id);
        known.map(Base::Configured).ok_or_else(|| SpecError::UnknownAgent(id.clone()))
    }
}

/// Refuses a definition that exceeds a limit of runs; otherwise the run would fail when it opens.
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
        fallback: Vec::new(),
        system_prompt: String::new(),
        reasoning_level: None,
        reasoning_decay: None,
        output_schema: None,
        parameters: ModelParameters::default(),
        credentials: None,
        tools: Vec::new(),
        toolsets: Vec::new(),
        approvals: Vec::new(),
        policy: PolicyOverrides::default(),
        guards: GuardOverrides::default(),
        agents: Vec::new(),
        extra: Extra::new(),
    }
}
