//! What the names of deployments and the ids of builds may be, with the real server's texts.

use temporalio_protos::temporal::api::{
    deployment::v1::WorkerDeploymentOptions,
    enums::v1::{TaskQueueKind, WorkerVersioningMode},
    taskqueue::v1::TaskQueue,
};

use super::Version;
use crate::service_error::ServiceError;

/// The real server keeps a version in a workflow whose id has both names and this much before them.
const PREFIX: usize = "temporal-sys-worker-deployment-version:".len();

pub(crate) fn check_deployment(name: &str, id_length: usize) -> Result<(), ServiceError> {
    check("WorkerDeploymentName", name, id_length)
}

pub(crate) fn check_build(id: &str, id_length: usize) -> Result<(), ServiceError> {
    check("BuildID", id, id_length)
}

pub(crate) fn check_version(version: &Version, id_length: usize) -> Result<(), ServiceError> {
    check_deployment(&version.deployment, id_length)?;
    check_build(&version.build_id, id_length)
}

fn check(field: &str, value: &str, id_length: usize) -> Result<(), ServiceError> {
    if value.is_empty() {
        return Err(ServiceError::InvalidArgument(format!("{field} cannot be empty")));
    }
    if value.len() > id_length.saturating_sub(PREFIX) / 2 {
        return Err(ServiceError::InvalidArgument(format!("size of {field} larger than the maximum allowed")));
    }
    if field == "WorkerDeploymentName"
        && let Some(delimiter) = [".", ":"].into_iter().find(|delimiter| value.contains(delimiter))
    {
        return Err(ServiceError::InvalidArgument(format!("worker deployment name cannot contain '{delimiter}'")));
    }
    if value.starts_with("__") {
        return Err(ServiceError::InvalidArgument(format!("{field} cannot start with '__'")));
    }
    Ok(())
}

/// Checks what a worker says of its deployment when it polls or completes a task.
pub(crate) fn check_worker(
    options: Option<&WorkerDeploymentOptions>,
    queue: Option<&TaskQueue>,
    id_length: usize,
) -> Result<(), ServiceError> {
    let Some(options) = options else { return Ok(()) };
    if queue.is_some_and(|queue| queue.kind() == TaskQueueKind::Sticky && queue.normal_name.is_empty()) {
        return Err(ServiceError::invalid(
            "NormalName must be set on sticky queue when UseVersioning is true or DeploymentOptions are set.",
        ));
    }
    if options.worker_versioning_mode() != WorkerVersioningMode::Versioned {
        return Ok(());
    }
    if options.deployment_name.is_empty() || options.build_id.is_empty() {
        return Err(ServiceError::invalid("Deployment name and build id must be set together."));
    }
    check_version(&Version::new(&options.deployment_name, &options.build_id), id_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_by_the_real_server() {
        let checked = |deployment: &str, build: &str| {
            check_version(&Version::new(deployment, build), 1000).map_err(|error| error.to_string())
        };
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(checked("a", "b.c:d"), Ok(()));
        assert_eq!(checked("", "b"), refused("WorkerDeploymentName cannot be empty"));
        assert_eq!(checked("a", ""), refused("BuildID cannot be empty"));
        assert_eq!(checked("a.b", "c"), refused("worker deployment name cannot contain '.'"));
        assert_eq!(checked("a:b", "c"), refused("worker deployment name cannot contain ':'"));
        assert_eq!(checked("__a", "c"), refused("WorkerDeploymentName cannot start with '__'"));
        assert_eq!(checked("a", "__c"), refused("BuildID cannot start with '__'"));
        assert_eq!(checked("a", &"c".repeat(480)), Ok(()));
        assert_eq!(checked("a", &"c".repeat(481)), refused("size of BuildID larger than the maximum allowed"));
    }
}
