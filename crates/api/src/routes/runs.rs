//! Runs: create, list, show.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use http::{StatusCode, Uri};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass_core::{
    envelope::RunStatusView,
    ids::{AgentId, RunId, SessionId},
};
use windlass_ops::OpsError;
use windlass_store::{RunFilter, RunRow};

use super::{
    launch::{Taken, launch},
    rows::{self, RunItem, RunSnapshot},
};
use crate::{
    app::App,
    auth::Caller,
    body::Understood,
    error::{ApiError, Result},
    openapi::bodies::RunBody,
    query::{Query, invalid},
    spec::Accepted,
};

/// The run, if it belongs to the caller, by its full id or by the id that a caller chose. Otherwise the same error as for
/// one that does not exist.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<RunRow> {
    for run in RunId::meant(&caller.workspace, id) {
        let row = app.store().run_in(&caller.workspace, &run).await?;
        if let Some(row) = row.filter(|row| caller.may_use(Some(&row.root_agent))) {
            return Ok(row);
        }
    }
    Err(ApiError::not_found("run"))
}

/// Starts a run.
#[utoipa::path(post, path = "/agent-runs", tag = "runs", request_body = RunBody, responses((status = 202, body = Taken)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Understood(accepted): Understood<Accepted>,
) -> Result<(StatusCode, Json<Taken>)> {
    let taken = launch(&app, &caller, accepted, None).await?;
    Ok((StatusCode::ACCEPTED, Json(taken)))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunList {
    runs: Vec<RunItem>,
    next_cursor: Option<String>,
    /// Null without `includeTotal=1`.
    total: Option<u64>,
    /// The number of runs of this page that cannot be read because their rows are damaged; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<u64>,
}

/// Runs, the newest first.
#[utoipa::path(
    get, path = "/agent-runs", tag = "runs",
    params(
        ("status" = Option<String>, Query, description = "queued, running, succeeded, failed, cancelled; also waiting, paused"),
        ("state" = Option<String>, Query, description = "the detailed status: queued, running, waiting, paused, completed, failed or cancelled"),
        ("modelId" = Option<String>, Query), ("agentId" = Option<String>, Query), ("sessionId" = Option<String>, Query),
        ("parentRunId" = Option<String>, Query),
        ("metadata" = Option<Vec<String>>, Query, description = "key:value; runs must have all of them"),
        ("limit" = Option<u32>, Query, description = "1 to 200, default 50"),
        ("cursor" = Option<String>, Query), ("includeTotal" = Option<u8>, Query, description = "1 counts all matches"),
        ("row" = Option<u8>, Query, description = "1 adds each run's row in the store"),
    ),
    responses((status = 200, body = RunList))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Json<RunList>> {
    let query = Query::of(&uri);
    let statuses = match (query.get("state"), query.get("status")) {
        (None, None) => Vec::new(),
        (Some(word), _) => vec![rows::state(word).ok_or_else(|| {
            invalid("state", "must be queued, running, waiting, paused, completed, failed or cancelled")
        })?],
        (None, Some(word)) => rows::statuses(word)
            .ok_or_else(|| invalid("status", "must be queued, running, succeeded, failed or cancelled"))?,
    };
    // By either of the parent's ids; one that does not exist has no children.
    let parent = match query.get("parentRunId") {
        Some(id) => Some(find(&app, &caller, id).await.map_or_else(|_| RunId::from(id), |row| row.id)),
        None => None,
    };
    let filter = RunFilter {
        workspace: Some(caller.workspace),
        root_agents: caller.agents,
        session: query.get("sessionId").map(SessionId::from),
        agent_id: query.get("agentId").map(AgentId::from),
        model_id: query.get("modelId").map(str::to_owned),
        statuses,
        parent,
        metadata: query.metadata()?,
        cursor: query.get("cursor").map(str::to_owned),
        limit: query.limit()?,
        total: query.flag("includeTotal")?,
        ..RunFilter::default()
    };
    let with_rows = query.flag("row")?;
    let page = app.store().runs(filter).await?;
    let item = |row| if with_rows { RunItem::of(row).with(row) } else { RunItem::of(row) };
    Ok(Json(RunList {
        runs: page.runs.iter().map(item).collect(),
        next_cursor: page.next,
        total: page.total,
        unreadable: Some(page.unreadable).filter(|count| *count > 0),
    }))
}

/// A run: its status, answer and cost.
#[utoipa::path(
    get, path = "/agent-runs/{id}", tag = "runs",
    params(
        ("row" = Option<u8>, Query, description = "1 adds the run's row in the store"),
        ("live" = Option<u8>, Query, description = "1 adds the live status from the run's workflow, if a worker responds"),
    ),
    responses((status = 200, body = RunSnapshot))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<RunSnapshot>> {
    let query = Query::of(&uri);
    let (with_row, with_live) = (query.flag("row")?, query.flag("live")?);
    let mut row = find(&app, &caller, &id).await?;
    let live = if with_live { live(&app, &caller, &mut row).await? } else { None };
    let final_text = app.store().final_text(&row.id).await?;
    let spec = match &row.spec {
        Some(digest) => app.store().blob(digest).await?,
        None => None,
    };
    Ok(Json(
        RunSnapshot::of(&row, final_text, spec.map(|spec| spec.to_value()), &app.models)
            .with(with_row.then_some(&row), live.as_ref()),
    ))
}

/// The live status. A run that has ended or has not started has none. The log of a run whose workflow is gone is ended.
async fn live(app: &App, caller: &Caller, row: &mut RunRow) -> Result<Option<RunStatusView>> {
    if row.status.is_terminal() {
        return Ok(None);
    }
    match app.ops_for(caller).live(&row.id).await {
        Err(OpsError::NotFound { .. }) => {
            *row = end_if_gone(app, caller, row.id.as_str()).await?;
            Ok(None)
        }
        answered => Ok(answered?),
    }
}

/// A run that the Temporal server does not have. If its workflow is gone, its log is ended first.
pub(crate) async fn end_if_gone(app: &App, caller: &Caller, id: &str) -> Result<RunRow> {
    let row = find(app, caller, id).await?;
    if !row.status.is_terminal() && app.ops.end_if_closed_externally(&row.id).await? {
        return find(app, caller, id).await;
    }
    Ok(row)
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventList {
    /// Each with `seq`, `at`, `key`, `type` and `data`.
    events: Vec<Value>,
    /// Whether there may be more.
    more: bool,
}

/// The run's log as it is now.
#[utoipa::path(
    get, path = "/agent-runs/{id}/events", tag = "runs",
    params(("after" = Option<u64>, Query, description = "only events after this seq"), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = EventList))
)]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<EventList>> {
    let row = find(&app, &caller, &id).await?;
    let query = Query::of(&uri);
    let limit = query.limit()?;
    let events = app.store().events(&row.id, query.number("after")?.unwrap_or(0), limit).await?;
    let more = events.len() == limit as usize;
    let events = events.iter().map(serde_json::to_value).collect::<std::result::Result<_, _>>();
    Ok(Json(EventList { events: events.map_err(|error| ApiError::internal(&error))?, more }))
}
