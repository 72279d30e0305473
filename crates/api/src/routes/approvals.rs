//! Grants, and the approval rules of runs and sessions.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use http::Uri;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass_core::{
    approval::{ApprovalRule, ApprovalScope, Grant, OwnRules, read_rules},
    envelope::{Actor, Extra},
    ids::{CallId, GrantId, ToolName},
};
use windlass_store::GrantFilter;

use super::{control::read, runs, sessions, tool_results::Done};
use crate::{
    app::App,
    auth::{Caller, Scope},
    body::JsonBody,
    error::{ApiError, Result},
    openapi::bodies::RulesBody,
    query::{Query, invalid},
};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Grants {
    /// Each with `id`, `scope`, `tool`, `shape`, `grantedBy`, `grantedAt`, `expiresAt`, `revoked`.
    #[schema(value_type = Vec<Object>)]
    grants: Vec<Grant>,
}

/// Grants: calls that are not asked about again. The newest first.
#[utoipa::path(
    get, path = "/approval-grants", tag = "approvals",
    params(
        ("tool" = Option<String>, Query, description = "only for this tool"),
        ("revoked" = Option<u8>, Query, description = "1: revoked grants, too"),
        ("limit" = Option<u32>, Query, description = "1 to 200, default 50"),
    ),
    responses((status = 200, body = Grants))
)]
pub(crate) async fn grants(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Json<Grants>> {
    let query = Query::of(&uri);
    let tool = query.get("tool").map(ToolName::parse).transpose();
    let filter = GrantFilter {
        workspace: caller.workspace.clone(),
        tool: tool.map_err(|problem| invalid("tool", &problem.to_string()))?,
        scopes: None,
        revoked: query.get("revoked") == Some("1"),
        limit: query.limit()?,
    };
    let mut grants = Vec::new();
    for grant in app.store().grants(filter).await? {
        if is_callers(&app, &caller, &grant.scope).await? {
            grants.push(grant);
        }
    }
    Ok(Json(Grants { grants }))
}

/// Revokes a grant: later calls are asked about again. A repeat changes nothing.
#[utoipa::path(post, path = "/approval-grants/{id}/revoke", tag = "approvals", responses((status = 200, body = Object)))]
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Grant>> {
    let missing = || ApiError::not_found("grant");
    let id = GrantId::parse(&id).map_err(|_| missing())?;
    if caller.agents.is_some() {
        // A key that is bound to agents learns nothing of grants for others.
        let all = GrantFilter {
            workspace: caller.workspace.clone(),
            tool: None,
            scopes: None,
            revoked: true,
            limit: u32::MAX,
        };
        let found = app.store().grants(all).await?.into_iter().find(|grant| grant.id == id).ok_or_else(missing)?;
        if !is_callers(&app, &caller, &found.scope).await? {
            return Err(missing());
        }
    }
    app.store().revoke_grant(&caller.workspace, &id).await?.map(Json).ok_or_else(missing)
}

/// Whether a key may see what holds there.
async fn is_callers(app: &App, caller: &Caller, scope: &ApprovalScope) -> Result<bool> {
    if caller.agents.is_none() {
        return Ok(true);
    }
    let store = app.store();
    Ok(match scope {
        ApprovalScope::Agent { id } => caller.may_use(Some(id)),
        ApprovalScope::Run { id } => {
            store.run_in(&caller.workspace, id).await?.is_some_and(|row| caller.may_use(Some(&row.root_agent)))
        }
        ApprovalScope::Session { id } => {
            store.session(&caller.workspace, id).await?.is_some_and(|row| caller.may_use(row.agent.as_ref()))
        }
        ApprovalScope::Unknown => false,
    })
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rules {
    /// Empty if there are none.
    rules: Vec<Value>,
    /// Who set them; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_by: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set_at: Option<u64>,
    /// They may be looser than the rules of the agent where their setter could have approved the call.
    may_relax: bool,
}

async fn shown(app: &App, caller: &Caller, owner: &ApprovalScope) -> Result<Json<Rules>> {
    let Some(own) = app.store().rules(&caller.workspace, owner).await? else {
        return Ok(Json(Rules { rules: Vec::new(), set_by: None, set_at: None, may_relax: false }));
    };
    Ok(Json(Rules {
        rules: own.rules.iter().map(|rule| json!(rule)).collect(),
        set_by: Some(json!(own.set_by)),
        set_at: Some(own.set_at.0),
        may_relax: own.may_relax,
    }))
}

/// Stores rules. Those of a caller that may not approve calls only narrow.
pub(super) async fn set_rules(
    app: &App,
    caller: &Caller,
    owner: &ApprovalScope,
    rules: Vec<ApprovalRule>,
    set_by: Actor,
) -> Result<()> {
    let may_relax = caller.has(Scope::RunsApprove);
    let own = OwnRules { rules, set_by, set_at: (app.clock)(), may_relax, extra: Extra::new() };
    Ok(app.store().set_rules(&caller.workspace, owner, Some(own)).await?)
}

async fn replace(app: &App, caller: &Caller, owner: &ApprovalScope, body: Value) -> Result<Json<Rules>> {
    let RulesBody { rules, actor } = read(body)?;
    let actor = caller.actor(actor.as_deref())?;
    let rules = read_rules(&rules)
        .map_err(|problem| invalid(&format!("rules{}", problem.path.replace('/', ".")), &problem.message))?;
    set_rules(app, caller, owner, rules, actor).await?;
    shown(app, caller, owner).await
}

async fn remove(app: &App, caller: &Caller, owner: &ApprovalScope) -> Result<Json<Done>> {
    app.store().set_rules(&caller.workspace, owner, None).await?;
    Ok(Json(Done { ok: true }))
}

async fn of_run(app: &App, caller: &Caller, id: &str) -> Result<ApprovalScope> {
    Ok(ApprovalScope::Run { id: runs::find(app, caller, id).await?.id })
}

async fn of_session(app: &App, caller: &Caller, id: &str) -> Result<ApprovalScope> {
    Ok(ApprovalScope::Session { id: sessions::find(app, caller, id).await?.id })
}

/// The approval rules of a run. They apply to its child runs, too.
#[utoipa::path(get, path = "/agent-runs/{id}/approvals", tag = "approvals", responses((status = 200, body = Rules)))]
pub(crate) async fn show_of_run(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Rules>> {
    shown(&app, &caller, &of_run(&app, &caller, &id).await?).await
}

/// Replaces the approval rules of a run. They apply to the next calls that the model asks for.
#[utoipa::path(put, path = "/agent-runs/{id}/approvals", tag = "approvals", request_body = RulesBody, responses((status = 200, body = Rules)))]
pub(crate) async fn set_of_run(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Rules>> {
    replace(&app, &caller, &of_run(&app, &caller, &id).await?, body).await
}

/// Removes the approval rules of a run.
#[utoipa::path(delete, path = "/agent-runs/{id}/approvals", tag = "approvals", responses((status = 200, body = Done)))]
pub(crate) async fn remove_of_run(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Done>> {
    remove(&app, &caller, &of_run(&app, &caller, &id).await?).await
}

/// The approval rules of a session.
#[utoipa::path(get, path = "/agent-sessions/{id}/approvals", tag = "approvals", responses((status = 200, body = Rules)))]
pub(crate) async fn show_of_session(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Rules>> {
    shown(&app, &caller, &of_session(&app, &caller, &id).await?).await
}

/// Replaces the approval rules of a session. They apply to the next calls in its runs.
#[utoipa::path(put, path = "/agent-sessions/{id}/approvals", tag = "approvals", request_body = RulesBody, responses((status = 200, body = Rules)))]
pub(crate) async fn set_of_session(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Rules>> {
    replace(&app, &caller, &of_session(&app, &caller, &id).await?, body).await
}

/// Removes the approval rules of a session.
#[utoipa::path(delete, path = "/agent-sessions/{id}/approvals", tag = "approvals", responses((status = 200, body = Done)))]
pub(crate) async fn remove_of_session(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Done>> {
    remove(&app, &caller, &of_session(&app, &caller, &id).await?).await
}

/// What the approval rules and grants say of a call now, rule by rule, and what was decided when it was asked for.
#[utoipa::path(
    get, path = "/agent-runs/{id}/calls/{call}/approval", tag = "approvals",
    params(("call" = String, Path, description = "the call's id")),
    responses((status = 200, body = Object))
)]
pub(crate) async fn explain_call(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id, call)): Path<(String, String, String)>,
) -> Result<Json<Value>> {
    let row = runs::find(&app, &caller, &id).await?;
    let explained =
        app.ops_for(&caller).explain_call(&row, &CallId::new(call), &app.approvals, Some(&app.agents)).await?;
    explained.map(|explained| Json(json!(explained))).ok_or_else(|| ApiError::not_found("call"))
}
