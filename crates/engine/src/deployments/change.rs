//! Changes of the routing, the manager and the metadata, with the real server's rules and texts.

use std::collections::HashMap;

use temporalio_protos::temporal::api::{
    common::v1::Payload,
    enums::v1::{VersionDrainageStatus, WorkerDeploymentVersionStatus as Status},
};

use super::{
    Version,
    drainage::Drainage,
    state::{Deployment, DrainageState, Metadata, Ramp},
    version::UNVERSIONED,
};
use crate::{queues::Kind, service_error::ServiceError, time::Nanos};

/// Where new runs go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// No ramp.
    None,
    Unversioned,
    Build(String),
}

impl Target {
    fn build(&self) -> &str {
        match self {
            Self::Build(build_id) => build_id,
            Self::None | Self::Unversioned => "",
        }
    }

    /// The older text.
    pub(crate) fn dotted(&self, deployment: &str) -> String {
        match self {
            Self::None => String::new(),
            Self::Unversioned => UNVERSIONED.to_owned(),
            Self::Build(build_id) => format!("{deployment}.{build_id}"),
        }
    }

    pub(crate) fn version(&self, deployment: &str) -> Option<Version> {
        match self {
            Self::Build(build_id) => Some(Version::new(deployment, build_id)),
            Self::None | Self::Unversioned => None,
        }
    }
}

pub(crate) struct SetCurrent<'a> {
    pub(crate) target: Target,
    pub(crate) common: Set<'a>,
}

pub(crate) struct SetRamping<'a> {
    pub(crate) target: Target,
    pub(crate) percentage: f32,
    pub(crate) common: Set<'a>,
}

/// What both requests have.
pub(crate) struct Set<'a> {
    pub(crate) identity: &'a str,
    pub(crate) conflict_token: &'a [u8],
    pub(crate) ignore_missing_task_queues: bool,
    pub(crate) allow_no_pollers: bool,
    /// Whether tasks of a version are waiting in a task queue, or came lately.
    pub(crate) is_busy: &'a dyn Fn(&str, Kind) -> bool,
}

impl Deployment {
    fn current_target(&self) -> Target {
        if self.current.is_empty() { Target::Unversioned } else { Target::Build(self.current.clone()) }
    }

    fn ramp_target(&self) -> Target {
        match &self.ramp {
            None => Target::None,
            Some(ramp) if ramp.build_id.is_empty() => Target::Unversioned,
            Some(ramp) => Target::Build(ramp.build_id.clone()),
        }
    }

    /// Makes a version the current one. Returns the previous one.
    pub(crate) fn set_current(
        &mut self,
        set: &SetCurrent<'_>,
        drainage: &Drainage<'_>,
        now: Nanos,
    ) -> Result<Target, ServiceError> {
        let (common, previous) = (&set.common, self.current_target());
        if previous == set.target && self.last_modifier == common.identity {
            return Ok(previous);
        }
        self.check_token(common.conflict_token)?;
        self.check_known(&set.target, common.allow_no_pollers)?;
        self.check_manager(common.identity)?;
        if let Target::Build(build_id) = &set.target {
            self.add_version(build_id, Status::Inactive, drainage, now)?;
        }
        let both_versioned = previous != Target::Unversioned && set.target != Target::Unversioned;
        if !common.ignore_missing_task_queues && both_versioned && self.lacks_queues(&set.target, common.is_busy) {
            return Err(ServiceError::FailedPrecondition(format!(
                "proposed current version '{}:{}' is missing active task queues from the current version; these would \
                 become unversioned if it is set as the current version",
                self.name,
                set.target.build()
            )));
        }
        if previous != set.target {
            if self.ramp_target() == set.target {
                self.ramp = None;
                self.ramping_changed = now;
                self.percentage_changed = now;
            }
            set.target.build().clone_into(&mut self.current);
            self.current_changed = now;
            self.revision += 1;
            self.activate(&set.target, now, true);
            self.deactivate(&previous, now);
        }
        self.renew_token(now);
        common.identity.clone_into(&mut self.last_modifier);
        Ok(previous)
    }

    /// Sets, changes or removes the ramp. Returns the previous one.
    pub(crate) fn set_ramping(
        &mut self,
        set: &SetRamping<'_>,
        drainage: &Drainage<'_>,
        now: Nanos,
    ) -> Result<(Target, f32), ServiceError> {
        let common = &set.common;
        let previous = (self.ramp_target(), self.ramp.as_ref().map_or(0.0, |ramp| ramp.percentage));
        if (&previous.0, previous.1) == (&set.target, set.percentage) && self.last_modifier == common.identity {
            return Ok(previous);
        }
        self.check_token(common.conflict_token)?;
        if set.target == self.current_target() {
            let target = set.target.dotted(&self.name);
            return Err(ServiceError::FailedPrecondition(format!(
                "requested ramping version {target} is already current"
            )));
        }
        self.check_known(&set.target, common.allow_no_pollers)?;
        self.check_manager(common.identity)?;
        if let Target::Build(build_id) = &set.target {
            self.add_version(build_id, Status::Inactive, drainage, now)?;
        }
        if (&previous.0, previous.1) != (&set.target, set.percentage) {
            let is_new = previous.0 != set.target;
            let both_versioned = !self.current.is_empty() && matches!(set.target, Target::Build(_));
            if is_new
                && !common.ignore_missing_task_queues
                && both_versioned
                && self.lacks_queues(&set.target, common.is_busy)
            {
                return Err(ServiceError::FailedPrecondition(format!(
                    "proposed ramping version '{}:{}' is missing active task queues from the current version; these \
                     would become unversioned if it is set as the ramping version",
                    self.name,
                    set.target.build()
                )));
            }
            self.ramp = (set.target != Target::None)
                .then(|| Ramp { build_id: set.target.build().to_owned(), percentage: set.percentage });
            if is_new {
                self.ramping_changed = now;
            }
            self.percentage_changed = now;
            self.revision += 1;
            self.activate(&set.target, now, false);
            if is_new {
                self.deactivate(&previous.0, now);
            }
            if set.target == Target::Unversioned || previous.0 == Target::Unversioned {
                self.tell_current();
            }
        }
        self.renew_token(now);
        common.identity.clone_into(&mut self.last_modifier);
        Ok(previous)
    }

