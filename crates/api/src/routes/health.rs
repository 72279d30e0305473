//! Whether the process lives, and whether it should be sent requests.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use serde_json::{Value, json};
use windlass_core::ids::RunId;
use windlass_ops::OpsError;

use crate::{
    app::App,
    error::{ApiError, Result},
};

/// A check that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn alive() -> Json<Value> {
    Json(json!({"ok": true}))
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>> {
    if app.draining.is_cancelled() {
        return Err(ApiError::unavailable("this process is about to end"));
    }
    let checked = tokio::time::timeout(PATIENCE, async {
        app.store().key("readyz").await?;
        // Nobody has this run; that the server says so is all there is to know.
        match app.ops.exists(&RunId::new("windlass-readyz")).await {
            Ok(()) | Err(OpsError::NotFound { .. }) => Ok(()),
            Err(error) => Err(ApiError::unavailable(error.to_string())),
        }
    });
    match checked.await {
        Ok(checked) => checked?,
        Err(_) => return Err(ApiError::unavailable("the store or the Temporal server does not answer")),
    }
    Ok(Json(json!({"ok": true})))
}
