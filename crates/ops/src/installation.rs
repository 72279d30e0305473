//! Pairing of a store and a namespace.
//!
//! A store has an installation id. A namespace keeps that id for each task queue, in its own data, so that a
//! process with another store fails before it changes a run. Each run carries the id, too, for servers that do not let
//! their namespaces be changed.

use temporalio_client::{
    NamespacedClient as _,
    tonic::{Code, IntoRequest as _, Status},
};
use temporalio_protos::temporal::api::{
    namespace::v1::UpdateNamespaceInfo,
    workflowservice::v1::{DescribeNamespaceRequest, UpdateNamespaceRequest},
};
use windlass_core::ids::{InstallationId, RunId};
use windlass_store::{Installation, StoreError};
use windlass_workflows::attributes;

use super::{OpsError, RunOps};

/// How to pair with a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Take the task queue if no installation has it.
    Claim,
    /// Change nothing.
    Look,
    /// Take the task queue from any installation that has it, and remove every other namespace from the store.
    Adopt,
}

/// A store and a namespace that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paired {
    pub installation: Installation,
    /// The namespace's id; `None` if the server does not return it.
    pub namespace: Option<String>,
    /// Whether the namespace keeps the installation's id.
    pub kept: bool,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairingError {
    #[error(
        "OPS0016: task queue {task_queue} of namespace {namespace} belongs to installation {found}, and this store is \
         installation {own}; use the other installation's store (--data-dir or WINDLASS_POSTGRES_URL), another \
         --task-queue, --namespace or --temporal, or, if this store is meant to replace the other one, run \
         `windlass doctor --adopt`"
    )]
    Foreign { namespace: String, task_queue: String, own: InstallationId, found: InstallationId },
    #[error(
        "OPS0018: the installation id of namespace {namespace} cannot be read ({reason}); try again when the server responds"
    )]
    Unanswered { namespace: String, reason: String },
    #[error("OPS0014: {code}: {0}", code = .0.code())]
    Store(StoreError),
}

/// Not a `source`: the message has the store's message already.
impl From<StoreError> for PairingError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl RunOps {
    /// Checks that the store and the namespace belong together.
    pub async fn pair(&self, how: Pairing) -> Result<Paired, PairingError> {
        let installation = self.store().installation().await?;
        let Some((id, found)) = self.owner().await? else {
            tracing::warn!(
                "the server does not return the namespace's installation id; only the ids of runs are checked"
            );
            return Ok(Paired { installation, namespace: None, kept: false });
        };
        let own = &installation.id;
        let mut kept = found.is_some();
        match found {
            Some(found) if how != Pairing::Adopt && found != *own => return Err(self.foreign(own, found)),
            Some(found) if found == *own => {}
            None if how == Pairing::Look => {}
            _ => {
                kept = self.write_owner(own).await?;
                // Another process may have claimed it at the same time.
                if kept
                    && let Some((_, Some(found))) = self.owner().await?
                    && found != *own
                {
                    return Err(self.foreign(own, found));
                }
            }
        }
        let installation = match how {
            Pairing::Look => installation,
            how => self.store().used_with(&id, how == Pairing::Adopt).await?,
        };
        Ok(Paired { installation, namespace: Some(id), kept })
    }

    /// With a check of each run's installation before a request, for namespaces that do not keep the id.
    #[must_use]
    pub fn checking_owners(self) -> Self {
        Self { checks_owners: true, ..self }
    }

    /// Whether the store's runs are in this namespace and in no other.
    pub(crate) async fn is_only_home(&self) -> Result<bool, OpsError> {
        let paired = self.pair(Pairing::Look).await.map_err(|error| OpsError::Refused { reason: error.to_string() })?;
        let Paired { installation, namespace, kept } = paired;
        Ok(kept && namespace.is_some_and(|namespace| installation.namespaces == [namespace]))
    }

    /// The store's installation id.
    pub(crate) async fn installation(&self) -> Result<InstallationId, OpsError> {
        let own =
            self.installation.get_or_try_init(async || Ok::<_, StoreError>(self.store().installation().await?.id));
        Ok(own.await?.clone())
    }

