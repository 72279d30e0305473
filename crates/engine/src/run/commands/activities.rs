//! Activities, timers and markers.

#![allow(deprecated, reason = "history contains fields of the older versioning API")]

use std::sync::Arc;

use prost::Message as _;
use temporalio_protos::temporal::api::{
    command::v1::{
        CancelTimerCommandAttributes, RecordMarkerCommandAttributes, RequestCancelActivityTaskCommandAttributes,
        ScheduleActivityTaskCommandAttributes, StartTimerCommandAttributes,
    },
    common::v1::{Payload, Payloads},
    enums::v1::WorkflowTaskFailedCause as Cause,
    history::v1::{
        ActivityTaskCancelRequestedEventAttributes, ActivityTaskScheduledEventAttributes,
        MarkerRecordedEventAttributes, TimerCanceledEventAttributes, TimerStartedEventAttributes,
        history_event::Attributes,
    },
    taskqueue::v1::TaskQueue,
};

use super::{Batch, Rejected};
use crate::{
    run::{
        Env, Run, retry,
        state::{Activity, Timer},
        task::normal_queue,
    },
    time::{Nanos, check_span, duration, span},
};

impl Run {
    pub(super) fn schedule_activity(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        mut command: ScheduleActivityTaskCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadScheduleActivityAttributes;
        let bad = |detail: String| Err(Rejected::task(CAUSE, detail));
        let queue = match user_queue(command.task_queue.as_ref(), "", env) {
            Ok(queue) => queue,
            Err(problem) => return bad(problem),
        };
        let kind = command.activity_type.clone().unwrap_or_default().name;
        if command.activity_id.is_empty() {
            return bad("activityId is not set".to_owned());
        }
        if kind.is_empty() {
            return bad("activityType is not set".to_owned());
        }
        let mut policy = command.retry_policy.take().unwrap_or_default();
        retry::complete(&mut policy);
        if let Err(error) = retry::check(&mut policy) {
            return bad(error.to_string());
        }
        for (name, value) in [("activityId", &command.activity_id), ("activityType", &kind)] {
            let (length, limit) = (value.len(), env.limits.id_length);
            if length > limit {
                return bad(format!("{name} exceeds length limit. Length={length} Limit={limit}"));
            }
        }
        let timeouts = match activity_timeouts(&mut command, span(self.state.run_timeout.as_ref()), &kind) {
            Ok(timeouts) => timeouts,
            Err(problem) => return bad(problem),
        };
        if command.input.as_ref().is_some_and(|input| input.encoded_len() > env.limits.blob_bytes) {
            let detail = "ScheduleActivityTaskCommandAttributes.Input exceeds size limit.";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        let (pending, limit) = (self.state.activities.len(), env.limits.pending_activities);
        if pending >= limit {
            return Err(Rejected::task(Cause::PendingActivitiesLimitExceeded, too_many("activities", pending, limit)));
        }
        if self.activity_by_id(&command.activity_id).is_some() {
            let detail =
                invalid_action("add-activitytask-scheduled-event", &format!("ActivityID: {}", command.activity_id));
            return Err(Rejected::task(Cause::ScheduleActivityDuplicateId, detail));
        }

        let activity = Activity {
            id: command.activity_id.clone(),
            kind,
            task_queue: queue.name.clone(),
            attempt: 1,
            first_scheduled_time: env.now,
            scheduled_time: env.now,
            schedule_to_close: timeouts.schedule_to_close,
            schedule_to_start: timeouts.schedule_to_start,
            start_to_close: timeouts.start_to_close,
            heartbeat_timeout: timeouts.heartbeat,
            retry_policy: Some(policy.clone()),
            priority: command.priority.clone(),
            ..Activity::default()
        };
        let attributes = ActivityTaskScheduledEventAttributes {
            activity_id: command.activity_id,
            activity_type: command.activity_type,
            task_queue: Some(queue),
            header: command.header,
            input: command.input,
            schedule_to_close_timeout: Some(duration(timeouts.schedule_to_close)),
            schedule_to_start_timeout: Some(duration(timeouts.schedule_to_start)),
            start_to_close_timeout: Some(duration(timeouts.start_to_close)),
            heartbeat_timeout: Some(duration(timeouts.heartbeat)),
            workflow_task_completed_event_id: batch.completed_id,
            retry_policy: Some(policy),
            use_workflow_build_id: command.use_workflow_build_id,
            priority: command.priority,
        };
        let remembered = Arc::new(attributes.clone());
        let scheduled_id = self.write(env, Attributes::ActivityTaskScheduledEventAttributes(attributes));
        self.state.activities.insert(scheduled_id, activity);
        self.memory.scheduled.insert(scheduled_id, remembered);
        if command.request_eager_execution {
            batch.eager.push(scheduled_id);
        } else {
            self.dispatch_activity(scheduled_id);
        }
        Ok(())
    }

    pub(super) fn request_cancel_activity(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: RequestCancelActivityTaskCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadRequestCancelActivityAttributes;
        let scheduled_id = command.scheduled_event_id;
        if scheduled_id <= 0 {
            let detail = "ScheduledEventId is not set on RequestCancelActivityTaskCommand.";
            return Err(Rejected::task(CAUSE, detail));
        }
        let may_be_asked = match self.state.activities.get(&scheduled_id) {
            Some(activity) => !activity.cancel_requested,
            None => self.has_just_finished(scheduled_id),
        };
        if !may_be_asked {
            let detail = format!("ScheduledEventID: {scheduled_id}");
            return Err(Rejected::task(CAUSE, invalid_action("add-activitytask-cancel-requested-event", &detail)));
        }
        let attributes = ActivityTaskCancelRequestedEventAttributes {
            scheduled_event_id: scheduled_id,
            workflow_task_completed_event_id: batch.completed_id,
        };
        let requested_id = self.write(env, Attributes::ActivityTaskCancelRequestedEventAttributes(attributes));
        let Some(activity) = self.state.activities.get_mut(&scheduled_id) else { return Ok(()) };
        activity.cancel_requested = true;
        activity.cancel_requested_id = requested_id;
        if !activity.is_started() {
            self.take_activity(scheduled_id);
            batch.eager.retain(|eager| *eager != scheduled_id);
            self.changes.dispatches.retain(|dispatch| {
                !matches!(dispatch, crate::run::Dispatch::Activity { scheduled_id: id, .. } if *id == scheduled_id)
            });
            let details = Some(text("ACTIVITY_ID_NOT_STARTED"));
            self.activity_cancelled(env, scheduled_id, requested_id, details, batch.identity);
            batch.cancelled_unstarted = true;
        }
        Ok(())
    }

    /// The activity closed while the worker was processing the task.
    fn has_just_finished(&self, scheduled_id: i64) -> bool {
        use Attributes as A;
        self.state.buffered.iter().any(|event| match &event.attributes {
            Some(A::ActivityTaskCompletedEventAttributes(it)) => it.scheduled_event_id == scheduled_id,
            Some(A::ActivityTaskFailedEventAttributes(it)) => it.scheduled_event_id == scheduled_id,
            Some(A::ActivityTaskTimedOutEventAttributes(it)) => it.scheduled_event_id == scheduled_id,
            Some(A::ActivityTaskCanceledEventAttributes(it)) => it.scheduled_event_id == scheduled_id,
            _ => false,
        })
    }

    pub(super) fn start_timer(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        mut command: StartTimerCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadStartTimerAttributes;
        timer_id(&command.timer_id, "StartTimerCommand", CAUSE, env)?;
        if let Err(problem) = check_span(&mut command.start_to_fire_timeout) {
            let id = &command.timer_id;
            let detail = format!("An invalid StartToFireTimeout is set on StartTimerCommand: {problem}. TimerId={id}");
            return Err(Rejected::task(CAUSE, detail));
        }
        if self.state.timers.contains_key(&command.timer_id) {
            let detail = invalid_action("add-timer-started-event", &format!("TimerID: {}", command.timer_id));
            return Err(Rejected::task(Cause::StartTimerDuplicateId, detail));
        }
        let fires = env.now.saturating_add(span(command.start_to_fire_timeout.as_ref()));
        let attributes = TimerStartedEventAttributes {
            timer_id: command.timer_id.clone(),
            start_to_fire_timeout: command.start_to_fire_timeout,
            workflow_task_completed_event_id: batch.completed_id,
        };
        let started_id = self.write(env, Attributes::TimerStartedEventAttributes(attributes));
        self.state.timers.insert(command.timer_id, Timer { started_id, fires });
        Ok(())
    }

    /// Cancels a timer, also one that fired while the worker was processing the task.
    pub(super) fn cancel_timer(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: CancelTimerCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadCancelTimerAttributes;
        timer_id(&command.timer_id, "CancelTimerCommand", CAUSE, env)?;
        let started_id = match self.state.timers.remove(&command.timer_id) {
            Some(timer) => timer.started_id,
            None => match self.take_fired_timer(&command.timer_id) {
                Some(started_id) => started_id,
                None => {
                    let detail = invalid_action("add-timer-canceled-event", &format!("TimerID: {}", command.timer_id));
                    return Err(Rejected::task(CAUSE, detail));
                }
            },
        };
        let attributes = TimerCanceledEventAttributes {
            timer_id: command.timer_id,
            started_event_id: started_id,
            workflow_task_completed_event_id: batch.completed_id,
            identity: batch.identity.to_owned(),
        };
        self.write(env, Attributes::TimerCanceledEventAttributes(attributes));
        batch.has_new_events = batch.has_new_events && !self.state.buffered.is_empty();
        Ok(())
    }

    fn take_fired_timer(&mut self, id: &str) -> Option<i64> {
        let index = self.state.buffered.iter().position(|event| {
            matches!(&event.attributes, Some(Attributes::TimerFiredEventAttributes(fired)) if fired.timer_id == id)
        })?;
        match self.state.buffered.remove(index).attributes {
            Some(Attributes::TimerFiredEventAttributes(fired)) => Some(fired.started_event_id),
            _ => None,
        }
    }

    pub(super) fn record_marker(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: RecordMarkerCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadRecordMarkerAttributes;
        let (name, limit) = (&command.marker_name, env.limits.id_length);
        if name.is_empty() {
            return Err(Rejected::task(CAUSE, "MarkerName is not set on RecordMarkerCommand."));
        }
        if name.len() > limit {
            let detail = format!(
                "MarkerName on RecordMarkerCommand exceeds length limit. MarkerName={name} Length={} Limit={limit}",
                name.len()
            );
            return Err(Rejected::task(CAUSE, detail));
        }
        let size: usize = command.details.iter().map(|(key, value)| key.len() + value.encoded_len()).sum();
        if size > env.limits.blob_bytes {
            return Err(Rejected::fatal(CAUSE, "RecordMarkerCommandAttributes.Details exceeds size limit."));
        }
        let attributes = MarkerRecordedEventAttributes {
            marker_name: command.marker_name,
            details: command.details,
            workflow_task_completed_event_id: batch.completed_id,
            header: command.header,
            failure: command.failure,
        };
        self.write(env, Attributes::MarkerRecordedEventAttributes(attributes));
        Ok(())
    }
}

fn invalid_action(action: &str, detail: &str) -> String {
    format!("invalid history builder state for action: {action}, {detail}")
}

fn timer_id(id: &str, command: &str, cause: Cause, env: &Env<'_>) -> Result<(), Rejected> {
    let (length, limit) = (id.len(), env.limits.id_length);
    if id.is_empty() {
        return Err(Rejected::task(cause, format!("TimerId is not set on {command}.")));
    }
    if length > limit {
        let detail = format!("TimerId on {command} exceeds length limit. TimerId={id} Length={length} Limit={limit}");
        return Err(Rejected::task(cause, detail));
    }
    Ok(())
}

/// The task queue of a command, or the default.
pub(in crate::run) fn user_queue(queue: Option<&TaskQueue>, default: &str, env: &Env<'_>) -> Result<TaskQueue, String> {
    let name = queue.map(|queue| queue.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(default);
    let limit = env.limits.id_length;
    if name.is_empty() {
        return Err("missing task queue name".to_owned());
    }
    if name.len() > limit {
        return Err("taskQueue length exceeds limit".to_owned());
    }
    if name.starts_with("/_sys/") {
        return Err("task queue name cannot start with reserved prefix /_sys/".to_owned());
    }
    Ok(normal_queue(name))
}

pub(super) fn too_many(what: &str, pending: usize, limit: usize) -> String {
    format!("the number of pending {what}, {pending}, has reached the per-workflow limit of {limit}")
}

pub(in crate::run) struct Timeouts {
    pub(in crate::run) schedule_to_close: Nanos,
    pub(in crate::run) schedule_to_start: Nanos,
    pub(in crate::run) start_to_close: Nanos,
    pub(in crate::run) heartbeat: Nanos,
}

/// Fills in missing timeouts of an activity and limits them to the run's timeout.
pub(in crate::run) fn activity_timeouts(
    command: &mut ScheduleActivityTaskCommandAttributes,
    run: Nanos,
    kind: &str,
) -> Result<Timeouts, String> {
    let named = [
        ("ScheduleToCloseTimeout", &mut command.schedule_to_close_timeout),
        ("ScheduleToStartTimeout", &mut command.schedule_to_start_timeout),
        ("StartToCloseTimeout", &mut command.start_to_close_timeout),
        ("HeartbeatTimeout", &mut command.heartbeat_timeout),
    ];
    for (name, timeout) in named {
        check_span(timeout).map_err(|problem| format!("invalid {name}: {problem}"))?;
    }
    let mut close = span(command.schedule_to_close_timeout.as_ref());
    let mut start = span(command.schedule_to_start_timeout.as_ref());
    let mut attempt = span(command.start_to_close_timeout.as_ref());
    let mut heartbeat = span(command.heartbeat_timeout.as_ref());
    let within = |value: Nanos, bound: Nanos| if value == 0 { bound } else { value.min(bound) };
    if close > 0 {
        start = within(start, close);
        attempt = within(attempt, close);
    } else if attempt > 0 {
        close = run;
        if start == 0 {
            start = run;
        }
    } else {
        return Err(format!(
            "a valid StartToCloseTimeout or ScheduleToCloseTimeout must be set on the activity. ActivityId={} \
             ActivityType={kind}",
            command.activity_id
        ));
    }
    if run > 0 {
        for value in [&mut close, &mut start, &mut attempt, &mut heartbeat] {
            *value = (*value).min(run);
        }
    }
    heartbeat = heartbeat.min(attempt);
    Ok(Timeouts { schedule_to_close: close, schedule_to_start: start, start_to_close: attempt, heartbeat })
}

/// A text as a payload of its own.
pub(crate) fn text(text: &str) -> Payloads {
    let payload = Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: format!("\"{text}\"").into_bytes(),
        ..Payload::default()
    };
    Payloads { payloads: vec![payload] }
}
