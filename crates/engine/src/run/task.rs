//! The workflow task.
//!
//! A *transient* task retries a failed one; its events are written when it completes. A *speculative* task only carries
//! updates to the worker; its events are written only if it has an effect.

use temporalio_protos::temporal::api::{
    common::v1::WorkerVersionStamp,
    enums::v1::{SuggestContinueAsNewReason, TaskQueueKind, TimeoutType, WorkflowTaskFailedCause},
    failure::v1::Failure,
    history::v1::{
        HistoryEvent, WorkflowTaskFailedEventAttributes, WorkflowTaskScheduledEventAttributes,
        WorkflowTaskStartedEventAttributes, WorkflowTaskTimedOutEventAttributes, history_event::Attributes,
    },
    taskqueue::v1::TaskQueue,
};

use super::{Dispatch, Env, Run, events::new_event, state::WorkflowTask};
use crate::time::{Nanos, SECOND, duration, span};

/// A started task as a worker gets it.
#[derive(Debug, Clone)]
pub(crate) struct StartedTask {
    pub(crate) task: WorkflowTask,
    /// Events that are shown to the worker and are not in history yet.
    pub(crate) unwritten: Vec<HistoryEvent>,
}

/// The identity that a worker reports when it starts or completes a task.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Worker<'a> {
    pub(crate) identity: &'a str,
    /// The build id of an unversioned worker.
    pub(crate) build: Option<&'a WorkerVersionStamp>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(identity: &'a str, build: Option<&'a WorkerVersionStamp>) -> Self {
        Self { identity, build: build.filter(|build| !build.use_versioning) }
    }

    pub(crate) fn unknown(identity: &'a str) -> Self {
        Self { identity, build: None }
    }
}

/// Attempts of a workflow task with the normal timeout.
const USUAL_ATTEMPTS: i32 = 3;
/// The extra time of the next attempt; it doubles with every further attempt.
const FIRST_EXTRA: Nanos = 5 * SECOND;
const LONGEST_EXTRA: Nanos = 600 * SECOND;

/// The extra time of a retried workflow task. It lets a slow task complete in the end, and a task that always fails is
/// retried less and less often. A fifth of it is random, so that runs that fail together are not all retried at the
/// same time.
fn extra_time(attempt: i32, chance: &dyn Fn(Nanos) -> Nanos) -> Nanos {
    let doubled = match u32::try_from(attempt - USUAL_ATTEMPTS) {
        Ok(0) | Err(_) => return 0,
        Ok(beyond) => (beyond - 1).min(LONGEST_EXTRA.ilog2()),
    };
    let extra = FIRST_EXTRA.saturating_mul(1 << doubled).min(LONGEST_EXTRA);
    extra / 5 * 4 + chance(extra / 5)
}

/// How long a speculative task waits for a worker. It is not stored, so a lost one must be scheduled again.
const SPECULATIVE_TIMEOUT: Nanos = 5 * SECOND;

/// Whether the new task goes to a queue or into the reply to the worker that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Queue,
    Inline,
}

impl Run {
    pub(crate) fn has_started_task(&self) -> bool {
        self.state.task.as_ref().is_some_and(|task| task.started_id != 0)
    }

    /// Whether the pending task is speculative.
    pub(crate) fn speculates(&self) -> bool {
        self.state.task.as_ref().is_some_and(|task| task.speculative)
    }

    /// Whether the waiting task is dispatched again if no worker starts it in time.
    pub(crate) fn task_comes_back(&self) -> bool {
        self.memory.task_waits_until != 0 && self.state.task.as_ref().is_some_and(|task| task.started_id == 0)
    }

    /// Schedules a workflow task if none is pending.
    pub(super) fn ensure_task(&mut self, env: &Env<'_>) {
        if self.state.is_running() && self.state.task.is_none() && self.state.first_task_due == 0 {
            self.schedule_task(env, Delivery::Queue, env.now);
        }
    }