    /// The version accepts new runs from now on.
    fn activate(&mut self, target: &Target, now: Nanos, as_current: bool) {
        let ramping_since = self.ramping_changed;
        let Some(version) = self.versions.get_mut(target.build()) else { return };
        version.routing_updated = now;
        if version.first_activated == 0 {
            version.first_activated = now;
        }
        if as_current {
            version.set_status(Status::Current);
            (version.current_since, version.last_current, version.ramping_since) = (now, now, 0);
            version.drainage = Some(DrainageState { changed: now, checked: now, ..DrainageState::default() });
        } else {
            version.set_status(Status::Ramping);
            version.ramping_since = ramping_since;
            version.drainage = None;
        }
    }

    /// A ramp of unversioned workers is made known through the current version, which then loses the times at which its
    /// drainage ended.
    fn tell_current(&mut self) {
        if let Some(current) = self.versions.get_mut(&self.current).filter(|current| !current.is_draining()) {
            current.drainage = None;
        }
    }

    /// The version accepts no new runs any more.
    fn deactivate(&mut self, target: &Target, now: Nanos) {
        let is_active = self.current == target.build() || self.ramp_target() == *target;
        let Some(version) = self.versions.get_mut(target.build()).filter(|_| !is_active) else { return };
        (version.current_since, version.ramping_since) = (0, 0);
        version.routing_updated = now;
        version.last_deactivated = now;
        version.drain(now);
    }

    /// Whether the version lacks a task queue of the current one that is in use.
    fn lacks_queues(&self, target: &Target, is_busy: &dyn Fn(&str, Kind) -> bool) -> bool {
        let Some(current) = self.versions.get(&self.current) else { return false };
        let proposed = self.versions.get(target.build());
        let has = |name: &str, kind| proposed.is_some_and(|version| version.has_queue(name, kind));
        current.queues().any(|(name, kind)| !has(&name, kind) && is_busy(&name, kind))
    }

    fn check_token(&self, token: &[u8]) -> Result<(), ServiceError> {
        match token {
            token if token.is_empty() || token == self.conflict_token => Ok(()),
            _ => Err(ServiceError::FailedPrecondition("conflict token mismatch".to_owned())),
        }
    }

    fn check_known(&self, target: &Target, allow_no_pollers: bool) -> Result<(), ServiceError> {
        match target {
            Target::Build(build_id) if !allow_no_pollers && !self.versions.contains_key(build_id) => {
                let name = &self.name;
                Err(ServiceError::NotFound(format!("build ID '{build_id}' not found in Worker Deployment '{name}'")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_manager(&self, identity: &str) -> Result<(), ServiceError> {
        if self.manager.is_empty() || self.manager == identity {
            return Ok(());
        }
        Err(ServiceError::FailedPrecondition(format!(
            "ManagerIdentity '{}' is set and does not match user identity '{identity}'; to proceed, set your own \
             identity as the ManagerIdentity, remove the ManagerIdentity, or wait for the other client to do so",
            self.manager
        )))
    }

    /// Sets who may change the deployment. Returns the previous manager.
    pub(crate) fn set_manager(
        &mut self,
        manager: &str,
        identity: &str,
        token: &[u8],
        now: Nanos,
    ) -> Result<String, ServiceError> {
        if self.manager == manager && self.last_modifier == identity {
            return Ok(manager.to_owned());
        }
        self.check_token(token)?;
        identity.clone_into(&mut self.last_modifier);
        self.renew_token(now);
        Ok(std::mem::replace(&mut self.manager, manager.to_owned()))
    }

    /// Changes the metadata of a version. `None` if there is no such version.
    pub(crate) fn change_metadata(
        &mut self,
        build_id: &str,
        upserted: HashMap<String, Payload>,
        removed: &[String],
        identity: &str,
    ) -> Option<Option<Metadata>> {
        let version = self.versions.get_mut(build_id)?;
        if !upserted.is_empty() {
            version.metadata.get_or_insert_default().entries.extend(upserted);
        }
        if let Some(metadata) = &mut version.metadata {
            metadata.entries.retain(|key, _| !removed.contains(key));
        }
        identity.clone_into(&mut version.last_modifier);
        Some(version.metadata.clone())
    }

    /// Runs are pinned to a version that had drained or was never active: it drains again. Returns whether it changed.
    pub(crate) fn reactivate(&mut self, build_id: &str, now: Nanos) -> bool {
        let Some(version) = self.versions.get_mut(build_id) else { return false };
        if !matches!(version.status(), Status::Drained | Status::Inactive) {
            return false;
        }
        version.drain(now);
        true
    }
}

impl super::state::VersionState {
    fn drain(&mut self, now: Nanos) {
        self.set_status(Status::Draining);
        let status = VersionDrainageStatus::Draining as i32;
        self.drainage = Some(DrainageState { status, changed: now, checked: now });
    }
}
