//! Secrets, read for the activity that uses them. A value is in no error and in nothing that an activity returns.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use temporalio_sdk::activities::ActivityError;
use windlass_core::{envelope::ToolErrorKind, ids::WorkspaceId, secret::SecretRef};
use windlass_store::{Store, StoreError};
use windlass_tools::{SecretSource, ToolFailure};

use crate::{RunActivities, failures};

/// The secrets of one workspace and of this process's environment.
pub(crate) struct WorkspaceSecrets {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) workspace: WorkspaceId,
}

impl WorkspaceSecrets {
    async fn find(&self, reference: &SecretRef) -> Result<Option<SecretString>, StoreError> {
        match reference {
            SecretRef::Secret(name) => self.store.secret(&self.workspace, name).await,
            SecretRef::Env(name) => Ok(std::env::var(name).ok().map(SecretString::from)),
        }
    }
}

fn missing(reference: &SecretRef, workspace: &WorkspaceId) -> String {
    match reference {
        SecretRef::Secret(name) => {
            format!("workspace {workspace} has no secret {name:?}; set it with `windlass secrets set {name}`")
        }
        SecretRef::Env(name) => format!("the worker's environment has no variable {name}; set it and restart the worker"),
    }
}

#[async_trait]
impl SecretSource for WorkspaceSecrets {
    async fn secret(&self, reference: &SecretRef) -> Result<SecretString, ToolFailure> {
        match self.find(reference).await {
            Ok(Some(value)) => Ok(value),
            Ok(None) => {
                Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, missing(reference, &self.workspace)))
            }
            Err(error) => {
                let failure = ToolFailure::new(ToolErrorKind::ToolUnavailable, format!("{}: {error}", error.code()));
                Err(if error.retryable() { failure.retryable() } else { failure })
            }
        }
    }
}

impl RunActivities {
    pub(crate) fn secrets(&self, workspace: &WorkspaceId) -> WorkspaceSecrets {
        WorkspaceSecrets { store: Arc::clone(&self.store), workspace: workspace.clone() }
    }

    /// The key that an agent has for its model's provider.
    pub(crate) async fn credentials(
        &self,
        workspace: &WorkspaceId,
        reference: Option<&SecretRef>,
    ) -> Result<Option<SecretString>, ActivityError> {
        let Some(reference) = reference else { return Ok(None) };
        let found = self.secrets(workspace).find(reference).await.map_err(|error| failures::store(&error))?;
        // `auth` is the class of a provider's refusal of a key; without one it would refuse as well.
        found.map(Some).ok_or_else(|| failures::permanent("auth", missing(reference, workspace)))
    }
}