    /// Schedules a task. Its events are written unless it is a retry.
    pub(super) fn schedule_task(&mut self, env: &Env<'_>, delivery: Delivery, original_scheduled_time: Nanos) {
        if !self.state.buffered.is_empty() {
            // There are new events since the failed attempt, so this is not a retry.
            self.state.task_attempt = 1;
            self.flush();
        }
        let mut task = WorkflowTask {
            scheduled_id: self.state.next_event_id,
            scheduled_time: env.now,
            original_scheduled_time,
            timeout: self.next_timeout(env),
            attempt: self.state.task_attempt,
            ..WorkflowTask::default()
        };
        if !self.state.is_transient() {
            task.scheduled_id = self.write(env, self.scheduled_attributes(&task));
        }
        self.touch();
        self.dispatch(&task, delivery);
        self.state.task = Some(task);
    }

    /// Schedules a speculative task.
    pub(super) fn schedule_speculative_task(&mut self, env: &Env<'_>, delivery: Delivery) {
        let task = WorkflowTask {
            scheduled_id: self.state.next_event_id,
            scheduled_time: env.now,
            original_scheduled_time: env.now,
            timeout: self.next_timeout(env),
            speculative: true,
            attempt: self.state.task_attempt,
            ..WorkflowTask::default()
        };
        self.dispatch(&task, delivery);
        self.state.task = Some(task);
        self.changes.speculates = true;
    }

    /// The timeout of the next task.
    fn next_timeout(&self, env: &Env<'_>) -> Nanos {
        span(self.state.task_timeout.as_ref()).saturating_add(extra_time(self.state.task_attempt, env.chance))
    }

    fn dispatch(&mut self, task: &WorkflowTask, delivery: Delivery) {
        self.memory.task_waits_until = match &self.memory.sticky {
            Some(sticky) if sticky.schedule_to_start > 0 => {
                task.scheduled_time.saturating_add(sticky.schedule_to_start)
            }
            None if task.speculative => task.scheduled_time.saturating_add(SPECULATIVE_TIMEOUT),
            _ => 0,
        };
        if delivery == Delivery::Queue {
            let dispatch = self.task_dispatch(task.scheduled_id);
            self.changes.dispatches.push(dispatch);
        }
    }

    fn task_dispatch(&self, scheduled_id: i64) -> Dispatch {
        match &self.memory.sticky {
            Some(sticky) => Dispatch::Workflow { queue: sticky.queue.clone(), sticky: true, scheduled_id },
            None => Dispatch::Workflow { queue: self.state.task_queue.clone(), sticky: false, scheduled_id },
        }
    }

    /// The task that waits for a worker, to fill the queues after a restart.
    pub(crate) fn waiting_task(&self) -> Option<Dispatch> {
        let task = self.state.task.as_ref().filter(|task| self.state.is_running() && task.started_id == 0)?;
        Some(self.task_dispatch(task.scheduled_id))
    }

    /// The sticky worker is gone: the task moves to the normal queue.
    pub(crate) fn unstick(&mut self) -> Option<Dispatch> {
        self.memory.sticky = None;
        self.waiting_task()
    }

    /// Starts the task for a worker. `None` if it is no longer pending.
    pub(crate) fn start_task(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        worker: Worker<'_>,
        request_id: &str,
    ) -> Option<StartedTask> {
        let identity = worker.identity;
        let mut task = self.state.task.clone().filter(|_| self.state.is_running())?;
        if task.started_id != 0 {
            return self.deliver_again(task, scheduled_id, identity);
        }
        if task.scheduled_id != scheduled_id {
            return None;
        }
        let mut written = !self.state.is_transient() && !task.speculative;
        if !written && task.scheduled_id != self.state.next_event_id {
            // Events were written since: the task is neither a retry nor speculative any more.
            self.state.task_attempt = 1;
            task.attempt = 1;
            task.speculative = false;
            task.scheduled_time = env.now;
            task.scheduled_id = self.write(env, self.scheduled_attributes(&task));
            written = true;
        }
        task.started_time = env.now;
        task.request_id = request_id.to_owned();
        task.history_size = self.state.history_size;
        task.suggest_continue_as_new = self.reasons_to_continue(env);
        identity.clone_into(&mut self.memory.task_identity);
        task.started_id = if written {
            self.write(env, started_attributes(&task, worker, self.state.has_new_target()))
        } else {
            task.scheduled_id + 1
        };
        if !task.speculative {
            self.touch();
        }
        self.state.task = Some(task.clone());
        let unwritten = if written { Vec::new() } else { self.unwritten(&task, identity) };
        Some(StartedTask { task, unwritten })
    }

