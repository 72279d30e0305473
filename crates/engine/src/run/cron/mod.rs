//! `cron_schedule`: when the next run of a chain starts.

mod expression;

use self::expression::Expression;
use crate::{
    service_error::ServiceError,
    time::{Nanos, SECOND},
};

/// Rejects an expression that cannot be read or matches no time.
pub(crate) fn check(expression: &str, now: Nanos) -> Result<(), ServiceError> {
    if expression.is_empty() {
        return Ok(());
    }
    match Expression::parse(expression) {
        None => Err(ServiceError::invalid("invalid CronSchedule.")),
        Some(parsed) if parsed.next(now).is_none() => {
            Err(ServiceError::invalid("invalid CronSchedule, no time can be found to satisfy the schedule"))
        }
        Some(_) => Ok(()),
    }
}

/// How long the next run waits, in whole seconds; `None` if there is no next run. Times that passed during the run are
/// left out.
pub(crate) fn backoff(expression: &str, execution_time: Nanos, now: Nanos) -> Option<Nanos> {
    let parsed = Expression::parse(expression)?;
    let mut next = if now < execution_time { execution_time } else { parsed.next(execution_time)? };
    while next < now {
        next = parsed.next(next)?;
    }
    Some((next - now + SECOND - 1) / SECOND * SECOND)
}

/// How long the first run waits.
pub(crate) fn first_backoff(expression: &str, now: Nanos) -> Nanos {
    backoff(expression, now, now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Nanos = 3600 * SECOND;

    #[test]
    fn the_next_run_waits_for_the_next_time_after_now() {
        assert_eq!(first_backoff("@every 10s", 5 * SECOND), 10 * SECOND);
        assert_eq!(first_backoff("0 * * * *", SECOND + 1), HOUR - SECOND);
        // A run that took longer than the interval.
        assert_eq!(backoff("@every 10s", 0, 35 * SECOND), Some(5 * SECOND));
        assert_eq!(backoff("@every 10s", 0, 5 * SECOND + 1), Some(5 * SECOND));
        // A run that ended before its own time, because it was signalled.
        assert_eq!(backoff("0 * * * *", HOUR, 0), Some(HOUR));
        assert_eq!(backoff("", 0, 0), None);
    }

    #[test]
    fn bad_expressions_have_the_servers_texts() {
        for (expression, error) in [
            ("x", "invalid CronSchedule."),
            ("TZ=UTC", "invalid CronSchedule."),
            ("0 0 30 2 *", "invalid CronSchedule, no time can be found to satisfy the schedule"),
        ] {
            assert_eq!(check(expression, 0), Err(ServiceError::invalid(error)), "{expression}");
        }
        assert_eq!(check("", 0), Ok(()));
        assert_eq!(check("CRON_TZ=Asia/Tokyo */5 0-3 * JAN mon,FRI", 0), Ok(()));
    }
}
