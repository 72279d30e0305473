//! Activities: dispatch, results, timeouts, retries.
//!
//! The started event is written together with the final result, so that retried attempts leave no events. It therefore
//! has an earlier time than the events around it.

use std::{collections::BTreeMap, sync::Arc};

use temporalio_protos::temporal::api::{
    common::v1::{Payloads, WorkerVersionStamp},
    enums::v1::{RetryState, TimeoutType},
    failure::v1::{Failure, TimeoutFailureInfo, failure::FailureInfo},
    history::v1::{
        ActivityTaskCanceledEventAttributes, ActivityTaskCompletedEventAttributes, ActivityTaskFailedEventAttributes,
        ActivityTaskScheduledEventAttributes, ActivityTaskStartedEventAttributes, ActivityTaskTimedOutEventAttributes,
        history_event::Attributes,
    },
};

use super::{
    Dispatch, Env, Run, Worker,
    retry::{Retried, backoff, is_retryable, timeout_name},
    state::Activity,
};
use crate::{deployments::Version, service_error::ServiceError, time::Nanos};

/// An activity task as a worker gets it.
#[derive(Debug, Clone)]
pub(crate) struct StartedActivity {
    pub(crate) scheduled_id: i64,
    pub(crate) activity: Activity,
    /// `None` if it must be read from history first.
    pub(crate) scheduled: Option<Arc<ActivityTaskScheduledEventAttributes>>,
}

/// A worker's report of a failed attempt.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActivityFailure {
    pub(crate) failure: Option<Failure>,
    pub(crate) heartbeat_details: Option<Payloads>,
    pub(crate) identity: String,
    pub(crate) build: Option<WorkerVersionStamp>,
}

/// What the worker learns from a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeartbeatAnswer {
    pub(crate) cancel_requested: bool,
    pub(crate) paused: bool,
    pub(crate) reset: bool,
}

impl Run {
    /// Starts the activity for a worker. `None` if the attempt is no longer pending.
    pub(crate) fn start_activity(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        (attempt, stamp): (i32, i32),
        identity: &str,
        request_id: &str,
        version: Option<&Version>,
    ) -> Option<StartedActivity> {
        if !self.state.is_running() {
            return None;
        }
        let activity = self.state.activities.get_mut(&scheduled_id)?;
        let is_stale = activity.attempt != attempt || activity.stamp != stamp;
        if is_stale || !waits_for_worker(activity) {
            return None;
        }
        activity.started_time = env.now;
        request_id.clone_into(&mut activity.start_request_id);
        identity.clone_into(&mut activity.started_identity);
        identity.clone_into(&mut activity.last_worker_identity);
        activity.last_version = version.cloned();
        let activity = activity.clone();
        self.touch();
        let scheduled = self.memory.scheduled.get(&scheduled_id).cloned();
        Some(StartedActivity { scheduled_id, activity, scheduled })
    }

    /// Activities that wait for a worker, to fill the queues after a restart.
    pub(crate) fn waiting_activities(&self) -> Vec<Dispatch> {
        let waiting = self.state.activities.iter().filter(|(_, activity)| waits_for_worker(activity));
        waiting.map(|(id, activity)| dispatch(*id, activity)).collect()
    }

    pub(super) fn dispatch_activity(&mut self, scheduled_id: i64) {
        if let Some(activity) = self.state.activities.get(&scheduled_id) {
            self.changes.dispatches.push(dispatch(scheduled_id, activity));
        }
    }

    /// The activity that a worker reports on, if the attempt is still the current one.
    fn held_activity(&self, scheduled_id: i64, attempt: i32) -> Result<&Activity, ServiceError> {
        self.must_run()?;
        let activity = self.state.activities.get(&scheduled_id);
        activity
            .filter(|activity| activity.is_started() && (attempt == 0 || activity.attempt == attempt))
            .ok_or_else(activity_not_found)
    }

