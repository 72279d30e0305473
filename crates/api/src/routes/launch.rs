//! Starting a run: the run and its start plan are stored before its workflow is started. A request that is
//! repeated with the same run id returns the same run.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass_core::{
    agent::overrides::Effective,
    approval::ApprovalScope,
    envelope::Extra,
    ids::{RunId, SessionId},
};
use windlass_ops::{RunOps, StartPlan, StartRun};
use windlass_store::{NewStart, ReservedRun, SecretOwner, Store};

use super::{approvals::set_rules, sessions::may_join};
use crate::{
    app::App,
    auth::{Caller, Scope},
    error::{ApiError, Result},
    routes::PREFIX,
    spec::{self, Accepted, Invalid, Spec, SplitSecret, Start},
};

/// A run that was accepted.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Taken {
    pub(crate) run_id: String,
    session_id: Option<String>,
    status: &'static str,
    /// Relative to this server's address.
    stream_url: String,
}

pub(crate) async fn launch(
    app: &App,
    caller: &Caller,
    accepted: Accepted,
    session: Option<SessionId>,
) -> Result<Taken> {
    let Accepted { spec, kept, conversation, start, request } = accepted;
    let Start { run_id, session_id, policy, labels, approvals } = start;
    let run_id = run_id.map(|chosen| scoped_run_id(caller, &chosen)).transpose()?;
    if let (None, Some(joined)) = (&session, &session_id) {
        may_join(app, caller, joined).await?;
    }
    let session = session.or(session_id);
    let run = run_id.unwrap_or_else(StartRun::new_id);
    let (spec, kept) = split_secrets(app, caller, SecretOwner::Run(run.clone()), spec, kept).await?;
    let Effective { definition, policy, guards } = spec.resolve(&conversation.system, policy, app.around(caller))?;
    let asked = conversation.messages.last().map(|message| message.plain_text()).unwrap_or_default();
    let mut start = StartRun::new(definition, "");
    start.messages = conversation.messages;
    start.session_id = session.clone();
    (start.policy, start.guards, start.labels) = (policy, guards, labels);
    start.started_by = Some(caller.actor(None)?);
    start.metadata = spec.metadata.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect::<Extra>();
    start.run_id = run.clone();
    let agent_id = start.agent_id.clone();
    let model_id = start.definition.as_ref().map(|definition| definition.model.clone()).unwrap_or_default();
    let (ops, store) = (app.ops_for(caller), app.store());
    let plan = ops.plan(start).await?;
    let reserved = ReservedRun {
        id: run.clone(),
        workspace: caller.workspace.clone(),
        session: session.clone(),
        agent_id,
        model_id,
        name: spec.name,
        spec: Some(store.put_blob(kept.into()).await?.digest),
        metadata: spec.metadata,
        input: asked,
        start: Some(NewStart { request, plan: json!(plan) }),
    };
    if let Some(rules) = approvals.filter(|rules| !rules.is_empty())
        && store.run(&run).await?.is_none()
    {
        set_rules(app, caller, &ApprovalScope::Run { id: run.clone() }, rules, caller.actor(None)?).await?;
    }
    // If the request was accepted before, its first plan is executed, unless that was done.
    if let Some(plan) = store.reserve_run(reserved).await?.plan {
        let plan = serde_json::from_value(plan).map_err(|error| ApiError::internal(&error))?;
        begin(&ops, store, &run, &plan).await?;
    }
    Ok(Taken {
        stream_url: stream_url(caller, &run),
        run_id: run.to_string(),
        session_id: session.map(|id| id.to_string()),
        status: "queued",
    })
}

/// Stores the secrets that arrived in a spec, and leaves references in it.
pub(super) async fn split_secrets(
    app: &App,
    caller: &Caller,
    owner: SecretOwner,
    spec: Spec,
    mut kept: Value,
) -> Result<(Spec, Value)> {
    let may_refer = caller.require(Scope::SecretsUse).is_ok();
    let secrets = spec::split(&mut kept, &owner, may_refer);
    if secrets.is_empty() {
        return Ok((spec, kept));
    }
    let Some(vault) = &app.vault else {
        let message = "this server keeps no secrets, so it takes no headers of tools; start it with --secrets-key-file";
        return Err(ApiError::invalid(message));
    };
    for SplitSecret { field, value } in &secrets {
        vault.split(&caller.workspace, &owner, field, value).await?;
    }
    let mut referring = Spec::parse_kept(&kept)?;
    // A message of a session adds to its metadata.
    referring.metadata = spec.metadata;
    Ok((referring, kept))
}

/// Starts the workflow of a reserved run.
async fn begin(ops: &RunOps, store: &dyn Store, run: &RunId, plan: &StartPlan) -> Result<()> {
    let Err(error) = ops.carry_out(plan).await else { return Ok(()) };
    // If the workflow may have been started, the run stays: a repeat of the request or the repair loop finds out.
    if error.started_nothing()
        && let Err(left) = store.withdraw_run(run).await
    {
        tracing::warn!(%run, error = %left, "cannot withdraw a run that could not be started");
    }
    Err(error.into())
}

/// The full id of a run whose id the caller chose: the same id in another workspace is another run.
fn scoped_run_id(caller: &Caller, chosen: &RunId) -> Result<RunId> {
    let scoped = RunId::scoped(&caller.workspace, chosen.as_str());
    Ok(scoped.map_err(|problem| Invalid::new("runId", problem.to_string()))?)
}

fn stream_url(caller: &Caller, run: &RunId) -> String {
    format!("{}/agent-runs/{run}/stream", PREFIX.replace("{slug}", caller.workspace.as_str()))
}
