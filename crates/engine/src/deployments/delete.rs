//! Deleting a version.

use super::{Version, drainage::Drainage, state::Deployment};
use crate::{service_error::ServiceError, time::Nanos};

impl Deployment {
    /// Deletes a version that is neither current nor ramping, has drained and has no pollers. A version that does not
    /// exist needs no deletion.
    pub(crate) fn delete_version(
        &mut self,
        build_id: &str,
        identity: &str,
        skip_drainage: bool,
        has_pollers: &dyn Fn(&Version) -> bool,
    ) -> Result<(), ServiceError> {
        if !self.versions.contains_key(build_id) {
            return Ok(());
        }
        self.check_inactive(build_id)?;
        self.check_manager(identity)?;
        self.check_deletable(build_id, skip_drainage, has_pollers)?;
        self.versions.remove(build_id);
        identity.clone_into(&mut self.last_modifier);
        Ok(())
    }

    fn check_inactive(&self, build_id: &str) -> Result<(), ServiceError> {
        let ramping = self.ramp.as_ref().is_some_and(|ramp| ramp.build_id == build_id);
        if self.current == build_id || ramping {
            return Err(self.undeletable(build_id, "it is current or ramping"));
        }
        Ok(())
    }

    fn check_deletable(
        &self,
        build_id: &str,
        skip_drainage: bool,
        has_pollers: &dyn Fn(&Version) -> bool,
    ) -> Result<(), ServiceError> {
        let draining = self.versions.get(build_id).is_some_and(super::state::VersionState::is_draining);
        if draining && !skip_drainage {
            return Err(self.undeletable(build_id, "it is draining"));
        }
        if has_pollers(&Version::new(&self.name, build_id)) {
            return Err(self.undeletable(build_id, "it has active pollers"));
        }
        Ok(())
    }

    fn undeletable(&self, build_id: &str, why: &str) -> ServiceError {
        let name = &self.name;
        ServiceError::FailedPrecondition(format!("version '{name}:{build_id}' cannot be deleted since {why}"))
    }

    /// Makes room for a new version: deletes the oldest one that may be deleted.
    pub(super) fn delete_oldest(&mut self, drainage: &Drainage<'_>, now: Nanos) -> bool {
        self.check_drainage(drainage, now);
        let mut oldest: Vec<(Nanos, String)> =
            self.versions.iter().map(|(build_id, version)| (version.create_time, build_id.clone())).collect();
        oldest.sort();
        let may_go = |build_id: &str| {
            self.check_inactive(build_id).is_ok() && self.check_deletable(build_id, false, drainage.has_pollers).is_ok()
        };
        let Some((_, build_id)) = oldest.into_iter().find(|(_, build_id)| may_go(build_id)) else { return false };
        self.versions.remove(&build_id);
        true
    }
}