    /// Fails if the run carries another installation's id. Checks only if the namespace does not keep the id.
    pub(crate) async fn check_owner(&self, run: &RunId) -> Result<(), OpsError> {
        if !self.checks_owners {
            return Ok(());
        }
        match self.owner_of(run).await {
            Ok(Some(found)) if found != self.installation().await? => {
                Err(OpsError::Foreign { run: run.clone(), own: self.installation().await?, found })
            }
            Ok(_) | Err(OpsError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The installation id that a run carries. Child runs carry that of their root.
    pub async fn owner_of(&self, run: &RunId) -> Result<Option<InstallationId>, OpsError> {
        let root = run.as_str().split('/').next().unwrap_or_default();
        let found = self.memo(&RunId::new(root), attributes::INSTALLATION).await?;
        Ok(found.map(InstallationId::new))
    }

    /// A text of the run's memo.
    pub(crate) async fn memo(&self, run: &RunId, key: &str) -> Result<Option<String>, OpsError> {
        let described = self.handle(run).describe(Default::default()).await;
        let described = described.map_err(|error| OpsError::interaction(run, &error))?;
        let memo = described.raw_description.workflow_execution_info.and_then(|info| info.memo);
        let payload = memo.and_then(|mut memo| memo.fields.remove(key));
        Ok(payload.and_then(|payload| serde_json::from_slice(&payload.data).ok()))
    }

    fn foreign(&self, own: &InstallationId, found: InstallationId) -> PairingError {
        let (namespace, task_queue) = (self.client().namespace(), self.task_queue().to_owned());
        PairingError::Foreign { namespace, task_queue, own: own.clone(), found }
    }

    fn key(&self) -> String {
        format!("windlass.installation.{}", self.task_queue())
    }

    /// The namespace's id, and the installation id of the task queue. `None` if the server does not return them.
    async fn owner(&self) -> Result<Option<(String, Option<InstallationId>)>, PairingError> {
        let namespace = self.client().namespace();
        let request = DescribeNamespaceRequest { namespace, ..DescribeNamespaceRequest::default() };
        let described = self.client().connection().workflow_service().describe_namespace(request.into_request()).await;
        match described {
            Ok(described) => {
                let info = described.into_inner().namespace_info.unwrap_or_default();
                Ok(Some((info.id, info.data.get(&self.key()).map(|id| InstallationId::new(id.clone())))))
            }
            Err(status) if may_not(&status) => Ok(None),
            Err(status) => Err(self.unanswered(&status)),
        }
    }

    /// Returns whether the server accepted it.
    async fn write_owner(&self, own: &InstallationId) -> Result<bool, PairingError> {
        let info =
            UpdateNamespaceInfo { data: [(self.key(), own.to_string())].into(), ..UpdateNamespaceInfo::default() };
        let request = UpdateNamespaceRequest {
            namespace: self.client().namespace(),
            update_info: Some(info),
            ..UpdateNamespaceRequest::default()
        };
        let mut tries = 1;
        let updated = loop {
            let service = self.client().connection().workflow_service();
            match service.clone().update_namespace(request.clone().into_request()).await {
                Err(status) if lost_to_another(&status) && tries < UPDATES => tries += 1,
                updated => break updated,
            }
        };
        match updated {
            Ok(_) => Ok(true),
            Err(status) if may_not(&status) => {
                tracing::warn!(
                    reason = status.message(),
                    "the server does not allow the namespace to keep the installation id; only the ids of runs are checked"
                );
                Ok(false)
            }
            Err(status) => Err(self.unanswered(&status)),
        }
    }

    fn unanswered(&self, status: &Status) -> PairingError {
        PairingError::Unanswered { namespace: self.client().namespace(), reason: status.message().to_owned() }
    }
}

/// How often an update of a namespace is tried. On a server with many namespaces, another update may always come first.
const UPDATES: usize = 20;

/// Whether another client changed a namespace, any of the server's, at the same time. Then nothing was changed.
fn lost_to_another(status: &Status) -> bool {
    status.message().contains("conditional update error")
}

/// Whether the server refuses this permanently.
fn may_not(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented | Code::FailedPrecondition
    )
}
