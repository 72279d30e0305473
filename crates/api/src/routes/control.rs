//! Requests of operators: cancel, pause, resume, steer, and answering awaits.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass_core::{
    approval::GrantRequest,
    awaits::AwaitView,
    body::Body,
    canonical::CanonicalJson,
    envelope::{
        Answer, AnswerBody, AnswerReply, AnswerStatus, PauseRequest, ProvidedToolResult, ResumeRequest, SteerRequest,
        Tuning,
    },
    ids::RunId,
    limits::{ANSWER_RESULTS, RESULT_BYTES, USER_TEXT_BYTES},
    message::Message,
    run::RunStatus,
};
use windlass_ops::OpsError;
use windlass_store::RunRow;

use super::{
    rows,
    runs::{end_if_gone, find},
    tool_results::Done,
};
use crate::{
    app::App,
    auth::Caller,
    body::JsonBody,
    error::{ApiError, Result},
    openapi::bodies::{AnswerRequest, CancelBody, ConfirmationRequest, GrantBody, PauseBody, ResumeBody, SteerBody},
    query::invalid,
    unknown,
};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cancelled {
    ok: bool,
    /// `cancelled`, or the status of a run that had ended before.
    status: &'static str,
}

/// Cancels a run. A run that has ended is not changed.
#[utoipa::path(post, path = "/agent-runs/{id}/cancel", tag = "runs", request_body = Option<CancelBody>, responses((status = 200, body = Cancelled)))]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Cancelled>> {
    let CancelBody { reason, actor } = read::<Option<_>>(body)?.unwrap_or_default();
    let actor = actor.map(|actor| caller.actor(Some(&actor))).transpose()?;
    let reason = reason.or_else(|| actor.map(|actor| format!("cancelled by {actor}")));
    let row = find(&app, &caller, &id).await?;
    let status = stop(&app, &caller, &row, reason.as_deref()).await?;
    Ok(Json(Cancelled { ok: true, status }))
}

/// Cancels a run unless it has ended, and returns its status. The default reason names the key.
pub(crate) async fn stop(app: &App, caller: &Caller, row: &RunRow, reason: Option<&str>) -> Result<&'static str> {
    if row.status.is_terminal() {
        return Ok(rows::status(row.status));
    }
    let reason = reason.map_or_else(|| format!("cancelled by {}", caller.key_name), str::to_owned);
    match app.ops_for(caller).cancel(&row.id, &reason).await {
        Ok(()) => Ok("cancelled"),
        // The run has just ended.
        Err(OpsError::NotFound { .. }) => Ok(match find(app, caller, row.id.as_str()).await?.status {
            status if status.is_terminal() => rows::status(status),
            _ => "cancelled",
        }),
        Err(error) => Err(error.into()),
    }
}

/// The error of a request that did not reach the run.
async fn unreached(app: &App, caller: &Caller, run: &RunId, error: OpsError) -> ApiError {
    if !matches!(error, OpsError::NotFound { .. }) {
        return error.into();
    }
    match end_if_gone(app, caller, run.as_str()).await {
        Ok(row) if row.status.is_terminal() => ApiError::conflict("run_terminal", ended(row.status)),
        Ok(row) if row.status == RunStatus::Queued => {
            ApiError::unavailable("the run has not started yet; send the request again in a moment")
        }
        Ok(_) => error.into(),
        Err(error) => error,
    }
}

/// The id of a run that has not ended.
async fn open_run(app: &App, caller: &Caller, id: &str) -> Result<RunId> {
    let row = find(app, caller, id).await?;
    if row.status.is_terminal() {
        return Err(ApiError::conflict("run_terminal", ended(row.status)));
    }
    Ok(row.id)
}

fn ended(status: RunStatus) -> String {
    format!("the run has ended ({})", status.as_str())
}

/// Parses a body; unknown fields are an error.
pub(super) fn read<T: serde::de::DeserializeOwned>(body: Value) -> Result<T> {
    serde_json::from_value(body).map_err(|error| {
        let complaint = error.to_string();
        match unknown::field(&complaint) {
            Some((field, problem)) => invalid(&field, &problem),
            None => ApiError::invalid(format!("body: {complaint}")),
        }
    })
}

/// Checks the size of a text that becomes part of the run's history.
fn said(field: &str, text: String) -> Result<String> {
    if text.len() <= USER_TEXT_BYTES {
        return Ok(text);
    }
    Err(invalid(field, &format!("is {} bytes; send at most {USER_TEXT_BYTES}", text.len())))
}

