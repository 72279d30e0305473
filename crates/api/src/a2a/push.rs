//! Push configs of tasks: where updates are sent. A workflow sends them, see `windlass_workflows::PushWorkflow`.
//!
//! The address, the token and the credentials are stored as a secret of the run. The protocol does not say whether a config
//! is returned with its credentials; this server returns neither them nor the token.

use a2a::{
    A2AError, AuthenticationInfo, DeleteTaskPushNotificationConfigRequest, GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest, ListTaskPushNotificationConfigsResponse, TaskPushNotificationConfig,
};
use windlass_core::{
    envelope::PushCursor,
    limits::{PUSH_CONFIGS, PUSH_HEADER_BYTES, PUSH_ID_CHARS, PUSH_URL_BYTES},
    row::RunRow,
};
use windlass_ops::OpsError;
use windlass_store::{NewPushConfig, PushConfigRow, PushTarget, Vault};

use super::{
    error::{Result, invalid},
    visit::Visit,
};
use crate::error::ApiError;

/// A config that passed all checks that need no task.
pub(crate) struct Checked {
    id: Option<String>,
    target: PushTarget,
}

/// Checks the fields of a config. `at` is where it is in the request.
pub(crate) fn check(visit: &Visit, config: TaskPushNotificationConfig, at: &str) -> Result<Checked> {
    vault(visit)?;
    let field = |name: &str| format!("{at}{name}");
    let TaskPushNotificationConfig { url, id, token, authentication, .. } = config;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let id = given(id);
    let word = |c: char| c.is_ascii_alphanumeric() || "._-~:@".contains(c);
    if id.as_ref().is_some_and(|id| id.len() > PUSH_ID_CHARS || !id.chars().all(word)) {
        let problem = format!("use 1 to {PUSH_ID_CHARS} letters, digits and the characters . _ - ~ : @");
        return Err(invalid(&field("id"), problem).into());
    }
    if url.len() > PUSH_URL_BYTES {
        return Err(invalid(&field("url"), format!("must not be longer than {PUSH_URL_BYTES} bytes")).into());
    }
    (visit.app.check_receiver)(&url).map_err(|problem| invalid(&field("url"), problem))?;
    let (scheme, credentials) = match authentication {
        Some(AuthenticationInfo { scheme, credentials }) => (given(Some(scheme)), given(credentials)),
        None => (None, None),
    };
    let token = given(token);
    for (name, value) in
        [("token", &token), ("authentication.scheme", &scheme), ("authentication.credentials", &credentials)]
    {
        let fits =
            |text: &String| text.len() <= PUSH_HEADER_BYTES && text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        if value.as_ref().is_some_and(|text| !fits(text)) {
            let problem = format!("must fit into a header: at most {PUSH_HEADER_BYTES} ASCII characters");
            return Err(invalid(&field(name), problem).into());
        }
    }
    if credentials.is_some() && scheme.is_none() {
        return Err(invalid(&field("authentication.scheme"), "is required with credentials, for example Bearer").into());
    }
    Ok(Checked { id, target: PushTarget { url, token, scheme, credentials } })
}

/// Stores a config and starts to send: from the beginning, or what happens from now on. A repeat changes nothing.
pub(crate) async fn put(
    visit: &Visit,
    row: &RunRow,
    checked: Checked,
    from_beginning: bool,
) -> Result<TaskPushNotificationConfig> {
    let (store, vault) = (visit.app.store(), vault(visit)?);
    let Checked { id, target } = checked;
    let id = match id {
        Some(id) => id,
        None => generated_id(vault, row, &target).await?,
    };
    let known = store.push_configs(&row.id).await.map_err(ApiError::from)?;
    let old = known.iter().find(|config| config.id == id);
    if old.is_none() && known.len() >= PUSH_CONFIGS {
        let problem = format!("a task has at most {PUSH_CONFIGS} push configs; delete one first");
        return Err(A2AError::unsupported_operation(problem).into());
    }
    let config = match old {
        Some(old) if is_same(visit, vault, old, &target).await? => old.clone(),
        _ => {
            let secret = vault.seal_push_target(&row.workspace, &row.id, &target).await.map_err(ApiError::from)?;
            let (run, workspace) = (row.id.clone(), row.workspace.clone());
            let new = NewPushConfig { run, id, workspace, version: visit.version.name().to_owned(), secret };
            store.put_push_config(new).await.map_err(ApiError::from)?
        }
    };
    if config.ended_at.is_none() {
        let cursor = match row.status.is_terminal() {
            _ if from_beginning => PushCursor::default(),
            // The end of a task is always told.
            true => PushCursor { seq: row.last_seq, sent: 0 },
            false => PushCursor { seq: row.last_seq + 1, sent: 0 },
        };
        visit.app.ops.start_push(&row.id, &config.id, cursor).await.map_err(not_started)?;
    }
    Ok(shown(&config, target))
}

