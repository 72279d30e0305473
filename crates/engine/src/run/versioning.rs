//! The version of the workers that a run is on, and how it moves to another one.
//!
//! A run is *pinned* to its version or *upgrades automatically*: its next workflow task goes where the routing sends it.
//! When workers of another version start a workflow task of such a run, a transition begins; it ends when they complete
//! it. An override replaces both the behavior and the version.

use temporalio_protos::temporal::api::{
    deployment::v1::WorkerDeploymentVersion,
    enums::v1::{ContinueAsNewVersioningBehavior, VersioningBehavior as Behavior},
    history::v1::{
        DeclinedTargetVersionUpgrade, HistoryEvent, WorkflowExecutionOptionsUpdatedEventAttributes,
        WorkflowExecutionStartedEventAttributes, WorkflowTaskCompletedEventAttributes, history_event::Attributes,
    },
    workflow::v1::{
        DeploymentVersionTransition, VersioningOverride, WorkflowExecutionOptions, WorkflowExecutionVersioningInfo,
        versioning_override::{Override, PinnedOverrideBehavior},
    },
};

use super::{Env, Run, RunState, StartedTask, Worker, events::new_event};
use crate::deployments::{Directive, Version};

/// What a worker's poll says of its version, and what the task queue's routing says of the task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Polled {
    pub(crate) version: Option<Version>,
    /// The revision of the routing by which the worker gets the task.
    pub(crate) revision: i64,
    /// Where a run with this workflow id would start, and the revision that says so.
    pub(crate) target: Option<Version>,
    pub(crate) target_revision: i64,
}

impl Polled {
    /// A worker that asks for the next task of a run with the completion of the last one. No routing was read.
    pub(super) fn inline() -> Self {
        Self { target_revision: -1, ..Self::default() }
    }
}

/// A new target version that the worker of a pinned run was told of.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NotifiedTarget {
    #[prost(message, optional, tag = "1")]
    pub(crate) version: Option<WorkerDeploymentVersion>,
    #[prost(int64, tag = "2")]
    pub(crate) revision: i64,
}

impl RunState {
    fn overridden(&self) -> Option<&VersioningOverride> {
        self.versioning.as_ref()?.versioning_override.as_ref()
    }

    pub(crate) fn in_transition(&self) -> bool {
        self.versioning.as_ref().is_some_and(|info| info.version_transition.is_some())
    }

    /// The behavior, with a transition and an override applied.
    pub(crate) fn behavior(&self) -> Behavior {
        match &self.versioning {
            None => Behavior::Unspecified,
            Some(info) if info.version_transition.is_some() => Behavior::AutoUpgrade,
            Some(info) => info.versioning_override.as_ref().map_or_else(|| info.behavior(), overriding_behavior),
        }
    }

    /// The version, with a transition and an override applied.
    pub(crate) fn version(&self) -> Option<Version> {
        let info = self.versioning.as_ref()?;
        let version = if let Some(transition) = &info.version_transition {
            transition.deployment_version.as_ref()
        } else if let Some(target) = info.versioning_override.as_ref().and_then(override_target) {
            Some(target)
        } else if self.behavior() != Behavior::Unspecified {
            info.deployment_version.as_ref()
        } else {
            None
        };
        version.map(Version::of_api)
    }

    pub(crate) fn directive(&self) -> Option<Directive> {
        self.versioning.as_ref()?;
        let behavior = self.behavior();
        (behavior != Behavior::Unspecified).then(|| {
            let info = self.versioning.clone().unwrap_or_default();
            let first = self.previous_started_id == 0;
            Directive {
                behavior,
                version: self.version(),
                revision: info.revision_number,
                use_ramping: first
                    && info.continue_as_new_initial_versioning_behavior()
                        == ContinueAsNewVersioningBehavior::UseRampingVersion,
            }
        })
    }

    /// What a run starts with: an override, or what it inherits.
    pub(super) fn inherit(&mut self, started: &WorkflowExecutionStartedEventAttributes) {
        let pinned = started.inherited_pinned_version.as_ref();
        let upgrading = started.inherited_auto_upgrade_info.as_ref();
        if started.versioning_override.is_none() && pinned.is_none() && upgrading.is_none() {
            return;
        }
        let mut info = WorkflowExecutionVersioningInfo {
            versioning_override: started.versioning_override.clone(),
            ..WorkflowExecutionVersioningInfo::default()
        };
        if let Some(pinned) = pinned {
            info.deployment_version = Some(pinned.clone());
            info.set_behavior(Behavior::Pinned);
            if !started.continued_execution_run_id.is_empty() {
                self.declined_target.clone_from(&started.declined_target_version_upgrade);
            }
        }
        if let Some(upgrading) = upgrading {
            info.revision_number = upgrading.source_deployment_revision_number;
            info.deployment_version.clone_from(&upgrading.source_deployment_version);
            info.set_behavior(Behavior::AutoUpgrade);
            info.continue_as_new_initial_versioning_behavior = upgrading.continue_as_new_initial_versioning_behavior;
        }
        self.versioning = Some(info);
        self.worker_deployment_name = self.version().map(|version| version.deployment).unwrap_or_default();
        if self.behavior() != Behavior::Unspecified {
            self.list_version(None);
        }
    }

