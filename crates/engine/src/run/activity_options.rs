//! Changing the options of pending activities: timeouts, retry policy, task queue, priority.

use std::collections::BTreeSet;

use prost_wkt_types::FieldMask;
use temporalio_protos::temporal::api::{
    activity::v1::ActivityOptions,
    command::v1::ScheduleActivityTaskCommandAttributes,
    common::v1::{Priority, RetryPolicy},
    history::v1::ActivityTaskScheduledEventAttributes,
    taskqueue::v1::TaskQueue,
};

use super::{
    Env, Run,
    commands::{activity_timeouts, user_queue},
    retry,
    state::Activity,
};
use crate::{
    service_error::ServiceError,
    time::{Nanos, duration, span},
};

/// What becomes of an activity's options.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OptionsChange {
    /// The named fields of these options.
    Merge { options: Box<ActivityOptions>, fields: BTreeSet<String> },
    /// Those of the scheduled event.
    Restore,
}

impl Run {
    /// Changes the options of an activity and schedules its attempt by them, unless a worker has it. Returns the new
    /// options.
    pub(crate) fn change_activity_options(
        &mut self,
        env: &Env<'_>,
        id: i64,
        change: &OptionsChange,
        original: Option<&ActivityTaskScheduledEventAttributes>,
    ) -> Result<ActivityOptions, ServiceError> {
        let Some(activity) = self.state.activities.get_mut(&id) else {
            return Err(super::activity_pauses::no_such_activity());
        };
        let options = match change {
            OptionsChange::Merge { options, fields } => merged(env, activity, options, fields)?,
            OptionsChange::Restore => original.map(options_of).unwrap_or_default(),
        };
        apply(activity, &options);
        activity.priority = options.priority.clone();
        if activity.is_scheduled() {
            let at = next_scheduled_time(activity);
            self.schedule_again(env, id, at);
        }
        self.touch();
        Ok(options)
    }

