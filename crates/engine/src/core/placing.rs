//! Puts tasks into the queue of the workers that must run them.

use std::sync::Arc;

use super::{Core, Target};
use crate::{
    deployments::{Place, Routing, Version, place},
    queues::{Kind, QueueKey, Task},
    registry::RunKey,
    run::{Dispatch, Env, Run, RunState},
    time::{Nanos, SECOND},
};

/// A sticky queue without a poll for this long is treated as abandoned.
const STICKY_TIMEOUT: Nanos = 10 * SECOND;

/// A task queue of a namespace.
#[derive(Clone, Copy)]
pub(crate) struct TaskQueue<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    pub(crate) sticky: bool,
}

impl Core {
    /// Decides where a task of a run goes. `None` if no version has the task queue and the run has no version: the task
    /// goes where it always went.
    pub(crate) fn routing(&self, state: &RunState, queue: TaskQueue<'_>) -> Option<Routing> {
        // A sticky queue belongs to the run's task queue.
        let name = if queue.sticky { state.task_queue.as_str() } else { queue.name };
        let routing = self.deployments.routing(&state.namespace, name, queue.kind);
        let directive = state.directive();
        if routing.is_none() && directive.is_none() {
            return None;
        }
        Some(place(routing.as_deref(), queue.kind, queue.sticky, &state.workflow_id, directive.as_ref()))
    }

    /// Where a run with this workflow id and without a version would start.
    pub(crate) fn target(&self, state: &RunState) -> (Option<Version>, i64) {
        let routing = self.deployments.routing(&state.namespace, &state.task_queue, Kind::Workflow);
        routing.map_or((None, 0), |routing| routing.target(&state.workflow_id, false))
    }

    pub(crate) fn has_queue(&self, namespace: &str, queue: &str, version: &Version) -> bool {
        self.deployments.routing(namespace, queue, Kind::Workflow).is_some_and(|routing| routing.has(version))
    }

    /// The queue of a run's task that is not for the sticky worker.
    pub(crate) fn queue_of(&self, run: &RunKey, state: &RunState, name: &str, kind: Kind) -> QueueKey {
        let version = match self.routing(state, TaskQueue { name, kind, sticky: false }) {
            Some(Routing { place: Place::Workers(version), .. }) => version,
            _ => None,
        };
        let key = QueueKey { namespace: Arc::clone(&run.namespace), name: name.to_owned(), kind, version };
        if key.version.is_some() {
            self.queues.note_task(&key, self.now());
        }
        key
    }

    /// The task to dispatch, and its queue.
    pub(super) fn addressed(
        self: &Arc<Self>,
        run: &mut Run,
        key: &RunKey,
        dispatch: Dispatch,
    ) -> Option<(QueueKey, Task)> {
        if let Dispatch::Workflow { queue, sticky: true, .. } = &dispatch {
            let sticky = sticky_key(key, queue);
            let here = TaskQueue { name: queue, kind: Kind::Workflow, sticky: true };
            let leaves = self.routing(&run.state, here).is_some_and(|routing| routing.place == Place::NotSticky);
            if leaves || !self.queues.is_polled(&sticky, self.now() - STICKY_TIMEOUT) {
                // The sticky worker is gone or has another version, so the task goes to the normal queue.
                return run.unstick().map(|dispatch| self.task(&run.state, key, dispatch));
            }
        }
        Some(self.task(&run.state, key, dispatch))
    }

    /// The tasks of a run that wait for workers, with their queues.
    pub(super) fn waiting_in(&self, run: &Run, env: &Env<'_>) -> Vec<(QueueKey, Task)> {
        let state = &run.state;
        let key = RunKey::new(&state.namespace, &state.workflow_id, &state.run_id);
        run.waiting_for_workers(env).into_iter().map(|dispatch| self.task(state, &key, dispatch)).collect()
    }

    /// Moves the task of a run from its sticky queue to its normal one.
    pub(crate) fn unstick(self: &Arc<Self>, run: &RunKey) {
        let moved = self.with_run(&Target::of(run), |found, _| {
            Ok(found.unstick().map(|dispatch| self.task(&found.state, run, dispatch)))
        });
        if let Ok(Some((queue, task))) = moved.map(super::Applied::value) {
            self.queues.offer_stored(&queue, task);
        }
    }

    fn task(&self, state: &RunState, key: &RunKey, dispatch: Dispatch) -> (QueueKey, Task) {
        let run = key.clone();
        match dispatch {
            Dispatch::Workflow { queue, sticky: true, scheduled_id } => {
                (sticky_key(key, &queue), Task::Workflow { run, scheduled_id })
            }
            Dispatch::Workflow { queue, scheduled_id, .. } => {
                (self.queue_of(key, state, &queue, Kind::Workflow), Task::Workflow { run, scheduled_id })
            }
            Dispatch::Activity { queue, scheduled_id, attempt, stamp } => (
                self.queue_of(key, state, &queue, Kind::Activity),
                Task::Activity { run, scheduled_id, attempt, stamp },
            ),
            Dispatch::Nexus { namespace, queue, key } => {
                let queue = QueueKey { namespace: namespace.into(), name: queue, kind: Kind::Nexus, version: None };
                (queue, Task::Nexus { run, key })
            }
        }
    }

    /// The routing of task queues has changed: their tasks go where it sends them now.
    pub(crate) fn place_again(self: &Arc<Self>, namespace: &str, queues: &[(String, Kind)]) {
        for (name, kind) in queues {
            let key = QueueKey { namespace: namespace.into(), name: name.clone(), kind: *kind, version: None };
            for task in self.queues.take_all(&key) {
                let run = match &task {
                    Task::Workflow { run, .. } | Task::Activity { run, .. } | Task::Nexus { run, .. } => run.clone(),
                    Task::Query(query) => query.run.clone(),
                };
                let queue =
                    self.with_run(&Target::of(&run), |found, _| Ok(self.queue_of(&run, &found.state, name, *kind)));
                // A task of a run that is gone is dropped; any other stays where workers without a version find it.
                match queue.map(super::Applied::value) {
                    Ok(queue) => self.queues.offer_unstored(&queue, task),
                    Err(crate::ServiceError::NotFound(_)) => {}
                    Err(_) => self.queues.offer_unstored(&key, task),
                }
            }
        }
    }
}

fn sticky_key(run: &RunKey, name: &str) -> QueueKey {
    QueueKey { namespace: Arc::clone(&run.namespace), name: name.to_owned(), kind: Kind::Workflow, version: None }
}
