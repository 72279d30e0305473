//! Whether the process lives, and whether it should be sent requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Json, extract::State};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use windlass_core::ids::RunId;
use windlass_ops::OpsError;

use crate::{
    app::App,
    error::{ApiError, Result},
};

/// A check that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// For how long an outcome is told again, so that frequent probes cost nothing.
const HOLDS: Duration = Duration::from_secs(1);

/// What the last check found: when, and why the process was not ready.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<String>)>>);

pub(super) async fn alive() -> Json<Value> {
    Json(json!({"ok": true}))
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>> {
    if app.draining.is_cancelled() {
        return Err(ApiError::unavailable("this process is about to end"));
    }
    // One check at a time; the others wait for what it finds.
    let mut last = app.readiness.0.lock().await;
    let problem = match &*last {
        Some((at, problem)) if at.elapsed() < HOLDS => problem.clone(),
        _ => {
            let checked = tokio::time::timeout(PATIENCE, check(&app)).await;
            let problem = checked.unwrap_or_else(|_| {
                Some(format!("the store or the Temporal server has not answered for {} seconds", PATIENCE.as_secs()))
            });
            *last = Some((Instant::now(), problem.clone()));
            problem
        }
    };
    match problem {
        None => Ok(Json(json!({"ok": true}))),
        Some(problem) => Err(ApiError::unavailable(problem)),
    }
}

/// Why runs could not be started. The store proves that it takes a write and gives it back.
async fn check(app: &App) -> Option<String> {
    if let Err(error) = app.store().probe().await {
        tracing::warn!(%error, "the store does not work");
        return Some(format!("the store does not work: {}: {error}", error.code()));
    }
    // This run does not exist; the server's word is enough.
    match app.ops.exists(&RunId::new("windlass-readyz")).await {
        Ok(()) | Err(OpsError::NotFound { .. }) => None,
        Err(error) => Some(error.to_string()),
    }
}