    pub(crate) fn activity_by_id(&self, id: &str) -> Option<i64> {
        self.state.activities.iter().find(|(_, activity)| activity.id == id).map(|(scheduled_id, _)| *scheduled_id)
    }

    pub(crate) fn complete_activity(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        attempt: i32,
        result: Option<Payloads>,
        worker: Worker<'_>,
    ) -> Result<(), ServiceError> {
        let identity = worker.identity;
        if attempt == 0 {
            self.start_unasked(env, scheduled_id, identity);
        }
        self.held_activity(scheduled_id, attempt)?;
        let Some(activity) = self.take_activity(scheduled_id) else { return Err(activity_not_found()) };
        self.write_start(scheduled_id, &activity, worker.build);
        let attributes = ActivityTaskCompletedEventAttributes {
            result,
            scheduled_event_id: scheduled_id,
            identity: identity.to_owned(),
            ..ActivityTaskCompletedEventAttributes::default()
        };
        self.buffer_event(env, Attributes::ActivityTaskCompletedEventAttributes(attributes));
        self.ensure_task(env);
        Ok(())
    }

    /// A client that knows the activity's id may complete it before a worker has started it. History then has a started
    /// event.
    fn start_unasked(&mut self, env: &Env<'_>, scheduled_id: i64, identity: &str) {
        let running = self.state.is_running();
        let unstarted = self.state.activities.get_mut(&scheduled_id).filter(|it| running && !it.is_started());
        if let Some(activity) = unstarted {
            activity.started_time = env.now;
            identity.clone_into(&mut activity.started_identity);
        }
    }

    pub(crate) fn fail_activity(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        attempt: i32,
        failed: ActivityFailure,
    ) -> Result<(), ServiceError> {
        self.held_activity(scheduled_id, attempt)?;
        if let Some(activity) = self.state.activities.get_mut(&scheduled_id) {
            activity.last_attempt_complete_time = env.now;
            if failed.heartbeat_details.is_some() {
                activity.heartbeat_details = failed.heartbeat_details;
                activity.last_heartbeat = env.now;
            }
        }
        let Err(retry_state) = self.retry_activity(env, scheduled_id, failed.failure.as_ref()) else { return Ok(()) };
        let Some(activity) = self.take_activity(scheduled_id) else { return Err(activity_not_found()) };
        self.write_start(scheduled_id, &activity, failed.build.as_ref());
        let attributes = ActivityTaskFailedEventAttributes {
            failure: failed.failure,
            scheduled_event_id: scheduled_id,
            identity: failed.identity,
            retry_state: retry_state as i32,
            ..ActivityTaskFailedEventAttributes::default()
        };
        self.buffer_event(env, Attributes::ActivityTaskFailedEventAttributes(attributes));
        self.ensure_task(env);
        Ok(())
    }

    pub(crate) fn cancel_activity(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        attempt: i32,
        details: Option<Payloads>,
        identity: &str,
    ) -> Result<(), ServiceError> {
        let activity = self.held_activity(scheduled_id, attempt)?;
        if !activity.cancel_requested {
            return Err(ServiceError::invalid(
                "unable to mark activity as canceled without activity being request canceled first",
            ));
        }
        let Some(activity) = self.take_activity(scheduled_id) else { return Err(activity_not_found()) };
        self.write_start(scheduled_id, &activity, None);
        self.activity_cancelled(env, scheduled_id, activity.cancel_requested_id, details, identity);
        self.ensure_task(env);
        Ok(())
    }

    pub(super) fn activity_cancelled(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        cancel_requested_id: i64,
        details: Option<Payloads>,
        identity: &str,
    ) {
        let attributes = ActivityTaskCanceledEventAttributes {
            details,
            latest_cancel_requested_event_id: cancel_requested_id,
            scheduled_event_id: scheduled_id,
            identity: identity.to_owned(),
            ..ActivityTaskCanceledEventAttributes::default()
        };
        self.buffer_event(env, Attributes::ActivityTaskCanceledEventAttributes(attributes));
    }

