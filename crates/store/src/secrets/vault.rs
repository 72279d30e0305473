//! The store's secrets with the keys that open them.

use std::{fmt, sync::Arc};

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::OnceCell;
use windlass_core::ids::{RunId, SessionId, WorkspaceId};

use super::{
    INSTALLATION, KeyRing, SealedSecret, SecretOwner, SecretRow, SigningKey, check_name, check_value, seal, signing,
};
use crate::{PushConfigRow, PushTarget, Result, Secrets, StoreError};

/// Secrets that one step of a rotation reads.
const BATCH: u32 = 100;

/// Sets, lists, removes and decrypts secrets. Clones share the store and the keys.
#[derive(Clone)]
pub struct Vault {
    store: Arc<dyn Secrets>,
    keys: Arc<KeyRing>,
    signing: Arc<OnceCell<SigningKey>>,
}

/// The run that reads a secret. It may read what operators set, and what was split from its own spec, its session's or
/// that of a run above it.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'r> {
    pub run: &'r RunId,
    pub session: Option<&'r SessionId>,
}

impl Reader<'_> {
    fn may_read(&self, owner: Option<&SecretOwner>) -> bool {
        match owner {
            None => true,
            Some(SecretOwner::Session(session)) => self.session == Some(session),
            Some(SecretOwner::Run(run)) => {
                let below = self.run.as_str().strip_prefix(run.as_str());
                below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
            }
        }
    }
}

/// What a rotation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Rotated {
    /// Values that are now encrypted with the current key.
    pub rotated: u64,
    /// Values whose key is not in the ring, or that do not decrypt. The log names them.
    pub unreadable: u64,
}

impl Vault {
    pub fn new(store: Arc<dyn Secrets>, keys: KeyRing) -> Self {
        Self { store, keys: Arc::new(keys), signing: Arc::default() }
    }

    /// Sets a secret of the workspace, or replaces its value.
    pub async fn set(&self, workspace: &WorkspaceId, name: &str, value: &SecretString) -> Result<SecretRow> {
        check_name(name)?;
        check_value(value.expose_secret())?;
        self.store.put_secret(seal::seal(&self.keys, (workspace, name, None), value)?).await.map(|(row, _)| row)
    }

    /// Stores a secret that was split from a field of a spec, and returns its generated name. A repeat with the same
    /// value changes nothing; another value is refused.
    pub async fn split(
        &self,
        workspace: &WorkspaceId,
        owner: &SecretOwner,
        field: &str,
        value: &SecretString,
    ) -> Result<String> {
        check_value(value.expose_secret())?;
        let name = owner.secret_name(field);
        let sealed = seal::seal(&self.keys, (workspace, &name, Some(owner)), value)?;
        let (_, stored) = self.store.put_secret(sealed.clone()).await?;
        if stored != sealed && seal::open(&self.keys, &stored)?.expose_secret() != value.expose_secret() {
            return Err(StoreError::SecretExists { workspace: workspace.clone(), name });
        }
        Ok(name)
    }

    /// The value. A secret that the reader may not read looks like one that does not exist.
    pub async fn get(&self, workspace: &WorkspaceId, name: &str, reader: Reader<'_>) -> Result<SecretString> {
        let missing = || StoreError::SecretNotFound { workspace: workspace.clone(), name: name.to_owned() };
        let stored = self.store.sealed_secret(workspace, name).await?;
        let sealed = stored.filter(|sealed| reader.may_read(sealed.owner.as_ref())).ok_or_else(missing)?;
        seal::open(&self.keys, &sealed)
    }

    /// Stores where a push config sends, as a secret of its run, and returns its name. Every call makes another secret.
    pub async fn seal_push_target(&self, workspace: &WorkspaceId, run: &RunId, target: &PushTarget) -> Result<String> {
        let text = serde_json::to_string(target).map_err(|_| StoreError::InvalidArgument {
            argument: "the push config",
            problem: "it cannot be written as JSON".to_owned(),
        })?;
        let field = format!("push/{}", uuid::Uuid::new_v4().simple());
        self.split(workspace, &SecretOwner::Run(run.clone()), &field, &text.into()).await
    }

    /// Where a push config sends.
    pub async fn push_target(&self, config: &PushConfigRow) -> Result<PushTarget> {
        let reader = Reader { run: &config.run, session: None };
        let text = self.get(&config.workspace, &config.secret, reader).await?;
        let target = serde_json::from_str(text.expose_secret());
        target.map_err(|_| StoreError::Corrupt { detail: format!("push config {} cannot be read", config.id) })
    }

    /// The installation's signing key, made on first use. Of several processes that make one at once, all use the first.
    pub async fn signing_key(&self) -> Result<&SigningKey> {
        self.signing
            .get_or_try_init(async || {
                let workspace = WorkspaceId::new(INSTALLATION);
                let stored = match self.store.sealed_secret(&workspace, signing::NAME).await? {
                    Some(stored) => stored,
                    None => {
                        let made = SigningKey::random()?;
                        let sealed = seal::seal(&self.keys, (&workspace, signing::NAME, None), &made)?;
                        self.store.put_secret(sealed).await?.1
                    }
                };
                SigningKey::parse(&seal::open(&self.keys, &stored)?)
            })
            .await
    }

    /// What operators have set, by name. Values are not returned.
    pub async fn list(&self, workspace: &WorkspaceId) -> Result<Vec<SecretRow>> {
        self.store.secrets(workspace).await
    }

    /// Removes a secret that an operator has set. Returns whether there was one.
    pub async fn remove(&self, workspace: &WorkspaceId, name: &str) -> Result<bool> {
        self.store.remove_secret(workspace, name).await
    }

    /// Encrypts all values of all workspaces with the current key. A value that is set meanwhile is left as it is.
    pub async fn rotate(&self) -> Result<Rotated> {
        let mut rotated = Rotated::default();
        let mut after = None;
        loop {
            let batch = self.store.secrets_of_other_keys(self.keys.current().id(), after, BATCH).await?;
            let Some(last) = batch.last() else { return Ok(rotated) };
            after = Some((last.workspace.clone(), last.name.clone()));
            for sealed in &batch {
                match self.resealed(sealed) {
                    Ok(new) => rotated.rotated += u64::from(self.store.replace_sealed(sealed, new).await?),
                    Err(error) => {
                        tracing::warn!(%error, "a secret was not rotated");
                        rotated.unreadable += 1;
                    }
                }
            }
        }
    }

    fn resealed(&self, sealed: &SealedSecret) -> Result<SealedSecret> {
        let value = seal::open(&self.keys, sealed)?;
        seal::seal(&self.keys, (&sealed.workspace, &sealed.name, sealed.owner.as_ref()), &value)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("keys", &self.keys).finish_non_exhaustive()
    }
}
