//! Fields of a run's body beyond the protocol: a whole agent definition, ids, limits and labels.

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::{
    agent::{
        AgentDefinition, HttpAccess, ToolSource, ToolSpec, Toolset, check, check_policy, check_sources,
        file::{policy_fields, unknown_fields},
    },
    approval::{ApprovalRule, read_rules},
    envelope::PolicyOverrides,
    ids::{RunId, SessionId},
    secret::{SecretRef, SecretText},
};

use super::{
    Invalid,
    fields::Fields,
    metadata::{self, Metadata},
};
use crate::{models::Catalogue, unknown};

/// The start options of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Start {
    pub run_id: Option<RunId>,
    /// Created on first use.
    pub session_id: Option<SessionId>,
    /// Limits of this run.
    pub policy: Option<PolicyOverrides>,
    pub labels: Metadata,
    /// Approval rules of this run.
    pub approvals: Option<Vec<ApprovalRule>>,
}

impl Start {
    pub(super) fn parse(fields: &Fields<'_>) -> Result<Self, Invalid> {
        let policy: Option<PolicyOverrides> = read(fields, "policy")?;
        if let Some(policy) = &policy {
            check_limits(fields, policy)?;
        }
        Ok(Self {
            run_id: run_id(fields)?,
            session_id: id(fields, "sessionId", |text| SessionId::parse(text).map_err(|problem| problem.to_string()))?,
            policy,
            labels: metadata::parse(fields, "labels")?,
            approvals: approvals(fields)?,
        })
    }
}

fn check_limits(fields: &Fields<'_>, policy: &PolicyOverrides) -> Result<(), Invalid> {
    if let Some(word) = policy.extra.keys().next() {
        let known: Vec<&str> = policy_fields().collect();
        let (word, problem) = unknown::key("limit", word, &known);
        return Err(fields.invalid(&format!("policy.{word}"), problem));
    }
    match check_policy(policy).into_iter().next() {
        None => Ok(()),
        Some(problem) => {
            Err(fields.invalid(&format!("policy{}", problem.path.replace('/', ".")), short(&problem.message)))
        }
    }
}

/// The approval rules of a run. They are Windlass's own, so unknown fields in them are refused.
pub(super) fn approvals(fields: &Fields<'_>) -> Result<Option<Vec<ApprovalRule>>, Invalid> {
    let Some(sent) = fields.get("approvals") else { return Ok(None) };
    let rules = read_rules(sent).map_err(|problem| {
        fields.invalid(&format!("approvals{}", problem.path.replace('/', ".")), short(&problem.message))
    })?;
    Ok(Some(rules))
}

/// The id that the caller chose for the run.
pub(super) fn run_id(fields: &Fields<'_>) -> Result<Option<RunId>, Invalid> {
    id(fields, "runId", |text| RunId::parse(text).map_err(|problem| problem.to_string()))
}

fn id<T>(fields: &Fields<'_>, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Invalid> {
    let Some(text) = fields.text(key)? else { return Ok(None) };
    if text.contains('/') {
        return Err(fields.invalid(key, "must not contain /: such ids are for child runs"));
    }
    parse(text).map(Some).map_err(|problem| fields.invalid(key, problem))
}

/// A caller must not be able to name variables of a server's environment.
fn refers_to_environment(definition: &AgentDefinition) -> bool {
    matches!(definition.credentials, Some(SecretRef::Env(_))) || definition.agents.iter().any(refers_to_environment)
}

/// What only agents of the server may have: it would give a caller the worker's place in its network.
fn operators_only(definition: &AgentDefinition) -> Option<&'static str> {
    let of_access = |access: &HttpAccess| {
        if access.allow_private {
            Some("allowPrivate is for agents of the server: it reaches the worker's private network")
        } else if access.headers.values().flat_map(SecretText::references).any(|it| matches!(it, SecretRef::Env(_))) {
            Some("headers: only agent files may refer to the worker's environment; use ${secret:NAME}")
        } else if access.oauth.is_some() {
            Some("oauth is for agents of the server: its secret is one of the workspace; send a token in headers")
        } else {
            None
        }
    };
    let of_tool = |tool: &ToolSpec| match &tool.source {
        ToolSource::Http(http) => of_access(&http.access),
        ToolSource::A2a(a2a) => of_access(&a2a.access),
        ToolSource::Temporal(_) => {
            Some("tools of kind temporal are for agents of the server: they reach every task queue")
        }
        _ => None,
    };
    let of_toolset = |toolset: &Toolset| {
        let accesses = [toolset.mcp.as_ref().map(|mcp| &mcp.access), toolset.openapi.as_ref().map(|api| &api.access)];
        accesses.into_iter().flatten().find_map(of_access)
    };
    let tools = definition.tools.iter().find_map(of_tool);
    tools
        .or_else(|| definition.toolsets.iter().find_map(of_toolset))
        .or_else(|| definition.agents.iter().find_map(operators_only))
}

/// An agent definition, with the fields of an agent file in camelCase.
pub(super) fn definition(fields: &Fields<'_>) -> Result<Option<Box<AgentDefinition>>, Invalid> {
    const KEY: &str = "definition";
    let Some(definition) = read::<AgentDefinition>(fields, KEY)? else { return Ok(None) };
    if fields.get("agentId").is_some() {
        return Err(fields.invalid(KEY, "send either definition or agentId"));
    }
    let sent = fields.get(KEY).unwrap_or(&Value::Null);
    let problems = unknown_fields(sent).into_iter().chain(check_sources(sent)).chain(check(&definition));
    if let Some(problem) = problems.into_iter().next() {
        return Err(fields.invalid(KEY, short(&problem)));
    }
    if refers_to_environment(&definition) {
        let problem = "credentials: only agent files may refer to the worker's environment; use {\"secret\": NAME}";
        return Err(fields.invalid(KEY, problem));
    }
    if let Some(problem) = operators_only(&definition) {
        return Err(fields.invalid(KEY, problem));
    }
    Ok(Some(Box::new(definition)))
}

fn read<T: DeserializeOwned>(fields: &Fields<'_>, key: &str) -> Result<Option<T>, Invalid> {
    let read = |value: &serde_json::Value| T::deserialize(value);
    fields.get(key).map(read).transpose().map_err(|problem| {
        let complaint = problem.to_string();
        let said = unknown::field(&complaint).map_or(complaint, |(_, problem)| problem);
        fields.invalid(key, short(&said))
    })
}

/// Truncates a message that may repeat the caller's text.
fn short(problem: &impl ToString) -> String {
    problem.to_string().chars().take(300).collect()
}

/// Every model of a definition must be one that this server has.
pub(super) fn check_models(definition: &AgentDefinition, path: &str, models: &Catalogue) -> Result<(), Invalid> {
    if models.resolve(Some(&definition.model)).is_err() {
        return Err(Invalid::new(
            format!("{path}.model"),
            format!("this server has no model {:?}; GET /models lists its models", definition.model),
        ));
    }
    for (index, model) in definition.fallback.iter().enumerate() {
        if models.resolve(Some(model)).is_err() {
            let problem = format!("this server has no model {model:?}; GET /models lists its models");
            return Err(Invalid::new(format!("{path}.fallback[{index}]"), problem));
        }
    }
    let mut below = definition.agents.iter().enumerate();
    below.try_for_each(|(index, agent)| check_models(agent, &format!("{path}.agents[{index}]"), models))
}
