//! What workers say about their builds.

use temporalio_protos::temporal::api::{
    common::v1::{MeteringMetadata, WorkerVersionStamp},
    deployment::v1::WorkerDeploymentOptions,
    enums::v1::WorkerVersioningMode,
    sdk::v1::WorkflowTaskCompletedMetadata,
};

use crate::diff::script::Build;

impl Build {
    pub(super) fn checksum(self) -> String {
        match self {
            Self::Checksum(build) => format!("checksum-{build}"),
            _ => String::new(),
        }
    }

    pub(super) fn stamp(self) -> Option<WorkerVersionStamp> {
        match self {
            Self::Stamp(build) => {
                Some(WorkerVersionStamp { build_id: format!("build-{build}"), use_versioning: false })
            }
            _ => None,
        }
    }

    pub(super) fn deployment(self) -> Option<WorkerDeploymentOptions> {
        match self {
            Self::Deployment(build) => Some(WorkerDeploymentOptions {
                deployment_name: "deployment".to_owned(),
                build_id: format!("build-{build}"),
                worker_versioning_mode: WorkerVersioningMode::Unversioned as i32,
            }),
            _ => None,
        }
    }

    pub(super) fn sdk(self) -> Option<WorkflowTaskCompletedMetadata> {
        matches!(self, Self::Checksum(_)).then(|| WorkflowTaskCompletedMetadata {
            core_used_flags: vec![1, 2],
            lang_used_flags: vec![3],
            sdk_name: "sdk".to_owned(),
            sdk_version: "1.2.3".to_owned(),
        })
    }

    pub(super) fn metering(self) -> Option<MeteringMetadata> {
        matches!(self, Self::Checksum(_)).then_some(MeteringMetadata { nonfirst_local_activity_execution_attempts: 1 })
    }
}
