//! Checks of a versioning override, with the real server's texts. Older forms of an override become the newer one.

#![allow(deprecated, reason = "clients may still send the older fields")]

use temporalio_protos::temporal::api::{
    enums::v1::VersioningBehavior as Behavior,
    workflow::v1::{
        VersioningOverride,
        versioning_override::{Override, PinnedOverride, PinnedOverrideBehavior},
    },
};

use crate::{
    deployments::{Version, names},
    service_error::ServiceError,
};

/// The override in its newer form.
pub(crate) fn checked(given: VersioningOverride, id_length: usize) -> Result<VersioningOverride, ServiceError> {
    let refused = |text: &str| Err(ServiceError::InvalidArgument(text.to_owned()));
    let named = match &given.r#override {
        Some(Override::AutoUpgrade(false)) => return refused("auto-upgrade override must be true"),
        Some(Override::AutoUpgrade(true)) => None,
        Some(Override::Pinned(pinned)) => {
            let Some(version) = &pinned.version else {
                return refused("must provide version if override is pinned.");
            };
            if pinned.behavior() == PinnedOverrideBehavior::Unspecified {
                return refused("must specify pinned override behavior if override is pinned.");
            }
            Some(version)
        }
        Some(Override::OneTime(once)) => match &once.target_deployment_version {
            Some(version) => Some(version),
            None => return refused("must provide target deployment version if override is one-time."),
        },
        None => return older(&given),
    };
    if let Some(version) = named {
        names::check_version(&Version::of_api(version), id_length)?;
    }
    Ok(VersioningOverride { r#override: given.r#override, ..VersioningOverride::default() })
}

fn older(given: &VersioningOverride) -> Result<VersioningOverride, ServiceError> {
    let refused = |text: String| Err(ServiceError::InvalidArgument(text));
    let is_pinned = |version: &Version| {
        Override::Pinned(PinnedOverride {
            behavior: PinnedOverrideBehavior::Pinned as i32,
            version: Some(version.to_api()),
        })
    };
    let newer = match (given.behavior(), &given.deployment, given.pinned_version.as_str()) {
        (Behavior::Pinned, Some(deployment), _) => {
            if deployment.series_name.is_empty() {
                return refused("deployment name cannot be empty".to_owned());
            }
            if deployment.series_name.contains(['.', ':']) {
                return refused("deployment name cannot contain '.' or ':'".to_owned());
            }
            if deployment.build_id.is_empty() {
                return refused("deployment build ID cannot be empty".to_owned());
            }
            is_pinned(&Version::of_series(deployment))
        }
        (Behavior::Pinned, None, "") => {
            let text = "must provide deployment (deprecated) or pinned version if behavior is 'PINNED'";
            return refused(text.to_owned());
        }
        (Behavior::Pinned, None, text) => match Version::parse(text) {
            Ok(Some(version)) => is_pinned(&version),
            _ => {
                return refused(format!(
                    "invalid version string {text:?}, expected format is \"<deployment_name>.<build_id>\""
                ));
            }
        },
        (Behavior::AutoUpgrade, Some(_), _) => {
            return refused("only provide deployment if behavior is 'PINNED'".to_owned());
        }
        (Behavior::AutoUpgrade, None, "") => Override::AutoUpgrade(true),
        (Behavior::AutoUpgrade, None, _) => {
            return refused("only provide pinned version if behavior is 'PINNED'".to_owned());
        }
        (Behavior::Unspecified, ..) => return refused("override behavior is required".to_owned()),
    };
    Ok(VersioningOverride { r#override: Some(newer), ..VersioningOverride::default() })
}
