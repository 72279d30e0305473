//! The verbs of an operator: cancel, pause, resume, steer, and answering what a run waits for.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass_core::{
    envelope::{Answer, AnswerBody, AnswerReply, AnswerStatus, PauseRequest, ResumeRequest, SteerRequest},
    ids::RunId,
};
use windlass_ops::OpsError;
use windlass_store::RunRow;

use super::{rows, runs::find, tool_results::Done};
use crate::{
    app::App,
    auth::Caller,
    body::JsonBody,
    error::{ApiError, Result},
    log,
    openapi::bodies::{AnswerRequest, ConfirmationRequest, PauseBody, ResumeBody, SteerBody},
};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cancelled {
    ok: bool,
    /// `cancelled`, or how the run had ended before.
    status: &'static str,
}

/// Stops a run. One that has ended stays as it is.
#[utoipa::path(post, path = "/agent-runs/{id}/cancel", tag = "runs", responses((status = 200, body = Cancelled)))]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Cancelled>> {
    let row = find(&app, &caller, &id).await?;
    let status = stop(&app, &caller, &row).await?;
    Ok(Json(Cancelled { ok: true, status }))
}

/// Cancels a run unless it has ended, and says what became of it.
pub(super) async fn stop(app: &App, caller: &Caller, row: &RunRow) -> Result<&'static str> {
    if row.status.is_terminal() {
        return Ok(rows::status(row.status));
    }
    match app.ops_for(caller).cancel(&row.id, &format!("cancelled by {}", caller.key_name)).await {
        // It has just ended.
        Ok(()) | Err(OpsError::NotFound { .. }) => Ok("cancelled"),
        Err(error) => Err(error.into()),
    }
}

/// A run that can still be told something.
async fn open_run(app: &App, caller: &Caller, id: &str) -> Result<RunId> {
    let row = find(app, caller, id).await?;
    if row.status.is_terminal() {
        return Err(ApiError::conflict("run_terminal", format!("the run has ended ({})", row.status.as_str())));
    }
    Ok(row.id)
}

/// Reads a body into one of the run's own envelopes.
fn read<T: serde::de::DeserializeOwned>(body: Value) -> Result<T> {
    serde_json::from_value(body).map_err(|error| ApiError::invalid(format!("body: {error}")))
}

/// Holds a run before its next step. Waiting costs no time budget.
#[utoipa::path(post, path = "/agent-runs/{id}/pause", tag = "operating", request_body = PauseBody, responses((status = 200, body = Done)))]
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Done>> {
    let PauseBody { reason, actor } = read(body)?;
    let requested_by = caller.actor(actor.as_deref())?;
    let run = open_run(&app, &caller, &id).await?;
    let request = PauseRequest { reason, requested_by, ..PauseRequest::default() };
    app.ops_for(&caller).pause(&run, &request).await?;
    Ok(Json(Done { ok: true }))
}

/// Lets a paused run go on.
#[utoipa::path(post, path = "/agent-runs/{id}/resume", tag = "operating", request_body = ResumeBody, responses((status = 200, body = Done)))]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Done>> {
    let ResumeBody { notes, actor } = read(body)?;
    let requested_by = caller.actor(actor.as_deref())?;
    let run = open_run(&app, &caller, &id).await?;
    let request = ResumeRequest { notes, requested_by, ..ResumeRequest::default() };
    app.ops_for(&caller).resume(&run, &request).await?;
    Ok(Json(Done { ok: true }))
}

/// Says something to the model before its next turn.
#[utoipa::path(post, path = "/agent-runs/{id}/steer", tag = "operating", request_body = SteerBody, responses((status = 200, body = Done)))]
pub(crate) async fn steer(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Done>> {
    let SteerBody { text, actor } = read(body)?;
    let requested_by = caller.actor(actor.as_deref())?;
    if text.trim().is_empty() {
        return Err(ApiError::invalid("text: is required, say something").with("field", "text"));
    }
    let run = open_run(&app, &caller, &id).await?;
    let request = SteerRequest { text, requested_by, ..SteerRequest::default() };
    app.ops_for(&caller).steer(&run, &request).await?;
    Ok(Json(Done { ok: true }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Awaits {
    /// Each with `id`, `kind`, `prompt`, the calls it is about and their digests.
    awaits: Vec<Value>,
}

/// What the run waits for.
#[utoipa::path(get, path = "/agent-runs/{id}/awaits", tag = "operating", responses((status = 200, body = Awaits)))]
pub(crate) async fn awaits(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Awaits>> {
    let row = find(&app, &caller, &id).await?;
    if row.status.is_terminal() {
        return Ok(Json(Awaits { awaits: Vec::new() }));
    }
    let mut awaits = app.ops_for(&caller).awaits(&row.id).await?;
    for item in &mut awaits {
        log::complete(app.store(), item).await?;
    }
    Ok(Json(Awaits { awaits: awaits.into_iter().map(|item| json!(item)).collect() }))
}

/// Answers a question, or brings the results of calls.
#[utoipa::path(post, path = "/agent-runs/{id}/answers", tag = "operating", request_body = AnswerRequest, responses((status = 200, body = Reply)))]
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Reply>> {
    let AnswerRequest { await_id, answer, results, actor } = read(body)?;
    let body = match (answer, results) {
        (Some(answer), None) => AnswerBody::Clarification { answer },
        (None, Some(results)) => AnswerBody::ToolResults { results: read(Value::Array(results))? },
        _ => return Err(ApiError::invalid("answer: send either answer or results").with("field", "answer")),
    };
    reply(&app, &caller, &id, (await_id, actor), body).await
}

/// Approves or denies the exact arguments that were shown.
#[utoipa::path(post, path = "/agent-runs/{id}/confirmations", tag = "operating", request_body = ConfirmationRequest, responses((status = 200, body = Reply)))]
pub(crate) async fn confirm(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Reply>> {
    let ConfirmationRequest { await_id, approved, digest, actor } = read(body)?;
    let digest = digest.map(|digest| read(Value::String(digest))).transpose()?;
    reply(&app, &caller, &id, (await_id, actor), AnswerBody::Confirmation { approved, digest }).await
}

/// What the run said to an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reply {
    /// `accepted`, or `duplicate` for the same answer again.
    status: Value,
    message: String,
}

async fn reply(
    app: &App,
    caller: &Caller,
    id: &str,
    (await_id, actor): (String, Option<String>),
    body: AnswerBody,
) -> Result<Json<Reply>> {
    let actor = caller.actor(actor.as_deref())?;
    let run = open_run(app, caller, id).await?;
    let answer = Answer::new(await_id.as_str().into(), actor, body);
    let AnswerReply { status, message, .. } = app.ops_for(caller).answer(&run, &answer).await?;
    match status {
        AnswerStatus::Accepted | AnswerStatus::Duplicate => Ok(Json(Reply { status: json!(status), message })),
        AnswerStatus::Unknown => Err(ApiError::not_found("await").with("reason", message)),
        AnswerStatus::Invalid => Err(ApiError::invalid(message)),
        AnswerStatus::Stale | AnswerStatus::Expired => Err(ApiError::conflict("await_closed", message)),
    }
}
