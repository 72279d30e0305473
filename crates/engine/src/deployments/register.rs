//! How a deployment and its versions are created: by the polls of a worker, or by a request.

use temporalio_protos::temporal::api::enums::v1::{ResourceExhaustedCause, WorkerDeploymentVersionStatus as Status};

use super::{
    drainage::Drainage,
    state::{Deployment, VersionQueue, VersionState, type_of},
};
use crate::{queues::Kind, service_error::ServiceError, time::Nanos};

/// How many versions a deployment may have, and how many task queues a version.
const MOST_VERSIONS: usize = 100;
const MOST_QUEUES: usize = 100;
/// How many deployments a namespace may have.
pub(crate) const MOST_DEPLOYMENTS: usize = 100;
/// Begins the request id of a deployment that a poll has created.
pub(crate) const BY_A_POLL: &str = "_auto_create_";

pub(crate) fn exhausted(message: String) -> ServiceError {
    ServiceError::Exhausted { message, cause: ResourceExhaustedCause::WorkerDeploymentLimits }
}

impl Deployment {
    pub(crate) fn new(name: &str, request_id: &str, identity: &str, now: Nanos) -> Self {
        let mut new = Self {
            name: name.to_owned(),
            create_time: now,
            create_request_id: request_id.to_owned(),
            last_modifier: identity.to_owned(),
            ..Self::default()
        };
        new.renew_token(now);
        new
    }

    /// A new conflict token. Two changes at the same time have different ones.
    pub(super) fn renew_token(&mut self, now: Nanos) {
        let last = <[u8; 8]>::try_from(self.conflict_token.as_slice()).map_or(0, i64::from_be_bytes);
        self.conflict_token = now.max(last + 1).to_be_bytes().to_vec();
    }

    pub(crate) fn was_created_by_a_poll(&self) -> bool {
        self.create_request_id.starts_with(BY_A_POLL)
    }

    /// A worker of this build polls this task queue.
    pub(crate) fn register(
        &mut self,
        build_id: &str,
        queue: &str,
        kind: Kind,
        drainage: &Drainage<'_>,
        now: Nanos,
    ) -> Result<(), ServiceError> {
        self.add_version(build_id, Status::Inactive, drainage, now)?;
        let Some(version) = self.versions.get_mut(build_id) else { return Ok(()) };
        if version.has_queue(queue, kind) {
            return Ok(());
        }
        let mut names: Vec<&str> = version.queues.iter().map(|queue| queue.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() >= MOST_QUEUES {
            return Err(exhausted(format!(
                "cannot add task queue {queue} since maximum number of task queues ({MOST_QUEUES}) have been \
                 registered in deployment"
            )));
        }
        version.queues.push(VersionQueue { name: queue.to_owned(), kind: type_of(kind) as i32 });
        if version.status() == Status::Created {
            version.set_status(Status::Inactive);
        }
        Ok(())
    }

    /// Adds a version, unless it is known. If there are too many, the oldest that may be deleted gives way.
    pub(super) fn add_version(
        &mut self,
        build_id: &str,
        status: Status,
        drainage: &Drainage<'_>,
        now: Nanos,
    ) -> Result<(), ServiceError> {
        if self.versions.contains_key(build_id) {
            return Ok(());
        }
        if self.versions.len() >= MOST_VERSIONS && !self.delete_oldest(drainage, now) {
            return Err(exhausted(format!(
                "cannot add version {}.{build_id} since maximum number of versions ({MOST_VERSIONS}) have been \
                 registered in the deployment",
                self.name
            )));
        }
        // Two versions are never of the same time: lists show the newest first.
        let newest = self.versions.values().map(|version| version.create_time).max().unwrap_or_default();
        let version =
            VersionState { create_time: now.max(newest + 1), status: status as i32, ..VersionState::default() };
        self.versions.insert(build_id.to_owned(), version);
        Ok(())
    }

    /// A client creates a version. A repeated request changes nothing.
    pub(crate) fn create_version(
        &mut self,
        build_id: &str,
        request_id: &str,
        identity: &str,
        drainage: &Drainage<'_>,
        now: Nanos,
    ) -> Result<(), ServiceError> {
        if let Some(known) = self.versions.get(build_id) {
            if known.create_request_id == request_id {
                return Ok(());
            }
            let version = format!("{}.{build_id}", self.name);
            return Err(ServiceError::AlreadyExists(format!("Worker Deployment Version {version:?} already exists")));
        }
        self.add_version(build_id, Status::Created, drainage, now)?;
        if let Some(version) = self.versions.get_mut(build_id) {
            request_id.clone_into(&mut version.create_request_id);
            identity.clone_into(&mut version.last_modifier);
        }
        Ok(())
    }
}