    /// Records a heartbeat, without a write, and returns what the worker should know.
    pub(crate) fn heartbeat(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        attempt: i32,
        details: Option<Payloads>,
    ) -> Result<HeartbeatAnswer, ServiceError> {
        self.held_activity(scheduled_id, attempt)?;
        let Some(activity) = self.state.activities.get_mut(&scheduled_id) else { return Err(activity_not_found()) };
        activity.last_heartbeat = env.now;
        activity.heartbeat_details = details;
        let answer = HeartbeatAnswer {
            cancel_requested: activity.cancel_requested,
            paused: activity.pause.is_some(),
            reset: activity.reset,
        };
        self.memory.unwritten_heartbeats = true;
        Ok(answer)
    }

    /// Times out an attempt or the whole activity.
    pub(super) fn time_out_activity(&mut self, env: &Env<'_>, scheduled_id: i64, kind: TimeoutType) {
        let mut failure = timeout_failure(format!("activity {} timeout", timeout_name(kind)), kind);
        let Err(retry_state) = self.retry_activity(env, scheduled_id, Some(&failure)) else { return };
        if retry_state == RetryState::Timeout && kind != TimeoutType::ScheduleToStart {
            failure = timeout_failure(
                "Not enough time to schedule next retry before activity ScheduleToClose timeout, giving up retrying"
                    .to_owned(),
                TimeoutType::ScheduleToClose,
            );
        }
        let Some(activity) = self.take_activity(scheduled_id) else { return };
        if let Some(FailureInfo::TimeoutFailureInfo(info)) = &mut failure.failure_info {
            info.last_heartbeat_details = activity.heartbeat_details.clone();
        }
        failure.cause = activity.last_failure.clone().map(Box::new);
        self.write_start(scheduled_id, &activity, None);
        let attributes = ActivityTaskTimedOutEventAttributes {
            failure: Some(failure),
            scheduled_event_id: scheduled_id,
            retry_state: retry_state as i32,
            ..ActivityTaskTimedOutEventAttributes::default()
        };
        self.buffer_event(env, Attributes::ActivityTaskTimedOutEventAttributes(attributes));
        self.ensure_task(env);
    }

    /// Schedules the next attempt, or returns why there is none.
    fn retry_activity(
        &mut self,
        env: &Env<'_>,
        scheduled_id: i64,
        failure: Option<&Failure>,
    ) -> Result<(), RetryState> {
        let Some(activity) = self.state.activities.get_mut(&scheduled_id) else {
            return Err(RetryState::InternalServerError);
        };
        let Some(policy) = &activity.retry_policy else { return Err(RetryState::RetryPolicyNotSet) };
        if activity.cancel_requested {
            return Err(RetryState::CancelRequested);
        }
        if let Some(FailureInfo::TimeoutFailureInfo(info)) = failure.and_then(|failure| failure.failure_info.as_ref())
            && matches!(info.timeout_type(), TimeoutType::ScheduleToStart | TimeoutType::ScheduleToClose)
        {
            return Err(RetryState::Timeout);
        }
        if activity.pause.is_some() {
            // Neither the number of attempts nor the time left matters before it is unpaused.
            if failure.is_some_and(|failure| !is_retryable(failure, &policy.non_retryable_error_types)) {
                return Err(RetryState::NonRetryableFailure);
            }
            activity.attempt += 1;
            activity.clear_start();
            activity.last_failure = failure.cloned();
            self.touch();
            return Ok(());
        }
        let wait = backoff(Retried::Activity, policy, activity.attempt, failure, env.now, retries_until(activity))?;
        activity.attempt += 1;
        activity.last_failure = failure.cloned();
        activity.schedule_attempt(env.now + wait, env.now);
        let due = !activity.backing_off;
        self.touch();
        if due {
            self.dispatch_activity(scheduled_id);
        }
        Ok(())
    }

