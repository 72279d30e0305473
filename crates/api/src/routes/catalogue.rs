//! Models, agents, and the identity of the key.

use std::sync::Arc;

use axum::{Extension, Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{app::App, auth::Caller, models::Catalogue};

/// The models that a run may use.
#[utoipa::path(get, path = "/models", tag = "catalogue", responses((status = 200, body = Catalogue)))]
pub(crate) async fn models(State(app): State<Arc<App>>) -> Json<Catalogue> {
    Json(Catalogue::clone(&app.models))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Agents {
    agents: Vec<Agent>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Agent {
    id: String,
    name: Option<String>,
    description: String,
    model_id: String,
}

/// The agents this key may start by their id.
#[utoipa::path(get, path = "/agents", tag = "catalogue", responses((status = 200, body = Agents)))]
pub(crate) async fn agents(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>) -> Json<Agents> {
    let allowed = |id| caller.agents.as_ref().is_none_or(|agents| agents.contains(id));
    let agents = app.agents.iter().filter(|agent| allowed(&agent.id)).map(|agent| Agent {
        id: agent.id.to_string(),
        name: agent.name.clone(),
        description: agent.description.clone(),
        model_id: agent.model.clone(),
    });
    Json(Agents { agents: agents.collect() })
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    workspace: String,
    key_id: String,
    name: String,
    scopes: Vec<String>,
    /// The only agents the key may start; any if null.
    agents: Option<Vec<String>>,
}

/// The workspace, id and scopes of the key.
#[utoipa::path(get, path = "/identity", tag = "catalogue", responses((status = 200, body = Identity)))]
pub(crate) async fn identity(Extension(caller): Extension<Caller>) -> Json<Identity> {
    Json(Identity {
        workspace: caller.workspace.to_string(),
        key_id: caller.key_id,
        name: caller.key_name,
        scopes: caller.scopes,
        agents: caller.agents.map(|agents| agents.iter().map(ToString::to_string).collect()),
    })
}
