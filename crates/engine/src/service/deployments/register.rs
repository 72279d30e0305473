//! Workers register their version by polling.

use std::sync::Arc;

use super::Changed;
use crate::{
    core::Core,
    deployments::{BY_A_POLL, Deployment, Drainage, MOST_DEPLOYMENTS, Version, exhausted},
    queues::QueueKey,
    service_error::ServiceError,
};

impl Core {
    /// Registers the version of a worker that polls a task queue, and makes the poll one of that version.
    pub(in crate::service) async fn register_worker(
        self: &Arc<Self>,
        key: &mut QueueKey,
        version: Option<&Version>,
    ) -> Result<(), ServiceError> {
        let Some(version) = version else { return Ok(()) };
        key.version = Some(version.clone());
        let known = self.deployments.routing(&key.namespace, &key.name, key.kind);
        if known.is_some_and(|routing| routing.has(version)) {
            return Ok(());
        }
        let request_id = format!("{BY_A_POLL}{}", uuid::Uuid::new_v4());
        let absent = || self.new_deployment(&key.namespace, &version.deployment, &request_id, "");
        let register = |deployment: &mut Deployment, drainage: &Drainage<'_>| {
            deployment.register(&version.build_id, &key.name, key.kind, drainage, self.now())?;
            Ok(Changed::Kept(()))
        };
        self.change_deployment(&key.namespace, &version.deployment, absent, register).await?;
        Ok(())
    }

    /// A new deployment, if the namespace may have one more.
    pub(super) fn new_deployment(
        &self,
        namespace: &str,
        name: &str,
        request_id: &str,
        identity: &str,
    ) -> Result<Deployment, ServiceError> {
        if self.deployments.count(namespace) >= MOST_DEPLOYMENTS {
            return Err(exhausted(format!("reached maximum deployments in namespace ({MOST_DEPLOYMENTS})")));
        }
        Ok(Deployment::new(name, request_id, identity, self.now()))
    }

    /// A run was pinned to a version, which may have drained before.
    pub(in crate::service) async fn reactivate(self: &Arc<Self>, namespace: &str, version: &Version) {
        let gone = || Err(ServiceError::not_found(version.to_string()));
        let reactivate = |deployment: &mut Deployment, _: &Drainage<'_>| {
            deployment.reactivate(&version.build_id, self.now());
            Ok(Changed::Kept(()))
        };
        if let Err(error) = self.change_deployment(namespace, &version.deployment, gone, reactivate).await {
            tracing::warn!(%error, %version, "a version that runs are pinned to again could not be marked as draining");
        }
    }
}