    /// The started task, if the worker it was started for did not get it.
    fn deliver_again(&mut self, task: WorkflowTask, scheduled_id: i64, identity: &str) -> Option<StartedTask> {
        self.memory
            .undelivered
            .take_if(|it| it.scheduled_id == scheduled_id)
            .filter(|it| it.request_id == task.request_id)?;
        let unwritten = if self.task_is_written(&task) { Vec::new() } else { self.unwritten(&task, identity) };
        Some(StartedTask { task, unwritten })
    }

    /// Events of the pending task that are shown to readers and are not in history.
    pub(crate) fn unwritten_task(&self) -> Vec<HistoryEvent> {
        let task = self.state.task.as_ref().filter(|task| self.state.is_running() && !self.task_is_written(task));
        let Some(task) = task.filter(|task| task.scheduled_id == self.state.next_event_id) else { return Vec::new() };
        let mut events = self.unwritten(task, "");
        if task.started_id == 0 {
            events.truncate(1);
        }
        events
    }

    /// Events of a started task that are not in history yet.
    fn unwritten(&self, task: &WorkflowTask, identity: &str) -> Vec<HistoryEvent> {
        let mut scheduled = new_event(task.scheduled_time, self.scheduled_attributes(task));
        let has_new_target = self.state.has_new_target();
        let mut started =
            new_event(task.started_time, started_attributes(task, Worker::unknown(identity), has_new_target));
        scheduled.event_id = task.scheduled_id;
        started.event_id = task.started_id;
        vec![scheduled, started]
    }

    /// Whether the events of the pending task are in history.
    pub(super) fn task_is_written(&self, task: &WorkflowTask) -> bool {
        task.attempt <= 1 && !task.speculative
    }

    /// Writes the events of a task that were not written yet, and returns the task with their ids.
    pub(super) fn write_task(&mut self, mut task: WorkflowTask, worker: Worker<'_>) -> WorkflowTask {
        task.scheduled_id = self.write_at(task.scheduled_time, self.scheduled_attributes(&task));
        if task.started_id != 0 {
            let attributes = started_attributes(&task, worker, self.state.has_new_target());
            task.started_id = self.write_at(task.started_time, attributes);
        }
        task.speculative = false;
        task
    }

    /// A speculative task is not stored. It becomes a normal task as soon as anything else is written.
    pub(super) fn write_speculative_task(&mut self, _env: &Env<'_>) {
        if !self.changes.dirty || self.changes.speculates || !self.state.is_running() {
            return;
        }
        if let Some(task) = self.state.task.take_if(|task| task.speculative) {
            let task = self.write_task(task, Worker::default());
            self.state.task = Some(task);
        }
    }

    #[allow(deprecated, reason = "older workers still send their binary checksum")]
    pub(super) fn fail_task(
        &mut self,
        env: &Env<'_>,
        task: WorkflowTask,
        cause: WorkflowTaskFailedCause,
        failure: Option<Failure>,
        worker: Worker<'_>,
        binary_checksum: &str,
    ) {
        let task = if task.speculative { self.write_task(task, worker) } else { task };
        if self.task_is_written(&task) {
            let attributes = WorkflowTaskFailedEventAttributes {
                scheduled_event_id: task.scheduled_id,
                started_event_id: task.started_id,
                cause: cause as i32,
                failure,
                identity: worker.identity.to_owned(),
                binary_checksum: binary_checksum.to_owned(),
                ..WorkflowTaskFailedEventAttributes::default()
            };
            self.write(env, Attributes::WorkflowTaskFailedEventAttributes(attributes));
            self.note_failure(cause);
        }
        self.give_up_task(true);
    }

    /// The worker did not complete the task in time.
    pub(super) fn time_out_started_task(&mut self, env: &Env<'_>, task: WorkflowTask) {
        let task = if task.speculative { self.write_task(task, Worker::default()) } else { task };
        if self.task_is_written(&task) {
            self.write(env, timed_out(&task, TimeoutType::StartToClose));
            self.note_timeout();
        }
        self.give_up_task(true);
    }

