//! Describing and listing deployments.

#![allow(deprecated, reason = "clients may still use the older fields")]

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    deployment::v1::WorkerDeploymentVersion,
    workflowservice::v1::{
        DescribeWorkerDeploymentRequest, DescribeWorkerDeploymentResponse, DescribeWorkerDeploymentVersionRequest,
        DescribeWorkerDeploymentVersionResponse, ListWorkerDeploymentsRequest, ListWorkerDeploymentsResponse,
    },
};

use super::{missing_deployment, version_key};
use crate::{
    core::Core,
    deployments::{Version, deployment_info, dotted, names, summary, task_queues, version_info},
    queues::Kind,
    service_error::ServiceError,
};

const LARGEST_PAGE: usize = 1000;

impl Core {
    pub(in crate::service) async fn describe_worker_deployment(
        self: &Arc<Self>,
        request: DescribeWorkerDeploymentRequest,
    ) -> Result<DescribeWorkerDeploymentResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let name = &request.deployment_name;
        names::check_deployment(name, self.limits.id_length)?;
        let deployment = self.current_deployment(&request.namespace, name).await?;
        let deployment = deployment.ok_or_else(|| ServiceError::not_found(missing_deployment(name)))?;
        Ok(DescribeWorkerDeploymentResponse {
            conflict_token: deployment.conflict_token.clone(),
            worker_deployment_info: Some(deployment_info(&deployment)),
        })
    }

    pub(in crate::service) async fn list_worker_deployments(
        self: &Arc<Self>,
        request: ListWorkerDeploymentsRequest,
    ) -> Result<ListWorkerDeploymentsResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let size = match usize::try_from(request.page_size) {
            Ok(size @ 1..=LARGEST_PAGE) => size,
            _ => LARGEST_PAGE,
        };
        let after = String::from_utf8_lossy(&request.next_page_token).into_owned();
        let names: Vec<String> = self.deployments.list(&request.namespace).into_iter().map(|it| it.name).collect();
        let mut names = names.into_iter().filter(|name| after.is_empty() || *name > after).peekable();
        let mut worker_deployments = Vec::new();
        let mut last = String::new();
        while let Some(name) = names.next_if(|_| worker_deployments.len() < size) {
            if let Some(deployment) = self.current_deployment(&request.namespace, &name).await? {
                worker_deployments.push(summary(&deployment));
            }
            last = name;
        }
        let next_page_token = if names.peek().is_some() { last.into_bytes() } else { Vec::new() };
        Ok(ListWorkerDeploymentsResponse { next_page_token, worker_deployments })
    }

    pub(in crate::service) async fn describe_worker_deployment_version(
        self: &Arc<Self>,
        request: DescribeWorkerDeploymentVersionRequest,
    ) -> Result<DescribeWorkerDeploymentVersionResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        if request.version.is_empty() && request.deployment_version.is_none() {
            return Err(ServiceError::invalid("deployment version cannot be empty"));
        }
        let version = named_version(&request.version, request.deployment_version.as_ref(), true)?;
        names::check_version(&version, self.limits.id_length)?;
        let deployment = self.current_deployment(&request.namespace, &version.deployment).await?.unwrap_or_default();
        let Some(state) = deployment.versions.get(&version.build_id) else {
            return Err(ServiceError::not_found("Worker Deployment Version not found"));
        };
        let stats = |name: &str, kind: Kind| {
            let key = version_key(&request.namespace, name, kind, &version);
            request.report_task_queue_stats.then(|| self.queue_stats(&key))
        };
        Ok(DescribeWorkerDeploymentVersionResponse {
            worker_deployment_version_info: Some(version_info(&deployment, &version.build_id, state)),
            version_task_queues: task_queues(state, &stats),
        })
    }
}

/// The version that a request names in either form.
pub(super) fn named_version(
    text: &str,
    version: Option<&WorkerDeploymentVersion>,
    text_first: bool,
) -> Result<Version, ServiceError> {
    let text = match version {
        Some(version) if !text_first || text.is_empty() => dotted(Some(&Version::of_api(version))),
        _ => text.to_owned(),
    };
    Version::parse(&text).ok().flatten().ok_or_else(|| {
        ServiceError::InvalidArgument(format!(
            "invalid version string {text:?}, expected format is \"<deployment_name>.<build_id>\""
        ))
    })
}
