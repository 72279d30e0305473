//! Requests about worker deployments. The rules are in `crate::deployments`.
//!
//! A change is stored first. Then tasks and requests see it, and tasks that wait go where the new routing sends them.

mod older;
mod options;
mod read;
mod register;
mod routing;
mod versions;

use std::sync::Arc;

use windlass_sqlite::Ack;

pub(super) use self::options::{check_paths, merge};
use crate::{
    core::{Core, unavailable},
    deployments::{Deployment, Drainage, Version},
    persist,
    queues::{Kind, QueueKey},
    service_error::ServiceError,
    time::{Nanos, SECOND},
};

/// How long a poller counts as one after its last poll.
const POLLED: Nanos = 5 * 60 * SECOND;

/// What a deployment is after a change.
enum Changed<T> {
    Kept(T),
    /// It was deleted.
    Deleted(T),
}

impl Core {
    /// Changes a deployment. `absent` provides it if there is none of this name.
    async fn change_deployment<T>(
        self: &Arc<Self>,
        namespace: &str,
        name: &str,
        absent: impl FnOnce() -> Result<Deployment, ServiceError>,
        change: impl FnOnce(&mut Deployment, &Drainage<'_>) -> Result<Changed<T>, ServiceError>,
    ) -> Result<(T, Deployment), ServiceError> {
        let _change = self.deployments.changes.lock().await;
        let known = self.deployments.get(namespace, name);
        let mut deployment = match known.clone() {
            Some(known) => known,
            None => absent()?,
        };
        let changed = self.with_drainage(namespace, &deployment.clone(), |drainage| {
            deployment.check_drainage(drainage, self.now());
            change(&mut deployment, drainage)
        })?;
        let mut queues = known.as_ref().map(Deployment::queues).unwrap_or_default();
        let value = match changed {
            Changed::Kept(value) => {
                if known.as_ref() != Some(&deployment) {
                    self.store(namespace, &deployment).await?;
                }
                value
            }
            Changed::Deleted(value) => {
                let (of, called) = (namespace.to_owned(), name.to_owned());
                let ticket = self.database.apply(Ack::Durable, move |tx| persist::remove_deployment(tx, &of, &called));
                ticket.await.map_err(|error| unavailable(&error))?;
                self.deployments.remove(namespace, name);
                value
            }
        };
        queues.extend(deployment.queues());
        queues.sort();
        queues.dedup();
        self.place_again(namespace, &queues);
        Ok((value, deployment))
    }

    async fn store(self: &Arc<Self>, namespace: &str, deployment: &Deployment) -> Result<(), ServiceError> {
        let (of, kept) = (namespace.to_owned(), deployment.clone());
        let ticket = self.database.apply(Ack::Durable, move |tx| persist::save_deployment(tx, &of, &kept));
        ticket.await.map_err(|error| unavailable(&error))?;
        self.deployments.put(namespace, deployment.clone());
        Ok(())
    }

    /// A deployment with its drainage brought up to date.
    async fn current_deployment(
        self: &Arc<Self>,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Deployment>, ServiceError> {
        let Some(deployment) = self.deployments.get(namespace, name) else { return Ok(None) };
        let due = self
            .with_drainage(namespace, &deployment, |drainage| deployment.clone().check_drainage(drainage, self.now()));
        if !due {
            return Ok(Some(deployment));
        }
        let gone = || ServiceError::not_found(missing_deployment(name));
        let checked = self.change_deployment(namespace, name, || Err(gone()), |_, _| Ok(Changed::Kept(()))).await;
        match checked {
            Ok((_, deployment)) => Ok(Some(deployment)),
            Err(ServiceError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn with_drainage<T>(&self, namespace: &str, deployment: &Deployment, act: impl FnOnce(&Drainage<'_>) -> T) -> T {
        let pinned_runs = |version: &Version| {
            // A version whose runs cannot be counted is not drained.
            self.read(|sql| persist::pinned_runs(sql, namespace, &version.to_string())).unwrap_or(i64::MAX)
        };
        let has_pollers = |version: &Version| {
            let queues = deployment.versions.get(&version.build_id).into_iter().flat_map(|it| it.queues());
            queues.into_iter().any(|(name, kind)| {
                let key = version_key(namespace, &name, kind, version);
                !self.queues.pollers(&key, self.now() - POLLED).is_empty()
            })
        };
        act(&Drainage::new(&pinned_runs, &has_pollers))
    }
}

fn version_key(namespace: &str, name: &str, kind: Kind, version: &Version) -> QueueKey {
    QueueKey { namespace: namespace.into(), name: name.to_owned(), kind, version: Some(version.clone()) }
}

fn missing_deployment(name: &str) -> String {
    format!("no Worker Deployment found with name '{name}'; does your Worker Deployment have pollers?")
}

/// The real server keeps a deployment in a workflow, and some requests name that.
fn missing_workflow(name: &str) -> ServiceError {
    ServiceError::not_found(format!("workflow not found for ID: temporal-sys-worker-deployment:{name}"))
}
