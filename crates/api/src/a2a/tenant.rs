//! The tenant of a request: the agent that it is for.
//!
//! The protocol leaves open what a tenant is; a card says which one to send. Here it is `WORKSPACE/AGENT`, or `AGENT` in the
//! workspace of the key. gRPC has no other way to name an agent. In the other bindings the address does, so a tenant is not
//! needed there, and must not name another agent.

use std::sync::Arc;

use windlass_core::{agent::AgentDefinition, ids::WorkspaceId};

use super::{
    error::{Result, invalid},
    visit::{Visit, agents_of},
};
use crate::{app::App, auth::Caller};

/// The tenant of an agent, as its card names it.
pub(crate) fn of(workspace: &WorkspaceId, agent: &AgentDefinition) -> String {
    format!("{workspace}/{}", agent.id)
}

/// The agent that a tenant names. An id may contain a slash: `a/b` is agent `b` of workspace `a` before it is agent `a/b`.
fn named<'a>(
    agents: impl Iterator<Item = &'a AgentDefinition> + Clone,
    workspace: &WorkspaceId,
    tenant: &str,
) -> Option<&'a AgentDefinition> {
    let with_workspace = agents.clone().find(|agent| tenant == of(workspace, agent));
    with_workspace.or_else(|| agents.clone().find(|agent| tenant == agent.id.as_str()))
}

/// Refuses a tenant that names another agent than the address.
pub(crate) fn check(visit: &Visit, tenant: Option<&str>) -> Result<()> {
    let Some(tenant) = tenant.filter(|tenant| !tenant.is_empty()) else { return Ok(()) };
    let (workspace, agent) = (&visit.caller.workspace, &visit.agent);
    if named(agents_of(&visit.app, &visit.caller), workspace, tenant).is_some_and(|named| named.id == agent.id) {
        return Ok(());
    }
    let problem = format!(
        "is not the agent at this address; send no tenant, or {:?}, which the agent card names",
        of(workspace, agent)
    );
    Err(invalid("tenant", problem).into())
}

/// The agent that a tenant names; without a tenant, the only one that the key may start.
pub(crate) fn visit(app: Arc<App>, caller: Caller, tenant: Option<&str>) -> Result<Visit> {
    let workspace = &caller.workspace;
    let found = match tenant.filter(|tenant| !tenant.is_empty()) {
        Some(tenant) => {
            let problem =
                "names no agent that this key may start; send the tenant of the GRPC interface in the agent's card";
            let known = named(agents_of(&app, &caller), workspace, tenant);
            known.ok_or_else(|| invalid("tenant", problem))?
        }
        None => {
            let mut agents = agents_of(&app, &caller);
            let only = agents.next().filter(|_| agents.next().is_none());
            let problem = "is required, because this key may start several agents; send the tenant of the GRPC interface in \
                           the agent's card";
            only.ok_or_else(|| invalid("tenant", problem))?
        }
    };
    let agent = found.clone();
    Ok(Visit::with(app, caller, agent))
}

/// The tenant in a path of HTTP+JSON, and the path of the operation: `acme/desk/tasks/1` is `tasks/1` of `acme/desk`.
pub(crate) fn in_path(path: &str) -> (Option<&str>, &str) {
    let is_operation = |rest: &str| {
        matches!(rest, "message:send" | "message:stream" | "extendedAgentCard" | "tasks") || rest.starts_with("tasks/")
    };
    if is_operation(path) {
        return (None, path);
    }
    let tenants = path.match_indices('/').map(|(at, _)| (&path[..at], &path[at + 1..]));
    match tenants.into_iter().find(|(_, rest)| is_operation(rest)) {
        Some((tenant, rest)) => (Some(tenant), rest),
        None => (None, path),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tenant_precedes_the_path_of_an_operation() {
        for (path, tenant, rest) in [
            ("message:send", None, "message:send"),
            ("desk/message:send", Some("desk"), "message:send"),
            ("acme/desk/message:stream", Some("acme/desk"), "message:stream"),
            ("acme/team/desk/tasks", Some("acme/team/desk"), "tasks"),
            ("desk/tasks/t-1:cancel", Some("desk"), "tasks/t-1:cancel"),
            ("tasks/message:send", None, "tasks/message:send"),
            ("desk/tasks/t/pushNotificationConfigs/1", Some("desk"), "tasks/t/pushNotificationConfigs/1"),
            ("desk/extendedAgentCard", Some("desk"), "extendedAgentCard"),
            ("desk/other", None, "desk/other"),
        ] {
            assert_eq!(in_path(path), (tenant, rest), "{path}");
        }
    }

    #[test]
    fn a_tenant_is_an_agent_with_or_without_its_workspace() {
        let workspace = WorkspaceId::parse("acme").unwrap();
        let agents = ["desk", "team/desk", "acme/desk", "acme/ask"]
            .map(|id| serde_json::from_value::<AgentDefinition>(json!({"id": id, "model": "m"})).unwrap());
        for (tenant, id) in [
            ("desk", Some("desk")),
            ("acme/desk", Some("desk")),
            ("team/desk", Some("team/desk")),
            ("acme/team/desk", Some("team/desk")),
            ("acme/acme/desk", Some("acme/desk")),
            ("acme/ask", Some("acme/ask")),
            ("other/desk", None),
            ("acme", None),
            ("ask", None),
        ] {
            let found = named(agents.iter(), &workspace, tenant);
            assert_eq!(found.map(|agent| agent.id.as_str()), id, "{tenant}");
        }
        for agent in &agents {
            let found = named(agents.iter(), &workspace, &of(&workspace, agent));
            assert_eq!(found.map(|found| &found.id), Some(&agent.id), "what a card names leads to its agent");
        }
    }
}
