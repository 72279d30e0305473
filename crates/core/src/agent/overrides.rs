//! What a caller may override of an agent, and what a key that is bound to agents may send at all.
//!
//! [`apply`] is the only place that decides it; `docs/security.md` has it as a table. Runs, sessions and messages of
//! sessions all pass here.

use std::collections::{BTreeMap, BTreeSet};

use super::{AgentDefinition, OutputSchema, ToolSource, ToolSpec, ToolTable, Toolset};
use crate::{
    envelope::{GuardOverrides, LoopDetection, LoopThresholds, PolicyOverrides, ToolBudget},
    ids::AgentId,
    policy::{AgentPolicy, LoopLimits, Policy, lower},
    time::Millis,
};

/// The overrides in a request. An absent field leaves the agent unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overrides {
    /// A label for people.
    pub name: Option<String>,
    pub system_prompt: Option<String>,
    /// The text of messages of the role `system`.
    pub system: Vec<String>,
    pub model: Option<String>,
    /// Asked when the model's provider does not answer.
    pub fallback_model: Option<String>,
    pub reasoning_level: Option<u8>,
    pub output_schema: Option<OutputSchema>,
    pub tools: Vec<ToolSpec>,
    /// Servers whose tools are added.
    pub toolsets: Vec<Toolset>,
    pub guards: GuardOverrides,
    pub max_tool_turns: Option<u32>,
    pub policy: Option<PolicyOverrides>,
}

/// Whose agent is overridden.
#[derive(Debug, Clone, PartialEq)]
pub enum Base<'a> {
    /// An agent of the server: no override gives it more than it has.
    Configured(&'a AgentDefinition),
    /// An agent that the caller sends: everything in it may be replaced.
    Own(Box<AgentDefinition>),
}

/// What kind of key a request comes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Trusted with every model and every tool of the server.
    Unbound,
    /// Made for certain agents (`windlass keys create --agent`).
    Bound,
}

/// What a run executes.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    pub definition: AgentDefinition,
    /// Limits of this run; they only narrow those of a configured agent.
    pub policy: Option<PolicyOverrides>,
    pub guards: Option<GuardOverrides>,
}

/// A field that this caller may not send, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct NotAllowed {
    pub field: &'static str,
    pub problem: String,
}

