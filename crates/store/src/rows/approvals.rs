//! Grants, and the approval rules of sessions and runs.

use windlass_core::{
    approval::{ApprovalLayer, ApprovalScope, Layer, OwnRules},
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
