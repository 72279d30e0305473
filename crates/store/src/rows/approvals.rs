//! Grants, and the approval rules of sessions and runs.

use windlass_core::{
    approval::{ApprovalLayer, ApprovalScope, CallFacts, Layer, OwnRules},
    ids::{RunId, SessionId, ToolName, WorkspaceId},
};

use crate::{Result, StoreError};

/// Which grants to read. They come newest first.
#[derive(Debug, Clone)]
pub struct GrantFilter {
    pub workspace: WorkspaceId,
    /// Of this tool only.
    pub tool: Option<ToolName>,
    /// For one of these only; all if absent.
    pub scopes: Option<Vec<ApprovalScope>>,
    /// Revoked grants, too.
    pub revoked: bool,
    pub limit: u32,
}

/// The most grants that are looked at for one call.
const GRANTS_OF_A_CALL: u32 = 200;

impl GrantFilter {
    /// The grants that may apply to a call, the newest of them.
    pub fn for_call(workspace: &WorkspaceId, call: &CallFacts<'_>) -> Self {
        Self {
            workspace: workspace.clone(),
            tool: Some(call.tool.clone()),
            scopes: Some(ApprovalScope::of(call.run, call.session, call.agent)),
            revoked: false,
            limit: GRANTS_OF_A_CALL,
        }
    }
}

/// A scope as columns have it: its kind and its id. Scopes of a newer build are not written here.
pub(crate) fn scope_columns(scope: &ApprovalScope) -> Result<(&'static str, &str)> {
    match scope {
        ApprovalScope::Run { id } => Ok(("run", id.as_str())),
        ApprovalScope::Session { id } => Ok(("session", id.as_str())),
        ApprovalScope::Agent { id } => Ok(("agent", id.as_str())),
        ApprovalScope::Unknown => Err(StoreError::InvalidArgument {
            argument: "scope",
            problem: "this build does not know it; use a run, a session or an agent".to_owned(),
        }),
    }
}

/// The scopes whose rules a run follows, each with its place: the session, the root run, the runs below it down to the
/// run itself.
pub(crate) fn owners_of(run: &RunId, session: Option<&SessionId>) -> Vec<(&'static str, String)> {
    let session = session.map(|session| ("session", session.to_string()));
    let ends = run.as_str().match_indices('/').map(|(end, _)| end).chain([run.as_str().len()]);
    session.into_iter().chain(ends.map(|end| ("run", run.as_str()[..end].to_owned()))).collect()
}

/// The layer of rules that were found for one of these owners.
pub(crate) fn layer_of(kind: &str, rules: OwnRules) -> ApprovalLayer {
    rules.layer(if kind == "session" { Layer::Session } else { Layer::Run })
}
