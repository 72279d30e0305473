//! Which version runs a task.
//!
//! Tasks of pinned runs go to their version. All others go to where the routing of the task queue sends the workflow id:
//! the current or the ramping version, or workers without a version.

use std::collections::BTreeSet;

use temporalio_protos::temporal::api::enums::v1::VersioningBehavior as Behavior;

use super::{Version, farm::fingerprint, state::Deployment};
use crate::{queues::Kind, time::Nanos};

/// What a run says of where its tasks go; a run without a versioning behavior has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    pub(crate) behavior: Behavior,
    pub(crate) version: Option<Version>,
    /// The revision of the routing that brought the run to its version.
    pub(crate) revision: i64,
    /// The first task of a run that was continued so goes to the ramping version.
    pub(crate) use_ramping: bool,
}

/// The routing of one task queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueueRouting {
    pub(crate) current: Option<Version>,
    current_revision: i64,
    /// There is a ramp; without a version, to unversioned workers.
    pub(crate) is_ramping: bool,
    pub(crate) ramping: Option<Version>,
    pub(crate) percentage: f32,
    ramping_revision: i64,
    pub(crate) updated: Nanos,
    /// The versions whose workers have polled the task queue.
    versions: BTreeSet<Version>,
}

/// Where a task goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// To the sticky worker.
    Sticky,
    /// To workers of this version, or to those without one.
    Workers(Option<Version>),
    /// The sticky worker is not of the version that the task goes to now.
    NotSticky,
}

/// The decision about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Routing {
    pub(crate) place: Place,
    /// The revision of the routing that the decision is based on.
    pub(crate) revision: i64,
    /// The version that a run with this id would start on, and the revision that says so.
    pub(crate) target: Option<Version>,
    pub(crate) target_revision: i64,
}

impl QueueRouting {
    /// The routing of a task queue, from all deployments of its namespace. `None` if no version has it.
    pub(crate) fn of<'d>(deployments: impl Iterator<Item = &'d Deployment>, name: &str, kind: Kind) -> Option<Self> {
        let mut routing = Self::default();
        let [mut versioned_current, mut plain_current, mut versioned_ramp, mut plain_ramp] = [(0, None); 4];
        for deployment in deployments {
            let has = |build_id: &str| deployment.versions.get(build_id).is_some_and(|it| it.has_queue(name, kind));
            let with_queue = deployment.versions.keys().filter(|build_id| has(build_id));
            let before = routing.versions.len();
            routing.versions.extend(with_queue.map(|build_id| Version::new(&deployment.name, build_id)));
            if routing.versions.len() == before {
                continue;
            }
            let latest = |known: &mut (Nanos, Option<&'d Deployment>), changed: Nanos| {
                if changed > known.0 {
                    *known = (changed, Some(deployment));
                }
            };
            match deployment.current.as_str() {
                "" => latest(&mut plain_current, deployment.current_changed),
                build_id if has(build_id) => latest(&mut versioned_current, deployment.current_changed),
                _ => {}
            }
            match deployment.ramp.as_ref().map_or("", |ramp| ramp.build_id.as_str()) {
                "" => latest(&mut plain_ramp, deployment.percentage_changed),
                build_id if has(build_id) => latest(&mut versioned_ramp, deployment.percentage_changed),
                _ => {}
            }
        }
        if routing.versions.is_empty() {
            return None;
        }
        // A version always comes before a newer routing to unversioned workers.
        let first =
            |versioned: (Nanos, Option<&'d Deployment>), plain| if versioned.1.is_some() { versioned } else { plain };
        if let (changed, Some(from)) = first(versioned_current, plain_current) {
            routing.current = from.version(&from.current);
            routing.current_revision = from.revision;
            routing.updated = changed;
        }
        if let (changed, Some(from)) = first(versioned_ramp, plain_ramp)
            && let Some(ramp) = &from.ramp
        {
            routing.ramping = from.version(&ramp.build_id);
            routing.is_ramping = routing.ramping.is_some() || ramp.percentage > 0.0;
            routing.percentage = ramp.percentage;
            routing.ramping_revision = from.revision;
            routing.updated = routing.updated.max(changed);
        }
        Some(routing)
    }

    pub(crate) fn has(&self, version: &Version) -> bool {
        self.versions.contains(version)
    }

    /// The version that a workflow id goes to, and the revision that says so.
    pub(crate) fn target(&self, workflow_id: &str, use_ramping: bool) -> (Option<Version>, i64) {
        let ramped = use_ramping && self.ramping.is_some() || self.percentage > 0.0 && self.is_ramped(workflow_id);
        if ramped {
            (self.ramping.clone(), self.ramping_revision)
        } else {
            (self.current.clone(), self.current_revision)
        }
    }

    fn is_ramped(&self, workflow_id: &str) -> bool {
        let share = 100.0 * f64::from(fingerprint(workflow_id.as_bytes())) / (f64::from(u32::MAX) + 1.0);
        self.percentage >= 100.0 || share <= f64::from(self.percentage)
    }
}

/// Decides where a task goes. `routing` is that of its task queue, if any version has it; the tasks of a sticky queue have
/// the one of the run's task queue.
pub(crate) fn place(
    routing: Option<&QueueRouting>,
    kind: Kind,
    sticky: bool,
    workflow_id: &str,
    directive: Option<&Directive>,
) -> Routing {
    let use_ramping = directive.is_some_and(|directive| directive.use_ramping);
    let (target, target_revision) = routing.map_or((None, 0), |routing| routing.target(workflow_id, use_ramping));
    let at = |place, revision| Routing { place, revision, target: target.clone(), target_revision };
    if let Some(directive) = directive.filter(|directive| directive.behavior == Behavior::Pinned)
        && let Some(version) = &directive.version
    {
        if sticky {
            return at(Place::Sticky, target_revision);
        }
        // An activity on a task queue that the version does not have is independent of it.
        if kind == Kind::Workflow || routing.is_some_and(|routing| routing.has(version)) {
            return at(Place::Workers(Some(version.clone())), target_revision);
        }
    }
    let Some(target) = &target else {
        return at(if sticky { Place::Sticky } else { Place::Workers(None) }, 0);
    };
    let own = directive.and_then(|directive| directive.version.as_ref());
    if sticky {
        return at(if own == Some(target) { Place::Sticky } else { Place::NotSticky }, 0);
    }
    let revision = directive.map_or(0, |directive| directive.revision);
    match own {
        // The run has seen a newer routing of the deployment than this task queue.
        Some(own) if own.deployment == target.deployment && target_revision < revision => {
            at(Place::Workers(Some(own.clone())), revision)
        }
        _ => at(Place::Workers(Some(target.clone())), target_revision),
    }
}
