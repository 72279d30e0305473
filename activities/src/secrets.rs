//! Secrets, read for the activity that uses them. A value is in no error and in nothing that an activity returns.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;
use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    envelope::ToolErrorKind,
    ids::{RunId, SessionId, WorkspaceId},
    secret::SecretRef,
};
use windlass_store::{Reader, StoreError, Vault};
use windlass_tools::{SecretSource, ToolFailure};

use crate::{Redaction, RunActivities, failures};

/// The secrets that one run may read: those of its workspace, and this process's environment.
pub struct RunSecrets {
    vault: Option<Vault>,
    workspace: WorkspaceId,
    run: RunId,
    session: Option<SessionId>,
    /// The values that were read, so that they can be removed from what comes back.
    used: Mutex<Vec<SecretString>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("{code}: {error}", code = error.code())]
    Store { error: StoreError },
    #[error("this worker has no key for secrets, so it cannot read {reference}; start it with --secrets-key-file")]
    NoKey { reference: SecretRef },
    #[error("the worker's environment has no variable {name}; set it and restart the worker")]
    NoVariable { name: String },
}

impl RunSecrets {
    pub fn new(vault: Option<Vault>, workspace: WorkspaceId, run: RunId, session: Option<SessionId>) -> Self {
        Self { vault, workspace, run, session, used: Mutex::default() }
    }

    /// For what comes back from servers that got the values read so far.
    pub fn redaction(&self) -> Redaction {
        Redaction::of(&self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hide(&self, value: SecretString) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    }

    async fn read(&self, reference: &SecretRef) -> Result<SecretString, SecretError> {
        match (reference, &self.vault) {
            (SecretRef::Env(name), _) => {
                let value = std::env::var(name).ok().filter(|value| !value.is_empty());
                value.map(SecretString::from).ok_or_else(|| SecretError::NoVariable { name: name.clone() })
            }
            (SecretRef::Secret(name), Some(vault)) => {
                let reader = Reader { run: &self.run, session: self.session.as_ref() };
                vault.get(&self.workspace, name, reader).await.map_err(|error| SecretError::Store { error })
            }
            (SecretRef::Secret(_), None) => Err(SecretError::NoKey { reference: reference.clone() }),
        }
    }
}

#[async_trait]
impl SecretSource for RunSecrets {
    async fn secret(&self, reference: &SecretRef) -> Result<SecretString, ToolFailure> {
        let read = self.read(reference).await.inspect(|value| self.hide(value.clone()));
        read.map_err(|error| {
            let failure = ToolFailure::new(ToolErrorKind::ToolUnavailable, error.to_string());
            match error {
                SecretError::Store { error } if error.retryable() => failure.retryable(),
                _ => failure,
            }
        })
    }

    fn derived(&self, value: &SecretString) {
        self.hide(value.clone());
    }
}

impl RunActivities {
    pub(crate) fn secrets(&self, workspace: &WorkspaceId, run: &RunId, session: Option<&SessionId>) -> RunSecrets {
        RunSecrets::new(self.vault.clone(), workspace.clone(), run.clone(), session.cloned())
    }

    /// The key that an agent has for its model's provider.
    pub(crate) async fn credentials(
        &self,
        secrets: &RunSecrets,
        reference: Option<&SecretRef>,
    ) -> Result<Option<SecretString>, ActivityError> {
        let Some(reference) = reference else { return Ok(None) };
        match secrets.read(reference).await {
            Ok(value) => Ok(Some(value)),
            Err(SecretError::Store { error }) if error.retryable() => Err(failures::store(&error)),
            // The class of a provider's refusal of a key: without one it would refuse as well.
            Err(error) => Err(failures::permanent("auth", error.to_string())),
        }
    }
}