    /// The backoff of the next attempt has passed.
    pub(super) fn activity_due(&mut self, scheduled_id: i64) {
        if let Some(activity) = self.state.activities.get_mut(&scheduled_id) {
            activity.backing_off = false;
            self.touch();
            self.dispatch_activity(scheduled_id);
        }
    }

    pub(super) fn take_activity(&mut self, scheduled_id: i64) -> Option<Activity> {
        self.memory.scheduled.remove(&scheduled_id);
        let taken = self.state.activities.remove(&scheduled_id);
        if taken.is_some() {
            self.touch();
        }
        if self.state.activities.is_empty() {
            // A new map, because a cleared one keeps its memory, and the run may be idle for weeks.
            self.state.activities = BTreeMap::new();
            self.memory.scheduled = BTreeMap::new();
        }
        taken
    }

    /// Writes the started event of the last attempt. Its build id comes from the worker that reports the result.
    #[allow(deprecated, reason = "unversioned workers still send their build here")]
    pub(super) fn write_start(&mut self, scheduled_id: i64, activity: &Activity, build: Option<&WorkerVersionStamp>) {
        if !activity.is_started() {
            return;
        }
        let attributes = ActivityTaskStartedEventAttributes {
            scheduled_event_id: scheduled_id,
            identity: activity.started_identity.clone(),
            request_id: activity.start_request_id.clone(),
            attempt: activity.attempt,
            last_failure: activity.last_failure.clone(),
            worker_version: build.cloned(),
            ..ActivityTaskStartedEventAttributes::default()
        };
        self.buffer_event_at(activity.started_time, Attributes::ActivityTaskStartedEventAttributes(attributes));
    }
}

impl Activity {
    /// Schedules the current attempt. A worker that still has an earlier one can no longer report on it.
    pub(super) fn schedule_attempt(&mut self, at: Nanos, now: Nanos) {
        self.clear_start();
        self.scheduled_time = at;
        self.backing_off = at > now;
        if self.reset_heartbeats {
            self.forget_heartbeats();
        }
        self.reset = false;
        self.reset_heartbeats = false;
    }

    pub(super) fn forget_heartbeats(&mut self) {
        self.heartbeat_details = None;
        self.last_heartbeat = 0;
    }

    fn clear_start(&mut self) {
        self.started_time = 0;
        self.start_request_id.clear();
    }
}

/// Whether a worker may take the activity now.
fn waits_for_worker(activity: &Activity) -> bool {
    !activity.is_started() && !activity.backing_off && activity.pause.is_none()
}

/// When the whole activity times out; zero for never.
pub(super) fn closes_at(activity: &Activity) -> Nanos {
    match activity.schedule_to_close {
        0 => 0,
        span => activity.first_scheduled_time.saturating_add(span),
    }
}

/// No attempt is scheduled for after this time; zero for no limit.
pub(crate) fn retries_until(activity: &Activity) -> Nanos {
    activity.retries_until.unwrap_or_else(|| closes_at(activity))
}

fn dispatch(scheduled_id: i64, activity: &Activity) -> Dispatch {
    let (attempt, stamp) = (activity.attempt, activity.stamp);
    Dispatch::Activity { queue: activity.task_queue.clone(), scheduled_id, attempt, stamp }
}

pub(super) fn timeout_failure(message: String, kind: TimeoutType) -> Failure {
    Failure {
        message,
        source: "Server".to_owned(),
        failure_info: Some(FailureInfo::TimeoutFailureInfo(TimeoutFailureInfo {
            timeout_type: kind as i32,
            ..TimeoutFailureInfo::default()
        })),
        ..Failure::default()
    }
}

pub(crate) fn activity_not_found() -> ServiceError {
    ServiceError::not_found("invalid activityID or activity already timed out or invoking workflow is completed")
}