    /// A worker completed a workflow task: the run is on its version now. Returns whether waiting activities must be
    /// dispatched again.
    pub(super) fn follow_version(&mut self, completed: &WorkflowTaskCompletedEventAttributes) -> bool {
        let behavior = completed.versioning_behavior();
        if self.versioning.is_none() && behavior == Behavior::Unspecified {
            return false;
        }
        let version = completed.deployment_version.clone();
        let ends = |info: &WorkflowExecutionVersioningInfo| {
            info.version_transition.as_ref().is_some_and(|transition| transition.deployment_version == version)
        };
        let arrived = self.versioning.as_ref().is_some_and(ends);
        let info = self.versioning.get_or_insert_default();
        if arrived {
            info.version_transition = None;
        }
        let before = (self.behavior(), self.version());
        let info = self.versioning.get_or_insert_default();
        info.set_behavior(behavior);
        info.deployment_version = if behavior == Behavior::Unspecified { None } else { version.clone() };
        let once = info.versioning_override.as_ref().and_then(|it| match &it.r#override {
            Some(Override::OneTime(once)) => once.target_deployment_version.as_ref(),
            _ => None,
        });
        if once.is_some() && once == version.as_ref() {
            info.versioning_override = None;
        }
        arrived || before != (self.behavior(), self.version())
    }

    /// Sets or removes the override. Returns whether the run's version or behavior changed.
    pub(super) fn override_version(&mut self, given: Option<&VersioningOverride>) -> bool {
        let before = (self.behavior(), self.version());
        match given {
            Some(given) => {
                self.versioning.get_or_insert_default().versioning_override = Some(given.clone());
                if let Some(target) = override_target(given) {
                    self.worker_deployment_name.clone_from(&target.deployment_name);
                }
            }
            None => {
                let version = self.versioning.as_mut().and_then(|info| {
                    info.versioning_override = None;
                    info.deployment_version.as_ref()
                });
                self.worker_deployment_name = version.map(|it| it.deployment_name.clone()).unwrap_or_default();
            }
        }
        let changed = before != (self.behavior(), self.version());
        if changed {
            if let Some(info) = &mut self.versioning {
                info.version_transition = None;
            }
            self.list_version(None);
        }
        changed
    }

    /// What an options event changes.
    pub(super) fn follow_options(&mut self, updated: &WorkflowExecutionOptionsUpdatedEventAttributes) -> bool {
        let moved = match &updated.versioning_override {
            _ if updated.unset_versioning_override => self.override_version(None),
            Some(given) => self.override_version(Some(given)),
            None => false,
        };
        if updated.priority.is_some() {
            self.priority.clone_from(&updated.priority);
        }
        moved
    }

    /// The options that a client may change.
    pub(crate) fn options(&self) -> WorkflowExecutionOptions {
        WorkflowExecutionOptions {
            versioning_override: self.overridden().cloned(),
            priority: self.priority.clone(),
            ..WorkflowExecutionOptions::default()
        }
    }

    /// What a worker of a pinned run is told: the run would start on another version now.
    pub(super) fn has_new_target(&self) -> bool {
        self.notified_target.is_some() && self.behavior() == Behavior::Pinned
    }

    /// Compares the run's version with the one that it would start on.
    pub(super) fn note_target(&mut self, polled: &Polled) {
        let behavior = self.behavior();
        if behavior == Behavior::Unspecified {
            return;
        }
        if self.overridden().is_some() {
            self.declined_target = None;
            self.notified_target = None;
            return;
        }
        if behavior == Behavior::AutoUpgrade {
            return;
        }
        let notified = self.notified_target.as_ref().map_or(0, |it| it.revision);
        let declined = self.declined_target.as_ref().map(|it| it.revision_number);
        let newest = notified.max(declined.unwrap_or_default());
        if self.version() == polled.target && polled.target_revision >= newest {
            self.declined_target = None;
            self.notified_target = None;
        } else if declined.is_none_or(|declined| polled.target_revision > declined) && polled.target_revision >= newest
        {
            let version = polled.target.as_ref().map(Version::to_api);
            self.notified_target = Some(NotifiedTarget { version, revision: polled.target_revision });
            self.declined_target = None;
        }
    }

    /// What the next run of the chain is told about the target version that this one did not move to.
    pub(super) fn declined(&self) -> Option<DeclinedTargetVersionUpgrade> {
        match &self.notified_target {
            Some(notified) => Some(DeclinedTargetVersionUpgrade {
                deployment_version: notified.version.clone(),
                revision_number: notified.revision,
            }),
            None => self.declined_target.clone(),
        }
    }

    /// The run's versioning as clients see it: with the older fields.
    #[allow(deprecated, reason = "clients still read the older fields")]
    pub(crate) fn described_versioning(&self) -> Option<WorkflowExecutionVersioningInfo> {
        let mut info = self.versioning.clone()?;
        let dotted = |version: &WorkerDeploymentVersion| Version::of_api(version).dotted();
        info.version = info.deployment_version.as_ref().map(dotted).unwrap_or_default();
        if let Some(transition) = &mut info.version_transition {
            let to = transition.deployment_version.as_ref().map(Version::of_api);
            transition.version = crate::deployments::dotted(to.as_ref());
        }
        if let Some(given) = &mut info.versioning_override {
            match &given.r#override {
                Some(Override::AutoUpgrade(true)) => given.behavior = Behavior::AutoUpgrade as i32,
                Some(Override::Pinned(pinned)) => {
                    given.behavior = Behavior::Pinned as i32;
                    given.pinned_version = pinned.version.as_ref().map(dotted).unwrap_or_default();
                }
                _ => {}
            }
        }
        Some(info)
    }
}

