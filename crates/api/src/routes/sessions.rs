//! Sessions: conversations of many runs.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use http::{StatusCode, Uri};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass_core::{ids::SessionId, run::RunStatus};
use windlass_store::{NewSession, RunFilter, SecretOwner, SessionFilter, SessionRow, SessionStatus};

use super::{
    control,
    launch::{Taken, launch, split_secrets},
    rows::{self, Session, SessionItem},
    tool_results::Done,
};
use crate::{
    app::App,
    auth::Caller,
    body::{JsonBody, Understood},
    error::{ApiError, Result},
    openapi::bodies::{MessageBody, SessionBody},
    query::{Query, invalid},
    spec::{self, Kept},
};

/// The largest page of a session's history.
const MAX_MESSAGES: u32 = 500;
/// Of a page that only says where it ends.
const HISTORY_PAGE: u32 = 100;

/// The session, if it belongs to the caller; otherwise the same error as for one that does not exist.
pub(super) async fn find(app: &App, caller: &Caller, id: &str) -> Result<SessionRow> {
    let missing = || ApiError::not_found("session");
    let session = SessionId::parse(id).map_err(|_| missing())?;
    let row = app.store().session(&caller.workspace, &session).await?;
    row.filter(|row| caller.may_use(row.agent.as_ref())).ok_or_else(missing)
}

/// Refuses to add a run of the caller's to a session of an agent that is not the caller's.
pub(super) async fn may_join(app: &App, caller: &Caller, session: &SessionId) -> Result<()> {
    if caller.agents.is_some() && app.store().session(&caller.workspace, session).await?.is_some() {
        find(app, caller, session.as_str()).await?;
    }
    Ok(())
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Created {
    session_id: String,
    name: Option<String>,
    created_at: String,
}

/// Creates a session.
#[utoipa::path(post, path = "/agent-sessions", tag = "sessions", request_body = SessionBody, responses((status = 201, body = Created)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Understood((spec, kept)): Understood<Kept>,
) -> Result<(StatusCode, Json<Created>)> {
    // The spec is resolved now, so that its errors are reported now.
    let agent = spec.resolve(&[], None, app.around(&caller))?.definition.id;
    let id = SessionId::new(format!("ses-{}", uuid::Uuid::now_v7().simple()));
    let (spec, kept) = split_secrets(&app, &caller, SecretOwner::Session(id.clone()), spec, kept).await?;
    let session = NewSession {
        id,
        name: spec.name,
        spec: Some(app.store().put_blob(kept.into()).await?.digest),
        metadata: spec.metadata,
        workspace: caller.workspace,
        agent: Some(agent),
    };
    let row = app.store().create_session(session).await?;
    let created = Created { session_id: row.id.to_string(), name: row.name, created_at: rows::time(row.created_at) };
    Ok((StatusCode::CREATED, Json(created)))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionList {
    total: Option<u64>,
    limit: u32,
    offset: u32,
    next_cursor: Option<String>,
    sessions: Vec<SessionItem>,
    /// Sessions that belong on this page and cannot be read because their rows are damaged; only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<u64>,
}

/// Sessions, the most recently used first.
#[utoipa::path(
    get, path = "/agent-sessions", tag = "sessions",
    params(
        ("status" = Option<String>, Query, description = "active or ended"),
        ("metadata" = Option<Vec<String>>, Query, description = "key:value; sessions must have all of them"),
        ("limit" = Option<u32>, Query, description = "1 to 200, default 50"),
        ("offset" = Option<u32>, Query), ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page, instead of an offset"),
        ("includeTotal" = Option<u8>, Query, description = "accepted; the total is always returned"),
    ),
    responses((status = 200, body = SessionList))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Json<SessionList>> {
    let query = Query::of(&uri);
    let status = match query.get("status") {
        None => None,
        Some("active") => Some(SessionStatus::Active),
        Some("ended") => Some(SessionStatus::Ended),
        Some(_) => return Err(invalid("status", "must be active or ended")),
    };
    let (limit, offset) = (query.limit()?, query.number("offset")?.unwrap_or(0));
    let filter = SessionFilter {
        status,
        metadata: query.metadata()?,
        cursor: query.get("cursor").map(str::to_owned),
        offset,
        limit,
        total: true,
        agents: caller.agents,
        ..SessionFilter::of(caller.workspace)
    };
    let page = app.store().sessions(filter).await?;
    Ok(Json(SessionList {
        total: page.total,
        limit,
        offset,
        next_cursor: page.next,
        sessions: page.sessions.iter().map(SessionItem::of).collect(),
        unreadable: Some(page.unreadable).filter(|count| *count > 0),
    }))
}

/// A session with its conversation.
#[utoipa::path(get, path = "/agent-sessions/{id}", tag = "sessions", responses((status = 200, body = Session)))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Session>> {
    let row = find(&app, &caller, &id).await?;
    let messages = app.store().session_messages(&row.workspace, &row.id).await?;
    let spec = spec_of(&app, &row).await?;
    Ok(Json(Session::of(&row, spec, &messages)))
}

