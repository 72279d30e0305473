//! Starting a run: it is in the store before anybody is told about it.

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::{
    agent::overrides::Effective,
    envelope::Extra,
    ids::{RunId, SessionId},
};
use windlass_ops::{OpsError, StartRun};
use windlass_store::ReservedRun;

use super::sessions::may_join;
use crate::{
    app::App,
    auth::Caller,
    error::{ApiError, Result},
    routes::PREFIX,
    spec::{Accepted, Invalid, Start},
};

/// A run that was taken.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Taken {
    run_id: String,
    session_id: Option<String>,
    status: &'static str,
    /// Below this server's address.
    stream_url: String,
}

pub(super) async fn launch(
    app: &App,
    caller: &Caller,
    accepted: Accepted,
    session: Option<SessionId>,
) -> Result<Taken> {
    let Accepted { spec, kept, conversation, start: Start { run_id, session_id, policy, labels } } = accepted;
    let run_id = run_id.map(|chosen| scoped_run_id(caller, &chosen)).transpose()?;
    if let (None, Some(joined)) = (&session, &session_id) {
        may_join(app, caller, joined).await?;
    }
    let session = session.or(session_id);
    let Effective { definition, policy, guards } = spec.resolve(&conversation.system, policy, app.around(caller))?;
    let asked = conversation.messages.last().map(|message| message.plain_text()).unwrap_or_default();
    let mut start = StartRun::new(definition, "");
    start.messages = conversation.messages;
    start.session_id = session.clone();
    (start.policy, start.guards, start.labels) = (policy, guards, labels);
    start.started_by = Some(caller.actor(None)?);
    let store = app.store();
    if let Some(run) = run_id {
        if store.run(&run).await?.is_some() {
            return Err(ApiError::run_exists());
        }
        start.run_id = run;
    }
    let run = start.run_id.clone();
    let reserved = ReservedRun {
        id: run.clone(),
        workspace: caller.workspace.clone(),
        session: session.clone(),
        agent_id: start.agent_id.clone(),
        model_id: start.definition.as_ref().map(|definition| definition.model.clone()).unwrap_or_default(),
        name: spec.name,
        spec: Some(store.put_blob(kept).await?.digest),
        metadata: spec.metadata.clone(),
        input: asked,
    };
    start.metadata = spec.metadata.into_iter().map(|(key, value)| (key, value.into())).collect::<Extra>();
    store.reserve_run(reserved).await?;
    if let Err(error) = app.ops_for(caller).start(start).await {
        // Nobody has heard of the run yet, unless somebody else has just started it.
        if !matches!(error, OpsError::AlreadyExists { .. })
            && let Err(left) = store.withdraw_run(&run).await
        {
            tracing::warn!(%run, error = %left, "a run that could not be started stays queued");
        }
        return Err(error.into());
    }
    Ok(Taken {
        stream_url: stream_url(caller, &run),
        run_id: run.to_string(),
        session_id: session.map(|id| id.to_string()),
        status: "queued",
    })
}

/// The id of a run that a caller named: another workspace's run of that name is another run.
fn scoped_run_id(caller: &Caller, chosen: &RunId) -> Result<RunId> {
    let scoped = RunId::scoped(&caller.workspace, chosen.as_str());
    Ok(scoped.map_err(|problem| Invalid::new("runId", problem.to_string()))?)
}

fn stream_url(caller: &Caller, run: &RunId) -> String {
    format!("{}/agent-runs/{run}/stream", PREFIX.replace("{slug}", caller.workspace.as_str()))
}