/// Pauses a run before its next step. The pause does not count against the time budget.
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
    if let Err(error) = app.ops_for(&caller).pause(&run, &request).await {
        return Err(unreached(&app, &caller, &run, error).await);
    }
    Ok(Json(Done { ok: true }))
}

/// Resumes a paused run.
#[utoipa::path(post, path = "/agent-runs/{id}/resume", tag = "operating", request_body = ResumeBody, responses((status = 200, body = Done)))]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Done>> {
    let ResumeBody { notes, message, actor } = read(body)?;
    let requested_by = caller.actor(actor.as_deref())?;
    let run = open_run(&app, &caller, &id).await?;
    let message = message.map(|message| said("message", message)).transpose()?;
    let messages = message.map(Message::user).into_iter().collect();
    let request = ResumeRequest { notes, requested_by, messages, ..ResumeRequest::default() };
    if let Err(error) = app.ops_for(&caller).resume(&run, &request).await {
        return Err(unreached(&app, &caller, &run, error).await);
    }
    Ok(Json(Done { ok: true }))
}

/// Adds a user message before the model's next turn.
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
        return Err(ApiError::invalid("text: is required, a non-empty string").with("field", "text"));
    }
    let text = said("text", text)?;
    let run = open_run(&app, &caller, &id).await?;
    let request = SteerRequest { text, requested_by, ..SteerRequest::default() };
    if let Err(error) = app.ops_for(&caller).steer(&run, &request).await {
        return Err(unreached(&app, &caller, &run, error).await);
    }
    Ok(Json(Done { ok: true }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Awaits {
    /// Each with `id`, `kind`, `prompt`, its calls and their digests.
    awaits: Vec<Value>,
}

/// The open awaits of the run, with the arguments of their calls.
#[utoipa::path(get, path = "/agent-runs/{id}/awaits", tag = "operating", responses((status = 200, body = Awaits)))]
pub(crate) async fn awaits(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Awaits>> {
    let row = find(&app, &caller, &id).await?;
    let awaits = pending(&app, &caller, &row).await?;
    Ok(Json(Awaits { awaits: awaits.into_iter().map(|item| json!(item)).collect() }))
}

/// The open awaits of a run, with the arguments of their calls. A run that has ended has none.
pub(crate) async fn pending(app: &App, caller: &Caller, row: &RunRow) -> Result<Vec<AwaitView>> {
    if row.status.is_terminal() {
        return Ok(Vec::new());
    }
    match app.ops_for(caller).pending(&row.id).await {
        // The run has just ended, or has not started.
        Err(OpsError::NotFound { .. }) => {
            end_if_gone(app, caller, row.id.as_str()).await?;
            Ok(Vec::new())
        }
        awaits => Ok(awaits?),
    }
}

/// Answers a question, or sends the results of an await's calls.
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
        (None, Some(results)) => {
            if results.len() > ANSWER_RESULTS {
                let problem = format!("has {} results; send at most {ANSWER_RESULTS}", results.len());
                return Err(invalid("results", &problem));
            }
            AnswerBody::ToolResults { results: travelling(&app, results).await? }
        }
        _ => return Err(ApiError::invalid("answer: send either answer or results").with("field", "answer")),
    };
    reply(&app, &caller, &id, (await_id, actor), body).await.map(Json)
}

/// The results, checked, with those above the inline limit replaced by references to the store.
pub(crate) async fn travelling(app: &App, results: Vec<Value>) -> Result<Vec<ProvidedToolResult>> {
    let results = app.apart(usize::MAX, move || checked(results)).await??;
    stored(app, results).await
}

/// The results, with those above the inline limit in the store.
pub(crate) async fn stored(app: &App, given: Vec<ProvidedToolResult>) -> Result<Vec<ProvidedToolResult>> {
    let mut results = Vec::new();
    for mut provided in given {
        if let Some(result) = provided.result.take() {
            let (body, large) = Body::fit(result, Tuning::INLINE_LIMIT_OF_NEW_RUNS);
            if let Some(large) = large {
                app.store().put_blob(large).await?;
            }
            provided = provided.with_result(&body);
        }
        results.push(provided);
    }
    Ok(results)
}

/// The fields of a result.
const RESULT_FIELDS: [&str; 7] = ["toolCallId", "result", "error", "name", "resultRef", "bounds", "retryHint"];

fn checked(results: Vec<Value>) -> Result<Vec<ProvidedToolResult>> {
    let check = |(index, result): (usize, Value)| {
        let at = format!("results[{index}].");
        // The envelope type accepts unknown fields, because workers of another build send it too.
        let mut keys = result.as_object().into_iter().flat_map(serde_json::Map::keys);
        if let Some(key) = keys.find(|key| !RESULT_FIELDS.contains(&key.as_str())) {
            let (field, problem) = unknown::key("field", key, &RESULT_FIELDS);
            return Err(invalid(&format!("{at}{field}"), &problem));
        }
        let provided: ProvidedToolResult =
            serde_json::from_value(result).map_err(|error| invalid(at.trim_end_matches('.'), &error.to_string()))?;
        let bytes = provided.result.as_ref().map_or(0, CanonicalJson::bytes);
        if bytes > RESULT_BYTES as u64 {
            let problem = format!("is {bytes} bytes of JSON; send at most {RESULT_BYTES}");
            return Err(invalid(&format!("{at}result"), &problem));
        }
        Ok(provided)
    };
    results.into_iter().enumerate().map(check).collect()
}

/// Approves or denies a call with exactly the arguments that were shown.
#[utoipa::path(post, path = "/agent-runs/{id}/confirmations", tag = "operating", request_body = ConfirmationRequest, responses((status = 200, body = Reply)))]
pub(crate) async fn confirm(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Reply>> {
    let ConfirmationRequest { await_id, approved, digest, reason, arguments, grant, actor } = read(body)?;
    let digest = digest.map(|digest| read(Value::String(digest))).transpose()?;
    let grant = grant.map(read::<GrantBody>).transpose()?.map(GrantRequest::from);
    let body = match (arguments, approved, digest) {
        (None, approved, digest) => AnswerBody::Confirmation { approved, digest, reason, grant },
        (Some(_), ..) if grant.is_some() => {
            let message = "grant: a call with other arguments is approved once; approve it without a grant";
            return Err(ApiError::invalid(message).with("field", "grant"));
        }
        (Some(arguments), true, Some(digest)) => {
            AnswerBody::EditedApproval { digest, arguments: Value::Object(arguments).into(), reason }
        }
        (Some(_), ..) => {
            let message = "arguments: other arguments need an approval with the digest of those that were shown";
            return Err(ApiError::invalid(message).with("field", "arguments"));
        }
    };
    reply(&app, &caller, &id, (await_id, actor), body).await.map(Json)
}

/// The run's reply to an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reply {
    /// `accepted`, or `duplicate` if the same answer was accepted before.
    status: Value,
    message: String,
}

/// Answers an await and returns the run's reply. An answer that the run does not accept is an error.
pub(crate) async fn reply(
    app: &App,
    caller: &Caller,
    id: &str,
    (await_id, actor): (String, Option<String>),
    body: AnswerBody,
) -> Result<Reply> {
    let actor = caller.actor(actor.as_deref())?;
    let row = find(app, caller, id).await?;
    if row.status.is_terminal() {
        return Err(too_late(row.status));
    }
    let answer = Answer::new(await_id.as_str().into(), actor, body);
    let ops = app.ops_for(caller);
    let reply = match worker_reply(app, "answer", Box::pin(ops.answer(&row.id, &answer))).await? {
        // The row was there a moment ago.
        Err(OpsError::NotFound { .. }) => {
            let row = end_if_gone(app, caller, id).await?;
            return Err(if row.status.is_terminal() { too_late(row.status) } else { ApiError::not_found("await") });
        }
        replied => replied?,
    };
    let AnswerReply { status, message, .. } = &reply;
    let error = match status {
        AnswerStatus::Accepted | AnswerStatus::Duplicate => {
            return Ok(Reply { status: json!(status), message: reply.message });
        }
        AnswerStatus::Unknown => ApiError::not_found("await"),
        AnswerStatus::Invalid => ApiError::invalid(message),
        AnswerStatus::Stale | AnswerStatus::Expired => ApiError::conflict("await_closed", message),
    };
    Err(refusal(error, &reply))
}

/// Waits for a worker's reply, with a limit: a request that waits holds a permit, and without a worker it would wait
/// forever.
pub(super) async fn worker_reply<T>(app: &App, what: &str, reply: impl Future<Output = T>) -> Result<T> {
    let limit = app.limits.worker_reply_timeout;
    tokio::time::timeout(limit, reply).await.map_err(|_| {
        let message = format!(
            "no worker responded within {} s; check that a worker is running, and send the {what} again (a repeat is safe)",
            limit.as_secs_f64()
        );
        ApiError::unavailable(message)
    })
}

fn too_late(status: RunStatus) -> ApiError {
    let reply = AnswerReply::run_ended();
    refusal(ApiError::conflict("run_terminal", ended(status)), &reply)
}

/// Adds the run's own status and message to the error.
pub(super) fn refusal(error: ApiError, reply: &AnswerReply) -> ApiError {
    error.with("status", json!(reply.status)).with("reason", reply.message.as_str())
}
