//! Timers, timeouts and retries of a run.
//!
//! A run has one wake-up time: the earliest of all its deadlines. When it has come, everything that is due is processed
//! in order of time.

use temporalio_protos::temporal::api::{
    enums::v1::{RetryState, TimeoutType},
    history::v1::{TimerFiredEventAttributes, WorkflowExecutionStartedEventAttributes, history_event::Attributes},
};

use super::{
    Env, Run,
    activities::{closes_at, timeout_failure},
    nexus::NexusDue,
    retry::{Retried, backoff},
    state::Activity,
    updates::AbortReason,
};
use crate::time::Nanos;

/// Something that is due at a certain time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    RunTimeout,
    FirstTask,
    WaitingTask,
    StartedTask,
    Timer(String),
    ActivityRetry(i64),
    ActivityTimeout(i64, i32),
    Nexus(i64, NexusDue),
}

impl Run {
    /// The time of the next deadline.
    pub(crate) fn next_wakeup(&self) -> Option<Nanos> {
        self.next_due().map(|(at, _)| at)
    }

    fn next_due(&self) -> Option<(Nanos, Due)> {
        if !self.state.is_running() {
            return None;
        }
        let mut next: Option<(Nanos, Due)> = None;
        let mut consider = |at: Nanos, due: Due| {
            if next.as_ref().is_none_or(|(earliest, _)| at < *earliest) {
                next = Some((at, due));
            }
        };
        for expires in [self.state.run_expires, self.state.execution_expires] {
            if expires != 0 {
                consider(expires, Due::RunTimeout);
            }
        }
        if self.state.first_task_due != 0 {
            consider(self.state.first_task_due, Due::FirstTask);
        }
        if let Some(task) = &self.state.task {
            if task.started_id != 0 {
                consider(task.started_time.saturating_add(task.timeout), Due::StartedTask);
            } else if self.memory.task_waits_until != 0 {
                consider(self.memory.task_waits_until, Due::WaitingTask);
            }
        }
        for (id, timer) in &self.state.timers {
            consider(timer.fires, Due::Timer(id.clone()));
        }
        for (id, activity) in self.state.activities.iter().filter(|(_, activity)| activity.pause.is_none()) {
            if activity.backing_off {
                consider(activity.scheduled_time, Due::ActivityRetry(*id));
            }
            if let Some((at, kind)) = next_timeout(activity, self.memory.remembers_from) {
                consider(at, Due::ActivityTimeout(*id, kind as i32));
            }
        }
        for (id, operation) in &self.state.nexus_operations {
            operation.due(|at, due| consider(at, Due::Nexus(*id, due)));
        }
        next
    }

    /// Processes what is due. `beginning` is the run's first event, needed to retry a run that timed out.
    pub(crate) fn fire_due(
        &mut self,
        env: &Env<'_>,
        beginning: &mut dyn FnMut() -> Option<WorkflowExecutionStartedEventAttributes>,
    ) {
        while let Some((_, due)) = self.next_due().filter(|(at, _)| *at <= env.now) {
            match due {
                Due::RunTimeout => self.run_timed_out(env, beginning),
                Due::FirstTask => {
                    self.state.first_task_due = 0;
                    self.touch();
                    self.ensure_task(env);
                }
                Due::StartedTask => {
                    let Some(task) = self.state.task.clone() else { return };
                    self.time_out_started_task(env, task);
                    self.ensure_task(env);
                }
                Due::WaitingTask => {
                    let Some(task) = self.state.task.clone() else { return };
                    self.time_out_waiting_task(env, task);
                    self.ensure_task(env);
                }
                Due::Timer(id) => self.fire_timer(env, &id),
                Due::ActivityRetry(id) => self.activity_due(id),
                Due::Nexus(id, due) => self.nexus_due(env, id, due),
                Due::ActivityTimeout(id, kind) => {
                    self.time_out_activity(env, id, TimeoutType::try_from(kind).unwrap_or_default());
                }
            }
        }
    }

    fn fire_timer(&mut self, env: &Env<'_>, id: &str) {
        let Some(timer) = self.state.timers.remove(id) else { return };
        let attributes = TimerFiredEventAttributes { timer_id: id.to_owned(), started_event_id: timer.started_id };
        self.buffer_event(env, Attributes::TimerFiredEventAttributes(attributes));
        self.ensure_task(env);
    }

    fn run_timed_out(
        &mut self,
        env: &Env<'_>,
        beginning: &mut dyn FnMut() -> Option<WorkflowExecutionStartedEventAttributes>,
    ) {
        let failure = timeout_failure("workflow timeout".to_owned(), TimeoutType::StartToClose);
        let chain_expired = self.state.execution_expires != 0 && self.state.execution_expires <= env.now;
        let retry = match &self.state.retry_policy {
            _ if chain_expired => Err(RetryState::Timeout),
            None => Err(RetryState::RetryPolicyNotSet),
            Some(policy) => {
                backoff(Retried::Run, policy, self.state.attempt, Some(&failure), env.now, self.state.execution_expires)
            }
        };
        let next = match retry {
            Ok(wait) => beginning().map(|beginning| {
                let last_result = beginning.last_completion_result.clone();
                self.prepare_retry(env, beginning, wait, Some(failure), last_result)
            }),
            Err(_) if chain_expired => None,
            Err(_) => self.prepare_cron(env, beginning, None, Some(failure)),
        };
        match next {
            Some(next) => {
                next.run_id.clone_into(&mut self.state.successor_run_id);
                self.time_out(env, retry.err().unwrap_or(RetryState::InProgress), &next.run_id);
                self.succeed(env, next);
                self.abort_updates(AbortReason::Continuing);
            }
            None => {
                self.time_out(env, retry.err().unwrap_or(RetryState::InternalServerError), "");
                self.abort_updates(AbortReason::Completed);
            }
        }
    }
}

/// The earliest pending timeout of an activity. Of two at the same time, the timeout of the attempt comes before that
/// of the activity.
fn next_timeout(activity: &Activity, remembers_from: Nanos) -> Option<(Nanos, TimeoutType)> {
    let mut next: Option<(Nanos, TimeoutType)> = None;
    let mut consider = |at: Nanos, kind: TimeoutType| {
        if next.is_none_or(|(earliest, _)| at < earliest) {
            next = Some((at, kind));
        }
    };
    if activity.is_started() {
        if activity.start_to_close > 0 {
            consider(activity.started_time.saturating_add(activity.start_to_close), TimeoutType::StartToClose);
        }
    } else if activity.schedule_to_start > 0 && !activity.backing_off {
        consider(activity.scheduled_time.saturating_add(activity.schedule_to_start), TimeoutType::ScheduleToStart);
    }
    let until = closes_at(activity);
    if until != 0 {
        consider(until, TimeoutType::ScheduleToClose);
    }
    if activity.is_started() && activity.heartbeat_timeout > 0 {
        let last = activity.last_heartbeat.max(activity.started_time).max(remembers_from);
        consider(last.saturating_add(activity.heartbeat_timeout), TimeoutType::Heartbeat);
    }
    next
}