impl NotAllowed {
    fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// Whether a key that is bound to these agents, or to none, may use this one.
pub fn may_use(bound_to: Option<&[AgentId]>, agent: Option<&AgentId>) -> bool {
    bound_to.is_none_or(|agents| agent.is_some_and(|agent| agents.contains(agent)))
}

/// The agent of a run, or the first field that the caller may not send.
pub fn apply(base: Base<'_>, over: Overrides, trust: Trust) -> Result<Effective, NotAllowed> {
    if trust == Trust::Bound {
        check_bound(&base, &over)?;
    }
    match base {
        Base::Own(definition) => Ok(replaced(*definition, over)),
        Base::Configured(agent) => narrowed(agent, over),
    }
}

fn check_bound(base: &Base<'_>, over: &Overrides) -> Result<(), NotAllowed> {
    let Base::Configured(agent) = base else {
        return Err(NotAllowed::new("agentId", "this key may only start the agents it was made for; name one of them"));
    };
    let fixed = "is the agent's to say, and this key is bound to the agent; leave it out";
    if over.model.is_some() {
        return Err(NotAllowed::new("modelId", fixed));
    }
    if over.fallback_model.is_some() {
        return Err(NotAllowed::new("fallbackModelId", fixed));
    }
    if over.system_prompt.is_some() {
        return Err(NotAllowed::new("systemPrompt", fixed));
    }
    if !over.system.is_empty() {
        return Err(NotAllowed::new("messages", format!("a message of the role system {fixed}")));
    }
    match over.reasoning_level {
        Some(level) if level > agent.reasoning_level.unwrap_or(0) => {
            let most = agent.reasoning_level.unwrap_or(0);
            Err(NotAllowed::new("reasoningLevel", format!("this key may ask for at most the agent's own, {most}")))
        }
        _ => Ok(()),
    }
}

/// The caller's own agent: the request's fields replace the agent's.
fn replaced(mut definition: AgentDefinition, over: Overrides) -> Effective {
    let Overrides { tools, toolsets, guards, max_tool_turns, policy, .. } = &over;
    definition.toolsets.retain(|stored| toolsets.iter().all(|toolset| toolset.name != stored.name));
    definition.toolsets.extend(toolsets.iter().cloned());
    definition.tools.retain(|stored| tools.iter().all(|tool| tool.name != stored.name));
    definition.tools.extend(tools.iter().cloned());
    if guards.loop_detection.is_some() {
        definition.guards.loop_detection = guards.loop_detection;
    }
    if guards.tool_budgets.is_some() {
        definition.guards.tool_budgets.clone_from(&guards.tool_budgets);
    }
    definition.policy.max_tool_turns = lower(definition.policy.max_tool_turns, *max_tool_turns);
    let policy = policy.clone();
    Effective { definition: described(definition, over), policy, guards: None }
}

/// An agent of the server: its tools, its sub-agents and its limits stand; the caller's own tools come on top.
fn narrowed(agent: &AgentDefinition, over: Overrides) -> Result<Effective, NotAllowed> {
    let mut definition = agent.clone();
    if let Some(toolset) = over.toolsets.first() {
        let problem = format!("a caller cannot give agent {} the tools of a server ({:?})", agent.id, toolset.name);
        return Err(NotAllowed::new("tools", problem));
    }
    for tool in &over.tools {
        let name = tool.name.as_str();
        match agent.tool(&tool.name) {
            // The agent's own spec stands, with its confirmation, its tags and its limits.
            Some(own) if std::mem::discriminant(&own.source) == std::mem::discriminant(&tool.source) => {}
            // A reference to a tool of the server names it, whatever kind it is.
            Some(own) if tool.source == ToolSource::Builtin && own.source.client().is_none() => {}
            Some(_) => {
                let problem = format!("agent {} has a tool {name:?} of its own; give yours another name", agent.id);
                return Err(NotAllowed::new("tools", problem));
            }
            None if tool.source.client().is_some() => definition.tools.push(tool.clone()),
            None => {
                let problem = format!("agent {} has no tool {name:?}, and a caller cannot give it one", agent.id);
                return Err(NotAllowed::new("tools", problem));
            }
        }
    }
    definition.policy.max_tool_turns = lower(agent.policy.max_tool_turns, over.max_tool_turns);
    let limits = AgentPolicy { policy: definition.policy.clone(), guards: agent.guards.clone() };
    let base = Policy::resolve(&limits, None, None, None);
    let policy = over.policy.as_ref().map(|asked| narrow_policy(&definition, &limits, &base, asked));
    let guards = narrow_guards(&base, &over.guards);
    Ok(Effective { definition: described(definition, over), policy, guards })
}

/// What is no limit is replaced. A prompt that the agent has stays.
fn described(mut definition: AgentDefinition, over: Overrides) -> AgentDefinition {
    if definition.system_prompt.is_empty() {
        definition.system_prompt = over.system_prompt.unwrap_or_default();
    }
    for text in over.system.iter().filter(|text| !text.trim().is_empty()) {
        let gap = if definition.system_prompt.is_empty() { "" } else { "\n\n" };
        definition.system_prompt = format!("{}{gap}{text}", definition.system_prompt);
    }
    if let Some(model) = over.model {
        definition.model = model;
    }
    if let Some(model) = over.fallback_model {
        definition.fallback = vec![model];
    }
    definition.name = over.name.or(definition.name);
    definition.reasoning_level = over.reasoning_level.or(definition.reasoning_level);
    definition.output_schema = over.output_schema.or(definition.output_schema);
    definition
}

/// The stricter of what the agent has and what is asked for, for each limit that is asked for. Asking for more changes
/// nothing: clients send the protocol's defaults without knowing the agent.
fn narrow_policy(
    definition: &AgentDefinition,
    limits: &AgentPolicy,
    base: &Policy,
    asked: &PolicyOverrides,
) -> PolicyOverrides {
    let mut allowed_tags = asked.allowed_tags.clone().map(|tags| match &base.allowed_tags {
        Some(own) => tags.into_iter().filter(|tag| own.contains(tag)).collect(),
        None => tags,
    });
    let restrict_to_tool = match (&base.restrict_to_tool, &asked.restrict_to_tool) {
        (Some(own), Some(other)) if own != other => {
            // Each forbids the other's tool, so none is left.
            allowed_tags = Some(Vec::new());
            Some(own.clone())
        }
        (_, asked) => asked.clone(),
    };
    let denied_tags = asked.denied_tags.as_ref().map(|tags| {
        let all: BTreeSet<String> = base.denied_tags.iter().chain(tags).cloned().collect();
        all.into_iter().collect()
    });
    PolicyOverrides {
        per_turn_max_tool_calls: lower(base.per_turn_max_tool_calls, asked.per_turn_max_tool_calls),
        restrict_to_tool,
        allowed_tags,
        denied_tags,
        max_tool_calls: lower(base.max_tool_calls, asked.max_tool_calls),
        max_tool_turns: lower(base.max_tool_turns, asked.max_tool_turns),
        max_consecutive_failed_tool_calls: lower(
            base.max_consecutive_failed_tool_calls,
            asked.max_consecutive_failed_tool_calls,
        ),
        max_cost_usd: lower(base.max_cost, asked.max_cost_usd),
        max_tokens: lower(base.max_tokens, asked.max_tokens),
        time_budget_ms: lower(base.time_budget, asked.time_budget_ms),
        plan_timeout_ms: lower(Some(base.plan_timeout), asked.plan_timeout_ms),
        tool_timeout_ms: None,
        per_tool_timeout_ms: shorter_timeouts(definition, limits, base, asked),
        finalizer_grace_ms: lower(Some(base.finalizer_grace), asked.finalizer_grace_ms),
        interrupts_allowed: asked.interrupts_allowed.map(|allowed| allowed && base.interrupts_allowed),
        extra: Default::default(),
    }
}

/// By exact name, which takes precedence over every other timeout.
fn shorter_timeouts(
    definition: &AgentDefinition,
    limits: &AgentPolicy,
    base: &Policy,
    asked: &PolicyOverrides,
) -> Option<BTreeMap<String, Millis>> {
    let wanted = Policy::resolve(limits, Some(asked), None, None);
    // A definition that was checked always has a table.
    let tools = ToolTable::of(definition).unwrap_or_default();
    let shorter: BTreeMap<_, _> = tools
        .iter()
        .map(|(name, tool)| (name, wanted.tool_timeout(name, tool), base.tool_timeout(name, tool)))
        .filter(|(_, wanted, own)| wanted < own)
        .map(|(name, wanted, _)| (name.to_string(), wanted))
        .collect();
    Some(shorter).filter(|shorter| !shorter.is_empty())
}

fn narrow_guards(base: &Policy, asked: &GuardOverrides) -> Option<GuardOverrides> {
    let loop_detection = asked.loop_detection.and_then(|_| {
        let wanted = Policy::resolve(&AgentPolicy::default(), None, Some(asked), None).loop_limits;
        let stricter = match (base.loop_limits, wanted) {
            (Some(own), Some(wanted)) => {
                LoopLimits { soft: own.soft.min(wanted.soft), hard: own.hard.min(wanted.hard) }
            }
            (own, wanted) => own.or(wanted)?,
        };
        Some(LoopDetection::Thresholds(LoopThresholds {
            consecutive_threshold: Some(stricter.soft),
            hard_cutoff_threshold: Some(stricter.hard),
        }))
    });
    let budgets = asked.tool_budgets.iter().flatten().map(|(tool, asked)| {
        let own = base.tool_budgets.get(tool).copied();
        (tool.clone(), ToolBudget { max_calls: own.map_or(asked.max_calls, |own| own.min(asked.max_calls)) })
    });
    // An empty map would clear the agent's.
    let tool_budgets = Some(budgets.collect::<BTreeMap<_, _>>()).filter(|budgets| !budgets.is_empty());
    let narrowed = GuardOverrides { loop_detection, tool_budgets };
    (narrowed != GuardOverrides::default()).then_some(narrowed)
}

#[cfg(test)]
mod tests;
