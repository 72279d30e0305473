//! The routes of agent cards.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use windlass_core::{agent::AgentDefinition, ids::WorkspaceId};

use super::{
    card::{self, Base},
    error::{Refusal, Result, respond},
    v03,
    visit::{Visit, agents_of},
};
use crate::{app::App, auth::Caller, error::ApiError, rate::Bucket, routes::PREFIX};

/// The card of an agent. It needs a key unless the server's cards are public.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Path((slug, agent)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let found =
        if app.public_cards { public(&app, &headers, &slug, &agent) } else { own(app, &headers, &slug, &agent).await };
    found.unwrap_or_else(Refusal::http_json)
}

fn public(app: &App, headers: &HeaderMap, slug: &str, agent: &str) -> Result<Response> {
    let missing = || Refusal::Http(ApiError::not_found("agent"));
    let workspace = WorkspaceId::parse(slug).map_err(|_| missing())?;
    let agent = app.agents.iter().find(|known| known.id.as_str() == agent).ok_or_else(missing)?;
    shown(app, headers, agent, &workspace)
}

async fn own(app: Arc<App>, headers: &HeaderMap, slug: &str, agent: &str) -> Result<Response> {
    let mut visit = Visit::of(app, headers, slug, agent).await?;
    visit.admit(None, Bucket::Reads)?;
    let response = shown(&visit.app, headers, &visit.agent, &visit.caller.workspace)?;
    Ok(visit.tell(response))
}

/// The card of the only agent that the key may start. With more than one, the error says where the cards are.
pub(crate) async fn only(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    found_only(&app, &headers).await.unwrap_or_else(Refusal::http_json)
}

async fn found_only(app: &App, headers: &HeaderMap) -> Result<Response> {
    let caller = Caller::of(headers, app.store(), (app.clock)()).await?;
    let mut agents = agents_of(app, &caller);
    match (agents.next(), agents.next()) {
        (Some(agent), None) => shown(app, headers, agent, &caller.workspace),
        _ => {
            let prefix = PREFIX.replace("{slug}", caller.workspace.as_str());
            let message = format!(
                "each agent has its own card at {prefix}/a2a/AGENT{}; GET {prefix}/agents lists the agents",
                card::WELL_KNOWN
            );
            Err(Refusal::Http(ApiError::new(StatusCode::NOT_FOUND, "not_found", message)))
        }
    }
}

fn shown(app: &App, headers: &HeaderMap, agent: &AgentDefinition, workspace: &WorkspaceId) -> Result<Response> {
    let card = card::card(agent, &Base::of(app, headers)?, workspace, app.vault.is_some());
    let mut response = respond(StatusCode::OK, "application/json", &v03::card(&card));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=60"));
    Ok(response)
}
