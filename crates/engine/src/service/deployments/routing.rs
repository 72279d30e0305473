//! Setting the current version, the ramp and the manager.

#![allow(deprecated, reason = "clients may still use the older fields")]

use std::sync::Arc;

use temporalio_protos::temporal::api::workflowservice::v1::{
    SetWorkerDeploymentCurrentVersionRequest, SetWorkerDeploymentCurrentVersionResponse,
    SetWorkerDeploymentManagerRequest, SetWorkerDeploymentManagerResponse, SetWorkerDeploymentRampingVersionRequest,
    SetWorkerDeploymentRampingVersionResponse, set_worker_deployment_manager_request::NewManagerIdentity,
};

use super::{Changed, missing_deployment, missing_workflow, version_key};
use crate::{
    core::Core,
    deployments::{Deployment, Drainage, Set, SetCurrent, SetRamping, Target, Version, names},
    queues::Kind,
    service_error::ServiceError,
    time::{Nanos, SECOND},
};

/// A task queue is in use if a task came this lately.
const BUSY: Nanos = 60 * SECOND;

impl Core {
    pub(in crate::service) async fn set_current_version(
        self: &Arc<Self>,
        request: SetWorkerDeploymentCurrentVersionRequest,
    ) -> Result<SetWorkerDeploymentCurrentVersionResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let (namespace, name) = (request.namespace.as_str(), request.deployment_name.as_str());
        if name.is_empty() {
            return Err(ServiceError::invalid("deployment name cannot be empty"));
        }
        let target = target(name, &request.version, &request.build_id)?.unwrap_or(Target::Unversioned);
        self.check_names(name, &target, request.allow_no_pollers)?;
        let absent = || self.absent(namespace, name, request.allow_no_pollers);
        let set = |deployment: &mut Deployment, drainage: &Drainage<'_>| {
            let current = deployment.version(&deployment.current);
            let set = SetCurrent {
                target,
                common: Set {
                    identity: &request.identity,
                    conflict_token: &request.conflict_token,
                    ignore_missing_task_queues: request.ignore_missing_task_queues,
                    allow_no_pollers: request.allow_no_pollers,
                    is_busy: &|queue, kind| self.is_busy(namespace, queue, kind, current.as_ref()),
                },
            };
            deployment.set_current(&set, drainage, self.now()).map(Changed::Kept)
        };
        let (previous, deployment) = self.change_deployment(namespace, name, absent, set).await?;
        Ok(SetWorkerDeploymentCurrentVersionResponse {
            conflict_token: deployment.conflict_token,
            previous_version: previous.dotted(name),
            previous_deployment_version: previous.version(name).map(|version| version.to_api()),
        })
    }

    pub(in crate::service) async fn set_ramping_version(
        self: &Arc<Self>,
        request: SetWorkerDeploymentRampingVersionRequest,
    ) -> Result<SetWorkerDeploymentRampingVersionResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let (namespace, name) = (request.namespace.as_str(), request.deployment_name.as_str());
        if !(0.0..=100.0).contains(&request.percentage) {
            return Err(ServiceError::invalid("Percentage must be between 0 and 100 (inclusive)"));
        }
        let target = match target(name, &request.version, &request.build_id)? {
            None | Some(Target::Unversioned) if request.percentage == 0.0 => Target::None,
            None => Target::Unversioned,
            Some(target) => target,
        };
        self.check_names(name, &target, request.allow_no_pollers)?;
        let absent = || self.absent(namespace, name, request.allow_no_pollers);
        let set = |deployment: &mut Deployment, drainage: &Drainage<'_>| {
            let current = deployment.version(&deployment.current);
            let set = SetRamping {
                target,
                percentage: request.percentage,
                common: Set {
                    identity: &request.identity,
                    conflict_token: &request.conflict_token,
                    ignore_missing_task_queues: request.ignore_missing_task_queues,
                    allow_no_pollers: request.allow_no_pollers,
                    is_busy: &|queue, kind| self.is_busy(namespace, queue, kind, current.as_ref()),
                },
            };
            deployment.set_ramping(&set, drainage, self.now()).map(Changed::Kept)
        };
        let ((previous, percentage), deployment) = self.change_deployment(namespace, name, absent, set).await?;
        Ok(SetWorkerDeploymentRampingVersionResponse {
            conflict_token: deployment.conflict_token,
            previous_version: previous.dotted(name),
            previous_deployment_version: previous.version(name).map(|version| version.to_api()),
            previous_percentage: percentage,
        })
    }

    pub(in crate::service) async fn set_deployment_manager(
        self: &Arc<Self>,
        request: SetWorkerDeploymentManagerRequest,
    ) -> Result<SetWorkerDeploymentManagerResponse, ServiceError> {
        if request.identity.is_empty() {
            return Err(ServiceError::invalid("Identity is required"));
        }
        self.read_namespaces().named(&request.namespace)?;
        let (namespace, name) = (request.namespace.as_str(), request.deployment_name.as_str());
        names::check_deployment(name, self.limits.id_length)?;
        let manager = match &request.new_manager_identity {
            Some(NewManagerIdentity::Self_(true)) => &request.identity,
            Some(NewManagerIdentity::ManagerIdentity(manager)) => manager,
            _ => "",
        };
        let set = |deployment: &mut Deployment, _: &Drainage<'_>| {
            deployment.set_manager(manager, &request.identity, &request.conflict_token, self.now()).map(Changed::Kept)
        };
        let absent = || Err(missing_workflow(name));
        let (previous, deployment) = self.change_deployment(namespace, name, absent, set).await?;
        Ok(SetWorkerDeploymentManagerResponse {
            conflict_token: deployment.conflict_token,
            previous_manager_identity: previous,
        })
    }

    fn check_names(&self, deployment: &str, target: &Target, with_build: bool) -> Result<(), ServiceError> {
        names::check_deployment(deployment, self.limits.id_length)?;
        match target {
            Target::Build(build_id) if with_build => names::check_build(build_id, self.limits.id_length),
            _ => Ok(()),
        }
    }

    fn absent(&self, namespace: &str, name: &str, may_create: bool) -> Result<Deployment, ServiceError> {
        if may_create {
            return self.new_deployment(namespace, name, &uuid::Uuid::new_v4().to_string(), "");
        }
        Err(ServiceError::not_found(missing_deployment(name)))
    }

    fn is_busy(&self, namespace: &str, queue: &str, kind: Kind, version: Option<&Version>) -> bool {
        let key = version.map(|version| version_key(namespace, queue, kind, version));
        key.is_some_and(|key| self.queues.is_busy(&key, self.now() - BUSY))
    }
}

/// The version that a request names. `None` if it names none.
fn target(deployment: &str, text: &str, build_id: &str) -> Result<Option<Target>, ServiceError> {
    let text = match (text, build_id) {
        ("", "") => return Ok(None),
        ("", build_id) => Version::new(deployment, build_id).dotted(),
        (text, _) => text.to_owned(),
    };
    let version = Version::parse(&text)
        .map_err(|problem| ServiceError::InvalidArgument(format!("invalid version string: {problem}")))?;
    match version {
        None => Ok(Some(Target::Unversioned)),
        Some(version) if version.deployment == deployment => Ok(Some(Target::Build(version.build_id))),
        Some(_) => Err(ServiceError::InvalidArgument(format!(
            "invalid version string '{text}' does not match deployment name '{deployment}'"
        ))),
    }
}
