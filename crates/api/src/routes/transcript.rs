//! The conversation of a run.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use http::Uri;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass_core::message::Message;

use super::runs::find;
use crate::{app::App, auth::Caller, error::Result, query::Query};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Transcript {
    /// Oldest first, each with `index` (1 for the first), `role` and `parts`.
    messages: Vec<Value>,
    /// The number of messages so far.
    total: u64,
    /// The number of messages that the run began with: those of its session, then the new ones.
    opening: u64,
    /// How many of those came from its session.
    earlier: u64,
    /// Whether there are more.
    more: bool,
}

/// The run's conversation, in pages. Results since the last turn are in the log and not here yet.
#[utoipa::path(
    get, path = "/agent-runs/{id}/transcript", tag = "runs",
    params(
        ("after" = Option<u64>, Query, description = "only messages after this index"),
        ("limit" = Option<u32>, Query, description = "1 to 200, default 50"),
    ),
    responses((status = 200, body = Transcript))
)]
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<Transcript>> {
    let query = Query::of(&uri);
    let (after, limit) = (query.number("after")?.unwrap_or(0), query.limit()?);
    let row = find(&app, &caller, &id).await?;
    let page = app.store().transcript_page(&row.id, after, limit).await?;
    let last = page.messages.last().map_or(after, |(index, _)| *index);
    Ok(Json(Transcript {
        messages: page.messages.iter().map(|(index, message)| numbered(*index, message)).collect(),
        total: page.total,
        opening: page.opening,
        earlier: page.earlier,
        more: last < page.total,
    }))
}

fn numbered(index: u64, message: &Message) -> Value {
    let mut shown = json!(message);
    shown["index"] = index.into();
    shown
}
