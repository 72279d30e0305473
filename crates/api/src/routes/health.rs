//! Liveness and readiness.

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

/// The timeout of a check.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long an outcome is cached, so that frequent probes cost nothing.
const HOLDS: Duration = Duration::from_secs(1);

/// The time and the outcome of the last check.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<String>)>>);

pub(super) async fn alive() -> Json<Value> {
    Json(json!({"ok": true}))
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>> {
    if app.draining.is_cancelled() {
        return Err(ApiError::unavailable("this server is shutting down"));
    }
    // One check at a time; the others wait for its outcome.
    let mut last = app.readiness.0.lock().await;
    let problem = match &*last {
        Some((at, problem)) if at.elapsed() < HOLDS => problem.clone(),
        _ => {
            let checked = tokio::time::timeout(PATIENCE, check(&app)).await;
            let problem = checked.unwrap_or_else(|_| {
                Some(format!("the store or the Temporal server did not respond within {} s", PATIENCE.as_secs()))
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

/// Why runs cannot be started, if so. The store must accept a write and return it.
async fn check(app: &App) -> Option<String> {
    if let Err(error) = app.store().probe().await {
        tracing::warn!(%error, "store check failed");
        return Some(format!("the store check failed: {}: {error}", error.code()));
    }
    // This run does not exist; any response of the server is enough.
    match app.ops.exists(&RunId::new("windlass-readyz")).await {
        Ok(()) | Err(OpsError::NotFound { .. }) => None,
        Err(error) => Some(error.to_string()),
    }
}