    /// No worker started the task in time.
    pub(super) fn time_out_waiting_task(&mut self, env: &Env<'_>, task: WorkflowTask) {
        let task = if task.speculative { self.write_task(task, Worker::default()) } else { task };
        if self.task_is_written(&task) {
            self.write(env, timed_out(&task, TimeoutType::ScheduleToStart));
        }
        self.give_up_task(false);
    }

    /// A failure on a sticky queue does not count as an attempt, because another worker may succeed.
    fn give_up_task(&mut self, count: bool) {
        self.memory.close_attempted = false;
        let was_sticky = self.memory.sticky.take().is_some();
        let counts = count && !was_sticky;
        if counts {
            self.count_failed_task();
        }
        self.state.task_attempt = if counts { self.state.task_attempt + 1 } else { 1 };
        self.state.task = None;
        self.touch();
    }

    /// The queue of the pending task, as workers see it.
    pub(super) fn current_queue(&self) -> TaskQueue {
        match &self.memory.sticky {
            Some(sticky) => TaskQueue {
                name: sticky.queue.clone(),
                kind: TaskQueueKind::Sticky as i32,
                normal_name: self.state.task_queue.clone(),
            },
            None => normal_queue(&self.state.task_queue),
        }
    }

    fn scheduled_attributes(&self, task: &WorkflowTask) -> Attributes {
        Attributes::WorkflowTaskScheduledEventAttributes(WorkflowTaskScheduledEventAttributes {
            task_queue: Some(self.current_queue()),
            start_to_close_timeout: Some(duration(task.timeout)),
            attempt: task.attempt,
        })
    }

    fn reasons_to_continue(&self, env: &Env<'_>) -> Vec<i32> {
        let limits = env.limits;
        let mut reasons = Vec::new();
        if self.state.history_size >= limits.suggest_continue_bytes {
            reasons.push(SuggestContinueAsNewReason::HistorySizeTooLarge as i32);
        }
        if self.state.next_event_id > limits.suggest_continue_events {
            reasons.push(SuggestContinueAsNewReason::TooManyHistoryEvents as i32);
        }
        reasons
    }
}

pub(super) fn normal_queue(name: &str) -> TaskQueue {
    TaskQueue { name: name.to_owned(), kind: TaskQueueKind::Normal as i32, ..TaskQueue::default() }
}

#[allow(deprecated, reason = "unversioned workers still send their build here")]
pub(super) fn started_attributes(task: &WorkflowTask, worker: Worker<'_>, has_new_target: bool) -> Attributes {
    Attributes::WorkflowTaskStartedEventAttributes(WorkflowTaskStartedEventAttributes {
        scheduled_event_id: task.scheduled_id,
        identity: worker.identity.to_owned(),
        request_id: task.request_id.clone(),
        worker_version: worker.build.cloned(),
        suggest_continue_as_new: !task.suggest_continue_as_new.is_empty(),
        suggest_continue_as_new_reasons: task.suggest_continue_as_new.clone(),
        history_size_bytes: task.history_size,
        target_worker_deployment_version_changed: has_new_target,
        ..WorkflowTaskStartedEventAttributes::default()
    })
}

fn timed_out(task: &WorkflowTask, kind: TimeoutType) -> Attributes {
    Attributes::WorkflowTaskTimedOutEventAttributes(WorkflowTaskTimedOutEventAttributes {
        scheduled_event_id: task.scheduled_id,
        started_event_id: task.started_id,
        timeout_type: kind as i32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_timeouts_grow_with_failed_attempts_by_at_most_ten_minutes() {
        let spans = |chance: &dyn Fn(Nanos) -> Nanos| {
            [1, 3, 4, 5, 6, 11, 12, 1000, i32::MAX].map(|attempt| extra_time(attempt, chance))
        };
        let seconds = |times: [Nanos; 9]| times.map(|seconds| seconds * SECOND);
        assert_eq!(spans(&|_| 0), seconds([0, 0, 4, 8, 16, 480, 480, 480, 480]));
        assert_eq!(spans(&|below| below), seconds([0, 0, 5, 10, 20, 600, 600, 600, 600]));
    }
}
