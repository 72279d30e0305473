//! Tasks of local workers, which run in the engine's process. After a restart they are timed out at once, because their
//! workers ended with the process.

use temporalio_protos::temporal::api::enums::v1::TimeoutType;

use super::{Env, Run};

/// A remote worker. Its end is noticed only by a timeout.
const ELSEWHERE: u64 = 0;

impl Run {
    /// Marks the started workflow task as held by a worker of this incarnation of the engine.
    pub(crate) fn set_task_incarnation(&mut self, incarnation: u64) {
        if let Some(task) = &mut self.state.task {
            task.incarnation = incarnation;
        }
    }

    /// Marks the started activity as held by a worker of this incarnation of the engine.
    pub(crate) fn set_activity_incarnation(&mut self, scheduled_id: i64, incarnation: u64) {
        if let Some(activity) = self.state.activities.get_mut(&scheduled_id) {
            activity.incarnation = incarnation;
        }
    }

    /// Whether a local worker has a started task of this run.
    pub(crate) fn has_local_tasks(&self) -> bool {
        self.is_task_local(|_| true) || self.local_activities(|_| true).next().is_some()
    }

    /// Times out the tasks that local workers of earlier incarnations had.
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

    /// Each with the timeout that would come first.
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