async fn spec_of(app: &App, row: &SessionRow) -> Result<Option<Value>> {
    match &row.spec {
        Some(digest) => Ok(app.store().blob(digest).await?.map(|spec| spec.to_value())),
        None => Ok(None),
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    session_id: String,
    total: u64,
    events: Vec<Value>,
    /// `beforeSeq` of the page before this one; null if there is none.
    next_before_seq: Option<u64>,
    truncated: bool,
}

/// A session's conversation, message by message.
#[utoipa::path(
    get, path = "/agent-sessions/{id}/events", tag = "sessions",
    params(
        ("full" = Option<u8>, Query, description = "1 for the whole conversation"),
        ("lastMessages" = Option<u32>, Query, description = "at most 500"),
        ("beforeSeq" = Option<u64>, Query, description = "the page that ends before this message"),
    ),
    responses((status = 200, body = History))
)]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<History>> {
    let row = find(&app, &caller, &id).await?;
    let query = Query::of(&uri);
    let before = query.number::<u64>("beforeSeq")?;
    let last = match query.number::<u32>("lastMessages")? {
        Some(last) if !(1..=MAX_MESSAGES).contains(&last) => {
            return Err(invalid("lastMessages", "must be from 1 to 500"));
        }
        Some(last) => Some(last),
        None if query.flag("full")? => None,
        None => before.map(|_| HISTORY_PAGE),
    };
    let page = app.store().session_page(&row.workspace, &row.id, before, last).await?;
    let first = page.messages.first().map_or(1, |(seq, _)| *seq);
    Ok(Json(History {
        session_id: row.id.to_string(),
        total: page.total,
        events: page.messages.iter().map(|(seq, message)| rows::history_event(*seq, message)).collect(),
        next_before_seq: (first > 1).then_some(first),
        truncated: first > 1,
    }))
}

/// Sends a message to a session and starts the run that answers it. Overrides apply to that run only.
#[utoipa::path(post, path = "/agent-sessions/{id}/messages", tag = "sessions", request_body = MessageBody, responses((status = 202, body = Taken)))]
pub(crate) async fn message(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<Taken>)> {
    let row = find(&app, &caller, &id).await?;
    if row.status() == SessionStatus::Ended {
        return Err(ApiError::conflict("session_ended", "the session has ended; start a new one"));
    }
    let session = spec_of(&app, &row).await?.unwrap_or_else(|| json!({}));
    // A session's spec may be as large as a message.
    let accepted = app.apart(usize::MAX, move || spec::effective(&session, &body)).await??;
    let taken = launch(&app, &caller, accepted, Some(row.id)).await?;
    Ok((StatusCode::ACCEPTED, Json(taken)))
}

/// Ends a session and cancels its open runs.
#[utoipa::path(delete, path = "/agent-sessions/{id}", tag = "sessions", responses((status = 200, body = Done)))]
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Done>> {
    let row = find(&app, &caller, &id).await?;
    // First the session takes no more runs, then its open runs are cancelled.
    app.store().end_session(&row.workspace, &row.id).await?;
    let at_work = RunFilter {
        workspace: Some(row.workspace),
        session: Some(row.id),
        statuses: vec![RunStatus::Queued, RunStatus::Running, RunStatus::Waiting, RunStatus::Paused],
        limit: 200,
        ..RunFilter::default()
    };
    for run in app.store().runs(at_work).await?.runs {
        control::stop(&app, &caller, &run, None).await?;
    }
    Ok(Json(Done { ok: true }))
}
