//! The search attributes of a run's version.

use temporalio_protos::temporal::api::{
    common::v1::Payload, enums::v1::VersioningBehavior as Behavior, workflow::v1::versioning_override::Override,
};

use super::{
    RunState,
    builds::{keyword, keywords},
    versioning::override_target,
};
use crate::deployments::Version;

const DEPLOYMENT: &str = "TemporalWorkerDeployment";
const VERSION: &str = "TemporalWorkerDeploymentVersion";
const BEHAVIOR: &str = "TemporalWorkflowVersioningBehavior";
const USED: &str = "TemporalUsedWorkerDeploymentVersions";
const BUILDS: &str = "BuildIds";
const PINNED: &str = "pinned:";
/// The size of an attribute's value, in bytes. Of longer lists the first items are left out.
const LARGEST: usize = 2 << 10;

impl RunState {
    /// Lists the run by its version, and by the version that has just completed a task. Returns whether anything
    /// changed.
    pub(super) fn list_version(&mut self, used: Option<&Version>) -> bool {
        let info = self.versioning.as_ref();
        let given = info.and_then(|info| info.versioning_override.as_ref());
        let target = given.and_then(override_target);
        let version = target.or_else(|| info.and_then(|info| info.deployment_version.as_ref())).map(Version::of_api);
        let behavior = match given {
            Some(_) if target.is_some() => Behavior::Pinned,
            Some(given) if matches!(given.r#override, Some(Override::AutoUpgrade(true))) => Behavior::AutoUpgrade,
            Some(_) => Behavior::Unspecified,
            None => info.map(|info| info.behavior()).unwrap_or_default(),
        };
        let deployment =
            version.as_ref().map_or_else(|| self.worker_deployment_name.clone(), |version| version.deployment.clone());
        let text = |value: String| (!value.is_empty()).then(|| keyword(&value));
        let mut changed = self.set_attribute(DEPLOYMENT, text(deployment));
        if self.versioning.is_none() && used.is_none() {
            return changed;
        }
        changed |= self.set_attribute(VERSION, version.as_ref().map(|version| keyword(&version.to_string())));
        let name = match behavior {
            Behavior::Pinned => "Pinned",
            Behavior::AutoUpgrade => "AutoUpgrade",
            Behavior::Unspecified => "",
        };
        changed |= self.set_attribute(BEHAVIOR, text(name.to_owned()));
        let mut builds = self.listed(BUILDS);
        builds.retain(|build| !build.starts_with(PINNED));
        if behavior == Behavior::Pinned
            && let Some(version) = &version
        {
            builds.insert(0, format!("{PINNED}{version}"));
        }
        changed |= self.set_list(BUILDS, builds);
        if let Some(used) = used.map(Version::to_string) {
            let mut known = self.listed(USED);
            if !known.contains(&used) {
                known.push(used);
                changed |= self.set_list(USED, known);
            }
        }
        changed
    }

    fn set_list(&mut self, name: &str, mut values: Vec<String>) -> bool {
        let fits = |value: &Payload| value.data.len() <= LARGEST;
        while !values.is_empty() {
            let value = keywords(&values);
            if fits(&value) {
                return self.set_attribute(name, Some(value));
            }
            values.remove(0);
        }
        self.set_attribute(name, None)
    }

    /// The items of a list that is stored with the run.
    fn listed(&self, name: &str) -> Vec<String> {
        let value = self.search_attributes.as_ref().and_then(|attributes| attributes.indexed_fields.get(name));
        value.and_then(|value| serde_json::from_slice(&value.data).ok()).unwrap_or_default()
    }
}
