//! Creating and deleting deployments and versions, and the metadata of versions.

#![allow(deprecated, reason = "clients may still use the older fields")]

use std::sync::Arc;

use temporalio_protos::temporal::api::workflowservice::v1::{
    CreateWorkerDeploymentRequest, CreateWorkerDeploymentResponse, CreateWorkerDeploymentVersionRequest,
    CreateWorkerDeploymentVersionResponse, DeleteWorkerDeploymentRequest, DeleteWorkerDeploymentResponse,
    DeleteWorkerDeploymentVersionRequest, DeleteWorkerDeploymentVersionResponse,
    UpdateWorkerDeploymentVersionMetadataRequest, UpdateWorkerDeploymentVersionMetadataResponse,
};

use super::{Changed, missing_deployment, missing_workflow, read::named_version};
use crate::{
    core::Core,
    deployments::{Deployment, Drainage, Version, metadata, names},
    service_error::ServiceError,
};

impl Core {
    pub(in crate::service) async fn create_worker_deployment(
        self: &Arc<Self>,
        request: CreateWorkerDeploymentRequest,
    ) -> Result<CreateWorkerDeploymentResponse, ServiceError> {
        let (namespace, name) = (request.namespace.as_str(), request.deployment_name.as_str());
        if name.is_empty() {
            return Err(ServiceError::invalid("deployment name cannot be empty"));
        }
        self.read_namespaces().named(namespace)?;
        names::check_deployment(name, self.limits.id_length)?;
        let request_id = given_or_new(request.request_id);
        let absent = || self.new_deployment(namespace, name, &request_id, &request.identity);
        let create = |deployment: &mut Deployment, _: &Drainage<'_>| match deployment {
            it if it.create_request_id == request_id => Ok(Changed::Kept(())),
            it => {
                let how = if it.was_created_by_a_poll() { " (auto-created from worker polls)" } else { "" };
                let text = format!("Worker Deployment with name {name:?} already exists{how}");
                Err(ServiceError::AlreadyExists(text))
            }
        };
        let (_, deployment) = self.change_deployment(namespace, name, absent, create).await?;
        Ok(CreateWorkerDeploymentResponse { conflict_token: deployment.conflict_token })
    }

    pub(in crate::service) async fn create_worker_deployment_version(
        self: &Arc<Self>,
        request: CreateWorkerDeploymentVersionRequest,
    ) -> Result<CreateWorkerDeploymentVersionResponse, ServiceError> {
        let version = request.deployment_version.as_ref().map(Version::of_api).unwrap_or_default();
        if version.deployment.is_empty() {
            return Err(ServiceError::invalid("deployment name cannot be empty"));
        }
        if version.build_id.is_empty() {
            return Err(ServiceError::invalid("build ID cannot be empty"));
        }
        self.read_namespaces().named(&request.namespace)?;
        if request.compute_config.is_some() {
            return Err(ServiceError::Unimplemented("compute configs of versions".to_owned()));
        }
        names::check_version(&version, self.limits.id_length)?;
        let request_id = given_or_new(request.request_id);
        let absent = || Err(ServiceError::not_found(missing_deployment(&version.deployment)));
        let create = |deployment: &mut Deployment, drainage: &Drainage<'_>| {
            let (identity, now) = (&request.identity, self.now());
            deployment.create_version(&version.build_id, &request_id, identity, drainage, now).map(Changed::Kept)
        };
        self.change_deployment(&request.namespace, &version.deployment, absent, create).await?;
        Ok(CreateWorkerDeploymentVersionResponse {})
    }

    pub(in crate::service) async fn delete_worker_deployment(
        self: &Arc<Self>,
        request: DeleteWorkerDeploymentRequest,
    ) -> Result<DeleteWorkerDeploymentResponse, ServiceError> {
        let (namespace, name) = (request.namespace.as_str(), request.deployment_name.as_str());
        self.read_namespaces().named(namespace)?;
        names::check_deployment(name, self.limits.id_length)?;
        if self.deployments.get(namespace, name).is_none() {
            return Ok(DeleteWorkerDeploymentResponse {});
        }
        let delete = |deployment: &mut Deployment, _: &Drainage<'_>| {
            if !deployment.versions.is_empty() {
                let text = "deployment has versions, can't be deleted";
                return Err(ServiceError::FailedPrecondition(text.to_owned()));
            }
            Ok(Changed::Deleted(()))
        };
        let absent = || Err(missing_workflow(name));
        self.change_deployment(namespace, name, absent, delete).await?;
        Ok(DeleteWorkerDeploymentResponse {})
    }

    pub(in crate::service) async fn delete_worker_deployment_version(
        self: &Arc<Self>,
        request: DeleteWorkerDeploymentVersionRequest,
    ) -> Result<DeleteWorkerDeploymentVersionResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let version = named_version(&request.version, request.deployment_version.as_ref(), false)?;
        names::check_deployment(&version.deployment, self.limits.id_length)?;
        let identity = given_or_new(request.identity);
        let delete = |deployment: &mut Deployment, drainage: &Drainage<'_>| {
            let (skip, has_pollers) = (request.skip_drainage, drainage.has_pollers);
            deployment.delete_version(&version.build_id, &identity, skip, has_pollers).map(Changed::Kept)
        };
        let absent = || Err(missing_workflow(&version.deployment));
        self.change_deployment(&request.namespace, &version.deployment, absent, delete).await?;
        Ok(DeleteWorkerDeploymentVersionResponse {})
    }

    pub(in crate::service) async fn update_version_metadata(
        self: &Arc<Self>,
        request: UpdateWorkerDeploymentVersionMetadataRequest,
    ) -> Result<UpdateWorkerDeploymentVersionMetadataResponse, ServiceError> {
        if request.upsert_entries.is_empty() && request.remove_entries.is_empty() {
            let text = "At least one of remove_entries or upsert_entries must be provided";
            return Err(ServiceError::invalid(text));
        }
        self.read_namespaces().named(&request.namespace)?;
        let version = named_version(&request.version, request.deployment_version.as_ref(), false)?;
        let missing = || {
            let id = format!("temporal-sys-worker-deployment-version:{version}");
            ServiceError::not_found(format!("workflow not found for ID: {id}"))
        };
        let change = |deployment: &mut Deployment, _: &Drainage<'_>| {
            let (upserted, removed) = (request.upsert_entries, &request.remove_entries);
            let changed = deployment.change_metadata(&version.build_id, upserted, removed, &request.identity);
            changed.map(Changed::Kept).ok_or_else(missing)
        };
        let absent = || Err(missing());
        let (changed, _) = self.change_deployment(&request.namespace, &version.deployment, absent, change).await?;
        Ok(UpdateWorkerDeploymentVersionMetadataResponse { metadata: changed.as_ref().map(metadata) })
    }
}

fn given_or_new(id: String) -> String {
    if id.is_empty() { uuid::Uuid::new_v4().to_string() } else { id }
}
