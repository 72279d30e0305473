//! Retry policies: whether there is another attempt, and when.

use temporalio_protos::temporal::api::{
    common::v1::RetryPolicy,
    enums::v1::{RetryState, TimeoutType},
    failure::v1::{Failure, failure::FailureInfo},
};

use crate::{
    service_error::ServiceError,
    time::{Nanos, SECOND, check_span, duration, span},
};

const TIMEOUT_PREFIX: &str = "TemporalTimeout:";

/// Fills in the defaults of a policy.
pub(crate) fn complete(policy: &mut RetryPolicy) {
    if span(policy.initial_interval.as_ref()) == 0 {
        policy.initial_interval = Some(duration(SECOND));
    }
    if span(policy.maximum_interval.as_ref()) == 0 {
        policy.maximum_interval = Some(duration(span(policy.initial_interval.as_ref()).saturating_mul(100)));
    }
    if policy.backoff_coefficient == 0.0 {
        policy.backoff_coefficient = 2.0;
    }
}

pub(crate) fn check(policy: &mut RetryPolicy) -> Result<(), ServiceError> {
    if policy.maximum_attempts == 1 {
        return Ok(());
    }
    let bad = |message: String| Err(ServiceError::InvalidArgument(message));
    if let Err(problem) = check_span(&mut policy.initial_interval) {
        return bad(format!("invalid InitialInterval set on retry policy: {problem}"));
    }
    if policy.backoff_coefficient < 1.0 {
        return bad("BackoffCoefficient cannot be less than 1 on retry policy.".to_owned());
    }
    if let Err(problem) = check_span(&mut policy.maximum_interval) {
        return bad(format!("invalid MaximumInterval set on retry policy: {problem}"));
    }
    let (first, longest) = (span(policy.initial_interval.as_ref()), span(policy.maximum_interval.as_ref()));
    if longest > 0 && longest < first {
        return bad("MaximumInterval cannot be less than InitialInterval on retry policy.".to_owned());
    }
    if policy.maximum_attempts < 0 {
        return bad("MaximumAttempts cannot be negative on retry policy.".to_owned());
    }
    for kind in &policy.non_retryable_error_types {
        if let Some(timeout) = kind.strip_prefix(TIMEOUT_PREFIX)
            && timeout_named(timeout).is_none()
        {
            return bad(format!("Invalid timeout type value: {timeout}."));
        }
    }
    Ok(())
}

fn timeout_named(name: &str) -> Option<TimeoutType> {
    let all =
        [TimeoutType::StartToClose, TimeoutType::ScheduleToStart, TimeoutType::ScheduleToClose, TimeoutType::Heartbeat];
    all.into_iter().find(|kind| timeout_name(*kind) == name || kind.as_str_name() == name)
}

/// The name in error texts.
pub(crate) fn timeout_name(kind: TimeoutType) -> &'static str {
    match kind {
        TimeoutType::StartToClose => "StartToClose",
        TimeoutType::ScheduleToStart => "ScheduleToStart",
        TimeoutType::ScheduleToClose => "ScheduleToClose",
        TimeoutType::Heartbeat => "Heartbeat",
        TimeoutType::Unspecified => "Unspecified",
    }
}

/// What is retried. A delay that a failure asks for replaces the longest interval of activities, not that of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retried {
    Activity,
    Run,
}

/// The backoff before the next attempt, or why there is none. A delay of zero is treated as the real server does it:
/// activities are not retried, runs wait for the longest interval.
pub(crate) fn backoff(
    retried: Retried,
    policy: &RetryPolicy,
    attempt: i32,
    failure: Option<&Failure>,
    now: Nanos,
    expires: Nanos,
) -> Result<Nanos, RetryState> {
    if failure.is_some_and(|failure| !is_retryable(failure, &policy.non_retryable_error_types)) {
        return Err(RetryState::NonRetryableFailure);
    }
    let attempt = attempt.max(1);
    if policy.maximum_attempts > 0 && attempt >= policy.maximum_attempts {
        return Err(RetryState::MaximumAttemptsReached);
    }
    let asked = failure.and_then(asked_delay);
    let longest = match asked {
        Some(delay) if retried == Retried::Activity => delay,
        _ => span(policy.maximum_interval.as_ref()),
    };
    let interval = asked
        .unwrap_or_else(|| exponential(span(policy.initial_interval.as_ref()), policy.backoff_coefficient, attempt));
    let interval = match (interval, longest) {
        (..=0, 0) => return Err(RetryState::Timeout),
        (interval, 0) => interval,
        (..=0, longest) => longest,
        (interval, longest) => interval.min(longest),
    };
    if expires != 0 && now.saturating_add(interval) > expires {
        return Err(RetryState::Timeout);
    }
    Ok(interval)
}

pub(super) fn exponential(first: Nanos, coefficient: f64, attempt: i32) -> Nanos {
    // The cast saturates, as intended.
    (first as f64 * coefficient.powi(attempt - 1)).max(0.0) as Nanos
}

fn asked_delay(failure: &Failure) -> Option<Nanos> {
    match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => {
            info.next_retry_delay.as_ref().map(|delay| span(Some(delay)))
        }
        _ => None,
    }
}

pub(super) fn is_retryable(failure: &Failure, excluded: &[String]) -> bool {
    match &failure.failure_info {
        Some(FailureInfo::TerminatedFailureInfo(_) | FailureInfo::CanceledFailureInfo(_)) => false,
        Some(FailureInfo::TimeoutFailureInfo(info)) => match info.timeout_type() {
            kind @ (TimeoutType::StartToClose | TimeoutType::Heartbeat) => {
                !excluded.contains(&format!("{TIMEOUT_PREFIX}{}", timeout_name(kind)))
            }
            _ => false,
        },
        Some(FailureInfo::ServerFailureInfo(info)) => !info.non_retryable,
        Some(FailureInfo::ApplicationFailureInfo(info)) => !info.non_retryable && !excluded.contains(&info.r#type),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::failure::v1::ApplicationFailureInfo;

    use super::*;

    #[test]
    fn a_delay_that_a_failure_asks_for() {
        let policy = RetryPolicy {
            initial_interval: Some(duration(10)),
            maximum_interval: Some(duration(40)),
            backoff_coefficient: 2.0,
            ..RetryPolicy::default()
        };
        let wait = |retried, delay: Option<Nanos>| {
            let info = ApplicationFailureInfo { next_retry_delay: delay.map(duration), ..Default::default() };
            let info = FailureInfo::ApplicationFailureInfo(info);
            let failure = Failure { failure_info: Some(info), ..Failure::default() };
            backoff(retried, &policy, 2, Some(&failure), 0, 0)
        };
        for (delay, activity, run) in [
            (None, Ok(20), Ok(20)),
            (Some(30), Ok(30), Ok(30)),
            (Some(50), Ok(50), Ok(40)),
            (Some(0), Err(RetryState::Timeout), Ok(40)),
        ] {
            assert_eq!(wait(Retried::Activity, delay), activity, "{delay:?}");
            assert_eq!(wait(Retried::Run, delay), run, "{delay:?}");
        }
    }
}
