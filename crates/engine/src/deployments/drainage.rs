//! Drainage: a version that accepts no new runs has drained when no open run is pinned to it.
//!
//! There is no timer: the state is brought up to date whenever it is read. As on the real server, a version is first
//! checked some time after it was replaced, and then again at intervals.

use temporalio_protos::temporal::api::enums::v1::{VersionDrainageStatus, WorkerDeploymentVersionStatus as Status};

use super::{Version, state::Deployment};
use crate::time::{Nanos, SECOND};

/// How long a version is draining before it is checked for the first time, and from one check to the next.
const INTERVAL: Nanos = 180 * SECOND;

/// What still uses a version.
pub(crate) struct Drainage<'a> {
    pub(crate) interval: Nanos,
    /// How many open runs are pinned to it.
    pub(crate) pinned_runs: &'a dyn Fn(&Version) -> i64,
    /// Whether workers poll for it.
    pub(crate) has_pollers: &'a dyn Fn(&Version) -> bool,
}

impl<'a> Drainage<'a> {
    pub(crate) fn new(pinned_runs: &'a dyn Fn(&Version) -> i64, has_pollers: &'a dyn Fn(&Version) -> bool) -> Self {
        Self { interval: INTERVAL, pinned_runs, has_pollers }
    }
}

impl Deployment {
    /// Checks the versions whose check is due. Returns whether any changed.
    pub(crate) fn check_drainage(&mut self, drainage: &Drainage<'_>, now: Nanos) -> bool {
        let mut changed = false;
        let name = self.name.clone();
        for (build_id, version) in &mut self.versions {
            let Some(state) = version.drainage.as_mut() else { continue };
            if state.status() != VersionDrainageStatus::Draining
                || now < state.checked.saturating_add(drainage.interval)
            {
                continue;
            }
            changed = true;
            state.checked = now;
            if (drainage.pinned_runs)(&Version::new(&name, build_id)) == 0 {
                state.set_status(VersionDrainageStatus::Drained);
                state.changed = now;
                version.set_status(Status::Drained);
            }
        }
        changed
    }
}
