//! Results of local tool calls. The run decides whether it accepts one.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass_core::{
    body::Body,
    envelope::{AnswerStatus, CallAnswer, ProvidedToolResult, ToolError, ToolErrorKind, Tuning},
    run::RunStatus,
};
use windlass_ops::OpsError;

use super::{
    control::{refusal, worker_reply},
    runs::{end_if_gone, find},
};
use crate::{
    app::App,
    auth::{Caller, Scope},
    body::Understood,
    error::{ApiError, Result},
    openapi::bodies::ToolResultBody,
    spec::{Attachment, Outcome, ToolResult},
};

/// Success.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Done {
    pub(super) ok: bool,
}

/// Sends the result of one call of a local tool.
#[utoipa::path(
    post, path = "/agent-runs/{id}/tool-results", tag = "runs", request_body = ToolResultBody,
    responses(
        (status = 200, body = Done),
        (status = 404, description = "unknown_tool_use: no such call is open; duplicate_tool_result: the call already has a result"),
        (status = 409, description = "run_terminal: the run has ended"),
        (status = 503, description = "unavailable: no worker responded within 10 s; send the result again"),
    )
)]
pub(crate) async fn take(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    Understood(result): Understood<ToolResult>,
) -> Result<Json<Done>> {
    let row = find(&app, &caller, &id).await?;
    if row.status.is_terminal() {
        return Err(ended(row.status));
    }
    let provided = provided(&app, result).await?;
    let own_tools_only = !caller.has(Scope::RunsAnswer);
    let answer = CallAnswer { own_tools_only, ..CallAnswer::new(caller.actor(None)?, provided) };
    let ops = app.ops_for(&caller);
    let reply = match worker_reply(&app, "result", ops.tool_result(&row.id, &answer)).await? {
        Ok(reply) => reply,
        // The row was there a moment ago: the run has just ended, or has not started.
        Err(OpsError::NotFound { .. }) => return Err(gone(&app, &caller, &id).await?),
        Err(error) => return Err(error.into()),
    };
    let error = match reply.status {
        AnswerStatus::Accepted => return Ok(Json(Done { ok: true })),
        AnswerStatus::Invalid => ApiError::invalid(&reply.message),
        AnswerStatus::Stale if reply.is_run_ended() => {
            ApiError::conflict("run_terminal", "the run has ended; the result was ignored")
        }
        AnswerStatus::Duplicate | AnswerStatus::Stale => answered(),
        AnswerStatus::Unknown | AnswerStatus::Expired => unknown_call(&reply.message),
    };
    Err(refusal(error, &reply))
}

/// The protocol's status for a call that is not open; the code distinguishes a repeat from a wrong id.
fn answered() -> ApiError {
    let message = "this call already has a result; this one was ignored";
    ApiError::new(StatusCode::NOT_FOUND, "duplicate_tool_result", message)
}

fn unknown_call(why: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "unknown_tool_use", format!("no such tool call is open: {why}"))
}

fn ended(status: RunStatus) -> ApiError {
    ApiError::conflict("run_terminal", format!("the run has ended ({}); the result was ignored", status.as_str()))
}

async fn gone(app: &App, caller: &Caller, id: &str) -> Result<ApiError> {
    let row = end_if_gone(app, caller, id).await?;
    Ok(match row.status {
        RunStatus::Queued => unknown_call("the run has not started"),
        status => ended(status),
    })
}

/// A result above the inline limit is stored, and sent by reference.
async fn provided(app: &App, result: ToolResult) -> Result<ProvidedToolResult> {
    let mut provided = ProvidedToolResult::new(result.tool_use_id);
    match result.outcome {
        Outcome::Failure { error } => provided.error = Some(ToolError::new(ToolErrorKind::ToolFailed, error)),
        Outcome::Success { result, files } => {
            let (body, large) = Body::fit(body_of(result, &files).into(), Tuning::INLINE_LIMIT_OF_NEW_RUNS);
            if let Some(large) = large {
                app.store().put_blob(large).await?;
            }
            provided = provided.with_result(&body);
        }
    }
    Ok(provided)
}

/// The text, and the names, types and sizes of files. The model does not get their content.
fn body_of(result: String, files: &[Attachment]) -> Value {
    if files.is_empty() {
        return Value::String(result);
    }
    let files: Vec<Value> = files.iter().map(Attachment::summary).collect();
    json!({"result": result, "files": files})
}