    /// Refuses a change that would be refused for this activity.
    pub(crate) fn check_activity_options(
        &self,
        env: &Env<'_>,
        id: i64,
        change: &OptionsChange,
    ) -> Result<(), ServiceError> {
        match (self.state.activities.get(&id), change) {
            (Some(activity), OptionsChange::Merge { options, fields }) => {
                merged(env, activity, options, fields).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The options of the scheduled event, as a reset restores them: without the priority.
    pub(crate) fn restore_activity_options(&mut self, id: i64, original: &ActivityTaskScheduledEventAttributes) {
        if let Some(activity) = self.state.activities.get_mut(&id) {
            apply(activity, &options_of(original));
        }
    }
}

/// The fields of a mask as `taskQueue.name`.
pub(crate) fn mask_fields(mask: &FieldMask) -> BTreeSet<String> {
    mask.paths.iter().map(|path| path.split('.').map(camel).collect::<Vec<_>>().join(".")).collect()
}

fn camel(part: &str) -> String {
    let mut words = part.split('_');
    let first = words.next().map(|word| recased(word, |c| c.to_ascii_lowercase())).unwrap_or_default();
    words.fold(first, |name, word| name + &recased(&word.to_lowercase(), |c| c.to_ascii_uppercase()))
}

/// The word with another first letter.
fn recased(word: &str, first: impl Fn(char) -> char) -> String {
    let mut letters = word.chars();
    letters.next().map(first).into_iter().chain(letters).collect()
}

fn merged(
    env: &Env<'_>,
    activity: &Activity,
    from: &ActivityOptions,
    fields: &BTreeSet<String>,
) -> Result<ActivityOptions, ServiceError> {
    let mut options = current_options(activity);
    merge(&mut options, from, fields)?;
    if fields.iter().any(|field| field.starts_with("retryPolicy.")) {
        retry::check(options.retry_policy.get_or_insert_default())?;
    }
    let invalid = ServiceError::InvalidArgument;
    let queue = user_queue(options.task_queue.as_ref(), "", env).map_err(invalid)?;
    let mut command = ScheduleActivityTaskCommandAttributes {
        activity_id: activity.id.clone(),
        schedule_to_close_timeout: options.schedule_to_close_timeout,
        schedule_to_start_timeout: options.schedule_to_start_timeout,
        start_to_close_timeout: options.start_to_close_timeout,
        heartbeat_timeout: options.heartbeat_timeout,
        ..ScheduleActivityTaskCommandAttributes::default()
    };
    let timeouts = activity_timeouts(&mut command, 0, &activity.kind).map_err(invalid)?;
    options.task_queue = Some(queue);
    options.schedule_to_close_timeout = Some(duration(timeouts.schedule_to_close));
    options.schedule_to_start_timeout = Some(duration(timeouts.schedule_to_start));
    options.start_to_close_timeout = Some(duration(timeouts.start_to_close));
    options.heartbeat_timeout = Some(duration(timeouts.heartbeat));
    Ok(options)
}

fn merge(into: &mut ActivityOptions, from: &ActivityOptions, fields: &BTreeSet<String>) -> Result<(), ServiceError> {
    let changes = |field: &str| fields.contains(field);
    if changes("taskQueue.name") {
        let queue = from.task_queue.as_ref().ok_or_else(|| missing("TaskQueue"))?;
        into.task_queue.get_or_insert_default().name.clone_from(&queue.name);
    }
    for (field, into, from) in [
        ("scheduleToCloseTimeout", &mut into.schedule_to_close_timeout, from.schedule_to_close_timeout),
        ("scheduleToStartTimeout", &mut into.schedule_to_start_timeout, from.schedule_to_start_timeout),
        ("startToCloseTimeout", &mut into.start_to_close_timeout, from.start_to_close_timeout),
        ("heartbeatTimeout", &mut into.heartbeat_timeout, from.heartbeat_timeout),
    ] {
        if changes(field) {
            *into = from;
        }
    }
    merge_priority(into, from.priority.as_ref(), &changes)?;
    merge_policy(into, from.retry_policy.as_ref(), &changes)
}

fn merge_priority(
    into: &mut ActivityOptions,
    from: Option<&Priority>,
    changes: &dyn Fn(&str) -> bool,
) -> Result<(), ServiceError> {
    if changes("priority") {
        into.priority = from.cloned();
    }
    for field in ["priority.priorityKey", "priority.fairnessKey", "priority.fairnessWeight"] {
        if !changes(field) {
            continue;
        }
        let from = from.ok_or_else(|| missing("Priority"))?;
        let into = into.priority.get_or_insert_default();
        match field {
            "priority.priorityKey" => into.priority_key = from.priority_key,
            "priority.fairnessKey" => into.fairness_key.clone_from(&from.fairness_key),
            _ => into.fairness_weight = from.fairness_weight,
        }
    }
    Ok(())
}

fn merge_policy(
    into: &mut ActivityOptions,
    from: Option<&RetryPolicy>,
    changes: &dyn Fn(&str) -> bool,
) -> Result<(), ServiceError> {
    if changes("retryPolicy") {
        into.retry_policy = Some(from.ok_or_else(|| missing("RetryPolicy"))?.clone());
    }
    for field in ["initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts"] {
        if !changes(&format!("retryPolicy.{field}")) {
            continue;
        }
        let from = from.ok_or_else(|| missing("RetryPolicy"))?;
        let into = into.retry_policy.get_or_insert_default();
        match field {
            "initialInterval" => into.initial_interval = from.initial_interval,
            "backoffCoefficient" => into.backoff_coefficient = from.backoff_coefficient,
            "maximumInterval" => into.maximum_interval = from.maximum_interval,
            _ => into.maximum_attempts = from.maximum_attempts,
        }
    }
    Ok(())
}

fn missing(what: &str) -> ServiceError {
    ServiceError::InvalidArgument(format!("{what} is not provided"))
}

fn current_options(activity: &Activity) -> ActivityOptions {
    let policy = activity.retry_policy.clone().unwrap_or_default();
    ActivityOptions {
        task_queue: Some(TaskQueue { name: activity.task_queue.clone(), ..TaskQueue::default() }),
        schedule_to_close_timeout: Some(duration(activity.schedule_to_close)),
        schedule_to_start_timeout: Some(duration(activity.schedule_to_start)),
        start_to_close_timeout: Some(duration(activity.start_to_close)),
        heartbeat_timeout: Some(duration(activity.heartbeat_timeout)),
        retry_policy: Some(RetryPolicy { non_retryable_error_types: Vec::new(), ..policy }),
        priority: activity.priority.clone(),
        ..ActivityOptions::default()
    }
}

fn options_of(scheduled: &ActivityTaskScheduledEventAttributes) -> ActivityOptions {
    let queue = scheduled.task_queue.clone().unwrap_or_default().name;
    ActivityOptions {
        task_queue: Some(TaskQueue { name: queue, ..TaskQueue::default() }),
        schedule_to_close_timeout: scheduled.schedule_to_close_timeout,
        schedule_to_start_timeout: scheduled.schedule_to_start_timeout,
        start_to_close_timeout: scheduled.start_to_close_timeout,
        heartbeat_timeout: scheduled.heartbeat_timeout,
        retry_policy: scheduled.retry_policy.clone(),
        priority: scheduled.priority.clone(),
        ..ActivityOptions::default()
    }
}

/// Everything but the priority. Which failures are not retried never changes, nor does the limit for retries.
fn apply(activity: &mut Activity, options: &ActivityOptions) {
    let until = super::activities::retries_until(activity);
    activity.retries_until = Some(until);
    activity.task_queue = options.task_queue.clone().unwrap_or_default().name;
    activity.schedule_to_close = span(options.schedule_to_close_timeout.as_ref());
    activity.schedule_to_start = span(options.schedule_to_start_timeout.as_ref());
    activity.start_to_close = span(options.start_to_close_timeout.as_ref());
    activity.heartbeat_timeout = span(options.heartbeat_timeout.as_ref());
    let given = options.retry_policy.clone().unwrap_or_default();
    let policy = activity.retry_policy.get_or_insert_default();
    let non_retryable_error_types = std::mem::take(&mut policy.non_retryable_error_types);
    *policy = RetryPolicy { non_retryable_error_types, ..given };
    activity.stamp += 1;
}

/// When the current attempt is due by the retry policy.
fn next_scheduled_time(activity: &Activity) -> Nanos {
    let policy = activity.retry_policy.clone().unwrap_or_default();
    if activity.attempt <= 1 {
        return activity.scheduled_time;
    }
    let first = span(policy.initial_interval.as_ref());
    let longest = span(policy.maximum_interval.as_ref());
    let interval = retry::exponential(first, policy.backoff_coefficient, activity.attempt);
    let interval = if longest != 0 && (interval <= 0 || interval > longest) { longest } else { interval };
    match interval {
        ..=0 => activity.scheduled_time,
        interval => activity.last_attempt_complete_time.saturating_add(interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_fields_as_json_or_as_in_the_proto_file() {
        for (path, field) in [
            ("heartbeat_timeout", "heartbeatTimeout"),
            ("heartbeatTimeout", "heartbeatTimeout"),
            ("retry_policy.maximum_attempts", "retryPolicy.maximumAttempts"),
            ("retryPolicy.maximumAttempts", "retryPolicy.maximumAttempts"),
            ("TaskQueue.Name", "taskQueue.name"),
            ("", ""),
        ] {
            let mask = FieldMask { paths: vec![path.to_owned()] };
            assert_eq!(mask_fields(&mask), BTreeSet::from([field.to_owned()]), "{path}");
        }
    }

    #[test]
    fn only_the_named_fields_change() {
        let policy =
            |attempts| RetryPolicy { maximum_attempts: attempts, backoff_coefficient: 2.0, ..Default::default() };
        let mut into = ActivityOptions {
            heartbeat_timeout: Some(duration(1)),
            start_to_close_timeout: Some(duration(2)),
            retry_policy: Some(policy(3)),
            ..ActivityOptions::default()
        };
        let from = ActivityOptions {
            heartbeat_timeout: Some(duration(10)),
            start_to_close_timeout: Some(duration(20)),
            retry_policy: Some(RetryPolicy { maximum_attempts: 30, ..Default::default() }),
            ..ActivityOptions::default()
        };
        let fields = ["heartbeatTimeout", "retryPolicy.maximumAttempts", "unknown"].map(str::to_owned);
        let expected =
            ActivityOptions { heartbeat_timeout: Some(duration(10)), retry_policy: Some(policy(30)), ..into.clone() };
        merge(&mut into, &from, &BTreeSet::from(fields)).unwrap();
        assert_eq!(into, expected);

        let queue = BTreeSet::from(["taskQueue.name".to_owned()]);
        let refused = merge(&mut into, &from, &queue).unwrap_err();
        assert_eq!(refused, ServiceError::InvalidArgument("TaskQueue is not provided".to_owned()));
    }
}
