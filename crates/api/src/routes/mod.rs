//! The routes, one file per group.

pub(crate) mod approvals;
pub(crate) mod catalogue;
pub(crate) mod control;
mod docs;
mod health;
mod jwks;
pub(crate) mod launch;
pub(crate) mod push_configs;
mod rows;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod stream;
pub(crate) mod tool_results;
pub(crate) mod transcript;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{get, post},
};
use http::StatusCode;

pub(crate) use self::health::Readiness;
use crate::{a2a, access, app::App, drain, error::ApiError, guard, mcp};

/// The path prefix of a workspace's routes.
pub(crate) const PREFIX: &str = "/api/v1/workspaces/{slug}";

pub(crate) fn router(app: Arc<App>) -> Router {
    let workspace = Router::new()
        .route("/models", get(catalogue::models))
        .route("/agents", get(catalogue::agents))
        .route("/identity", get(catalogue::identity))
        .route("/agent-runs", post(runs::create).get(runs::list))
        .route("/agent-runs/{id}", get(runs::show))
        .route("/agent-runs/{id}/stream", get(stream::open))
        .route("/agent-runs/{id}/events", get(runs::events))
        .route("/agent-runs/{id}/transcript", get(transcript::read))
        .route("/agent-runs/{id}/awaits", get(control::awaits))
        .route("/agent-runs/{id}/push-configs", get(push_configs::list))
        .route("/agent-runs/{id}/tool-results", post(tool_results::take))
        .route("/agent-runs/{id}/cancel", post(control::cancel))
        .route("/agent-runs/{id}/pause", post(control::pause))
        .route("/agent-runs/{id}/resume", post(control::resume))
        .route("/agent-runs/{id}/steer", post(control::steer))
        .route("/agent-runs/{id}/answers", post(control::answer))
        .route("/agent-runs/{id}/confirmations", post(control::confirm))
        .route(
            "/agent-runs/{id}/approvals",
            get(approvals::show_of_run).put(approvals::set_of_run).delete(approvals::remove_of_run),
        )
        .route("/agent-runs/{id}/calls/{call}/approval", get(approvals::explain_call))
        .route("/approval-grants", get(approvals::grants))
        .route("/approval-grants/{id}/revoke", post(approvals::revoke))
        .route("/agent-sessions", post(sessions::create).get(sessions::list))
        .route("/agent-sessions/{id}", get(sessions::show).delete(sessions::end))
        .route(
            "/agent-sessions/{id}/approvals",
            get(approvals::show_of_session).put(approvals::set_of_session).delete(approvals::remove_of_session),
        )
        .route("/agent-sessions/{id}/events", get(sessions::events))
        .route("/agent-sessions/{id}/messages", post(sessions::message))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), guard::enter))
        .merge(a2a::routes());
    Router::new()
        .nest(PREFIX, workspace)
        .route("/mcp", post(mcp::post))
        .route(&format!("{PREFIX}/mcp"), post(mcp::post_in_workspace))
        .merge(a2a::outside_workspaces())
        .route("/.well-known/jwks.json", get(jwks::show))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/openapi.json", get(docs::openapi))
        .route("/docs", get(docs::page))
        .fallback(async || ApiError::new(StatusCode::NOT_FOUND, "not_found", "there is no resource at this path"))
        .method_not_allowed_fallback(async || {
            ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "this path does not support this method",
            )
        })
        .layer(middleware::from_fn(access::log))
        .layer(middleware::from_fn(drain::rest))
        .with_state(app)
}
