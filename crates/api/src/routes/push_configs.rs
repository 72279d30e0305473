//! Where the updates of a run are sent, and whether they arrive. Addresses are not shown: they may be secrets.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use serde::Serialize;
use utoipa::ToSchema;
use windlass_store::PushConfigRow;

use super::runs;
use crate::{app::App, auth::Caller, error::Result};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PushConfigList {
    push_configs: Vec<PushConfigItem>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PushConfigItem {
    id: String,
    /// The version of A2A that the receiver reads.
    version: String,
    /// Milliseconds since 1970.
    created_at: u64,
    /// Since then nothing more is sent.
    ended_at: Option<u64>,
    /// Why the delivery was given up.
    error: Option<String>,
}

/// The push configs of a run, the oldest first.
#[utoipa::path(get, path = "/agent-runs/{id}/push-configs", tag = "runs", responses((status = 200, body = PushConfigList)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<PushConfigList>> {
    let row = runs::find(&app, &caller, &id).await?;
    let configs = app.store().push_configs(&row.id).await?;
    let item = |PushConfigRow { id, version, created_at, ended_at, error, .. }| PushConfigItem {
        id,
        version,
        created_at: created_at.0,
        ended_at: ended_at.map(|at| at.0),
        error,
    };
    Ok(Json(PushConfigList { push_configs: configs.into_iter().map(item).collect() }))
}