impl Run {
    /// Starts the task for a worker, and a transition if the worker is of another version.
    pub(crate) fn start_task_at(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        worker: Worker<'_>,
        request_id: &str,
        polled: &Polled,
    ) -> Option<StartedTask> {
        let waiting = |task: &super::state::WorkflowTask| task.started_id == 0 && task.scheduled_id == scheduled_id;
        let starts = self.state.is_running() && self.state.task.as_ref().is_some_and(waiting);
        if starts {
            self.state.note_target(polled);
        }
        let started = self.start_task(env, scheduled_id, worker, request_id)?;
        if starts && !started.task.speculative && self.state.version() != polled.version {
            self.begin_transition(polled.version.as_ref(), polled.revision);
        }
        Some(started)
    }

    /// The run moves to another version with its next completed workflow task.
    pub(crate) fn begin_transition(&mut self, version: Option<&Version>, revision: i64) {
        let info = self.state.versioning.get_or_insert_default();
        info.revision_number = revision;
        info.version_transition = Some(DeploymentVersionTransition {
            deployment_version: version.map(Version::to_api),
            ..DeploymentVersionTransition::default()
        });
        self.memory.sticky = None;
        self.redispatch_task();
        self.touch();
    }

    /// An activity was taken by workers that the run's workflow tasks go to, too, so the run moves there first.
    pub(crate) fn begin_transition_for_activity(&mut self, env: &Env<'_>, version: Option<&Version>, revision: i64) {
        self.begin_transition(version, revision);
        self.ensure_task(env);
    }

    fn redispatch_task(&mut self) {
        let waiting = self.waiting_task();
        self.changes.dispatches.extend(waiting);
    }

    /// Waiting activities go to another version now.
    pub(super) fn redispatch_activities(&mut self) {
        let waiting = self.waiting_activities();
        self.changes.dispatches.extend(waiting);
    }

    /// Changes the options, if they differ from what the run has.
    pub(crate) fn update_options(&mut self, env: &Env<'_>, options: &WorkflowExecutionOptions, identity: &str) {
        if *options == self.state.options() {
            return;
        }
        self.apply_options(
            env,
            WorkflowExecutionOptionsUpdatedEventAttributes {
                versioning_override: options.versioning_override.clone(),
                unset_versioning_override: options.versioning_override.is_none(),
                priority: options.priority.clone(),
                identity: identity.to_owned(),
                ..WorkflowExecutionOptionsUpdatedEventAttributes::default()
            },
        );
    }

    pub(super) fn apply_options(&mut self, env: &Env<'_>, updated: WorkflowExecutionOptionsUpdatedEventAttributes) {
        let moved = self.state.follow_options(&updated);
        let attributes = Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(updated);
        let event = HistoryEvent { worker_may_ignore: true, ..new_event(env.now, attributes) };
        self.state.buffered.push(event);
        self.touch();
        if moved {
            self.changes.listing = true;
            self.memory.sticky = None;
            self.redispatch_task();
        }
        self.redispatch_activities();
    }
}

fn overriding_behavior(given: &VersioningOverride) -> Behavior {
    match &given.r#override {
        Some(Override::AutoUpgrade(true)) => Behavior::AutoUpgrade,
        // A one-time override routes like a pinned one, until a task is completed on its target.
        Some(Override::Pinned(_) | Override::OneTime(_)) => Behavior::Pinned,
        _ => Behavior::Unspecified,
    }
}

/// The version that an override names.
pub(crate) fn override_target(given: &VersioningOverride) -> Option<&WorkerDeploymentVersion> {
    match given.r#override.as_ref()? {
        Override::Pinned(pinned) if pinned.behavior() == PinnedOverrideBehavior::Pinned => pinned.version.as_ref(),
        Override::OneTime(once) => once.target_deployment_version.as_ref(),
        _ => None,
    }
}
