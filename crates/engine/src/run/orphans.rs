//! Tasks with workers inside the engine's own process. When the process ends, so do they, and nobody need wait for them.

use temporalio_protos::temporal::api::enums::v1::TimeoutType;

use super::{Env, Run};

/// A worker elsewhere, of which only its silence tells that it is gone.
const ELSEWHERE: u64 = 0;

impl Run {
    /// The started workflow task is with a worker of this incarnation of the engine.
    pub(crate) fn set_task_incarnation(&mut self, incarnation: u64) {
        if let Some(task) = &mut self.state.task {
            task.incarnation = incarnation;
        }
    }

    /// The started activity is with a worker of this incarnation of the engine.
    pub(crate) fn set_activity_incarnation(&mut self, scheduled_id: i64, incarnation: u64) {
        if let Some(activity) = self.state.activities.get_mut(&scheduled_id) {
            activity.incarnation = incarnation;
        }
    }

    /// Whether the end of this process would leave something undone.
    pub(crate) fn has_local_tasks(&self) -> bool {
        self.is_task_local(|_| true) || self.local_activities(|_| true).next().is_some()
    }

    /// Gives up what workers of earlier incarnations had: they have ended, as if they had been silent for too long.
    pub(crate) fn time_out_orphans(&mut self, env: &Env<'_>, incarnation: u64) {
        if !self.state.is_running() {
            return;
        }
        let earlier = |lent: u64| lent != incarnation;
        if self.is_task_local(earlier)
            && let Some(task) = self.state.task.clone()
        {
            self.time_out_started_task(env, task);
            self.ensure_task(env);
        }
        for (id, kind) in self.local_activities(earlier).collect::<Vec<_>>() {
            self.time_out_activity(env, id, kind);
        }
    }

    fn is_task_local(&self, which: impl Fn(u64) -> bool) -> bool {
        let task = self.state.task.as_ref().filter(|task| task.started_id != 0);
        task.is_some_and(|task| task.incarnation != ELSEWHERE && which(task.incarnation))
    }

    /// Each with the timeout by which it would have been noticed first.
    fn local_activities(&self, which: impl Fn(u64) -> bool) -> impl Iterator<Item = (i64, TimeoutType)> {
        let lent = self.state.activities.iter().filter(move |(_, activity)| {
            activity.is_started() && activity.incarnation != ELSEWHERE && which(activity.incarnation)
        });
        lent.map(|(id, activity)| {
            let noticed =
                if activity.heartbeat_timeout > 0 { TimeoutType::Heartbeat } else { TimeoutType::StartToClose };
            (*id, noticed)
        })
    }
}
