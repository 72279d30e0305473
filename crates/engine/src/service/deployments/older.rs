//! The older kinds of worker versioning. The real server refuses them by default, with these texts.

use crate::{core::Core, service_error::ServiceError};

impl Core {
    /// The answer to a request of an older kind; `None` for any other.
    pub(in crate::service) fn older_versioning(rpc: &str) -> Option<ServiceError> {
        let denied = |kind: &str| {
            let text = format!("Worker versioning {kind} is disabled on this namespace.");
            Some(ServiceError::PermissionDenied(text))
        };
        match rpc {
            "UpdateWorkerBuildIdCompatibility" | "GetWorkerBuildIdCompatibility" => {
                denied("v0.1 (Version Set-based, deprecated)")
            }
            "UpdateWorkerVersioningRules" | "GetWorkerVersioningRules" | "GetWorkerTaskReachability" => {
                denied("v0.2 (Rules-based, deprecated)")
            }
            "DescribeDeployment"
            | "ListDeployments"
            | "GetCurrentDeployment"
            | "SetCurrentDeployment"
            | "GetDeploymentReachability" => Some(ServiceError::Withdrawn(
                "Deployments are deprecated and no longer supported, use Worker Deployments instead".to_owned(),
            )),
            _ => None,
        }
    }
}
