//! What the next run of a chain, and a child, inherit of a run's version.

use temporalio_protos::temporal::api::{
    deployment::v1::{InheritedAutoUpgradeInfo, WorkerDeploymentVersion},
    enums::v1::{ContinueAsNewVersioningBehavior as Initial, VersioningBehavior as Behavior},
    history::v1::{DeclinedTargetVersionUpgrade, WorkflowExecutionStartedEventAttributes},
    workflow::v1::{VersioningOverride, versioning_override::Override},
};

use super::{RunState, versioning::override_target};
use crate::deployments::Version;

/// Whether a version has a task queue for workflow tasks.
pub(crate) type HasQueue<'a> = &'a dyn Fn(&str, &Version) -> bool;

#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Inherited {
    pub(crate) versioning_override: Option<VersioningOverride>,
    pub(crate) pinned: Option<WorkerDeploymentVersion>,
    pub(crate) auto_upgrade: Option<InheritedAutoUpgradeInfo>,
    pub(crate) declined: Option<DeclinedTargetVersionUpgrade>,
}

impl RunState {
    /// The next run by continue-as-new, on this task queue.
    pub(crate) fn inherited_by_next(&self, queue: &str, initial: Initial, has_queue: HasQueue<'_>) -> Inherited {
        let Some(info) = &self.versioning else { return Inherited::default() };
        let (behavior, same) = (self.behavior(), queue == self.task_queue);
        let version = self.version();
        let fitting = || version.clone().filter(|version| same || has_queue(queue, version));
        let stays = behavior == Behavior::Pinned && initial == Initial::Unspecified;
        let pinned = fitting().filter(|_| stays);
        let given = info.versioning_override.as_ref().filter(|it| is_pinned(it) && (same || pinned.is_some()));
        let upgrades =
            behavior == Behavior::AutoUpgrade || behavior == Behavior::Pinned && initial != Initial::Unspecified;
        Inherited {
            versioning_override: given.cloned(),
            auto_upgrade: self.auto_upgrade(fitting().filter(|_| upgrades && pinned.is_none()), initial),
            declined: pinned.as_ref().and_then(|_| self.declined()),
            pinned: pinned.map(|version| version.to_api()),
        }
    }

    /// A retry, which starts as this run did.
    pub(crate) fn inherited_by_retry(&self, beginning: &WorkflowExecutionStartedEventAttributes) -> Inherited {
        let Some(info) = &self.versioning else { return Inherited::default() };
        let behavior = self.behavior();
        let stays = behavior == Behavior::Pinned && beginning.inherited_pinned_version.is_some();
        let upgrades = behavior == Behavior::AutoUpgrade;
        let initial = info.continue_as_new_initial_versioning_behavior();
        Inherited {
            versioning_override: info.versioning_override.clone().filter(is_pinned),
            pinned: self.version().filter(|_| stays).map(|version| version.to_api()),
            auto_upgrade: self.auto_upgrade(self.version().filter(|_| upgrades), initial),
            declined: beginning.declined_target_version_upgrade.clone(),
        }
    }

    /// A child on this task queue of the same namespace, with the override that its parent gave it.
    pub(crate) fn inherited_by_child(
        &self,
        queue: &str,
        given: Option<VersioningOverride>,
        has_queue: HasQueue<'_>,
    ) -> Inherited {
        let Some(info) = self.versioning.as_ref().filter(|_| given.is_none()) else {
            return Inherited { versioning_override: given, ..Inherited::default() };
        };
        let (behavior, same) = (self.behavior(), queue == self.task_queue);
        let fitting = self.version().filter(|version| same || has_queue(queue, version));
        let own = info.versioning_override.as_ref().filter(|it| override_target(it).is_some());
        let pinned = fitting.clone().filter(|_| behavior == Behavior::Pinned);
        Inherited {
            versioning_override: own.filter(|_| same || pinned.is_some()).cloned(),
            auto_upgrade: self
                .auto_upgrade(fitting.filter(|_| behavior == Behavior::AutoUpgrade), Initial::Unspecified),
            pinned: pinned.map(|version| version.to_api()),
            declined: None,
        }
    }

    fn auto_upgrade(&self, version: Option<Version>, initial: Initial) -> Option<InheritedAutoUpgradeInfo> {
        let revision = self.versioning.as_ref().map_or(0, |info| info.revision_number);
        let version = version.filter(|_| revision != 0)?;
        Some(InheritedAutoUpgradeInfo {
            source_deployment_version: Some(version.to_api()),
            source_deployment_revision_number: revision,
            continue_as_new_initial_versioning_behavior: initial as i32,
        })
    }
}

fn is_pinned(given: &VersioningOverride) -> bool {
    matches!(given.r#override, Some(Override::Pinned(_))) && override_target(given).is_some()
}
