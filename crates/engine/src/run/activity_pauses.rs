//! Pausing, unpausing and resetting pending activities.
//!
//! A paused activity starts no attempt and has no timeouts. An attempt that a worker already has goes on, and its
//! failure is retried when the activity is unpaused. None of this is in history; lists show it as the search attribute
//! `TemporalPauseInfo`.

use super::{Dispatch, Env, Run, builds::keywords, state::Pause};
use crate::{run::state::Activity, service_error::ServiceError, time::Nanos};

const ATTRIBUTE: &str = "TemporalPauseInfo";

/// Which pending activities a request means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selected {
    Id(String),
    Type(String),
    All,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unpause {
    pub(crate) reset_attempts: bool,
    pub(crate) reset_heartbeat: bool,
    /// The attempt is scheduled for a random time within this span.
    pub(crate) jitter: Nanos,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reset {
    pub(crate) reset_heartbeat: bool,
    pub(crate) keep_paused: bool,
    pub(crate) restore_original_options: bool,
    pub(crate) jitter: Nanos,
}

impl Run {
    /// The scheduled events of the activities that a request means; there is at least one.
    pub(crate) fn selected_activities(&self, selected: &Selected) -> Result<Vec<i64>, ServiceError> {
        let matches = |activity: &Activity| match selected {
            Selected::Id(id) => activity.id == *id,
            Selected::Type(kind) => activity.kind == *kind,
            Selected::All => true,
        };
        let pending = self.state.activities.iter();
        let found: Vec<i64> = pending.filter(|(_, activity)| matches(activity)).map(|(id, _)| *id).collect();
        if found.is_empty() { Err(no_such_activity()) } else { Ok(found) }
    }

    /// Pauses activities. A repeated request changes nothing; another one is refused.
    pub(crate) fn pause_activities(&mut self, selected: &Selected, pause: &Pause) -> Result<(), ServiceError> {
        self.must_run()?;
        let ids = self.selected_activities(selected)?;
        let refused = ids
            .iter()
            .filter_map(|id| self.state.activities.get(id))
            .any(|activity| activity.pause.as_ref().is_some_and(|earlier| earlier.request_id != pause.request_id));
        if refused {
            return Err(ServiceError::FailedPrecondition("activity is already paused".to_owned()));
        }
        for id in ids {
            let Some(activity) = self.state.activities.get_mut(&id) else { continue };
            if activity.pause.is_some() {
                continue;
            }
            if activity.is_scheduled() {
                activity.stamp += 1;
            }
            activity.pause = Some(pause.clone());
            self.forget_dispatch(id);
        }
        self.note_pauses();
        self.touch();
        Ok(())
    }

    /// Unpauses those of the activities that are paused.
    pub(crate) fn unpause_activities(
        &mut self,
        env: &Env<'_>,
        selected: &Selected,
        unpause: &Unpause,
    ) -> Result<(), ServiceError> {
        self.must_run()?;
        for id in self.selected_activities(selected)? {
            let Some(activity) = self.state.activities.get_mut(&id) else { continue };
            if activity.pause.take().is_none() {
                continue;
            }
            activity.stamp += 1;
            if unpause.reset_attempts {
                activity.attempt = 1;
            }
            if unpause.reset_heartbeat {
                activity.forget_heartbeats();
            }
            if activity.is_scheduled() {
                self.schedule_again(env, id, within(env, unpause.jitter));
            }
        }
        self.note_pauses();
        self.touch();
        Ok(())
    }

    /// Begins an activity again: the first attempt is scheduled, unless a worker has one, or the activity stays paused.
    /// Original options are restored by the caller.
    pub(crate) fn reset_activity(&mut self, env: &Env<'_>, id: i64, reset: &Reset) {
        let Some(activity) = self.state.activities.get_mut(&id) else { return };
        activity.attempt = 1;
        activity.reset = true;
        activity.reset_heartbeats |= reset.reset_heartbeat;
        if !reset.keep_paused {
            activity.pause = None;
        }
        let (starts, stays_paused) = (activity.is_scheduled(), activity.pause.is_some());
        if !stays_paused {
            activity.stamp += i32::from(!activity.is_started());
            if starts {
                self.schedule_again(env, id, within(env, reset.jitter));
            }
        }
        self.note_pauses();
        self.touch();
    }

    fn forget_dispatch(&mut self, id: i64) {
        self.changes
            .dispatches
            .retain(|dispatch| !matches!(dispatch, Dispatch::Activity { scheduled_id, .. } if *scheduled_id == id));
    }

    /// Schedules the current attempt of an activity that no worker has. A task in a queue is stale.
    pub(super) fn schedule_again(&mut self, env: &Env<'_>, id: i64, at: Nanos) {
        self.forget_dispatch(id);
        let Some(activity) = self.state.activities.get_mut(&id) else { return };
        activity.stamp += 1;
        activity.last_failure = None;
        activity.schedule_attempt(at, env.now);
        if !activity.backing_off && activity.pause.is_none() {
            self.dispatch_activity(id);
        }
    }

    /// The real server writes the attribute when a pause begins or ends, not when a paused activity ends otherwise.
    pub(super) fn note_pauses(&mut self) {
        let paused = self.state.activities.values().filter(|activity| activity.pause.is_some());
        let mut kinds: Vec<&str> = paused.map(|activity| activity.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let entries: Vec<String> = kinds.into_iter().map(|kind| format!("property:activityType={kind}")).collect();
        let value = (!entries.is_empty()).then(|| keywords(&entries));
        self.changes.listing |= self.state.set_attribute(ATTRIBUTE, value);
    }
}

fn within(env: &Env<'_>, jitter: Nanos) -> Nanos {
    if jitter > 0 { env.now + (env.chance)(jitter) } else { env.now }
}

pub(crate) fn no_such_activity() -> ServiceError {
    ServiceError::not_found(
        "Can't find pending activity with such ID. Invalid activityID or activity already completed",
    )
}