/// The config is stored: a repeat of the request starts to send.
fn not_started(error: OpsError) -> ApiError {
    match error {
        OpsError::Unsettled { .. } => {
            tracing::warn!(%error, "the Temporal server did not answer the start of a push workflow");
            ApiError::unavailable("the push config is stored, but nothing is sent yet; send the same request again")
        }
        error => error.into(),
    }
}

/// The id of a config that has none in its request. A repeat of the request has the same one.
async fn generated_id(vault: &Vault, row: &RunRow, target: &PushTarget) -> Result<String> {
    let key = vault.signing_key().await.map_err(ApiError::from)?;
    let named = serde_json::json!(["push-config", row.id, target]);
    Ok(key.fingerprint(named.to_string().as_bytes()))
}

/// Whether a config says what the request says. One that was given up is made again.
async fn is_same(visit: &Visit, vault: &Vault, old: &PushConfigRow, target: &PushTarget) -> Result<bool> {
    let unchanged = old.error.is_none() && old.version == visit.version.name();
    Ok(unchanged && vault.push_target(old).await.map_err(ApiError::from)? == *target)
}

pub(crate) async fn create(visit: &Visit, config: TaskPushNotificationConfig) -> Result<TaskPushNotificationConfig> {
    let row = visit.task(&config.task_id).await?;
    let checked = check(visit, config, "")?;
    put(visit, &row, checked, false).await
}

pub(crate) async fn get(
    visit: &Visit,
    request: GetTaskPushNotificationConfigRequest,
) -> Result<TaskPushNotificationConfig> {
    let vault = vault(visit)?;
    let row = visit.task(&request.task_id).await?;
    let configs = visit.app.store().push_configs(&row.id).await.map_err(ApiError::from)?;
    // In 0.3 a request without an id means the only config, or the first.
    let config = configs.into_iter().find(|config| request.id.is_empty() || config.id == request.id);
    let config = config.ok_or_else(|| {
        let message = "the task has no push config with this id; list the configs of the task";
        A2AError::new(a2a::error_code::TASK_NOT_FOUND, message)
    })?;
    let target = vault.push_target(&config).await.map_err(ApiError::from)?;
    Ok(shown(&config, target))
}

/// All of them on one page: a task has few.
pub(crate) async fn list(
    visit: &Visit,
    request: ListTaskPushNotificationConfigsRequest,
) -> Result<ListTaskPushNotificationConfigsResponse> {
    let vault = vault(visit)?;
    let row = visit.task(&request.task_id).await?;
    let mut configs = Vec::new();
    for config in visit.app.store().push_configs(&row.id).await.map_err(ApiError::from)? {
        let target = vault.push_target(&config).await.map_err(ApiError::from)?;
        configs.push(shown(&config, target));
    }
    Ok(ListTaskPushNotificationConfigsResponse { configs, next_page_token: None })
}

/// Deletes a config. A repeat changes nothing.
pub(crate) async fn delete(visit: &Visit, request: DeleteTaskPushNotificationConfigRequest) -> Result<()> {
    vault(visit)?;
    let row = visit.task(&request.task_id).await?;
    visit.app.store().delete_push_config(&row.id, &request.id).await.map_err(ApiError::from)?;
    if let Err(error) = visit.app.ops.cancel_push(&row.id, &request.id).await {
        tracing::debug!(run = %row.id, %error, "cannot cancel a push workflow; it ends without its config");
    }
    Ok(())
}

/// Without a place for secrets there are no push notifications.
fn vault(visit: &Visit) -> Result<&Vault> {
    visit.app.vault.as_ref().ok_or_else(|| A2AError::push_notification_not_supported().into())
}

fn shown(config: &PushConfigRow, target: PushTarget) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: target.url,
        id: Some(config.id.clone()),
        task_id: config.run.to_string(),
        token: None,
        authentication: target.scheme.map(|scheme| AuthenticationInfo { scheme, credentials: None }),
        tenant: None,
    }
}
